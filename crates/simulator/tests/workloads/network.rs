//! The way to a member.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use simulator::Network;
use tokio::time::Instant;

use crate::world::world;

#[tokio::test(start_paused = true)]
async fn a_member_is_slow_silent_or_refuses_as_asked() {
    let world = world().await;
    let nodes: Api<Node> = Api::all(world.client.clone());
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 3);
    world.member.set_network(Network::Slow(Duration::from_secs(2)));
    let begun = Instant::now();
    nodes.list(&ListParams::default()).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(2));
    world.member.set_network(Network::Refused);
    assert!(nodes.list(&ListParams::default()).await.is_err());
    world.member.set_network(Network::BlackHole);
    assert!(tokio::time::timeout(Duration::from_secs(60), nodes.list(&ListParams::default())).await.is_err());
    world.member.set_network(Network::Open);
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 3);
    world.member.stop().await;
}
