//! `cargo run -p muster-tests --example peer kubernetes|muster|kwok` starts a peer to try things on, until it is interrupted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]
use muster_tests::{Kind, Peer, kwok};

#[tokio::main]
async fn main() {
    let word = std::env::args().nth(1).unwrap_or_default();
    let show = |peer: &Peer| println!("https://127.0.0.1:{}  kubeconfig {}", peer.port, peer.kubeconfig().display());
    if word == "kwok" {
        let cluster = kwok::Cluster::start("kwok").await.unwrap_or_else(|why| panic!("{why}"));
        show(&cluster.peer);
        return tokio::signal::ctrl_c().await.unwrap();
    }
    let kind = if word == "muster" { Kind::Muster } else { Kind::Kubernetes };
    let peer = Peer::start(kind).await.unwrap_or_else(|why| panic!("{why}"));
    show(&peer);
    tokio::signal::ctrl_c().await.unwrap();
}
