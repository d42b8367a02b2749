//! The machine stops at every single disk operation of a scripted life, and what the next start finds is checked: F-1, F-2.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a broken expectation is the test's failure"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use store::testing::simfs::SimFs;
use store::testing::{Dice, StillClock, at, delete, key, put};
use store::{Change, Collection, Error, Expect, History, Key, KeyRing, Options, Range, Revision, Store, Write};

const DIR: &str = "/data";
const SEEDS: u64 = 4;

type Told = (Key, Option<Vec<u8>>);

/// What the outside knows: each acknowledged write, and those of unknown fate, in the order they were asked for.
#[derive(Default)]
struct Truth {
    acknowledged: BTreeMap<Revision, Told>,
    uncertain: Vec<Told>,
    highest_seen: Revision,
}

fn options(keys: &Arc<KeyRing>) -> Options {
    Options {
        tick: None,
        segment_bytes: 3000,
        clock: Arc::new(StillClock::default()),
        history: History { min_events: 0, ..History::default() },
        sealed: vec![Collection::new("sealed")],
        keys: Some(keys.clone()),
        ..Options::default()
    }
}

async fn write(store: &Store, truth: &mut Truth, write: Write) -> bool {
    let told = (
        write.key.clone(),
        match &write.change {
            Change::Put { value, .. } => Some(value.to_vec()),
            Change::Delete => None,
        },
    );
    let result = store.write(write).await;
    truth.highest_seen = truth.highest_seen.max(store.revision());
    match result {
        Ok(written) => {
            assert!(truth.acknowledged.insert(written.revision, told).is_none(), "a revision was given twice");
            true
        }
        Err(Error::Conflict { .. }) => true,
        Err(_) => {
            truth.uncertain.push(told);
            false
        }
    }
}

/// A life with everything in it: small and large values, deletes, groups, sealed values, rolls, compaction, snapshots, a reseal, a
/// restart. Ends early when the machine stops.
async fn live(fs: &SimFs, keys: &Arc<KeyRing>, truth: &mut Truth) {
    for life in 0..2u64 {
        let Ok(store) = Store::embedded(Arc::new(fs.clone()), Path::new(DIR), options(keys)) else { return };
        let mut dice = Dice(life);
        for step in 0..26u64 {
            let k = key(["plain", "sealed"][dice.below(2) as usize], &format!("n/{}", dice.below(4)));
            let size = [3, 100, 700, 5000][dice.below(4) as usize];
            let value = || format!("{life}-{step}-{}", "v".repeat(size));
            let next = match dice.below(5) {
                0 => delete(&k, Expect::Anything),
                1 => put(&k, store.get(&k).map_or(Expect::Absent, |e| at(e.revision)), value()),
                _ => put(&k, Expect::Anything, value()),
            };
            if !write(&store, truth, next).await {
                return;
            }
            if step % 9 == 4 && store.compact(store.revision() - 3).await.is_err() {
                return;
            }
            if life == 1 && step == 15 && store.reseal().await.is_err() {
                return;
            }
        }
        // Several at once: frames with more than one write.
        let many: Vec<_> = (0..5).map(|n| (key("plain", &format!("m/{n}")), vec![b'm'; 900])).collect();
        let writes = many.iter().map(|(k, v)| store.write(put(k, Expect::Anything, v.clone())));
        let results = futures_util::future::join_all(writes).await;
        for ((k, v), result) in many.into_iter().zip(results) {
            match result {
                Ok(written) => drop(truth.acknowledged.insert(written.revision, (k, Some(v)))),
                Err(_) => truth.uncertain.push((k, Some(v))),
            }
        }
        truth.highest_seen = truth.highest_seen.max(store.revision());
        store.shutdown().await;
    }
}

/// Everything a store shows must follow from what was acknowledged, plus writes of unknown fate at the end.
async fn check(store: &Store, truth: &Truth, what: &str) {
    let revision = store.revision();
    let last = truth.acknowledged.keys().next_back().copied().unwrap_or(1);
    assert!(revision >= last, "{what}: acknowledged {last}, but the store is at {revision}");
    assert!(revision >= truth.highest_seen, "{what}: the revision went back from {}", truth.highest_seen);
    let mut uncertain = truth.uncertain.iter();
    let mut states: BTreeMap<Revision, BTreeMap<Key, (Revision, Vec<u8>)>> = BTreeMap::from([(1, BTreeMap::new())]);
    let mut events = events(store, store.oldest()).await;
    let all = std::mem::take(&mut events);
    let mut history = BTreeMap::new();
    for r in 2..=revision {
        let told = match truth.acknowledged.get(&r) {
            Some(told) => told.clone(),
            None => {
                assert!(r > last, "{what}: revision {r} was never asked for");
                let survived = all.iter().find(|(seen, _)| *seen == r).expect("an event of the tail").1.clone();
                assert!(uncertain.any(|told| *told == survived), "{what}: {r} holds what nobody asked for");
                survived
            }
        };
        let mut state = states.values().next_back().cloned().unwrap_or_default();
        match &told.1 {
            Some(value) => drop(state.insert(told.0.clone(), (r, value.clone()))),
            None => drop(state.remove(&told.0)),
        }
        states.insert(r, state);
        history.insert(r, told);
    }
    for r in store.oldest()..=revision {
        let mut read = BTreeMap::new();
        for name in ["plain", "sealed"] {
            let collection = Collection::new(name);
            let range = Range { collection: &collection, prefix: "", after: None, limit: 0, at: Some(r) };
            for (item, entry) in store.range(&range, |_, _| true).expect("range").items {
                read.insert(Key::new(&collection, &item), (entry.revision, entry.value.to_vec()));
            }
        }
        assert!(read == states[&r], "{what}: the state at {r} is wrong");
        let expected: Vec<_> = history.range(r + 1..).map(|(r, told)| (*r, told.clone())).collect();
        let resumed: Vec<_> = crate::events(store, r).await;
        assert!(resumed == expected, "{what}: a watch resumed from {r} differs");
    }
}

/// All events after `from`, over all collections.
async fn events(store: &Store, from: Revision) -> Vec<(Revision, Told)> {
    let mut all = Vec::new();
    for name in ["plain", "sealed"] {
        let mut watch = store.watch(&Collection::new(name), "", from).expect("watch");
        while watch.revision() < store.revision() {
            let mut some = Vec::new();
            // Only prefix misses could keep it waiting, and there are none.
            watch.next(usize::MAX, &mut some).await.expect("events");
            all.extend(some.iter().map(|e| (e.revision, (e.key.clone(), e.entry.as_ref().map(|e| e.value.to_vec())))));
        }
    }
    all.sort_by_key(|(r, _)| *r);
    all
}

/// Opens what a crash left, with another crash in the middle of the opening now and then; checks; writes on; opens once more.
async fn recover(fs: SimFs, keys: &Arc<KeyRing>, truth: &mut Truth, seed: u64, what: &str) {
    let mut fs = fs;
    for again in 0..3 {
        fs.crash_at(Dice(seed * 31 + again).below(6));
        let opened = Store::embedded(Arc::new(fs.clone()), Path::new(DIR), options(keys));
        if !fs.crashed() {
            drop(opened);
            break;
        }
        fs = fs.after_crash(seed + 100 + again);
    }
    let fs = fs.after_kill();
    let store = Store::embedded(Arc::new(fs.clone()), Path::new(DIR), options(keys));
    let store = store.unwrap_or_else(|e| panic!("{what}: does not open: {e}\n{:#?}", fs.paths()));
    check(&store, truth, what).await;
    // What was shown is certain from now on.
    for (r, told) in events(&store, store.oldest()).await {
        truth.acknowledged.insert(r, told);
    }
    truth.uncertain.clear();
    truth.highest_seen = store.revision();
    let shown =
        Store::embedded(Arc::new(fs.after_crash(seed * 1000 + truth.highest_seen)), Path::new(DIR), options(keys))
            .expect("opens again");
    check(&shown, truth, &format!("{what}, crashed again after it was shown")).await;
    for n in 0..6 {
        let next = put(&key("plain", &format!("n/{n}")), Expect::Anything, vec![b'a'; 800]);
        assert!(write(&store, truth, next).await, "{what}: takes no writes");
    }
    store.compact(store.revision() - 2).await.expect("compact");
    drop(store);
    let fs = fs.after_crash(seed);
    let store = Store::embedded(Arc::new(fs), Path::new(DIR), options(keys)).expect("opens again");
    check(&store, truth, what).await;
}

#[tokio::test]
async fn no_crash_point_loses_an_acknowledged_write() {
    let keys = Arc::new(KeyRing::ephemeral().unwrap());
    let mut points = 0;
    for n in 0.. {
        let fs = SimFs::new();
        fs.crash_at(n);
        let mut truth = Truth::default();
        live(&fs, &keys, &mut truth).await;
        if !fs.crashed() {
            let kinds = fs.log();
            assert!(kinds.iter().any(|k| k.starts_with("rename") && k.ends_with(".snap")), "the life has no snapshot");
            assert!(kinds.iter().filter(|k| k.starts_with("create") && k.ends_with(".log")).count() > 4, "no rolls");
            break;
        }
        points += 1;
        let what = format!("crash at operation {n} ({:?})", fs.log().last());
        for seed in 0..SEEDS {
            let mut truth = Truth {
                acknowledged: truth.acknowledged.clone(),
                uncertain: truth.uncertain.clone(),
                highest_seen: truth.highest_seen,
            };
            let left = if seed == 0 { fs.after_kill() } else { fs.after_crash(n * 1000 + seed) };
            recover(left, &keys, &mut truth, seed, &format!("{what}, seed {seed}")).await;
        }
    }
    assert!(points > 150, "only {points} crash points");
    println!("{points} crash points, {SEEDS} seeds each");
}

/// Writers, compaction and snapshots all at once; the machine stops anywhere. What is on disk when depends on the threads, so this
/// is by chance and not by enumeration; the seed of a failure is printed.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_store_loses_nothing_wherever_it_stops() {
    let keys = Arc::new(KeyRing::ephemeral().unwrap());
    let busy = || Options {
        tick: Some(Duration::from_micros(300)),
        history: History { max_events: 30, min_events: 10, ..History::default() },
        ..options(&keys)
    };
    for seed in 0..80u64 {
        let fs = SimFs::new();
        fs.crash_at(20 + Dice(seed).below(500));
        let store = Store::embedded(Arc::new(fs.clone()), Path::new(DIR), busy()).expect("opens");
        let writers: Vec<_> = (0..4u64)
            .map(|w| {
                let store = store.clone();
                tokio::spawn(async move {
                    let mut acknowledged = BTreeMap::new();
                    let mut dice = Dice(seed * 100 + w);
                    loop {
                        let k = key(["plain", "sealed"][dice.below(2) as usize], &format!("n/{}", dice.below(5)));
                        let value = vec![b'a' + w as u8; dice.below(1500) as usize];
                        match store.write(put(&k, Expect::Anything, value.clone())).await {
                            Ok(written) => drop(acknowledged.insert(written.revision, (k, Some(value)))),
                            Err(_) => return acknowledged,
                        }
                    }
                })
            })
            .collect();
        let mut acknowledged = BTreeMap::new();
        for writer in writers {
            acknowledged.extend(writer.await.expect("writer"));
        }
        assert!(fs.crashed(), "seed {seed}: the writers stopped for another reason");
        drop(store);
        let left = fs.after_crash(seed);
        let store = Store::embedded(Arc::new(left), Path::new(DIR), options(&keys));
        let store = store.unwrap_or_else(|e| panic!("seed {seed}: does not open: {e}"));
        let last = acknowledged.keys().next_back().copied().unwrap_or(1);
        assert!(store.revision() >= last, "seed {seed}: acknowledged {last}, at {}", store.revision());
        let events = events(&store, store.oldest()).await;
        let revisions: Vec<_> = events.iter().map(|(r, _)| *r).collect();
        assert_eq!(revisions, (store.oldest() + 1..=store.revision()).collect::<Vec<_>>(), "seed {seed}");
        for (revision, told) in &events {
            assert!(acknowledged.get(revision).is_none_or(|truth| truth == told), "seed {seed}: {revision} differs");
        }
        let mut newest: BTreeMap<Key, (Revision, Option<Vec<u8>>)> = BTreeMap::new();
        for (revision, (k, value)) in acknowledged.into_iter().chain(events) {
            let slot = newest.entry(k).or_default();
            if revision >= slot.0 {
                *slot = (revision, value);
            }
        }
        for (k, (revision, value)) in newest {
            let now = store.get(&k).expect("an acknowledged item");
            assert_eq!((now.revision, Some(now.value.to_vec())), (revision, value), "seed {seed}: {k:?}");
        }
    }
}
