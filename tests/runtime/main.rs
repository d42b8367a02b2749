//! The controller framework against real servers: every case on kube-apiserver + etcd and on muster.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, unused_crate_dependencies)]

mod election;
mod faults;
mod kit;
mod proxy;
mod running;

fn main() {
    kit::keep_the_log();
    muster_tests::runner::main([running::cases(), faults::cases(), election::cases()].concat());
}
