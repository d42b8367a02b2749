//! A real process on a real disk, killed at random instants under load: F-1 (the disk's own losses are in crash.rs).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a broken expectation is the test's failure"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use store::testing::{Dice, key, put};
use store::{Collection, Expect, History, Options, RealFs, Revision, Store};

const DIR: &str = "STORE_KILL_DIR";

fn open(dir: &Path) -> Store {
    let history = History { max_events: 400, min_events: 100, ..History::default() };
    let options =
        Options { segment_bytes: 30_000, tick: Some(Duration::from_millis(5)), history, ..Options::default() };
    Store::embedded(Arc::new(RealFs), dir, options).expect("opens by itself")
}

/// Not a test of its own: the process that gets killed. Tells each acknowledged write on stdout.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the victim of the test below"]
async fn victim() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    let store = open(&dir);
    let round = store.revision();
    let mut writers = Vec::new();
    for w in 0..8 {
        let store = store.clone();
        writers.push(tokio::spawn(async move {
            for n in 0u64.. {
                let item = format!("w{w}/{}", n % 7);
                let value = format!("{round}-{w}-{n}-{}", "v".repeat((n % 5 * 300) as usize));
                let k = key("c", &item);
                let written = store.write(put(&k, Expect::Anything, value.clone())).await.unwrap();
                let line = format!("\nack {} {item} {value}\n", written.revision);
                std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_random_instants_nothing_acknowledged_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let mut dice = Dice(std::process::id().into());
    let mut acknowledged: BTreeMap<Revision, (String, String)> = BTreeMap::new();
    let mut total = 0;
    for round in 0..12 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "victim", "--ignored", "--nocapture", "--test-threads=1"])
            .env(DIR, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = child.stdout.take().unwrap();
        let (first, at_work) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            // The last line may be cut by the kill: only lines with their end count.
            let mut told = Vec::new();
            let mut out = BufReader::new(out);
            let mut line = String::new();
            while out.read_line(&mut line).is_ok_and(|n| n > 0) {
                let words: Vec<_> = line.trim_end().split(' ').collect();
                if let (["ack", revision, item, value], true) = (&words[..], line.ends_with('\n')) {
                    let _ = first.send(());
                    told.push((revision.parse().unwrap(), (item.to_string(), value.to_string())));
                }
                line.clear();
            }
            told
        });
        at_work.recv_timeout(Duration::from_secs(60)).expect("a first write");
        std::thread::sleep(Duration::from_millis(dice.below(150)));
        child.kill().unwrap();
        child.wait().unwrap();
        for (revision, told) in reader.join().unwrap() {
            total += 1;
            assert!(acknowledged.insert(revision, told).is_none(), "revision {revision} was given twice");
        }

        let store = open(dir.path());
        let last = acknowledged.keys().next_back().copied().unwrap_or(1);
        assert!(store.revision() >= last, "round {round}: {} < {last}", store.revision());
        let c = Collection::new("c");
        let mut watch = store.watch(&c, "", store.oldest()).unwrap();
        let mut events = Vec::new();
        while watch.revision() < store.revision() {
            watch.next(1000, &mut events).await.unwrap();
        }
        let revisions: Vec<_> = events.iter().map(|e| e.revision).collect();
        assert_eq!(revisions, (store.oldest() + 1..=store.revision()).collect::<Vec<_>>(), "no gap, nothing twice");
        for event in &events {
            if let Some((item, value)) = acknowledged.get(&event.revision) {
                assert_eq!(
                    (&*event.key.item, &event.entry.as_ref().unwrap().value[..]),
                    (item.as_str(), value.as_bytes())
                );
            }
        }
        let mut newest = BTreeMap::new();
        for (revision, (item, value)) in &acknowledged {
            newest.insert(item, (*revision, value));
        }
        for (item, (revision, value)) in newest {
            let now = store.get(&key("c", item)).expect("an acknowledged item");
            assert!(now.revision >= revision, "round {round}: {item} went back");
            assert!(now.revision > revision || now.value == value.as_bytes());
        }
        store.shutdown().await;
    }
    println!("{total} acknowledged writes over 12 kills");
}
