//! Who may: rights on members are roles of the meta API, by member and by namespace; who has none sees nothing and learns nothing.
use std::time::Duration;

use muster_tests::runner::Case;
use muster_tests::{PATIENCE, Peer, cases, eventually};
use muster_tests_gateway::browser::Tab;
use muster_tests_gateway::{refused, user};
use serde_json::{Value, json};

use crate::stage::{Stage, field};

pub fn all() -> Vec<Case> {
    cases![rights: every_route_is_closed_to_who_has_no_right, a_role_reaches_the_members_and_namespaces_it_names,
        a_followed_log_ends_with_the_right_to_it, who_may_have_a_kubeconfig_that_ends_may_not_have_the_one_that_stays]
}

/// Every route that does or shows something, with what it needs.
const ROUTES: &[(&str, &str)] = &[
    ("GET", "/api/cluster/all"),
    ("GET", "/api/cluster/beijing"),
    ("GET", "/api/cluster/beijing/namespace/shop/app/web/resource"),
    ("GET", "/api/cluster/all/appPod/web"),
    ("GET", "/api/cluster/all/appPod/web/helm"),
    ("POST", "/api/cluster/all/namespace/shop/app/web/restart"),
    ("GET", "/api/cluster/all/endpoints/web"),
    ("GET", "/api/cluster/beijing/exec?namespace=shop&pod=p&command=id"),
    ("POST", "/api/cluster/beijing/exec?namespace=shop&pod=p&command=id"),
    ("GET", "/api/cluster/all/deployments/stat"),
    ("GET", "/api/cluster/all/namespace/shop/pods/p/event"),
    ("GET", "/api/cluster/beijing/namespace/shop/pods/p/logs"),
    ("GET", "/api/pod/logfiles?cluster=beijing&namespace=shop&pod=p"),
    ("GET", "/api/cluster/beijing/namespace/shop/pods/p/logs/file?path=/var/log/a"),
    ("GET", "/api/cluster/all/cleanups"),
    ("GET", "/api/cluster/beijing/cleanups"),
    ("POST", "/api/cluster/beijing/cleanups/feed/abandon"),
    ("GET", "/api/cluster/all/kinds"),
    ("GET", "/api/cluster/all/resources/core/v1/secrets"),
    ("GET", "/api/cluster/beijing/resources/core/v1/namespaces/shop/secrets/s"),
    ("PUT", "/api/cluster/beijing/resources/core/v1/namespaces/shop/configmaps/c"),
    ("DELETE", "/api/cluster/beijing/resources/core/v1/namespaces/shop/configmaps/c"),
    ("POST", "/api/cluster/beijing/resources/apps/v1/namespaces/shop/deployments/web/restart"),
    ("GET", "/api/cluster/meta/resources/core/v1/secrets"),
    ("GET", "/apis/zcloud.cn/v1/clusters"),
    ("GET", "/apis/zcloud.cn/v1/clusters/beijing"),
    ("POST", "/apis/zcloud.cn/v1/clusters/beijing?action=getkubeconfig"),
    ("POST", "/apis/zcloud.cn/v1/clusters/beijing?action=getkubeconfig&longLived=true"),
    ("POST", "/apis/zcloud.cn/v1/clusters/beijing?action=getkubeconfig&createAccount=read"),
    ("POST", "/apis/zcloud.cn/v1/clusters?action=import"),
    ("DELETE", "/apis/zcloud.cn/v1/clusters/beijing"),
    ("GET", "/apis/zcloud.cn/v1/clusters/beijing/pods"),
    ("GET", "/apis/zcloud.cn/v1/clusters/beijing/nodes/n"),
    ("GET", "/wapi/v1/overview"),
    ("GET", "/wapi/v1/events"),
];

// SYM-13, SC-9, B-12
async fn every_route_is_closed_to_who_has_no_right(peer: &Peer) {
    let stage = Stage::begin(peer, &["beijing"]).await;
    let nobody = user(peer, "members-nobody", None, None).await;
    for (method, path) in ROUTES {
        let call = |token: Option<&str>| {
            let call = stage.face.call(method, path).token(token);
            match *method {
                "PUT" => call.raw("application/json", r#"{"data":{"a":"b"}}"#),
                "POST" => call.raw("application/json", r#"{"name":"x","kubeconfig":"x"}"#),
                _ => call,
            }
        };
        refused(&call(None).send().await, 401);
        refused(&call(Some("nonsense")).send().await, 401);
        let problem = refused(&call(Some(&nobody)).send().await, 403);
        assert!(problem["message"].as_str().unwrap().contains("you may not"), "{method} {path}: {problem}");
        // Whether there is such a cluster is not told either.
        let elsewhere = path.replace("/beijing", "/nowhere").replace("cluster=beijing", "cluster=nowhere");
        let there = stage.face.call(method, &elsewhere).token(Some(&nobody));
        let there = if *method == "PUT" { there.raw("application/json", "{}") } else { there };
        assert_eq!(there.send().await.status, 403, "{method} {elsewhere}");
    }
    // A terminal is a WebSocket: who is known is let in, and then told that they may not.
    let terminal = "/api/cluster/beijing/terminal?namespace=shop&pod=p";
    refused(&stage.face.call("GET", terminal).token(Some(&nobody)).send().await, 426);
    for (cluster, bearer) in [("beijing", &nobody), ("nowhere", &nobody)] {
        let (path, bearer) = (terminal.replace("beijing", cluster), format!("Bearer {bearer}"));
        let mut tab = Tab::open(stage.face.address, &path, &[("authorization", &bearer)]).await.unwrap();
        assert_eq!(tab.hear(PATIENCE).await, Some(json!(4403)), "{cluster}");
    }
    let stranger = Tab::open(stage.face.address, terminal, &[("authorization", "Bearer nonsense")]).await;
    assert_eq!(stranger.err(), Some(401));
    let mut tab = Tab::open(stage.face.address, terminal, &[]).await.unwrap();
    tab.say(json!({"ticket": "nonsense"})).await;
    assert_eq!(tab.hear(PATIENCE).await, Some(json!(4401)));
    // The account's manifest is no secret, but strangers are told nothing at all.
    let role = "/wapi/v1/member-role?access=read";
    for token in [None, Some("nonsense")] {
        refused(&stage.face.call("GET", role).token(token).send().await, 401);
    }
    assert_eq!(stage.face.call("GET", role).token(Some(&nobody)).send().await.status, 200);
    assert_eq!(stage.face.call("GET", "/wapi/v1/search?q=web").token(Some(&nobody)).send().await.ok(200), json!([]));
    stage.end().await;
}

/// A user bound to a cluster role on members, everywhere or in one namespace of the meta API that stands for the members'.
pub async fn bound(peer: &Peer, name: &str, within: Option<&str>, rules: Value) -> String {
    let group = "/apis/rbac.authorization.k8s.io/v1";
    peer.post(&format!("{group}/clusterroles"), json!({"metadata": {"name": name}, "rules": rules})).await.ok(201);
    let token = user(peer, name, None, None).await;
    let place = within.map_or(format!("{group}/clusterrolebindings"), |namespace| {
        format!("{group}/namespaces/{namespace}/rolebindings")
    });
    let binding = json!({"metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]});
    peer.post(&place, binding).await.ok(201);
    token
}

// SYM-13
async fn a_role_reaches_the_members_and_namespaces_it_names(peer: &Peer) {
    let stage = Stage::begin(peer, &["beijing", "shanghai"]).await;
    for member in ["beijing", "shanghai"] {
        stage.app(member, "shop", "web", json!({"app": "web"}), 1).await;
        stage.app(member, "bank", "web", json!({"app": "web"}), 1).await;
    }
    let pods = stage.pods("web", 4).await;
    // A namespace of the members need not be one of the meta API but for bindings.
    let shop = peer.namespace().await;
    let members = "members.muster.dev";
    let one = bound(
        peer,
        &format!("one-{shop}"),
        None,
        json!([{"apiGroups": [members], "resources": ["pods"], "verbs": ["list"], "resourceNames": ["beijing"]}]),
    )
    .await;
    let get = async |token: &str, path: &str| stage.face.call("GET", path).token(Some(token)).send().await;
    // kube-apiserver takes a moment until the rights count.
    let web = "/api/cluster/all/appPod/web";
    eventually("the right counts", || async { get(&one, web).await.status == 200 }).await;
    let page = get(&one, web).await.ok(200);
    assert_eq!((&page["count"], &page["unanswered"]), (&json!(2), &json!([])), "{page}");
    assert!(field(&page, "cluster").iter().all(|cluster| cluster == "beijing"), "{page}");
    assert_eq!(get(&one, "/api/cluster/beijing/appPod/web").await.ok(200)["count"], 2);
    refused(&get(&one, "/api/cluster/shanghai/appPod/web").await, 403);
    refused(&get(&one, "/api/cluster/nowhere/appPod/web").await, 403);
    let name = pods[0]["name"].as_str().unwrap();
    refused(&get(&one, &format!("/api/cluster/beijing/namespace/shop/pods/{name}/logs")).await, 403);
    refused(&get(&one, "/api/cluster/all/resources/core/v1/secrets").await, 403);
    refused(&get(&one, "/api/cluster/all/resources/apps/v1/deployments").await, 403);
    // What was kept for others is not shown to them.
    let found = get(&one, "/wapi/v1/search?q=web").await.ok(200);
    assert!(found.as_array().unwrap().iter().all(|one| one["kind"] == "Pod" && one["cluster"] == "beijing"), "{found}");
    // A binding in a namespace is the right to that namespace on the members.
    let rules = json!([{"apiGroups": [members], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]}]);
    let inside = bound(peer, &format!("inside-{shop}"), Some(&shop), rules).await;
    for member in ["beijing", "shanghai"] {
        stage.app(member, &shop, "web", json!({"app": "web"}), 1).await;
    }
    stage.pods("web", 6).await;
    let path = format!("/api/cluster/all/appPod/web?namespace={shop}");
    eventually("the right counts", || async { get(&inside, &path).await.status == 200 }).await;
    assert_eq!(get(&inside, &path).await.ok(200)["count"], 2);
    let problem = refused(&get(&inside, "/api/cluster/all/appPod/web").await, 403);
    assert!(problem["message"].as_str().unwrap().contains("namespace"), "{problem}");
    refused(&get(&inside, "/api/cluster/all/appPod/web?namespace=bank").await, 403);
    stage.end().await;
}

// B-12, B-20
async fn who_may_have_a_kubeconfig_that_ends_may_not_have_the_one_that_stays(peer: &Peer) {
    let stage = Stage::begin(peer, &["beijing"]).await;
    let name = format!("borrower-{}", peer.namespace().await);
    let rules = json!([{"apiGroups": ["members.muster.dev"], "resources": ["clusters/kubeconfig"], "verbs": ["get"]}]);
    let token = bound(peer, &name, None, rules).await;
    let ask = async |more: &str| {
        let path = format!("/apis/zcloud.cn/v1/clusters/beijing?action=getkubeconfig{more}");
        stage.face.call("POST", &path).token(Some(&token)).send().await
    };
    for _ in 0..100 {
        if ask("").await.status != 403 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // A simulated one has none; that they are told so means that they may.
    assert_eq!(refused(&ask("").await, 409)["reason"], "NoKubeconfig");
    for more in ["&longLived=true", "&createAccount=operate"] {
        let problem = refused(&ask(more).await, 403);
        assert!(problem["message"].as_str().unwrap().contains("clusters/credentials"), "{problem}");
    }
    stage.end().await;
}

// B-20
async fn a_followed_log_ends_with_the_right_to_it(peer: &Peer) {
    let stage = Stage::begin(peer, &["beijing"]).await;
    stage.app("beijing", "shop", "web", json!({"app": "web"}), 1).await;
    let pods = stage.pods("web", 1).await;
    let path = format!("/api/cluster/beijing/namespace/shop/pods/{}/logs", pods[0]["name"].as_str().unwrap());
    let name = format!("reader-{}", peer.namespace().await);
    let rules = json!([{"apiGroups": ["members.muster.dev"], "resources": ["pods/log"], "verbs": ["get"]}]);
    let token = bound(peer, &name, None, rules).await;
    eventually("the right counts", || async {
        stage.face.call("GET", &path).token(Some(&token)).send().await.status == 200
    })
    .await;
    let bearer = format!("Bearer {token}");
    let mut tab = Tab::open(stage.face.address, "/wapi/v1/stream", &[("authorization", &bearer)]).await.unwrap();
    tab.say(json!({"follow": {"id": "log", "path": format!("{path}?follow=true")}})).await;
    assert_eq!(tab.hear(PATIENCE).await.unwrap()["event"], "open");
    tab.say(json!({"follow": {"id": "file", "path": format!("{path}/file?path=/var/log/app.log&follow=true")}})).await;
    let heard = tab.hear(PATIENCE).await.unwrap();
    assert_eq!((&heard["id"], &heard["code"]), (&json!("file"), &json!(403)), "a file is read with another right");
    let binding = format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{name}");
    peer.delete(&binding).await.ok(200);
    // Ten times of what it usually takes.
    let heard = tab.hear(Duration::from_secs(200)).await.unwrap();
    assert_eq!((&heard["id"], &heard["event"], &heard["code"]), (&json!("log"), &json!("failed"), &json!(403)));
    stage.end().await;
}
