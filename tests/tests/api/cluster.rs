//! What makes up a cluster: pods and their end, nodes, services and their addresses, volumes.
use std::collections::HashSet;

use futures_util::future::join_all;
use muster_tests::runner::Case;
use muster_tests::{Peer, cases, eventually};
use serde_json::{Value, json};

use crate::collection;

pub fn cases() -> Vec<Case> {
    cases![cluster: a_new_pod_is_pending_and_has_a_class, a_pod_that_runs_nowhere_is_gone_at_once, a_running_pod_is_given_time,
        a_pod_is_bound_once, who_watches_sees_a_pod_end, pods_are_found_by_their_node, a_pods_spec_stays, a_pods_status_is_its_own,
        eviction_is_a_deletion, services_get_addresses_of_their_own, node_ports_are_given_once, a_service_keeps_its_address,
        an_address_can_be_used_again, the_api_has_a_service, nodes_start_out_not_ready, claims_are_protected, controllers_scale,
        logs_of_a_pod_that_never_ran]
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "x"}]}})
}

fn service(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    spec["ports"] = json!([{"port": 80}]);
    json!({"metadata": {"name": name}, "spec": spec})
}

async fn running(peer: &Peer, ns: &str, name: &str) -> String {
    let path = collection("pods", ns);
    peer.post(&path, pod(name)).await.ok(201);
    let binding = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}});
    peer.post(&format!("{path}/{name}/binding"), binding).await.ok(201);
    format!("{path}/{name}")
}

async fn a_new_pod_is_pending_and_has_a_class(peer: &Peer) {
    let ns = peer.namespace().await;
    let mut body = pod("a");
    body["status"] = json!({"phase": "Running", "podIP": "10.0.0.1"});
    let made = peer.post(&collection("pods", &ns), body).await.ok(201);
    assert_eq!(made["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["spec"]["priority"], 0);
    assert_eq!(made["spec"]["tolerations"].as_array().map(Vec::len), Some(2));
}

async fn a_pod_that_runs_nowhere_is_gone_at_once(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("pods", &ns);
    peer.post(&path, pod("a")).await.ok(201);
    let gone = peer.delete(&format!("{path}/a")).await.ok(200);
    assert_eq!(gone["metadata"]["deletionGracePeriodSeconds"], 0, "{gone}");
    peer.get(&format!("{path}/a")).await.fails(404, "NotFound");
    // One that has ended is not waited for either.
    let path = running(peer, &ns, "b").await;
    peer.patch(&format!("{path}/status"), "merge", json!({"status": {"phase": "Succeeded"}})).await.ok(200);
    peer.delete(&path).await.ok(200);
    peer.get(&path).await.fails(404, "NotFound");
}

async fn a_running_pod_is_given_time(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = running(peer, &ns, "a").await;
    let marked = peer.delete(&path).await.ok(200);
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(marked["metadata"]["generation"], 2);
    let again = peer.delete(&path).await.ok(200);
    assert_eq!(again["metadata"]["resourceVersion"], marked["metadata"]["resourceVersion"]);
    let longer = peer.delete(&format!("{path}?gracePeriodSeconds=300")).await.ok(200);
    assert_eq!(longer["metadata"]["deletionTimestamp"], marked["metadata"]["deletionTimestamp"]);
    let shorter = peer.delete(&format!("{path}?gracePeriodSeconds=3")).await.ok(200);
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 3);
    assert!(shorter["metadata"]["deletionTimestamp"].as_str() < marked["metadata"]["deletionTimestamp"].as_str());
    // An update does not end it: whoever runs it does.
    peer.patch(&path, "merge", json!({"metadata": {"labels": {"still": "here"}}})).await.ok(200);
    peer.get(&path).await.ok(200);
    peer.delete_with(&path, json!({"gracePeriodSeconds": 0})).await.ok(200);
    peer.get(&path).await.fails(404, "NotFound");
}

async fn a_pod_is_bound_once(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = running(peer, &ns, "a").await;
    let bound = peer.get(&path).await.ok(200);
    assert_eq!(bound["spec"]["nodeName"], "n1");
    assert_eq!(bound["status"]["conditions"][0]["type"], "PodScheduled");
    let other = json!({"metadata": {"name": "a"}, "target": {"name": "n2"}});
    let status = peer.post(&format!("{path}/binding"), &other).await.fails(409, "Conflict");
    let words = status["message"].as_str().unwrap_or_default();
    assert!(words.ends_with("pod a is already assigned to node \"n1\""), "{words}");
    let status = peer.post(&collection("bindings", &ns), &other).await.fails(409, "Conflict");
    assert_eq!(status["details"], json!({"name": "a", "kind": "pods/binding"}));
}

async fn who_watches_sees_a_pod_end(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("pods", &ns);
    let mut watch = peer.watch(&format!("{path}?watch=true")).await;
    peer.post(&path, pod("a")).await.ok(201);
    watch.expect("ADDED", "a").await;
    peer.delete(&format!("{path}/a")).await.ok(200);
    let marked = watch.expect("MODIFIED", "a").await;
    assert!(marked["metadata"]["deletionTimestamp"].is_string(), "{marked}");
    let gone = watch.expect("DELETED", "a").await;
    assert!(gone["metadata"]["deletionTimestamp"].is_string(), "{gone}");
}

async fn pods_are_found_by_their_node(peer: &Peer) {
    let ns = peer.namespace().await;
    running(peer, &ns, "a").await;
    peer.post(&collection("pods", &ns), pod("b")).await.ok(201);
    let found = |selector: &str| format!("{}?fieldSelector={selector}", collection("pods", &ns));
    for (selector, name) in [
        ("spec.nodeName%3Dn1", "a"),
        ("spec.nodeName%3D", "b"),
        ("spec.nodeName!%3Dn1,status.phase%3DPending,spec.hostNetwork%3Dfalse", "b"),
    ] {
        let list = peer.get(&found(selector)).await.ok(200);
        assert_eq!(crate::names(&list), [name], "{selector}");
    }
}

async fn a_pods_spec_stays(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = format!("{}/a", collection("pods", &ns));
    peer.post(&collection("pods", &ns), pod("a")).await.ok(201);
    let image = json!({"spec": {"containers": [{"name": "c", "image": "x:2"}]}});
    let changed = peer.patch(&path, "strategic", image).await.ok(200);
    assert_eq!(changed["metadata"]["generation"], 2);
    for patch in [
        json!({"spec": {"nodeName": "n"}}),
        json!({"spec": {"hostNetwork": true}}),
        json!({"spec": {"containers": [{"name": "c", "image": "x", "command": ["y"]}]}}),
    ] {
        let status = peer.patch(&path, "strategic", patch).await.invalid(&["spec"]);
        let words = status["message"].as_str().unwrap_or_default();
        assert!(words.contains("pod updates may not change fields other than `spec.containers[*].image`"), "{words}");
    }
}

async fn a_pods_status_is_its_own(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = format!("{}/a", collection("pods", &ns));
    peer.post(&collection("pods", &ns), pod("a")).await.ok(201);
    let both = json!({"spec": {"activeDeadlineSeconds": 5}, "status": {"phase": "Running", "podIP": "10.0.0.9"}});
    let main = peer.patch(&path, "merge", &both).await.ok(200);
    assert_eq!(main["status"]["phase"], "Pending");
    assert_eq!(main["spec"]["activeDeadlineSeconds"], 5);
    let both = json!({"spec": {"activeDeadlineSeconds": 3}, "status": both["status"]});
    let status = peer.patch(&format!("{path}/status"), "merge", both).await.ok(200);
    assert_eq!(status["spec"]["activeDeadlineSeconds"], 5);
    assert_eq!(status["status"]["podIPs"], json!([{"ip": "10.0.0.9"}]));
    assert_eq!(status["status"]["qosClass"], "BestEffort");
    assert_eq!(status["metadata"]["generation"], 2);
}

async fn eviction_is_a_deletion(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = running(peer, &ns, "a").await;
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}});
    peer.post(&format!("{path}/eviction?dryRun=All"), &eviction).await.ok(201);
    assert!(peer.get(&path).await.ok(200)["metadata"]["deletionTimestamp"].is_null());
    let done = peer.post(&format!("{path}/eviction"), &eviction).await.ok(201);
    assert_eq!(done["status"], "Success");
    let marked = peer.get(&path).await.ok(200);
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    let conditions = marked["status"]["conditions"].as_array().cloned().unwrap_or_default();
    assert!(conditions.iter().any(|c| c["type"] == "DisruptionTarget" && c["status"] == "True"), "{marked}");
}

async fn services_get_addresses_of_their_own(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("services", &ns);
    let bodies: Vec<Value> = (0..16).map(|i| service(&format!("s{i}"), json!({}))).collect();
    let made = join_all(bodies.iter().map(|body| peer.post(&path, body))).await;
    let mut seen = HashSet::new();
    for answer in made {
        let object = answer.ok(201);
        let ip = object["spec"]["clusterIP"].as_str().unwrap_or_default().to_owned();
        assert!(ip.starts_with("10.96."), "{ip}");
        assert_eq!(object["spec"]["clusterIPs"], json!([ip]));
        assert!(seen.insert(ip), "given twice: {object}");
    }
    let headless = peer.post(&path, service("headless", json!({"clusterIP": "None"}))).await.ok(201);
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
    let taken = seen.iter().next().cloned().unwrap_or_default();
    peer.post(&path, service("taken", json!({"clusterIP": taken}))).await.invalid(&["spec.clusterIPs"]);
    peer.post(&path, service("outside", json!({"clusterIP": "192.0.2.1"}))).await.invalid(&["spec.clusterIPs"]);
}

async fn node_ports_are_given_once(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("services", &ns);
    let bodies: Vec<Value> = (0..8).map(|i| service(&format!("s{i}"), json!({"type": "NodePort"}))).collect();
    let made = join_all(bodies.iter().map(|body| peer.post(&path, body))).await;
    let mut seen = HashSet::new();
    for answer in made {
        let object = answer.ok(201);
        let port = object["spec"]["ports"][0]["nodePort"].as_i64().unwrap_or_default();
        assert!((30000..=32767).contains(&port) && seen.insert(port), "{object}");
    }
    let port = seen.iter().next().copied().unwrap_or_default();
    let taken =
        json!({"metadata": {"name": "t"}, "spec": {"type": "NodePort", "ports": [{"port": 1, "nodePort": port}]}});
    peer.post(&path, taken).await.invalid(&["spec.ports[0].nodePort"]);
    let low = json!({"metadata": {"name": "t"}, "spec": {"type": "NodePort", "ports": [{"port": 1, "nodePort": 80}]}});
    peer.post(&path, low).await.invalid(&["spec.ports[0].nodePort"]);
}

async fn a_service_keeps_its_address(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = format!("{}/a", collection("services", &ns));
    let made = peer.post(&collection("services", &ns), service("a", json!({"type": "NodePort"}))).await.ok(201);
    // A body that does not know what was allocated leaves it alone.
    let put = peer.put(&path, service("a", json!({"type": "NodePort", "selector": {"a": "b"}}))).await.ok(200);
    assert_eq!(put["spec"]["clusterIP"], made["spec"]["clusterIP"]);
    assert_eq!(put["spec"]["ports"], made["spec"]["ports"]);
    peer.patch(&path, "merge", json!({"spec": {"clusterIP": "10.96.200.200"}})).await.invalid(&["spec.clusterIPs[0]"]);
    let inner = peer.patch(&path, "merge", json!({"spec": {"type": "ClusterIP"}})).await.ok(200);
    assert_eq!(inner["spec"]["clusterIP"], made["spec"]["clusterIP"]);
    assert!(inner["spec"]["ports"][0]["nodePort"].is_null(), "{inner}");
    let name = peer
        .patch(&path, "merge", json!({"spec": {"type": "ExternalName", "externalName": "a.example"}}))
        .await
        .ok(200);
    assert!(name["spec"]["clusterIP"].is_null() && name["spec"]["clusterIPs"].is_null(), "{name}");
    let back = peer.patch(&path, "merge", json!({"spec": {"type": "ClusterIP", "externalName": null}})).await.ok(200);
    assert!(back["spec"]["clusterIP"].as_str().is_some_and(|ip| ip.starts_with("10.96.")), "{back}");
}

async fn an_address_can_be_used_again(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("services", &ns);
    let made = peer.post(&path, service("a", json!({}))).await.ok(201);
    peer.delete(&format!("{path}/a")).await.ok(200);
    let again = peer.post(&path, service("b", json!({"clusterIP": made["spec"]["clusterIP"]}))).await.ok(201);
    assert_eq!(again["spec"]["clusterIP"], made["spec"]["clusterIP"]);
}

async fn the_api_has_a_service(peer: &Peer) {
    let path = "/api/v1/namespaces/default/services/kubernetes";
    // Kubernetes makes it some time after it is ready.
    eventually("it is there", || async { peer.get(path).await.status == 200 }).await;
    let found = peer.get(path).await.ok(200);
    assert_eq!(found["spec"]["clusterIP"], "10.96.0.1");
    assert_eq!(found["spec"]["ports"][0]["port"], 443);
    assert_eq!(found["metadata"]["labels"], json!({"component": "apiserver", "provider": "kubernetes"}));
}

async fn nodes_start_out_not_ready(peer: &Peer) {
    let name = format!("node-{}", peer.namespace().await);
    let made = peer.post("/api/v1/nodes", json!({"metadata": {"name": name}})).await.ok(201);
    assert_eq!(made["spec"]["taints"], json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]));
    let path = format!("/api/v1/nodes/{name}");
    let cordoned = peer.patch(&path, "merge", json!({"spec": {"unschedulable": true}})).await.ok(200);
    assert_eq!(cordoned["spec"]["unschedulable"], true);
    let status = json!({"status": {"capacity": {"cpu": "4"}}});
    assert!(peer.patch(&path, "merge", &status).await.ok(200)["status"]["capacity"].is_null());
    let filled = peer.patch(&format!("{path}/status"), "merge", status).await.ok(200);
    assert_eq!(filled["status"]["allocatable"]["cpu"], "4");
    peer.patch(&path, "merge", json!({"spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}})).await.ok(200);
    let other = json!({"spec": {"podCIDR": "10.2.0.0/24", "podCIDRs": ["10.2.0.0/24"]}});
    peer.patch(&path, "merge", other).await.invalid(&["spec.podCIDRs"]);
    peer.delete(&path).await.ok(200);
    peer.get(&path).await.fails(404, "NotFound");
}

async fn claims_are_protected(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("persistentvolumeclaims", &ns);
    let body = json!({"metadata": {"name": "a"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let made = peer.post(&path, body).await.ok(201);
    assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    assert_eq!(made["status"], json!({"phase": "Pending"}));
    let held = peer.delete(&format!("{path}/a")).await.ok(200);
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    peer.patch(&format!("{path}/a"), "merge", json!({"metadata": {"finalizers": null}})).await.ok(200);
    peer.get(&format!("{path}/a")).await.fails(404, "NotFound");
}

async fn controllers_scale(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("replicationcontrollers", &ns);
    let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": pod("x")["spec"]});
    let made = peer.post(&path, json!({"metadata": {"name": "a"}, "spec": {"template": template}})).await.ok(201);
    assert_eq!(made["spec"]["replicas"], 1);
    assert_eq!(made["spec"]["selector"], json!({"app": "x"}));
    let scale = peer.get(&format!("{path}/a/scale")).await.ok(200);
    assert_eq!(scale["spec"]["replicas"], 1);
    assert_eq!(scale["status"], json!({"replicas": 0, "selector": "app=x"}));
    peer.patch(&format!("{path}/a/scale"), "merge", json!({"spec": {"replicas": 4}})).await.ok(200);
    let scaled = peer.get(&format!("{path}/a")).await.ok(200);
    assert_eq!(scaled["spec"]["replicas"], 4);
    assert_eq!(scaled["metadata"]["generation"], 2);
}

async fn logs_of_a_pod_that_never_ran(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("pods", &ns);
    peer.post(&path, pod("a")).await.ok(201);
    assert_eq!(peer.get(&format!("{path}/a/log")).await.status, 204);
    peer.get(&format!("{path}/missing/log")).await.fails(404, "NotFound");
    peer.get(&format!("{path}/a/log?container=nope")).await.fails(400, "BadRequest");
    peer.post(&format!("{path}/a/exec?command=ls&stdout=true"), "").await.fails(400, "BadRequest");
}
