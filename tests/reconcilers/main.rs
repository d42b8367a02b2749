//! The example reconcilers as a user runs them: in a manager, on kube-apiserver and on us, with real Redis servers (KC-7).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, unused_crate_dependencies)]

mod ats;
mod migrations;
mod redis;
mod stage;

fn main() {
    let mut cases = ats::cases();
    cases.extend(migrations::cases());
    muster_tests::runner::main(cases);
}
