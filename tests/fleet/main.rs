//! Members and applied sets against real servers: every case on kube-apiserver + etcd and on muster.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, unused_crate_dependencies)]

mod applied;
mod faults;
mod kit;
mod members;
mod proxy;

fn main() {
    let words = std::env::var("RUST_LOG").unwrap_or_else(|_| "off".to_owned());
    tracing_subscriber::fmt().with_env_filter(words).init();
    muster_tests::runner::main([members::cases(), faults::cases(), applied::cases()].concat());
}
