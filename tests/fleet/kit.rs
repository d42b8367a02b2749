//! What the cases share: kubeconfigs of a peer, a fleet with quick probes, waiting.
use std::time::Duration;

use base64::{Engine, prelude::BASE64_STANDARD};
use fleet::{Allow, Care, Connection, Credentials, Fleet, Limits, Member, Pace, Rules, State};
use kube::Client;
use kube::core::DynamicObject;
use muster_tests::peer::TOKEN;
use muster_tests::{PATIENCE, Peer, eventually};
use serde_json::Value;

/// Probes in milliseconds instead of seconds.
pub fn care() -> Care {
    let millis = Duration::from_millis;
    Care {
        // Long enough for a busy machine: a member is lost here because a test cut it off, never because it was slow.
        limits: Limits { deadline: millis(10_000), ..Limits::default() },
        rules: Rules { failures: 3, failing_for: millis(500), answers: 2 },
        pace: Pace { steady: millis(300), doubt: millis(100), deadline: millis(4000) },
    }
}

pub fn authority(peer: &Peer) -> String {
    std::fs::read_to_string(peer.ca_file()).unwrap()
}

/// A kubeconfig without files, to a port that leads to the peer.
pub fn kubeconfig(peer: &Peer, port: u16) -> String {
    let ca = BASE64_STANDARD.encode(authority(peer));
    format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: \"https://127.0.0.1:{port}\", \
         certificate-authority-data: {ca}}}}}]\nusers: [{{name: u, user: {{token: {TOKEN}}}}}]\n\
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
    )
}

pub fn credentials(peer: &Peer, port: u16) -> Credentials {
    Credentials::from_kubeconfig(&kubeconfig(peer, port), None, Allow::default()).unwrap()
}

pub fn connection(peer: &Peer, port: u16) -> Connection {
    Connection::Credentials(Box::new(credentials(peer, port)))
}

pub fn client(peer: &Peer) -> Client {
    credentials(peer, peer.port).connect().unwrap()
}

pub fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

pub async fn until(member: &Member, state: State) {
    let mut watch = member.watch();
    let waited = tokio::time::timeout(PATIENCE, watch.wait_for(|status| status.state == state)).await;
    assert!(waited.is_ok(), "{} did not become {state}: {:?}", member.name(), member.status());
}

pub async fn running(fleet: &Fleet, name: &str) -> std::sync::Arc<Member> {
    eventually("the member is known", || async { fleet.member(name).is_some() }).await;
    let member = fleet.member(name).unwrap();
    until(&member, State::Running).await;
    member
}
