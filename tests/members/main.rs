//! The REST over members, with us and with kube-apiserver as the meta API: simulated members, real ones, silent and hostile ones.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod account;
mod apps;
mod attacks;
mod faults;
mod imported;
mod inside;
mod rights;
mod stage;

fn main() {
    let all =
        [account::all(), apps::all(), inside::all(), rights::all(), attacks::all(), imported::all(), faults::all()];
    muster_tests::runner::main(all.concat());
}
