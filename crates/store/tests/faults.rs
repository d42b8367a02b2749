//! Full disks, failing disks and rotten files: refused or survived, never wrong data. F-4, F-5.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a broken expectation is the test's failure"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use store::testing::simfs::{Broken, SimFs};
use store::testing::{StillClock, delete, key, put};
use store::{Collection, Error, Expect, Health, History, KeyRing, Options, Range, Revision, Store};

const DIR: &str = "/data";

fn options() -> Options {
    Options {
        tick: None,
        segment_bytes: 2000,
        history: History { min_events: 0, ..History::default() },
        clock: Arc::new(StillClock::default()),
        ..Options::default()
    }
}

fn open(fs: &SimFs) -> Result<Store, Error> {
    Store::embedded(Arc::new(fs.clone()), Path::new(DIR), options())
}

type State = BTreeMap<String, (Revision, Vec<u8>)>;

fn state(store: &Store) -> State {
    let c = Collection::new("c");
    let range = Range { collection: &c, prefix: "", after: None, limit: 0, at: None };
    let page = store.range(&range, |_, _| true).unwrap();
    page.items.into_iter().map(|(item, e)| (item.to_string(), (e.revision, e.value.to_vec()))).collect()
}

// F-4
#[tokio::test]
async fn a_full_disk_refuses_writes_keeps_reads_and_recovers_by_itself() {
    // Full at every possible byte of the next frames, also in the middle of making a new segment.
    for room in (0..3200).step_by(37) {
        let fs = SimFs::new();
        let store = open(&fs).unwrap();
        let k = key("c", "a");
        let first = store.write(put(&k, Expect::Anything, vec![b'1'; 900])).await.unwrap();
        let mut watch = store.watch(&k.collection, "", first.revision).unwrap();
        fs.free(Some(room));
        let mut last = first.revision;
        let mut value = b'2';
        let refused = loop {
            match store.write(put(&k, Expect::Anything, vec![value; 900])).await {
                Ok(written) => {
                    assert_eq!(written.revision, last + 1);
                    last = written.revision;
                    value += 1;
                }
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::Full(_)), "{refused}");
        assert!(matches!(store.health(), Health::Full { .. }));
        assert_eq!(store.get(&k).unwrap().revision, last, "reads go on");
        assert!(matches!(store.write(put(&k, Expect::Anything, vec![0; 9000])).await, Err(Error::Full(_))));
        let conflict = store.write(put(&k, Expect::Absent, "x")).await;
        assert!(matches!(conflict, Err(Error::Conflict { .. })), "a failed compare needs no disk");
        // What a crash would find right now is what was acknowledged.
        let crashed = open(&fs.after_crash(room)).unwrap();
        assert_eq!((crashed.revision(), state(&crashed)), (last, state(&store)));

        fs.free(None);
        let after = store.write(put(&k, Expect::Anything, "after")).await.unwrap();
        assert_eq!((after.revision, store.health()), (last + 1, Health::Ok));
        let mut events = Vec::new();
        watch.next(100, &mut events).await.unwrap();
        assert_eq!(events.len() as u64, after.revision - first.revision, "nothing that failed was shown");
        let truth = state(&store);
        drop(store);
        assert_eq!(state(&open(&fs.after_crash(1)).unwrap()), truth);
    }
}

// F-5
#[tokio::test]
async fn failing_writes_and_syncs_are_refused_and_recover() {
    for broken in [Broken::Writes, Broken::NextSync, Broken::Syncs, Broken::Everything] {
        let passing = matches!(broken, Broken::Writes | Broken::NextSync);
        let fs = SimFs::new();
        let store = open(&fs).unwrap();
        let k = key("c", "a");
        let first = store.write(put(&k, Expect::Anything, "1")).await.unwrap();
        fs.broken(Some(broken));
        let refused = store.write(put(&k, Expect::Anything, "2")).await.unwrap_err();
        assert_eq!(store.get(&k).unwrap().value, "1");
        assert!(matches!(store.health(), Health::Failed { .. }));
        fs.broken(None);
        let next = store.write(put(&k, Expect::Anything, "3")).await;
        if passing {
            // Whether cutting back was possible decides: the journal's end must be known.
            assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
            assert_eq!(next.unwrap().revision, first.revision + 1);
            assert_eq!(store.health(), Health::Ok);
        } else {
            assert!(matches!(refused, Error::Unknown(_)), "{broken:?}: {refused}");
            assert!(matches!(next, Err(Error::Unavailable(_))), "{broken:?}: refused until opened again");
        }
        let before = state(&store);
        drop(store);
        let store = open(&fs.after_crash(7)).unwrap();
        let after = state(&store);
        let unsure = after["a"].1 == b"2";
        assert!(after == before || (unsure && !passing), "{broken:?}");
        store.write(put(&k, Expect::Anything, "4")).await.unwrap();
    }
}

#[tokio::test]
async fn a_disk_that_cannot_be_read_is_not_taken_for_an_empty_one() {
    let fs = SimFs::new();
    let store = open(&fs).unwrap();
    store.write(put(&key("c", "a"), Expect::Anything, "1")).await.unwrap();
    store.shutdown().await;
    fs.broken(Some(Broken::Reads));
    assert!(matches!(open(&fs), Err(Error::Io { .. })));
    fs.broken(None);
    assert_eq!(open(&fs).unwrap().get(&key("c", "a")).unwrap().value, "1");
}

/// A directory with a snapshot and several segments, and what it holds.
async fn aged(fs: &SimFs) -> (State, Revision) {
    let store = open(fs).unwrap();
    for n in 0..24u8 {
        store.write(put(&key("c", &format!("n/{}", n % 7)), Expect::Anything, vec![b'a' + n; 300])).await.unwrap();
        if n % 6 == 5 {
            store.write(delete(&key("c", &format!("n/{}", n % 7)), Expect::Anything)).await.unwrap();
        }
    }
    store.compact(store.revision() - 10).await.unwrap();
    let result = (state(&store), store.revision());
    store.shutdown().await;
    let has = |extension: &str| fs.paths().iter().filter(|p| p.to_string_lossy().ends_with(extension)).count();
    assert!(has(".snap") == 1 && has(".log") >= 3, "{:?}", fs.paths());
    result
}

fn data_files(fs: &SimFs) -> Vec<PathBuf> {
    fs.paths().into_iter().filter(|p| !p.ends_with("LOCK")).collect()
}

// F-5
#[tokio::test]
async fn a_flipped_bit_anywhere_is_detected_or_harmless() {
    let fs = SimFs::new();
    let (truth, revision) = aged(&fs).await;
    let mut detected = 0;
    for path in data_files(&fs) {
        let len = fs.content(&path).len();
        for byte in 0..len {
            let rotten = fs.after_kill();
            rotten.flip(&path, byte, (byte % 8) as u8);
            match open(&rotten) {
                Err(Error::Corrupt { file, .. } | Error::Version { file, .. }) => {
                    assert!(
                        file == path || path.extension().is_none(),
                        "{} blamed for {}",
                        file.display(),
                        path.display()
                    );
                    detected += 1;
                }
                Err(other) => panic!("{} byte {byte}: {other}", path.display()),
                Ok(store) => {
                    assert!(state(&store) == truth && store.revision() == revision, "{} byte {byte}", path.display());
                }
            }
        }
    }
    assert!(detected > 5000, "{detected}");
}

// F-5
#[tokio::test]
async fn lost_sectors_and_cut_or_missing_files_are_detected() {
    let fs = SimFs::new();
    let (truth, revision) = aged(&fs).await;
    let files = data_files(&fs);
    let last_log = files.iter().filter(|p| p.to_string_lossy().ends_with(".log")).max().unwrap().clone();
    for path in &files {
        let content = fs.content(path);
        let last = *path == last_log;
        let mut damaged: Vec<(String, Vec<u8>)> = Vec::new();
        for sector in 0..content.len().div_ceil(512) {
            let mut bytes = content.clone();
            let end = ((sector + 1) * 512).min(bytes.len());
            bytes[sector * 512..end].fill(0);
            // The last frame's own sectors are what a crash before its acknowledgement leaves.
            if !(last && end + 400 > content.len()) {
                damaged.push((format!("sector {sector}"), bytes));
            }
        }
        if !last {
            damaged
                .extend((0..content.len()).step_by(13).map(|len| (format!("cut at {len}"), content[..len].to_vec())));
        }
        for (what, bytes) in damaged {
            let rotten = fs.after_kill();
            rotten.set_content(path, bytes);
            match open(&rotten) {
                Err(Error::Corrupt { .. } | Error::Version { .. }) => {}
                Err(other) => panic!("{} {what}: {other}", path.display()),
                Ok(store) => {
                    assert!(state(&store) == truth && store.revision() == revision, "{} {what}", path.display());
                }
            }
        }
        if !last {
            let rotten = fs.after_kill();
            store::Fs::remove(&rotten, path).unwrap();
            assert!(matches!(open(&rotten), Err(Error::Corrupt { .. } | Error::Version { .. })), "{}", path.display());
        }
    }
}

// F-5
#[tokio::test]
async fn a_value_of_zeros_that_rots_is_not_taken_for_a_torn_write() {
    let fs = SimFs::new();
    let store = open(&fs).unwrap();
    for n in 0..3 {
        store.write(put(&key("c", "a"), Expect::Anything, vec![b'x'; 100 + n])).await.unwrap();
    }
    store.write(put(&key("c", "zeros"), Expect::Absent, vec![0; 3000])).await.unwrap();
    drop(store);
    let (truth, revision) = {
        let store = open(&fs.after_crash(1)).unwrap();
        (state(&store), store.revision())
    };
    for path in data_files(&fs).into_iter().filter(|p| p.to_string_lossy().ends_with(".log")) {
        for byte in 0..fs.content(&path).len() {
            let rotten = fs.after_kill();
            rotten.flip(&path, byte, 4);
            match open(&rotten) {
                Err(Error::Corrupt { .. } | Error::Version { .. }) => {}
                Err(other) => panic!("{} byte {byte}: {other}", path.display()),
                Ok(store) => {
                    assert!(state(&store) == truth && store.revision() == revision, "{} byte {byte}", path.display());
                }
            }
        }
    }
    // And it goes on behind it.
    let store = open(&fs.after_kill()).unwrap();
    assert_eq!(store.write(put(&key("c", "b"), Expect::Absent, "1")).await.unwrap().revision, revision + 1);
}

#[tokio::test]
async fn sealed_values_that_rot_are_detected_too() {
    let ring = Arc::new(KeyRing::ephemeral().unwrap());
    let options = || Options { sealed: vec![Collection::new("c")], keys: Some(ring.clone()), ..options() };
    let fs = SimFs::new();
    let store = Store::embedded(Arc::new(fs.clone()), Path::new(DIR), options()).unwrap();
    store.write(put(&key("c", "a"), Expect::Anything, vec![b's'; 64])).await.unwrap();
    store.shutdown().await;
    let log = fs.paths().into_iter().find(|p| p.to_string_lossy().ends_with(".log")).unwrap();
    for byte in 0..fs.content(&log).len() {
        let rotten = fs.after_kill();
        rotten.flip(&log, byte, 3);
        assert!(Store::embedded(Arc::new(rotten), Path::new(DIR), options()).is_err(), "byte {byte}");
    }
}

#[tokio::test]
async fn history_ends_by_age_count_and_bytes_but_the_newest_stays() {
    let clock = Arc::new(StillClock::default());
    let history = History { keep: Duration::from_secs(300), max_events: 1000, max_bytes: 100_000, min_events: 10 };
    let store = Store::memory(Options { tick: None, clock: clock.clone(), history, ..Options::default() });
    let k = key("c", "a");
    let write = async |n: usize, size: usize| {
        for _ in 0..n {
            store.write(put(&k, Expect::Anything, vec![b'x'; size])).await.unwrap();
        }
        store.revision()
    };
    let early = write(20, 10).await;
    store.tend().await.unwrap();
    clock.pass(Duration::from_secs(200));
    let middle = write(50, 10).await;
    store.tend().await.unwrap();
    assert_eq!(store.oldest(), 1);
    clock.pass(Duration::from_secs(100));
    store.tend().await.unwrap();
    assert_eq!(store.oldest(), early, "by age");
    clock.pass(Duration::from_secs(1000));
    store.tend().await.unwrap();
    assert_eq!(store.oldest(), middle - 10, "the newest few stay");
    let late = write(1200, 10).await;
    store.tend().await.unwrap();
    assert_eq!(store.oldest(), late - 1000, "by count");
    let heavy = write(100, 5000).await;
    for _ in 0..20 {
        store.tend().await.unwrap();
    }
    assert!(store.oldest() > heavy - 50 && store.oldest() <= heavy - 10, "by bytes: {} of {heavy}", store.oldest());
}
