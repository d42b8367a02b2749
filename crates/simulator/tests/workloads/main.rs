//! What a member makes of workloads, in virtual time and through a real client.
#![allow(clippy::unwrap_used, clippy::expect_used)]

extern crate muster_simulator as simulator;

mod converge;
mod doors;
mod failures;
mod fill;
mod network;
mod others;
mod rollout;
mod world;
