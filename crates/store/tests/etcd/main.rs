//! The etcd engine against real etcd members, with kills, cuts and compactions.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a broken expectation is the test's failure")]

mod doubt;
mod faults;
mod peer;
mod proxy;
mod secure;
mod sharing;

use std::sync::Arc;
use std::time::Duration;

use store::etcd::Config;
use store::testing::{put, suite};
use store::{Collection, Event, Expect, Key, Options, Store, Watch};

use peer::Cluster;

/// Only a failure takes so long.
const SOON: Duration = Duration::from_secs(60);

fn config(endpoints: Vec<String>) -> Config {
    Config { compact_every: None, ..Config::new(endpoints) }
}

/// etcd may still be starting.
async fn open(config: Config, options: Options) -> Store {
    let end = std::time::Instant::now() + SOON;
    loop {
        match Store::etcd(config.clone(), options.clone()).await {
            Ok(store) => return store,
            Err(error) if std::time::Instant::now() < end => eprintln!("not yet: {error}"),
            Err(error) => panic!("{error}"),
        }
    }
}

async fn write(store: &Store, key: &Key, value: &str) -> u64 {
    store.write(put(key, Expect::Anything, value.to_owned())).await.unwrap().revision
}

async fn take(watch: &mut Watch, count: usize) -> Vec<Arc<Event>> {
    let mut events = Vec::new();
    while events.len() < count {
        tokio::time::timeout(SOON, watch.next(1000, &mut events)).await.expect("events in time").unwrap();
    }
    events
}

fn text(event: &Event) -> String {
    let value = event.entry.as_ref().map(|e| String::from_utf8_lossy(&e.value).into_owned());
    format!("{}={}", event.key.item, value.as_deref().unwrap_or("-"))
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + SOON;
    while !holds() {
        assert!(std::time::Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn items(store: &Store, collection: &Collection) -> Vec<String> {
    let range = store::Range { collection, prefix: "", after: None, limit: 0, at: None };
    let page = store.range(&range, |_, _| true).unwrap();
    page.items.iter().map(|(i, e)| format!("{i}={}", String::from_utf8_lossy(&e.value))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_etcd_engine_passes_the_suite() {
    let Some(etcd) = Cluster::start(1) else { return };
    let store = open(config(etcd.urls()), Options::default()).await;
    suite::all(&store).await;

    // What it left is what another finds.
    let other = open(config(etcd.urls()), Options::default()).await;
    for collection in store.collections() {
        assert_eq!(items(&other, &collection), items(&store, &collection));
    }
    store.shutdown().await;
    let k = store::testing::key("suite/closed", "a");
    assert!(matches!(store.write(put(&k, Expect::Anything, "x")).await, Err(store::Error::Closed)));
}

/// Prints writes per second; `MUSTER_ETCD_FSYNC=1 cargo test -p muster-store --release --test etcd -- --ignored --nocapture`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn speed() {
    let Some(etcd) = Cluster::start(1) else { return };
    let store = open(config(etcd.urls()), Options::default()).await;
    let value = "x".repeat(1024);
    for writers in [1, 64] {
        let time = Duration::from_secs(5);
        let mut tasks = Vec::new();
        for w in 0..writers {
            let (store, value) = (store.clone(), value.clone());
            tasks.push(tokio::spawn(async move {
                let began = std::time::Instant::now();
                let mut took = Vec::new();
                while began.elapsed() < time {
                    let k = store::testing::key("bench/things", &format!("w{w}/{}", took.len() % 100));
                    let one = std::time::Instant::now();
                    write(&store, &k, &value).await;
                    took.push(one.elapsed());
                }
                took
            }));
        }
        let mut took = Vec::new();
        for task in tasks {
            took.extend(task.await.unwrap());
        }
        took.sort();
        println!(
            "{writers} writers: {:.0} writes/s, p50 {:?}, p99 {:?}",
            took.len() as f64 / time.as_secs_f64(),
            took[took.len() / 2],
            took[took.len() * 99 / 100]
        );
    }
    let one = std::time::Instant::now();
    for _ in 0..1000 {
        store.sync().await.unwrap();
    }
    println!("sync: {:?} each", one.elapsed() / 1000);
}
