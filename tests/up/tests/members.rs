//! Real members of a `muster up`: imported, kept over kill -9, taken out; on our API server and on a real Kubernetes.
#![allow(clippy::unwrap_used, clippy::expect_used, unused_crate_dependencies)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use muster_tests::Peer;
use muster_tests_up::{Other, Up, until};
use serde_json::Value;

fn state(up: &Up, name: &str) -> String {
    let (code, out, _) = up.command(&["cluster", "get", name, "-o", "json"]);
    if code != 0 {
        return String::new();
    }
    let row: Value = serde_json::from_str(&out).unwrap();
    row["state"].as_str().unwrap_or_default().to_owned()
}

/// Imports, looks, takes the kubeconfig, survives a kill, takes it out.
fn walk(up: &mut Up) {
    let other = Other::start(up.folder());
    let preview = up.ok(&format!("cluster import prod --kubeconfig {} --dry-run", other.kubeconfig));
    assert!(preview.contains("dry run") && preview.contains("https://127.0.0.1:"), "{preview}");
    assert_eq!(state(up, "prod"), "");
    let said = up.ok(&format!("cluster import prod --kubeconfig {} --label zone=z1 --wait", other.kubeconfig));
    assert!(said.contains("cluster/prod imported") && said.contains("cluster/prod is running"), "{said}");
    assert!(up.ok("cluster get prod").contains("zone=z1"));
    let (code, _, err) = up.command(&["cluster", "import", "prod", "--kubeconfig", &other.kubeconfig]);
    assert!(code == 7 && err.contains("duplicate cluster"), "{code} {err}");

    let file = up.folder().join("prod.kubeconfig");
    // Nothing is made on somebody's cluster unasked.
    let place = file.to_str().unwrap();
    let (code, _, err) = up.command(&["cluster", "kubeconfig", "prod", "-f", place]);
    assert!(code == 7 && err.contains("--create-account read") && !file.exists(), "{code} {err}");
    let (code, out, err) = up.command(&["cluster", "kubeconfig", "prod", "--create-account", "read", "-f", place]);
    assert!(code == 0 && out.is_empty(), "{code} {out}{err}");
    assert!(err.contains("(for 1h) as system:serviceaccount:muster-system:muster-kubeconfig"), "{err}");
    let given = fs::read_to_string(&file).unwrap();
    assert!(given.contains("\"token\"") && !given.contains("client-key-data"), "{given}");
    // It is good for what it says, on the cluster itself.
    let kubectl = |words: &[&str]| {
        let program = muster_tests::peer::ensure(&["kubectl"]).unwrap().join("kubectl");
        let ended = std::process::Command::new(program).args(["--kubeconfig", place]).args(words).output().unwrap();
        (ended.status.success(), String::from_utf8_lossy(&ended.stdout).into_owned())
    };
    assert!(kubectl(&["get", "nodes", "-o", "name"]).1.starts_with("node/"));
    let (may, said) = kubectl(&["auth", "can-i", "delete", "pods"]);
    assert!(!may && said.starts_with("no"), "{said}");
    let (code, out, err) = up.command(&["cluster", "kubeconfig", "prod", "--ttl", "10m"]);
    assert!(code == 0 && out.contains("\"token\"") && err.contains("(for 10m)"), "{code} {err}");
    assert_eq!(up.command(&["cluster", "kubeconfig", "prod", "--ttl", "1m"]).0, 2);
    let (code, out, err) = up.command(&["cluster", "kubeconfig", "prod", "--long-lived"]);
    assert!(code == 0 && out.contains("client-key-data") && err.contains("does not end"), "{code} {err}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::read_to_string(&file).unwrap().contains("https://127.0.0.1:"));
    let (code, _, err) = up.command(&["cluster", "kubeconfig", "prod", "-f", file.to_str().unwrap()]);
    assert!(code == 7 && err.contains("--force"), "{err}");

    up.kill();
    up.start_again();
    until("the member is back", || state(up, "prod") == "Running");
    let said = up.ok("cluster delete prod --yes");
    assert_eq!(said, "cluster/prod deleted\n");
    until("the member is gone", || state(up, "prod").is_empty());
    let log = up.log();
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn a_member_is_imported_survives_a_kill_and_is_taken_out() {
    // SYM-9, SC-9, SC-10
    walk(&mut Up::start(&[]));
}

#[test]
fn the_same_on_a_real_kubernetes() {
    // SYM-9
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let peer = runtime.block_on(Peer::kubernetes()).unwrap();
    let kubeconfig = peer.kubeconfig();
    let mut up = Up::start(&["--kubeconfig", kubeconfig.to_str().unwrap(), "--leader-elect=false"]);
    let namespaces = runtime.block_on(peer.get("/api/v1/namespaces/muster-system"));
    assert_eq!(namespaces.status, 200);
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ats.demo.wukong.com";
    assert_eq!(runtime.block_on(peer.get(crds)).status, 200);
    assert!(!up.data().join("store").exists(), "nothing is kept here");
    walk(&mut up);
    runtime.shutdown_timeout(Duration::from_secs(5));
}

#[test]
fn what_an_imported_kubeconfig_may_not_ask_is_named() {
    // B-13
    let up = Up::start(&[]);
    let hostile = "{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}], \
                   clusters: [{name: c, cluster: {server: 'https://h:1', insecure-skip-tls-verify: true}}], \
                   users: [{name: u, user: {exec: {command: /bin/true}}}]}";
    let import = ["cluster", "import", "evil", "--kubeconfig", "-"];
    let (code, out, err) = up.fed(&import, hostile);
    assert!(code == 1 && err.contains("insecure-skip-tls-verify"), "{code} {out}{err}");
    assert!(err.contains("users[0].user.exec"), "everything is named at once: {err}");
    let (_, out, _) = up.fed(&[&import[..], &["--dry-run"]].concat(), hostile);
    assert_eq!(out.matches("  refused    ").count(), 2, "{out}");
    // What can be allowed is allowed by name; a program is never run.
    let allowed = [&import[..], &["--allow", "insecure"]].concat();
    let (code, out, err) = up.fed(&allowed, hostile);
    assert!(code == 1 && err.contains("users[0].user.exec"), "{code} {out}{err}");
    let (code, out, err) = up.fed(&[&allowed[..], &["--dry-run"]].concat(), hostile);
    assert!(code == 1 && out.contains("refused    users[0].user.exec"), "{code} {out}{err}");
    assert_eq!(up.ok("cluster list -o name"), "");
}
