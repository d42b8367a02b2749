//! Black-box suites and their harness: real servers as child processes, a small client, a runner, comparison of answers.
// The whole crate is a test tool: a failed unwrap is a failed test, and the runner speaks on standard output.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

pub mod client;
pub mod cluster;
pub mod differential;
pub mod mutation;
pub mod normal;
pub mod peer;
pub mod process;
pub mod proto;
pub mod runner;
pub mod wait;

pub use client::{Answer, Call, Watch};
pub use peer::{Kind, Peer};
pub use wait::{PATIENCE, eventually, within};
