//! CustomResourceDefinitions: how they come to be served, who gets which name, how they change and how they go.
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use muster_tests::runner::Case;
use muster_tests::{Peer, cases, eventually};
use serde_json::{Value, json};

use crate::config_map;

pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

pub fn cases() -> Vec<Case> {
    cases![definitions: served_with_its_conditions, names_belong_to_the_first, a_freed_name_is_given, listed_in_discovery, documented_in_openapi, kinds_of_versions,
        deletion_removes_instances, deletion_waits_for_finalizers, nothing_is_made_while_terminating, storage_versions_are_remembered, unserved_version_is_gone,
        watches_end_with_their_version, status_is_not_for_the_main_resource, needs_a_resource_version, definitions_are_watched, comes_back_empty]
    .into_iter()
    .chain(cases![muster definitions: served_when_answered, instances_set_their_dependents_free, namespace_takes_instances_along, nothing_is_left_behind])
    .collect()
}

/// A definition in a group of its own, and where its resources are.
pub struct Crd {
    pub group: String,
    pub name: String,
    pub body: Value,
}

impl Crd {
    /// Namespaced `Widget`s with one version `v1` that keeps everything.
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let group = format!("g{}.example.com", NUMBER.fetch_add(1, Ordering::SeqCst));
        let name = format!("widgets.{group}");
        let body = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
            "spec": {"group": group, "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": ["wd"]},
                "versions": [version("v1", true, json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}))]}});
        Self { group, name, body }
    }

    pub fn with_schema(schema: Value) -> Self {
        let mut crd = Self::new();
        crd.body["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
        crd
    }

    pub fn path(&self) -> String {
        format!("{DEFINITIONS}/{}", self.name)
    }

    pub fn resources(&self, version: &str, namespace: &str) -> String {
        format!("/apis/{}/{version}/namespaces/{namespace}/widgets", self.group)
    }

    pub fn widget(&self, version: &str, name: &str, rest: Value) -> Value {
        let mut widget =
            json!({"apiVersion": format!("{}/{version}", self.group), "kind": "Widget", "metadata": {"name": name}});
        for (key, value) in rest.as_object().into_iter().flatten() {
            widget[key] = value.clone();
        }
        widget
    }

    /// Creates it and waits until it is served.
    pub async fn install(&self, peer: &Peer) {
        peer.post(DEFINITIONS, self.body.clone()).await.ok(201);
        self.until_served(peer).await;
    }

    pub async fn until_served(&self, peer: &Peer) {
        let version = self.body["spec"]["versions"][0]["name"].as_str().unwrap().to_owned();
        let path = format!("/apis/{}/{version}/widgets", self.group);
        eventually(&self.name, || async {
            condition(&peer.get(&self.path()).await.json(), "Established") == "True"
                && peer.get(&path).await.status == 200
        })
        .await;
    }

    /// Changes the definition by a merge patch.
    pub async fn change(&self, peer: &Peer, patch: Value) -> Value {
        peer.patch(&self.path(), "merge", patch).await.ok(200)
    }
}

pub fn version(name: &str, storage: bool, schema: Value) -> Value {
    json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
}

pub fn open() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

pub fn condition(crd: &Value, kind: &str) -> String {
    let list = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = list.iter().find(|c| c["type"] == kind).map(|c| c["status"].as_str().unwrap_or("").to_owned());
    found.unwrap_or_default()
}

async fn served_with_its_conditions(peer: &Peer) {
    let crd = Crd::new();
    let made = peer.post(DEFINITIONS, crd.body.clone()).await.ok(201);
    assert_eq!(made["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(made["status"]["acceptedNames"], json!({"plural": "", "kind": ""}));
    assert_eq!(made["metadata"]["generation"], 1);
    crd.until_served(peer).await;
    let now = peer.get(&crd.path()).await.ok(200);
    assert_eq!(now["status"]["acceptedNames"], crd.body["spec"]["names"]);
    assert_eq!(condition(&now, "NamesAccepted"), "True");
    let established =
        now["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Established").unwrap();
    assert_eq!(established["reason"], "InitialNamesAccepted");
    assert_eq!(established["message"], "the initial names have been accepted");
    assert_eq!(now["metadata"]["generation"], 1, "a status is no new generation");
}

async fn served_when_answered(peer: &Peer) {
    let ns = peer.namespace().await;
    for _ in 0..10 {
        let crd = Crd::new();
        peer.post(DEFINITIONS, crd.body.clone()).await.ok(201);
        peer.post(&crd.resources("v1", &ns), crd.widget("v1", "a", json!({}))).await.ok(201);
        assert_eq!(condition(&peer.get(&crd.path()).await.ok(200), "Established"), "True");
        peer.get(&format!("/apis/{}/v1", crd.group)).await.ok(200);
        peer.get(&format!("/openapi/v3/apis/{}/v1", crd.group)).await.ok(200);
    }
}

/// Another plural of the same group that wants the same kind and short name.
fn rival(crd: &Crd) -> Crd {
    let mut body = crd.body.clone();
    let name = format!("gadgets.{}", crd.group);
    body["metadata"]["name"] = name.as_str().into();
    body["spec"]["names"] = json!({"plural": "gadgets", "singular": "gadget", "kind": "Widget", "listKind": "GadgetList", "shortNames": ["gd"]});
    Crd { group: crd.group.clone(), name, body }
}

async fn names_belong_to_the_first(peer: &Peer) {
    let crd = Crd::new();
    crd.install(peer).await;
    let rival = rival(&crd);
    peer.post(DEFINITIONS, rival.body.clone()).await.ok(201);
    eventually("told", || async { !condition(&peer.get(&rival.path()).await.json(), "NamesAccepted").is_empty() })
        .await;
    let now = peer.get(&rival.path()).await.ok(200);
    let list = now["status"]["conditions"].as_array().unwrap();
    let told = |kind: &str| {
        let c = list.iter().find(|c| c["type"] == kind).unwrap();
        (c["status"].clone(), c["reason"].clone(), c["message"].clone())
    };
    assert_eq!(told("NamesAccepted"), (json!("False"), json!("KindConflict"), json!("\"Widget\" is already in use")));
    assert_eq!(told("Established"), (json!("False"), json!("NotAccepted"), json!("not all names are accepted")));
    assert_eq!(now["status"]["acceptedNames"]["plural"], "gadgets");
    assert_eq!(now["status"]["acceptedNames"]["kind"], "");
    assert_eq!(peer.get(&format!("/apis/{}/v1/gadgets", crd.group)).await.status, 404);
}

async fn a_freed_name_is_given(peer: &Peer) {
    let crd = Crd::new();
    crd.install(peer).await;
    let rival = rival(&crd);
    peer.post(DEFINITIONS, rival.body.clone()).await.ok(201);
    eventually("refused", || async { condition(&peer.get(&rival.path()).await.json(), "NamesAccepted") == "False" })
        .await;
    peer.delete(&crd.path()).await.ok(200);
    let path = format!("/apis/{}/v1/gadgets", crd.group);
    eventually("given", || async { peer.get(&path).await.status == 200 }).await;
    assert_eq!(peer.get(&path).await.ok(200)["kind"], "GadgetList");
}

async fn listed_in_discovery(peer: &Peer) {
    let mut crd = Crd::new();
    crd.body["spec"]["names"]["categories"] = json!(["all"]);
    crd.body["spec"]["versions"] =
        json!([version("v1beta1", false, open()), version("v1", true, open()), version("v2alpha1", false, open())]);
    crd.body["spec"]["versions"][1]["subresources"] =
        json!({"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}});
    crd.install(peer).await;
    let group_path = format!("/apis/{}", crd.group);
    let version_path = format!("{group_path}/v1");
    eventually("discovery", || async {
        peer.get(&group_path).await.status == 200 && peer.get(&version_path).await.status == 200
    })
    .await;
    let group = peer.get(&group_path).await.ok(200);
    let versions: Vec<&str> =
        group["versions"].as_array().unwrap().iter().filter_map(|v| v["version"].as_str()).collect();
    assert_eq!(versions, ["v1", "v1beta1", "v2alpha1"]);
    assert_eq!(group["preferredVersion"]["version"], "v1");
    let list = peer.get(&version_path).await.ok(200);
    let names: Vec<&str> = list["resources"].as_array().unwrap().iter().filter_map(|r| r["name"].as_str()).collect();
    assert_eq!(names, ["widgets", "widgets/status", "widgets/scale"]);
    let main = &list["resources"][0];
    assert_eq!(main["shortNames"], json!(["wd"]));
    assert_eq!(main["categories"], json!(["all"]));
    assert_eq!(main["singularName"], "widget");
    assert_eq!(list["resources"][2]["kind"], "Scale");
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let wanted = |all: &Value| {
        all["items"].as_array().unwrap().iter().find(|g| g["metadata"]["name"] == crd.group.as_str()).cloned()
    };
    eventually("aggregated", || async {
        wanted(&peer.call("GET", "/apis").accept(aggregated).send().await.ok(200)).is_some()
    })
    .await;
    let before = peer.call("GET", "/apis").accept(aggregated).send().await;
    let found = wanted(&before.ok(200)).unwrap();
    assert_eq!(found["versions"][0]["version"], "v1");
    assert_eq!(found["versions"][0]["resources"][0]["subresources"][1]["responseKind"]["kind"], "Scale");
    peer.delete(&crd.path()).await.ok(200);
    eventually("gone", || async { peer.get(&group_path).await.status == 404 }).await;
    eventually("gone from all", || async {
        let after = peer.call("GET", "/apis").accept(aggregated).send().await;
        wanted(&after.ok(200)).is_none() && after.header("etag") != before.header("etag")
    })
    .await;
}

async fn documented_in_openapi(peer: &Peer) {
    let crd = Crd::with_schema(json!({"type": "object", "description": "A widget.",
        "properties": {"spec": {"type": "object", "required": ["size"], "properties": {"size": {"type": "integer", "minimum": 1}}}}}));
    crd.install(peer).await;
    let path = format!("apis/{}/v1", crd.group);
    eventually("index", || async { !peer.get("/openapi/v3").await.json()["paths"][&path].is_null() }).await;
    let url = |index: &Value| index["paths"][&path]["serverRelativeURL"].as_str().unwrap_or_default().to_owned();
    let first = url(&peer.get("/openapi/v3").await.ok(200));
    let document = peer.get(&first).await.ok(200);
    let reversed: Vec<&str> = crd.group.split('.').rev().collect();
    let component = format!("{}.v1.Widget", reversed.join("."));
    let schema = &document["components"]["schemas"][&component];
    assert_eq!(schema["properties"]["spec"]["properties"]["size"]["minimum"].as_f64(), Some(1.0), "{schema}");
    assert_eq!(schema["properties"]["spec"]["required"], json!(["size"]));
    assert_eq!(
        schema["x-kubernetes-group-version-kind"][0],
        json!({"group": crd.group, "version": "v1", "kind": "Widget"})
    );
    assert!(schema["properties"]["metadata"].is_object());
    assert!(document["components"]["schemas"][format!("{component}List")].is_object());
    assert!(document["paths"][format!("/apis/{}/v1/namespaces/{{namespace}}/widgets/{{name}}", crd.group)].is_object());
    eventually("the older document", || async {
        let size = &peer.get("/openapi/v2").await.ok(200)["definitions"][&component]["properties"]["spec"]["properties"]
            ["size"];
        size["type"] == "integer"
    })
    .await;
    let mut versions = crd.body["spec"]["versions"].clone();
    versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["weight"] = json!({"type": "integer"});
    crd.change(peer, json!({"spec": {"versions": versions}})).await;
    eventually("another document", || async { url(&peer.get("/openapi/v3").await.json()) != first }).await;
    let second = peer.get(&url(&peer.get("/openapi/v3").await.ok(200))).await.ok(200);
    assert!(second["components"]["schemas"][&component]["properties"]["spec"]["properties"]["weight"].is_object());
}

async fn kinds_of_versions(peer: &Peer) {
    let ns = peer.namespace().await;
    let mut crd = Crd::new();
    crd.body["spec"]["versions"] = json!([version("v1", true, open()), version("v2", false, open())]);
    crd.install(peer).await;
    let (v1, v2) = (crd.resources("v1", &ns), crd.resources("v2", &ns));
    peer.post(&v2, crd.widget("v2", "a", json!({"spec": {"x": 1}}))).await.ok(201);
    assert_eq!(peer.get(&format!("{v1}/a")).await.ok(200)["apiVersion"], format!("{}/v1", crd.group));
    let list = peer.get(&v2).await.ok(200);
    assert_eq!(list["apiVersion"], format!("{}/v2", crd.group));
    assert_eq!(list["items"][0]["apiVersion"], format!("{}/v2", crd.group));
    assert_eq!(list["items"][0]["kind"], "Widget", "items of lists without a type state their kind");
    let mut watch = peer.watch(&format!("{v2}?watch=1")).await;
    assert_eq!(watch.expect("ADDED", "a").await["apiVersion"], format!("{}/v2", crd.group));
    peer.patch(&format!("{v1}/a"), "merge", json!({"spec": {"x": 2}})).await.ok(200);
    assert_eq!(watch.expect("MODIFIED", "a").await["apiVersion"], format!("{}/v2", crd.group));
}

async fn deletion_removes_instances(peer: &Peer) {
    let (ns, other) = (peer.namespace().await, peer.namespace().await);
    let crd = Crd::new();
    crd.install(peer).await;
    peer.post(&crd.resources("v1", &ns), crd.widget("v1", "a", json!({}))).await.ok(201);
    peer.post(&crd.resources("v1", &other), crd.widget("v1", "b", json!({}))).await.ok(201);
    let mut watch = peer.watch(&format!("{}?watch=1&resourceVersion=0", crd.resources("v1", &ns))).await;
    watch.expect("ADDED", "a").await;
    let marked = peer.delete(&crd.path()).await.ok(200);
    assert_eq!(marked["kind"], "CustomResourceDefinition", "the answer is the object that is going");
    assert_eq!(condition(&marked, "Terminating"), "True");
    assert_eq!(marked["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    watch.expect("DELETED", "a").await;
    eventually("gone", || async { peer.get(&crd.path()).await.status == 404 }).await;
    eventually("not served", || async { peer.get(&crd.resources("v1", &ns)).await.status == 404 }).await;
}

async fn deletion_waits_for_finalizers(peer: &Peer) {
    let ns = peer.namespace().await;
    let crd = Crd::new();
    crd.install(peer).await;
    let path = crd.resources("v1", &ns);
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    peer.post(&path, crd.widget("v1", "held", held)).await.ok(201);
    peer.post(&path, crd.widget("v1", "free", json!({}))).await.ok(201);
    peer.delete(&crd.path()).await.ok(200);
    eventually("the free one is gone", || async { peer.get(&format!("{path}/free")).await.status == 404 }).await;
    let waiting = peer.get(&crd.path()).await.ok(200);
    assert_eq!(condition(&waiting, "Terminating"), "True");
    let is_marked =
        || async { peer.get(&format!("{path}/held")).await.ok(200)["metadata"]["deletionTimestamp"].is_string() };
    eventually("the held one is marked", is_marked).await;
    peer.patch(&format!("{path}/held"), "merge", json!({"metadata": {"finalizers": null}})).await.ok(200);
    eventually("gone", || async { peer.get(&crd.path()).await.status == 404 }).await;
}

async fn nothing_is_made_while_terminating(peer: &Peer) {
    let ns = peer.namespace().await;
    let crd = Crd::new();
    crd.install(peer).await;
    let path = crd.resources("v1", &ns);
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    peer.post(&path, crd.widget("v1", "held", held)).await.ok(201);
    peer.delete(&crd.path()).await.ok(200);
    let told = "create not allowed while custom resource definition is terminating";
    eventually("refused", || async { peer.post(&path, crd.widget("v1", "new", json!({}))).await.status == 403 }).await;
    let status = peer.post(&path, crd.widget("v1", "new", json!({}))).await.fails(403, "Forbidden");
    assert!(status["message"].as_str().unwrap().ends_with(told), "{status}");
    eventually("fewer verbs", || async {
        let verbs = peer.get(&format!("/apis/{}/v1", crd.group)).await.json()["resources"][0]["verbs"].clone();
        !verbs.as_array().unwrap().contains(&json!("create"))
    })
    .await;
    peer.patch(&format!("{path}/held"), "merge", json!({"metadata": {"finalizers": null}})).await.ok(200);
    eventually("gone", || async { peer.get(&crd.path()).await.status == 404 }).await;
}

async fn storage_versions_are_remembered(peer: &Peer) {
    let ns = peer.namespace().await;
    let mut crd = Crd::new();
    let integer =
        |name: &str| json!({"type": "object", "properties": {name: {"type": "integer"}, "both": {"type": "integer"}}});
    crd.body["spec"]["versions"] = json!([version("v1", true, integer("one")), version("v2", false, integer("two"))]);
    crd.install(peer).await;
    peer.post(&crd.resources("v1", &ns), crd.widget("v1", "old", json!({"one": 1, "both": 3}))).await.ok(201);
    let versions = json!([version("v1", false, integer("one")), version("v2", true, integer("two"))]);
    let changed = crd.change(peer, json!({"spec": {"versions": versions}})).await;
    assert_eq!(changed["status"]["storedVersions"], json!(["v1", "v2"]));
    assert_eq!(changed["metadata"]["generation"], 2);
    let new = format!("{}/new", crd.resources("v2", &ns));
    // Until Kubernetes stores in the new version, `two` is lost; and for a moment it serves neither.
    peer.knows("the new version is stored", || async {
        let made = peer.post(&crd.resources("v2", &ns), crd.widget("v2", "new", json!({"two": 2, "both": 4}))).await;
        if made.status == 201 && peer.get(&new).await.json()["two"] == 2 {
            return true;
        }
        peer.delete(&new).await;
        false
    })
    .await;
    // Each version shows of both objects what it knows.
    let seen = |version: &'static str, name: &'static str| {
        let path = format!("{}/{name}", crd.resources(version, &ns));
        async move {
            let o = peer.get(&path).await.ok(200);
            (o["one"].clone(), o["two"].clone(), o["both"].clone())
        }
    };
    assert_eq!(seen("v1", "old").await, (json!(1), Value::Null, json!(3)));
    assert_eq!(seen("v2", "old").await, (Value::Null, Value::Null, json!(3)));
    assert_eq!(seen("v1", "new").await, (Value::Null, Value::Null, json!(4)));
    assert_eq!(seen("v2", "new").await, (Value::Null, json!(2), json!(4)));
}

async fn unserved_version_is_gone(peer: &Peer) {
    let ns = peer.namespace().await;
    let mut crd = Crd::new();
    crd.body["spec"]["versions"] = json!([version("v1", true, open()), version("v2", false, open())]);
    crd.install(peer).await;
    peer.post(&crd.resources("v1", &ns), crd.widget("v1", "a", json!({}))).await.ok(201);
    let mut versions = crd.body["spec"]["versions"].clone();
    versions[0]["served"] = false.into();
    crd.change(peer, json!({"spec": {"versions": versions}})).await;
    eventually("gone", || async { peer.get(&crd.resources("v1", &ns)).await.status == 404 }).await;
    assert_eq!(
        peer.get(&format!("{}/a", crd.resources("v2", &ns))).await.ok(200)["apiVersion"],
        format!("{}/v2", crd.group)
    );
    eventually("discovery", || async { peer.get(&format!("/apis/{}/v1", crd.group)).await.status == 404 }).await;
}

async fn watches_end_with_their_version(peer: &Peer) {
    let ns = peer.namespace().await;
    let mut crd = Crd::new();
    crd.body["spec"]["versions"] = json!([version("v1", true, open()), version("v2", false, open())]);
    crd.install(peer).await;
    peer.post(&crd.resources("v1", &ns), crd.widget("v1", "a", json!({}))).await.ok(201);
    let mut watch = peer.watch(&format!("{}?watch=1", crd.resources("v2", &ns))).await;
    watch.expect("ADDED", "a").await;
    let mut versions = crd.body["spec"]["versions"].clone();
    versions[1]["served"] = false.into();
    crd.change(peer, json!({"spec": {"versions": versions}})).await;
    assert_eq!(watch.rest().await, Vec::<Value>::new());
}

async fn status_is_not_for_the_main_resource(peer: &Peer) {
    let crd = Crd::new();
    crd.install(peer).await;
    let before = peer.get(&crd.path()).await.ok(200);
    let after = crd
        .change(
            peer,
            json!({"status": {"storedVersions": ["v7"], "conditions": []}, "metadata": {"labels": {"a": "b"}}}),
        )
        .await;
    assert_eq!(after["status"], before["status"]);
    assert_eq!(after["metadata"]["generation"], 1);
    assert_eq!(after["metadata"]["labels"], json!({"a": "b"}));
}

async fn needs_a_resource_version(peer: &Peer) {
    let crd = Crd::new();
    crd.install(peer).await;
    peer.put(&crd.path(), crd.body.clone()).await.invalid(&["metadata.resourceVersion"]);
}

async fn definitions_are_watched(peer: &Peer) {
    let crd = Crd::new();
    let path = format!("{DEFINITIONS}?watch=1&resourceVersion=0&fieldSelector=metadata.name={}", crd.name);
    let mut watch = peer.watch(&path).await;
    peer.post(DEFINITIONS, crd.body.clone()).await.ok(201);
    let added = watch.expect("ADDED", &crd.name).await;
    assert_eq!(condition(&added, "Established"), "");
    while condition(&watch.expect("MODIFIED", &crd.name).await, "Established") != "True" {}
    // Whoever reads that it is established can use it; Kubernetes asks for some patience.
    let path = format!("/apis/{}/v1/widgets", crd.group);
    peer.knows("it is served", || async { peer.get(&path).await.status == 200 }).await;
    peer.delete(&crd.path()).await.ok(200);
    while watch.event().await["type"] != "DELETED" {}
}

async fn comes_back_empty(peer: &Peer) {
    let ns = peer.namespace().await;
    let crd = Crd::new();
    for _ in 0..2 {
        crd.install(peer).await;
        assert_eq!(peer.get(&crd.resources("v1", &ns)).await.ok(200)["items"], json!([]));
        peer.post(&crd.resources("v1", &ns), crd.widget("v1", "a", json!({}))).await.ok(201);
        peer.delete(&crd.path()).await.ok(200);
        eventually("gone", || async { peer.get(&crd.path()).await.status == 404 }).await;
    }
}

async fn instances_set_their_dependents_free(peer: &Peer) {
    let ns = peer.namespace().await;
    let maps = format!("/api/v1/namespaces/{ns}/configmaps");
    let crd = Crd::new();
    crd.install(peer).await;
    let owned = |name: &str, owner: &Value| {
        let mut map = config_map(name, "1");
        map["metadata"]["ownerReferences"] = json!([{"apiVersion": owner["apiVersion"], "kind": owner["kind"],
            "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}]);
        map
    };
    for (i, name) in ["one", "two"].into_iter().enumerate() {
        let owner = peer.post(&crd.resources("v1", &ns), crd.widget("v1", name, json!({}))).await.ok(201);
        peer.post(&maps, owned(name, &owner)).await.ok(201);
        if i == 0 {
            peer.delete(&format!("{}/{name}", crd.resources("v1", &ns))).await.ok(200);
            eventually("owned by an instance", || async { peer.get(&format!("{maps}/one")).await.status == 404 }).await;
        }
    }
    peer.delete(&crd.path()).await.ok(200);
    eventually("owned by an instance of a definition that went", || async {
        peer.get(&format!("{maps}/two")).await.status == 404
    })
    .await;
}

async fn namespace_takes_instances_along(peer: &Peer) {
    let ns = peer.namespace().await;
    let crd = Crd::new();
    crd.install(peer).await;
    peer.post(&crd.resources("v1", &ns), crd.widget("v1", "a", json!({}))).await.ok(201);
    peer.delete(&format!("/api/v1/namespaces/{ns}")).await.ok(200);
    eventually("gone", || async { peer.get(&format!("/api/v1/namespaces/{ns}")).await.status == 404 }).await;
    assert_eq!(peer.get(&format!("/apis/{}/v1/widgets", crd.group)).await.ok(200)["items"], json!([]));
}

/// Writers that race with the deletion of their definition leave nothing that comes back with it.
async fn nothing_is_left_behind(peer: &Peer) {
    let ns = peer.namespace().await;
    let crd = &Crd::new();
    let path = &crd.resources("v1", &ns);
    for round in 0..5 {
        crd.install(peer).await;
        assert_eq!(peer.get(path).await.ok(200)["items"], json!([]), "round {round}");
        let writers = (0..8).map(|w| async move {
            for i in 0.. {
                let answer = peer.post(path, crd.widget("v1", &format!("w{w}-{i}"), json!({}))).await;
                if answer.status != 201 {
                    assert!(answer.status == 403 || answer.status == 404, "{}", answer.text());
                    return;
                }
            }
        });
        let deleter = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            peer.delete(&crd.path()).await.ok(200);
        };
        tokio::join!(futures_util::future::join_all(writers), deleter);
        eventually("gone", || async { peer.get(&crd.path()).await.status == 404 }).await;
    }
}
