//! The face for browsers on us and on kube-apiserver: logins, sessions, the door, live updates. // SYM-13
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "console/attacks.rs"]
mod attacks;
#[path = "console/live.rs"]
mod live;
#[path = "console/people.rs"]
mod people;
#[path = "console/reads.rs"]
mod reads;

fn main() {
    let all = [people::all(), attacks::all(), live::all(), reads::all()];
    muster_tests::runner::main(all.concat());
}
