//! Embeds the built console (`console/dist`), each file compressed once, so that the binary serves it without work.
// A build that cannot embed must stop: there is nobody to hand an error to.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// What does not get smaller is embedded as it is.
const PACKED: [&str; 8] = ["png", "jpg", "jpeg", "webp", "gif", "woff", "woff2", "ico"];

/// What is shown when the console was not built before the binary.
const ABSENT: &str = r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Muster</title>
<h1>The console is not in this binary</h1>
<p>It was built without it. Run <code>make console</code>, build again, and reload this page.</p>
<p>The REST API works: see <a href="/wapi/v1/openapi.json">/wapi/v1/openapi.json</a>.</p>
</html>
"#;

fn main() {
    let home = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=MUSTER_CONSOLE_DIST");
    let dist = env::var_os("MUSTER_CONSOLE_DIST").map_or_else(|| home.join("../../console/dist"), PathBuf::from);
    let mut files = BTreeMap::new();
    if dist.join("index.html").is_file() {
        println!("cargo::rerun-if-changed={}", dist.display());
        collect(&dist, "", &mut files);
    } else if let Some(console) = dist.parent().filter(|console| console.is_dir()) {
        // To see it come. A path that does not exist would make every build begin here.
        println!("cargo::rerun-if-changed={}", console.display());
    }
    files.entry("/index.html".to_owned()).or_insert_with(|| ABSENT.as_bytes().to_vec());
    let mut table = format!("static FILES: [File; {}] = [\n", files.len());
    for (number, (path, content)) in files.iter().enumerate() {
        let packed = PACKED.contains(&path.rsplit('.').next().unwrap_or(""));
        let stored = if packed { content.clone() } else { compress(content) };
        let file = out.join(format!("{number}.asset"));
        fs::write(&file, &stored).unwrap();
        let mut hasher = DefaultHasher::new();
        (path, content).hash(&mut hasher);
        writeln!(
            table,
            "    File {{ path: {path:?}, bytes: include_bytes!({file:?}), packed: {}, size: {}, tag: \"\\\"{:016x}\\\"\", plain: OnceLock::new() }},",
            !packed,
            content.len(),
            hasher.finish(),
        )
        .unwrap();
    }
    table.push_str("];\n");
    fs::write(out.join("assets.rs"), table).unwrap();
}

fn collect(folder: &Path, prefix: &str, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().expect("names in console/dist are UTF-8");
        let path = format!("{prefix}/{name}");
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), &path, files);
        } else if !name.ends_with(".map") {
            files.insert(path, fs::read(entry.path()).unwrap());
        }
    }
}

fn compress(content: &[u8]) -> Vec<u8> {
    let params =
        brotli::enc::BrotliEncoderParams { quality: 11, lgwin: 22, size_hint: content.len(), ..Default::default() };
    let mut compressed = Vec::new();
    brotli::BrotliCompress(&mut &*content, &mut compressed, &params).unwrap();
    compressed
}
