//! Garbage collection and the emptying of namespaces. Kubernetes does them in its controller manager, so these run on us alone.
use muster_tests::runner::Case;
use muster_tests::{Peer, cases, eventually};
use serde_json::{Value, json};

use crate::{collection, config_map, names};

pub fn cases() -> Vec<Case> {
    cases![muster garbage: background, foreground_waits_for_blocking_dependents, orphans_are_let_go, absent_owner, one_of_two_owners,
        chains_of_owners, cluster_scoped_owner, namespace_is_emptied, namespace_waits_for_finalizers]
}

async fn gone(peer: &Peer, path: &str) {
    eventually(path, || async { peer.get(path).await.status == 404 }).await;
}

fn owned(name: &str, owners: &[&Value]) -> Value {
    let references: Vec<Value> = owners
        .iter()
        .map(|owner| {
            json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true})
        })
        .collect();
    json!({"metadata": {"name": name, "ownerReferences": references}})
}

async fn background(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let owner = peer.post(&path, config_map("owner", "1")).await.ok(201);
    peer.post(&path, owned("child", &[&owner])).await.ok(201);
    peer.post(&collection("secrets", &ns), owned("child", &[&owner])).await.ok(201);
    peer.post(&path, config_map("bystander", "1")).await.ok(201);
    peer.delete(&format!("{path}/owner")).await.ok(200);
    peer.get(&format!("{path}/owner")).await.fails(404, "NotFound");
    gone(peer, &format!("{path}/child")).await;
    gone(peer, &format!("{}/child", collection("secrets", &ns))).await;
    peer.get(&format!("{path}/bystander")).await.ok(200);
}

async fn foreground_waits_for_blocking_dependents(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let owner = peer.post(&path, config_map("owner", "1")).await.ok(201);
    let mut child = owned("child", &[&owner]);
    child["metadata"]["finalizers"] = json!(["x.example/hold"]);
    peer.post(&path, child).await.ok(201);
    let held = peer.delete(&format!("{path}/owner?propagationPolicy=Foreground")).await.ok(200);
    assert_eq!(held["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    eventually("child is being deleted", || async {
        peer.get(&format!("{path}/child")).await.json()["metadata"]["deletionTimestamp"].is_string()
    })
    .await;
    peer.get(&format!("{path}/owner")).await.ok(200);
    peer.patch(&format!("{path}/child"), "merge", json!({"metadata": {"finalizers": null}})).await.ok(200);
    gone(peer, &format!("{path}/child")).await;
    gone(peer, &format!("{path}/owner")).await;
}

async fn orphans_are_let_go(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let owner = peer.post(&path, config_map("owner", "1")).await.ok(201);
    peer.post(&path, owned("child", &[&owner])).await.ok(201);
    peer.delete_with(&format!("{path}/owner"), json!({"propagationPolicy": "Orphan"})).await.ok(200);
    gone(peer, &format!("{path}/owner")).await;
    let child = peer.get(&format!("{path}/child")).await.ok(200);
    assert!(child["metadata"].get("ownerReferences").is_none(), "{child}");
}

async fn absent_owner(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let ghost = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ghost", "uid": "00000000-0000-0000-0000-000000000001"}});
    peer.post(&path, owned("child", &[&ghost])).await.ok(201);
    gone(peer, &format!("{path}/child")).await;
    // The same name with another uid is another object.
    peer.post(&path, config_map("ghost", "1")).await.ok(201);
    peer.post(&path, owned("child", &[&ghost])).await.ok(201);
    gone(peer, &format!("{path}/child")).await;
}

async fn one_of_two_owners(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let one = peer.post(&path, config_map("one", "1")).await.ok(201);
    let two = peer.post(&path, config_map("two", "1")).await.ok(201);
    peer.post(&path, owned("child", &[&one, &two])).await.ok(201);
    peer.delete(&format!("{path}/one")).await.ok(200);
    eventually("the dangling reference goes", || async {
        peer.get(&format!("{path}/child")).await.json()["metadata"]["ownerReferences"]
            .as_array()
            .is_some_and(|o| o.len() == 1)
    })
    .await;
    peer.delete(&format!("{path}/two")).await.ok(200);
    gone(peer, &format!("{path}/child")).await;
}

async fn chains_of_owners(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let mut owner = peer.post(&path, config_map("n0", "1")).await.ok(201);
    for i in 1..6 {
        owner = peer.post(&path, owned(&format!("n{i}"), &[&owner])).await.ok(201);
    }
    peer.delete(&format!("{path}/n0")).await.ok(200);
    gone(peer, &format!("{path}/n5")).await;
    assert!(names(&peer.get(&path).await.ok(200)).is_empty());
}

async fn cluster_scoped_owner(peer: &Peer) {
    let (ns, owner) = (peer.namespace().await, peer.namespace().await);
    let path = collection("configmaps", &ns);
    let owner_object = peer.get(&format!("/api/v1/namespaces/{owner}")).await.ok(200);
    peer.post(&path, owned("child", &[&owner_object])).await.ok(201);
    peer.delete(&format!("/api/v1/namespaces/{owner}")).await.ok(200);
    gone(peer, &format!("{path}/child")).await;
}

async fn namespace_is_emptied(peer: &Peer) {
    let ns = peer.namespace().await;
    for resource in ["configmaps", "secrets", "serviceaccounts", "leases"] {
        for i in 0..5 {
            peer.post(&collection(resource, &ns), json!({"metadata": {"name": format!("a{i}")}})).await.ok(201);
        }
    }
    let mut watch = peer.watch(&format!("/api/v1/namespaces?watch=true&fieldSelector=metadata.name%3D{ns}")).await;
    watch.expect("ADDED", &ns).await;
    peer.delete(&format!("/api/v1/namespaces/{ns}")).await.ok(200);
    gone(peer, &format!("/api/v1/namespaces/{ns}")).await;
    for resource in ["configmaps", "secrets", "serviceaccounts", "leases"] {
        assert!(names(&peer.get(&collection(resource, &ns)).await.ok(200)).is_empty());
    }
    loop {
        let event = watch.event().await;
        if event["type"] == "DELETED" {
            break;
        }
        assert_eq!(event["object"]["status"]["phase"], "Terminating");
    }
    // The name is free again.
    peer.post("/api/v1/namespaces", json!({"metadata": {"name": ns}})).await.ok(201);
}

async fn namespace_waits_for_finalizers(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    peer.post(&path, json!({"metadata": {"name": "held", "finalizers": ["x.example/hold"]}})).await.ok(201);
    peer.delete(&format!("/api/v1/namespaces/{ns}")).await.ok(200);
    eventually("held object is being deleted", || async {
        peer.get(&format!("{path}/held")).await.json()["metadata"]["deletionTimestamp"].is_string()
    })
    .await;
    assert_eq!(peer.get(&format!("/api/v1/namespaces/{ns}")).await.ok(200)["status"]["phase"], "Terminating");
    peer.patch(&format!("{path}/held"), "merge", json!({"metadata": {"finalizers": null}})).await.ok(200);
    gone(peer, &format!("/api/v1/namespaces/{ns}")).await;
}
