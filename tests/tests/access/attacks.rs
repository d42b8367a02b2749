//! Ways around: escalation by role, binding, label and name; impersonation tricks; rights that should be gone.
use http_body_util::BodyExt;
use muster_tests::runner::Case;
use muster_tests::{Peer, cases};
use serde_json::{Value, json};

use crate::{RBAC, as_user, bind, is_denied, namespace, user};

pub fn cases() -> Vec<Case> {
    [
        cases![attacks: nobody_grants_what_it_does_not_have, escalate_and_bind_are_rights_of_their_own,
            subresources_and_lists_are_rights_of_their_own, impersonation_takes_every_right],
        cases![muster attacks: a_watch_ends_with_the_right_to_it, a_grant_and_its_end_hold_for_the_next_request, impersonation_headers_are_never_overlooked],
    ]
    .concat()
}

async fn role(peer: &Peer, name: &str, rules: Value) {
    peer.post(&format!("{RBAC}/clusterroles"), json!({"metadata": {"name": name}, "rules": rules})).await.ok(201);
}

fn may(verb: &str, group: &str, resource: &str) -> Value {
    json!({"verb": verb, "group": group, "resource": resource})
}

const GROUP: &str = "rbac.authorization.k8s.io";

/// CVE-2021-36784, CVE-2023-32196, CVE-2022-31247: an editor of roles is not an administrator.
async fn nobody_grants_what_it_does_not_have(peer: &Peer) {
    let write = json!(["get", "create", "update", "patch", "delete"]);
    let kinds = json!(["roles", "clusterroles", "rolebindings", "clusterrolebindings"]);
    role(
        peer,
        "at-writer",
        json!([{"verbs": write, "apiGroups": [GROUP], "resources": kinds},
            {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]},
            {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"]}]),
    )
    .await;
    bind(peer, "", "at-writer", "at-writer", user("at-ann")).await;
    peer.allows("at-ann", may("create", GROUP, "clusterroles")).await;
    let post = |what: &'static str, body: Value| as_user(peer, "at-ann", "POST", what, Some(body));
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let refused = |answer: muster_tests::Answer| {
        let status = answer.fails(403, "Forbidden");
        let message = status["message"].as_str().unwrap().to_owned();
        assert!(message.contains("not currently held") || message.contains("cluster-admin privileges"), "{message}");
    };
    for rules in [
        json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]),
        json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]),
        json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine", "yours"]}]),
        json!([{"verbs": ["get"], "apiGroups": ["", "*"], "resources": ["configmaps"]}]),
        json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps/*"]}]),
        json!([{"verbs": ["escalate"], "apiGroups": [GROUP], "resources": ["clusterroles"]}]),
        json!([{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}]),
    ] {
        refused(post(roles, json!({"metadata": {"name": "at-evil"}, "rules": rules})).await);
    }
    // By a label that puts it into an administrator's role, the same rule holds.
    let labels = json!({"rbac.authorization.k8s.io/aggregate-to-admin": "true"});
    let rule = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    refused(post(roles, json!({"metadata": {"name": "at-evil", "labels": labels}, "rules": rule})).await);
    // By gathering everything.
    let everything =
        json!({"clusterRoleSelectors": [{"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}]});
    refused(post(roles, json!({"metadata": {"name": "at-evil"}, "aggregationRule": everything})).await);
    // By binding.
    for role in ["cluster-admin", "system:aggregate-to-edit"] {
        let reference = json!({"kind": "ClusterRole", "name": role});
        let body = json!({"metadata": {"name": "at-evil"}, "roleRef": reference, "subjects": [user("at-ann")]});
        refused(post(bindings, body).await);
    }
    // What it has it may give, in parts.
    let fine = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"]},
        {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}]);
    post(roles, json!({"metadata": {"name": "at-fine"}, "rules": fine})).await.ok(201);
    // Nor later: by patch, by update, by a patch of JSON operations, by a patch of labels on a greater role.
    let path = format!("{roles}/at-fine");
    let rules = json!({"rules": [{"verbs": ["create"], "apiGroups": [""], "resources": ["pods"]}]});
    refused(as_user(peer, "at-ann", "PATCH", &path, Some(rules.clone())).await);
    let mut whole = peer.get(&path).await.ok(200);
    whole["rules"] = rules["rules"].clone();
    refused(as_user(peer, "at-ann", "PUT", &path, Some(whole)).await);
    let operations = json!([{"op": "add", "path": "/rules/-", "value": rules["rules"][0]}]);
    let call = peer.call("PATCH", &path).header("impersonate-user", "at-ann").body(operations);
    refused(call.media("application/json-patch+json").send().await);
    // By server-side apply, where it is served: of a role that is there, and of one that is not.
    for name in ["at-fine", "at-evil"] {
        let applied = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules["rules"]});
        let path = format!("{roles}/{name}?fieldManager=at-ann&force=true");
        let call = peer.call("PATCH", &path).header("impersonate-user", "at-ann").body(applied);
        let answer = call.media("application/apply-patch+yaml").send().await;
        assert!(matches!(answer.status, 403 | 415), "{}", answer.text());
    }
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    refused(as_user(peer, "at-ann", "PATCH", &format!("{roles}/cluster-admin"), Some(label)).await);
    assert_eq!(peer.get(&format!("{roles}/at-evil")).await.status, 404);
}

async fn escalate_and_bind_are_rights_of_their_own(peer: &Peer) {
    namespace(peer, "at-bind").await;
    role(
        peer,
        "at-binder",
        json!([{"verbs": ["create"], "apiGroups": [GROUP], "resources": ["rolebindings", "clusterroles"]},
            {"verbs": ["bind"], "apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["view"]},
            {"verbs": ["escalate"], "apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["at-any"]}]),
    )
    .await;
    bind(peer, "at-bind", "at-binder", "at-binder", user("at-bob")).await;
    bind(peer, "", "at-binder", "at-binder", user("at-cid")).await;
    let here = json!({"namespace": "at-bind", "verb": "create", "group": GROUP, "resource": "rolebindings"});
    peer.allows("at-bob", here.clone()).await;
    peer.allows("at-cid", here).await;
    let binding =
        |name: &str, role: &str| json!({"metadata": {"name": name}, "roleRef": {"kind": "ClusterRole", "name": role}});
    let path = format!("{RBAC}/namespaces/at-bind/rolebindings");
    as_user(peer, "at-bob", "POST", &path, Some(binding("one", "view"))).await.ok(201);
    as_user(peer, "at-bob", "POST", &path, Some(binding("two", "cluster-admin"))).await.fails(403, "Forbidden");
    // At home only, and by that name only.
    let elsewhere = format!("{RBAC}/namespaces/default/rolebindings");
    as_user(peer, "at-bob", "POST", &elsewhere, Some(binding("one", "view"))).await.fails(403, "Forbidden");
    // Creation names nothing, so a right by name does not reach it.
    let any =
        json!({"metadata": {"name": "at-any"}, "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]});
    let path = format!("{RBAC}/clusterroles");
    as_user(peer, "at-cid", "POST", &path, Some(any)).await.fails(403, "Forbidden");
}

/// CVE-2024-52280: whoever may get may not thereby list or watch; whoever has the object does not have what is below it.
async fn subresources_and_lists_are_rights_of_their_own(peer: &Peer) {
    namespace(peer, "at-sub").await;
    role(
        peer,
        "at-getter",
        json!([{"verbs": ["get", "update"], "apiGroups": [""], "resources": ["namespaces", "serviceaccounts", "secrets"]}]),
    )
    .await;
    bind(peer, "", "at-getter", "at-getter", user("at-dan")).await;
    peer.allows("at-dan", may("get", "", "secrets")).await;
    for (method, path, verb) in [
        ("GET", "/api/v1/namespaces/at-sub/secrets", "list"),
        ("GET", "/api/v1/secrets?watch=true", "watch"),
        ("GET", "/api/v1/watch/secrets", "watch"),
        ("GET", "/api/v1/watch/namespaces/at-sub/secrets/x", "watch"),
        ("GET", "/api/v1/namespaces/at-sub/secrets?fieldSelector=metadata.name=x", "list"),
        ("PUT", "/api/v1/namespaces/at-sub/finalize", "update"),
        ("PUT", "/api/v1/namespaces/at-sub/status", "update"),
        ("POST", "/api/v1/namespaces/at-sub/serviceaccounts/default/token", "create"),
        ("DELETE", "/api/v1/namespaces/at-sub/secrets/x", "delete"),
    ] {
        let body = matches!(method, "PUT" | "POST").then(|| json!({}));
        let answer = as_user(peer, "at-dan", method, path, body).await;
        assert!(is_denied(&answer, verb), "{method} {path}: {} {}", answer.status, answer.text());
    }
    assert_eq!(as_user(peer, "at-dan", "GET", "/api/v1/namespaces/at-sub/secrets/x", None).await.status, 404);
}

async fn impersonation_takes_every_right(peer: &Peer) {
    role(
        peer,
        "at-actor",
        json!([{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["at-eve"]},
            {"verbs": ["impersonate"], "apiGroups": ["authentication.k8s.io"], "resources": ["userextras/project"], "resourceNames": ["x"]}]),
    )
    .await;
    bind(
        peer,
        "",
        "at-actor",
        "at-actor",
        json!({"kind": "ServiceAccount", "namespace": "default", "name": "at-actor"}),
    )
    .await;
    peer.post("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "at-actor"}})).await.ok(201);
    let token = peer.post("/api/v1/namespaces/default/serviceaccounts/at-actor/token", json!({})).await.ok(201);
    let token = token["status"]["token"].as_str().unwrap().to_owned();
    let right = json!({"verb": "impersonate", "resource": "users", "name": "at-eve"});
    peer.allows("system:serviceaccount:default:at-actor", right).await;
    let ask = |headers: &'static [(&'static str, &'static str)]| {
        let call =
            peer.call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews").body(json!({})).token(Some(&token));
        headers.iter().fold(call, |call, (name, value)| call.header(name, value)).send()
    };
    let eve = ask(&[("impersonate-user", "at-eve"), ("impersonate-extra-project", "x")]).await.ok(201);
    assert_eq!(eve["status"]["userInfo"]["username"], "at-eve");
    assert_eq!(eve["status"]["userInfo"]["groups"], json!(["system:authenticated"]));
    let me = ask(&[]).await.ok(201);
    assert_eq!(me["status"]["userInfo"]["username"], "system:serviceaccount:default:at-actor");
    for headers in [
        &[("impersonate-user", "at-other")][..],
        &[("impersonate-user", "system:admin")],
        &[("impersonate-user", "at-eve"), ("impersonate-group", "system:masters")],
        &[("impersonate-user", "at-eve"), ("impersonate-uid", "1")],
        &[("impersonate-user", "at-eve"), ("impersonate-extra-project", "y")],
        &[("impersonate-user", "at-eve"), ("impersonate-extra-other", "x")],
        &[("impersonate-user", "system:serviceaccount:kube-system:default")],
        &[("impersonate-user", "system:anonymous")],
        // CVE-2021-31999: asking a proxy to drop the header does not make us drop it.
        &[("connection", "impersonate-user"), ("impersonate-user", "system:admin")],
    ] {
        let mut call =
            peer.call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews").body(json!({})).token(Some(&token));
        for (name, value) in headers {
            call = call.header(name, value);
        }
        let call = if headers[0].0 == "connection" { call.http1() } else { call };
        let answer = call.send().await;
        assert!(is_denied(&answer, "impersonate"), "{headers:?}: {} {}", answer.status, answer.text());
    }
    // Nobody becomes somebody by asking.
    let answer = peer
        .call("GET", "/api/v1/namespaces")
        .token(None)
        .fresh()
        .header("impersonate-user", "system:admin")
        .send()
        .await;
    assert!(matches!(answer.status, 401 | 403), "{}", answer.text());
}

/// Kubernetes takes the first of two headers and overlooks empty and unknown ones; we refuse them.
async fn impersonation_headers_are_never_overlooked(peer: &Peer) {
    for headers in [
        &[("impersonate-user", "a"), ("impersonate-user", "b")][..],
        &[("impersonate-user", "")],
        &[("impersonate-group", "system:masters")],
        &[("impersonate-user", "a"), ("impersonate-role", "b")],
    ] {
        let call = peer.call("GET", "/api/v1/namespaces/default");
        let call = headers.iter().fold(call, |call, (name, value)| call.header(name, value));
        call.send().await.fails(400, "BadRequest");
    }
}

/// Kubernetes lets an open watch run on. (B-20)
async fn a_watch_ends_with_the_right_to_it(peer: &Peer) {
    namespace(peer, "at-watch").await;
    bind(peer, "at-watch", "at-watch", "system:aggregate-to-view", user("at-eye")).await;
    let maps = "/api/v1/namespaces/at-watch/configmaps";
    let open = |who: &'static str| async move {
        let call = peer.call("GET", &format!("{maps}?watch=true&timeoutSeconds=30")).header("impersonate-user", who);
        let answer = call.fresh().open().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.into_body()
    };
    let mut seen = open("at-eye").await;
    let make = |name: &'static str| peer.post(maps, json!({"metadata": {"name": name}}));
    make("before").await.ok(201);
    let first = seen.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(String::from_utf8_lossy(&first).contains("before"));
    peer.delete(&format!("{RBAC}/namespaces/at-watch/rolebindings/at-watch")).await.ok(200);
    tokio::time::sleep(std::time::Duration::from_millis(5500)).await;
    make("after").await.ok(201);
    let rest = seen.collect().await.unwrap().to_bytes();
    assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
}

async fn a_grant_and_its_end_hold_for_the_next_request(peer: &Peer) {
    for round in 0..10 {
        let name = format!("at-quick-{round}");
        let path = format!("{RBAC}/clusterrolebindings/{name}");
        assert_eq!(as_user(peer, &name, "GET", "/api/v1/configmaps?limit=1", None).await.status, 403);
        bind(peer, "", &name, "system:aggregate-to-view", user(&name)).await;
        as_user(peer, &name, "GET", "/api/v1/configmaps?limit=1", None).await.ok(200);
        let nobody = json!({"subjects": [user("somebody-else")]});
        peer.patch(&path, "merge", nobody).await.ok(200);
        assert_eq!(as_user(peer, &name, "GET", "/api/v1/configmaps?limit=1", None).await.status, 403);
        peer.delete(&path).await.ok(200);
    }
}
