//! Server-side apply: who owns which field, and what that means for others.
use std::time::Duration;

use muster_tests::runner::Case;
use muster_tests::{Answer, Call, Peer, Watch, cases};
use serde_json::{Value, json};

use crate::{collection, config_map, revision};

pub fn cases() -> Vec<Case> {
    cases![apply: makes_what_is_missing_and_changes_what_is_there, a_conflict_says_who_and_what, force_takes_over,
        what_is_no_longer_applied_goes_unless_shared, applying_the_same_writes_nothing,
        an_unchanged_update_keeps_owners_and_times, owners_can_be_forgotten, status_has_owners_of_its_own,
        appliers_at_once_all_get_their_fields, owners_survive_marking_for_deletion, watchers_see_owners,
        many_updaters_are_folded_into_one, an_applier_says_who_it_is]
}

async fn apply(peer: &Peer, path: &str, query: &str, body: Value) -> Answer {
    let path = format!("{path}?{query}");
    Call::new(peer, "PATCH", &path).media("application/apply-patch+yaml").body(body).send().await
}

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

/// The fields a manager owns.
fn owned(object: &Value, manager: &str) -> Value {
    let owners = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    owners.iter().find(|owner| owner["manager"] == manager).map_or(Value::Null, |owner| owner["fieldsV1"].clone())
}

async fn makes_what_is_missing_and_changes_what_is_there(peer: &Peer) {
    let path = format!("{}/a", collection("configmaps", &peer.namespace().await));
    let made = apply(peer, &path, "fieldManager=me", map(json!({"x": "1"}))).await.ok(201);
    assert_eq!(owned(&made, "me"), json!({"f:data": {"f:x": {}}}));
    assert_eq!(made["metadata"]["managedFields"][0]["operation"], "Apply");
    let changed = apply(peer, &path, "fieldManager=me", map(json!({"x": "2"}))).await.ok(200);
    assert_eq!(changed["data"], json!({"x": "2"}));
    assert_eq!(changed["metadata"]["uid"], made["metadata"]["uid"]);
}

async fn a_conflict_says_who_and_what(peer: &Peer) {
    let path = format!("{}/a", collection("configmaps", &peer.namespace().await));
    apply(peer, &path, "fieldManager=first", map(json!({"x": "1"}))).await.ok(201);
    let status = apply(peer, &path, "fieldManager=second", map(json!({"x": "2"}))).await.fails(409, "Conflict");
    assert_eq!(status["message"], "Apply failed with 1 conflict: conflict with \"first\": .data.x");
    let cause = json!({"reason": "FieldManagerConflict", "message": "conflict with \"first\"", "field": ".data.x"});
    assert_eq!(status["details"]["causes"], json!([cause]));
}

async fn force_takes_over(peer: &Peer) {
    let path = format!("{}/a", collection("configmaps", &peer.namespace().await));
    apply(peer, &path, "fieldManager=first", map(json!({"x": "1", "y": "1"}))).await.ok(201);
    let taken = apply(peer, &path, "fieldManager=second&force=true", map(json!({"x": "2"}))).await.ok(200);
    assert_eq!(owned(&taken, "first"), json!({"f:data": {"f:y": {}}}));
    assert_eq!(owned(&taken, "second"), json!({"f:data": {"f:x": {}}}));
}

async fn what_is_no_longer_applied_goes_unless_shared(peer: &Peer) {
    let path = format!("{}/a", collection("configmaps", &peer.namespace().await));
    apply(peer, &path, "fieldManager=first", map(json!({"x": "1", "y": "1", "z": "1"}))).await.ok(201);
    apply(peer, &path, "fieldManager=second", map(json!({"y": "1"}))).await.ok(200);
    let left = apply(peer, &path, "fieldManager=first", map(json!({"z": "1"}))).await.ok(200);
    assert_eq!(left["data"], json!({"y": "1", "z": "1"}));
}

async fn applying_the_same_writes_nothing(peer: &Peer) {
    let path = format!("{}/a", collection("configmaps", &peer.namespace().await));
    let made = apply(peer, &path, "fieldManager=me", map(json!({"x": "1"}))).await.ok(201);
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let again = apply(peer, &path, "fieldManager=me", map(json!({"x": "1"}))).await.ok(200);
    assert_eq!(again, made);
}

async fn an_unchanged_update_keeps_owners_and_times(peer: &Peer) {
    let path = collection("configmaps", &peer.namespace().await);
    let made = peer.post(&path, config_map("a", "1")).await.ok(201);
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let path = format!("{path}/a?fieldManager=other");
    assert_eq!(peer.put(&path, &made).await.ok(200), made);
    let mut bare = made.clone();
    bare["metadata"].as_object_mut().unwrap().remove("managedFields");
    assert_eq!(peer.put(&path, &bare).await.ok(200), made);
}

async fn owners_can_be_forgotten(peer: &Peer) {
    let path = collection("configmaps", &peer.namespace().await);
    let mut object = peer.post(&path, config_map("a", "1")).await.ok(201);
    object["metadata"]["managedFields"] = json!([]);
    let path = format!("{path}/a");
    let forgotten = peer.put(&path, &object).await.ok(200);
    assert!(forgotten["metadata"].get("managedFields").is_none(), "{forgotten}");
    let status = apply(peer, &path, "fieldManager=me", map(json!({"value": "2"}))).await.fails(409, "Conflict");
    assert!(status["message"].as_str().unwrap().contains("\"before-first-apply\" using v1"), "{status}");
}

async fn status_has_owners_of_its_own(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = format!("/api/v1/namespaces/{ns}");
    let status = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns},
        "status": {"conditions": [{"type": "Tested", "status": "True"}]}});
    let applied = apply(peer, &format!("{path}/status"), "fieldManager=me", status).await.ok(200);
    let owners = applied["metadata"]["managedFields"].as_array().unwrap();
    let me = owners.iter().find(|owner| owner["manager"] == "me").unwrap();
    assert_eq!(me["subresource"], "status");
    let condition = json!({".": {}, "f:status": {}, "f:type": {}});
    assert_eq!(me["fieldsV1"], json!({"f:status": {"f:conditions": {"k:{\"type\":\"Tested\"}": condition}}}));
    // The object's own apply does not reach the status.
    let whole = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns, "labels": {"a": "b"}},
        "status": {"phase": "Terminating"}});
    let applied = apply(peer, &path, "fieldManager=you", whole).await.ok(200);
    assert_eq!(applied["status"]["phase"], "Active");
    assert_eq!(owned(&applied, "you"), json!({"f:metadata": {"f:labels": {"f:a": {}}}}));
}

async fn appliers_at_once_all_get_their_fields(peer: &Peer) {
    let path = &format!("{}/a", collection("configmaps", &peer.namespace().await));
    let one = |i: usize| async move {
        let query = format!("fieldManager=m{i}");
        let key = format!("k{i}");
        // Kubernetes gives up after a few lost races.
        while apply(peer, path, &query, map(json!({&key: "1"}))).await.status == 409 {}
    };
    futures_util::future::join_all((0..12).map(one)).await;
    let object = peer.get(path).await.ok(200);
    for i in 0..12 {
        assert_eq!(object["data"][format!("k{i}")], "1");
        let field = format!("f:k{i}");
        assert_eq!(owned(&object, &format!("m{i}")), json!({"f:data": {&field: {}}}));
    }
}

async fn owners_survive_marking_for_deletion(peer: &Peer) {
    let path = format!("{}/a", collection("configmaps", &peer.namespace().await));
    let mut body = map(json!({"x": "1"}));
    body["metadata"]["finalizers"] = json!(["suite.test/hold"]);
    let made = apply(peer, &path, "fieldManager=me", body).await.ok(201);
    let marked = peer.delete(&path).await.ok(200);
    assert_eq!(marked["metadata"]["managedFields"], made["metadata"]["managedFields"]);
    let again = peer.delete(&path).await.ok(200);
    assert_eq!(revision(&again), revision(&marked));
    apply(peer, &path, "fieldManager=me", map(json!({"x": "1"}))).await.ok(200);
    peer.get(&path).await.fails(404, "NotFound");
}

async fn watchers_see_owners(peer: &Peer) {
    let collection = collection("configmaps", &peer.namespace().await);
    let path = format!("{collection}/a");
    let mut watch = Watch::open(peer, &format!("{collection}?watch=true&fieldSelector=metadata.name%3Da"), None).await;
    let made = apply(peer, &path, "fieldManager=me", map(json!({"x": "1"}))).await.ok(201);
    assert_eq!(watch.expect("ADDED", "a").await, made);
    // Somebody else applies the same: no value changes, but the owners do.
    let shared = apply(peer, &path, "fieldManager=you", map(json!({"x": "1"}))).await.ok(200);
    assert_eq!(watch.expect("MODIFIED", "a").await, shared);
}

async fn many_updaters_are_folded_into_one(peer: &Peer) {
    let path = collection("configmaps", &peer.namespace().await);
    peer.post(&path, config_map("a", "1")).await.ok(201);
    for i in 0..12 {
        let path = format!("{path}/a?fieldManager=m{i}");
        let key = format!("k{i}");
        let patch = json!({"data": {&key: "1"}});
        Call::new(peer, "PATCH", &path).media("application/merge-patch+json").body(patch).send().await.ok(200);
    }
    let object = peer.get(&format!("{path}/a")).await.ok(200);
    assert_eq!(object["metadata"]["managedFields"].as_array().unwrap().len(), 10);
    assert!(!owned(&object, "ancient-changes").is_null(), "{object}");
}

async fn an_applier_says_who_it_is(peer: &Peer) {
    let path = format!("{}/a", collection("configmaps", &peer.namespace().await));
    apply(peer, &path, "", map(json!({"x": "1"}))).await.invalid(&["fieldManager"]);
    apply(peer, &path, "fieldManager=a%09b", map(json!({"x": "1"}))).await.invalid(&["fieldManager"]);
    peer.get(&path).await.fails(404, "NotFound");
}
