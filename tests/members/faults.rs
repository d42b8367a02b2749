//! Members that are silent, slow, lost or hostile: the others are answered for at once, and nothing they send does harm.
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use fleet::Connection;
use http::{Request, Response};
use http_body_util::Full;
use kube::Client;
use muster_tests::runner::Case;
use muster_tests::{PATIENCE, Peer, cases};
use muster_tests_gateway::{refused, user};
use serde_json::{Value, json};
use simulator::Network;

use crate::stage::{Stage, field, only_silent, silent};

pub fn all() -> Vec<Case> {
    cases![muster faults: members_that_do_not_answer_are_named, one_asked_alone_is_waited_for, a_lost_member_is_shown_as_it_was, a_hostile_member_does_no_harm, pages_hear_of_changes]
}

// F-8, F-9, SYM-13
async fn members_that_do_not_answer_are_named(peer: &Peer) {
    let stage = Stage::begin(peer, &["beijing"]).await;
    stage.app("beijing", "shop", "web", json!({"app": "web"}), 1).await;
    stage.pods("web", 1).await;
    stage.declare_silent("desert");
    for path in [
        "/api/cluster/all/appPod/web",
        "/api/cluster/all/endpoints/web",
        "/api/cluster/all/resources/core/v1/pods",
        "/api/cluster/all/appPod/web/helm",
    ] {
        let page = stage.until(path, |page| only_silent(page, "desert")).await;
        assert!(page["unanswered"][0]["reason"].is_string() && page["unanswered"][0]["message"].is_string(), "{page}");
        assert!(field(&page, "cluster").iter().all(|cluster| cluster == "beijing"), "{page}");
    }
    assert_eq!(stage.face.get("/api/cluster/all/appPod/web").await.ok(200)["count"], 1);
    let resource = "/api/cluster/all/namespace/shop/app/web/resource";
    let all = stage.until(resource, |page| silent(page).iter().all(|(cluster, _)| cluster == "desert")).await;
    assert!(all["unanswered"][0]["cluster"] == "desert" && all["pods"].as_array().unwrap().len() == 1, "{all}");
    let done = stage.face.call("POST", "/api/cluster/all/namespace/shop/app/web/restart").send().await.ok(200);
    assert!(done["restarted"].as_array().unwrap().len() == 1 && done["unanswered"][0]["cluster"] == "desert", "{done}");
    refused(&stage.face.get("/api/cluster/desert/exec?namespace=shop&pod=p&command=id").await, 503);
    refused(&stage.face.get("/api/cluster/desert/namespace/shop/pods/p/logs").await, 503);
    stage.end().await;
}

// F-9
async fn one_asked_alone_is_waited_for(peer: &Peer) {
    let stage = Stage::begin(peer, &["beijing", "shanghai"]).await;
    stage.app("shanghai", "shop", "web", json!({"app": "web"}), 1).await;
    stage.members["shanghai"].set_network(Network::Slow(Duration::from_secs(1)));
    let all = stage.face.get("/api/cluster/all/endpoints/web").await.ok(200);
    assert!(
        silent(&all).iter().any(|(cluster, why)| cluster == "shanghai" && why.contains("still being read")),
        "{all}"
    );
    // Each is read for the first time. On a stalled machine one may come too late, but hardly all.
    let mut whole = 0;
    for path in ["appPod/web", "deployments/stat", "resources/core/v1/services", "resources/core/v1/configmaps"] {
        let page = stage.face.get(&format!("/api/cluster/shanghai/{path}")).await.ok(200);
        whole += usize::from(silent(&page).is_empty() && page["count"].as_u64() > Some(0));
    }
    assert!(whole > 0, "none was waited for");
    stage.end().await;
}

// F-8, F-9
async fn a_lost_member_is_shown_as_it_was(peer: &Peer) {
    let stage = Stage::begin(peer, &["beijing", "shanghai"]).await;
    for member in ["beijing", "shanghai"] {
        stage.app(member, "shop", "web", json!({"app": "web"}), 1).await;
    }
    let pods = stage.pods("web", 2).await;
    let gone = pods.iter().find(|pod| pod["cluster"] == "shanghai").unwrap()["name"].as_str().unwrap().to_owned();
    let objects = "/api/cluster/shanghai/resources/core/v1/namespaces/shop";
    let one = format!("{objects}/pods/{gone}");
    let fresh = stage.face.get(&one).await;
    assert!(fresh.ok(200).get("stale").is_none() && fresh.headers.get("x-muster-stale").is_none(), "{}", fresh.text());
    stage.members["shanghai"].set_network(Network::BlackHole);
    let page = stage.until("/api/cluster/all/appPod/web", |page| page["stale"] != json!([])).await;
    assert_eq!((&page["stale"][0]["cluster"], &page["count"]), (&json!("shanghai"), &json!(2)), "{page}");
    assert!(page["stale"][0]["since"].as_str().unwrap().starts_with("20"), "{page}");
    let lost = stage.until("/api/cluster/shanghai", |page| page["items"][0]["state"] == "Unreachable").await;
    assert!(lost["items"][0]["error"].is_string() && lost["items"][0]["ready"] == false, "{lost}");
    // One object is shown as it was, too, and says so as lists do; what is not in memory cannot be had.
    let row = stage.face.get(&one).await.ok(200);
    assert_eq!((&row["name"], &row["stale"][0]["cluster"]), (&json!(gone), &json!("shanghai")), "{row}");
    assert!(row["stale"][0]["since"].as_str().unwrap().starts_with("20") && row["status"].is_object(), "{row}");
    let raw = stage.face.get(&format!("{one}?raw=true")).await;
    assert!(raw.header("x-muster-stale").starts_with("20"), "{:?}", raw.headers);
    let raw = raw.ok(200);
    assert_eq!((&raw["apiVersion"], &raw["kind"], raw.get("stale")), (&json!("v1"), &json!("Pod"), None), "{raw}");
    let narrow = stage.face.get(&format!("{one}?fields=name")).await.ok(200);
    assert!(narrow["stale"][0]["cluster"] == "shanghai" && narrow.get("status").is_none(), "{narrow}");
    let zcloud = format!("/apis/zcloud.cn/v1/clusters/shanghai/namespaces/shop/pods/{gone}");
    assert_eq!(stage.face.get(&zcloud).await.ok(200)["stale"][0]["cluster"], "shanghai");
    let nobody = user(peer, "stale-nobody", None, None).await;
    refused(&stage.face.call("GET", &one).token(Some(&nobody)).send().await, 403);
    for unknown in ["pods/nobody", "configmaps/kube-root-ca.crt", "secrets/any"] {
        let problem = refused(&stage.face.get(&format!("{objects}/{unknown}")).await, 503);
        assert_eq!(problem["reason"], "ClusterUnreachable", "{problem}");
    }
    refused(&stage.face.call("DELETE", &one).send().await, 503);
    // Unreachable is still ready in the words of zcloud: what was known is shown.
    assert_eq!(
        stage.face.get("/apis/zcloud.cn/v1/clusters?onlyready=true").await.ok(200)["data"].as_array().unwrap().len(),
        2
    );
    assert_eq!(
        stage.face.get("/apis/zcloud.cn/v1/clusters/shanghai/pods").await.ok(200)["data"].as_array().unwrap().len(),
        1
    );
    let problem = refused(&stage.face.get("/api/cluster/shanghai/exec?namespace=shop&pod=p&command=id").await, 503);
    assert_eq!(problem["reason"], "ClusterUnreachable");
    stage.members["shanghai"].set_network(Network::default());
    stage.until("/api/cluster/shanghai", |page| page["items"][0]["state"] == "Running").await;
    stage.until("/api/cluster/all/appPod/web", |page| page["stale"] == json!([])).await;
    stage.end().await;
}

/// A member that passes its probes and lies about everything else.
fn hostile(request: &Request<kube::client::Body>) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    let answer = |code: u16, body: String| Response::builder().status(code).body(Full::new(Bytes::from(body))).unwrap();
    let list = |items: Value| {
        json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}).to_string()
    };
    match path {
        "/readyz" | "/livez" | "/healthz" => answer(200, "ok".to_owned()),
        "/version" => answer(200, json!({"major": "1", "minor": "34", "gitVersion": "v1.34.0", "gitCommit": "", "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}).to_string()),
        "/api/v1/pods" if request.uri().query().unwrap_or_default().contains("watch") => answer(500, "no".to_owned()),
        "/api/v1/pods" => answer(200, list(json!([
            {"metadata": {"name": "<script>alert(1)</script>", "namespace": "shop", "labels": {"app": "web"}}, "spec": [], "status": 5},
            {"metadata": {"name": "\u{1b}[31mred", "namespace": "shop", "labels": {"app": "web"}}, "spec": {"containers": "none"}},
            {"metadata": {"name": "fine", "namespace": "shop", "labels": {"app": "web"}, "creationTimestamp": 7}, "status": {"phase": "Running"}},
            {"metadata": {"namespace": "shop"}}, "nonsense", 5, null]))),
        "/apis/apps/v1/deployments" => Response::builder().status(302).header("location", "http://127.0.0.1:1/").body(Full::default()).unwrap(),
        path if path.ends_with("/log") => Response::builder().status(307).header("location", "http://127.0.0.1:1/").body(Full::default()).unwrap(),
        path if path.ends_with("/exec") => answer(200, "not a websocket".to_owned()),
        _ => answer(418, "<html>teapot</html>".to_owned()),
    }
}

// B-14
async fn a_hostile_member_does_no_harm(peer: &Peer) {
    let stage = Stage::begin(peer, &["beijing"]).await;
    let service = tower::service_fn(|request: Request<kube::client::Body>| {
        let answer = hostile(&request);
        async move { Ok::<_, std::io::Error>(answer) }
    });
    stage.fleet.declare("evil", BTreeMap::new(), Connection::through(Client::new(service, "default")));
    stage.until("/api/cluster/evil", |page| page["items"][0]["state"] == "Running").await;
    let page = stage.until("/api/cluster/all/appPod/web", |page| page["count"] == 3).await;
    let answer = stage.face.get("/api/cluster/all/appPod/web").await;
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert!(!answer.text().contains('\u{1b}'), "control characters are escaped");
    assert!(field(&page, "name").contains(&"fine".to_owned()), "{page}");
    let redirects =
        |page: &Value| silent(page).iter().any(|(cluster, why)| cluster == "evil" && why.contains("redirect"));
    stage.until("/api/cluster/all/deployments/stat", redirects).await;
    let problem = refused(&stage.face.get("/api/cluster/evil/namespace/shop/pods/p/logs").await, 502);
    assert!(problem["message"].as_str().unwrap().contains("redirect"), "{problem}");
    refused(&stage.face.get("/api/cluster/evil/exec?namespace=shop&pod=p&command=id").await, 502);
    let kinds = stage.face.get("/api/cluster/all/kinds").await.ok(200);
    assert!(!kinds.as_array().unwrap().is_empty(), "the others' are shown");
    stage.end().await;
}

// F-20
async fn pages_hear_of_changes(peer: &Peer) {
    let stage = Stage::begin(peer, &["beijing"]).await;
    stage.app("beijing", "shop", "web", json!({"app": "web"}), 1).await;
    stage.pods("web", 1).await;
    let token = format!("Bearer {}", muster_tests::peer::TOKEN);
    let mut tab =
        muster_tests_gateway::browser::Tab::open(stage.face.address, "/wapi/v1/stream", &[("authorization", &token)])
            .await
            .unwrap();
    for (id, path) in [
        ("pods", "/api/cluster/all/appPod/web"),
        ("other", "/api/cluster/all/appPod/other"),
        ("fleet", "/api/cluster/all"),
    ] {
        tab.say(json!({"subscribe": {"id": id, "path": path}})).await;
    }
    tab.say(json!({"subscribe": {"id": "no", "path": "/api/cluster/beijing/exec"}})).await;
    // The members go on meanwhile, and that is heard, too.
    while tab.hear(PATIENCE).await.unwrap()["id"] != "no" {}
    stage
        .on("beijing", "PATCH", "/apis/apps/v1/namespaces/shop/deployments/web/scale", json!({"spec": {"replicas": 3}}))
        .await;
    let mut ids = Vec::new();
    while let Some(heard) = tab.hear(PATIENCE).await {
        assert_eq!(heard["event"], "changed", "{heard}");
        ids.push(heard["id"].as_str().unwrap().to_owned());
        if ids.contains(&"pods".to_owned()) && ids.contains(&"fleet".to_owned()) {
            break;
        }
    }
    assert!(
        ids.contains(&"pods".to_owned()) && ids.contains(&"fleet".to_owned()) && !ids.contains(&"other".to_owned()),
        "{ids:?}"
    );
    stage.end().await;
}
