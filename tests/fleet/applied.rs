//! An owner's objects on a member: made, changed, pruned, compared, removed; never another's.
use std::time::Duration;

use fleet::{AppliedSet, Cleanups, Conflict, Fleet, OWNER, Owner, Policy, Removal, State, TakeOver};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::DynamicObject;
use kube::{Api, Client};
use muster_tests::runner::Case;
use muster_tests::{Peer, eventually};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::kit::{care, client, connection, object, running, until};
use crate::proxy::{Mode, Proxy};

pub fn cases() -> Vec<Case> {
    muster_tests::cases![applied: a_set_is_applied_changed_pruned_and_removed, nobody_elses_object_is_touched, drift_is_found_and_set_right,
        an_apply_or_delete_meant_for_another_object_is_refused, a_definition_and_its_objects_come_in_one_set, a_clean_up_waits_for_its_member, a_clean_up_is_given_up_only_in_writing]
}

fn owner(namespace: &str, name: &str) -> Owner {
    Owner { kind: "AppSet".into(), namespace: namespace.into(), name: name.into(), uid: format!("{namespace}-{name}") }
}

fn map(namespace: &str, name: &str, value: &str) -> DynamicObject {
    object(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {"k": value}}),
    )
}

async fn value(client: &Client, namespace: &str, name: &str) -> Option<String> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    maps.get_opt(name).await.unwrap()?.data?.remove("k")
}

async fn inventories(client: &Client, owner: &Owner) -> usize {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "muster-system");
    maps.get_opt(&format!("muster-applied-{}", owner.label())).await.unwrap().into_iter().count()
}

async fn a_set_is_applied_changed_pruned_and_removed(peer: &Peer) {
    let (client, namespace) = (client(peer), peer.namespace().await);
    let owner = owner(&namespace, "one");
    let set = AppliedSet::new(client.clone(), owner.clone(), Policy::default());
    let first = set.apply(vec![map(&namespace, "a", "1"), map(&namespace, "b", "1")]).await.unwrap();
    assert_eq!((first.applied.len(), first.is_done()), (2, true));
    let same = set.apply(vec![map(&namespace, "a", "1"), map(&namespace, "b", "1")]).await.unwrap();
    assert_eq!((same.applied.len(), same.deleted.len()), (0, 0), "what is so already is left alone");
    let second = set.apply(vec![map(&namespace, "a", "2"), map(&namespace, "c", "2")]).await.unwrap();
    assert_eq!((second.applied.len(), second.deleted.len()), (2, 1));
    assert_eq!(value(&client, &namespace, "a").await.as_deref(), Some("2"));
    assert_eq!(value(&client, &namespace, "b").await, None);
    assert_eq!(inventories(&client, &owner).await, 1);
    while !set.remove().await.unwrap().is_done() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(value(&client, &namespace, "a").await, None);
    assert_eq!(value(&client, &namespace, "c").await, None);
    assert_eq!(inventories(&client, &owner).await, 0);
}

async fn nobody_elses_object_is_touched(peer: &Peer) {
    let (client, namespace) = (client(peer), peer.namespace().await);
    let set = |name: &str, take_over| {
        let policy = Policy { take_over, ..Policy::default() };
        AppliedSet::new(client.clone(), owner(&namespace, name), policy)
    };
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let found = json!({"metadata": {"name": "found"}, "data": {"k": "mine"}});
    maps.create(&PostParams::default(), &serde_json::from_value(found).unwrap()).await.unwrap();

    let one = set("one", TakeOver::Never);
    let wanted = vec![map(&namespace, "found", "theirs"), map(&namespace, "held", "one")];
    let report = one.apply(wanted.clone()).await.unwrap();
    assert_eq!(report.conflicts.values().collect::<Vec<_>>(), [&Conflict::Exists]);
    assert_eq!(value(&client, &namespace, "found").await.as_deref(), Some("mine"));

    let two = set("two", TakeOver::Always);
    let report = two.apply(wanted).await.unwrap();
    assert_eq!(report.conflicts.values().collect::<Vec<_>>(), [&Conflict::Held(owner(&namespace, "one").label())]);
    assert_eq!(
        value(&client, &namespace, "found").await.as_deref(),
        Some("theirs"),
        "taken over, because that was allowed"
    );
    assert_eq!(value(&client, &namespace, "held").await.as_deref(), Some("one"));

    // Somebody takes the label off: from then on it is nobody's to delete.
    let free = json!({"metadata": {"labels": {OWNER: null}}});
    maps.patch("held", &PatchParams::default(), &Patch::Merge(&free)).await.unwrap();
    assert!(one.remove().await.unwrap().is_done());
    while !two.remove().await.unwrap().is_done() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(value(&client, &namespace, "held").await.as_deref(), Some("one"));
    assert_eq!(value(&client, &namespace, "found").await, None);
}

async fn drift_is_found_and_set_right(peer: &Peer) {
    let (client, namespace) = (client(peer), peer.namespace().await);
    let set = AppliedSet::new(client.clone(), owner(&namespace, "one"), Policy::default());
    let deployment = object(
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": namespace},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "i:1", "resources": {"limits": {"cpu": "1000m"}}}]}}}}),
    );
    let wanted = vec![deployment, map(&namespace, "a", "1")];
    assert_eq!(set.verify(wanted.clone()).await.unwrap().len(), 2, "nothing is there yet");
    set.apply(wanted.clone()).await.unwrap();
    assert_eq!(set.verify(wanted.clone()).await.unwrap(), [], "1000m and 1 are the same");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let changed = json!({"data": {"k": "changed", "more": "x"}});
    maps.patch("a", &PatchParams::default(), &Patch::Merge(&changed)).await.unwrap();
    let drifts = set.verify(wanted.clone()).await.unwrap();
    assert_eq!((drifts.len(), drifts[0].paths.as_slice()), (1, [".data.k".to_owned()].as_slice()));
    set.apply(wanted.clone()).await.unwrap();
    assert_eq!(set.verify(wanted).await.unwrap(), []);
    assert_eq!(value(&client, &namespace, "a").await.as_deref(), Some("1"));
}

/// What the set relies on: a server that looks at the uid.
async fn an_apply_or_delete_meant_for_another_object_is_refused(peer: &Peer) {
    let (client, namespace) = (client(peer), peer.namespace().await);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let meant = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": namespace,
        "uid": "6f0f3f6e-0000-4000-8000-000000000000"}, "data": {"k": "2"}});
    let apply = async || {
        let refused = maps.patch("a", &PatchParams::apply("muster").force(), &Patch::Apply(&meant)).await.unwrap_err();
        // A uid cannot be changed: 422 where there is another object, 409 where there is none.
        matches!(&refused, kube::Error::Api(status) if matches!(status.code, 409 | 422))
    };
    assert!(apply().await, "there is none");
    maps.create(&PostParams::default(), &serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap())
        .await
        .unwrap();
    assert!(apply().await, "there is another");
    let only = Preconditions { uid: Some("6f0f3f6e-0000-4000-8000-000000000000".into()), resource_version: None };
    let parameters = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
    let refused = maps.delete("a", &parameters).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 409), "{refused}");
}

async fn a_definition_and_its_objects_come_in_one_set(peer: &Peer) {
    let (client, namespace) = (client(peer), peer.namespace().await);
    let set = AppliedSet::new(
        client.clone(),
        owner(&namespace, "one"),
        Policy { delete_containers: true, ..Policy::default() },
    );
    let group = format!("{namespace}.fleet.muster.dev");
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = object(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}}));
    let thing = object(
        json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "t", "namespace": namespace}, "spec": {"a": 1}}),
    );
    let report = set.apply(vec![thing.clone(), definition.clone()]).await.unwrap();
    assert_eq!(
        report.applied.iter().map(|id| id.kind.as_str()).collect::<Vec<_>>(),
        ["CustomResourceDefinition", "Thing"]
    );
    assert!(set.apply(vec![thing, definition]).await.unwrap().applied.len() <= 1);
    eventually("everything is gone", || async { set.remove().await.is_ok_and(|report| report.is_done()) }).await;
}

async fn a_clean_up_waits_for_its_member(peer: &Peer) {
    // F-8; research P-1, P-2
    let (client, namespace) = (client(peer), peer.namespace().await);
    let proxy = Proxy::start(peer.port).await;
    let fleet = Fleet::new(care());
    fleet.declare("hole", Default::default(), connection(peer, proxy.port));
    let member = running(&fleet, "hole").await;
    let owner = owner(&namespace, "one");
    let set = AppliedSet::new(member.client(), owner.clone(), Policy::default());
    set.apply(vec![map(&namespace, "a", "1")]).await.unwrap();

    proxy.set(Mode::Swallow);
    until(&member, State::Unreachable).await;
    let cleanups = Cleanups::new(client.clone(), &namespace);
    assert_eq!(cleanups.remove(&fleet, "hole", &owner, Policy::default()).await.unwrap(), Removal::PutOff);
    assert_eq!(cleanups.remove(&fleet, "hole", &owner, Policy::default()).await.unwrap(), Removal::PutOff);
    assert_eq!(cleanups.list().await.unwrap().len(), 1);
    assert_eq!(value(&client, &namespace, "a").await.as_deref(), Some("1"));

    let stop = CancellationToken::new();
    let (work, working, token) = (cleanups.clone(), fleet.clone(), stop.clone());
    let task = tokio::spawn(async move { work.run(working, token).await });
    proxy.set(Mode::Pass);
    eventually("what was put off is done", || async { cleanups.list().await.unwrap().is_empty() }).await;
    assert_eq!(value(&client, &namespace, "a").await, None);
    assert_eq!(inventories(&client, &owner).await, 0);
    stop.cancel();
    task.await.unwrap();
}

async fn a_clean_up_is_given_up_only_in_writing(peer: &Peer) {
    let (client, namespace) = (client(peer), peer.namespace().await);
    let fleet = Fleet::new(care());
    let owner = owner(&namespace, "one");
    let cleanups = Cleanups::new(client.clone(), &namespace);
    assert_eq!(cleanups.remove(&fleet, "gone", &owner, Policy::default()).await.unwrap(), Removal::PutOff);
    cleanups.abandon("gone", &owner, "admin", "the hardware is scrap").await.unwrap();
    let given_up = cleanups.list().await.unwrap().remove(0).abandoned.unwrap();
    assert!(given_up.contains("by admin: the hardware is scrap"), "{given_up}");

    // The member comes after all: what was given up stays untouched.
    let set = AppliedSet::new(client.clone(), owner.clone(), Policy::default());
    set.apply(vec![map(&namespace, "a", "1")]).await.unwrap();
    fleet.declare("gone", Default::default(), connection(peer, peer.port));
    running(&fleet, "gone").await;
    let (work, working, stop) = (cleanups.clone(), fleet.clone(), CancellationToken::new());
    let token = stop.clone();
    let task = tokio::spawn(async move { work.run(working, token).await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(value(&client, &namespace, "a").await.as_deref(), Some("1"));
    stop.cancel();
    task.await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client, &namespace);
    maps.delete("a", &DeleteParams::default()).await.unwrap();
}
