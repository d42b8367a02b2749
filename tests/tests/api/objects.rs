//! Create, get, update and patch: what the server fills in, what it keeps, what it refuses.
use muster_tests::runner::Case;
use muster_tests::{Peer, cases};
use serde_json::{Value, json};

use crate::{collection, config_map, revision};

const NAMESPACED: [&str; 5] = ["configmaps", "secrets", "serviceaccounts", "leases", "events"];

/// The least body that is valid for the resource.
fn least(resource: &str, name: &str, ns: &str) -> Value {
    let mut body = json!({"metadata": {"name": name}});
    if resource == "events" {
        body["involvedObject"] = json!({"namespace": ns});
    }
    body
}

pub fn cases() -> Vec<Case> {
    cases![objects: create_fills_in_what_is_the_servers, get_gives_what_create_gave, create_of_an_existing_name,
        generate_name_makes_distinct_valid_names, update_replaces, update_that_changes_nothing_keeps_the_revision,
        metadata_the_client_cannot_set, name_and_namespace_of_url_and_body_must_agree, kind_in_the_body_must_match,
        update_of_a_missing_object, update_can_create_a_lease, generation_counts_spec_changes_only, dry_run_writes_nothing,
        patches_of_three_kinds, patch_retries_conflicts_itself, patch_of_resource_version_is_a_precondition,
        strategic_merge_directives, unsupported_methods_and_media, unknown_and_duplicate_fields,
        last_applied_annotation_survives]
}

async fn create_fills_in_what_is_the_servers(peer: &Peer) {
    let ns = peer.namespace().await;
    for resource in NAMESPACED {
        let made = peer.post(&collection(resource, &ns), least(resource, "a", &ns)).await.ok(201);
        let meta = &made["metadata"];
        assert_eq!(meta["uid"].as_str().unwrap().len(), 36, "{made}");
        assert_eq!(meta["namespace"], ns.as_str());
        assert_eq!(meta["creationTimestamp"].as_str().unwrap().len(), "2026-01-01T00:00:00Z".len());
        assert!(revision(&made) > 0);
        assert!(made["kind"].is_string() && made["apiVersion"].is_string(), "{made}");
        assert!(meta.get("selfLink").is_none() && meta.get("deletionTimestamp").is_none());
    }
}

async fn get_gives_what_create_gave(peer: &Peer) {
    let ns = peer.namespace().await;
    for resource in NAMESPACED {
        let made = peer.post(&collection(resource, &ns), least(resource, "a", &ns)).await.ok(201);
        let got = peer.get(&format!("{}/a", collection(resource, &ns))).await.ok(200);
        assert_eq!(made, got);
        let mut item = peer.get(&collection(resource, &ns)).await.ok(200)["items"][0].clone();
        assert!(
            item.get("kind").is_none() && item.get("apiVersion").is_none(),
            "items of typed lists carry no kind: {item}"
        );
        item["kind"] = got["kind"].clone();
        item["apiVersion"] = got["apiVersion"].clone();
        assert_eq!(item, got);
    }
}

async fn create_of_an_existing_name(peer: &Peer) {
    let ns = peer.namespace().await;
    for resource in NAMESPACED {
        let path = collection(resource, &ns);
        peer.post(&path, least(resource, "a", &ns)).await.ok(201);
        let status = peer.post(&path, least(resource, "a", &ns)).await.fails(409, "AlreadyExists");
        assert_eq!(status["details"]["name"], "a");
        assert_eq!(status["details"]["kind"], resource);
        assert!(status["message"].as_str().unwrap().contains("already exists"));
    }
}

async fn generate_name_makes_distinct_valid_names(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..20 {
        let made = peer.post(&path, json!({"metadata": {"generateName": "made-"}})).await.ok(201);
        let name = made["metadata"]["name"].as_str().unwrap().to_owned();
        assert_eq!(made["metadata"]["generateName"], "made-");
        assert!(name.starts_with("made-") && name.len() == 10, "{name}");
        assert!(name[5..].bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()));
        assert!(seen.insert(name));
    }
    let long = "x".repeat(300);
    let made = peer.post(&path, json!({"metadata": {"generateName": long}})).await;
    assert!(made.status == 201 || made.status == 422, "{}", made.text());
    peer.post(&path, json!({"metadata": {}})).await.invalid(&["metadata.name"]);
}

async fn update_replaces(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let made = peer
        .post(&path, json!({"metadata": {"name": "a", "labels": {"l": "1"}}, "data": {"x": "1", "y": "2"}}))
        .await
        .ok(201);
    let put = peer.put(&format!("{path}/a"), json!({"metadata": {"name": "a"}, "data": {"x": "3"}})).await.ok(200);
    assert_eq!(put["data"], json!({"x": "3"}));
    assert!(put["metadata"].get("labels").is_none());
    assert_eq!(put["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(put["metadata"]["creationTimestamp"], made["metadata"]["creationTimestamp"]);
    assert!(revision(&put) > revision(&made));
}

async fn update_that_changes_nothing_keeps_the_revision(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let made = peer.post(&path, config_map("a", "1")).await.ok(201);
    let put = peer.put(&format!("{path}/a"), &made).await.ok(200);
    assert_eq!(revision(&put), revision(&made));
    let patched = peer.patch(&format!("{path}/a"), "merge", json!({"data": {"value": "1"}})).await.ok(200);
    assert_eq!(revision(&patched), revision(&made));
}

async fn metadata_the_client_cannot_set(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let forged = json!({"metadata": {"name": "a", "uid": "forged", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 9}});
    let made = peer.post(&path, forged).await.ok(201);
    assert_ne!(made["metadata"]["uid"], "forged");
    assert!(!made["metadata"]["creationTimestamp"].as_str().unwrap().starts_with("2001"));
    let uid = json!({"metadata": {"uid": "11111111-1111-1111-1111-111111111111"}});
    peer.patch(&format!("{path}/a"), "merge", uid).await.invalid(&["metadata.uid"]);
    let later = peer
        .patch(&format!("{path}/a"), "merge", json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}}))
        .await
        .ok(200);
    assert_eq!(later["metadata"]["creationTimestamp"], made["metadata"]["creationTimestamp"]);
    let early = peer.post(&path, json!({"metadata": {"name": "b", "resourceVersion": "3"}})).await;
    early.bad_request_or_internal(peer);
    assert!(early.text().contains("resourceVersion"), "{}", early.text());
}

async fn name_and_namespace_of_url_and_body_must_agree(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    peer.post(&path, config_map("a", "1")).await.ok(201);
    peer.put(&format!("{path}/a"), config_map("b", "1")).await.fails(400, "BadRequest");
    let mut other = config_map("c", "1");
    other["metadata"]["namespace"] = json!("other");
    peer.post(&path, &other).await.fails(400, "BadRequest");
    peer.put(&format!("{path}/c"), &other).await.fails(400, "BadRequest");
    let unnamed = peer.put(&format!("{path}/a"), json!({"metadata": {}, "data": {"value": "2"}})).await;
    unnamed.fails(400, "BadRequest");
}

async fn kind_in_the_body_must_match(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    peer.post(&path, json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}))
        .await
        .fails(400, "BadRequest");
    peer.post(&path, json!({"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "a"}}))
        .await
        .fails(400, "BadRequest");
    peer.post(&path, json!({"apiVersion": "v1", "kind": "Nothing", "metadata": {"name": "a"}}))
        .await
        .fails(400, "BadRequest");
    peer.post(&path, json!({"kind": "ConfigMap", "metadata": {"name": "no-version"}})).await.ok(201);
}

async fn update_of_a_missing_object(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    peer.put(&format!("{path}/a"), config_map("a", "1")).await.fails(404, "NotFound");
    peer.patch(&format!("{path}/a"), "merge", json!({})).await.fails(404, "NotFound");
    peer.get(&format!("{path}/a")).await.fails(404, "NotFound");
    peer.delete(&format!("{path}/a")).await.fails(404, "NotFound");
}

async fn update_can_create_a_lease(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("leases", &ns);
    let lease = json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}});
    let made = peer.put(&format!("{path}/a"), &lease).await.ok(201);
    assert_eq!(made["spec"]["holderIdentity"], "me");
    // Unlike most kinds, a lease is never updated blindly.
    peer.put(&format!("{path}/a"), &lease).await.invalid(&["metadata.resourceVersion"]);
    peer.put(&format!("{path}/a"), &made).await.ok(200);
}

async fn generation_counts_spec_changes_only(peer: &Peer) {
    let ns = peer.namespace().await;
    // None of the built-in kinds here has a generation in Kubernetes: it must not appear.
    for resource in NAMESPACED {
        let path = collection(resource, &ns);
        let made = peer.post(&path, least(resource, "a", &ns)).await.ok(201);
        assert!(made["metadata"].get("generation").is_none(), "{made}");
    }
}

async fn dry_run_writes_nothing(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let dry = peer.post(&format!("{path}?dryRun=All"), config_map("a", "1")).await.ok(201);
    assert!(dry["metadata"]["uid"].is_string());
    assert!(dry["metadata"].get("resourceVersion").is_none(), "{dry}");
    peer.get(&format!("{path}/a")).await.fails(404, "NotFound");
    let made = peer.post(&path, config_map("a", "1")).await.ok(201);
    peer.post(&format!("{path}?dryRun=All"), config_map("a", "1")).await.fails(409, "AlreadyExists");
    let put = peer.put(&format!("{path}/a?dryRun=All"), config_map("a", "2")).await.ok(200);
    assert_eq!(put["data"]["value"], "2");
    let patched = peer.patch(&format!("{path}/a?dryRun=All"), "merge", json!({"data": {"value": "3"}})).await.ok(200);
    assert_eq!(patched["data"]["value"], "3");
    peer.delete(&format!("{path}/a?dryRun=All")).await.ok(200);
    peer.delete_with(&format!("{path}/a"), json!({"dryRun": ["All"]})).await.ok(200);
    assert_eq!(peer.get(&format!("{path}/a")).await.ok(200), made);
    peer.post(&format!("{path}?dryRun=Half"), config_map("b", "1")).await.fails(422, "Invalid");
}

async fn patches_of_three_kinds(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = format!("{}/a", collection("configmaps", &ns));
    peer.post(&collection("configmaps", &ns), config_map("a", "1")).await.ok(201);
    let merged =
        peer.patch(&path, "merge", json!({"data": {"more": "2"}, "metadata": {"labels": {"a": "b"}}})).await.ok(200);
    assert_eq!(merged["data"], json!({"value": "1", "more": "2"}));
    let removed = peer.patch(&path, "merge", json!({"data": {"more": null}})).await.ok(200);
    assert_eq!(removed["data"], json!({"value": "1"}));
    let operations = json!([
        {"op": "test", "path": "/data/value", "value": "1"},
        {"op": "add", "path": "/data/x", "value": "y"},
        {"op": "remove", "path": "/metadata/labels/a"},
    ]);
    let operated = peer.patch(&path, "json", operations).await.ok(200);
    assert_eq!(operated["data"], json!({"value": "1", "x": "y"}));
    assert!(operated["metadata"].get("labels").is_none());
    let strategic = peer.patch(&path, "strategic", json!({"data": {"x": null, "z": "1"}})).await.ok(200);
    assert_eq!(strategic["data"], json!({"value": "1", "z": "1"}));
    peer.patch(&path, "json", json!([{"op": "test", "path": "/data/value", "value": "2"}])).await.fails(422, "Invalid");
    peer.patch(&path, "json", json!([{"op": "remove", "path": "/data/none"}])).await.fails(422, "Invalid");
    peer.patch(&path, "merge", "{").await.fails(400, "BadRequest");
    let many: Vec<Value> = (0..10_001).map(|_| json!({"op": "test", "path": "/data/value", "value": "1"})).collect();
    peer.patch(&path, "json", Value::Array(many)).await.fails(413, "RequestEntityTooLarge");
}

async fn patch_retries_conflicts_itself(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = format!("{}/a", collection("configmaps", &ns));
    peer.post(&collection("configmaps", &ns), config_map("a", "1")).await.ok(201);
    let patches = (0..20).map(|i| {
        let path = path.clone();
        async move { peer.patch(&path, "merge", json!({"data": {format!("k{i}"): "v"}})).await.status }
    });
    // Kubernetes tries five times; with 4 at once nobody can lose more often.
    let patches: Vec<_> = patches.collect();
    for group in futures_chunks(patches, 4) {
        for status in futures_util::future::join_all(group).await {
            assert_eq!(status, 200);
        }
    }
    assert_eq!(peer.get(&path).await.ok(200)["data"].as_object().unwrap().len(), 21);
}

fn futures_chunks<T>(mut all: Vec<T>, size: usize) -> Vec<Vec<T>> {
    let mut chunks = Vec::new();
    while !all.is_empty() {
        chunks.push(all.drain(..size.min(all.len())).collect());
    }
    chunks
}

async fn patch_of_resource_version_is_a_precondition(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = format!("{}/a", collection("configmaps", &ns));
    let made = peer.post(&collection("configmaps", &ns), config_map("a", "1")).await.ok(201);
    let rv = made["metadata"]["resourceVersion"].clone();
    peer.patch(&path, "merge", json!({"metadata": {"resourceVersion": rv}, "data": {"value": "2"}})).await.ok(200);
    let late = json!({"metadata": {"resourceVersion": rv}, "data": {"value": "3"}});
    peer.patch(&path, "merge", late).await.fails(409, "Conflict");
}

async fn strategic_merge_directives(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = format!("{}/a", collection("serviceaccounts", &ns));
    let account = json!({"metadata": {"name": "a"}, "secrets": [{"name": "one"}, {"name": "two"}]});
    peer.post(&collection("serviceaccounts", &ns), account).await.ok(201);
    let named = |object: &Value| -> Vec<String> {
        let list = object["secrets"].as_array().cloned().unwrap_or_default();
        list.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    let added = peer.patch(&path, "strategic", json!({"secrets": [{"name": "three"}]})).await.ok(200);
    assert_eq!(named(&added), ["three", "one", "two"]);
    let gone = peer.patch(&path, "strategic", json!({"secrets": [{"$patch": "delete", "name": "one"}]})).await.ok(200);
    assert_eq!(named(&gone), ["three", "two"]);
    let order = json!({"$setElementOrder/secrets": [{"name": "two"}, {"name": "three"}]});
    let ordered = peer.patch(&path, "strategic", order).await.ok(200);
    assert_eq!(named(&ordered), ["two", "three"]);
    let replaced =
        peer.patch(&path, "strategic", json!({"secrets": [{"name": "x"}, {"$patch": "replace"}]})).await.ok(200);
    assert_eq!(named(&replaced), ["x"]);
    let merged = peer.patch(&path, "merge", json!({"secrets": [{"name": "m"}]})).await.ok(200);
    assert_eq!(named(&merged), ["m"]);
    peer.patch(&path, "strategic", json!({"secrets": [{"$patch": "explode", "name": "m"}]}))
        .await
        .bad_request_or_internal(peer);
}

async fn unsupported_methods_and_media(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    peer.put(&path, json!({})).await.fails(405, "MethodNotAllowed");
    peer.post(&format!("{path}/a"), json!({})).await.fails(405, "MethodNotAllowed");
    peer.call("POST", &path)
        .body(config_map("a", "1"))
        .media("text/plain")
        .send()
        .await
        .fails(415, "UnsupportedMediaType");
    peer.patch(&format!("{path}/a"), "application/json", json!({})).await.fails(415, "UnsupportedMediaType");
    peer.call("GET", &path).accept("text/html").send().await.fails(406, "NotAcceptable");
    peer.get(&format!("/api/v1/namespaces/{ns}/nothings")).await.fails(404, "NotFound");
    assert_eq!(peer.get("/nothing").await.text(), "404 page not found\n");
}

async fn unknown_and_duplicate_fields(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let body = r#"{"metadata":{"name":"a","color":"red"},"data":{"k":"1","k":"2"},"extra":true}"#;
    let status = peer.post(&format!("{path}?fieldValidation=Strict"), body).await.fails(400, "BadRequest");
    let message = status["message"].as_str().unwrap();
    for part in [
        "strict decoding error",
        "unknown field \"extra\"",
        "unknown field \"metadata.color\"",
        "duplicate field \"data.k\"",
    ] {
        assert!(message.contains(part), "{part} not in {message}");
    }
    let warned = peer.post(&format!("{path}?fieldValidation=Warn"), body).await;
    warned.ok(201);
    let warnings = warned.warnings();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(warnings.iter().all(|w| w.starts_with("299 - \"")), "{warnings:?}");
    let body = body.replace("\"a\"", "\"b\"");
    let quiet = peer.post(&format!("{path}?fieldValidation=Ignore"), body.as_str()).await;
    let made = quiet.ok(201);
    assert!(quiet.warnings().is_empty());
    assert!(made.get("extra").is_none() && made["data"]["k"] == "2", "{made}");
    // Warn is the default.
    let body = body.replace("\"b\"", "\"c\"");
    assert_eq!(peer.post(&path, body.as_str()).await.warnings().len(), 3);
    peer.post(&format!("{path}?fieldValidation=Maybe"), config_map("d", "1")).await.fails(422, "Invalid");
}

async fn last_applied_annotation_survives(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let text = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
    let body =
        json!({"metadata": {"name": "a", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": text}}});
    let made = peer.post(&path, body).await.ok(201);
    assert_eq!(made["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"], text);
}
