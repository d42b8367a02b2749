//! What every engine must do, as one suite over the public API. It wants an empty store and uses collections of its own.
//!
//! Revisions are compared, never assumed consecutive or to start at a number: other engines share theirs with others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::{at, clients, delete, history, key, put};
use crate::{Collection, Entry, Error, Event, Expect, Guard, Key, Page, Range, Revision, Store, Watch, Write};

/// Longest wait for something that must come.
const SOON: Duration = Duration::from_secs(20);

pub async fn all(store: &Store) {
    compare_and_set(store).await;
    guards(store).await;
    deletes(store).await;
    ranges(store).await;
    prefixes_and_counts(store).await;
    reads_of_the_past(store).await;
    watch_from_now_and_the_past(store).await;
    watch_of_a_prefix(store).await;
    watch_in_batches(store).await;
    watch_is_cancel_safe(store).await;
    bookmarks(store).await;
    many_writers(store).await;
    one_key_many_writers(store).await;
    lists_are_snapshots(store).await;
    one_order_for_all(store).await;
    the_future_is_refused(store).await;
    compaction(store).await;
}

fn collection(name: &str) -> Collection {
    Collection::new(&format!("suite/{name}"))
}

fn whole(collection: &Collection) -> Range<'_> {
    Range { collection, prefix: "", after: None, limit: 0, at: None }
}

fn names(page: &Page) -> Vec<&str> {
    page.items.iter().map(|(item, _)| item.as_ref()).collect()
}

async fn write(store: &Store, key: &Key, value: &str) -> Revision {
    store.write(put(key, Expect::Anything, value.to_owned())).await.expect("write").revision
}

async fn take(watch: &mut Watch, count: usize) -> Vec<Arc<Event>> {
    let mut events = Vec::new();
    while events.len() < count {
        let next = tokio::time::timeout(SOON, watch.next(1000, &mut events)).await;
        next.expect("events in time").expect("events");
    }
    events
}

fn told(event: &Event) -> (String, Option<String>, Option<String>) {
    let text = |e: &Option<Entry>| e.as_ref().map(|e| String::from_utf8_lossy(&e.value).into_owned());
    (event.key.item.to_string(), text(&event.entry), text(&event.prev))
}

pub async fn guards(store: &Store) {
    let (pen, k) = (key("suite/guards", "pen"), key("suite/guards", "k"));
    let guarded = |revision| {
        let guard = Some(Guard { key: pen.clone(), revision });
        Write { guard, ..put(&k, Expect::Anything, "x") }
    };
    assert!(matches!(store.write(guarded(0)).await, Err(Error::Overtaken)), "nothing is at revision 0");
    let first = write(store, &pen, "a").await;
    store.write(guarded(first)).await.expect("the pen is as it was");
    let second = write(store, &pen, "b").await;
    assert!(matches!(store.write(guarded(first)).await, Err(Error::Overtaken)));
    let last = store.write(guarded(second)).await.expect("the pen is as it was").revision;
    // Its own compare counts as ever.
    let guard = Some(Guard { key: pen.clone(), revision: second });
    let stale = store.write(Write { guard, ..put(&k, Expect::Absent, "y") }).await;
    assert!(matches!(stale, Err(Error::Conflict { current: Some(entry) }) if entry.revision == last));
    // In one group too: of two who take the pen at once, only the one who took it last can write.
    let (a, b) =
        tokio::join!(store.write(put(&pen, Expect::Anything, "c")), store.write(put(&pen, Expect::Anything, "d")));
    let (a, b) = (a.expect("taken").revision, b.expect("taken").revision);
    let (x, y) = tokio::join!(store.write(guarded(a)), store.write(guarded(b)));
    assert_eq!((x.is_ok(), y.is_ok()), (a > b, b > a));
    let (taken, late) = tokio::join!(store.write(put(&pen, Expect::Anything, "e")), store.write(guarded(a.max(b))));
    let (taken, order) = (taken.expect("taken").revision, late.map(|written| written.revision));
    assert!(matches!(order, Err(Error::Overtaken)) || order.is_ok_and(|late| late < taken));
    store.write(delete(&pen, Expect::Anything)).await.expect("delete");
    assert!(matches!(store.write(guarded(taken)).await, Err(Error::Overtaken)));
}

pub async fn compare_and_set(store: &Store) {
    let k = key("suite/cas", "a/one");
    assert!(store.get(&k).is_none());
    assert!(matches!(store.write(put(&k, at(7), "x")).await, Err(Error::Conflict { current: None })));
    let first = store.write(put(&k, Expect::Absent, "1")).await.expect("create");
    assert!(first.prev.is_none());
    let got = store.get(&k).expect("what was written");
    assert_eq!((got.revision, &got.value[..]), (first.revision, &b"1"[..]));
    match store.write(put(&k, Expect::Absent, "2")).await {
        Err(Error::Conflict { current: Some(e) }) => {
            assert_eq!((e.revision, &e.value[..]), (first.revision, &b"1"[..]))
        }
        other => panic!("{other:?}"),
    }
    let second = store.write(put(&k, at(first.revision), "2")).await.expect("update");
    assert!(second.revision > first.revision);
    assert_eq!(second.prev.expect("prev").value, "1");
    match store.write(put(&k, at(first.revision), "3")).await {
        Err(Error::Conflict { current: Some(e) }) => assert_eq!(e.revision, second.revision),
        other => panic!("{other:?}"),
    }
    let third = store.write(put(&k, Expect::Anything, "3")).await.expect("overwrite");
    assert_eq!(third.prev.expect("prev").revision, second.revision);
    assert!(store.revision() >= third.revision);
    assert!(store.sync().await.expect("sync") >= third.revision);
}

pub async fn deletes(store: &Store) {
    let k = key("suite/delete", "a/one");
    assert!(matches!(store.write(delete(&k, Expect::Anything)).await, Err(Error::Conflict { current: None })));
    let first = write(store, &k, "1").await;
    assert!(matches!(store.write(delete(&k, at(first + 1000))).await, Err(Error::Conflict { current: Some(_) })));
    let gone = store.write(delete(&k, at(first))).await.expect("delete");
    assert!(gone.revision > first);
    assert_eq!(gone.prev.expect("prev").value, "1");
    assert!(store.get(&k).is_none());
    assert!(matches!(store.write(delete(&k, at(first))).await, Err(Error::Conflict { current: None })));
    let again = store.write(put(&k, Expect::Absent, "2")).await.expect("create again");
    assert!(again.revision > gone.revision && again.prev.is_none());
}

pub async fn ranges(store: &Store) {
    let c = collection("ranges");
    for item in ["a/1", "a/2", "a/3", "b/1", "b/2", "c"] {
        write(store, &Key::new(&c, item), item).await;
    }
    let page = store.range(&whole(&c), |_, _| true).expect("range");
    assert_eq!(names(&page), ["a/1", "a/2", "a/3", "b/1", "b/2", "c"]);
    assert!(!page.more && page.total == 6 && page.revision == store.revision());

    // Pages at one revision tile the list, whatever happens meanwhile.
    let first = store.range(&Range { limit: 2, ..whole(&c) }, |_, _| true).expect("range");
    assert_eq!((names(&first), first.more, first.total), (vec!["a/1", "a/2"], true, 6));
    write(store, &Key::new(&c, "a/25"), "late").await;
    store.write(delete(&Key::new(&c, "b/1"), Expect::Anything)).await.expect("delete");
    write(store, &Key::new(&c, "b/2"), "changed").await;
    let rest = Range { limit: 3, after: Some("a/2"), at: Some(first.revision), ..whole(&c) };
    let second = store.range(&rest, |_, _| true).expect("range");
    assert_eq!((names(&second), second.more), (vec!["a/3", "b/1", "b/2"], true));
    assert_eq!((second.revision, &second.items[2].1.value[..]), (first.revision, &b"b/2"[..]));
    let third = store.range(&Range { after: Some("b/2"), ..rest }, |_, _| true).expect("range");
    assert_eq!((names(&third), third.more), (vec!["c"], false));

    // The limit counts what passes the filter, and `more` is exact.
    let odd = |item: &str, _: &Entry| item.ends_with('1') || item == "c";
    let page = store.range(&Range { limit: 1, ..whole(&c) }, odd).expect("range");
    assert_eq!((names(&page), page.more), (vec!["a/1"], true));
    let page = store.range(&Range { limit: 2, ..whole(&c) }, odd).expect("range");
    assert_eq!((names(&page), page.more), (vec!["a/1", "c"], false));

    let empty = collection("never");
    let page = store.range(&whole(&empty), |_, _| true).expect("range");
    assert!(page.items.is_empty() && !page.more && page.total == 0);
}

pub async fn prefixes_and_counts(store: &Store) {
    let c = collection("prefixes");
    for item in ["team/x", "team-a/x", "team-a/y", "team0/x", "tea/x"] {
        write(store, &Key::new(&c, item), "").await;
    }
    let under = |prefix: &'static str| {
        let page = store.range(&Range { prefix, ..whole(&c) }, |_, _| true).expect("range");
        (names(&page).join(" "), page.total, store.count(&c, prefix))
    };
    assert_eq!(under("team/"), ("team/x".into(), 1, 1));
    assert_eq!(under("team-a/"), ("team-a/x team-a/y".into(), 2, 2));
    assert_eq!(under("team"), ("team-a/x team-a/y team/x team0/x".into(), 4, 4));
    assert_eq!(under("none/"), (String::new(), 0, 0));
    assert_eq!(store.count(&c, ""), 5);
    let behind = store.range(&Range { prefix: "team-a/", after: Some("a"), ..whole(&c) }, |_, _| true).expect("range");
    assert_eq!(names(&behind), ["team-a/x", "team-a/y"], "a start before the prefix starts at the prefix");
    store.write(delete(&Key::new(&c, "team-a/x"), Expect::Anything)).await.expect("delete");
    assert_eq!((store.count(&c, "team-a/"), store.count(&c, "")), (1, 4));
    write(store, &Key::new(&c, "team-a/y"), "again").await;
    assert_eq!((store.count(&c, "team-a/"), store.count(&c, "")), (1, 4));
    assert!(store.collections().contains(&c));
}

pub async fn reads_of_the_past(store: &Store) {
    let k = key("suite/past", "a/one");
    let r1 = write(store, &k, "1").await;
    let r2 = write(store, &k, "2").await;
    let r3 = store.write(delete(&k, Expect::Anything)).await.expect("delete").revision;
    let r4 = write(store, &k, "4").await;
    let past = |revision| {
        let page = store.range(&Range { at: Some(revision), ..whole(&k.collection) }, |_, _| true).expect("range");
        page.items.first().map(|(_, e)| (e.revision, String::from_utf8_lossy(&e.value).into_owned()))
    };
    assert_eq!(past(r1 - 1), None);
    assert_eq!(past(r1), Some((r1, "1".into())));
    assert_eq!(past(r2), Some((r2, "2".into())));
    assert_eq!(past(r3), None);
    assert_eq!(past(r4), Some((r4, "4".into())));
}

pub async fn watch_from_now_and_the_past(store: &Store) {
    let k = key("suite/watch", "a/one");
    let before = store.revision();
    let r1 = write(store, &k, "1").await;
    let mut now = store.watch(&k.collection, "", store.revision()).expect("watch");
    write(store, &key("suite/other", "a/one"), "noise").await;
    let r2 = write(store, &k, "2").await;
    let r3 = store.write(delete(&k, Expect::Anything)).await.expect("delete").revision;
    let events = take(&mut now, 2).await;
    let expected = [("2", Some("2"), Some("1")), ("3", None, Some("2"))];
    assert_eq!(events.iter().map(|e| e.revision).collect::<Vec<_>>(), [r2, r3]);
    for (event, (_, new, prev)) in events.iter().zip(expected) {
        assert_eq!(told(event), ("a/one".into(), new.map(Into::into), prev.map(Into::into)));
    }
    let mut past = store.watch(&k.collection, "", before).expect("watch");
    let events = take(&mut past, 3).await;
    assert_eq!(events.iter().map(|e| e.revision).collect::<Vec<_>>(), [r1, r2, r3]);
    assert!(events[0].prev.is_none());
    let mut middle = store.watch(&k.collection, "", r1).expect("watch");
    assert_eq!(take(&mut middle, 2).await[0].revision, r2);
}

pub async fn watch_of_a_prefix(store: &Store) {
    let c = collection("watch-prefix");
    let mut watch = store.watch(&c, "team/", store.revision()).expect("watch");
    write(store, &Key::new(&c, "team-a/x"), "").await;
    write(store, &Key::new(&c, "team/x"), "").await;
    write(store, &Key::new(&c, "team0/x"), "").await;
    let last = write(store, &Key::new(&c, "team/y"), "").await;
    let events = take(&mut watch, 2).await;
    assert_eq!(events.iter().map(|e| e.key.item.to_string()).collect::<Vec<_>>(), ["team/x", "team/y"]);
    assert_eq!(events[1].revision, last);
}

pub async fn watch_in_batches(store: &Store) {
    let c = collection("watch-batches");
    let mut watch = store.watch(&c, "", store.revision()).expect("watch");
    let mut expected = Vec::new();
    for n in 0..25 {
        expected.push(write(store, &Key::new(&c, &format!("n/{n}")), "").await);
    }
    let mut seen = Vec::new();
    while seen.len() < 25 {
        let mut some = Vec::new();
        tokio::time::timeout(SOON, watch.next(10, &mut some)).await.expect("in time").expect("events");
        assert!(!some.is_empty() && some.len() <= 10);
        assert!(watch.revision() >= some[some.len() - 1].revision);
        seen.extend(some.iter().map(|e| e.revision));
    }
    assert_eq!(seen, expected);
}

pub async fn watch_is_cancel_safe(store: &Store) {
    let c = collection("watch-cancel");
    let mut watch = store.watch(&c, "", store.revision()).expect("watch");
    let mut expected = Vec::new();
    let mut seen = Vec::new();
    for n in 0..50 {
        if n % 3 == 0 {
            let mut some = Vec::new();
            let _cancelled = tokio::time::timeout(Duration::from_micros(50 * n), watch.next(2, &mut some)).await;
            seen.append(&mut some);
        }
        expected.push(write(store, &Key::new(&c, &format!("n/{n}")), "").await);
    }
    seen.extend(take(&mut watch, 50 - seen.len()).await);
    assert_eq!(seen.iter().map(|e| e.revision).collect::<Vec<_>>(), expected);
}

pub async fn bookmarks(store: &Store) {
    let c = collection("bookmarks");
    let k = Key::new(&c, "a/one");
    let mut watch = store.watch(&c, "", store.revision()).expect("watch");
    let other = write(store, &key("suite/other", "a/one"), "noise").await;
    assert!(watch.revision() >= other, "a watch with nothing to see is as far as the store");
    let mine = write(store, &k, "1").await;
    let last = write(store, &key("suite/other", "a/one"), "noise").await;
    assert!(watch.revision() < mine, "an event not taken holds the bookmark back");
    take(&mut watch, 1).await;
    assert!(watch.revision() >= last);
}

/// Many writers on many keys: one watcher sees each write once, in order, and the end state is the last write.
pub async fn many_writers(store: &Store) {
    let c = collection("many");
    let from = store.revision();
    let mut live = store.watch(&c, "", from).expect("watch");
    let mut writers = Vec::new();
    for w in 0..8 {
        let (store, c) = (store.clone(), c.clone());
        writers.push(tokio::spawn(async move {
            let mut done = Vec::new();
            for n in 0..40 {
                let k = Key::new(&c, &format!("w{w}/{}", n % 5));
                let value = format!("{w}-{n}");
                let written = store.write(put(&k, Expect::Anything, value.clone())).await.expect("write");
                let read = store.get(&k).expect("own write");
                assert_eq!((read.revision, read.value), (written.revision, value.clone().into()), "read your write");
                done.push((written.revision, k.item.to_string(), value));
            }
            done
        }));
    }
    let mut truth = BTreeMap::new();
    for writer in writers {
        let done = writer.await.expect("writer");
        assert!(done.windows(2).all(|w| w[0].0 < w[1].0), "real time order is revision order");
        for (revision, item, value) in done {
            assert!(truth.insert(revision, (item, value)).is_none(), "each revision once");
        }
    }
    let events = take(&mut live, truth.len()).await;
    let seen: Vec<_> = events.iter().map(|e| (e.revision, e.key.item.to_string(), told(e).1.expect("put"))).collect();
    let expected: Vec<_> = truth.iter().map(|(r, (i, v))| (*r, i.clone(), v.clone())).collect();
    assert_eq!(seen, expected);
    let mut replay = store.watch(&c, "", from).expect("watch");
    let again = take(&mut replay, truth.len()).await;
    assert_eq!(again.iter().map(|e| e.revision).collect::<Vec<_>>(), truth.keys().copied().collect::<Vec<_>>());
    let last: BTreeMap<_, _> = truth.values().cloned().collect();
    let page = store.range(&whole(&c), |_, _| true).expect("range");
    let now: BTreeMap<_, _> =
        page.items.iter().map(|(i, e)| (i.to_string(), String::from_utf8_lossy(&e.value).into_owned())).collect();
    assert_eq!(now, last);
}

/// A counter raised by compare-and-set from many sides loses no step.
pub async fn one_key_many_writers(store: &Store) {
    let k = key("suite/counter", "a/one");
    write(store, &k, "0").await;
    let mut writers = Vec::new();
    for _ in 0..6 {
        let (store, k) = (store.clone(), k.clone());
        writers.push(tokio::spawn(async move {
            let mut revisions = BTreeSet::new();
            while revisions.len() < 15 {
                let now = store.get(&k).expect("counter");
                let n: u64 = String::from_utf8_lossy(&now.value).parse().expect("number");
                match store.write(put(&k, at(now.revision), (n + 1).to_string())).await {
                    Ok(written) => drop(revisions.insert(written.revision)),
                    Err(Error::Conflict { current: Some(e) }) => assert!(e.revision > now.revision),
                    Err(other) => panic!("{other}"),
                }
            }
        }));
    }
    for writer in writers {
        writer.await.expect("writer");
    }
    assert_eq!(store.get(&k).expect("counter").value, "90");
}

/// Two keys are always written one after the other: no list sees the second ahead of the first.
pub async fn lists_are_snapshots(store: &Store) {
    let c = collection("snapshots");
    let (a, b) = (Key::new(&c, "x/a"), Key::new(&c, "x/b"));
    write(store, &a, "000").await;
    write(store, &b, "000").await;
    let writer = {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 1..100 {
                write(&store, &a, &format!("{n:03}")).await;
                write(&store, &b, &format!("{n:03}")).await;
            }
        })
    };
    while !writer.is_finished() {
        let page = store.range(&whole(&c), |_, _| true).expect("range");
        let (a, b) = (&page.items[0].1, &page.items[1].1);
        let apart = a.value.as_ref().cmp(b.value.as_ref());
        assert!(apart.is_ge() && a.revision <= page.revision && b.revision <= page.revision);
        tokio::task::yield_now().await;
    }
    writer.await.expect("writer");
}

/// F-3: whatever concurrent clients saw fits one order. A failing history is printed.
pub async fn one_order_for_all(store: &Store) {
    let (ops, watches) = clients::run(store, 6, 60).await;
    let found = history::check(&ops, &watches);
    assert!(found.is_empty(), "{found:#?}\n{ops:#?}\n{watches:#?}");
}

pub async fn the_future_is_refused(store: &Store) {
    let c = collection("future");
    let ahead = store.revision() + 1_000_000;
    assert!(matches!(store.range(&Range { at: Some(ahead), ..whole(&c) }, |_, _| true), Err(Error::Future { .. })));
    assert!(matches!(store.watch(&c, "", ahead), Err(Error::Future { .. })));
    assert!(matches!(store.compact(ahead).await, Err(Error::Future { .. })));
}

pub async fn compaction(store: &Store) {
    let c = collection("compaction");
    let (k, gone) = (Key::new(&c, "a/one"), Key::new(&c, "a/two"));
    let r1 = write(store, &k, "1").await;
    let mut slow = store.watch(&c, "", r1).expect("watch");
    write(store, &gone, "x").await;
    store.write(delete(&gone, Expect::Anything)).await.expect("delete");
    let r2 = write(store, &k, "2").await;
    let r3 = write(store, &k, "3").await;
    let mut quiet = store.watch(&collection("quiet"), "", r1).expect("watch");
    store.compact(r2).await.expect("compact");
    assert_eq!(store.oldest(), r2);

    let read = |at| store.range(&Range { at: Some(at), ..whole(&c) }, |_, _| true);
    assert!(matches!(read(r1), Err(Error::Compacted { oldest }) if oldest == r2));
    assert!(matches!(read(r2 - 1), Err(Error::Compacted { .. })));
    let page = read(r2).expect("the oldest is still read");
    assert_eq!((names(&page), &page.items[0].1.value[..]), (vec!["a/one"], &b"2"[..]));
    assert_eq!(read(r3).expect("range").items[0].1.value, "3");

    assert!(matches!(store.watch(&c, "", r1), Err(Error::Compacted { .. })));
    let mut out = Vec::new();
    assert!(
        matches!(slow.next(10, &mut out).await, Err(Error::Compacted { .. })),
        "a slow watcher is told, not lied to"
    );
    assert!(out.is_empty());
    let mut rest = store.watch(&c, "", r2).expect("watch from the oldest");
    let events = take(&mut rest, 1).await;
    assert_eq!((events.len(), events[0].revision), (1, r3));
    assert_eq!(told(&events[0]), ("a/one".into(), Some("3".into()), Some("2".into())));

    // A watcher that missed nothing goes on.
    let noise = write(store, &Key::new(&collection("quiet"), "a"), "").await;
    assert_eq!(take(&mut quiet, 1).await[0].revision, noise);
    // Compacting again is harmless, further back says so.
    store.compact(r2).await.expect("compact again");
}
