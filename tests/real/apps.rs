//! Applications over three real clusters: followed as they change, released by Helm, restarted by group.
use std::path::Path;

use muster_tests::peer::ensure;
use muster_tests_up::until;
use serde_json::{Value, json};

use crate::stage::{NAMES, Stage, group, text, web};

// SYM-8, SYM-13: 1, 2, 3, 6, 9, 10
pub fn pods_of_all_clusters_are_followed(stage: &mut Stage) {
    stage.join_all();
    web(stage);
    until("all pods run", || stage.running("web").len() == 9);
    let rows = stage.get("/api/cluster/all/appPod/web?group=blue&sort=cluster");
    assert_eq!((&rows["count"], &rows["unanswered"], &rows["stale"]), (&json!(6), &json!([]), &json!([])));
    let row = &rows["items"][0];
    assert_eq!(
        (text(row, "cluster"), text(row, "image"), &row["restarts"]),
        ("one", "example/web:1", &json!(0)),
        "{row}"
    );
    assert!(text(row, "node").starts_with("node-") && text(row, "ip").starts_with("10."), "{row}");
    // What kubectl does on a member is seen.
    stage.kubectl("two", "-n shop scale deployment web-blue --replicas=5");
    until("two has more", || stage.running("web --cluster two --group blue").len() == 5);
    assert_eq!(stage.running("web --group blue").len(), 9);
    stage.kubectl("three", "-n shop delete deployment web-green");
    until("three has no green", || stage.up.json("pods web --group green")["count"] == 2);
    stage.kubectl("two", "-n shop scale deployment web-blue --replicas=2");
    until("two has as many as before", || stage.up.json("pods web --cluster two")["count"] == 3);
    stage.apply("three", &group("web", "green", 1));
    until("all are back", || stage.running("web").len() == 9);
    // So is what stands around the pods.
    until("every address is there", || {
        let rows = stage.get("/api/cluster/all/endpoints/web");
        let ready = |row: &Value| row["ready"].as_u64().unwrap_or(0);
        rows["items"].as_array().unwrap().iter().map(ready).sum::<u64>() == 9
    });
    let stat = stage.get("/api/cluster/all/deployments/stat?namespace=shop");
    assert_eq!(stat["count"], 6, "{stat}");
    let all = stage.get("/api/cluster/all/namespace/shop/app/web/resource");
    let count = |key: &str| all[key].as_array().map(Vec::len);
    assert_eq!((count("pods"), count("deployments"), count("services")), (Some(9), Some(6), Some(6)), "{all}");
    let pod = text(&all["pods"][0], "name");
    let events = stage.get(&format!("/api/cluster/all/namespace/shop/pods/{pod}/event"));
    let reasons: Vec<&str> = events["items"].as_array().unwrap().iter().map(|row| text(row, "reason")).collect();
    assert!(reasons.contains(&"Scheduled"), "{events}");
    until("the figures are those of the clusters", || {
        let rows = stage.get("/api/cluster/all");
        let right = |row: &Value| row["nodes"] == 3 && row["nodesReady"] == 3 && row["cpu"]["allocatable"] == 96.0;
        rows["items"].as_array().unwrap().iter().all(right)
    });
    a_node_that_leaves_is_seen(stage);
}

fn a_node_that_leaves_is_seen(stage: &Stage) {
    stage.kubectl("one", "drain node-2 --timeout=60s");
    stage.kubectl("one", "delete node node-2");
    until("one has a node less", || stage.get("/api/cluster/one")["items"][0]["nodes"] == 2);
    until("no pod is on it", || {
        let rows = stage.up.json("pods web --cluster one");
        let there = rows["items"].as_array().unwrap().iter().filter(|row| row["node"] == "node-2").count();
        there == 0 && stage.running("web --cluster one").len() == 3
    });
    stage.cluster("one").add_nodes().unwrap();
    until("it is back", || stage.get("/api/cluster/one")["items"][0]["nodesReady"] == 3);
}

// SYM-13: 4
pub fn releases_of_helm_3_and_4_are_listed(stage: &mut Stage) {
    stage.join_all();
    ensure(&["helm3", "helm4"]).unwrap();
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients/chart").display().to_string();
    let helm = |cluster: &str, program: &str, line: &str| {
        stage.cluster(cluster).run(program, &line.replace("{chart}", &chart), "").unwrap();
    };
    let install = format!("install shop {chart} -n market --create-namespace");
    for (cluster, program) in [("one", "helm3"), ("two", "helm4")] {
        // Helm takes a definition that is established for one that is listed, which in Kubernetes is a moment later.
        until("it is installed", || match stage.cluster(cluster).run(program, &install, "") {
            Ok(_) => true,
            Err(why) => {
                assert!(why.contains("no matches for kind"), "{why}");
                false
            }
        });
    }
    let rows = || stage.get("/api/cluster/all/appPod/shop/helm?sort=cluster");
    until("both are listed", || rows()["count"] == 2);
    for (row, cluster) in rows()["items"].as_array().unwrap().iter().zip(["one", "two"]) {
        let expected = json!([cluster, "market", "shop", "shop", "1.0.0", "1", 1, "deployed"]);
        let fields = ["cluster", "namespace", "name", "chart", "chartVersion", "appVersion", "revision", "status"];
        assert_eq!(Value::from(fields.map(|field| row[field].clone()).to_vec()), expected, "{row}");
        assert!(text(row, "updated").starts_with("20") && !row.to_string().contains("hello"), "{row}");
    }
    helm("one", "helm3", "upgrade shop {chart} -n market --set greeting=again");
    helm("two", "helm4", "upgrade shop {chart} -n market --set greeting=again");
    until("the second revision is listed", || {
        rows()["items"].as_array().unwrap().iter().all(|row| row["revision"] == 2 && row["status"] == "deployed")
    });
    until("its pods run", || stage.running("shop -n market").len() == 4);
    let table = stage.up.ok("releases shop");
    assert_eq!(table.lines().count(), 3, "{table}");
    helm("one", "helm3", "uninstall shop -n market");
    helm("two", "helm4", "uninstall shop -n market");
    until("nothing is left", || rows()["count"] == 0 && stage.up.json("pods shop")["count"] == 0);
}

// SYM-13: 5
pub fn a_restart_rolls_the_pods_of_its_group_alone(stage: &mut Stage) {
    stage.join_all();
    web(stage);
    until("all pods run", || stage.running("web").len() == 9);
    let (blue, green) = (stage.running("web --group blue"), stage.running("web --group green"));
    let said = stage.up.ok("restart web --group blue -n shop");
    for cluster in NAMES {
        assert!(said.contains(&format!("deployment {cluster}/shop/web-blue restarted")), "{said}");
        stage.kubectl(cluster, "-n shop rollout status deployment web-blue --timeout=60s");
    }
    until("every blue pod is a new one", || {
        let now = stage.running("web --group blue");
        now.len() == 6
            && stage.up.json("pods web --group blue")["count"] == 6
            && now.iter().all(|pod| !blue.contains(pod))
    });
    assert_eq!(stage.running("web --group green"), green);
    // On one cluster alone.
    let others: Vec<String> = stage.running("web").into_iter().filter(|pod| !pod.starts_with("two/")).collect();
    stage.up.ok("restart web --cluster two --group green -n shop");
    until("the green pod of two is a new one", || {
        let now = stage.running("web --cluster two --group green");
        now.len() == 1 && !green.contains(&now[0])
    });
    let now: Vec<String> = stage.running("web").into_iter().filter(|pod| !pod.starts_with("two/")).collect();
    assert_eq!(now, others);
    let (code, _, err) = stage.up.command(&["restart", "web", "--group", "red", "-n", "shop"]);
    assert!(code == 6 && err.contains("nothing was restarted"), "{code} {err}");
}
