//! What `muster new reconciler` makes compiles without a warning, passes its tests and runs; docs/reconcilers.md is followed to the letter.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
};

mod ports;

use ports::free_port;

/// Two cores: one compiler at a time.
static COMPILER: Mutex<()> = Mutex::new(());

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The folder that everything else is built into: what is compiled once serves every run.
fn target() -> PathBuf {
    root().join("target")
}

/// Always the same folder, so that the compiler knows what it finds there.
fn workshop(name: &str) -> PathBuf {
    target().join("generated").join(name)
}

fn cargo(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).current_dir(folder).env("CARGO_TARGET_DIR", target()).env("CARGO_NET_OFFLINE", "true");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {arguments:?}: {said}\n{}", String::from_utf8_lossy(&output.stdout));
}

/// Only what differs: an unchanged file stays as old as it was, and is not compiled again.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if from.is_dir() {
            if !from.ends_with("target") && !from.ends_with("node_modules") {
                copy(&from, &to);
            }
        } else {
            copy_file(&from, &to);
        }
    }
}

fn copy_file(from: &Path, to: &Path) {
    let wanted = fs::read(from).unwrap();
    if fs::read(to).is_ok_and(|there| there == wanted) {
        return;
    }
    fs::write(to, wanted).unwrap();
}

fn muster(folder: &Path, arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_muster")).args(arguments).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn reconcilers_added_to_the_tree_compile_without_a_warning_and_pass_their_tests() {
    // KC-11
    let _turn = COMPILER.lock();
    let folder = workshop("tree");
    for made in ["crates/reconcilers/src", "deploy/samples"] {
        let _ = fs::remove_dir_all(folder.join(made));
    }
    for part in ["crates", "tests", "bench", "deploy"] {
        copy(&root().join(part), &folder.join(part));
    }
    for part in ["Cargo.toml", "Cargo.lock", "clippy.toml", "rustfmt.toml"] {
        copy_file(&root().join(part), &folder.join(part));
    }
    muster(&folder, &["new", "reconciler", "disk-check"]);
    muster(&folder.join("crates"), &["new", "reconciler", "house-move", "--phases", "--kind", "Move"]);
    cargo(&folder, &["fmt", "-p", "muster-reconcilers", "--check"]);
    cargo(&folder, &["clippy", "-p", "muster-reconcilers", "--all-targets", "--", "-D", "warnings"]);
    cargo(&folder, &["test", "-p", "muster-reconcilers", "--lib", "--", "disk_check::", "house_move::"]);
}

/// The fenced blocks of a page: language and text.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push((language.to_owned(), text.join("\n") + "\n"));
        }
    }
    blocks
}

/// Replaces a function of a file by another of the same name.
fn replace_function(file: &str, function: &str) -> String {
    let head = &function[..function.find('(').unwrap()];
    let start = file.find(head).unwrap_or_else(|| panic!("no {head}"));
    let end = start + file[start..].find("\n}\n").unwrap() + 3;
    format!("{}{function}{}", &file[..start], &file[end..])
}

fn kubectl() -> Option<PathBuf> {
    let output = Command::new(root().join("tests/peers/ensure")).arg("kubectl").output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.lines().last()?.trim()).join("kubectl");
    path.is_file().then_some(path)
}

/// Ports for those of the page, which others on this machine may use.
fn free_ports<const N: usize>() -> [u16; N] {
    std::array::from_fn(|_| free_port())
}

/// Runs a part of the page, with what a reader of it has.
fn follow(script: &str, folder: &Path, kubectl: &Path, ports: [(&str, u16); 4]) -> String {
    let mut script =
        format!("set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait || true' EXIT\n{script}");
    for (page, port) in ports {
        script = script.replace(page, &format!(":{port}"));
    }
    let [(_, api), (_, metrics), (_, health), (_, secure)] = ports;
    script =
        script.replace("muster apiserver ", &format!("muster apiserver --insecure-port {api} --secure-port {secure} "));
    let path = std::env::var_os("PATH").unwrap();
    let bins = [Path::new(env!("CARGO_BIN_EXE_muster")), kubectl].map(|program| program.parent().unwrap().to_owned());
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(folder)
        .env("PATH", std::env::join_paths(bins.into_iter().chain(std::env::split_paths(&path))).unwrap())
        .env("MUSTER_SOURCE", root())
        .env("MUSTER_MANAGERS_DEFAULT_API_SERVER", format!("http://127.0.0.1:{api}"))
        .env("MUSTER_MANAGERS_DEFAULT_METRICS_BIND_ADDRESS", metrics.to_string())
        .env("MUSTER_MANAGERS_DEFAULT_HEALTH_BIND_ADDRESS", health.to_string())
        .env("CARGO_TARGET_DIR", target())
        .env("CARGO_NET_OFFLINE", "true")
        .env_remove("KUBECONFIG")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let log = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
    let complained = String::from_utf8_lossy(&output.stderr);
    let logs = format!("{}\n{}", log("apiserver.log"), log("reconciler.log"));
    assert!(output.status.success(), "{said}\n{complained}\n{logs}");
    said
}

#[test]
fn the_page_can_be_followed_to_the_letter() {
    // KC-11
    let _turn = COMPILER.lock();
    let kubectl = kubectl().expect("kubectl, from tests/peers/ensure");
    let page = fs::read_to_string(root().join("docs/reconcilers.md")).unwrap();
    let folder = workshop("page");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let made = folder.join("greeting");
    let [api, metrics, health, secure] = free_ports();
    let ports = [(":6080", api), (":18001", metrics), (":18002", health), (":6443", secure)];
    // Up to the change of the code, then the rest in one go: what it starts shall still run at the end.
    let (mut script, mut expected, mut changed) = (String::new(), String::new(), false);
    for (language, text) in blocks(&page) {
        match language.as_str() {
            "sh" => script.push_str(&text),
            "rust" => {
                follow(&std::mem::take(&mut script), &folder, &kubectl, ports);
                let file = made.join("src/greeting/mod.rs");
                fs::write(&file, replace_function(&fs::read_to_string(&file).unwrap(), &text)).unwrap();
                changed = true;
            }
            "text" => expected.push_str(&text),
            other => panic!("a block of {other:?}"),
        }
    }
    assert!(changed && !expected.is_empty());
    let said = follow(&script, &made, &kubectl, ports);
    // Ages differ; the rest is as the page shows it.
    let columns = |line: &str| line.rsplit_once(' ').map_or("", |(before, _)| before).trim().to_owned();
    for line in expected.lines() {
        assert!(said.lines().any(|found| columns(found) == columns(line)), "no {line:?} in\n{said}");
    }
    assert!(said.contains("[+]caches ok") && said.contains("readyz check passed"), "{said}");
    // What the page made has no warnings either.
    cargo(&made, &["clippy", "--all-targets", "--", "-D", "warnings"]);
    cargo(&made, &["fmt", "--check", "--", "--config", "max_width=120,use_small_heuristics=Max"]);
}
