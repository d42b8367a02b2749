//! Members that die, quorums that are lost, connections that break.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use store::etcd::Config;
use store::testing::{key, put};
use store::{Collection, Error, Expect, Health, Key, Options, Store};

use super::peer::Cluster;
use super::proxy::{Mode, Proxy};
use super::{config, eventually, open, take, text, write};

/// Writers that create, each key once, until told to stop.
struct Load {
    stop: Arc<AtomicBool>,
    writers: Vec<tokio::task::JoinHandle<Told>>,
}

#[derive(Default)]
struct Told {
    acked: BTreeMap<u64, String>,
    unknown: usize,
    refused: usize,
    /// The longest time between two acknowledged writes of one writer.
    window: Duration,
}

impl Load {
    fn start(store: &Store, c: &Collection, round: usize) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let writers = (0..8).map(|w| {
            let (store, c, stop) = (store.clone(), c.clone(), stop.clone());
            tokio::spawn(async move {
                let mut told = Told::default();
                let mut last = Instant::now();
                for n in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let item = format!("r{round}w{w}/{n}");
                    match store.write(put(&Key::new(&c, &item), Expect::Absent, item.clone())).await {
                        Ok(written) => {
                            told.acked.insert(written.revision, item);
                            told.window = told.window.max(last.elapsed());
                            last = Instant::now();
                        }
                        Err(Error::Unknown(_)) => told.unknown += 1,
                        Err(Error::Unavailable(_)) => told.refused += 1,
                        Err(other) => panic!("{other}"),
                    }
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                told
            })
        });
        Load { writers: writers.collect(), stop }
    }

    async fn stop(self) -> Told {
        self.stop.store(true, Ordering::SeqCst);
        let mut all = Told::default();
        for writer in self.writers {
            let one = writer.await.unwrap();
            all.unknown += one.unknown;
            all.refused += one.refused;
            all.window = all.window.max(one.window);
            all.acked.extend(one.acked);
        }
        all
    }
}

/// F-6: one of three members is lost, the leader and a follower, under load: no acknowledged write is lost, none is doubled, and
/// the time without acknowledgements is bounded.
#[tokio::test(flavor = "multi_thread")]
async fn f6_a_lost_member_costs_no_acknowledged_write() {
    let Some(mut etcd) = Cluster::start(3) else { return };
    etcd.leader();
    let store = open(config(etcd.urls()), Options::default()).await;
    let c = Collection::new("core/things");
    let mut watch = store.watch(&c, "", store.revision()).unwrap();
    let mut acked = BTreeMap::new();
    for (round, who) in ["follower", "leader", "follower", "leader"].into_iter().enumerate() {
        let leader = etcd.leader();
        let victim = if who == "leader" { leader } else { (leader + 1) % 3 };
        let load = Load::start(&store, &c, round);
        tokio::time::sleep(Duration::from_millis(700)).await;
        etcd.members[victim].kill();
        tokio::time::sleep(Duration::from_secs(4)).await;
        let told = load.stop().await;
        println!(
            "F-6 {who} killed: {} acknowledged, {} unknown, {} refused, longest wait {:?}",
            told.acked.len(),
            told.unknown,
            told.refused,
            told.window
        );
        assert!(told.window < Duration::from_secs(5), "{who}: {:?} without an acknowledged write", told.window);
        acked.extend(told.acked);
        etcd.members[victim].start();
        eventually("healthy again", || store.health() == Health::Ok).await;
        store.sync().await.unwrap();
    }
    // The watch saw every acknowledged write once, in order, at its revision.
    let mut seen = BTreeMap::new();
    let end = store.sync().await.unwrap();
    while watch.revision() < end {
        for event in take(&mut watch, 1).await {
            let last = seen.last_key_value().map_or(0, |(r, _)| *r);
            assert!(event.revision > last, "in order, once");
            seen.insert(event.revision, event.key.item.to_string());
        }
    }
    for (revision, item) in &acked {
        assert_eq!(seen.get(revision), Some(item));
    }
    // And etcd has them, asked anew.
    let fresh = open(config(etcd.urls()), Options::default()).await;
    for (revision, item) in &acked {
        assert_eq!(fresh.get(&Key::new(&c, item)).map(|e| e.revision), Some(*revision));
    }
    assert_eq!(fresh.count(&c, ""), seen.len());
}

/// F-7: without a quorum, requests fail within their deadline, reads of what is known go on, and all is well by itself afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn f7_a_lost_quorum_is_an_error_in_time_and_heals_by_itself() {
    let Some(mut etcd) = Cluster::start(3) else { return };
    etcd.leader();
    let deadline = Duration::from_secs(3);
    let impatient = Config { deadline, attempt: Duration::from_secs(1), ..config(etcd.urls()) };
    let store = open(impatient, Options::default()).await;
    let k = key("core/things", "a");
    let before = write(&store, &k, "1").await;
    let mut watch = store.watch(&k.collection, "", store.revision()).unwrap();
    etcd.members[0].kill();
    etcd.members[1].kill();
    let lost = Instant::now();
    let told = {
        let store = store.clone();
        tokio::spawn(async move {
            eventually("health tells", || matches!(store.health(), Health::Failed { .. })).await;
            println!("F-7 health failed after {:?}: {:?}", lost.elapsed(), store.health());
        })
    };
    for n in 0..4 {
        let began = Instant::now();
        let (written, synced) =
            tokio::join!(store.write(put(&key("core/things", &format!("n{n}")), Expect::Absent, "x")), store.sync());
        assert!(matches!(written, Err(Error::Unavailable(_) | Error::Unknown(_))), "{written:?}");
        assert!(matches!(synced, Err(Error::Unavailable(_))), "{synced:?}");
        assert!(began.elapsed() < deadline + Duration::from_secs(2), "answered after {:?}", began.elapsed());
        assert_eq!(store.get(&k).unwrap().revision, before, "reads go on");
    }
    told.await.unwrap();
    etcd.members[0].start();
    etcd.members[1].start();
    etcd.leader();
    let back = Instant::now();
    while store.write(put(&k, Expect::Anything, "2")).await.is_err() {
        assert!(back.elapsed() < Duration::from_secs(10), "not back in time");
    }
    println!("F-7 writes are back {:?} after the quorum", back.elapsed());
    eventually("healthy again", || store.health() == Health::Ok).await;
    // The watch lived through it: what was written, and what became of writes of unknown outcome, in order.
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| last != "a=2") {
        seen.extend(take(&mut watch, 1).await.iter().map(|e| text(e)));
    }
    assert_eq!(seen.iter().filter(|s| *s == "a=2").count(), 1);
}

/// The stream of events breaks in every way we know, while another server writes: nothing is skipped, nothing repeated.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_survives_cuts_black_holes_and_delays() {
    let Some(etcd) = Cluster::start(1) else { return };
    let one = Proxy::start(etcd.members[0].client).await;
    let two = Proxy::start(etcd.members[0].client).await;
    let quick = Config { attempt: Duration::from_millis(500), ..config(vec![one.url(), two.url()]) };
    let store = open(quick, Options::default()).await;
    let direct = open(config(etcd.urls()), Options::default()).await;
    let c = Collection::new("core/things");
    let mut watch = store.watch(&c, "", store.revision()).unwrap();
    let writer = {
        let (direct, c) = (direct.clone(), c.clone());
        tokio::spawn(async move {
            let mut written = Vec::new();
            for n in 0..600 {
                written.push(write(&direct, &Key::new(&c, &format!("n/{}", n % 10)), &n.to_string()).await);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            written
        })
    };
    let modes =
        [Mode::Cut, Mode::Pass, Mode::BlackHole, Mode::Pass, Mode::Delay(Duration::from_millis(40)), Mode::Mute];
    let mut turn = 0;
    while !writer.is_finished() {
        one.set(modes[turn % modes.len()]);
        two.set(modes[(turn / 2 + 3) % modes.len()]);
        turn += 1;
        // Someone who waits for the newest is what makes a silent stream noticed at once.
        let _ = tokio::time::timeout(Duration::from_millis(250), store.sync()).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    one.set(Mode::Pass);
    two.set(Mode::Pass);
    let written = writer.await.unwrap();
    store.sync().await.unwrap();
    let seen: Vec<_> = take(&mut watch, written.len()).await.iter().map(|e| e.revision).collect();
    assert_eq!(seen, written);
    assert!(store.oldest() < written[0], "without a new list");
}
