//! Optimistic concurrency: no update is lost, every conflict is said.
use muster_tests::runner::Case;
use muster_tests::{Peer, cases};
use serde_json::{Value, json};

use crate::{collection, config_map, revision};

pub fn cases() -> Vec<Case> {
    let both = cases![concurrency: stale_update_conflicts, one_of_many_creates_wins, counter_loses_no_increment,
        delete_preconditions, revisions_grow_over_collections, read_your_writes];
    // Kubernetes does not know the header.
    let ours = cases![muster concurrency: a_write_under_a_lost_lease_is_refused];
    [both, ours].concat()
}

async fn stale_update_conflicts(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let mut first = peer.post(&path, config_map("a", "1")).await.ok(201);
    let mut second = first.clone();
    first["data"]["value"] = json!("2");
    peer.put(&format!("{path}/a"), &first).await.ok(200);
    second["data"]["value"] = json!("3");
    let status = peer.put(&format!("{path}/a"), &second).await.fails(409, "Conflict");
    assert!(status["message"].as_str().unwrap().contains("the object has been modified"), "{status}");
    assert_eq!(peer.get(&format!("{path}/a")).await.ok(200)["data"]["value"], "2");
}

async fn one_of_many_creates_wins(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let all = (0..16).map(|i| peer.post(&path, config_map("a", &i.to_string())));
    // Built eagerly, awaited together.
    let all: Vec<_> = all.collect();
    let answers = futures_util::future::join_all(all).await;
    assert_eq!(answers.iter().filter(|a| a.status == 201).count(), 1);
    assert_eq!(answers.iter().filter(|a| a.status == 409).count(), 15);
}

async fn counter_loses_no_increment(peer: &Peer) {
    let ns = peer.namespace().await;
    let collection = collection("configmaps", &ns);
    peer.post(&collection, config_map("a", "0")).await.ok(201);
    let path = &format!("{collection}/a");
    let add = || async move {
        for _ in 0..10 {
            loop {
                let mut object = peer.get(path).await.ok(200);
                let value: u32 = object["data"]["value"].as_str().unwrap().parse().unwrap();
                object["data"]["value"] = json!((value + 1).to_string());
                let answer = peer.put(path, &object).await;
                match answer.status {
                    200 => break,
                    409 => continue,
                    _ => panic!("{}", answer.text()),
                }
            }
        }
    };
    futures_util::future::join_all((0..4).map(|_| add())).await;
    assert_eq!(peer.get(path).await.ok(200)["data"]["value"], "40");
}

async fn delete_preconditions(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let made = peer.post(&path, config_map("a", "1")).await.ok(201);
    let put = peer.put(&format!("{path}/a"), config_map("a", "2")).await.ok(200);
    let wrong = [
        json!({"uid": "11111111-1111-1111-1111-111111111111"}),
        json!({"resourceVersion": made["metadata"]["resourceVersion"]}),
        json!({"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}),
    ];
    for preconditions in wrong {
        peer.delete_with(&format!("{path}/a"), json!({"preconditions": preconditions})).await.fails(409, "Conflict");
    }
    let right = json!({"preconditions": {"uid": put["metadata"]["uid"], "resourceVersion": put["metadata"]["resourceVersion"]}});
    peer.delete_with(&format!("{path}/a"), right).await.ok(200);
}

async fn revisions_grow_over_collections(peer: &Peer) {
    let ns = peer.namespace().await;
    let mut last = 0;
    for i in 0..10 {
        for resource in ["configmaps", "secrets", "leases"] {
            let made =
                peer.post(&collection(resource, &ns), json!({"metadata": {"name": format!("a{i}")}})).await.ok(201);
            assert!(revision(&made) > last);
            last = revision(&made);
        }
    }
    let list: Value = peer.get(&collection("configmaps", &ns)).await.ok(200);
    assert!(revision(&list) >= last, "a list is as new as the whole store: {} < {last}", revision(&list));
}

async fn read_your_writes(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = &collection("configmaps", &ns);
    let writer = |i: u32| async move {
        for n in 0..20 {
            let name = format!("w{i}-{n}");
            let made = peer.post(path, config_map(&name, "1")).await.ok(201);
            assert_eq!(revision(&peer.get(&format!("{path}/{name}")).await.ok(200)), revision(&made));
            let list = peer.get(path).await.ok(200);
            assert!(crate::names(&list).contains(&name) && revision(&list) >= revision(&made));
        }
    };
    futures_util::future::join_all((0..4).map(writer)).await;
}

async fn a_write_under_a_lost_lease_is_refused(peer: &Peer) {
    let ns = peer.namespace().await;
    let (leases, maps) = (collection("leases", &ns), collection("configmaps", &ns));
    let lease = |holder: &str, transitions: u32| json!({"metadata": {"name": "hub"}, "spec": {"holderIdentity": holder, "leaseTransitions": transitions}});
    peer.post(&leases, lease("first", 3)).await.ok(201);
    let fence = format!("{ns}/hub/first/3");
    let write = |name: &'static str, fence: String| {
        let maps = &maps;
        async move { peer.call("POST", maps).header("Muster-Fence", &fence).body(config_map(name, "1")).send().await }
    };
    write("a", fence.clone()).await.ok(201);
    write("b", format!("{ns}/hub/first/2")).await.fails(409, "Conflict");
    write("b", format!("{ns}/none/first/3")).await.fails(409, "Conflict");
    write("b", "nonsense".to_owned()).await.fails(400, "BadRequest");

    let taken = json!({"spec": {"holderIdentity": "second", "leaseTransitions": 4}});
    peer.patch(&format!("{leases}/hub"), "merge", taken).await.ok(200);
    let refused = write("b", fence.clone()).await.fails(409, "Conflict");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains(&format!("the lease {ns}/hub")) && !message.contains("second"), "{message}");
    let all = [("PUT", config_map("a", "2")), ("PATCH", json!({"data": {"value": "2"}})), ("DELETE", json!({}))];
    for (method, body) in all {
        let call = peer.call(method, &format!("{maps}/a")).header("Muster-Fence", &fence).body(body);
        let call = if method == "PATCH" { call.media("application/merge-patch+json") } else { call };
        call.send().await.fails(409, "Conflict");
    }
    // Reading is free, and so is whoever makes no claim.
    peer.call("GET", &format!("{maps}/a")).header("Muster-Fence", &fence).send().await.ok(200);
    peer.post(&maps, config_map("b", "1")).await.ok(201);
    write("c", format!("{ns}/hub/second/4")).await.ok(201);
}
