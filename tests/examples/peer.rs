//! `cargo run -p muster-tests --example peer kubernetes|muster` starts a peer to try things on, until it is interrupted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]
use muster_tests::{Kind, Peer};

#[tokio::main]
async fn main() {
    let kind = if std::env::args().nth(1).as_deref() == Some("muster") { Kind::Muster } else { Kind::Kubernetes };
    let peer = Peer::start(kind).await.unwrap_or_else(|why| panic!("{why}"));
    println!("https://127.0.0.1:{}  kubeconfig {}", peer.port, peer.kubeconfig().display());
    tokio::signal::ctrl_c().await.unwrap();
}
