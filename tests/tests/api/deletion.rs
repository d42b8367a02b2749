//! Delete: finalizers, deletion times, collections, namespaces.
use muster_tests::runner::Case;
use muster_tests::{Peer, cases};
use serde_json::json;

use crate::{collection, config_map, names, revision};

pub fn cases() -> Vec<Case> {
    cases![deletion: delete_answers_with_a_status, finalizers_hold_an_object, finalizers_cannot_be_added_while_deleting,
        deletion_time_is_kept, delete_collection_by_selector, delete_collection_respects_finalizers, nothing_is_created_in_a_missing_namespace,
        nothing_is_created_in_a_terminating_namespace, system_namespaces_cannot_be_deleted, namespaces_get_their_finalizer_and_label,
        namespace_stays_until_finalized, invalid_delete_options, deleted_name_can_be_used_again]
}

async fn delete_answers_with_a_status(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let made = peer.post(&path, config_map("a", "1")).await.ok(201);
    let status = peer.delete(&format!("{path}/a")).await.ok(200);
    assert_eq!(status["kind"], "Status");
    assert_eq!(status["status"], "Success");
    assert_eq!(status["details"], json!({"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}));
    // Service accounts answer with the object itself.
    peer.post(&collection("serviceaccounts", &ns), json!({"metadata": {"name": "a"}})).await.ok(201);
    let gone = peer.delete(&format!("{}/a", collection("serviceaccounts", &ns))).await.ok(200);
    assert_eq!(gone["kind"], "ServiceAccount");
}

async fn finalizers_hold_an_object(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let made = peer
        .post(&path, json!({"metadata": {"name": "a", "finalizers": ["x.example/one", "x.example/two"]}}))
        .await
        .ok(201);
    let held = peer.delete(&format!("{path}/a")).await.ok(200);
    assert_eq!(held["kind"], "ConfigMap");
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(held["metadata"]["deletionGracePeriodSeconds"], 0);
    assert!(revision(&held) > revision(&made));
    let again = peer.delete(&format!("{path}/a")).await.ok(200);
    assert_eq!(revision(&again), revision(&held), "a second delete changes nothing");
    peer.post(&path, config_map("a", "1")).await.fails(409, "AlreadyExists");
    let one =
        peer.patch(&format!("{path}/a"), "merge", json!({"metadata": {"finalizers": ["x.example/two"]}})).await.ok(200);
    assert!(one["metadata"]["deletionTimestamp"].is_string());
    let last = peer.patch(&format!("{path}/a"), "merge", json!({"metadata": {"finalizers": null}})).await.ok(200);
    assert_eq!(last["metadata"]["name"], "a");
    peer.get(&format!("{path}/a")).await.fails(404, "NotFound");
}

async fn finalizers_cannot_be_added_while_deleting(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    peer.post(&path, json!({"metadata": {"name": "a", "finalizers": ["x.example/one"]}})).await.ok(201);
    peer.delete(&format!("{path}/a")).await.ok(200);
    let more = json!({"metadata": {"finalizers": ["x.example/one", "x.example/new"]}});
    peer.patch(&format!("{path}/a"), "merge", more).await.invalid(&["metadata.finalizers"]);
    let other = peer.patch(&format!("{path}/a"), "merge", json!({"data": {"still": "writable"}})).await.ok(200);
    assert_eq!(other["data"]["still"], "writable");
}

async fn deletion_time_is_kept(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    peer.post(&path, json!({"metadata": {"name": "a", "finalizers": ["x.example/one"]}})).await.ok(201);
    let held = peer.delete(&format!("{path}/a")).await.ok(200);
    let put = peer
        .put(&format!("{path}/a"), json!({"metadata": {"name": "a", "finalizers": ["x.example/one"]}}))
        .await
        .ok(200);
    assert_eq!(put["metadata"]["deletionTimestamp"], held["metadata"]["deletionTimestamp"]);
    // A client cannot mark an object deleted by writing the field.
    peer.post(&path, config_map("b", "1")).await.ok(201);
    let forged = peer
        .patch(&format!("{path}/b"), "merge", json!({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}))
        .await;
    assert!(forged.json()["metadata"].get("deletionTimestamp").is_none(), "{}", forged.text());
}

async fn delete_collection_by_selector(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    for (name, label) in [("a", "x"), ("b", "y"), ("c", "x")] {
        peer.post(&path, json!({"metadata": {"name": name, "labels": {"l": label}}})).await.ok(201);
    }
    let gone = peer.delete(&format!("{path}?labelSelector=l%3Dx")).await.ok(200);
    assert_eq!(gone["kind"], "ConfigMapList");
    assert_eq!(names(&gone), ["a", "c"]);
    assert_eq!(names(&peer.get(&path).await.ok(200)), ["b"]);
    peer.delete(&path).await.ok(200);
    assert!(names(&peer.get(&path).await.ok(200)).is_empty());
    peer.delete(&path).await.ok(200);
}

async fn delete_collection_respects_finalizers(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    peer.post(&path, json!({"metadata": {"name": "held", "finalizers": ["x.example/one"]}})).await.ok(201);
    peer.post(&path, config_map("free", "1")).await.ok(201);
    peer.delete(&path).await.ok(200);
    let left = peer.get(&path).await.ok(200);
    assert_eq!(names(&left), ["held"]);
    assert!(left["items"][0]["metadata"]["deletionTimestamp"].is_string());
}

async fn nothing_is_created_in_a_missing_namespace(peer: &Peer) {
    let status =
        peer.post("/api/v1/namespaces/not-there/configmaps", config_map("a", "1")).await.fails(404, "NotFound");
    assert_eq!(status["details"]["kind"], "namespaces");
    assert_eq!(status["details"]["name"], "not-there");
    let list = peer.get("/api/v1/namespaces/not-there/configmaps").await.ok(200);
    assert!(names(&list).is_empty(), "reading a missing namespace is reading an empty one");
}

async fn nothing_is_created_in_a_terminating_namespace(peer: &Peer) {
    let ns = peer.namespace().await;
    // A held object keeps the namespace Terminating on both peers.
    peer.post(&collection("configmaps", &ns), json!({"metadata": {"name": "held", "finalizers": ["x.example/one"]}}))
        .await
        .ok(201);
    let gone = peer.delete(&format!("/api/v1/namespaces/{ns}")).await.ok(200);
    assert_eq!(gone["status"]["phase"], "Terminating");
    assert!(gone["metadata"]["deletionTimestamp"].is_string());
    let status = peer.post(&collection("configmaps", &ns), config_map("late", "1")).await.fails(403, "Forbidden");
    assert_eq!(status["details"]["causes"][0]["reason"], "NamespaceTerminating", "{status}");
    let held = format!("{}/held", collection("configmaps", &ns));
    let updated = peer.patch(&held, "merge", json!({"data": {"k": "v"}})).await.ok(200);
    assert_eq!(updated["data"]["k"], "v", "updates go on");
    peer.patch(&held, "merge", json!({"metadata": {"finalizers": null}})).await.ok(200);
}

async fn system_namespaces_cannot_be_deleted(peer: &Peer) {
    for name in ["default", "kube-system", "kube-public"] {
        let status = peer.delete(&format!("/api/v1/namespaces/{name}")).await.fails(403, "Forbidden");
        assert!(status["message"].as_str().unwrap().contains("this namespace may not be deleted"), "{status}");
        peer.get(&format!("/api/v1/namespaces/{name}")).await.ok(200);
    }
    peer.get("/api/v1/namespaces/kube-node-lease").await.ok(200);
}

async fn namespaces_get_their_finalizer_and_label(peer: &Peer) {
    let ns = peer.namespace().await;
    let got = peer.get(&format!("/api/v1/namespaces/{ns}")).await.ok(200);
    assert_eq!(got["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(got["status"]["phase"], "Active");
    assert_eq!(got["metadata"]["labels"]["kubernetes.io/metadata.name"], ns.as_str());
}

async fn namespace_stays_until_finalized(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = format!("/api/v1/namespaces/{ns}");
    let more = json!({"metadata": {"name": ns}, "spec": {"finalizers": ["kubernetes", "x.example/hold"]}});
    peer.put(&format!("{path}/finalize"), more).await.ok(200);
    peer.delete(&path).await.ok(200);
    let got = peer.get(&path).await.ok(200);
    assert_eq!(got["status"]["phase"], "Terminating");
    peer.delete(&path).await.ok(200);
    let mut got = peer.get(&path).await.ok(200);
    got["spec"]["finalizers"] = json!([]);
    let done = peer.put(&format!("{path}/finalize"), &got).await;
    assert!(matches!(done.status, 200 | 409), "{}", done.text());
    if done.status == 200 && !peer.is_muster() {
        peer.get(&path).await.fails(404, "NotFound");
    }
}

async fn invalid_delete_options(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = format!("{}/a", collection("configmaps", &ns));
    peer.post(&collection("configmaps", &ns), config_map("a", "1")).await.ok(201);
    peer.delete_with(&path, json!({"propagationPolicy": "Sideways"})).await.fails(422, "Invalid");
    peer.delete_with(&path, json!({"kind": "ConfigMap", "apiVersion": "v1"})).await.bad_request_or_internal(peer);
    peer.call("DELETE", &path).body("{").send().await.bad_request_or_internal(peer);
    peer.get(&path).await.ok(200);
}

async fn deleted_name_can_be_used_again(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let first = peer.post(&path, config_map("a", "1")).await.ok(201);
    peer.delete(&format!("{path}/a")).await.ok(200);
    let second = peer.post(&path, config_map("a", "2")).await.ok(201);
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    peer.put(&format!("{path}/a"), &first).await.fails(409, "Conflict");
}
