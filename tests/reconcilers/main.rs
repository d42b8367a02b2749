//! The example reconcilers as a user runs them: in a manager, on kube-apiserver and on us, with real Redis servers (KC-7).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, unused_crate_dependencies)]

mod ats;
mod migrations;
mod phases;
mod redis;
mod stage;

fn main() {
    // RUST_LOG=muster_runtime=debug shows what the managers do.
    let _ = tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).try_init();
    let mut cases = ats::cases();
    cases.extend(migrations::cases());
    cases.extend(phases::cases());
    muster_tests::runner::main(cases);
}
