//! `muster simulate` and its file `network`: clusters that refuse, swallow and dawdle as the file says, and are well again without it.
#![allow(clippy::unwrap_used, clippy::expect_used, unused_crate_dependencies)]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use muster_tests::peer::ensure;
use muster_tests_up::{Other, until};

/// kubectl with a kubeconfig: whether it went well, and what it said to whom.
fn kubectl(kubeconfig: &Path, words: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(ensure(&["kubectl"]).unwrap().join("kubectl"));
    command.arg("--kubeconfig").arg(kubeconfig).args(words);
    let ended = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (ended.status.success(), text(ended.stdout), text(ended.stderr))
}

#[test]
fn the_network_file_cuts_swallows_and_slows_and_heals() {
    // F-8
    let folder = tempfile::tempdir().unwrap();
    let other = Other::several(folder.path(), 2);
    let (one, two) = (Path::new(&other.kubeconfig), folder.path().join("simulated/member-2.kubeconfig"));
    let log = || fs::read_to_string(folder.path().join("simulated.log")).unwrap();
    let network = |text: &str| fs::write(folder.path().join("simulated/network"), text).unwrap();
    let nodes = ["get", "nodes", "-o", "name", "--request-timeout=20s"];
    let impatient = ["get", "nodes", "-o", "name", "--request-timeout=2s"];
    let is_well = |kubeconfig: &Path| kubectl(kubeconfig, &nodes).1.lines().count() == 3;
    assert!(is_well(one) && is_well(&two));

    // Refused: at once, and in the words of somebody at whose place nobody is. What is open is cut.
    let mut watch = Command::new(ensure(&["kubectl"]).unwrap().join("kubectl"));
    watch.arg("--kubeconfig").arg(one).args(["get", "nodes", "--watch-only", "-v=0"]);
    let mut watch = watch.stderr(std::process::Stdio::null()).spawn().unwrap();
    network("member-1 refused\n");
    until("the first refuses", || !kubectl(one, &impatient).0);
    assert!(is_well(&two), "the other is as it was");
    until("the watch was cut", || watch.try_wait().unwrap().is_some());

    // Black hole: it takes everything and answers nothing.
    network("member-1 black-hole\n");
    until("the first answers nothing", || {
        let begun = Instant::now();
        let (well, _, said) = kubectl(one, &impatient);
        // What refuses does so at once; what swallows is given up by the one who waits.
        !well && begun.elapsed() >= Duration::from_secs(2) && said.to_lowercase().contains("time")
    });
    assert!(is_well(&two));

    // Slow: everything comes, later.
    network("member-1 slow 1500ms\nmember-2 open\n");
    until("the first answers, late", || {
        let begun = Instant::now();
        is_well(one) && begun.elapsed() >= Duration::from_millis(1_500)
    });
    assert!(is_well(&two));

    // A file that cannot be read changes nothing, and is complained of.
    network("member-1 open\nmember-2 gone\n");
    until("the log complains", || log().contains("line 2 is not NAME open, slow DURATION, black-hole or refused"));
    let begun = Instant::now();
    assert!(is_well(one) && begun.elapsed() >= Duration::from_millis(1_500), "the network stays as it is");

    // Without the file everything is as ever.
    fs::remove_file(folder.path().join("simulated/network")).unwrap();
    until("the way to the first changed back", || log().contains("network=Open"));
    assert!(is_well(one) && is_well(&two));
    assert!(!log().contains("panicked"));
}
