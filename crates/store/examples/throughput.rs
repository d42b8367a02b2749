//! Measures the store on a real disk: durable puts per second, memory, reopen time. `throughput [DIR]`
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring tool talks to a terminal")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use store::testing::{key, put};
use store::{Expect, Options, RealFs, Store};

const VALUE: usize = 2048;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

fn open(dir: &Path) -> Store {
    Store::embedded(Arc::new(RealFs), dir, Options::default()).unwrap()
}

/// Puts per second and latencies (p50, p99, max) over some seconds.
async fn puts(store: &Store, writers: usize, seconds: u64) {
    let until = Instant::now() + Duration::from_secs(seconds);
    let done = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for w in 0..writers {
        let (store, done) = (store.clone(), done.clone());
        tasks.push(tokio::spawn(async move {
            let mut took = Vec::new();
            let mut n = 0u64;
            while Instant::now() < until {
                let began = Instant::now();
                let k = key("bench/puts", &format!("w{w}/{}", n % 500));
                store.write(put(&k, Expect::Anything, vec![b'x'; VALUE])).await.unwrap();
                took.push(began.elapsed());
                n += 1;
            }
            done.fetch_add(n, Ordering::Relaxed);
            took
        }));
    }
    let mut took = Vec::new();
    for task in tasks {
        took.extend(task.await.unwrap());
    }
    took.sort_unstable();
    let at = |percent: usize| took[(took.len() - 1) * percent / 100];
    let rate = done.load(Ordering::Relaxed) / seconds;
    println!("{writers:3} writers: {rate} puts/s, p50 {:?}, p99 {:?}, max {:?}", at(50), at(99), at(100));
}

async fn fill(store: &Store, count: usize) {
    let mut tasks = tokio::task::JoinSet::new();
    for w in 0..64 {
        let store = store.clone();
        tasks.spawn(async move {
            for n in (w..count).step_by(64) {
                let k = key("bench/fill", &format!("namespace-{}/object-{n:06}", n % 50));
                store.write(put(&k, Expect::Absent, vec![b'x'; VALUE])).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
}

#[tokio::main]
async fn main() {
    let base = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let base = base.join(format!("store-throughput-{}", std::process::id()));

    let empty = rss();
    let store = open(&base.join("memory"));
    let began = Instant::now();
    fill(&store, 50_000).await;
    println!("50k x 2 KiB: filled in {:?}; RSS {empty} MiB -> {} MiB with their history", began.elapsed(), rss());
    store.compact(store.revision()).await.unwrap();
    println!("             {} MiB after compaction", rss());
    let began = Instant::now();
    let c = key("bench/fill", "").collection;
    let range = store::Range { collection: &c, prefix: "", after: None, limit: 0, at: None };
    let listed = store.range(&range, |_, _| true).unwrap().items.len();
    println!("list of {listed}: {:?}", began.elapsed());
    fill_rest(&store).await;
    store.shutdown().await;
    drop(store);
    let began = Instant::now();
    let store = open(&base.join("memory"));
    println!("reopen of {} objects: {:?}", store.count(&c, ""), began.elapsed());
    store.shutdown().await;
    drop(store);

    let store = open(&base.join("puts"));
    for writers in [1, 64] {
        puts(&store, writers, 5).await;
    }
    store.shutdown().await;
    let memory = Store::memory(Options::default());
    println!("memory engine:");
    for writers in [1, 64] {
        puts(&memory, writers, 3).await;
    }
    std::fs::remove_dir_all(&base).unwrap();
}

async fn fill_rest(store: &Store) {
    let mut tasks = tokio::task::JoinSet::new();
    for w in 0..64 {
        let store = store.clone();
        tasks.spawn(async move {
            for n in (w..50_000).step_by(64) {
                let k = key("bench/fill", &format!("other-{}/object-{n:06}", n % 50));
                store.write(put(&k, Expect::Absent, vec![b'x'; VALUE])).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
}
