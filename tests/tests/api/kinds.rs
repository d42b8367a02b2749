//! Rules of the single kinds: config maps, secrets, events, leases, service accounts, and names.
use muster_tests::runner::Case;
use muster_tests::{Peer, cases};
use serde_json::json;

use crate::{collection, config_map};

pub fn cases() -> Vec<Case> {
    cases![kinds: names_must_be_dns_subdomains, namespace_names_are_labels, labels_and_annotations, config_map_keys, config_map_size, immutable_config_map,
        immutable_secret, string_data, secret_defaults_and_types, secret_type_cannot_change, lease_times, lease_rules, events_share_storage,
        new_events_are_checked, service_accounts, owner_references_are_checked]
}

async fn names_must_be_dns_subdomains(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    for name in ["A", "a_b", "-a", "a-", ".a", "a..b", "a b", "ü", &"x".repeat(254)] {
        peer.post(&path, config_map(name, "1")).await.invalid(&["metadata.name"]);
    }
    for name in ["a", "a.b", "a-b", "0", &"x".repeat(253)] {
        peer.post(&path, config_map(name, "1")).await.ok(201);
    }
    // A slash cannot even be a path segment.
    let slash = peer.post(&path, config_map("a/b", "1")).await;
    assert!(slash.status == 422, "{}", slash.text());
}

async fn namespace_names_are_labels(peer: &Peer) {
    for name in ["a.b", "A", "a_b", &"x".repeat(64)] {
        let status = peer.post("/api/v1/namespaces", json!({"metadata": {"name": name}})).await.fails(422, "Invalid");
        assert_eq!(status["details"]["causes"][0]["field"], "metadata.name", "{status}");
    }
}

async fn labels_and_annotations(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    for labels in [
        json!({"a b": "c"}),
        json!({"a": "b c"}),
        json!({"x/y/z": ""}),
        json!({"a": "x".repeat(64)}),
        json!({"UPPER.example/ok": "", "Bad_/x": ""}),
    ] {
        peer.post(&path, json!({"metadata": {"name": "a", "labels": labels}})).await.fails(422, "Invalid");
    }
    peer.post(&path, json!({"metadata": {"name": "a", "labels": {"a": 1}}})).await.fails(400, "BadRequest");
    peer.post(&path, json!({"metadata": {"name": "a", "annotations": {"k": "x".repeat(262_145)}}}))
        .await
        .invalid(&["metadata.annotations"]);
    let fine = json!({"metadata": {"name": "a", "labels": {"a.example/B_c.d": "V-1_2.3", "empty": ""}, "annotations": {"any": "§ \n"}}});
    peer.post(&path, fine).await.ok(201);
}

async fn config_map_keys(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    for key in ["a b", "", "..", ".", "..data", "a/b", &"x".repeat(254)] {
        let answer = peer.post(&path, json!({"metadata": {"name": "a"}, "data": {key: "v"}})).await;
        let status = answer.fails(422, "Invalid");
        assert_eq!(status["details"]["causes"][0]["field"], format!("data[{key}]"), "{status}");
    }
    let both = json!({"metadata": {"name": "a"}, "data": {"k": "v"}, "binaryData": {"k": "YQ=="}});
    peer.post(&path, both).await.fails(422, "Invalid");
    let made = peer
        .post(
            &path,
            json!({"metadata": {"name": "a"}, "data": {".data": "v", "A_b.c-d": ""}, "binaryData": {"b": "AAEC"}}),
        )
        .await
        .ok(201);
    assert_eq!(made["binaryData"]["b"], "AAEC");
}

async fn config_map_size(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let status = peer.post(&path, config_map("a", &"x".repeat(1024 * 1024 + 1))).await.fails(422, "Invalid");
    assert_eq!(status["details"]["causes"][0]["reason"], "FieldValueTooLong", "{}", status["message"]);
    peer.post(&path, config_map("a", &"x".repeat(1024 * 1024 - 10))).await.ok(201);
}

async fn immutable_config_map(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = format!("{}/a", collection("configmaps", &ns));
    peer.post(
        &collection("configmaps", &ns),
        json!({"metadata": {"name": "a"}, "immutable": true, "data": {"k": "v"}}),
    )
    .await
    .ok(201);
    peer.patch(&path, "merge", json!({"data": {"k": "w"}})).await.invalid(&["data"]);
    peer.patch(&path, "merge", json!({"binaryData": {"b": "YQ=="}})).await.invalid(&["binaryData"]);
    peer.patch(&path, "merge", json!({"immutable": false})).await.invalid(&["immutable"]);
    peer.patch(&path, "merge", json!({"metadata": {"labels": {"a": "b"}}})).await.ok(200);
    peer.delete(&path).await.ok(200);
}

async fn immutable_secret(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = format!("{}/a", collection("secrets", &ns));
    peer.post(
        &collection("secrets", &ns),
        json!({"metadata": {"name": "a"}, "immutable": true, "stringData": {"k": "v"}}),
    )
    .await
    .ok(201);
    peer.patch(&path, "merge", json!({"stringData": {"k": "w"}})).await.invalid(&["data"]);
    peer.patch(&path, "merge", json!({"immutable": null})).await.invalid(&["immutable"]);
}

async fn string_data(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("secrets", &ns);
    let body = json!({"metadata": {"name": "a"}, "data": {"both": "b2xk", "only": "b2xk"}, "stringData": {"both": "new", "text": "hello"}});
    let made = peer.post(&path, body).await.ok(201);
    assert!(made.get("stringData").is_none(), "write-only: {made}");
    assert_eq!(made["data"], json!({"both": "bmV3", "only": "b2xk", "text": "aGVsbG8="}));
    peer.post(&path, json!({"metadata": {"name": "b"}, "data": {"k": "***"}})).await.fails(400, "BadRequest");
}

async fn secret_defaults_and_types(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("secrets", &ns);
    assert_eq!(peer.post(&path, json!({"metadata": {"name": "a"}})).await.ok(201)["type"], "Opaque");
    for (kind, data, fields) in [
        ("kubernetes.io/tls", json!({"tls.crt": ""}), vec!["data[tls.key]"]),
        ("kubernetes.io/dockercfg", json!({}), vec!["data[.dockercfg]"]),
        ("kubernetes.io/dockerconfigjson", json!({}), vec!["data[.dockerconfigjson]"]),
        ("kubernetes.io/dockerconfigjson", json!({".dockerconfigjson": "YQ=="}), vec!["data[.dockerconfigjson]"]),
        ("kubernetes.io/basic-auth", json!({}), vec!["data[username]", "data[password]"]),
        ("kubernetes.io/ssh-auth", json!({}), vec!["data[ssh-privatekey]"]),
        (
            "kubernetes.io/service-account-token",
            json!({}),
            vec!["metadata.annotations[kubernetes.io/service-account.name]"],
        ),
    ] {
        peer.post(&path, json!({"metadata": {"name": "t"}, "type": kind, "data": data})).await.invalid(&fields);
    }
    peer.post(
        &path,
        json!({"metadata": {"name": "tls"}, "type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}}),
    )
    .await
    .ok(201);
    peer.post(&path, json!({"metadata": {"name": "own"}, "type": "anything goes"})).await.ok(201);
}

async fn secret_type_cannot_change(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("secrets", &ns);
    peer.post(&path, json!({"metadata": {"name": "a"}, "type": "x"})).await.ok(201);
    peer.patch(&format!("{path}/a"), "merge", json!({"type": "y"})).await.invalid(&["type"]);
}

async fn lease_times(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("leases", &ns);
    let spec = json!({"holderIdentity": "me", "acquireTime": "2020-01-02T03:04:05.123456Z", "renewTime": "2020-01-02T04:04:05.000000+01:00"});
    let made = peer.post(&path, json!({"metadata": {"name": "a"}, "spec": spec})).await.ok(201);
    assert_eq!(made["spec"]["acquireTime"], "2020-01-02T03:04:05.123456Z");
    assert_eq!(made["spec"]["renewTime"], "2020-01-02T03:04:05.000000Z", "microseconds are always written");
    let coarse = json!({"metadata": {"name": "b"}, "spec": {"renewTime": "2020-01-02T03:04:05Z"}});
    peer.post(&path, coarse).await.fails(400, "BadRequest");
}

async fn lease_rules(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("leases", &ns);
    let lease = |spec: serde_json::Value| json!({"metadata": {"name": "a"}, "spec": spec});
    peer.post(&path, lease(json!({"leaseDurationSeconds": 0}))).await.invalid(&["spec.leaseDurationSeconds"]);
    peer.post(&path, lease(json!({"leaseTransitions": -1}))).await.invalid(&["spec.leaseTransitions"]);
    peer.post(&path, lease(json!({"leaseDurationSeconds": "1"}))).await.fails(400, "BadRequest");
    peer.post(&path, lease(json!({"renewTime": "now"}))).await.fails(400, "BadRequest");
    let made = peer.post(&path, lease(json!({"leaseDurationSeconds": 1}))).await.ok(201);
    assert_eq!(made["spec"], json!({"leaseDurationSeconds": 1}));
}

async fn events_share_storage(peer: &Peer) {
    let ns = peer.namespace().await;
    let (old, new) = (collection("events", &ns), collection("newevents", &ns));
    let body = json!({"metadata": {"name": "e"}, "regarding": {"kind": "ConfigMap", "name": "x", "namespace": ns}, "reason": "R", "note": "text",
        "type": "Normal", "action": "Act", "reportingController": "x.example/c", "reportingInstance": "i", "eventTime": "2020-01-01T00:00:00.000001Z"});
    let made = peer.post(&new, body).await.ok(201);
    assert_eq!(made["apiVersion"], "events.k8s.io/v1");
    let core = peer.get(&format!("{old}/e")).await.ok(200);
    assert_eq!(core["apiVersion"], "v1");
    assert_eq!(core["message"], "text");
    assert_eq!(core["involvedObject"]["name"], "x");
    assert_eq!(core["reportingComponent"], "x.example/c");
    assert_eq!(core["metadata"]["uid"], made["metadata"]["uid"]);
    peer.delete(&format!("{old}/e")).await.ok(200);
    peer.get(&format!("{new}/e")).await.fails(404, "NotFound");
}

async fn new_events_are_checked(peer: &Peer) {
    let ns = peer.namespace().await;
    let new = collection("newevents", &ns);
    peer.post(&new, json!({"metadata": {"name": "e"}, "regarding": {"namespace": ns}})).await.fails(422, "Invalid");
    let elsewhere = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "elsewhere"}});
    peer.post(&collection("events", &ns), elsewhere).await.fails(422, "Invalid");
}

async fn service_accounts(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("serviceaccounts", &ns);
    let made = peer
        .post(
            &path,
            json!({"metadata": {"name": "a"}, "secrets": [{"name": "s"}], "automountServiceAccountToken": false}),
        )
        .await
        .ok(201);
    assert_eq!(made["secrets"], json!([{"name": "s"}]));
    assert_eq!(made["automountServiceAccountToken"], false);
}

async fn owner_references_are_checked(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let owner = |extra: serde_json::Value| {
        let mut owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u"});
        owner.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"metadata": {"name": "a", "ownerReferences": [owner]}})
    };
    for (wrong, field) in [
        ("uid", "metadata.ownerReferences.uid"),
        ("name", "metadata.ownerReferences.name"),
        ("kind", "metadata.ownerReferences.kind"),
    ] {
        peer.post(&path, owner(json!({wrong: ""}))).await.invalid(&[field]);
    }
    peer.post(&path, owner(json!({"apiVersion": ""}))).await.fails(422, "Invalid");
    let two = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u", "controller": true},
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "y", "uid": "w", "controller": true}]);
    peer.post(&path, json!({"metadata": {"name": "a", "ownerReferences": two}})).await.fails(422, "Invalid");
}
