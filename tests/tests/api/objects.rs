//! Create, get, update, patch, delete.
use muster_tests::runner::Case;
use muster_tests::{Peer, cases};
use serde_json::json;

pub fn cases() -> Vec<Case> {
    cases![objects: create_and_get]
}

async fn create_and_get(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = format!("/api/v1/namespaces/{ns}/configmaps");
    let made = peer.post(&path, json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).await.ok(201);
    let got = peer.get(&format!("{path}/a")).await.ok(200);
    assert_eq!(made, got);
}
