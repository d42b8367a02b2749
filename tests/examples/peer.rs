//! `cargo run -p muster-tests --example peer kubernetes|muster|kwok|node` starts a peer to try things on, until it is interrupted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]
use muster_tests::{Kind, Peer, cluster::Cluster, cluster::Nodes};

#[tokio::main]
async fn main() {
    let word = std::env::args().nth(1).unwrap_or_default();
    let show = |peer: &Peer| println!("https://127.0.0.1:{}  kubeconfig {}", peer.port, peer.kubeconfig().display());
    let nodes = match word.as_str() {
        "kwok" => Some(Nodes::Fake),
        "node" => Some(Nodes::Real),
        _ => None,
    };
    if let Some(nodes) = nodes {
        let cluster = Cluster::start(&word, nodes).await.unwrap_or_else(|why| panic!("{why}"));
        show(&cluster.peer);
        return tokio::signal::ctrl_c().await.unwrap();
    }
    let kind = if word == "muster" { Kind::Muster } else { Kind::Kubernetes };
    let peer = Peer::start(kind).await.unwrap_or_else(|why| panic!("{why}"));
    show(&peer);
    tokio::signal::ctrl_c().await.unwrap();
}
