//! What the shell makes of lines, right and wrong.

use super::*;
use serde_json::json;

fn shell() -> Shell {
    let pod = json!({"metadata": {"name": "shop-1", "namespace": "n"}, "spec": {"containers": [{"name": "web",
            "env": [{"name": "COLOR", "value": "deep blue"}, {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}]},
        "status": {"podIP": "10.0.0.9", "containerStatuses": [{"name": "web", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]}});
    Shell::new(&Object::from_value(pod).unwrap(), "web")
}

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

#[test]
fn lines_are_read_as_a_shell_reads_them() {
    for (line, out, code) in [
        ("echo hello   world", "hello world\n", 0),
        ("echo 'a  b' \"$COLOR\" $ME '$ME'", "a  b deep blue shop-1 $ME\n", 0),
        ("echo a; echo b # not this", "a\nb\n", 0),
        ("false && echo no", "", 1),
        ("false || echo yes", "yes\n", 0),
        ("cd /var/log && pwd && ls", "/var/log\napp.log\nerror.log\n", 0),
        ("cat /etc/hostname", "shop-1\n", 0),
        ("cat /etc/hosts | grep -c shop", "1\n", 0),
        ("sh -c 'exit 3'", "", 3),
        ("false; echo $?", "1\n", 0),
        ("hostname", "shop-1\n", 0),
        ("date", "Thu Jan  1 01:00:00 UTC 2026\n", 0),
        ("printenv COLOR", "deep blue\n", 0),
        ("find /var/log -name 'e*'", "/var/log/error.log\n", 0),
        ("tail -n 1 /etc/hosts", "10.0.0.9\tshop-1\n", 0),
    ] {
        let outcome = shell().line(line, now());
        assert_eq!((outcome.out.as_str(), outcome.code), (out, code), "{line}: {}", outcome.err);
    }
}

#[test]
fn a_terminal_has_a_size_and_a_pipe_has_none() {
    let mut shell = shell();
    assert_eq!(shell.line("stty size", now()).code, 1);
    shell.size = Some((24, 80));
    assert_eq!(shell.line("stty size", now()).out, "24 80\n");
    assert_eq!(shell.line("stty -echo", now()).code, 1);
}

#[test]
fn mistakes_are_told() {
    for (line, code) in [
        ("cat /nothing", 1),
        ("nonsense", 127),
        ("echo 'open", 2),
        ("cd /nowhere", 1),
        ("grep x /nothing", 2),
        ("sleep x", 1),
    ] {
        let outcome = shell().line(line, now());
        assert_eq!(outcome.code, code, "{line}");
        assert!(!outcome.err.is_empty(), "{line}");
    }
}

#[test]
fn a_log_file_is_the_log() {
    let mut shell = shell();
    let all = shell.line("cat /var/log/app.log", now()).out;
    let log = shell.log().unwrap();
    assert_eq!(all.lines().next(), Some(log.line(0).as_str()));
    assert_eq!(all.lines().count() as u64, log.count(now()));
    let last =
        shell.run(&["tail".into(), "-n".into(), "2".into(), "-F".into(), "/var/log/app.log".into()], None, now());
    assert_eq!(last.out.lines().count(), 2);
    assert!(matches!(last.then, Some(Then::Follow { errors: false, .. })));
    assert!(shell.line("cat /var/log/error.log", now()).out.lines().all(is_error));
}

#[test]
fn whoever_leaves_says_with_which_code() {
    let outcome = shell().line("echo bye; exit 4; echo never", now());
    assert_eq!((outcome.out.as_str(), outcome.code, outcome.exit), ("bye\n", 4, true));
    assert!(Shell::is_interactive(&["/bin/sh".into()]));
    assert!(!Shell::is_interactive(&["sh".into(), "-c".into(), "ls".into()]));
}

proptest::proptest! {
    #[test]
    fn no_line_makes_it_fall(line in "\\PC{0,80}") {
        let mut shell = shell();
        let _ = shell.line(&line, now());
    }
}
