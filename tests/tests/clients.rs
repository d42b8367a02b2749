//! A Go program on client-go and controller-runtime (`clients/go`), run against both servers: what passes on kube-apiserver passes on us.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::path::Path;
use std::process::Command;

use muster_tests::Peer;
use muster_tests::runner::{chosen_peers, install_panic_hook};

fn main() {
    install_panic_hook();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/go");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clients");
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(&source)
        .env("CGO_ENABLED", "0")
        .status();
    assert!(built.expect("Go builds the clients").success(), "clients/go does not build");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut failed = 0;
    for kind in chosen_peers() {
        let peer = runtime.block_on(Peer::start(kind)).unwrap();
        let output = Command::new("timeout")
            .args(["--signal=KILL", "900"])
            .arg(&program)
            .env("KUBECONFIG", peer.kubeconfig())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        for line in text.lines() {
            let (name, outcome) = match line.split_once(' ') {
                Some(("ok", name)) => (name, "ok"),
                _ => (line, "FAILED"),
            };
            println!("test clients {} on {} ... {outcome}", name, kind.name());
        }
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            let lines: Vec<&str> = errors.lines().collect();
            println!("{}\n{}", lines[lines.len().saturating_sub(30)..].join("\n"), peer.log_tail());
            failed += 1;
        }
        if let Some(panic) = peer.panic_in_log() {
            println!("{} panicked: {panic}", kind.name());
            failed += 1;
        }
    }
    println!("\ntest result: {}. {failed} failed", if failed == 0 { "ok" } else { "FAILED" });
    if failed > 0 {
        std::process::exit(1);
    }
}
