//! Discovery, version, health, OpenAPI.
use muster_tests::runner::Case;
use muster_tests::{Peer, cases};

pub fn cases() -> Vec<Case> {
    cases![discovery: version]
}

async fn version(peer: &Peer) {
    let version = peer.get("/version").await.ok(200);
    assert_eq!(version["major"], "1");
}
