//! What a member costs: starts many, then fills them, and prints the memory each took.
//!
//!     cargo run --release -p muster-simulator --example idle -- 200 500 [HISTORY]
#![allow(clippy::print_stdout, clippy::expect_used)]

use std::time::{Duration, Instant};

use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use muster_simulator::{Member, NodePool, Settings};
use serde_json::json;

#[global_allocator]
static ALLOCATOR: heap::Heap = heap::Heap;

/// Resident memory of this process, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse().unwrap_or_default()
}

#[tokio::main]
async fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|arg| arg.parse::<usize>().ok());
    let (count, pods) = (numbers.next().unwrap_or(50), numbers.next().unwrap_or(0));
    let history = numbers.next().map_or(256, |n| n as u64);
    // The first one makes what all share.
    let mut members = vec![Member::start(Settings::new("member-0")).await.expect("a member starts")];
    let (before, begun) = (resident(), Instant::now());
    for i in 1..=count {
        let mut settings = Settings::new(format!("member-{i}"));
        settings.nodes = vec![NodePool { count: 3, ..NodePool::default() }];
        settings.events = settings.events.filter(|_| pods == 0);
        settings.history = history;
        members.push(Member::start(settings).await.expect("a member starts"));
    }
    let each = resident().saturating_sub(before) / count as u64;
    println!("{count} members in {:.1} s, {each} KiB each", begun.elapsed().as_secs_f64());
    if pods == 0 {
        return;
    }
    let (before, begun) = (resident(), Instant::now());
    for member in &members[1..] {
        let all: Api<k8s_openapi::api::apps::v1::Deployment> =
            Api::namespaced(Client::new(member.service(), "default"), "default");
        let deployment = json!({"metadata": {"name": "shop"}, "spec": {"replicas": pods, "selector": {"matchLabels": {"app": "shop"}},
            "template": {"metadata": {"labels": {"app": "shop"}}, "spec": {"containers": [{"name": "web", "image": "shop:1"}]}}}});
        let deployment = serde_json::from_value(deployment).expect("a deployment");
        all.create(&PostParams::default(), &deployment).await.expect("it is taken");
    }
    for member in &members[1..] {
        let all: Api<k8s_openapi::api::apps::v1::Deployment> =
            Api::namespaced(Client::new(member.service(), "default"), "default");
        loop {
            let found = all.list(&ListParams::default()).await.expect("a list");
            let ready = found.items.iter().filter_map(|d| d.status.as_ref()?.ready_replicas).sum::<i32>();
            if usize::try_from(ready).unwrap_or_default() >= pods {
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    let total = (count * pods) as u64;
    let each = resident().saturating_sub(before) * 1024 / total;
    println!("{total} pods ready in {:.1} s, {each} bytes each", begun.elapsed().as_secs_f64());
}
