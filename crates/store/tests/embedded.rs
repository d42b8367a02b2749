//! The embedded engine on a real disk: the suite, restarts, locks, versions, sealing, backups.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a broken expectation is the test's failure"
)]

use std::path::Path;
use std::sync::Arc;

use store::testing::{delete, key, put, suite};
use store::{Error, Expect, KeyRing, Options, Range, RealFs, Store};

fn options() -> Options {
    Options { segment_bytes: 4096, ..Options::default() }
}

fn open(dir: &Path, options: Options) -> Store {
    Store::embedded(Arc::new(RealFs), dir, options).expect("open")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_engine_passes_the_suite() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), options());
    suite::all(&store).await;
    store.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_there_after_a_restart_and_watches_resume() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), options());
    let (a, b) = (key("things", "x/a"), key("things", "x/b"));
    let mut revisions = Vec::new();
    for n in 0..200 {
        revisions
            .push(store.write(put(&a, Expect::Anything, format!("{n}{}", "-".repeat(100)))).await.unwrap().revision);
    }
    store.write(put(&b, Expect::Absent, "b")).await.unwrap();
    store.write(delete(&b, Expect::Anything)).await.unwrap();
    let (revision, middle) = (store.revision(), revisions[120]);
    store.compact(revisions[100]).await.unwrap();
    store.shutdown().await;
    assert!(matches!(store.write(put(&a, Expect::Anything, "late")).await, Err(Error::Closed)));

    let store = open(dir.path(), options());
    assert_eq!(store.revision(), revision);
    assert_eq!(store.oldest(), revisions[100], "old segments were folded into a snapshot");
    assert!(store.get(&b).is_none());
    assert!(store.get(&a).unwrap().value.starts_with(b"199-"));
    let past = Range { collection: &a.collection, prefix: "", after: None, limit: 0, at: Some(middle) };
    assert!(store.range(&past, |_, _| true).unwrap().items[0].1.value.starts_with(b"120-"));
    let mut events = Vec::new();
    store.watch(&a.collection, "", middle).unwrap().next(1000, &mut events).await.unwrap();
    assert_eq!(events.iter().map(|e| e.revision).collect::<Vec<_>>(), (middle + 1..=revision).collect::<Vec<_>>());
    let next = store.write(put(&a, Expect::Anything, "next")).await.unwrap();
    assert_eq!(next.revision, revision + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_is_opened_once_and_says_by_whom() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), options());
    match Store::embedded(Arc::new(RealFs), dir.path(), options()) {
        Err(Error::Locked { holder, .. }) => assert_eq!(holder, Some(std::process::id().to_string())),
        other => panic!("{:?}", other.err()),
    }
    store.shutdown().await;
    open(dir.path(), options());
    // A store that is dropped lets go, too.
    open(dir.path(), options());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_format_is_refused_clearly() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path(), options()));
    std::fs::write(dir.path().join("VERSION"), "muster store 2\n").unwrap();
    match Store::embedded(Arc::new(RealFs), dir.path(), options()) {
        Err(error @ Error::Version { .. }) => assert!(error.to_string().contains("muster store 2"), "{error}"),
        other => panic!("{:?}", other.err()),
    }
    std::fs::remove_file(dir.path().join("VERSION")).unwrap();
    // A bare first segment is what an unfinished first start leaves.
    let store = open(dir.path(), options());
    store.write(put(&key("c", "a"), Expect::Absent, "1")).await.unwrap();
    store.shutdown().await;
    std::fs::remove_file(dir.path().join("VERSION")).unwrap();
    assert!(matches!(Store::embedded(Arc::new(RealFs), dir.path(), options()), Err(Error::Version { .. })));
}

fn holds(dir: &Path, needle: &[u8]) -> bool {
    std::fs::read_dir(dir).unwrap().any(|entry| {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        bytes.windows(needle.len()).any(|w| w == needle)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn sealed_values_never_reach_the_disk_in_clear() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let ring_path = dir.path().join("keys");
    let ring = Arc::new(KeyRing::open_or_create(&ring_path).unwrap());
    let secret = key("core/secrets", "a/one");
    let sealing = |ring: &Arc<KeyRing>| Options {
        sealed: vec![secret.collection.clone()],
        keys: Some(ring.clone()),
        segment_bytes: 2048,
        ..Options::default()
    };
    let store = open(&data, sealing(&ring));
    for n in 0..50 {
        store.write(put(&secret, Expect::Anything, format!("CANARY{n}"))).await.unwrap();
        store.write(put(&key("core/configmaps", "a/one"), Expect::Anything, format!("plain{n}"))).await.unwrap();
    }
    let backup = data.join("backup");
    store.compact(store.revision()).await.unwrap();
    store.backup(&backup).await.unwrap();
    assert!(!holds(&data, b"CANARY") && holds(&data, b"plain49"));

    // After a reseal no file needs the old key.
    std::fs::remove_file(&backup).unwrap();
    let old = ring.ids()[0];
    ring.rotate().unwrap();
    store.write(put(&secret, Expect::Anything, "CANARY-new")).await.unwrap();
    let needed = store.reseal().await.unwrap();
    assert!(needed > old);
    store.write(put(&key("core/secrets", "a/two"), Expect::Anything, "CANARY-two")).await.unwrap();
    store.shutdown().await;
    ring.prune(needed).unwrap();
    let ring = Arc::new(KeyRing::open(&ring_path).unwrap());
    assert_eq!(ring.ids(), [needed]);
    let store = open(&data, sealing(&ring));
    assert_eq!(store.get(&secret).unwrap().value, "CANARY-new");
    assert_eq!(store.get(&key("core/secrets", "a/two")).unwrap().value, "CANARY-two");
    assert!(!holds(&data, b"CANARY"));
    store.shutdown().await;

    // Without the key nothing opens.
    let other = Arc::new(KeyRing::ephemeral().unwrap());
    assert!(matches!(Store::embedded(Arc::new(RealFs), &data, sealing(&other)), Err(Error::Seal(_))));
}

// F-18
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_restores_and_old_clients_list_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("data"), options());
    let c = key("things", "x").collection;
    for n in 0..300 {
        store.write(put(&key("things", &format!("n/{n:03}")), Expect::Absent, format!("v{n}"))).await.unwrap();
    }
    let load = {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0..300 {
                store
                    .write(put(&key("things", &format!("n/{n:03}")), Expect::Anything, format!("w{n}")))
                    .await
                    .unwrap();
                store.write(delete(&key("things", &format!("n/{n:03}")), Expect::Anything)).await.unwrap();
                store.write(put(&key("things", &format!("n/{n:03}")), Expect::Absent, format!("x{n}"))).await.unwrap();
            }
        })
    };
    let file = dir.path().join("backup");
    let info = store.backup(&file).await.unwrap();
    load.await.unwrap();
    let late = store.revision();
    assert_eq!(store::verify(&RealFs, &file).unwrap(), info);
    let at = Range { collection: &c, prefix: "", after: None, limit: 0, at: Some(info.revision) };
    let truth = store.range(&at, |_, _| true).unwrap();
    assert_eq!(info.count as usize, truth.items.len());
    store.shutdown().await;

    assert!(store::restore(&RealFs, &file, &dir.path().join("data")).is_err(), "never over a store");
    let fresh = dir.path().join("fresh");
    store::restore(&RealFs, &file, &fresh).unwrap();
    let store = open(&fresh, options());
    let restored = store.range(&Range { at: None, ..at }, |_, _| true).unwrap();
    assert_eq!(restored.items.len(), truth.items.len());
    for ((item, entry), (item2, entry2)) in restored.items.iter().zip(&truth.items) {
        assert_eq!((item, entry.revision, &entry.value), (item2, entry2.revision, &entry2.value));
    }
    assert!(store.revision() > late);
    for seen in [info.revision, late] {
        assert!(matches!(store.watch(&c, "", seen), Err(Error::Compacted { .. })));
        assert!(matches!(store.range(&Range { at: Some(seen), ..at }, |_, _| true), Err(Error::Compacted { .. })));
    }
    let written = store.write(put(&key("things", "new"), Expect::Absent, "1")).await.unwrap();
    assert!(written.revision > late);
    store.shutdown().await;

    // Any damage to a backup is seen.
    let bytes = std::fs::read(&file).unwrap();
    for i in (0..bytes.len()).step_by(7) {
        let mut bad = bytes.clone();
        bad[i] ^= 0x10;
        std::fs::write(&file, bad).unwrap();
        assert!(store::verify(&RealFs, &file).is_err(), "byte {i}");
    }
    for len in (0..bytes.len()).step_by(11) {
        std::fs::write(&file, &bytes[..len]).unwrap();
        assert!(store::verify(&RealFs, &file).is_err(), "cut at {len}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_engine_can_be_backed_up_into_an_embedded_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::memory(Options::default());
    store.write(put(&key("c", "a"), Expect::Absent, "1")).await.unwrap();
    store.backup(&dir.path().join("b")).await.unwrap();
    store::restore(&RealFs, &dir.path().join("b"), &dir.path().join("d")).unwrap();
    assert_eq!(open(&dir.path().join("d"), options()).get(&key("c", "a")).unwrap().value, "1");
}
