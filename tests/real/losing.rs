//! A member that dies and returns, and a muster that dies and returns: nobody else suffers, and nothing is forgotten or done twice.
use muster_tests_up::until;
use serde_json::json;

use crate::stage::{Stage, web};

// F-8, SYM-8, SYM-9, SYM-13
pub fn a_killed_member_is_unreachable_and_returns(stage: &mut Stage) {
    stage.join_all();
    web(stage);
    until("all pods run", || stage.running("web").len() == 9);
    stage.cluster("two").kill();
    until("its loss is seen", || stage.state("two") == "Unreachable");
    let row = &stage.get("/api/cluster/two")["items"][0];
    assert!(row["error"].is_string() && row["ready"] == false, "{row}");
    // What was known of it is shown as such; the others are followed.
    let rows = stage.get("/api/cluster/all/appPod/web");
    assert_eq!((&rows["count"], &rows["stale"][0]["cluster"]), (&json!(9), &json!("two")), "{rows}");
    stage.kubectl("one", "-n shop scale deployment web-blue --replicas=4");
    until("one is followed", || stage.running("web --cluster one --group blue").len() == 4);
    let said = stage.up.command(&["restart", "web", "--group", "green", "-n", "shop"]);
    assert!(said.1.contains("one/shop/web-green") && said.1.contains("three/shop/web-green"), "{said:?}");
    assert!(said.0 == 1 && said.2.contains("two"), "what could not be restarted is told: {said:?}");
    let (code, body) = stage.request("POST", "/api/cluster/two/namespace/shop/app/web/restart");
    assert!(code == 503 || body.contains("\"two\""), "{code} {body}");
    assert_eq!((stage.state("one").as_str(), stage.state("three").as_str()), ("Running", "Running"));
    // It comes back as it was, and is followed again.
    stage.runtime.block_on(stage.cluster("two").start_again()).unwrap();
    until("its return is seen", || stage.state("two") == "Running");
    until("nothing is stale", || stage.get("/api/cluster/all/appPod/web")["stale"] == json!([]));
    stage.kubectl("two", "-n shop scale deployment web-blue --replicas=3");
    until("it is followed again", || stage.running("web --cluster two --group blue").len() == 3);
    let generation = "-n shop get deployment web-green -o jsonpath={.metadata.generation}";
    let before = stage.kubectl("two", generation);
    web(stage);
    until("all pods run as before", || stage.running("web").len() == 9 && stage.up.json("pods web")["count"] == 9);
    assert_eq!(stage.kubectl("two", generation), before, "nobody restarts what could not be restarted then");
}

// SYM-9
pub fn muster_is_killed_and_finds_its_members_again(stage: &mut Stage) {
    stage.join_all();
    web(stage);
    until("all pods run", || stage.running("web").len() == 9);
    let before = stage.running("web");
    stage.up.kill();
    // Meanwhile the world goes on.
    stage.kubectl("three", "-n shop delete pod -l sym-group=green");
    stage.up.start_again();
    stage.up.until_running(3);
    until("all pods are seen", || stage.running("web").len() == 9);
    let now = stage.running("web");
    assert_eq!(now.iter().filter(|pod| !before.contains(pod)).count(), 1, "{before:?} {now:?}");
    assert_eq!(stage.up.json("pods web")["count"], 9);
}
