//! Custom resources: what the schema does to them, their subresources, selectors, tables and patches.
use muster_tests::runner::Case;
use muster_tests::{Call, Peer, cases, eventually};
use serde_json::{Value, json};

use crate::definitions::Crd;
use crate::names;

pub fn cases() -> Vec<Case> {
    cases![custom: unknown_fields_are_dropped_and_told, bodies_must_state_their_type, metadata_is_typed, defaults_are_filled_in, new_defaults_show_in_old_objects,
        schema_is_enforced, unchanged_faults_are_forgiven, status_and_spec_do_not_mix, generation_counts_all_but_metadata, scaled, selected_by_field,
        fields_selected_by_later, tables, default_table, patches, deleted_together, paged, dry_run_stores_nothing, cluster_scoped, finalizers_hold, updates_need_a_version,
        deprecation_is_told, unknown_paths]
}

fn spec(properties: Value) -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}, "n": {"type": "integer"}}}}})
}

fn closed() -> Value {
    spec(json!({"size": {"type": "integer", "minimum": 1}, "color": {"type": "string", "enum": ["red", "blue"]},
        "parts": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "string"}}}}}))
}

async fn installed(peer: &Peer, schema: Value) -> (Crd, String) {
    let ns = peer.namespace().await;
    let crd = Crd::with_schema(schema);
    crd.install(peer).await;
    let path = crd.resources("v1", &ns);
    (crd, path)
}

async fn unknown_fields_are_dropped_and_told(peer: &Peer) {
    let (crd, path) = installed(peer, closed()).await;
    let body =
        crd.widget("v1", "a", json!({"spec": {"size": 1, "zz": 1, "parts": [{"id": "x", "y": 2}]}, "other": {}}));
    let strict = peer.post(&format!("{path}?fieldValidation=Strict"), body.clone()).await.fails(400, "BadRequest");
    let message = strict["message"].as_str().unwrap();
    let want =
        r#"strict decoding error: unknown field "other", unknown field "spec.parts[0].y", unknown field "spec.zz""#;
    assert!(message.ends_with(want), "{message}");
    let warned = peer.post(&format!("{path}?fieldValidation=Warn"), body.clone()).await;
    assert_eq!(warned.warnings().len(), 3, "{:?}", warned.warnings());
    let made = warned.ok(201);
    assert_eq!(made["spec"], json!({"size": 1, "parts": [{"id": "x"}]}));
    assert!(made.get("other").is_none());
    let twice = r#"{"apiVersion":"A","kind":"Widget","metadata":{"name":"b"},"spec":{"size":1,"size":2}}"#;
    let twice = twice.replace("\"A\"", &format!("\"{}/v1\"", crd.group));
    let told = peer.post(&format!("{path}?fieldValidation=Strict"), twice).await.fails(400, "BadRequest");
    assert!(told["message"].as_str().unwrap().ends_with(r#"duplicate field "spec.size""#), "{told}");
    let patched = peer.patch(&format!("{path}/a?fieldValidation=Strict"), "merge", json!({"spec": {"zz": 1}})).await;
    patched.fails(422, "Invalid");
}

async fn bodies_must_state_their_type(peer: &Peer) {
    let (crd, path) = installed(peer, closed()).await;
    let body = |api_version: Option<&str>, kind: Option<&str>| {
        let mut body = json!({"metadata": {"name": "a"}});
        if let Some(v) = api_version {
            body["apiVersion"] = v.into();
        }
        if let Some(k) = kind {
            body["kind"] = k.into();
        }
        body
    };
    let own = format!("{}/v1", crd.group);
    peer.post(&path, body(None, None)).await.fails(400, "BadRequest");
    peer.post(&path, body(Some(&own), None)).await.fails(400, "BadRequest");
    peer.post(&path, body(None, Some("Widget"))).await.fails(400, "BadRequest");
    peer.post(&path, body(Some("other.example.com/v1"), Some("Widget"))).await.fails(400, "BadRequest");
    peer.post(&path, body(Some(&own), Some("Gadget"))).await.invalid(&["kind"]);
    peer.post(&path, body(Some(&own), Some("Widget"))).await.ok(201);
}

async fn metadata_is_typed(peer: &Peer) {
    let (crd, path) = installed(peer, closed()).await;
    for metadata in [
        json!({"name": 1}),
        json!({"name": "a", "labels": {"a": 1}}),
        json!({"name": "a", "finalizers": "x"}),
        json!(5),
    ] {
        let mut body = crd.widget("v1", "a", json!({}));
        body["metadata"] = metadata;
        peer.post(&path, body).await.fails(400, "BadRequest");
    }
    let bad_name = crd.widget("v1", "A_b", json!({}));
    peer.post(&path, bad_name).await.invalid(&["metadata.name"]);
    let bad_label = crd.widget("v1", "a", json!({"metadata": {"name": "a", "labels": {"a b": "c"}}}));
    peer.post(&path, bad_label).await.invalid(&["metadata.labels"]);
}

async fn defaults_are_filled_in(peer: &Peer) {
    let schema = spec(json!({"image": {"type": "string", "default": "busybox"},
        "nested": {"type": "object", "default": {}, "properties": {"deep": {"type": "integer", "default": 7}}}}));
    let (crd, path) = installed(peer, schema).await;
    let made = peer.post(&path, crd.widget("v1", "a", json!({"spec": {"image": null}}))).await.ok(201);
    assert_eq!(made["spec"], json!({"image": "busybox", "nested": {"deep": 7}}));
    let patched = peer
        .patch(&format!("{path}/a"), "merge", json!({"spec": {"image": null, "nested": {"deep": 8}}}))
        .await
        .ok(200);
    assert_eq!(patched["spec"], json!({"image": "busybox", "nested": {"deep": 8}}));
    // Without a spec there is nothing to fill.
    assert!(peer.post(&path, crd.widget("v1", "b", json!({}))).await.ok(201).get("spec").is_none());
}

async fn new_defaults_show_in_old_objects(peer: &Peer) {
    let (crd, path) = installed(peer, spec(json!({"a": {"type": "integer"}, "b": {"type": "integer"}}))).await;
    let made = peer.post(&path, crd.widget("v1", "old", json!({"spec": {"a": 1, "b": 2}}))).await.ok(201);
    peer.post(&path, crd.widget("v1", "older", json!({"spec": {"a": 1, "b": 2}}))).await.ok(201);
    let mut versions = crd.body["spec"]["versions"].clone();
    versions[0]["schema"]["openAPIV3Schema"] =
        spec(json!({"a": {"type": "integer"}, "c": {"type": "integer", "default": 3}}));
    crd.change(peer, json!({"spec": {"versions": versions}})).await;
    eventually("new shape", || async { peer.get(&format!("{path}/old")).await.ok(200)["spec"]["c"] == 3 }).await;
    let seen = peer.get(&format!("{path}/old")).await.ok(200);
    assert_eq!(seen["spec"], json!({"a": 1, "c": 3}), "read in the present schema's form");
    assert_eq!(seen["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    assert_eq!(peer.get(&path).await.ok(200)["items"][0]["spec"], seen["spec"]);
    let mut watch = peer.watch(&format!("{path}?watch=1")).await;
    assert_eq!(watch.expect("ADDED", "old").await["spec"], seen["spec"]);
    let written =
        peer.patch(&format!("{path}/old"), "merge", json!({"metadata": {"labels": {"x": "y"}}})).await.ok(200);
    assert_eq!(written["spec"], seen["spec"]);
    watch.expect("ADDED", "older").await;
    assert_eq!(watch.expect("MODIFIED", "old").await["spec"], seen["spec"]);
    peer.delete(&format!("{path}/older")).await.ok(200);
    assert_eq!(watch.expect("DELETED", "older").await["spec"], seen["spec"], "also when it goes");
}

async fn schema_is_enforced(peer: &Peer) {
    let (crd, path) = installed(peer, closed()).await;
    let post = |spec: Value| peer.post(&path, crd.widget("v1", "a", json!({"spec": spec})));
    let status = post(json!({"size": 0})).await.invalid(&["spec.size"]);
    assert!(status["message"].as_str().unwrap().contains("should be greater than or equal to 1"), "{status}");
    assert_eq!(status["details"]["kind"], "Widget");
    assert_eq!(status["details"]["group"], crd.group.as_str());
    post(json!({"size": "big"})).await.invalid(&["spec.size"]);
    post(json!({"color": "green"})).await.invalid(&["spec.color"]);
    post(json!({"size": 1, "color": "red"})).await.ok(201);
    peer.patch(&format!("{path}/a"), "merge", json!({"spec": {"size": -1}})).await.invalid(&["spec.size"]);
}

async fn unchanged_faults_are_forgiven(peer: &Peer) {
    let (crd, path) = installed(peer, spec(json!({"size": {"type": "integer"}, "name": {"type": "string"}}))).await;
    peer.post(&path, crd.widget("v1", "a", json!({"spec": {"size": 0, "name": "x"}}))).await.ok(201);
    let mut versions = crd.body["spec"]["versions"].clone();
    let strict = spec(json!({"size": {"type": "integer", "minimum": 1}, "name": {"type": "string"}}));
    versions[0]["schema"]["openAPIV3Schema"] = strict;
    crd.change(peer, json!({"spec": {"versions": versions}})).await;
    eventually("new rule", || async {
        peer.post(&format!("{path}?dryRun=All"), crd.widget("v1", "b", json!({"spec": {"size": 0}}))).await.status
            == 422
    })
    .await;
    peer.patch(&format!("{path}/a"), "merge", json!({"spec": {"name": "y"}})).await.ok(200);
    peer.patch(&format!("{path}/a"), "merge", json!({"spec": {"size": -1}})).await.invalid(&["spec.size"]);
}

/// A definition whose version has these subresources.
async fn with_subresources(peer: &Peer, subresources: Value) -> (Crd, String) {
    let ns = peer.namespace().await;
    let mut crd = Crd::with_schema(closed());
    crd.body["spec"]["versions"][0]["subresources"] = subresources;
    crd.install(peer).await;
    let path = crd.resources("v1", &ns);
    (crd, path)
}

async fn status_and_spec_do_not_mix(peer: &Peer) {
    let (crd, path) = with_subresources(peer, json!({"status": {}})).await;
    let made =
        peer.post(&path, crd.widget("v1", "a", json!({"spec": {"size": 1}, "status": {"phase": "x"}}))).await.ok(201);
    assert!(made.get("status").is_none(), "creation sets no status");
    let all = json!({"spec": {"size": 2}, "status": {"phase": "ready"}, "metadata": {"labels": {"a": "b"}}});
    let status = peer.patch(&format!("{path}/a/status"), "merge", all.clone()).await.ok(200);
    assert_eq!((&status["spec"]["size"], &status["status"]["phase"]), (&json!(1), &json!("ready")));
    assert_eq!(status["metadata"]["generation"], 1);
    assert!(status["metadata"].get("labels").is_none(), "nor its metadata");
    let main = peer
        .patch(&format!("{path}/a"), "merge", json!({"spec": {"size": 3}, "status": {"phase": "no"}}))
        .await
        .ok(200);
    assert_eq!((&main["spec"]["size"], &main["status"]["phase"]), (&json!(3), &json!("ready")));
    assert_eq!(main["metadata"]["generation"], 2);
    peer.patch(&format!("{path}/a/status"), "merge", json!({"status": {"phase": 5}})).await.invalid(&["status.phase"]);
    let mut whole = peer.get(&format!("{path}/a/status")).await.ok(200);
    whole["status"] = json!({"phase": "put"});
    assert_eq!(peer.put(&format!("{path}/a/status"), whole).await.ok(200)["status"]["phase"], "put");
}

async fn generation_counts_all_but_metadata(peer: &Peer) {
    let (crd, path) = installed(peer, closed()).await;
    peer.post(&path, crd.widget("v1", "a", json!({"spec": {"size": 1}, "status": {"phase": "x"}}))).await.ok(201);
    let generation = |patch: Value| {
        let path = format!("{path}/a");
        async move { peer.patch(&path, "merge", patch).await.ok(200)["metadata"]["generation"].clone() }
    };
    assert_eq!(generation(json!({"metadata": {"labels": {"a": "b"}}})).await, 1);
    assert_eq!(generation(json!({"spec": {"size": 2}})).await, 2);
    assert_eq!(
        generation(json!({"status": {"phase": "y"}})).await,
        3,
        "without a subresource the status is like the rest"
    );
    assert_eq!(generation(json!({"metadata": {"generation": 9}})).await, 3);
    peer.get(&format!("{path}/a/status")).await.fails(404, "NotFound");
}

async fn scaled(peer: &Peer) {
    let scale = json!({"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.phase"});
    let (crd, path) = with_subresources(peer, json!({"status": {}, "scale": scale})).await;
    peer.post(&path, crd.widget("v1", "a", json!({"spec": {"size": 2}}))).await.ok(201);
    peer.patch(&format!("{path}/a/status"), "merge", json!({"status": {"n": 1, "phase": "app=x"}})).await.ok(200);
    let seen = peer.get(&format!("{path}/a/scale")).await.ok(200);
    assert_eq!((&seen["kind"], &seen["spec"]["replicas"]), (&json!("Scale"), &json!(2)));
    assert_eq!(seen["status"], json!({"replicas": 1, "selector": "app=x"}));
    let scaled = peer.patch(&format!("{path}/a/scale"), "merge", json!({"spec": {"replicas": 5}})).await.ok(200);
    assert_eq!(scaled["spec"]["replicas"], 5);
    let now = peer.get(&format!("{path}/a")).await.ok(200);
    assert_eq!((&now["spec"]["size"], &now["metadata"]["generation"]), (&json!(5), &json!(2)));
    let mut body = seen.clone();
    body["spec"]["replicas"] = 7.into();
    peer.put(&format!("{path}/a/scale"), body.clone()).await.fails(409, "Conflict");
    body["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    assert_eq!(peer.put(&format!("{path}/a/scale"), body).await.ok(200)["spec"]["replicas"], 7);
    let refused = peer.patch(&format!("{path}/a/scale"), "merge", json!({"spec": {"replicas": -1}})).await;
    refused.invalid(&["spec.size", ".spec.size"]);
    peer.post(&path, crd.widget("v1", "without", json!({}))).await.ok(201);
    assert_eq!(peer.get(&format!("{path}/without/scale")).await.status, 500);
}

async fn selected_by_field(peer: &Peer) {
    let ns = peer.namespace().await;
    let mut crd = Crd::with_schema(closed());
    crd.body["spec"]["versions"][0]["selectableFields"] =
        json!([{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}]);
    crd.install(peer).await;
    let path = crd.resources("v1", &ns);
    for (name, spec) in
        [("a", json!({"color": "red", "size": 1})), ("b", json!({"color": "blue", "size": 2})), ("c", json!({}))]
    {
        peer.post(&path, crd.widget("v1", name, json!({"spec": spec}))).await.ok(201);
    }
    let select = |selector: &str| {
        let path = format!("{path}?fieldSelector={selector}");
        async move { names(&peer.get(&path).await.ok(200)) }
    };
    assert_eq!(select("spec.color=red").await, ["a"]);
    assert_eq!(select("spec.color!=red").await, ["b", "c"]);
    assert_eq!(select("spec.size=2").await, ["b"]);
    assert_eq!(select("spec.color=").await, ["c"]);
    assert_eq!(select("spec.color=blue,metadata.name=b").await, ["b"]);
    let status = peer.get(&format!("{path}?fieldSelector=spec.other=1")).await.fails(400, "BadRequest");
    assert_eq!(status["message"], "field label not supported: spec.other");
    let mut watch = peer.watch(&format!("{path}?watch=1&fieldSelector=spec.color=red")).await;
    watch.expect("ADDED", "a").await;
    peer.patch(&format!("{path}/b"), "merge", json!({"spec": {"color": "red"}})).await.ok(200);
    watch.expect("ADDED", "b").await;
    peer.patch(&format!("{path}/a"), "merge", json!({"spec": {"color": "blue"}})).await.ok(200);
    watch.expect("DELETED", "a").await;
}

async fn fields_selected_by_later(peer: &Peer) {
    let (crd, path) = installed(peer, closed()).await;
    peer.post(&path, crd.widget("v1", "a", json!({"spec": {"color": "red"}}))).await.ok(201);
    peer.post(&path, crd.widget("v1", "b", json!({"spec": {"color": "blue"}}))).await.ok(201);
    let mut versions = crd.body["spec"]["versions"].clone();
    versions[0]["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
    crd.change(peer, json!({"spec": {"versions": versions}})).await;
    let selected = format!("{path}?fieldSelector=spec.color=red");
    eventually("selectable", || async { peer.get(&selected).await.status == 200 }).await;
    assert_eq!(names(&peer.get(&selected).await.ok(200)), ["a"], "also objects from before");
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

async fn table(peer: &Peer, path: &str) -> Value {
    Call::get(peer, path).accept(TABLE).send().await.ok(200)
}

async fn tables(peer: &Peer) {
    let ns = peer.namespace().await;
    let mut crd = Crd::new();
    crd.body["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1, "description": "How large."},
        {"name": "On", "type": "boolean", "jsonPath": ".spec.on"},
        {"name": "Ratio", "type": "number", "jsonPath": ".spec.ratio"},
        {"name": "First", "type": "string", "jsonPath": ".spec.parts[0]"},
        {"name": "Map", "type": "string", "jsonPath": ".spec.map"},
        {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]);
    crd.install(peer).await;
    let path = crd.resources("v1", &ns);
    let spec = json!({"size": 3, "on": true, "ratio": 1.5, "parts": ["p", "q"], "map": {"a": 1}});
    let full = json!({"spec": spec, "status": {"conditions": [{"type": "X", "status": "?"}, {"type": "Ready", "status": "True"}]}});
    peer.post(&path, crd.widget("v1", "full", full)).await.ok(201);
    peer.post(&path, crd.widget("v1", "none", json!({"spec": {"size": "text", "on": "text"}}))).await.ok(201);
    let seen = table(peer, &path).await;
    let columns: Vec<_> = seen["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["name"].as_str().unwrap(), c["priority"].as_i64().unwrap()))
        .collect();
    assert_eq!(
        columns,
        [("Name", 0), ("Ready", 0), ("Size", 1), ("On", 0), ("Ratio", 0), ("First", 0), ("Map", 0), ("Since", 0)]
    );
    assert_eq!(seen["columnDefinitions"][2]["description"], "How large.");
    let cells = seen["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(cells[..6], [json!("full"), json!("True"), json!(3), json!(true), json!(1.5), json!("p")]);
    assert_eq!(cells[6], json!("{\"a\":1}"));
    assert!(cells[7].as_str().unwrap().ends_with('s'), "{cells:?}");
    assert_eq!(
        seen["rows"][1]["cells"].as_array().unwrap()[..7],
        [json!("none"), json!(null), json!(null), json!(null), json!(null), json!(null), json!(null)]
    );
}

async fn default_table(peer: &Peer) {
    let (crd, path) = installed(peer, closed()).await;
    peer.post(&path, crd.widget("v1", "a", json!({}))).await.ok(201);
    let seen = table(peer, &format!("{path}/a")).await;
    let columns: Vec<_> =
        seen["columnDefinitions"].as_array().unwrap().iter().map(|c| (c["name"].clone(), c["type"].clone())).collect();
    assert_eq!(columns, [(json!("Name"), json!("string")), (json!("Age"), json!("date"))]);
    assert_eq!(seen["rows"][0]["cells"][0], "a");
    assert_eq!(seen["rows"][0]["object"]["kind"], "PartialObjectMetadata");
}

async fn patches(peer: &Peer) {
    let (crd, path) = installed(peer, closed()).await;
    peer.post(&path, crd.widget("v1", "a", json!({"spec": {"size": 1, "parts": [{"id": "x"}]}}))).await.ok(201);
    let one = format!("{path}/a");
    let merged = peer.patch(&one, "merge", json!({"spec": {"color": "red", "parts": [{"id": "y"}]}})).await.ok(200);
    assert_eq!(merged["spec"], json!({"size": 1, "color": "red", "parts": [{"id": "y"}]}));
    let added = json!([{"op": "add", "path": "/spec/parts/-", "value": {"id": "z"}}]);
    assert_eq!(peer.patch(&one, "json", added).await.ok(200)["spec"]["parts"][1]["id"], "z");
    let strategic =
        peer.patch(&one, "strategic-merge", json!({"spec": {"size": 2}})).await.fails(415, "UnsupportedMediaType");
    let message = strategic["message"].as_str().unwrap();
    assert!(
        message.ends_with("application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"),
        "{message}"
    );
    peer.patch(&one, "merge", json!({"kind": "Gadget"})).await.invalid(&["kind"]);
    peer.patch(&one, "merge", json!({"apiVersion": "other.example.com/v1"})).await.invalid(&["apiVersion"]);
    peer.patch(&one, "merge", json!({"metadata": {"name": "b"}})).await.fails(400, "BadRequest");
    peer.patch(&one, "json", json!([{"op": "remove", "path": "/metadata/name"}])).await.fails(400, "BadRequest");
    peer.patch(&format!("{path}/missing"), "merge", json!({"spec": {}})).await.fails(404, "NotFound");
}

async fn deleted_together(peer: &Peer) {
    let (crd, path) = installed(peer, closed()).await;
    for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        let body = crd.widget("v1", name, json!({"metadata": {"name": name, "labels": {"color": color}}}));
        peer.post(&path, body).await.ok(201);
    }
    assert_eq!(peer.delete(&format!("{path}?labelSelector=color=red")).await.ok(200)["kind"], "WidgetList");
    assert_eq!(names(&peer.get(&path).await.ok(200)), ["b"]);
    assert_eq!(peer.delete(&format!("{path}/b")).await.ok(200)["status"], "Success");
}

async fn paged(peer: &Peer) {
    let (crd, path) = installed(peer, closed()).await;
    for i in 0..5 {
        peer.post(&path, crd.widget("v1", &format!("w{i}"), json!({}))).await.ok(201);
    }
    let first = peer.get(&format!("{path}?limit=2")).await.ok(200);
    assert_eq!(names(&first), ["w0", "w1"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let rest = peer.get(&format!("{path}?continue={token}")).await.ok(200);
    assert_eq!(names(&rest), ["w2", "w3", "w4"]);
    assert_eq!(rest["metadata"]["continue"], "", "lists without a type always state it");
}

async fn dry_run_stores_nothing(peer: &Peer) {
    let (crd, path) = installed(peer, closed()).await;
    let made =
        peer.post(&format!("{path}?dryRun=All"), crd.widget("v1", "a", json!({"spec": {"size": 1}}))).await.ok(201);
    assert_eq!(made["spec"]["size"], 1);
    peer.get(&format!("{path}/a")).await.fails(404, "NotFound");
}

async fn cluster_scoped(peer: &Peer) {
    let mut crd = Crd::with_schema(closed());
    crd.body["spec"]["scope"] = "Cluster".into();
    crd.install(peer).await;
    let path = format!("/apis/{}/v1/widgets", crd.group);
    peer.post(&path, crd.widget("v1", "a", json!({}))).await.ok(201);
    assert!(peer.get(&format!("{path}/a")).await.ok(200)["metadata"].get("namespace").is_none());
    assert_eq!(peer.get(&crd.resources("v1", "default")).await.status, 404);
}

async fn finalizers_hold(peer: &Peer) {
    let (crd, path) = installed(peer, closed()).await;
    let body = crd.widget("v1", "a", json!({"metadata": {"name": "a", "finalizers": ["example.com/hold"]}}));
    peer.post(&path, body).await.ok(201);
    let marked = peer.delete(&format!("{path}/a")).await.ok(200);
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(marked["metadata"]["generation"], 2);
    peer.patch(&format!("{path}/a"), "merge", json!({"metadata": {"finalizers": null}})).await.ok(200);
    peer.get(&format!("{path}/a")).await.fails(404, "NotFound");
    let plain = crd.widget("v1", "b", json!({"metadata": {"name": "b", "finalizers": ["hold", "a.hold"]}}));
    let warned = peer.post(&path, plain).await;
    warned.ok(201);
    assert_eq!(warned.warnings().len(), 2, "{:?}", warned.warnings());
}

async fn updates_need_a_version(peer: &Peer) {
    let (crd, path) = installed(peer, closed()).await;
    let made = peer.post(&path, crd.widget("v1", "a", json!({"spec": {"size": 1}}))).await.ok(201);
    peer.put(&format!("{path}/a"), crd.widget("v1", "a", json!({"spec": {"size": 2}})))
        .await
        .invalid(&["metadata.resourceVersion"]);
    peer.put(&format!("{path}/missing"), crd.widget("v1", "missing", json!({}))).await.fails(404, "NotFound");
    let mut body = made.clone();
    body["spec"]["size"] = 2.into();
    assert_eq!(peer.put(&format!("{path}/a"), body.clone()).await.ok(200)["metadata"]["generation"], 2);
    peer.put(&format!("{path}/a"), body).await.fails(409, "Conflict");
}

async fn deprecation_is_told(peer: &Peer) {
    let ns = peer.namespace().await;
    let mut crd = Crd::new();
    crd.body["spec"]["versions"][0]["deprecated"] = true.into();
    crd.install(peer).await;
    let answer = peer.get(&crd.resources("v1", &ns)).await;
    assert_eq!(answer.warnings(), [format!("299 - \"{}/v1 Widget is deprecated\"", crd.group)]);
}

async fn unknown_paths(peer: &Peer) {
    let (crd, path) = installed(peer, closed()).await;
    peer.post(&path, crd.widget("v1", "a", json!({}))).await.ok(201);
    peer.get(&format!("{path}/a/nothing")).await.fails(404, "NotFound");
    for path in [
        format!("/apis/{}/v9/widgets", crd.group),
        format!("/apis/{}/v1/gadgets", crd.group),
        format!("/apis/{}/v1/widgets/a", crd.group),
        "/apis/nobody.example.com/v1/widgets".to_owned(),
    ] {
        let answer = peer.get(&path).await;
        assert_eq!((answer.status, answer.text().trim()), (404, "404 page not found"), "{path}");
    }
    let body = crd.widget("v1", "b", json!({}));
    assert_eq!(peer.post(&format!("/apis/{}/v1/widgets", crd.group), body).await.status, 404);
}
