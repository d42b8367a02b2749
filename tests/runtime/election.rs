//! Several managers, one of them leading: handed over on a stop, taken over after a kill, fenced off when cut off.
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, ResourceExt};
use muster_tests::runner::Case;
use muster_tests::{PATIENCE, Peer, cases};
use runtime::{Context, Controller, Election, Fenced, Next, Options};

use crate::kit::*;
use crate::proxy::Proxy;

pub fn cases() -> Vec<Case> {
    cases![election: a_clean_stop_hands_over_at_once, a_kill_is_taken_over_and_nothing_runs_twice_at_once,
        a_leader_that_is_cut_off_cannot_write, the_usual_lease_runs_out_before_anybody_takes_over]
}

/// Times as short as a machine that stands still now and then can keep.
fn election(place: &Place, identity: &str) -> Election {
    Election {
        identity: identity.to_owned(),
        lease: Duration::from_secs(8),
        renew_deadline: Duration::from_secs(5),
        retry: Duration::from_millis(400),
        ..Election::new(&place.namespace, "hub")
    }
}

/// So long that nobody can wait for it to run out.
fn endless(place: &Place, identity: &str) -> Election {
    Election { lease: 10 * PATIENCE, renew_deadline: PATIENCE, ..election(place, identity) }
}

/// Who worked on what, from when to when.
type Spans = Arc<Mutex<Vec<(String, String, Instant, Instant)>>>;

fn start(place: &Place, client: Client, identity: &str, spans: &Spans) -> Running {
    start_with(place, client, election(place, identity), spans)
}

fn start_with(place: &Place, client: Client, election: Election, spans: &Spans) -> Running {
    let identity = &election.identity.clone();
    let (filter, spans, who) = (place.filter(), spans.clone(), identity.to_owned());
    let build = move || {
        let (spans, who) = (spans.clone(), who.clone());
        let closure = Closure::new(move |task: Arc<Task>, context: Context| {
            let (spans, who) = (spans.clone(), who.clone());
            async move {
                let start = Instant::now();
                tokio::time::sleep(Duration::from_millis(20)).await;
                let result = write_seen(&task, &context).await;
                spans.lock().unwrap().push((task.name_any(), who, start, Instant::now()));
                result?;
                Ok(Next::After(Duration::from_millis(100)))
            }
        });
        Controller::new(closure).filter(filter.clone()).ignore_status_changes()
    };
    let options = Options { election: Some(election), ..Options::default() };
    Running::start(async { client }, identity, options, build)
}

fn last_by(spans: &Spans) -> Option<String> {
    spans.lock().unwrap().last().map(|span| span.1.clone())
}

async fn holder(place: &Place) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(place.client.clone(), &place.namespace);
    leases.get_opt("hub").await.unwrap()?.spec?.holder_identity.filter(|holder| !holder.is_empty())
}

fn assert_no_overlap(spans: &Spans) {
    let spans = spans.lock().unwrap();
    for a in spans.iter() {
        for b in spans.iter().filter(|b| b.0 == a.0 && b.1 != a.1) {
            assert!(a.3 <= b.2 || b.3 <= a.2, "{} was worked on by {} and {} at once", a.0, a.1, b.1);
        }
    }
}

async fn a_clean_stop_hands_over_at_once(peer: &Peer) {
    // SYM-12
    let place = Place::new(peer).await;
    place.make("t", 1).await;
    let spans = Spans::default();
    let first = start_with(&place, place.client.clone(), endless(&place, "first"), &spans);
    eventually("the first works", || async { last_by(&spans).as_deref() == Some("first") }).await;
    let second = start_with(&place, place.client.clone(), endless(&place, "second"), &spans);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(last_by(&spans).as_deref(), Some("first"), "the second must wait");
    assert_eq!(second.figure("leader_election_master_status{name=\"hub\"}"), 0.0);
    assert!(first.handle.leading().await.unwrap() && !second.handle.leading().await.unwrap());
    first.stop();
    // The lease says it is free: nobody waits for it to run out.
    let transitions = |lease: Lease| lease.spec.unwrap().lease_transitions.unwrap();
    eventually("the second works", || async { last_by(&spans).as_deref() == Some("second") }).await;
    assert_eq!(holder(&place).await.as_deref(), Some("second"));
    assert_eq!(second.figure("leader_election_master_status{name=\"hub\"}"), 1.0);
    let leases: Api<Lease> = Api::namespaced(place.client.clone(), &place.namespace);
    // Once, or once more when the answer to the first write was lost.
    let changes = transitions(leases.get("hub").await.unwrap());
    assert!((1..=2).contains(&changes), "{changes}");
    assert_no_overlap(&spans);
    second.stop();
    assert_eq!(holder(&place).await, None);
}

async fn a_kill_is_taken_over_and_nothing_runs_twice_at_once(peer: &Peer) {
    // SYM-12
    let place = Place::new(peer).await;
    for i in 0..4 {
        place.make(&format!("t{i}"), i).await;
    }
    let spans = Spans::default();
    let mut leader = Some(start(&place, client(peer).await, "w0", &spans));
    eventually("it leads", || async { last_by(&spans).as_deref() == Some("w0") }).await;
    for round in 1..4 {
        let name = format!("w{round}");
        let next = start(&place, client(peer).await, &name, &spans);
        tokio::time::sleep(Duration::from_millis(300)).await;
        leader.take().unwrap().kill();
        eventually("the next takes over", || async { last_by(&spans).as_deref() == Some(name.as_str()) }).await;
        leader = Some(next);
    }
    assert_no_overlap(&spans);
    leader.unwrap().stop();
}

/// With the times of a hub that nobody told otherwise, which is what people get.
async fn the_usual_lease_runs_out_before_anybody_takes_over(peer: &Peer) {
    // SYM-12
    let place = Place::new(peer).await;
    place.make("t", 1).await;
    let spans = Spans::default();
    let usual = |identity: &str| Election { identity: identity.to_owned(), ..Election::new(&place.namespace, "hub") };
    let lease = usual("").lease;
    let first = start_with(&place, client(peer).await, usual("first"), &spans);
    eventually("the first works", || async { last_by(&spans).as_deref() == Some("first") }).await;
    let second = start_with(&place, client(peer).await, usual("second"), &spans);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(last_by(&spans).as_deref(), Some("first"), "the second must wait");
    first.kill();
    let killed = Instant::now();
    let leases: Api<Lease> = Api::namespaced(place.client.clone(), &place.namespace);
    let before = leases.get("hub").await.unwrap().spec.unwrap();
    assert_eq!(before.holder_identity.as_deref(), Some("first"), "nobody has released it");
    let taken = tokio::time::timeout(PATIENCE, async {
        while last_by(&spans).as_deref() != Some("second") {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        killed.elapsed()
    });
    println!("{:?}: taken over {:?} after the kill", peer.kind, taken.await.expect("nobody takes over"));
    let after = leases.get("hub").await.unwrap().spec.unwrap();
    assert_eq!(after.holder_identity.as_deref(), Some("second"));
    // Once, or once more when the answer to the first write was lost.
    let changes = after.lease_transitions.unwrap_or(0) - before.lease_transitions.unwrap_or(0);
    assert!((1..=2).contains(&changes), "{changes}");
    // Never before the dead one's time is over: it might only have been cut off.
    let left = after.acquire_time.unwrap().0.duration_since(before.renew_time.unwrap().0);
    assert!(left.unsigned_abs() >= lease, "taken over {left:?} after it was last renewed, within {lease:?}");
    assert_no_overlap(&spans);
    second.stop();
}

type Kept = Arc<Mutex<Vec<Context>>>;

async fn a_leader_that_is_cut_off_cannot_write(peer: &Peer) {
    let place = Place::new(peer).await;
    place.make("t", 1).await;
    let proxy = Proxy::start(peer.port).await;
    let through = client_through(peer, proxy.port).await;
    let kept = Kept::default();
    let (filter, keep) = (place.filter(), kept.clone());
    let build = move || {
        let keep = keep.clone();
        // Keeps what it was given, as a reconciler with a task of its own would.
        let closure = Closure::new(move |_: Arc<Task>, context| {
            keep.lock().unwrap().push(context);
            async { Ok(Next::Wait) }
        });
        Controller::new(closure).filter(filter.clone())
    };
    let options = Options { election: Some(election(&place, "cut")), ..Options::default() };
    let cut = Running::start(async { through }, "cut-off", options, build);
    eventually("it leads", || async { !kept.lock().unwrap().is_empty() }).await;
    let context = kept.lock().unwrap()[0].clone();
    let write = |context: Context| -> Pin<Box<dyn Future<Output = Result<Task, kube::Error>> + Send>> {
        let tasks: Api<Task> = Api::namespaced(context.client.clone(), &place.namespace);
        Box::pin(async move {
            let patch = kube::api::Patch::Merge(serde_json::json!({"spec": {"value": 666}}));
            tasks.patch("t", &Default::default(), &patch).await
        })
    };
    write(context.clone()).await.unwrap();
    place.change("t", 1).await;
    proxy.block();
    let spans = Spans::default();
    let other = start(&place, place.client.clone(), "other", &spans);
    eventually("the other leads", || async { holder(&place).await.as_deref() == Some("other") }).await;
    let refused = write(context.clone()).await.unwrap_err();
    assert!(matches!(Fenced::of(&refused), Some(Fenced::NotLeading { .. })), "{refused}");
    // The network is back, and still not a single write gets out.
    proxy.unblock();
    let refused = write(context.clone()).await.unwrap_err();
    assert!(Fenced::of(&refused).is_some(), "{refused}");
    assert_eq!(place.tasks.get("t").await.unwrap().spec.value, 1);
    assert!(!cut.handle.leading().await.unwrap());
    // When it leads again, what it kept from before stays shut; what it gets now is open.
    kept.lock().unwrap().clear();
    other.stop();
    eventually("it leads again", || async { !kept.lock().unwrap().is_empty() }).await;
    let refused = write(context).await.unwrap_err();
    assert!(matches!(Fenced::of(&refused), Some(Fenced::TermOver { .. })), "{refused}");
    let now = kept.lock().unwrap().last().unwrap().clone();
    write(now).await.unwrap();
    cut.stop();
}
