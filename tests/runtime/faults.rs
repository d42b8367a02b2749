//! Bad input and bad networks: nothing is lost, nothing runs beside itself, the log says once what happened.
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use muster_tests::runner::Case;
use muster_tests::{PATIENCE, Peer, cases};
use runtime::{Context, Controller, Key, Next, Options};
use serde_json::json;

use crate::kit::*;
use crate::proxy::Proxy;

pub fn cases() -> Vec<Case> {
    let both = cases![faults: an_object_that_cannot_be_read_spoils_nothing_but_itself, an_object_deleted_under_a_reconcile_is_left_alone,
        a_conflict_on_every_write_holds_up_nobody_else, a_watch_cut_every_second_loses_nothing,
        a_server_that_restarts_is_followed_again];
    // Muster forgets its history by itself only; its side is covered by a scripted server (`informer/tests.rs`).
    let kubernetes = cases![kubernetes faults: a_history_that_is_gone_is_read_anew];
    [both, kubernetes].concat()
}

async fn an_object_that_cannot_be_read_spoils_nothing_but_itself(peer: &Peer) {
    let place = Place::new(peer).await;
    for name in ["good", "bad", "later"] {
        place.make(name, 1).await;
    }
    let spoil = Patch::Merge(json!({"status": {"seen": "not a number"}}));
    let raw: Api<kube::core::DynamicObject> =
        Api::namespaced_with(place.client.clone(), &place.namespace, &kube::core::ApiResource::erase::<Task>(&()));
    raw.patch_subresource("status", "bad", &PatchParams::default(), &spoil).await.unwrap();
    let unreadable: Arc<Mutex<Vec<String>>> = Arc::default();
    let gone = Arc::new(AtomicUsize::new(0));
    let (filter, told, count) = (place.filter(), unreadable.clone(), gone.clone());
    let build = move || {
        let (told, count) = (told.clone(), count.clone());
        let closure = Closure::new(|task, context| async move {
            write_seen(&task, &context).await?;
            Ok(Next::Wait)
        })
        .unreadable(move |key, why| told.lock().unwrap().push(format!("{key}: {why}")))
        .gone(move |_, _| {
            count.fetch_add(1, SeqCst);
        });
        Controller::new(closure).filter(filter.clone()).ignore_status_changes()
    };
    let client = place.client.clone();
    let running = Running::start(async { client }, "reader", Options::default(), build);
    eventually("the good ones are seen", || async {
        place.seen("good").await == Some(1) && place.seen("later").await == Some(1)
    })
    .await;
    // One that was good goes bad.
    raw.patch_subresource("status", "later", &PatchParams::default(), &spoil).await.unwrap();
    eventually("both bad ones are told", || async { unreadable.lock().unwrap().len() == 2 }).await;
    assert!(unreadable.lock().unwrap().iter().all(|line| line.contains("invalid type: string")), "{unreadable:?}");
    assert_eq!(running.figure("muster_informer_unreadable_objects_total{kind=\"Task\"}"), 2.0);
    let lines = logged(&["is not what its kind says", &place.namespace]);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(gone.load(SeqCst), 0, "an object that cannot be read is not gone");
    // Repaired, it is reconciled again.
    let repair = Patch::Merge(json!({"status": null, "spec": {"value": 5}}));
    raw.patch("bad", &PatchParams::default(), &repair).await.unwrap();
    raw.patch_subresource("status", "bad", &PatchParams::default(), &repair).await.unwrap();
    eventually("the repaired one is seen", || async { place.seen("bad").await == Some(5) }).await;
    running.stop();
}

async fn an_object_deleted_under_a_reconcile_is_left_alone(peer: &Peer) {
    let place = Place::new(peer).await;
    let (inside, go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (runs, gone) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (filter, shared) = (place.filter(), (inside.clone(), go.clone(), runs.clone(), gone.clone()));
    let build = move || {
        let (inside, go, runs, gone) = shared.clone();
        let closure = Closure::new(move |task: Arc<Task>, context: Context| {
            let (inside, go, runs) = (inside.clone(), go.clone(), runs.clone());
            async move {
                runs.fetch_add(1, SeqCst);
                inside.store(true, SeqCst);
                // However late it hears of the deletion, it goes on after that.
                let key = Key::of(&*task);
                while !go.load(SeqCst) || context.cache::<Task>().unwrap().get(&key).is_some() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                write_seen(&task, &context).await?;
                Ok(Next::Wait)
            }
        })
        .gone(move |_, _| {
            gone.fetch_add(1, SeqCst);
        });
        Controller::new(closure).filter(filter.clone())
    };
    let client = place.client.clone();
    let running = Running::start(async { client }, "deleted", Options::default(), build);
    place.make("d", 1).await;
    eventually("the reconcile began", || async { inside.load(SeqCst) }).await;
    place.tasks.delete("d", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(gone.load(SeqCst), 0, "nothing runs beside the reconcile of the same key");
    go.store(true, SeqCst);
    eventually("it is told to be gone", || async { gone.load(SeqCst) == 1 }).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((runs.load(SeqCst), gone.load(SeqCst)), (1, 1), "what is gone is not tried again");
    running.stop();
}

async fn a_conflict_on_every_write_holds_up_nobody_else(peer: &Peer) {
    let place = Place::new(peer).await;
    place.make("fought-over", 1).await;
    let tries = Arc::new(AtomicUsize::new(0));
    let (filter, count) = (place.filter(), tries.clone());
    let build = move || {
        let count = count.clone();
        let closure = Closure::new(move |task: Arc<Task>, context: Context| {
            let count = count.clone();
            async move {
                if task.name_any() == "fought-over" && task.spec.value == 1 {
                    count.fetch_add(1, SeqCst);
                    let mut stale = (*task).clone();
                    stale.metadata.resource_version = Some("1".into());
                    stale.status = Some(TaskStatus { seen: -1 });
                    let api: Api<Task> = Api::namespaced(context.client.clone(), &task.namespace().unwrap());
                    api.replace_status(&task.name_any(), &PostParams::default(), &stale).await?;
                }
                write_seen(&task, &context).await?;
                Ok(Next::Wait)
            }
        });
        Controller::new(closure).filter(filter.clone()).ignore_status_changes().concurrency(1)
    };
    let client = place.client.clone();
    let name = format!("conflicts-{}", place.namespace);
    let running = Running::start(async { client }, &name, Options::default(), build);
    eventually("it was tried often", || async { tries.load(SeqCst) >= 6 }).await;
    for i in 0..10 {
        place.make(&format!("peaceful{i}"), i).await;
    }
    for i in 0..10 {
        let name = format!("peaceful{i}");
        eventually("the others are seen", || async { place.seen(&name).await == Some(i) }).await;
    }
    let errors = format!("controller_runtime_reconcile_errors_total{{controller=\"{name}\"}}");
    assert!(running.figure(&errors) >= 6.0);
    assert_eq!(logged(&[&name, "the reconcile failed"]).len(), 1, "{:?}", logged(&[&name]));
    // As soon as the object changes it is tried at once, however long the pause had become.
    place.change("fought-over", 2).await;
    eventually("it is seen at last", || async { place.seen("fought-over").await == Some(2) }).await;
    eventually("its end is told", || async { !logged(&[&name, "no longer fails"]).is_empty() }).await;
    assert_eq!(logged(&[&name, "no longer fails"]).len(), 1);
    running.stop();
}

async fn a_watch_cut_every_second_loses_nothing(peer: &Peer) {
    let place = Place::new(peer).await;
    let mut proxy = Proxy::start(peer.port).await;
    proxy.cut_every(Duration::from_secs(1));
    let through = client_through(peer, proxy.port).await;
    let (filter, direct) = (place.filter(), place.client.clone());
    // Reads through the proxy, writes past it: only the watch suffers.
    let seen: Arc<Mutex<BTreeMap<String, i64>>> = Arc::default();
    let beside = Arc::new(AtomicUsize::new(0));
    let shared = (seen.clone(), beside.clone());
    let build = move || {
        let (seen, beside) = shared.clone();
        let running: Arc<Mutex<BTreeMap<String, bool>>> = Arc::default();
        let closure = Closure::new(move |task: Arc<Task>, _| {
            let (seen, beside, running) = (seen.clone(), beside.clone(), running.clone());
            async move {
                if running.lock().unwrap().insert(task.name_any(), true) == Some(true) {
                    beside.fetch_add(1, SeqCst);
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
                seen.lock().unwrap().insert(task.name_any(), task.spec.value);
                running.lock().unwrap().insert(task.name_any(), false);
                Ok(Next::Wait)
            }
        });
        Controller::new(closure).filter(filter.clone())
    };
    let running = Running::start(async { through }, "cut", Options::default(), build);
    let tasks: Api<Task> = Api::namespaced(direct, &place.namespace);
    for i in 0..8 {
        tasks.create(&PostParams::default(), &Task::new(&format!("t{i}"), TaskSpec { value: 0 })).await.unwrap();
    }
    let mut round = 0;
    while proxy.cuts() < 6 {
        round += 1;
        for i in 0..8 {
            place.change(&format!("t{i}"), round).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    // On a slow machine a second may be too short to read anything at all.
    proxy.cut_no_more();
    tasks.delete("t0", &DeleteParams::default()).await.unwrap();
    eventually("the last change of each is seen", || async {
        (1..8).all(|i| seen.lock().unwrap().get(&format!("t{i}")) == Some(&round))
    })
    .await;
    assert_eq!(beside.load(SeqCst), 0);
    // Not at every cut, but when it could not be opened again, which is rare.
    let troubles = logged(&["cannot follow", &place.namespace]);
    assert!(troubles.len() <= 3, "{troubles:?}");
    running.stop();
}

async fn a_server_that_restarts_is_followed_again(shared: &Peer) {
    // A server of its own, because it is killed.
    let peer = Peer::start(shared.kind).await.unwrap();
    let place = Place::new(&peer).await;
    for i in 0..5 {
        place.make(&format!("t{i}"), 1).await;
    }
    let filter = place.filter();
    let runs: Arc<Mutex<Vec<String>>> = Arc::default();
    let ended: Arc<AtomicUsize> = Arc::default();
    let (record, count) = (runs.clone(), ended.clone());
    let build = move || {
        let (record, count) = (record.clone(), count.clone());
        let closure = Closure::new(move |task: Arc<Task>, context| {
            record.lock().unwrap().push(task.name_any());
            let count = count.clone();
            async move {
                write_seen(&task, &context).await?;
                count.fetch_add(1, SeqCst);
                Ok(Next::Wait)
            }
        });
        Controller::new(closure).filter(filter.clone()).ignore_status_changes()
    };
    let client = client(&peer).await;
    let running = Running::start(async { client }, "restart", Options::default(), build);
    // Not only written: one whose answer is lost with the server is tried again, and rightly so.
    eventually("all are seen", || async { ended.load(SeqCst) >= 5 }).await;
    runs.lock().unwrap().clear();
    peer.kill();
    tokio::time::sleep(Duration::from_secs(3)).await;
    peer.launch().unwrap();
    peer.ready_again(PATIENCE).await.unwrap();
    let fresh = crate::kit::client(&peer).await;
    let tasks: Api<Task> = Api::namespaced(fresh, &place.namespace);
    let change = Patch::Merge(json!({"spec": {"value": 2}}));
    tasks.patch("t3", &PatchParams::default(), &change).await.unwrap();
    eventually("the change is seen", || async {
        tasks.get("t3").await.is_ok_and(|task| task.status.is_some_and(|status| status.seen == 2))
    })
    .await;
    let runs = runs.lock().unwrap().clone();
    assert!(runs.iter().all(|name| name == "t3"), "what did not change is not reconciled again: {runs:?}");
    let (lost, again) = (logged(&["cannot follow", &place.namespace]), logged(&["following the objects", "again"]));
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert!(!again.is_empty());
    running.stop();
}

async fn a_history_that_is_gone_is_read_anew(shared: &Peer) {
    // Of its own, because its history is thrown away.
    let peer = Peer::start(shared.kind).await.unwrap();
    let place = Place::new(&peer).await;
    place.make("stays", 1).await;
    place.make("goes", 1).await;
    let proxy = Proxy::start(peer.port).await;
    let through = client_through(&peer, proxy.port).await;
    let gone: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen: Arc<Mutex<BTreeMap<String, i64>>> = Arc::default();
    let (filter, shared) = (place.filter(), (seen.clone(), gone.clone()));
    let build = move || {
        let (seen, gone) = shared.clone();
        let closure = Closure::new(move |task: Arc<Task>, _| {
            seen.lock().unwrap().insert(task.name_any(), task.spec.value);
            async { Ok(Next::Wait) }
        })
        .gone(move |key, _| gone.lock().unwrap().push(key.name.to_string()));
        Controller::new(closure).filter(filter.clone())
    };
    let running = Running::start(async { through }, "anew", Options::default(), build);
    eventually("both are seen", || async { seen.lock().unwrap().len() == 2 }).await;
    proxy.block();
    place.tasks.delete("goes", &DeleteParams::default()).await.unwrap();
    place.change("stays", 2).await;
    place.make("comes", 3).await;
    assert!(peer.compact().await);
    // A restart empties the server's own window of events, so that only the store could tell, and it forgot.
    peer.kill();
    peer.launch().unwrap();
    peer.ready_again(PATIENCE).await.unwrap();
    proxy.unblock();
    eventually("all is as it is", || async {
        let seen = seen.lock().unwrap();
        seen.get("stays") == Some(&2) && seen.get("comes") == Some(&3) && *gone.lock().unwrap() == ["goes"]
    })
    .await;
    running.stop();
}
