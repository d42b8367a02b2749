//! `muster new reconciler NAME`: a reconciler to start from, which compiles, passes its test and runs.
//!
//! Inside the source tree it becomes a folder of `crates/reconcilers`; elsewhere a crate with a program of its own.

mod names;
mod place;

use std::{fs, path::PathBuf, process::Command};

use clap::{Args, Subcommand};

use self::{
    names::Names,
    place::{Place, Written},
};
use crate::{
    problem::{Kind, Problem},
    say,
};

#[derive(Debug, Subcommand)]
pub enum New {
    /// Make a reconciler to start from: type, reconcile, test, sample
    Reconciler(Reconciler),
}

#[derive(Debug, Args)]
pub struct Reconciler {
    /// What it is called, such as greeting or disk-check
    pub name: String,
    /// The kind it reconciles [default: from the name, such as DiskCheck]
    #[arg(long)]
    pub kind: Option<String>,
    /// The group of the kind
    #[arg(long, default_value = "demo.muster.dev")]
    pub group: String,
    /// The version of the kind
    #[arg(long, default_value = "v1")]
    pub version: String,
    /// As a phase machine: long work in phases that survives restarts
    #[arg(long)]
    pub phases: bool,
    /// Make a crate of its own here, with the framework from this folder (crates/runtime of the source)
    #[arg(long, value_name = "DIR")]
    pub runtime: Option<PathBuf>,
    /// Where to begin [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Files of the plain reconciler and of the phase machine, with names to be filled in.
const PLAIN: [(&str, &str); 2] =
    [("mod.rs", include_str!("templates/plain.rs.txt")), ("types.rs", include_str!("templates/plain_types.rs.txt"))];
const PHASES: [(&str, &str); 2] =
    [("mod.rs", include_str!("templates/phases.rs.txt")), ("types.rs", include_str!("templates/phases_types.rs.txt"))];
const SAMPLE: &str = include_str!("templates/sample.yaml.txt");
const MAIN: &str = include_str!("templates/main.rs.txt");
const MANIFEST: &str = include_str!("templates/Cargo.toml.txt");
const CONFIG: &str = include_str!("templates/config.yaml.txt");
/// The versions we use ourselves.
const WORKSPACE: &str = include_str!("../../../../Cargo.toml");

pub fn run(command: New) -> Result<(), Problem> {
    let New::Reconciler(flags) = command;
    let refused = |why: String| Problem::new(Kind::Usage, "no reconciler was made", why);
    let names = Names::new(&flags).map_err(refused)?;
    let here = match &flags.dir {
        Some(dir) => dir.clone(),
        None => std::env::current_dir().map_err(|e| refused(e.to_string()))?,
    };
    let place = Place::find(&here, flags.runtime.as_deref()).map_err(|why| {
        refused(why).next("run it inside the source tree, or name the framework: --runtime DIR/crates/runtime")
    })?;
    let parts = if flags.phases { &PHASES } else { &PLAIN };
    let files: Vec<(&str, String)> = parts.iter().map(|(name, text)| (*name, names.fill(text))).collect();
    let written = match &place {
        Place::Tree { root } => place::into_tree(root, &names, &files, &names.fill(SAMPLE)),
        Place::Own { folder, runtime } => {
            let manifest = names.fill(MANIFEST).replace("__runtime__", &runtime.display().to_string());
            let more = [
                ("Cargo.toml", place::with_versions(&manifest, WORKSPACE).map_err(refused)?),
                ("src/main.rs", names.fill(MAIN)),
                ("sample.yaml", names.fill(SAMPLE)),
                ("config.yaml", names.fill(CONFIG)),
            ];
            place::own(&folder.join(&names.name), &names, &files, &more)
        }
    };
    let written = written.map_err(refused)?;
    format_all(&written);
    let list: String = written.files.iter().map(|file| format!("  {}\n", file.display())).collect();
    say(&format!("{} made:\n{list}{}", names.name, next_steps(&place, &names)))
}

/// Names of other lengths break lines elsewhere. Without rustfmt the code is right all the same.
fn format_all(written: &Written) {
    let rust = written.files.iter().filter(|file| file.extension().is_some_and(|end| end == "rs") && file.is_file());
    let _ = Command::new("rustfmt")
        .args(["--edition", "2024", "--config", "max_width=120,use_small_heuristics=Max"])
        .args(rust)
        .output();
}

fn next_steps(place: &Place, names: &Names) -> String {
    let (name, module, plural) = (&names.name, &names.module, &names.plural);
    match place {
        Place::Tree { .. } => format!(
            "next:\n  cargo test -p muster-reconcilers {module}\n  cargo run -- crds apply {name}\n  \
             cargo run -- reconciler {name}\n  kubectl apply -f deploy/samples/{name}.yaml && kubectl get {plural}\n"
        ),
        Place::Own { .. } => format!(
            "next:\n  cd {name} && cargo test\n  cargo run -- crds | kubectl apply -f -\n  \
             cargo run -- --config config.yaml\n  kubectl apply -f sample.yaml && kubectl get {plural}\n"
        ),
    }
}

/// Whether a file is there, without following what it says.
fn exists(path: &std::path::Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

#[cfg(test)]
mod tests;
