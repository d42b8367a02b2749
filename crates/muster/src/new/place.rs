//! Where a new reconciler goes, and putting it there: nothing that exists is written over.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{Names, exists};

#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    /// The source tree.
    Tree { root: PathBuf },
    /// A crate of its own below this folder, with the framework from there.
    Own { folder: PathBuf, runtime: PathBuf },
}

#[derive(Debug)]
pub struct Written {
    pub files: Vec<PathBuf>,
}

/// The list of reconcilers in the tree, and the line in it that new ones follow.
const LIST: &str = "crates/reconcilers/src/lib.rs";
const REGISTER: &str = "pub fn register(registry: &mut Registry) {\n";

impl Place {
    pub fn find(here: &Path, runtime: Option<&Path>) -> Result<Place, String> {
        if let Some(runtime) = runtime {
            let given = here.join(runtime);
            let runtime = fs::canonicalize(&given).map_err(|e| format!("{}: {e}", given.display()))?;
            let manifest = fs::read_to_string(runtime.join("Cargo.toml")).unwrap_or_default();
            if !manifest.contains("\"muster-runtime\"") {
                return Err(format!("{} is not the framework: it has no crate muster-runtime", runtime.display()));
            }
            return Ok(Place::Own { folder: here.to_owned(), runtime });
        }
        let absolute = fs::canonicalize(here).map_err(|e| format!("{}: {e}", here.display()))?;
        let root = absolute.ancestors().find(|folder| folder.join(LIST).is_file());
        let root = root.ok_or_else(|| format!("{} is not in the source tree", absolute.display()))?;
        Ok(Place::Tree { root: root.to_owned() })
    }
}

/// A folder of the examples, its line of registration, and a sample.
pub fn into_tree(root: &Path, names: &Names, files: &[(&str, String)], sample: &str) -> Result<Written, String> {
    let list = root.join(LIST);
    let text = fs::read_to_string(&list).map_err(|e| format!("{}: {e}", list.display()))?;
    let listed = with_registration(&text, &names.module)
        .ok_or_else(|| format!("{} has no line {:?} to add the reconciler after", list.display(), REGISTER.trim()))?;
    let folder = root.join("crates/reconcilers/src").join(&names.module);
    let sample_file = root.join("deploy/samples").join(format!("{}.yaml", names.name));
    let mut all: Vec<(PathBuf, &str)> = files.iter().map(|(file, text)| (folder.join(file), text.as_str())).collect();
    all.push((sample_file, sample));
    refuse_existing([&folder].into_iter().chain(all.iter().map(|(path, _)| path)))?;
    let mut written = write_all(&all)?;
    fs::write(&list, listed).map_err(|e| format!("{}: {e}", list.display()))?;
    written.files.push(list);
    Ok(written)
}

/// A crate with a program.
pub fn own(folder: &Path, names: &Names, files: &[(&str, String)], more: &[(&str, String)]) -> Result<Written, String> {
    refuse_existing([&folder.to_owned()])?;
    let module = folder.join("src").join(&names.module);
    let files = files.iter().map(|(file, text)| (module.join(file), text.as_str()));
    let all: Vec<_> = more.iter().map(|(file, text)| (folder.join(file), text.as_str())).chain(files).collect();
    write_all(&all)
}

/// The list with one more module and one more line of registration.
pub fn with_registration(text: &str, module: &str) -> Option<String> {
    let at = text.find(REGISTER)? + REGISTER.len();
    let mut out = format!("{}    {module}::register(registry);\n{}", &text[..at], &text[at..]);
    let line = format!("pub mod {module};\n");
    let mods = out.match_indices("pub mod ").filter(|(at, _)| *at == 0 || out.as_bytes()[at - 1] == b'\n');
    // In the order of the alphabet, as rustfmt wants it.
    let ends: Vec<(usize, usize)> = mods.filter_map(|(at, _)| Some((at, at + out[at..].find('\n')? + 1))).collect();
    let after = ends.iter().find(|(at, end)| out[*at..*end] > *line).map(|(at, _)| *at);
    let place = after.or_else(|| ends.last().map(|(_, end)| *end))?;
    out.insert_str(place, &line);
    Some(out)
}

/// Fills `__version of NAME__` with our own line for that dependency.
pub fn with_versions(manifest: &str, workspace: &str) -> Result<String, String> {
    let mut out = String::new();
    for line in manifest.lines() {
        match line.strip_prefix("__same__ ") {
            None => out.push_str(line),
            Some(name) => {
                let same =
                    workspace.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(" = ")));
                out.push_str(same.ok_or_else(|| format!("our own manifest has no {name}"))?);
            }
        }
        out.push('\n');
    }
    Ok(out)
}

fn refuse_existing<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<(), String> {
    match paths.into_iter().find(|path| exists(path)) {
        Some(path) => Err(format!("{} is there already", path.display())),
        None => Ok(()),
    }
}

fn write_all(files: &[(PathBuf, &str)]) -> Result<Written, String> {
    for (path, text) in files {
        let wrong = |e: std::io::Error| format!("{}: {e}", path.display());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(wrong)?;
        }
        fs::write(path, text).map_err(wrong)?;
    }
    Ok(Written { files: files.iter().map(|(path, _)| path.clone()).collect() })
}
