//! A thousand members in one process: they live, and cost little while nothing happens on them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

extern crate muster_simulator as simulator;

use http::Request;
use kube::Client;
use simulator::{Member, Settings};

const COUNT: usize = 1_000;
/// Several times of what it is, in a debug build: memory that grows with every member's idle hours would be more.
const MOST_EACH: u64 = 2_048;

/// What the process holds in memory, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn nodes(member: &Member) -> usize {
    let client = Client::new(member.service(), "default");
    let request = Request::get("/api/v1/nodes").body(Vec::new()).unwrap();
    let list: serde_json::Value = client.request(request).await.unwrap();
    list["items"].as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_idle_members_live_in_one_process() {
    // The first brings what all share.
    let first = Member::start(Settings::new("member-0")).await.unwrap();
    assert_eq!(nodes(&first).await, 3);
    let before = resident();
    let mut members = Vec::with_capacity(COUNT);
    for i in 1..=COUNT {
        members.push(Member::start(Settings::new(format!("member-{i}"))).await.unwrap());
    }
    for member in &members {
        assert_eq!(nodes(member).await, 3, "{}", member.name());
    }
    let each = resident().saturating_sub(before) / COUNT as u64;
    println!("{COUNT} idle members: {each} KiB each");
    assert!(each <= MOST_EACH, "{each} KiB each");
    for member in &members {
        member.stop().await;
    }
    first.stop().await;
}
