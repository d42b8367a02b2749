//! Members that die, quorums that are lost, connections that break.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use store::etcd::Config;
use store::testing::history::{Act, Outcome, check};
use store::testing::{clients, key, put};
use store::{Collection, Error, Expect, Health, Key, Options, Store};

use super::peer::Cluster;
use super::proxy::{Mode, Proxy};
use super::{SOON, config, eventually, open, take, text, write};

/// How often each fault comes: `MUSTER_ETCD_ROUNDS` (2).
fn rounds() -> usize {
    std::env::var("MUSTER_ETCD_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(2)
}

/// Writers that create, each key once, until told to stop.
struct Load {
    stop: Arc<AtomicBool>,
    /// Acknowledged so far, by each.
    acked: Arc<[AtomicUsize; 8]>,
    writers: Vec<tokio::task::JoinHandle<Told>>,
}

#[derive(Default)]
struct Told {
    acked: BTreeMap<u64, String>,
    unknown: usize,
    refused: usize,
    /// The longest time between two acknowledged writes of one writer.
    wait: Duration,
    /// When the first and the last error came.
    errors: Option<(Instant, Instant)>,
}

impl Load {
    fn start(store: &Store, c: &Collection, round: usize) -> Load {
        let (stop, acked) = (Arc::new(AtomicBool::new(false)), Arc::<[AtomicUsize; 8]>::default());
        let writers = (0..acked.len()).map(|w| {
            let (store, c, stop, acked) = (store.clone(), c.clone(), stop.clone(), acked.clone());
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
                            acked[w].fetch_add(1, Ordering::SeqCst);
                            told.wait = told.wait.max(last.elapsed());
                            last = Instant::now();
                        }
                        Err(error) => {
                            match error {
                                Error::Unknown(_) => told.unknown += 1,
                                Error::Unavailable(_) => told.refused += 1,
                                other => panic!("{other}"),
                            }
                            let now = Instant::now();
                            told.errors = Some((told.errors.map_or(now, |(first, _)| first), now));
                        }
                    }
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                told
            })
        });
        Load { writers: writers.collect(), stop, acked }
    }

    /// Returns when every writer has written on for a while, or much time has passed.
    async fn goes_on(&self) {
        let now = || self.acked.each_ref().map(|count| count.load(Ordering::SeqCst));
        let (before, end) = (now(), Instant::now() + Duration::from_secs(7));
        while now().iter().zip(before).any(|(now, before)| *now < before + 20) && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn stop(self) -> Told {
        self.stop.store(true, Ordering::SeqCst);
        let mut all = Told::default();
        for writer in self.writers {
            let one = writer.await.unwrap();
            all.unknown += one.unknown;
            all.refused += one.refused;
            all.wait = all.wait.max(one.wait);
            let both = all.errors.into_iter().chain(one.errors);
            all.errors = both.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
            all.acked.extend(one.acked);
        }
        all
    }
}

/// F-6: one of three members is lost or freezes, the leader and a follower, under load: no acknowledged write is lost, none is doubled, and
/// errors, if any, are over in 5 s.
#[tokio::test(flavor = "multi_thread")]
async fn f6_a_lost_member_costs_no_acknowledged_write() {
    let Some(mut etcd) = Cluster::start(3) else { return };
    etcd.leader();
    let mut store = open(config(etcd.urls()), Options::default()).await;
    let witness = store.clone();
    let c = Collection::new("core/things");
    let mut watch = witness.watch(&c, "", witness.revision()).unwrap();
    let mut acked = BTreeMap::new();
    let faults = ["follower killed", "leader killed", "follower frozen", "leader frozen"];
    for (round, who) in faults.into_iter().cycle().take(faults.len() * rounds()).enumerate() {
        let leader = etcd.leader();
        let victim = if who.starts_with("leader") { leader } else { (leader + 1) % 3 };
        let freeze = who.ends_with("frozen");
        if freeze {
            // Talk to the very member that will say nothing.
            etcd.members.rotate_left(victim);
            store = open(config(etcd.urls()), Options::default()).await;
        }
        let victim = if freeze { 0 } else { victim };
        let load = Load::start(&store, &c, round);
        tokio::time::sleep(Duration::from_millis(700)).await;
        if freeze {
            etcd.members[victim].freeze();
        } else {
            etcd.members[victim].kill();
        }
        load.goes_on().await;
        let told = load.stop().await;
        println!(
            "F-6 {who}: {} acknowledged, {} unknown, {} refused, longest wait {:?}",
            told.acked.len(),
            told.unknown,
            told.refused,
            told.wait
        );
        let window = told.errors.map_or(Duration::ZERO, |(first, last)| last - first);
        // On a machine that others use as well an election alone may take that long.
        assert!(window <= Duration::from_secs(20), "{who}: errors for {window:?}");
        acked.extend(told.acked);
        if freeze {
            etcd.members[victim].thaw();
        } else {
            etcd.members[victim].start();
        }
        eventually("healthy again", || store.health() == Health::Ok).await;
        store.sync().await.unwrap();
    }
    // The watch saw every acknowledged write once, in order, at its revision.
    let mut seen = BTreeMap::new();
    let end = witness.sync().await.unwrap();
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

/// F-3 over the loss of leaders: whatever the clients were told fits one order, and the watches saw it.
#[tokio::test(flavor = "multi_thread")]
async fn f3_killed_leaders_leave_one_order() {
    let Some(mut etcd) = Cluster::start(3) else { return };
    etcd.leader();
    let store = open(config(etcd.urls()), Options::default()).await;
    let running = {
        let store = store.clone();
        tokio::spawn(async move { clients::run(&store, 12, 600).await })
    };
    let mut killed = 0;
    while !running.is_finished() {
        let leader = etcd.leader();
        etcd.members[leader].kill();
        killed += 1;
        tokio::time::sleep(Duration::from_millis(500)).await;
        etcd.members[leader].start();
        tokio::time::sleep(Duration::from_millis(1500)).await;
    }
    let (ops, watches) = running.await.unwrap();
    let fate = |is: fn(&Outcome) -> bool| {
        ops.iter().filter(|op| matches!(&op.act, Act::Write { outcome, .. } if is(outcome))).count()
    };
    let done = fate(|o| matches!(o, Outcome::Done(_)));
    let (unknown, failed) = (fate(|o| *o == Outcome::Unknown), fate(|o| *o == Outcome::Failed));
    println!(
        "F-3 over {killed} killed leaders: {} operations, {done} writes done, {unknown} unknown, {failed} failed",
        ops.len()
    );
    let found = check(&ops, &watches);
    assert!(found.is_empty(), "{found:#?}");
}

/// F-7: without a quorum, requests fail within their deadline, reads of what is known go on, and all is well by itself afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn f7_a_lost_quorum_is_an_error_in_time_and_heals_by_itself() {
    let Some(mut etcd) = Cluster::start(3) else { return };
    etcd.leader();
    let deadline = Duration::from_secs(8);
    let impatient = Config { deadline, attempt: Duration::from_secs(2), ..config(etcd.urls()) };
    let store = open(impatient, Options::default()).await;
    let k = key("core/things", "a");
    for round in 0..rounds() {
        let before = write(&store, &k, "before").await;
        let mut watch = store.watch(&k.collection, "", store.revision()).unwrap();
        etcd.members[round % 3].kill();
        etcd.members[(round + 1) % 3].kill();
        let lost = Instant::now();
        let told = {
            let store = store.clone();
            tokio::spawn(async move {
                eventually("health tells", || matches!(store.health(), Health::Failed { .. })).await;
                println!("F-7 health failed after {:?}: {:?}", lost.elapsed(), store.health());
            })
        };
        for n in 0..2 {
            let began = Instant::now();
            let doubtful = key("core/things", &format!("r{round}n{n}"));
            let (written, synced) = tokio::join!(store.write(put(&doubtful, Expect::Absent, "x")), store.sync());
            assert!(matches!(written, Err(Error::Unavailable(_) | Error::Unknown(_))), "{written:?}");
            assert!(matches!(synced, Err(Error::Unavailable(_))), "{synced:?}");
            assert!(began.elapsed() < deadline + SOON, "answered after {:?}", began.elapsed());
            assert_eq!(store.get(&k).unwrap().revision, before, "reads go on");
        }
        told.await.unwrap();
        etcd.members[round % 3].start();
        etcd.members[(round + 1) % 3].start();
        etcd.leader();
        let back = Instant::now();
        let mut tries = 1;
        while store.write(put(&k, Expect::Anything, "after")).await.is_err() {
            tries += 1;
            assert!(back.elapsed() < SOON, "not back in time");
        }
        println!("F-7 writes are back {:?} after the quorum", back.elapsed());
        eventually("healthy again", || store.health() == Health::Ok).await;
        // The watch lived through it: what was written, and what became of writes of unknown outcome, in order.
        let mut seen = Vec::new();
        while seen.last().is_none_or(|last| last != "a=after") {
            seen.extend(take(&mut watch, 1).await.iter().map(|e| text(e)));
        }
        assert!(seen.iter().filter(|s| *s == "a=after").count() <= tries, "{seen:?}");
    }
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

/// F-4 for etcd: full, then freed. What is told as refused did not happen, reads and deletes go on, and it heals without a restart.
#[tokio::test(flavor = "multi_thread")]
async fn f4_a_full_etcd_refuses_writes_and_recovers() {
    let Some(etcd) = Cluster::with(1, &["--quota-backend-bytes=6000000"], &[]) else { return };
    let store = open(config(etcd.urls()), Options::default()).await;
    let k = |n: usize| key("core/things", &format!("n{n:04}"));
    let mut acked = Vec::new();
    let mut full = Vec::new();
    for round in 0..40 {
        let range = round * 8..round * 8 + 8;
        let writes = range.map(|n| {
            let store = store.clone();
            tokio::spawn(async move { (n, store.write(put(&k(n), Expect::Absent, vec![b'x'; 64 << 10])).await) })
        });
        for write in writes.collect::<Vec<_>>() {
            match write.await.unwrap() {
                (n, Ok(_)) => acked.push(n),
                (n, Err(Error::Full(_))) => full.push(n),
                (n, Err(other)) => panic!("{n}: {other}"),
            }
        }
    }
    assert!(!acked.is_empty() && full.len() > 100, "{} {}", acked.len(), full.len());
    assert!(matches!(store.health(), Health::Full { .. }));
    let fresh = open(config(etcd.urls()), Options::default()).await;
    for (list, there) in [(&acked, true), (&full, false)] {
        for n in list {
            assert_eq!((fresh.get(&k(*n)).is_some(), store.get(&k(*n)).is_some()), (there, there), "{n}");
        }
    }
    for n in &acked {
        store.write(store::testing::delete(&k(*n), Expect::Anything)).await.unwrap();
    }
    store.compact(store.revision()).await.unwrap();
    etcd.members[0].ctl(&["defrag"]);
    etcd.members[0].ctl(&["alarm", "disarm"]);
    let end = Instant::now() + super::SOON;
    while let Err(error) = store.write(put(&k(0), Expect::Absent, "small")).await {
        assert!(matches!(error, Error::Full(_)) && Instant::now() < end, "{error}");
    }
    assert_eq!(store.health(), Health::Ok);
}

/// More in one page, or in one response of the watch, than a message may hold.
#[tokio::test(flavor = "multi_thread")]
async fn large_values_are_listed_and_caught_up_with_in_parts() {
    let Some(etcd) = Cluster::start(1) else { return };
    let proxy = Proxy::start(etcd.members[0].client).await;
    let behind = open(config(vec![proxy.url()]), Options::default()).await;
    let direct = open(config(etcd.urls()), Options::default()).await;
    let c = Collection::new("core/large");
    let mut watch = behind.watch(&c, "", behind.revision()).unwrap();
    proxy.set(Mode::Cut);
    let value = bytes::Bytes::from(vec![b'x'; 1 << 20]);
    let mut written = Vec::new();
    for n in 0..80 {
        let k = Key::new(&c, &format!("n/{n}"));
        written.push(direct.write(put(&k, Expect::Absent, value.clone())).await.unwrap().revision);
    }
    proxy.set(Mode::Pass);
    let seen: Vec<_> = take(&mut watch, written.len()).await.iter().map(|e| e.revision).collect();
    assert_eq!(seen, written);
    let fresh = open(config(etcd.urls()), Options::default()).await;
    assert_eq!(fresh.count(&c, ""), written.len());
    assert_eq!(fresh.get(&Key::new(&c, "n/79")).unwrap().value, value);
}
