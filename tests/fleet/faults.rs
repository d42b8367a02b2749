//! A member that is cut off, slow or dead harms nobody else, and comes back by itself.
use std::time::{Duration, Instant};

use fleet::{Cache, CallError, Care, Fleet, Limits, Rules, Selection, State, Subject};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, PostParams};
use muster_tests::runner::Case;
use muster_tests::{PATIENCE, Peer, eventually};
use serde_json::json;

use crate::kit::{care, client, connection, running, until};
use crate::proxy::{Mode, Proxy};

pub fn cases() -> Vec<Case> {
    muster_tests::cases![faults: a_black_holed_member_is_taken_out_and_comes_back, a_member_that_drips_takes_no_more_than_its_share,
        a_member_whose_connections_are_reset_is_taken_out_and_comes_back,
        a_killed_member_comes_back]
}

async fn works(fleet: &Fleet, name: &str, namespace: &str) -> Result<Duration, kube::Error> {
    let start = Instant::now();
    let maps: Api<ConfigMap> = Api::namespaced(fleet.member(name).unwrap().client(), namespace);
    maps.list(&ListParams::default()).await.map(|_| start.elapsed())
}

/// Probes that take their time to call a member lost: what is asked of it meanwhile is still under way when others have answered.
fn patient() -> Care {
    let rules = Rules { failing_for: Duration::from_secs(10), ..care().rules };
    Care { rules, limits: Limits { deadline: Duration::from_secs(4), ..care().limits }, ..care() }
}

/// Asks the well member while the calls to the dark one are under way: all of these are answered before all of those are done.
async fn others_do_not_wait<T>(fleet: &Fleet, namespace: &str, dark: impl Future<Output = T>) -> T {
    let mut dark = std::pin::pin!(dark);
    // They are on their way before anybody else asks.
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut dark).await.is_err(), "the dark one is not dark");
    let others = async {
        // A few: if one waited for the dark ones, none of them would come before those.
        for _ in 0..3 {
            works(fleet, "well", namespace).await.unwrap();
        }
    };
    tokio::select! {
        biased;
        () = others => {}
        _ = &mut dark => panic!("the others were not done when the dark one's calls were"),
    }
    dark.await
}

/// What is made on the member from now on is seen.
async fn follows(cache: &Cache, peer: &Peer, namespace: &str) {
    let made = json!({"metadata": {"name": "after"}});
    let maps: Api<ConfigMap> = Api::namespaced(client(peer), namespace);
    maps.create(&PostParams::default(), &serde_json::from_value(made).unwrap()).await.unwrap();
    let selection = Selection { namespace: Some(namespace.to_owned()), ..Selection::default() };
    eventually("the cache goes on", || async {
        cache.select(&selection).is_ok_and(|all| all.iter().any(|(key, _)| &*key.name == "after"))
    })
    .await;
}

async fn a_black_holed_member_is_taken_out_and_comes_back(peer: &Peer) {
    // F-8, B-14
    let namespace = peer.namespace().await;
    let proxy = Proxy::start(peer.port).await;
    let fleet = Fleet::new(patient());
    fleet.declare("hole", Default::default(), connection(peer, proxy.port));
    fleet.declare("well", Default::default(), connection(peer, peer.port));
    let (hole, well) = (running(&fleet, "hole").await, running(&fleet, "well").await);
    let subject = Subject { namespace: Some(namespace.clone()), ..Subject::new("", "v1", "configmaps") };
    let cache = hole.caches().open(&subject);
    cache.ready(PATIENCE).await.unwrap();
    let before = cache.count().unwrap();

    proxy.set(Mode::Swallow);
    // Calls go into the hole while it is not known yet; nobody else waits for them.
    let lost = futures_util::future::join_all((0..100).map(|_| works(&fleet, "hole", &namespace)));
    let lost = others_do_not_wait(&fleet, &namespace, lost).await;
    assert!(lost.iter().all(Result::is_err));
    until(&hole, State::Unreachable).await;
    assert_eq!(well.status().state, State::Running);
    let error = works(&fleet, "hole", &namespace).await.unwrap_err();
    assert!(matches!(CallError::of(&error), Some(CallError::Unreachable { .. })), "it was not even tried: {error}");
    assert_eq!(cache.count(), Ok(before), "what was known last is still there");
    eventually("the cache knows it is behind", || async { !cache.is_fresh() }).await;
    // All are asked, and the silent one is named.
    let question = |member: std::sync::Arc<fleet::Member>| async move { member.client().apiserver_version().await };
    let answers = fleet.ask(|_| true, PATIENCE, question).await;
    let said: Vec<(&str, bool)> = answers.iter().map(|(member, answer)| (&**member.name(), answer.is_ok())).collect();
    assert_eq!(said, [("hole", false), ("well", true)]);
    assert!(answers[0].1.as_ref().unwrap_err().contains("unreachable"), "{:?}", answers[0].1);

    proxy.set(Mode::Pass);
    until(&hole, State::Running).await;
    works(&fleet, "hole", &namespace).await.unwrap();
    follows(&cache, peer, &namespace).await;
}

async fn a_member_that_drips_takes_no_more_than_its_share(peer: &Peer) {
    // F-9
    let namespace = peer.namespace().await;
    let proxy = Proxy::start(peer.port).await;
    let fleet = Fleet::new(patient());
    fleet.declare("drips", Default::default(), connection(peer, proxy.port));
    fleet.declare("well", Default::default(), connection(peer, peer.port));
    let drips = running(&fleet, "drips").await;
    running(&fleet, "well").await;
    proxy.set(Mode::Drip);
    let slow = futures_util::future::join_all((0..200).map(|_| works(&fleet, "drips", &namespace)));
    let slow = others_do_not_wait(&fleet, &namespace, slow).await;
    for error in slow.into_iter().filter_map(Result::err) {
        assert!(CallError::of(&error).is_some(), "{error}");
    }
    until(&drips, State::Unreachable).await;
    proxy.set(Mode::Pass);
    until(&drips, State::Running).await;
}

async fn a_member_whose_connections_are_reset_is_taken_out_and_comes_back(peer: &Peer) {
    // F-8
    let namespace = peer.namespace().await;
    let proxy = Proxy::start(peer.port).await;
    let fleet = Fleet::new(care());
    fleet.declare("reset", Default::default(), connection(peer, proxy.port));
    fleet.declare("well", Default::default(), connection(peer, peer.port));
    let (reset, well) = (running(&fleet, "reset").await, running(&fleet, "well").await);
    let subject = Subject { namespace: Some(namespace.clone()), ..Subject::new("", "v1", "configmaps") };
    let cache = reset.caches().open(&subject);
    cache.ready(PATIENCE).await.unwrap();
    proxy.set(Mode::Reset);
    assert!(works(&fleet, "reset", &namespace).await.is_err());
    works(&fleet, "well", &namespace).await.unwrap();
    until(&reset, State::Unreachable).await;
    assert_eq!(well.status().state, State::Running);
    assert!(cache.count().is_ok(), "what was known last is still there");
    proxy.set(Mode::Pass);
    until(&reset, State::Running).await;
    works(&fleet, "reset", &namespace).await.unwrap();
    follows(&cache, peer, &namespace).await;
}

async fn a_killed_member_comes_back(peer: &Peer) {
    // F-8
    let other = Peer::start(peer.kind).await.unwrap();
    let fleet = Fleet::new(care());
    fleet.declare("killed", Default::default(), connection(&other, other.port));
    fleet.declare("well", Default::default(), connection(peer, peer.port));
    let killed = running(&fleet, "killed").await;
    running(&fleet, "well").await;
    other.kill();
    until(&killed, State::Unreachable).await;
    works(&fleet, "well", "default").await.unwrap();
    other.launch().unwrap();
    other.ready_again(PATIENCE).await.unwrap();
    until(&killed, State::Running).await;
    works(&fleet, "killed", "default").await.unwrap();
}
