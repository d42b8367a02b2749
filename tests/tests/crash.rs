//! F-1, F-3: kill -9 under load again and again; a checker reads the recorded history. F-4: a full disk, then a freed one.
//!
//! The history is checked, not the timing: every acknowledged write is there after the restart, revisions never go back, and watches that
//! resume from the last revision they saw deliver every change once and in order. F-18: a kill in the middle of a backup (`backup`). What all clients
//! saw across kills is judged as one history (`linear`), a large store comes back in time (`many`), a damaged one is refused (F-5, `damage`). `MUSTER_CRASH_CYCLES` sets the number of kills.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "crash/backup.rs"]
mod backup;
#[path = "crash/damage.rs"]
mod damage;
#[path = "crash/linear.rs"]
mod linear;
#[path = "crash/many.rs"]
mod many;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use muster_tests::peer::Settings;
use muster_tests::runner::{arguments, install_panic_hook};
use muster_tests::{Kind, PATIENCE, Peer, Watch, eventually};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WRITERS: usize = 8;
const OBJECTS: usize = 3;

fn main() {
    install_panic_hook();
    let arguments = arguments();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut failed = 0;
    let names = [
        "the_checker_catches_what_it_should",
        "kill_minus_nine_loses_nothing",
        "full_disk_recovers",
        "a_definition_goes_on_going_after_a_kill",
        "a_backup_killed_in_the_middle_leaves_nothing",
        "what_clients_saw_across_kills_is_one_history",
        "rot_is_refused_and_a_backup_brings_everything_back",
        "a_hundred_thousand_objects_are_back_after_a_kill",
    ];
    for (case, name) in names.into_iter().enumerate() {
        if arguments.list {
            println!("{name}: test");
        } else if arguments.wants(name) {
            let task = runtime.spawn(async move {
                match case {
                    0 => the_checker_catches_what_it_should().await,
                    1 => kill_minus_nine_loses_nothing().await,
                    2 => full_disk_recovers().await,
                    3 => a_definition_goes_on_going_after_a_kill().await,
                    4 => backup::a_backup_killed_in_the_middle_leaves_nothing().await,
                    5 => linear::what_clients_saw_across_kills_is_one_history(cycles().div_ceil(3), seed()).await,
                    6 => damage::rot_is_refused_and_a_backup_brings_everything_back().await,
                    _ => many::a_hundred_thousand_objects_are_back_after_a_kill().await,
                }
            });
            let ok = runtime.block_on(task).is_ok();
            println!("test {name} ... {}", if ok { "ok" } else { "FAILED" });
            failed += usize::from(!ok);
        }
    }
    drop(runtime);
    if failed > 0 {
        std::process::exit(1);
    }
}

/// What is known of one object. `step` grows with every attempted write of it and is stored in it.
#[derive(Default, Clone, Debug)]
struct Known {
    step: u64,
    /// The state after the last acknowledged write: the step, or `None` when deleted.
    acked: Option<u64>,
    /// A write without an answer: its state may be there or not.
    maybe: Option<Option<u64>>,
    /// Acknowledged changes as a watcher must see them.
    changes: Vec<(&'static str, u64)>,
    /// Changes that may have happened.
    possible: Vec<(&'static str, u64)>,
}

struct Run {
    peer: Peer,
    stop: AtomicBool,
    done: AtomicBool,
    objects: Mutex<BTreeMap<String, Known>>,
    /// The highest revision any answer or event ever carried.
    highest: AtomicU64,
    acknowledged: AtomicU64,
    conflicts_counted: AtomicU64,
    unknown: AtomicU64,
}

impl Run {
    fn saw(&self, object: &Value) -> u64 {
        let revision = object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0);
        self.highest.fetch_max(revision, Ordering::SeqCst);
        revision
    }
}

fn cycles() -> u64 {
    std::env::var("MUSTER_CRASH_CYCLES").ok().and_then(|n| n.parse().ok()).unwrap_or(50)
}

fn seed() -> u64 {
    let chosen = std::env::var("MUSTER_CRASH_SEED").ok().and_then(|n| n.parse().ok());
    chosen.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64 | 1)
}

fn random(state: &mut u64, below: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state % below
}

fn map(name: &str, step: u64) -> Value {
    json!({"metadata": {"name": name}, "data": {"step": step.to_string(), "payload": "x".repeat(500)}})
}

fn step_of(object: &Value) -> u64 {
    object["data"]["step"].as_str().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX)
}

// F-1, F-3
async fn kill_minus_nine_loses_nothing() {
    let (cycles, mut seed) = (cycles(), seed());
    println!("seed {seed}, {cycles} cycles");
    let peer = Peer::start(Kind::Muster).await.unwrap_or_else(|why| panic!("{why}"));
    let run = Arc::new(Run {
        peer,
        stop: AtomicBool::new(false),
        done: AtomicBool::new(false),
        objects: Mutex::default(),
        highest: AtomicU64::new(0),
        acknowledged: AtomicU64::new(0),
        conflicts_counted: AtomicU64::new(0),
        unknown: AtomicU64::new(0),
    });
    run.peer.post(MAPS, json!({"metadata": {"name": "counter"}, "data": {"n": "0"}})).await.ok(201);
    let from = run.saw(&run.peer.get(&format!("{MAPS}?limit=1")).await.ok(200));
    let watchers: Vec<_> = (0..3).map(|_| tokio::spawn(follow(run.clone(), from))).collect();
    let mut slowest = Duration::ZERO;
    for cycle in 0..cycles {
        run.stop.store(false, Ordering::SeqCst);
        let writers: Vec<_> =
            (0..WRITERS).map(|w| tokio::spawn(write(run.clone(), w, seed ^ (cycle << 8) ^ w as u64 | 1))).collect();
        tokio::time::sleep(Duration::from_millis(20 + random(&mut seed, 250))).await;
        run.peer.kill();
        run.stop.store(true, Ordering::SeqCst);
        for writer in writers {
            writer.await.unwrap();
        }
        run.peer.launch().unwrap();
        let took = run.peer.ready_again(PATIENCE).await.unwrap_or_else(|why| panic!("cycle {cycle}: {why}"));
        slowest = slowest.max(took);
        check_state(&run, cycle).await;
    }
    // A last write tells the watchers that they have everything.
    run.peer.post(MAPS, map("end", 0)).await.ok(201);
    run.done.store(true, Ordering::SeqCst);
    let mut histories = Vec::new();
    for watcher in watchers {
        histories.push(tokio::time::timeout(PATIENCE, watcher).await.expect("a watcher did not catch up").unwrap());
    }
    histories.iter().for_each(|history| check_history(&run.objects.lock().unwrap(), history));
    assert!(histories.windows(2).all(|pair| pair[0] == pair[1]), "watchers saw different histories");
    println!(
        "{} acknowledged writes, {} without an answer, {} conflicts, {} events per watcher, slowest restart {slowest:?}",
        run.acknowledged.load(Ordering::SeqCst),
        run.unknown.load(Ordering::SeqCst),
        run.conflicts_counted.load(Ordering::SeqCst),
        histories[0].len()
    );
    assert_eq!(run.peer.panic_in_log(), None);
}

/// Writes its own objects in turn and counts up the shared counter, until told to stop or the server is gone.
async fn write(run: Arc<Run>, writer: usize, mut seed: u64) {
    while !run.stop.load(Ordering::SeqCst) {
        if random(&mut seed, 5) == 0 {
            count_up(&run).await;
            continue;
        }
        let name = format!("w{writer}-{}", random(&mut seed, OBJECTS as u64));
        let known = run.objects.lock().unwrap().entry(name.clone()).or_default().clone();
        let step = known.step + 1;
        let remove = known.acked.is_some() && random(&mut seed, 4) == 0;
        // What a watcher will see: a deletion carries the state before it.
        let change = match known.acked {
            None => ("ADDED", step),
            Some(last) if remove => ("DELETED", last),
            Some(_) => ("MODIFIED", step),
        };
        let after = if remove { None } else { Some(step) };
        let path = format!("{MAPS}/{name}");
        let call = match (known.acked, remove) {
            (None, _) => run.peer.call("POST", MAPS).body(map(&name, step)),
            (Some(_), true) => run.peer.call("DELETE", &path),
            (Some(_), false) => run.peer.call("PUT", &path).body(map(&name, step)),
        };
        let answer = call.limit(PATIENCE).try_send().await;
        let mut objects = run.objects.lock().unwrap();
        let known = objects.get_mut(&name).unwrap();
        known.step = step;
        match answer {
            Ok(answer) if answer.status < 300 => {
                run.saw(&answer.json());
                run.acknowledged.fetch_add(1, Ordering::SeqCst);
                known.acked = after;
                known.changes.push(change);
                known.possible.push(change);
            }
            Ok(answer) => panic!("{}: {} {}", answer.what, answer.status, answer.text()),
            Err(_) => {
                run.unknown.fetch_add(1, Ordering::SeqCst);
                known.maybe = Some(after);
                known.possible.push(change);
                return;
            }
        }
    }
}

/// Compare-and-set on one object by everybody: no increment may be lost, none may happen twice.
async fn count_up(run: &Run) {
    let path = format!("{MAPS}/counter");
    let Ok(answer) = run.peer.call("GET", &path).limit(PATIENCE).try_send().await else { return };
    if answer.status != 200 {
        return;
    }
    let mut object = answer.json();
    let n: u64 = object["data"]["n"].as_str().unwrap().parse().unwrap();
    object["data"]["n"] = json!((n + 1).to_string());
    let answer = run.peer.call("PUT", &path).body(&object).limit(PATIENCE).try_send().await;
    let mut objects = run.objects.lock().unwrap();
    let counter = objects.entry("counter".to_owned()).or_default();
    match answer {
        Ok(answer) if answer.status == 200 => {
            run.saw(&answer.json());
            assert!(!counter.changes.contains(&("MODIFIED", n + 1)), "the counter reached {} twice", n + 1);
            counter.changes.push(("MODIFIED", n + 1));
        }
        Ok(answer) if answer.status == 409 => drop(run.conflicts_counted.fetch_add(1, Ordering::SeqCst)),
        Ok(answer) => panic!("counter: {} {}", answer.status, answer.text()),
        Err(_) => {}
    }
}

/// After a restart: every object is as its last acknowledged write left it, or as the unanswered one would have.
async fn check_state(run: &Run, cycle: u64) {
    let highest = run.highest.load(Ordering::SeqCst);
    let list = run.peer.get(MAPS).await.ok(200);
    let at = run.saw(&list);
    assert!(at >= highest, "cycle {cycle}: the revision went back from {highest} to {at}");
    let mut present = BTreeMap::new();
    for item in list["items"].as_array().unwrap() {
        present.insert(item["metadata"]["name"].as_str().unwrap().to_owned(), item.clone());
    }
    let mut objects = run.objects.lock().unwrap();
    for (name, known) in objects.iter_mut() {
        if name == "counter" {
            let n: u64 = present["counter"]["data"]["n"].as_str().unwrap().parse().unwrap();
            let acked = known.changes.iter().map(|(_, n)| *n).max().unwrap_or(0);
            assert!(n >= acked, "cycle {cycle}: the counter went back from {acked} to {n}");
            continue;
        }
        let is = present.get(name).map(step_of);
        let fits = is == known.acked || known.maybe.as_ref().is_some_and(|maybe| *maybe == is);
        assert!(
            fits,
            "cycle {cycle}: {name} is {is:?}, but {:?} was acknowledged (unanswered: {:?})",
            known.acked, known.maybe
        );
        if is != known.acked {
            // The unanswered write did happen: from now on watchers owe it to us.
            let change = *known.possible.last().unwrap();
            known.changes.push(change);
        }
        known.acked = is;
        known.maybe = None;
        if let Some(object) = present.get(name) {
            assert_eq!(object["data"]["payload"].as_str().map(str::len), Some(500), "cycle {cycle}: {name} is torn");
        }
    }
}

/// An event as it is checked: type, name, step, revision.
type Seen = (String, String, u64, u64);

/// Watches without end, resuming from the last revision seen, until the object `end` shows up.
async fn follow(run: Arc<Run>, mut from: u64) -> Vec<Seen> {
    let mut history: Vec<Seen> = Vec::new();
    loop {
        let path = format!("{MAPS}?watch=true&allowWatchBookmarks=true&resourceVersion={from}");
        let Ok(mut watch) = Watch::try_open(&run.peer, &path, None).await else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        while let Some(event) = watch.advance().await {
            let object = &event["object"];
            let kind = event["type"].as_str().unwrap_or("").to_owned();
            assert_ne!(kind, "ERROR", "resuming from {from}: {event}");
            let revision = run.saw(object);
            if kind == "BOOKMARK" {
                assert!(revision >= from, "a bookmark went back from {from} to {revision}");
                from = revision;
                continue;
            }
            assert!(revision > from, "an event at {revision} after {from}: {event}");
            from = revision;
            let name = object["metadata"]["name"].as_str().unwrap_or("").to_owned();
            if name == "end" {
                return history;
            }
            let step = match name.as_str() {
                "counter" => object["data"]["n"].as_str().unwrap_or("").parse().unwrap_or(u64::MAX),
                _ => step_of(object),
            };
            history.push((kind, name, step, revision));
        }
        if run.done.load(Ordering::SeqCst) && !run.peer.alive() {
            return history;
        }
    }
}

/// Every acknowledged change was delivered, in order; nothing else was but unanswered writes.
fn check_history(objects: &BTreeMap<String, Known>, history: &[Seen]) {
    for (name, known) in objects.iter() {
        let seen: Vec<(&str, u64)> =
            history.iter().filter(|(_, n, _, _)| n == name).map(|(kind, _, step, _)| (kind.as_str(), *step)).collect();
        if name == "counter" {
            assert!(
                seen.windows(2).all(|pair| pair[1].1 == pair[0].1 + 1),
                "the counter's events have a gap: {seen:?}"
            );
            let acked = known.changes.iter().filter(|(_, n)| !seen.iter().any(|(_, s)| s == n)).count();
            assert_eq!(acked, 0, "acknowledged counts that no watcher saw");
            continue;
        }
        let mut owed = known.changes.iter().peekable();
        for change in &seen {
            if owed.peek().is_some_and(|next| **next == *change) {
                owed.next();
            } else {
                panic!("{name}: a watcher saw {change:?}, but the next change was {:?}; all: {seen:?}", owed.peek());
            }
        }
        assert!(owed.peek().is_none(), "{name}: no watcher saw {:?}", owed.collect::<Vec<_>>());
    }
}

/// The checker itself is checked: it must see a gap, a repeat, a swap and a change that nobody made.
async fn the_checker_catches_what_it_should() {
    let seen = |kind: &str, step| (kind.to_owned(), "a".to_owned(), step, step);
    let known =
        Known { changes: vec![("ADDED", 1), ("MODIFIED", 2), ("MODIFIED", 3), ("DELETED", 3)], ..Known::default() };
    let objects = BTreeMap::from([("a".to_owned(), known)]);
    let good = [seen("ADDED", 1), seen("MODIFIED", 2), seen("MODIFIED", 3), seen("DELETED", 3)];
    check_history(&objects, &good);
    let gap = [good[0].clone(), good[2].clone(), good[3].clone()];
    let short = [good[0].clone(), good[1].clone()];
    let repeat = [good[0].clone(), good[1].clone(), good[1].clone(), good[2].clone(), good[3].clone()];
    let swap = [good[0].clone(), good[2].clone(), good[1].clone(), good[3].clone()];
    let foreign = [good[0].clone(), good[1].clone(), good[2].clone(), good[3].clone(), seen("ADDED", 9)];
    for bad in [gap.as_slice(), &short, &repeat, &swap, &foreign] {
        let quiet = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let caught = std::panic::catch_unwind(|| check_history(&objects, bad)).is_err();
        std::panic::set_hook(quiet);
        assert!(caught, "not caught: {bad:?}");
    }
}

/// A small file system that is unmounted at the end.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(mebibytes: u32) -> Option<SmallDisk> {
        let path = std::env::temp_dir().join(format!("muster-small-disk-{}", std::process::id()));
        std::fs::create_dir_all(&path).ok()?;
        let size = format!("size={mebibytes}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(&path)
            .status()
            .is_ok_and(|status| status.success());
        mounted.then_some(SmallDisk(path))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        let _ = std::fs::remove_dir(&self.0);
    }
}

// F-4
async fn full_disk_recovers() {
    let Some(disk) = SmallDisk::mount(96) else {
        println!("full_disk_recovers: skipped, mounting a small tmpfs needs root");
        return;
    };
    let ballast = disk.0.join("ballast");
    std::fs::write(&ballast, vec![0u8; 48 << 20]).unwrap();
    let settings = Settings { data: Some(disk.0.join("data")), ..Settings::default() };
    let peer = Peer::start_with(Kind::Muster, settings).await.unwrap_or_else(|why| panic!("{why}"));
    let mut watch = peer.watch(&format!("{MAPS}?watch=true")).await;
    let payload = "x".repeat(200_000);
    let large = |i: usize| json!({"metadata": {"name": format!("f{i}")}, "data": {"payload": payload}});
    let mut written = 0;
    let failure = loop {
        let answer = peer.post(MAPS, large(written)).await;
        if answer.status != 201 {
            break answer;
        }
        written += 1;
        assert!(written < 1000, "the disk never filled");
    };
    assert!(failure.status >= 500, "{}", failure.text());
    let status = failure.json();
    assert_eq!(status["kind"], "Status");
    let message = status["message"].as_str().unwrap().to_lowercase();
    assert!(
        message.contains("space") || message.contains("storage") || message.contains("disk"),
        "the failure does not say why: {status}"
    );
    // Reads and watches go on, health names the cause.
    for i in 0..written {
        peer.get(&format!("{MAPS}/f{i}")).await.ok(200);
    }
    for i in 0..written {
        watch.expect("ADDED", &format!("f{i}")).await;
    }
    assert_eq!(peer.get(MAPS).await.ok(200)["items"].as_array().unwrap().len(), written);
    let ready = peer.get("/readyz?verbose").await;
    assert!(ready.status == 500 && ready.text().contains("[-]storage"), "{} {}", ready.status, ready.text());
    peer.post(MAPS, large(written + 1)).await.json();
    assert!(peer.alive(), "died of a full disk");
    // Space again: writes work without a restart.
    std::fs::remove_file(&ballast).unwrap();
    let mut last = String::new();
    for _ in 0..100 {
        let answer = peer.post(MAPS, json!({"metadata": {"name": "after"}})).await;
        if answer.status == 201 {
            watch.expect("ADDED", "after").await;
            // The probe may come a moment later.
            eventually("it is ready again", || async { peer.get("/readyz").await.status == 200 }).await;
            // And nothing that failed came back, nothing acknowledged was lost, over a restart too.
            peer.kill();
            peer.launch().unwrap();
            peer.ready_again(PATIENCE).await.unwrap_or_else(|why| panic!("{why}"));
            assert_eq!(peer.get(MAPS).await.ok(200)["items"].as_array().unwrap().len(), written + 1);
            return;
        }
        last = answer.text();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("writes did not come back after space was freed: {last}");
}

/// Between the deletion of a definition and the end of its clean-up the server dies, sooner or later.
async fn a_definition_goes_on_going_after_a_kill() {
    let peer = Peer::start(Kind::Muster).await.unwrap_or_else(|why| panic!("{why}"));
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for (round, delay) in [0, 2, 10, 40, 150].into_iter().enumerate() {
        let group = format!("r{round}.example.com");
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("widgets.{group}")},
            "spec": {"group": group, "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
        peer.post(definitions, crd).await.ok(201);
        let one = format!("{definitions}/widgets.{group}");
        let path = format!("/apis/{group}/v1/namespaces/default/widgets");
        let widget = |name: &str, finalizers: &[&str]| json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": name, "finalizers": finalizers}});
        let path = &path;
        let many = (0..200).map(|i| {
            let body = widget(&format!("w{i}"), &[]);
            let peer = &peer;
            async move { peer.post(path, body).await.ok(201) }
        });
        futures_util::future::join_all(many).await;
        peer.post(path, widget("held", &["example.com/hold"])).await.ok(201);
        peer.delete(&one).await.ok(200);
        tokio::time::sleep(Duration::from_millis(delay)).await;
        peer.kill();
        peer.launch().unwrap();
        peer.ready_again(PATIENCE).await.unwrap();
        eventually("only the held one is left", || async {
            let items = peer.get(path).await.ok(200)["items"].clone();
            items.as_array().is_some_and(|items| items.len() == 1 && items[0]["metadata"]["name"] == "held")
        })
        .await;
        peer.post(path, widget("late", &[])).await.fails(403, "Forbidden");
        assert!(peer.get(&one).await.ok(200)["metadata"]["deletionTimestamp"].is_string());
        peer.patch(&format!("{path}/held"), "merge", json!({"metadata": {"finalizers": null}})).await.ok(200);
        eventually("the definition is gone", || async { peer.get(&one).await.status == 404 }).await;
        // What is served follows the definitions; nobody who could be made to wait asked for this deletion.
        eventually("its collection is gone", || async { peer.get(path).await.status == 404 }).await;
    }
}
