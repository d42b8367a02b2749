//! What a reconciler's author relies on while nothing is wrong.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use muster_tests::runner::Case;
use muster_tests::{Peer, cases};
use runtime::{Controller, Failure, Filter, HandleError, Key, Next, Options, Patterns, Settings};
use serde_json::json;

use crate::kit::*;

pub fn cases() -> Vec<Case> {
    cases![running: every_object_is_reconciled_and_what_is_gone_is_told, caches_are_full_before_callbacks_and_reconciles,
        a_filter_shows_only_a_part, owned_objects_lead_to_their_owner, reconcilers_are_switched_at_run_time,
        running_work_finishes_on_a_stop, a_panic_is_contained_counted_and_retried, events_are_written_and_counted]
}

/// A plain one: writes what it saw.
fn mirror(place: &Place) -> impl Fn() -> Controller<Closure> + Send + Sync + 'static {
    let filter = place.filter();
    move || {
        let closure = Closure::new(|task, context| async move {
            write_seen(&task, &context).await?;
            Ok(Next::Wait)
        });
        Controller::new(closure).filter(filter.clone()).ignore_status_changes()
    }
}

async fn every_object_is_reconciled_and_what_is_gone_is_told(peer: &Peer) {
    // KC-1
    let place = Place::new(peer).await;
    for i in 0..20 {
        place.make(&format!("t{i}"), i).await;
    }
    let gone: Arc<Mutex<Vec<String>>> = Arc::default();
    let filter = place.filter();
    let told = gone.clone();
    let build = move || {
        let told = told.clone();
        let closure = Closure::new(|task, context| async move {
            write_seen(&task, &context).await?;
            Ok(Next::Wait)
        })
        .gone(move |key, _| told.lock().unwrap().push(key.to_string()));
        Controller::new(closure).filter(filter.clone()).ignore_status_changes()
    };
    let client = place.client.clone();
    let running = Running::start(async { client }, "mirror", Options::default(), build);
    let all_seen = || async {
        let list = place.tasks.list(&ListParams::default()).await.unwrap();
        list.items.iter().all(|task| task.status.as_ref().is_some_and(|status| status.seen == task.spec.value))
    };
    eventually("all are seen", all_seen).await;
    for i in 0..20 {
        place.change(&format!("t{i}"), 100 + i).await;
    }
    eventually("all changes are seen", all_seen).await;
    place.tasks.delete("t7", &Default::default()).await.unwrap();
    let name = format!("{}/t7", place.namespace);
    eventually("the deletion is told", || async { gone.lock().unwrap().contains(&name) }).await;
    // Counted when the reconcile is over, a moment after what it did can be seen.
    eventually("all are counted", || async {
        running.figure("controller_runtime_reconcile_total{controller=\"mirror\",result=\"success\"}") >= 41.0
            && running.figure("workqueue_depth{name=\"mirror\"") == 0.0
    })
    .await;
    assert_eq!(running.figure("controller_runtime_reconcile_errors_total{controller=\"mirror\"}"), 0.0);
    running.stop();
}

async fn caches_are_full_before_callbacks_and_reconciles(peer: &Peer) {
    // KC-2
    let place = Place::new(peer).await;
    for i in 0..30 {
        place.make(&format!("t{i}"), i).await;
    }
    let order: Arc<Mutex<Vec<(&'static str, usize)>>> = Arc::default();
    let (filter, seen) = (place.filter(), order.clone());
    let build = move || {
        let (in_work, in_callback) = (seen.clone(), seen.clone());
        let closure = Closure::new(move |_, context| {
            in_work.lock().unwrap().push(("reconcile", context.cache::<Task>().unwrap().len()));
            async { Ok(Next::Wait) }
        });
        Controller::new(closure).filter(filter.clone()).after_sync(move |context| {
            let order = in_callback.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(100)).await;
                let first = order.lock().unwrap().is_empty();
                order.lock().unwrap().push(("callback", context.cache::<Task>().unwrap().len()));
                if first { Err("once more".into()) } else { Ok(()) }
            }
        })
    };
    let client = place.client.clone();
    let running = Running::start(async { client }, "order", Options::default(), build);
    eventually("all ran", || async { order.lock().unwrap().len() >= 32 }).await;
    let order = order.lock().unwrap();
    assert_eq!(order[..2], [("callback", 30), ("callback", 30)]);
    assert!(order[2..].iter().all(|step| *step == ("reconcile", 30)), "{order:?}");
    running.stop();
}

async fn a_filter_shows_only_a_part(peer: &Peer) {
    // KC-2
    let (here, there) = (Place::new(peer).await, Place::new(peer).await);
    for place in [&here, &there] {
        for (name, label) in [("a-1", "yes"), ("a-2", "no"), ("b-1", "yes")] {
            place.make(name, 1).await;
            let label = Patch::Merge(json!({"metadata": {"labels": {"wanted": label}}}));
            place.tasks.patch(name, &PatchParams::default(), &label).await.unwrap();
        }
    }
    let seen: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let (record, gone) = (seen.clone(), seen.clone());
    let build = move || {
        let (record, gone) = (record.clone(), gone.clone());
        let closure = Closure::new(move |task, _| {
            record.lock().unwrap().insert(Key::of(&*task).to_string());
            async { Ok(Next::Wait) }
        })
        .gone(move |key, _| {
            gone.lock().unwrap().insert(format!("gone {key}"));
        });
        Controller::new(closure)
    };
    let filter = Filter {
        labels: Some("wanted=yes".into()),
        namespaces: vec![here.namespace.clone()],
        keys: Patterns::new(["*/a-*"]),
        ..Filter::default()
    };
    let settings = BTreeMap::from([("part".to_owned(), Settings { filter, ..Settings::default() })]);
    let client = here.client.clone();
    let running = Running::start(async { client }, "part", Options { settings, ..Options::default() }, build);
    let only = format!("{}/a-1", here.namespace);
    eventually("the one is seen", || async { seen.lock().unwrap().contains(&only) }).await;
    // What leaves the selection is gone for the reconciler, though not from the server.
    let label = Patch::Merge(json!({"metadata": {"labels": {"wanted": "no"}}}));
    here.tasks.patch("a-1", &PatchParams::default(), &label).await.unwrap();
    there.change("a-1", 2).await;
    here.change("b-1", 2).await;
    let left = format!("gone {only}");
    eventually("it left", || async { seen.lock().unwrap().contains(&left) }).await;
    assert_eq!(*seen.lock().unwrap(), BTreeSet::from([only, left]));
    running.stop();
}

async fn owned_objects_lead_to_their_owner(peer: &Peer) {
    let place = Place::new(peer).await;
    let filter = place.filter();
    let build = move || {
        let closure = Closure::new(|task: Arc<Task>, context: runtime::Context| async move {
            let api: Api<ConfigMap> = Api::namespaced(context.client.clone(), &task.namespace().unwrap());
            let key = Key::of(&*task);
            // From memory; what is there is not made again.
            if context.cache::<ConfigMap>().unwrap().get(&key).is_none() {
                let mut map = ConfigMap::default();
                map.metadata.name = Some(task.name_any());
                map.metadata.owner_references = Some(vec![task.controller_owner_ref(&()).unwrap()]);
                match api.create(&Default::default(), &map).await {
                    Err(kube::Error::Api(status)) if status.code == 409 => {}
                    other => drop(other?),
                }
            }
            Ok(Next::Wait)
        });
        Controller::new(closure).filter(filter.clone()).owns::<ConfigMap>(filter.clone())
    };
    let client = place.client.clone();
    let running = Running::start(async { client }, "owner", Options::default(), build);
    place.make("o", 1).await;
    let maps: Api<ConfigMap> = Api::namespaced(place.client.clone(), &place.namespace);
    let uid = || async { maps.get_opt("o").await.unwrap().and_then(|map| map.uid()) };
    eventually("the map is made", || async { uid().await.is_some() }).await;
    let first = uid().await;
    maps.delete("o", &Default::default()).await.unwrap();
    eventually("the map is made again", || async { uid().await.is_some_and(|uid| Some(uid) != first) }).await;
    running.stop();
}

async fn reconcilers_are_switched_at_run_time(peer: &Peer) {
    // KC-2
    let place = Place::new(peer).await;
    place.make("a", 1).await;
    let options = Options { enabled: Patterns::new(["*", "-switched"]), ..Options::default() };
    let client = place.client.clone();
    let running = Running::start(async { client }, "switched", options, mirror(&place));
    let handle = running.handle.clone();
    let listed = handle.list().await.unwrap();
    assert_eq!((listed[0].name.as_str(), listed[0].kind.as_str(), listed[0].enabled), ("switched", "Task", false));
    assert_eq!(handle.requeue("switched", None).await, Err(HandleError::Disabled("switched".into())));
    let unknown = handle.enable("swiched").await.unwrap_err().to_string();
    assert!(unknown.contains("there are: switched"), "{unknown}");
    assert_eq!(place.seen("a").await, None);
    handle.enable("switched").await.unwrap();
    eventually("it is seen", || async { place.seen("a").await == Some(1) }).await;
    assert!(handle.leading().await.unwrap());
    handle.disable("switched").await.unwrap();
    place.change("a", 2).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(place.seen("a").await, Some(1));
    handle.enable("switched").await.unwrap();
    eventually("it is seen again", || async { place.seen("a").await == Some(2) }).await;
    let spoil = Patch::Merge(json!({"status": {"seen": 0}}));
    place.tasks.patch_status("a", &PatchParams::default(), &spoil).await.unwrap();
    assert_eq!(handle.requeue("switched", Some(Key::new(Some(&place.namespace), "a"))).await, Ok(1));
    eventually("it is looked at when asked", || async { place.seen("a").await == Some(2) }).await;
    assert_eq!(handle.requeue("switched", None).await, Ok(1));
    running.stop();
    assert_eq!(handle.list().await, Err(HandleError::Stopped));
}

async fn running_work_finishes_on_a_stop(peer: &Peer) {
    let place = Place::new(peer).await;
    for i in 0..8 {
        place.make(&format!("t{i}"), i).await;
    }
    let (begun, finished) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (filter, counts) = (place.filter(), (begun.clone(), finished.clone()));
    let build = move || {
        let counts = counts.clone();
        let closure = Closure::new(move |task, context| {
            let counts = counts.clone();
            async move {
                counts.0.fetch_add(1, SeqCst);
                tokio::time::sleep(Duration::from_millis(700)).await;
                write_seen(&task, &context).await?;
                counts.1.fetch_add(1, SeqCst);
                Ok(Next::Wait)
            }
        });
        Controller::new(closure).filter(filter.clone()).ignore_status_changes().concurrency(2)
    };
    let client = place.client.clone();
    let running = Running::start(async { client }, "slow", Options::default(), build);
    eventually("work began", || async { begun.load(SeqCst) >= 2 }).await;
    running.stop();
    assert_eq!(begun.load(SeqCst), finished.load(SeqCst));
    assert!(finished.load(SeqCst) < 8, "it took new work while stopping");
}

async fn a_panic_is_contained_counted_and_retried(peer: &Peer) {
    let place = Place::new(peer).await;
    place.make("bad", 1).await;
    place.make("good", 2).await;
    let runs = Arc::new(AtomicUsize::new(0));
    let (filter, count) = (place.filter(), runs.clone());
    let build = move || {
        let count = count.clone();
        let closure = Closure::new(move |task: Arc<Task>, context| {
            let count = count.clone();
            async move {
                if task.name_any() == "bad" && count.fetch_add(1, SeqCst) < 3 {
                    panic!("planted");
                }
                write_seen(&task, &context).await?;
                Ok(Next::Wait)
            }
        });
        Controller::new(closure).filter(filter.clone()).ignore_status_changes()
    };
    let client = place.client.clone();
    let name = format!("panics-{}", place.namespace);
    let running = Running::start(async { client }, &name, Options::default(), build);
    eventually("both are seen", || async { place.seen("bad").await == Some(1) && place.seen("good").await == Some(2) })
        .await;
    assert_eq!(running.figure(&format!("controller_runtime_reconcile_panics_total{{controller=\"{name}\"}}")), 3.0);
    assert_eq!(running.figure(&format!("workqueue_retries_total{{name=\"{name}\"")), 3.0);
    // Once when it begins, once when it is over.
    eventually("its end is told", || async { !logged(&[&name, "no longer fails"]).is_empty() }).await;
    assert_eq!(logged(&[&name, "panicked: planted"]).len(), 1);
    assert_eq!(logged(&[&name, "no longer fails"]).len(), 1);
    running.stop();
}

async fn events_are_written_and_counted(peer: &Peer) {
    let place = Place::new(peer).await;
    place.make("e", 1).await;
    let filter = place.filter();
    let build = move || {
        let closure = Closure::new(|task: Arc<Task>, context: runtime::Context| async move {
            context.events.normal(&*task, "Looked", "Look", "as it should be");
            match task.spec.value {
                1 => Ok(Next::After(Duration::from_millis(50))),
                _ => Err(Failure::fatal("enough")),
            }
        });
        Controller::new(closure).filter(filter.clone())
    };
    let client = place.client.clone();
    let running = Running::start(async { client }, "events", Options::default(), build);
    let events: Api<k8s_openapi::api::events::v1::Event> = Api::namespaced(place.client.clone(), &place.namespace);
    let one_series = || async {
        let list = events.list(&ListParams::default()).await.unwrap();
        let count = list.items.first().and_then(|event| event.series.as_ref()).map_or(0, |series| series.count);
        assert!(list.items.len() <= 1, "repeated events are one: {list:?}");
        count >= 3
    };
    eventually("the event is counted", one_series).await;
    place.change("e", 2).await;
    eventually("the failure is counted", || async {
        // The wait asked for before the change may come due after it, so there can be two.
        running.figure("controller_runtime_terminal_reconcile_errors_total{controller=\"events\"}") >= 1.0
    })
    .await;
    running.stop();
}
