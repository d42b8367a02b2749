//! A restore stopped at every single disk operation: the directory is then nothing, or refused, or whole. F-18
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a broken expectation is the test's failure")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use store::testing::simfs::{Broken, SimFs};
use store::testing::{StillClock, key, put};
use store::{Collection, Error, Expect, Fs, Options, Range, Store};

const DIR: &str = "/new";
const BACKUP: &str = "/backups/b";

type State = BTreeMap<String, (u64, Vec<u8>)>;

fn options() -> Options {
    Options { tick: None, clock: Arc::new(StillClock::default()), ..Options::default() }
}

fn open(fs: &SimFs) -> Result<Store, Error> {
    Store::embedded(Arc::new(fs.clone()), Path::new(DIR), options())
}

fn state(store: &Store) -> State {
    let collection = Collection::new("c");
    let range = Range { collection: &collection, prefix: "", after: None, limit: 0, at: None };
    let items = store.range(&range, |_, _| true).unwrap().items;
    items.into_iter().map(|(item, entry)| (item.to_string(), (entry.revision, entry.value.to_vec()))).collect()
}

/// A disk that holds a backup of several blocks, and what is in it.
async fn backed_up() -> (SimFs, State) {
    let fs = SimFs::new();
    let old = Store::embedded(Arc::new(fs.clone()), Path::new("/old"), options()).unwrap();
    for n in 0..4 {
        old.write(put(&key("c", &format!("n/{n}")), Expect::Absent, vec![b'a' + n; 50_000])).await.unwrap();
    }
    old.backup(Path::new(BACKUP)).await.unwrap();
    let truth = state(&old);
    old.shutdown().await;
    (fs.after_kill(), truth)
}

fn restore(fs: &SimFs) -> Result<store::BackupInfo, Error> {
    store::restore(fs, Path::new(BACKUP), Path::new(DIR))
}

/// What is served, if anything: all of it, or nothing ever written. `begun`: a durable sign of the restore must be there.
fn check(fs: &SimFs, truth: &State, what: &str) -> &'static str {
    match open(fs) {
        Err(Error::Unfinished { dir }) => {
            assert_eq!(dir, Path::new(DIR), "{what}");
            "refused"
        }
        Err(other) => panic!("{what}: {other}"),
        Ok(store) if state(&store).is_empty() => {
            assert_eq!(store.revision(), 1, "{what}: an empty store that is not new");
            "nothing"
        }
        Ok(store) => {
            assert!(state(&store) == *truth, "{what}: half of it is served");
            "whole"
        }
    }
}

// F-18
#[tokio::test]
async fn no_crash_point_of_a_restore_serves_half_of_it() {
    let (disk, truth) = backed_up().await;
    let mut seen = BTreeMap::new();
    for n in 0.. {
        let fs = disk.after_kill();
        fs.crash_at(n);
        let done = restore(&fs);
        if !fs.crashed() {
            done.unwrap();
            assert!(n > 15, "only {n} crash points");
            assert_eq!(check(&fs.after_crash(7), &truth, "done"), "whole", "a restore that was reported is durable");
            break;
        }
        assert!(done.is_err());
        for seed in 0..8 {
            let what = format!("crash at operation {n} ({:?}), seed {seed}", fs.log().last());
            let left = || if seed == 0 { fs.after_kill() } else { fs.after_crash(n * 1000 + seed) };
            let found = check(&left(), &truth, &what);
            *seen.entry(found).or_insert(0) += 1;
            // Run again on what was left, it succeeds, even over another crash; unless it is done already.
            let again = left();
            if found == "whole" {
                assert!(matches!(restore(&again), Err(Error::NotEmpty { .. })), "{what}");
                continue;
            }
            again.crash_at(seed * 2);
            let again = match restore(&again) {
                Ok(_) => again.after_kill(),
                Err(_) => again.after_crash(seed),
            };
            if check(&again.after_kill(), &truth, &what) != "whole" {
                restore(&again).unwrap_or_else(|e| panic!("{what}: again: {e}\n{:#?}", again.paths()));
            }
            assert_eq!(check(&again.after_crash(seed + 50), &truth, &what), "whole", "{what}");
        }
    }
    assert!(["nothing", "refused", "whole"].iter().all(|outcome| seen.contains_key(outcome)), "{seen:?}");
}

// F-18
#[tokio::test]
async fn a_restore_that_fails_is_refused_until_it_is_run_again() {
    let (disk, truth) = backed_up().await;
    let fs = disk.after_kill();
    fs.free(Some(60_000));
    assert!(restore(&fs).is_err());
    fs.free(None);
    assert_eq!(check(&fs, &truth, "the disk was full"), "refused");
    restore(&fs).unwrap();
    assert_eq!(check(&fs, &truth, "again"), "whole");

    let fs = disk.after_kill();
    fs.broken(Some(Broken::Syncs));
    assert!(restore(&fs).is_err());
    fs.broken(None);
    restore(&fs).unwrap();
    assert_eq!(check(&fs, &truth, "again"), "whole");
}

// F-18
#[tokio::test]
async fn what_is_not_ours_is_never_restored_over() {
    let (disk, _) = backed_up().await;
    let foreign = ["notes.txt", "00000000000000000002.log", "VERSION"];
    for name in foreign {
        let fs = disk.after_kill();
        let path: PathBuf = Path::new(DIR).join(name);
        fs.create(&path).unwrap().write(b"mine").unwrap();
        assert!(matches!(restore(&fs), Err(Error::NotEmpty { .. })), "{name}");
        assert_eq!(fs.content(&path), b"mine");
    }
    // Not beside an unfinished restore either.
    let fs = disk.after_kill();
    fs.free(Some(60_000));
    assert!(restore(&fs).is_err());
    fs.free(None);
    fs.create(&Path::new(DIR).join("notes.txt")).unwrap();
    assert!(matches!(restore(&fs), Err(Error::NotEmpty { .. })));
    // Nor where a store runs.
    let fs = disk.after_kill();
    let held = open(&fs).unwrap();
    assert!(matches!(restore(&fs), Err(Error::NotEmpty { .. } | Error::Locked { .. })));
    drop(held);
}
