//! The black-box suite: every case runs on kube-apiserver + etcd and on muster, so it states what Kubernetes really does.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "api/discovery.rs"]
mod discovery;
#[path = "api/objects.rs"]
mod objects;

fn main() {
    muster_tests::runner::main([discovery::cases(), objects::cases()].concat());
}
