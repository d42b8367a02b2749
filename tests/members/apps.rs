//! Applications over several clusters: pods, endpoints, replicas, events, releases, restarts, the overview and the search.
use std::io::Write;

use base64::{Engine, prelude::BASE64_STANDARD};
use flate2::{Compression, write::GzEncoder};
use muster_tests::runner::Case;
use muster_tests::{Peer, cases};
use muster_tests_gateway::refused;
use serde_json::{Value, json};

use crate::stage::{Stage, field, silent};

pub fn all() -> Vec<Case> {
    cases![apps: pods_of_an_application_over_all_clusters, everything_of_an_application, releases_are_told_and_their_values_are_not,
        a_restart_is_of_the_group_that_was_named, the_fleet_at_a_glance, lists_of_any_kind_over_clusters]
}

// SYM-13: 1, 3, 6, 9
async fn pods_of_an_application_over_all_clusters(peer: &Peer) {
    let stage = Stage::begin(peer, &["beijing", "shanghai"]).await;
    stage.app("beijing", "shop", "web-blue", json!({"app": "web", "sym-group": "blue", "sym-ldc": "bj"}), 2).await;
    stage.app("beijing", "shop", "web-green", json!({"app": "web", "sym-group": "green", "sym-unit": "u1"}), 1).await;
    stage.app("shanghai", "shop", "web-blue", json!({"app": "web", "sym-group": "blue"}), 1).await;
    stage.app("shanghai", "other", "db", json!({"app.kubernetes.io/name": "db"}), 1).await;
    let pods = stage.pods("web", 4).await;
    for pod in &pods {
        for (name, value) in
            [("app", "web"), ("ready", "1/1"), ("phase", "Running"), ("image", "shop/web:v8"), ("namespace", "shop")]
        {
            assert_eq!(pod[name], value, "{pod}");
        }
        assert!(
            pod["node"].is_string() && pod["ip"].is_string() && pod["created"].is_string() && pod["restarts"] == 0,
            "{pod}"
        );
        assert!(pod["labels"]["sym-group"] == pod["group"], "{pod}");
    }
    let path = "/api/cluster/all/appPod/web";
    let count = async |query: &str| stage.face.get(&format!("{path}?{query}")).await.ok(200)["count"].clone();
    for (query, expected) in [
        ("group=blue", 3),
        ("group=green", 1),
        ("group=green,blue", 4),
        ("unit=u1", 1),
        ("ldc=bj", 2),
        ("namespace=shop", 4),
        ("namespace=other", 0),
        ("cluster=shanghai", 1),
        ("cluster=nowhere,beijing", 3),
        ("labelSelector=sym-group!%3Dblue", 1),
        ("q=GREEN", 1),
        ("filter=cluster+eq+beijing", 3),
    ] {
        assert_eq!(count(query).await, expected, "{query}");
    }
    assert_eq!(stage.face.get("/api/cluster/shanghai/appPod/web").await.ok(200)["count"], 1);
    let db = stage.until("/api/cluster/all/appPod/db", |page| page["count"] == 1).await;
    assert_eq!(db["items"][0]["cluster"], "shanghai");
    assert_eq!(stage.face.get("/api/cluster/all/appPod/nobody").await.ok(200)["items"], json!([]));
    // Pages cover every row once, in the order asked for.
    let page = stage.face.get(&format!("{path}?pageSize=3&sort=-cluster,name")).await.ok(200);
    assert_eq!((&page["count"], &page["page"], &page["pageSize"]), (&json!(4), &json!(1), &json!(3)));
    assert_eq!(field(&page, "cluster"), ["shanghai", "beijing", "beijing"]);
    let last = stage.face.get(&format!("{path}?pageSize=3&sort=-cluster,name&page=2")).await.ok(200);
    assert_eq!(last["items"].as_array().unwrap().len(), 1);
    assert_eq!((&last["unanswered"], &last["stale"]), (&json!([]), &json!([])));
    refused(&stage.face.get("/api/cluster/nowhere/appPod/web").await, 404);
    refused(&stage.face.get(&format!("{path}?sort=a+b")).await, 400);
    // Endpoints and replicas.
    let ends = stage.until("/api/cluster/all/endpoints/web", |page| page["count"] == 3).await;
    assert_eq!(field(&ends, "name"), ["web-blue", "web-green", "web-blue"]);
    let ends =
        stage.until("/api/cluster/beijing/endpoints/web?group=blue", |page| page["items"][0]["ready"] == 2).await;
    assert!(ends["items"][0]["addresses"][0]["pod"].as_str().unwrap().starts_with("web-blue-"), "{ends}");
    let stat = stage.until("/api/cluster/all/deployments/stat?namespace=shop", |page| {
        page["count"] == 3 && page["items"][0]["availableReplicas"] == 2
    });
    let stat = stat.await;
    for name in ["desiredReplicas", "updatedReplicas", "readyReplicas", "availableReplicas"] {
        assert_eq!(stat["items"][0][name], 2, "{stat}");
    }
    assert_eq!(stat["items"][0]["unavailableReplicas"], 0);
    stage.end().await;
}

// SYM-13: 2, 10
async fn everything_of_an_application(peer: &Peer) {
    let stage = Stage::begin(peer, &["beijing"]).await;
    stage.app("beijing", "shop", "web", json!({"app": "web"}), 1).await;
    stage.app("beijing", "shop", "db", json!({"app": "db"}), 1).await;
    let pods = stage.pods("web", 1).await;
    let path = "/api/cluster/all/namespace/shop/app/web/resource";
    let all = stage.until(path, |all| all["endpoints"].as_array().is_some_and(|list| list.len() == 1)).await;
    let all = stage.until(path, |page| silent(page).is_empty() && page["endpoints"] == all["endpoints"]).await;
    for (kind, count) in
        [("pods", 1), ("deployments", 1), ("services", 1), ("endpoints", 1), ("statefulSets", 0), ("daemonSets", 0)]
    {
        assert_eq!(all[kind].as_array().unwrap().len(), count, "{kind}: {all}");
    }
    assert_eq!((&all["services"][0]["cluster"], &all["services"][0]["name"]), (&json!("beijing"), &json!("web")));
    let pod = pods[0]["name"].as_str().unwrap();
    let path = format!("/api/cluster/all/namespace/shop/pods/{pod}/event");
    let events = stage.until(&path, |page| page["count"].as_u64() > Some(0)).await;
    for event in events["items"].as_array().unwrap() {
        assert_eq!(
            (&event["kind"], &event["object"], &event["cluster"]),
            (&json!("Pod"), &json!(pod), &json!("beijing")),
            "{event}"
        );
        assert!(event["reason"].is_string() && event["last"].is_string() && event["type"].is_string(), "{event}");
    }
    stage.end().await;
}

/// A Secret as Helm writes it.
fn release(name: &str, revision: u32, status: &str, chart: &str) -> Value {
    let release = json!({"name": name, "info": {"last_deployed": "2026-01-02T03:04:05Z", "status": status}, "version": revision,
        "chart": {"metadata": {"name": chart, "version": "1.2.3", "appVersion": "v8"}}, "config": {"password": "canary-7"}});
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(release.to_string().as_bytes()).unwrap();
    let inner = BASE64_STANDARD.encode(gzip.finish().unwrap());
    let labels = json!({"owner": "helm", "name": name, "status": status, "version": revision.to_string()});
    json!({"metadata": {"name": format!("sh.helm.release.v1.{name}.v{revision}"), "labels": labels}, "type": "helm.sh/release.v1",
        "data": {"release": BASE64_STANDARD.encode(inner)}})
}

// SYM-13: 4, B-14, B-17
async fn releases_are_told_and_their_values_are_not(peer: &Peer) {
    let stage = Stage::begin(peer, &["beijing", "shanghai"]).await;
    let secrets = "/api/v1/namespaces/default/secrets";
    for (member, secret) in [
        ("beijing", release("web-blue", 1, "superseded", "shop")),
        ("beijing", release("web-blue", 2, "deployed", "shop")),
        ("beijing", release("db", 1, "deployed", "database")),
        ("shanghai", release("web-green", 10, "deployed", "shop")),
    ] {
        stage.on(member, "POST", secrets, secret).await;
    }
    // One that cannot be unpacked is shown by its labels.
    let mut broken = release("web-broken", 1, "failed", "shop");
    broken["data"]["release"] = BASE64_STANDARD.encode("garbage").into();
    stage.on("shanghai", "POST", secrets, broken).await;
    let page = stage.until("/api/cluster/all/appPod/web/helm", |page| page["count"] == 3).await;
    assert_eq!(field(&page, "name"), ["web-blue", "web-broken", "web-green"]);
    let blue = &page["items"][0];
    for (name, value) in [
        ("chart", json!("shop")),
        ("chartVersion", json!("1.2.3")),
        ("appVersion", json!("v8")),
        ("revision", json!(2)),
        ("status", json!("deployed")),
        ("cluster", json!("beijing")),
        ("namespace", json!("default")),
    ] {
        assert_eq!(blue[name], value, "{blue}");
    }
    assert_eq!((&page["items"][1]["status"], &page["items"][1]["chart"]), (&json!("failed"), &json!("")));
    assert!(!page.to_string().contains("canary"));
    let count = async |query: &str| {
        stage.face.get(&format!("/api/cluster/all/appPod/web/helm?{query}")).await.ok(200)["count"].clone()
    };
    assert_eq!(count("group=bl.*").await, 1);
    assert_eq!(count("group=blue%7Cgreen").await, 2);
    refused(&stage.face.get("/api/cluster/all/appPod/web/helm?group=(").await, 400);
    stage.until("/api/cluster/all/appPod/all/helm", |page| page["count"] == 4).await;
    stage.end().await;
}

// SYM-13: 5
async fn a_restart_is_of_the_group_that_was_named(peer: &Peer) {
    let stage = Stage::begin(peer, &["beijing", "shanghai"]).await;
    for member in ["beijing", "shanghai"] {
        stage.app(member, "shop", "web-blue", json!({"app": "web", "sym-group": "blue"}), 1).await;
        stage.app(member, "shop", "web-green", json!({"app": "web", "sym-group": "green"}), 1).await;
    }
    let bare = json!({"metadata": {"name": "alone", "labels": {"app": "web", "sym-group": "blue"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    stage.on("beijing", "POST", "/api/v1/namespaces/shop/pods", bare).await;
    let before = stage.pods("web", 5).await;
    let done =
        stage.face.call("POST", "/api/cluster/all/namespace/shop/app/web/restart?group=blue").send().await.ok(200);
    let restarted: Vec<String> = done["restarted"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            format!(
                "{}/{}/{}",
                one["cluster"].as_str().unwrap(),
                one["kind"].as_str().unwrap(),
                one["name"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(restarted, ["beijing/Deployment/web-blue", "shanghai/Deployment/web-blue"], "{done}");
    assert_eq!(done["failed"][0]["name"], "alone", "{done}");
    for (member, name, expected) in
        [("beijing", "web-blue", true), ("beijing", "web-green", false), ("shanghai", "web-blue", true)]
    {
        let object =
            stage.on(member, "GET", &format!("/apis/apps/v1/namespaces/shop/deployments/{name}"), Value::Null).await;
        let at = &object["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"];
        assert_eq!(at.is_string(), expected, "{member}/{name}");
    }
    // New pods take the place of the old ones.
    let names = |pods: &[Value], group: &str| -> Vec<String> {
        pods.iter().filter(|pod| pod["group"] == group).map(|pod| pod["name"].as_str().unwrap().to_owned()).collect()
    };
    let old = names(&before, "blue");
    stage
        .until("/api/cluster/all/appPod/web?group=blue&filter=phase+eq+Running", |page| {
            page["count"] == 3 && field(page, "name").iter().filter(|name| old.contains(name)).count() == 1
        })
        .await;
    stage.end().await;
}

// SYM-13: 1, SC-3, SC-4, SC-5
async fn the_fleet_at_a_glance(peer: &Peer) {
    let stage = Stage::begin(peer, &["beijing", "shanghai"]).await;
    stage.app("beijing", "shop", "web", json!({"app": "web"}), 2).await;
    stage.pods("web", 2).await;
    stage.declare_silent("desert");
    let path = "/api/cluster/all";
    let known = |page: &Value| page["items"][0]["podsReady"] == 2 && page["items"][0]["nodesReady"] == 3;
    let page = stage.until(path, |page| page["count"] == 3 && known(page)).await;
    assert_eq!(field(&page, "name"), ["beijing", "desert", "shanghai"]);
    let beijing = &page["items"][0];
    assert_eq!(
        (&beijing["state"], &beijing["ready"], &beijing["simulated"]),
        (&json!("Running"), &json!(true), &json!(true)),
        "{beijing}"
    );
    assert_eq!(
        (&beijing["nodes"], &beijing["nodesReady"], &beijing["pods"]),
        (&json!(3), &json!(3), &json!(2)),
        "{beijing}"
    );
    assert_eq!(
        (&beijing["cpu"]["allocatable"], &beijing["cpu"]["requested"]),
        (&json!(48.0), &json!(0.5)),
        "{beijing}"
    );
    assert_eq!(beijing["memory"]["requested"], json!(2.0 * 64.0 * 1024.0 * 1024.0), "{beijing}");
    assert_eq!(beijing["labels"]["region"], "beijing");
    let desert = &page["items"][1];
    assert_eq!(
        (&desert["state"], &desert["ready"], desert.get("pods")),
        (&json!("Connecting"), &json!(false), None),
        "{desert}"
    );
    assert_eq!(stage.face.get("/api/cluster/all?filter=state+eq+Running").await.ok(200)["count"], 2);
    assert_eq!(stage.face.get("/api/cluster/shanghai").await.ok(200)["items"][0]["name"], "shanghai");
    let overview = stage.until("/wapi/v1/overview", |overview| overview["nodes"] == 6).await;
    assert_eq!(overview["clusters"], json!({"Connecting": 1, "Running": 2}), "{overview}");
    assert_eq!(
        (&overview["nodes"], &overview["pods"], overview["members"].as_array().unwrap().len()),
        (&json!(6), &json!(2), 3)
    );
    let found = stage.until("/wapi/v1/search?q=web", |found| found[0]["kind"] == "Deployment").await;
    assert_eq!(
        (&found[0]["kind"], &found[0]["name"], &found[0]["cluster"]),
        (&json!("Deployment"), &json!("web"), &json!("beijing"))
    );
    let path = found[0]["path"].as_str().unwrap().to_owned();
    assert_eq!(stage.face.get(&path).await.ok(200)["name"], "web");
    assert_eq!(stage.face.get("/wapi/v1/search?q=deser").await.ok(200)[0]["kind"], "Cluster");
    let events = stage.face.get("/wapi/v1/events?pageSize=5").await.ok(200);
    let last = field(&events, "last");
    assert!(last.windows(2).all(|two| two[0] >= two[1]), "{last:?}");
    // The same in the words of zcloud.
    let clusters = stage.face.get("/apis/zcloud.cn/v1/clusters").await.ok(200);
    assert_eq!(
        (&clusters["type"], &clusters["resourceType"], clusters["data"].as_array().unwrap().len()),
        (&json!("collection"), &json!("cluster"), 3)
    );
    let ready = stage.face.get("/apis/zcloud.cn/v1/clusters?onlyready=true").await.ok(200);
    assert_eq!(ready["data"].as_array().unwrap().len(), 2, "{ready}");
    assert_eq!(stage.face.get("/apis/zcloud.cn/v1/clusters/beijing").await.ok(200)["status"], "Running");
    let many = |page: &Value| page["data"].as_array().map(Vec::len);
    let pods = "/apis/zcloud.cn/v1/clusters/beijing/namespaces/shop/pods";
    let pods = stage.until(pods, |page| many(page) == Some(2)).await;
    assert_eq!(pods["resourceType"], "pod");
    stage.until("/apis/zcloud.cn/v1/clusters/beijing/nodes", |page| many(page) == Some(3)).await;
    assert_eq!(stage.face.get("/apis/zcloud.cn/v1/clusters/beijing/nodes/node-1").await.ok(200)["name"], "node-1");
    let problem = refused(&stage.face.get("/apis/zcloud.cn/v1/clusters/desert/nodes").await, 409);
    assert!(problem["message"].as_str().unwrap().contains("Connecting"), "{problem}");
    refused(&stage.face.call("POST", "/apis/zcloud.cn/v1/clusters/beijing?action=getkubeconfig").send().await, 409);
    stage.end().await;
}

// SYM-13
async fn lists_of_any_kind_over_clusters(peer: &Peer) {
    let stage = Stage::begin(peer, &["beijing", "shanghai"]).await;
    stage.app("beijing", "shop", "web", json!({"app": "web"}), 1).await;
    stage.app("shanghai", "shop", "db", json!({"app": "db"}), 1).await;
    let has_pods = |kinds: &Value| kinds.as_array().unwrap().iter().any(|kind| kind["plural"] == "pods");
    let kinds = stage.until("/api/cluster/all/kinds", has_pods).await;
    let pods =
        kinds.as_array().unwrap().iter().find(|kind| kind["plural"] == "pods" && kind["group"] == "core").unwrap();
    assert_eq!(
        (&pods["kind"], &pods["namespaced"], &pods["shortNames"]),
        (&json!("Pod"), &json!(true), &json!(["po"]))
    );
    let root = "/api/cluster/all/resources/apps/v1";
    let page = stage.until(&format!("{root}/deployments?sort=-name"), |page| page["count"] == 2).await;
    assert_eq!(
        (field(&page, "name"), field(&page, "cluster")),
        (vec!["web".to_owned(), "db".into()], vec!["beijing".to_owned(), "shanghai".into()])
    );
    assert_eq!(page["items"][0]["spec"]["replicas"], 1);
    let narrow = stage
        .face
        .get(&format!(
            "{root}/namespaces/shop/deployments?fields=name,cluster,spec.replicas&filter=spec.replicas+eq+1&q=db"
        ))
        .await
        .ok(200);
    assert_eq!(narrow["items"], json!([{"name": "db", "cluster": "shanghai", "spec": {"replicas": 1}}]));
    let by_note = stage.face.get(&format!("{root}/deployments?filter=annotations.nothing+exists")).await.ok(200);
    assert_eq!(by_note["count"], 0);
    let nodes = stage.until("/api/cluster/all/resources/core/v1/nodes?pageSize=2", |page| page["count"] == 6).await;
    assert_eq!((nodes["items"].as_array().unwrap().len(), &nodes["items"][0]["phase"]), (2, &json!("Ready")));
    refused(&stage.face.get("/api/cluster/all/resources/nothing.dev/v1/things").await, 404);
    let document = stage.face.get("/wapi/v1/openapi.json").await.ok(200);
    assert!(
        document["paths"]["/api/cluster/{name}/appPod/{app}"]["get"].is_object()
            && document["paths"]["/wapi/v1/login"]["post"].is_object()
    );
    let role = stage.face.get("/wapi/v1/member-role?access=operate").await;
    assert!(role.status == 200 && role.text().contains("pods/exec"));
    stage.end().await;
}
