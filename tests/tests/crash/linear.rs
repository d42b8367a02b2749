//! What clients read, listed, wrote and watched across kills is one history in which every answer was true (F-1, F-3): the store's own checker judges it.
//!
//! Everybody works on the same few objects. The watchers resume over every restart and see all there is, so a write without an answer that they did not see
//! did not happen, and the checker is told so.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use muster_tests::{Kind, PATIENCE, Peer, Watch, eventually};
use serde_json::{Value, json};
use store::Expect;
use store::testing::history::{Act, Op, Outcome, Seen, Watched, check};

use super::random;

const CLIENTS: u64 = 8;
const NAMES: u64 = 4;
/// So many writes are acknowledged between two kills, at least.
const WRITTEN: u64 = 4;
/// The object whose creation ends the watches.
const END: &str = "end";

/// An operation as it was recorded. The answer to a deletion names a uid, and only watchers know the revision.
struct Recorded {
    op: Op,
    deleted: Option<String>,
}

/// An event: revision, name, what it holds (nothing = deleted), uid.
type Delivered = (u64, String, Option<String>, String);

struct Run {
    peer: Peer,
    maps: String,
    /// Counts moments: every beginning and every end is one.
    time: AtomicU64,
    /// Acknowledged writes.
    written: AtomicU64,
    stop: AtomicBool,
}

impl Run {
    fn now(&self) -> u64 {
        self.time.fetch_add(1, Ordering::SeqCst)
    }
}

// F-1, F-3
pub async fn what_clients_saw_across_kills_is_one_history(cycles: u64, mut seed: u64) {
    println!("seed {seed}, {cycles} cycles");
    let peer = Peer::start(Kind::Muster).await.unwrap_or_else(|why| panic!("{why}"));
    let maps = format!("/api/v1/namespaces/{}/configmaps", peer.namespace().await);
    let run = Run { peer, maps, time: AtomicU64::new(0), written: AtomicU64::new(0), stop: AtomicBool::new(false) };
    let run = Arc::new(run);
    let from = revision(&run.peer.get(&run.maps).await.ok(200));
    let watchers: Vec<_> = (0..2).map(|_| tokio::spawn(follow(run.clone(), from))).collect();
    let mut recorded = Vec::new();
    for cycle in 0..cycles {
        run.stop.store(false, Ordering::SeqCst);
        let before = run.written.load(Ordering::SeqCst);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|c| tokio::spawn(client(run.clone(), c, cycle, seed ^ (cycle << 16) ^ (c << 8) | 1)))
            .collect();
        tokio::time::sleep(Duration::from_millis(100 + random(&mut seed, 300))).await;
        // However slow the machine is, there is something to lose.
        eventually("they write", || async { run.written.load(Ordering::SeqCst) > before + WRITTEN }).await;
        run.peer.kill();
        run.stop.store(true, Ordering::SeqCst);
        run.peer.launch().unwrap();
        // Those who ask again meet a server that comes up: its first answers count too.
        run.peer.ready_again(PATIENCE).await.unwrap_or_else(|why| panic!("cycle {cycle}: {why}"));
        for client in clients {
            recorded.extend(client.await.unwrap());
        }
    }
    let began = run.now();
    let end = revision(&run.peer.post(&run.maps, json!({"metadata": {"name": END}, "data": {"v": END}})).await.ok(201));
    let act = write(END, Expect::Absent, Some(END), Outcome::Done(end));
    recorded.push(Recorded { op: Op { began, ended: run.now(), act }, deleted: None });

    let mut watches = Vec::new();
    for watcher in watchers {
        let ended = tokio::time::timeout(PATIENCE, watcher).await;
        watches.push(ended.expect("a watcher did not catch up").unwrap());
    }
    assert_eq!(watches[0], watches[1], "watchers saw different histories");
    let ops = settle(recorded, &watches[0]);
    let watched: Vec<Watched> = watches
        .iter()
        .map(|all| Watched {
            prefix: String::new(),
            from,
            upto: end,
            events: all.iter().map(|(at, name, value, _)| (*at, name.clone(), value.clone())).collect(),
        })
        .collect();
    assert_eq!(check(&ops, &watched), []);
    is_telling(&ops, &watched, cycles);
    assert_eq!(run.peer.panic_in_log(), None);
}

/// The history holds enough of everything to prove something, and the checker sees when something is taken out of it.
fn is_telling(ops: &[Op], watched: &[Watched], cycles: u64) {
    let count = |is: fn(&Act) -> bool| ops.iter().filter(|op| is(&op.act)).count();
    let done = count(|act| matches!(act, Act::Write { outcome: Outcome::Done(_), .. }));
    let doubtful = count(|act| matches!(act, Act::Write { outcome: Outcome::Unknown | Outcome::Failed, .. }));
    let (gets, lists) = (count(|act| matches!(act, Act::Get { .. })), count(|act| matches!(act, Act::List { .. })));
    println!(
        "{done} writes, {doubtful} without an answer, {gets} gets, {lists} lists, {} events",
        watched[0].events.len()
    );
    assert!(done as u64 > cycles * WRITTEN && gets as u64 > cycles && lists as u64 > cycles, "too little happened");
    let mut poorer = ops.to_vec();
    let at = poorer.iter().position(|op| matches!(op.act, Act::Write { outcome: Outcome::Done(_), .. })).unwrap();
    poorer.remove(at);
    assert_ne!(check(&poorer, watched), [], "a write nobody made went unseen");
    let mut shorter = watched.to_vec();
    let middle = shorter[0].events.len() / 2;
    shorter[0].events.remove(middle);
    assert_ne!(check(ops, &shorter), [], "a lost event went unseen");
    let mut staler = ops.to_vec();
    let last = staler.iter_mut().filter(|op| matches!(op.act, Act::List { .. })).max_by_key(|op| op.began).unwrap();
    if let Act::List { revision, items, .. } = &mut last.act {
        *revision = watched[0].events[0].0;
        items.clear();
    }
    assert_ne!(check(&staler, watched), [], "a stale list went unseen");
}

fn write(name: &str, expect: Expect, value: Option<&str>, outcome: Outcome) -> Act {
    Act::Write { key: name.to_owned(), expect, value: value.map(str::to_owned), outcome }
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).expect("a revision")
}

fn value(object: &Value) -> String {
    object["data"]["v"].as_str().unwrap_or("").to_owned()
}

fn seen(object: &Value) -> Seen {
    Seen { revision: revision(object), value: value(object) }
}

/// One client: reads, lists and writes the shared objects, until it has been told to stop and a last read was answered.
async fn client(run: Arc<Run>, number: u64, cycle: u64, mut seed: u64) -> Vec<Recorded> {
    let mut all = Vec::new();
    let mut known: BTreeMap<String, u64> = BTreeMap::new();
    for step in 0.. {
        let stopping = run.stop.load(Ordering::SeqCst);
        let name = format!("n{}", random(&mut seed, NAMES));
        let roll = if stopping { random(&mut seed, 4) } else { random(&mut seed, 12) };
        let fresh = format!("{cycle}-{number}-{step}");
        let began = run.now();
        let recorded = act(&run, roll, &name, &fresh, known.get(&name).copied()).await;
        let ended = run.now();
        let answered = recorded.is_some();
        if let Some((act, deleted)) = recorded {
            match &act {
                Act::Get { seen: Some(seen), .. } => drop(known.insert(name, seen.revision)),
                Act::Write { outcome: Outcome::Done(at), .. } => {
                    run.written.fetch_add(1, Ordering::SeqCst);
                    known.insert(name, *at);
                }
                _ => {}
            }
            all.push(Recorded { op: Op { began, ended, act }, deleted });
        } else {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        if stopping && answered {
            break;
        }
    }
    all
}

/// One operation; nothing when a read was not answered.
async fn act(run: &Run, roll: u64, name: &str, fresh: &str, known: Option<u64>) -> Option<(Act, Option<String>)> {
    let path = format!("{}/{name}", run.maps);
    let limit = PATIENCE;
    let absent = || Act::Get { key: name.to_owned(), seen: None };
    let body = |at: Option<u64>| {
        let mut body = json!({"metadata": {"name": name}, "data": {"v": fresh}});
        if let Some(at) = at {
            body["metadata"]["resourceVersion"] = json!(at.to_string());
        }
        body
    };
    match roll {
        0 | 1 => {
            let answer = run.peer.call("GET", &path).limit(limit).try_send().await.ok()?;
            Some(match answer.status {
                200 => (Act::Get { key: name.to_owned(), seen: Some(seen(&answer.json())) }, None),
                404 => (absent(), None),
                _ => return not_ready(&answer.text()),
            })
        }
        2 | 3 => {
            let answer = run.peer.call("GET", &run.maps).limit(limit).try_send().await.ok()?;
            if answer.status != 200 {
                return not_ready(&answer.text());
            }
            let list = answer.json();
            let item = |item: &Value| (item["metadata"]["name"].as_str().unwrap_or("").to_owned(), seen(item));
            let items = list["items"].as_array().unwrap().iter().map(item).collect();
            Some((Act::List { prefix: String::new(), revision: revision(&list), past: false, items }, None))
        }
        _ => {
            let (expect, put) = match (roll, known) {
                (4..=6, _) => (Expect::Absent, run.peer.call("POST", &run.maps).body(body(None))),
                (7 | 8, Some(at)) => (Expect::At(at), run.peer.call("PUT", &path).body(body(Some(at)))),
                (9 | 10, _) => (Expect::Anything, run.peer.call("PUT", &path).body(body(None))),
                _ => return delete(run, name, &path).await,
            };
            let told = |outcome| Some((write(name, expect, Some(fresh), outcome), None));
            let Ok(answer) = put.limit(limit).try_send().await else { return told(Outcome::Unknown) };
            match answer.status {
                200 | 201 => told(Outcome::Done(revision(&answer.json()))),
                409 => told(Outcome::Refused(None)),
                // What is not there cannot be replaced: that is a reading.
                404 => Some((absent(), None)),
                _ => not_ready(&answer.text()),
            }
        }
    }
}

async fn delete(run: &Run, name: &str, path: &str) -> Option<(Act, Option<String>)> {
    let told = |uid| Some((write(name, Expect::Anything, None, Outcome::Unknown), uid));
    let Ok(answer) = run.peer.call("DELETE", path).limit(PATIENCE).try_send().await else {
        return told(None);
    };
    match answer.status {
        200 => told(Some(answer.json()["details"]["uid"].as_str().expect("the uid of what was deleted").to_owned())),
        404 => Some((Act::Get { key: name.to_owned(), seen: None }, None)),
        _ => not_ready(&answer.text()),
    }
}

/// A server that has just come up may ask for patience; anything else would be a finding.
fn not_ready<T>(text: &str) -> Option<T> {
    let status: Value = serde_json::from_str(text).unwrap_or_default();
    assert!(matches!(status["code"].as_u64(), Some(429 | 503)), "{text}");
    None
}

/// With what the watchers saw, the fate of every write is known: deletions get their revision, and what nobody saw did not happen.
fn settle(recorded: Vec<Recorded>, events: &[Delivered]) -> Vec<Op> {
    let gone: BTreeMap<&str, u64> =
        events.iter().filter(|event| event.2.is_none()).map(|(at, _, _, uid)| (uid.as_str(), *at)).collect();
    let values: BTreeSet<&str> = events.iter().filter_map(|event| event.2.as_deref()).collect();
    let claimed: BTreeSet<String> = recorded.iter().filter_map(|r| r.deleted.clone()).collect();
    // Deletions that somebody saw and nobody was told of, by name.
    let mut open: BTreeMap<String, usize> = BTreeMap::new();
    for (_, name, value, uid) in events {
        if value.is_none() && !claimed.contains(uid) {
            *open.entry(name.clone()).or_default() += 1;
        }
    }
    let settled = recorded.into_iter().map(|mut recorded| {
        if let Act::Write { key, value, outcome, .. } = &mut recorded.op.act
            && *outcome == Outcome::Unknown
        {
            *outcome = match (&recorded.deleted, value) {
                (Some(uid), _) => Outcome::Done(
                    *gone.get(uid.as_str()).unwrap_or_else(|| panic!("nobody saw the deletion of {key} {uid}")),
                ),
                (None, Some(value)) if values.contains(value.as_str()) => Outcome::Unknown,
                (None, None) if open.get(key).is_some_and(|n| *n > 0) => {
                    open.entry(key.clone()).and_modify(|n| *n -= 1);
                    Outcome::Unknown
                }
                _ => Outcome::Failed,
            };
        }
        recorded.op
    });
    settled.collect()
}

/// Watches over all restarts, from the last revision seen, until the last object shows up.
async fn follow(run: Arc<Run>, mut from: u64) -> Vec<Delivered> {
    let mut all = Vec::new();
    loop {
        let path = format!("{}?watch=true&resourceVersion={from}", run.maps);
        let Ok(mut watch) = Watch::try_open(&run.peer, &path, None).await else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        while let Some(event) = watch.advance().await {
            let (kind, object) = (event["type"].as_str().unwrap_or(""), &event["object"]);
            assert!(matches!(kind, "ADDED" | "MODIFIED" | "DELETED"), "resuming from {from}: {event}");
            from = revision(object);
            let name = object["metadata"]["name"].as_str().unwrap_or("").to_owned();
            let uid = object["metadata"]["uid"].as_str().unwrap_or("").to_owned();
            let ends = name == END;
            all.push((from, name, (kind != "DELETED").then(|| value(object)), uid));
            if ends {
                return all;
            }
        }
    }
}
