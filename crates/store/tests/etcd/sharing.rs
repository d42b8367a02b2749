//! Several stores on one etcd, other tenants of it, and compaction.

use std::sync::Arc;
use std::time::Duration;

use store::etcd::Config;
use store::testing::{StillClock, delete, key, put};
use store::{Collection, Error, Expect, History, Options, Range, Store};

use super::peer::Cluster;
use super::proxy::{Mode, Proxy};
use super::{config, eventually, items, open, take, text, write};

#[tokio::test(flavor = "multi_thread")]
async fn two_stores_see_each_others_writes_in_order() {
    let Some(etcd) = Cluster::start(1) else { return };
    let a = open(config(etcd.urls()), Options::default()).await;
    let b = open(config(etcd.urls()), Options::default()).await;
    let c = Collection::new("shared/things");
    let (mut seen_a, mut seen_b) = (a.watch(&c, "", a.revision()).unwrap(), b.watch(&c, "", b.revision()).unwrap());
    let mut writers = Vec::new();
    for (name, store) in [("a", &a), ("b", &b)] {
        let (store, c) = (store.clone(), c.clone());
        writers.push(tokio::spawn(async move {
            for n in 0..50 {
                write(&store, &store::Key::new(&c, &format!("x/{}", n % 7)), &format!("{name}{n}")).await;
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let (seen_a, seen_b) = (take(&mut seen_a, 100).await, take(&mut seen_b, 100).await);
    let told = |events: &[Arc<store::Event>]| events.iter().map(|e| (e.revision, text(e))).collect::<Vec<_>>();
    assert_eq!(told(&seen_a), told(&seen_b));
    assert!(seen_a.windows(2).all(|w| w[0].revision < w[1].revision));

    // After a sync, a read is as new as what the other one was told.
    for n in 0..20 {
        let k = store::Key::new(&c, "x/sync");
        let revision = write(&a, &k, &n.to_string()).await;
        assert!(b.sync().await.unwrap() >= revision);
        assert_eq!(b.get(&k).unwrap().revision, revision);
    }

    // A compare that the other has overtaken fails with what is there, and reads know it.
    let k = store::Key::new(&c, "x/cas");
    let first = write(&a, &k, "1").await;
    b.sync().await.unwrap();
    let second = write(&b, &k, "2").await;
    match a.write(put(&k, Expect::At(first), "3")).await {
        Err(Error::Conflict { current: Some(e) }) => assert_eq!((e.revision, &e.value[..]), (second, &b"2"[..])),
        other => panic!("{other:?}"),
    }
    assert_eq!(a.get(&k).unwrap().revision, second);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_tenants_and_junk_do_no_harm() {
    let Some(etcd) = Cluster::start(1) else { return };
    let store = open(config(etcd.urls()), Options::default()).await;
    let k = key("core/things", "a");
    let mine = write(&store, &k, "1").await;
    // The prefix is idle while etcd's revision grows: progress must be asked for.
    for n in 0..5 {
        etcd.members[0].ctl(&["put", &format!("/elsewhere/{n}"), "x"]);
    }
    assert!(store.sync().await.unwrap() >= mine + 5);
    // What we did not write reads as absent, however it got there.
    etcd.members[0].ctl(&["put", "/muster/core/things/junk", "not ours"]);
    etcd.members[0].ctl(&["put", "/muster/lonely", "not ours"]);
    store.sync().await.unwrap();
    assert!(store.get(&key("core/things", "junk")).is_none());
    let other = open(config(etcd.urls()), Options::default()).await;
    assert_eq!(items(&other, &k.collection), ["a=1"]);
    etcd.members[0].ctl(&["put", "/muster/core/things/a", "overwritten"]);
    store.sync().await.unwrap();
    assert!(store.get(&k).is_none());

    // etcd's limit is told as ours.
    let large = vec![b'x'; 2 << 20];
    assert!(matches!(store.write(put(&k, Expect::Anything, large.clone())).await, Err(Error::TooLarge { .. })));
    let bold = open(Config { max_value: 4 << 20, ..config(etcd.urls()) }, Options::default()).await;
    assert!(matches!(bold.write(put(&k, Expect::Anything, large)).await, Err(Error::TooLarge { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_two_clusters_are_refused() {
    let (Some(one), Some(two)) = (Cluster::start(1), Cluster::start(1)) else { return };
    for etcd in [&one, &two] {
        open(config(etcd.urls()), Options::default()).await;
    }
    let both = config([one.urls(), two.urls()].concat());
    let Err(Error::Unavailable(why)) = Store::etcd(both, Options::default()).await else { panic!("taken for one") };
    assert!(why.contains("another etcd"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_by_another_client_ends_in_a_new_list() {
    let Some(etcd) = Cluster::start(1) else { return };
    let proxy = Proxy::start(etcd.members[0].client).await;
    let direct = open(config(etcd.urls()), Options::default()).await;
    let c = Collection::new("core/things");
    let (kept, changed, gone) = (key("core/things", "kept"), key("core/things", "changed"), key("core/things", "gone"));
    for k in [&kept, &changed, &gone] {
        write(&direct, k, "1").await;
    }
    let quiet = key("core/quiet", "a");
    write(&direct, &quiet, "1").await;

    let patient = Config { attempt: Duration::from_millis(500), ..config(vec![proxy.url()]) };
    let store = open(patient, Options::default()).await;
    let from = store.revision();
    let mut watch = store.watch(&c, "", from).unwrap();
    let mut still = store.watch(&quiet.collection, "", from).unwrap();
    proxy.set(Mode::Cut);
    write(&direct, &changed, "2").await;
    write(&direct, &key("core/things", "brief"), "1").await;
    direct.write(delete(&key("core/things", "brief"), Expect::Anything)).await.unwrap();
    direct.write(delete(&gone, Expect::Anything)).await.unwrap();
    let last = write(&direct, &changed, "3").await;
    etcd.members[0].ctl(&["compact", &last.to_string()]);
    assert_eq!(store.get(&changed).unwrap().value, "1", "cut off, it still reads what it had");
    proxy.set(Mode::Pass);
    eventually("the new list", || store.revision() >= last).await;

    assert_eq!(items(&store, &c), ["changed=3", "kept=1"]);
    assert_eq!(store.get(&kept).unwrap().revision, direct.get(&kept).unwrap().revision);
    let mut out = Vec::new();
    assert!(matches!(watch.next(10, &mut out).await, Err(Error::Compacted { .. })), "the gap is told, not hidden");
    assert!(matches!(store.watch(&c, "", from), Err(Error::Compacted { .. })));
    let between = Range { collection: &c, prefix: "", after: None, limit: 0, at: Some(last - 1) };
    assert!(matches!(store.range(&between, |_, _| true), Err(Error::Compacted { .. })));
    // Who missed nothing goes on, and so does everyone from here.
    let mut fresh = store.watch(&c, "", store.revision()).unwrap();
    write(&direct, &quiet, "2").await;
    assert_eq!(text(&take(&mut still, 1).await[0]), "a=2");
    write(&direct, &kept, "2").await;
    assert_eq!(text(&take(&mut fresh, 1).await[0]), "kept=2");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_take_turns_compacting_etcd() {
    let Some(etcd) = Cluster::start(1) else { return };
    let clock = Arc::new(StillClock::default());
    let history = History { keep: Duration::from_secs(10), min_events: 0, ..History::default() };
    let options = Options { clock: clock.clone(), history, tick: None, ..Options::default() };
    let a = open(config(etcd.urls()), options.clone()).await;
    let b = open(config(etcd.urls()), options).await;
    let k = key("core/things", "a");
    let old = write(&a, &k, "1").await;
    let readable = |revision: u64| {
        etcd.members[0].try_ctl(&["get", &format!("--rev={revision}"), "/muster/core/things/a"]).is_ok()
    };
    for store in [&a, &b] {
        store.tend().await.unwrap();
    }
    assert!(readable(old), "young history is kept");
    let mut newest = 0;
    for n in 0..3 {
        newest = write(&a, &k, &n.to_string()).await;
        b.sync().await.unwrap();
        a.tend().await.unwrap();
        b.tend().await.unwrap();
        clock.pass(Duration::from_secs(11));
        write(&a, &k, &n.to_string()).await;
        b.sync().await.unwrap();
    }
    a.tend().await.unwrap();
    b.tend().await.unwrap();
    assert!(a.oldest() >= newest && b.oldest() >= newest);
    assert!(!readable(old) && !readable(newest - 1), "one of them compacted etcd");
    assert_eq!(a.get(&k).unwrap().value, "2");
}
