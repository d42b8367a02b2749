//! F-7: two of three members of etcd are gone for a while. Requests are refused in time, and all is well by itself afterwards.
use std::time::{Duration, Instant};

use muster_tests::peer::Settings;
use muster_tests::runner::{Case, is_long};
use muster_tests::{Kind, PATIENCE, Peer, cases};
use serde_json::json;

use crate::MAPS;
use crate::members::Members;

pub fn cases() -> Vec<Case> {
    cases![muster quorum: a_lost_quorum_is_told_in_time_and_heals_by_itself]
}

/// What the server promises, without flags.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

// F-7; at its full length with MUSTER_LONG=1
async fn a_lost_quorum_is_told_in_time_and_heals_by_itself(_: &Peer) {
    let (rounds, outage) = if is_long() { (10, 60) } else { (2, 6) };
    let mut etcd = Members::start(3).await;
    let arguments = vec!["--backend=etcd".to_owned(), format!("--etcd-servers={}", etcd.urls())];
    let peer = Peer::start_with(Kind::Muster, Settings { arguments, ..Settings::default() }).await.unwrap();
    let map = |name: &str| json!({"metadata": {"name": name}});
    let ask = |method: &'static str, path: &str| peer.call(method, path).limit(REQUEST_TIMEOUT);
    peer.post(MAPS, map("known")).await.ok(201);
    let mut watch = peer.watch(&format!("{MAPS}?watch=true")).await;
    watch.expect("ADDED", "known").await;
    let (mut slowest, mut slowest_back) = (Duration::ZERO, Duration::ZERO);
    for round in 0..rounds {
        let lost = [round % 3, (round + 1) % 3];
        lost.iter().for_each(|member| etcd.kill(*member));
        let begun = Instant::now();
        let (mut refused, mut doubtful) = (Vec::new(), Vec::new());
        while begun.elapsed() < Duration::from_secs(outage) {
            let name = format!("r{round}-{}", refused.len() + doubtful.len());
            let asked = Instant::now();
            let one = format!("{MAPS}/known");
            let (get, list, put, cached) = tokio::join!(
                ask("GET", &one).send(),
                ask("GET", MAPS).send(),
                ask("POST", MAPS).body(map(&name)).send(),
                ask("GET", &format!("{one}?resourceVersion=0")).send(),
            );
            slowest = slowest.max(asked.elapsed());
            get.fails(503, "ServiceUnavailable");
            list.fails(503, "ServiceUnavailable");
            // Who asks for what is known gets it.
            cached.ok(200);
            match put.status {
                504 => doubtful.push(name),
                _ => {
                    put.fails(503, "ServiceUnavailable");
                    refused.push(name);
                }
            }
        }
        let health = peer.get("/readyz?verbose").await;
        assert!(health.status == 500 && health.text().contains("[-]storage"), "{}", health.text());
        lost.iter().for_each(|member| etcd.launch(*member));
        etcd.until_serving().await;
        let healed = Instant::now();
        let after = format!("after-{round}");
        loop {
            let answer = ask("POST", MAPS).body(map(&after)).send().await;
            // It is there already when the answer to an earlier try was lost.
            if matches!(answer.status, 201 | 409) {
                break;
            }
            assert!(healed.elapsed() < PATIENCE, "not back: {}", answer.text());
        }
        slowest_back = slowest_back.max(healed.elapsed());
        println!(
            "round {round}: {} writes refused, {} in doubt; writing again {:?} after the quorum",
            refused.len(),
            doubtful.len(),
            healed.elapsed()
        );
        // Nobody was lied to: what was refused did not happen, and the watch tells what did, once each.
        for name in &refused {
            peer.get(&format!("{MAPS}/{name}")).await.fails(404, "NotFound");
        }
        let mut seen = Vec::new();
        while seen.last() != Some(&after) {
            let event = watch.event().await;
            assert_eq!(event["type"], "ADDED");
            seen.push(event["object"]["metadata"]["name"].as_str().unwrap().to_owned());
        }
        for name in &seen {
            assert!(*name == after || doubtful.contains(name), "{name} was refused and came all the same");
            assert_eq!(seen.iter().filter(|other| *other == name).count(), 1, "{name} was told twice");
        }
        while peer.get("/readyz").await.status != 200 {
            assert!(healed.elapsed() < PATIENCE, "not ready again");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    println!("{rounds} × {outage} s: slowest refusal {slowest:?}, slowest return {slowest_back:?}");
    assert_eq!(peer.panic_in_log(), None);
}
