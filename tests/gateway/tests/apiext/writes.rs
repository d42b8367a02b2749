//! Writes: create, replace, patch, delete; what was written is in the writer's next list. // KC-8
use muster_tests::runner::Case;
use muster_tests::{Peer, cases};
use muster_tests_gateway::{Face, refused};
use serde_json::{Value, json};

pub fn all() -> Vec<Case> {
    cases![writes: a_flat_object_goes_in_and_comes_out, an_object_of_kubernetes_is_taken_too, replacing_needs_the_version_that_was_read, a_patch_changes_what_it_names,
        deleting_says_whether_it_is_gone, a_write_is_in_the_writers_next_list, refusals_of_the_api_have_the_one_shape]
}

async fn start(peer: &Peer) -> (Face, String) {
    let (face, ns) = (Face::start(peer).await, peer.namespace().await);
    (face, format!("/apiext/v1/core/v1/namespaces/{ns}/configmaps"))
}

async fn a_flat_object_goes_in_and_comes_out(peer: &Peer) {
    let (face, place) = start(peer).await;
    let made = face
        .post(&place, json!({"name": "a", "labels": {"l": "1"}, "annotations": {"n": "2"}, "data": {"k": "v"}}))
        .await
        .ok(201);
    assert_eq!(
        (&made["name"], &made["labels"], &made["annotations"], &made["data"]),
        (&json!("a"), &json!({"l": "1"}), &json!({"n": "2"}), &json!({"k": "v"}))
    );
    refused(&face.post(&place, json!({"name": "a"})).await, 409);
    let named = face.post(&place, json!({"generateName": "gen-", "data": {}})).await.ok(201);
    assert!(named["name"].as_str().unwrap().starts_with("gen-"));
}

async fn an_object_of_kubernetes_is_taken_too(peer: &Peer) {
    let (face, place) = start(peer).await;
    let made = face
        .post(&place, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "k"}, "data": {"k": "v"}}))
        .await
        .ok(201);
    assert_eq!(made["data"], json!({"k": "v"}));
    refused(&face.post(&place, json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "k"}})).await, 400);
    refused(&face.post(&place, json!({"metadata": {"name": "k", "namespace": "other"}})).await, 400);
}

async fn replacing_needs_the_version_that_was_read(peer: &Peer) {
    let (face, place) = start(peer).await;
    face.post(&place, json!({"name": "a", "labels": {"l": "1"}, "data": {"k": "1"}})).await.ok(201);
    let one = format!("{place}/a");
    let put = async |body: Value, version: Option<&str>| {
        let call = face.call("PUT", &one).json(body);
        match version {
            Some(version) => call.header("if-match", &format!("\"{version}\"")).send().await,
            None => call.send().await,
        }
    };
    let mut read = face.get(&one).await.ok(200);
    read["data"]["k"] = json!("2");
    let after = put(read.clone(), None).await.ok(200);
    assert_eq!((&after["data"]["k"], &after["labels"], &after["id"]), (&json!("2"), &json!({"l": "1"}), &read["id"]));
    let conflict = refused(&put(read, None).await, 409);
    assert_eq!(conflict["reason"], "Conflict");
    refused(&put(json!({"data": {"k": "3"}}), None).await, 428);
    let version = after["resourceVersion"].as_str().unwrap();
    let last = put(json!({"data": {"k": "3"}}), Some(version)).await.ok(200);
    assert_eq!((&last["data"], &last["labels"]), (&json!({"k": "3"}), &json!({})));
    refused(&face.call("PUT", &format!("{place}/gone")).json(json!({"resourceVersion": "1"})).send().await, 404);
}

async fn a_patch_changes_what_it_names(peer: &Peer) {
    let (face, place) = start(peer).await;
    let made = face
        .post(&place, json!({"name": "a", "labels": {"l": "1", "m": "2"}, "data": {"k": "1", "x": "y"}}))
        .await
        .ok(201);
    let one = format!("{place}/a");
    let patch = async |body: Value| face.call("PATCH", &one).json(body).send().await;
    let after = patch(json!({"labels": {"l": null}, "data": {"k": "2"}, "resourceVersion": made["resourceVersion"]}))
        .await
        .ok(200);
    assert_eq!((&after["labels"], &after["data"]), (&json!({"m": "2"}), &json!({"k": "2", "x": "y"})));
    refused(&patch(json!({"data": {"k": "3"}, "resourceVersion": made["resourceVersion"]})).await, 409);
    let problem = refused(&patch(json!({"phase": "Done"})).await, 422);
    assert_eq!(problem["details"]["field"], "phase");
}

async fn deleting_says_whether_it_is_gone(peer: &Peer) {
    let (face, place) = start(peer).await;
    let made = face.post(&place, json!({"name": "a"})).await.ok(201);
    refused(&face.call("DELETE", &format!("{place}/a?resourceVersion=1")).send().await, 409);
    let gone = face.call("DELETE", &format!("{place}/a?propagation=foreground")).send().await;
    // Foreground deletion leaves a finalizer for the garbage collector, which kube-apiserver alone does not have.
    assert_eq!(gone.ok(200)["name"], "a");
    let made_again = json!({"metadata": {"name": "b", "finalizers": ["example.com/hold"]}});
    face.post(&place, made_again).await.ok(201);
    let waits = face.call("DELETE", &format!("{place}/b")).send().await.ok(200);
    assert_eq!((&waits["deleted"], &waits["name"]), (&json!(false), &json!("b")));
    assert_eq!(face.get(&format!("{place}/b")).await.ok(200)["phase"], "Terminating");
    face.post(&place, json!({"name": "c"})).await.ok(201);
    let gone = face.call("DELETE", &format!("{place}/c")).send().await.ok(200);
    assert_eq!(gone["deleted"], true, "{gone}");
    refused(&face.call("DELETE", &format!("{place}/c")).send().await, 404);
    assert!(made["id"].is_string());
}

async fn a_write_is_in_the_writers_next_list(peer: &Peer) {
    let (face, place) = start(peer).await;
    let before = face.get(&place).await.ok(200)["count"].as_u64().unwrap();
    for i in 0..20 {
        face.post(&place, json!({"name": format!("w{i}"), "data": {"n": "0"}})).await.ok(201);
        assert_eq!(face.get(&place).await.ok(200)["count"], before + 1);
        face.call("PATCH", &format!("{place}/w{i}")).json(json!({"data": {"n": "1"}})).send().await.ok(200);
        assert_eq!(face.get(&format!("{place}?filter=data.n+eq+1")).await.ok(200)["count"], 1);
        face.call("DELETE", &format!("{place}/w{i}")).send().await.ok(200);
        assert_eq!(face.get(&place).await.ok(200)["count"], before);
    }
}

async fn refusals_of_the_api_have_the_one_shape(peer: &Peer) {
    let (face, place) = start(peer).await;
    let invalid = refused(&face.post(&place, json!({"name": "Not A Name"})).await, 422);
    assert_eq!(
        (&invalid["reason"], &invalid["details"]["causes"][0]["field"]),
        (&json!("Invalid"), &json!("metadata.name"))
    );
    let unknown = refused(&face.post(&place, json!({"name": "x", "dta": {}})).await, 400);
    assert!(unknown["message"].as_str().unwrap().contains("dta"), "{unknown}");
    refused(&face.post(&place, json!({"name": "x", "data": {"k": 5}})).await, 400);
    refused(&face.post("/apiext/v1/core/v1/namespaces/no-such-place/configmaps", json!({"name": "x"})).await, 404);
}
