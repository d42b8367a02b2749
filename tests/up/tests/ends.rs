//! How commands end: the table of docs/cli.md, walked code by code, and what is said when a wait was in vain.
#![allow(clippy::unwrap_used, clippy::expect_used, unused_crate_dependencies)]

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use muster_tests::peer::{free_port, muster_binary};
use muster_tests_up::{Other, Up};
use rustix::process::{Pid, Signal, kill_process};

/// The codes of the table.
fn documented() -> BTreeSet<i32> {
    let page = include_str!("../../../docs/cli.md").split("## How they end").nth(1).unwrap();
    let rows = page.split("\n## ").next().unwrap().lines().filter_map(|line| line.strip_prefix("| "));
    rows.filter_map(|row| row.split(" |").next()?.parse().ok()).collect()
}

/// A command that goes on until it is interrupted.
fn interrupted(up: &Up) -> i32 {
    let mut command = Command::new(muster_binary().unwrap());
    command.args(["logs", "orders-db-0", "--cluster", "beijing", "-f"]).env("MUSTER_DATA_DIR", up.data());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    // It follows once it has printed something.
    let mut first = [0];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    child.wait().unwrap().code().unwrap_or(-1)
}

#[test]
fn every_code_of_the_table_means_what_it_says() {
    // SYM-13
    let mut up = Up::start(&["--demo"]);
    up.until_running(3);
    up.until_rows("pods orders-db", 9);
    let folder = up.folder().to_owned();
    let file = |name: &str, text: &str| {
        fs::write(folder.join(name), text).unwrap();
        folder.join(name).display().to_string()
    };
    let stranger = file("stranger", "not-a-token");
    let there = file("there", "");
    let hostile = file(
        "hostile",
        "{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: 'https://h:1'}}], \
         users: [{name: u, user: {exec: {command: /bin/true}}}]}",
    );
    let lost = Other::start(&folder).through(free_port(), &folder);
    let data = format!("--data-dir={}", up.data().display());
    let occupied = format!("--bind=127.0.0.1:{}", up.port);
    let nobody = format!("http://127.0.0.1:{}", free_port());
    let empty = folder.join("empty").display().to_string();
    let cases: &[(i32, &[&str], &str)] = &[
        (0, &["cluster", "list"], ""),
        (0, &["pods", "--help"], ""),
        (1, &["cluster", "import", "evil", "--kubeconfig", &hostile], "users[0].user.exec"),
        (1, &["exec", "orders-db-0", "--", "ls"], "--cluster"),
        (2, &["pods", "--nonsense"], "--nonsense"),
        (2, &["cluster", "kubeconfig", "beijing", "--ttl", "1s"], "10m"),
        (2, &["cluster", "import", "x", "--kubeconfig", "/nowhere"], "/nowhere"),
        (2, &["cluster", "delete", "beijing"], "--yes"),
        (2, &["pods", "--filter", "phase like x"], "error: "),
        (2, &["pods", "--token-file", "/nowhere"], "/nowhere"),
        (2, &["apiserver", &data, "--backend=etcd"], "--etcd-servers"),
        (4, &["cluster", "import", "lost", "--kubeconfig", &lost, "--wait=1s"], "does not run after 1s"),
        (5, &["pods", "--token-file", &stranger], "does not know you"),
        (6, &["cluster", "get", "nowhere"], "nowhere"),
        (6, &["logs", "nowhere", "--cluster", "beijing"], "nowhere"),
        (6, &["phase", "graph", "Nothing"], "Nothing"),
        (7, &["cluster", "delete", "beijing", "--yes"], "beijing"),
        (7, &["cluster", "kubeconfig", "beijing"], "simulated"),
        (7, &["cluster", "kubeconfig", "beijing", "-f", &there], "--force"),
        (7, &["apiserver", &data], "in use"),
        (7, &["up", "--data-dir", &empty, "--secure-port=0", &occupied], "--bind"),
        (8, &["pods", "--server", &nobody, "--token-file", &stranger], "does not answer"),
        (8, &["pods", "--data-dir", &empty], "muster up --demo"),
    ];
    let mut walked = BTreeSet::from([130]);
    for (code, words, said) in cases {
        let (found, out, err) = up.command(words);
        assert_eq!(found, *code, "`muster {}`: {out}{err}", words.join(" "));
        assert!(err.contains(said), "`muster {}`: {err}", words.join(" "));
        if *code != 0 {
            assert!(err.starts_with("error: ") || err.contains("\nerror: "), "{words:?}: {err}");
        }
        walked.insert(*code);
    }
    assert_eq!(interrupted(&up), 130);
    // The program in the container has the last word.
    assert_eq!(up.command(&["exec", "orders-db-0", "--cluster", "beijing", "--", "sh", "-c", "exit 42"]).0, 42);
    // No command looks for differences yet: 3 is kept for those that will.
    assert!(walked.insert(3));
    assert_eq!(documented(), walked);
    let help = up.ok("--help").split_whitespace().collect::<Vec<_>>().join(" ");
    let help = help.split("Exit codes: ").nth(1).unwrap();
    for code in walked {
        assert!(help.contains(&format!("{code} ")), "{code} is not in the help: {help}");
    }
    up.kill();
    assert_eq!(up.command(&["cluster", "list"]).0, 8);
}

#[test]
fn an_import_that_was_waited_for_in_vain_says_what_is_known_and_what_to_do() {
    // SC-10
    let up = Up::start(&[]);
    let other = Other::start(up.folder());
    let lost = other.through(free_port(), up.folder());
    let import = ["cluster", "import", "lost", "--kubeconfig", &lost, "--label", "zone=z1", "--wait=3s"];
    let (code, out, err) = up.command(&import);
    assert_eq!(code, 4, "{out}{err}");
    // What was done is on standard output, what is wrong on the other.
    assert!(out.starts_with("cluster/lost imported\n") && !out.contains("error"), "{out}");
    let lines: Vec<&str> = err.lines().collect();
    for expected in [
        "  name       lost",
        "  state      Connecting for ",
        "  error      ",
        "  labels     muster.dev/member=true,zone=z1",
    ] {
        assert!(lines.iter().any(|line| line.starts_with(expected)), "no {expected:?} in {err}");
    }
    assert!(err.contains("  origin     Secret muster-system/lost\n"), "{err}");
    let told = lines.iter().position(|line| *line == "error: lost does not run after 3s").expect(&err);
    let because = lines[told + 1];
    assert!(because.starts_with("  because: it is Connecting (") && because.contains("refused"), "{because}");
    assert_eq!(lines[told + 2..], ["  try: it is tried further; look at it with: muster cluster get lost"], "{err}");
    // It is tried further, as it says: another Secret of the same name leads there.
    up.ok("cluster delete lost --yes");
    let (code, out, err) = up.command(&["cluster", "import", "lost", "--kubeconfig", &other.kubeconfig, "--wait"]);
    assert!(code == 0 && out.ends_with("cluster/lost is running\n"), "{code} {out}{err}");
}
