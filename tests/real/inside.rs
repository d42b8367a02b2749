//! Into containers, through a real kube-apiserver: what a kubelet would answer comes from kwok.
use muster_tests::cluster::PRINTED;
use muster_tests_up::{Seated, until};

use crate::stage::{Stage, web};

/// A pod of the application on a cluster, by its name alone.
fn pod(stage: &Stage, cluster: &str) -> String {
    stage.join_all();
    web(stage);
    until("all pods run", || stage.running("web").len() == 9);
    let names = stage.running(&format!("web --cluster {cluster} --group green"));
    names[0].rsplit('/').next().unwrap().to_owned()
}

// SYM-13: 8, 11
pub fn logs_and_commands_pass_a_real_api_server(stage: &mut Stage) {
    for cluster in ["one", "two"] {
        let pod = pod(stage, cluster);
        let lines = stage.up.ok(&format!("logs {pod} --cluster {cluster} --tail 5"));
        assert_eq!(lines, format!("{PRINTED}\n"));
        let run = |command: &[&str]| stage.up.command(&[&["exec", &pod, "--cluster", cluster, "--"], command].concat());
        // kwok does not tell how a command ended, but for well.
        assert_eq!(run(&["sh", "-c", "echo out; echo err >&2"]), (0, "out\n".to_owned(), "err\n".to_owned()));
        // No shell is built around what was asked for.
        assert_eq!(run(&["echo", "a b", "$HOME;", "'"]), (0, "a b $HOME; '\n".to_owned(), String::new()));
    }
    let all = stage.up.ok("logs web --tail 1");
    assert!(all.lines().count() == 9 && all.contains("three/shop/web-blue-"), "{all}");
}

// SYM-13: 7
pub fn a_terminal_passes_a_real_api_server(stage: &mut Stage) {
    let pod = pod(stage, "two");
    let mut seat = Seated::start(&stage.up, &["terminal", &pod, "--cluster", "two"]);
    seat.type_in("echo $((6 * 7))\r");
    seat.until("42");
    seat.type_in("exit\r");
    assert_eq!(seat.ended(), 0);
}
