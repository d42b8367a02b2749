//! Who may: every route for everybody, decided by the API for the caller's own credentials. // KC-8
use muster_tests::runner::Case;
use muster_tests::{Peer, cases, eventually};
use muster_tests_gateway::{Face, deployment, refused, user};
use serde_json::{Value, json};

pub fn all() -> Vec<Case> {
    cases![rights: every_route_for_everybody, who_may_not_see_all_namespaces_is_told_where_to_look, who_may_list_but_not_get_sees_no_data_of_secrets,
        a_grant_counts_soon_and_so_does_its_end, wrong_tokens_learn_nothing]
}

/// Codes for: nobody, a wrong token, no rights, rights in the namespace, all rights.
const EXPECTED: [(&str, &str, [u16; 5]); 12] = [
    ("GET", "/apiext/v1", [401, 401, 200, 200, 200]),
    ("GET", "/apiext/openapi.json?group=apps", [401, 401, 200, 200, 200]),
    ("GET", "ALL", [401, 401, 403, 403, 200]),
    ("GET", "HERE", [401, 401, 403, 200, 200]),
    ("GET", "THERE", [401, 401, 403, 403, 200]),
    ("GET", "HERE/web", [401, 401, 403, 200, 200]),
    ("POST", "HERE", [401, 401, 403, 201, 201]),
    ("POST", "THERE", [401, 401, 403, 403, 201]),
    ("POST", "HERE/web/restart", [401, 401, 403, 200, 200]),
    ("PATCH", "HERE/web", [401, 401, 403, 200, 200]),
    ("PUT", "HERE/web", [401, 401, 403, 428, 428]),
    ("DELETE", "HERE/web", [401, 401, 403, 200, 404]),
];

async fn every_route_for_everybody(peer: &Peer) {
    let face = Face::start(peer).await;
    let (here, there) = (peer.namespace().await, peer.namespace().await);
    let every = json!([{"apiGroups": ["apps", ""], "resources": ["deployments", "configmaps"], "verbs": ["*"]}]);
    let poor = user(peer, &format!("poor-{here}"), None, None).await;
    let local = user(peer, &format!("local-{here}"), Some(&here), Some(every.clone())).await;
    let full = user(peer, &format!("full-{here}"), None, Some(every)).await;
    let root = "/apiext/v1/apps/v1";
    let place = |ns: &str| format!("{root}/namespaces/{ns}/deployments");
    face.post(&place(&here), deployment("web", 1)).await.ok(201);
    let tokens = [None, Some("wrong"), Some(poor.as_str()), Some(local.as_str()), Some(full.as_str())];
    for (method, path, codes) in EXPECTED {
        let full_path = path
            .replace("ALL", &format!("{root}/deployments"))
            .replace("THERE", &place(&there))
            .replace("HERE", &place(&here));
        for (i, (token, code)) in tokens.iter().zip(codes).enumerate() {
            let mut call = face.call(method, &full_path).token(*token);
            let body = match method {
                "POST" if path.ends_with("ERE") => Some(deployment(&format!("made-{i}"), 1)),
                "PATCH" => Some(json!({"labels": {"x": "y"}})),
                "PUT" => Some(json!({"spec": {}})),
                _ => None,
            };
            if let Some(body) = body {
                call = call.json(body);
            }
            let answer = call.send().await;
            assert_eq!(answer.status, code, "{method} {path} by {i}: {}", answer.text());
            if code >= 400 {
                refused(&answer, code);
            }
        }
    }
}

async fn who_may_not_see_all_namespaces_is_told_where_to_look(peer: &Peer) {
    let (face, ns) = (Face::start(peer).await, peer.namespace().await);
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]);
    let token = user(peer, &format!("look-{ns}"), Some(&ns), Some(rules)).await;
    let problem = refused(&face.call("GET", "/apiext/v1/core/v1/configmaps").token(Some(&token)).send().await, 403);
    let path = problem["details"]["path"].as_str().unwrap();
    assert!(problem["message"].as_str().unwrap().contains(path), "{problem}");
    face.call("GET", &path.replace("{namespace}", &ns)).token(Some(&token)).send().await.ok(200);
}

async fn who_may_list_but_not_get_sees_no_data_of_secrets(peer: &Peer) {
    let (face, ns) = (Face::start(peer).await, peer.namespace().await);
    let rules = json!([{"apiGroups": [""], "resources": ["secrets", "configmaps"], "verbs": ["list"]}]);
    let token = user(peer, &format!("lister-{ns}"), Some(&ns), Some(rules)).await;
    let place = format!("/apiext/v1/core/v1/namespaces/{ns}/secrets");
    face.post(&place, json!({"name": "s", "data": {"k": "Y2FuYXJ5"}})).await.ok(201);
    let plain = face.call("GET", &place).token(Some(&token)).send().await;
    assert_eq!((plain.ok(200)["count"].clone(), plain.text().contains("Y2FuYXJ5")), (json!(1), false));
    for fields in ["data", "name,data.k", "stringData"] {
        refused(&face.call("GET", &format!("{place}?fields={fields}")).token(Some(&token)).send().await, 403);
    }
    refused(&face.call("GET", &format!("{place}/s")).token(Some(&token)).send().await, 403);
}

async fn a_grant_counts_soon_and_so_does_its_end(peer: &Peer) {
    let (face, ns) = (Face::start(peer).await, peer.namespace().await);
    let name = format!("later-{ns}");
    let token = user(peer, &name, None, None).await;
    let place = format!("/apiext/v1/core/v1/namespaces/{ns}/configmaps");
    let list = async || face.call("GET", &place).token(Some(&token)).send().await.status;
    assert_eq!(list().await, 403);
    let bindings = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings");
    let binding = json!({"metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]});
    // kube-apiserver alone fills the role "view" by a controller that does not run here.
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]);
    peer.post(
        &format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles"),
        json!({"metadata": {"name": "own"}, "rules": rules}),
    )
    .await
    .ok(201);
    let mut binding: Value = binding;
    binding["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "own"});
    peer.post(&bindings, binding).await.ok(201);
    eventually("the grant counts", || async { list().await == 200 }).await;
    peer.delete(&format!("{bindings}/{name}")).await.ok(200);
    eventually("its end counts", || async { list().await == 403 }).await;
}

async fn wrong_tokens_learn_nothing(peer: &Peer) {
    let face = Face::start(peer).await;
    for path in [
        "/apiext/v1/core/v1/configmaps",
        "/apiext/v1/no.such/v1/kinds",
        "/apiext/v1/core/v1/namespaces/default/nodes",
        "/apiext/v1/core/v1/configmaps/x",
        "/apiext/v1",
    ] {
        let known = refused(&face.call("GET", path).token(Some("wrong")).send().await, 401);
        let other = refused(&face.call("GET", "/apiext/v1/core/v1/configmaps").token(Some("wrong")).send().await, 401);
        assert_eq!(known, other);
    }
}
