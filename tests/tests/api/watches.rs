//! Watches: where they start, what they deliver, how they end. The behaviours of the upstream storage contract, by our own tests.
use std::time::Duration;

use muster_tests::peer::Settings;
use muster_tests::runner::Case;
use muster_tests::{Peer, Watch, cases, eventually};
use serde_json::{Value, json};

use crate::{collection, config_map, revision};

pub fn cases() -> Vec<Case> {
    cases![watches: starts_with_what_is_there, starts_after_a_revision, delivers_in_order_and_once, deleted_carries_the_last_state,
        finalized_object_is_modified_then_deleted, selector_transitions, field_selector_by_name, one_object_by_name_path, ends_after_its_timeout, initial_events_end_bookmark,
        initial_events_need_their_options, bookmarks_carry_only_a_revision, namespaces_do_not_mix, cluster_wide, cluster_scoped, metadata_only, as_table,
        events_are_seen_in_both_groups, unchanged_update_is_no_event, over_http1, bad_revision, future_revision, many_watchers_see_the_same,
        resumes_without_gap_or_repeat, dry_run_is_no_event]
    .into_iter()
    .chain(cases![kubernetes watches: compacted_revision_is_gone])
    .chain(cases![muster watches: old_history_is_forgotten])
    .collect()
}

async fn starts_with_what_is_there(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    peer.post(&path, config_map("b", "1")).await.ok(201);
    peer.post(&path, config_map("a", "1")).await.ok(201);
    for from in ["", "&resourceVersion=0", "&resourceVersion="] {
        let mut watch = peer.watch(&format!("{path}?watch=true{from}")).await;
        let mut seen: Vec<String> = Vec::new();
        for _ in 0..2 {
            let event = watch.event().await;
            assert_eq!(event["type"], "ADDED");
            assert_eq!(event["object"]["kind"], "ConfigMap", "objects in events are whole");
            seen.push(event["object"]["metadata"]["name"].as_str().unwrap().to_owned());
        }
        seen.sort();
        assert_eq!(seen, ["a", "b"]);
        let name = format!("new{}", from.len());
        peer.post(&path, config_map(&name, "1")).await.ok(201);
        watch.expect("ADDED", &name).await;
        peer.delete(&format!("{path}/{name}")).await.ok(200);
        watch.expect("DELETED", &name).await;
    }
}

async fn starts_after_a_revision(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let a = peer.post(&path, config_map("a", "1")).await.ok(201);
    peer.post(&path, config_map("b", "1")).await.ok(201);
    peer.put(&format!("{path}/a"), config_map("a", "2")).await.ok(200);
    peer.delete(&format!("{path}/b")).await.ok(200);
    let mut watch = peer.watch(&format!("{path}?watch=1&resourceVersion={}", revision(&a))).await;
    watch.expect("ADDED", "b").await;
    assert_eq!(watch.expect("MODIFIED", "a").await["data"]["value"], "2");
    watch.expect("DELETED", "b").await;
    watch.quiet(Duration::from_millis(200)).await;
    // From the revision of a list: nothing that is in the list, everything after it.
    let list = peer.get(&path).await.ok(200);
    let mut watch = peer.watch(&format!("{path}?watch=1&resourceVersion={}", revision(&list))).await;
    watch.quiet(Duration::from_millis(200)).await;
    peer.post(&path, config_map("c", "1")).await.ok(201);
    watch.expect("ADDED", "c").await;
}

async fn delivers_in_order_and_once(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = &collection("configmaps", &ns);
    let mut watch = peer.watch(&format!("{path}?watch=true")).await;
    let writer = |w: usize| async move {
        for i in 0..25 {
            let name = format!("w{w}");
            match i {
                0 => peer.post(path, config_map(&name, "0")).await.ok(201),
                _ => peer.put(&format!("{path}/{name}"), config_map(&name, &i.to_string())).await.ok(200),
            };
        }
    };
    futures_util::future::join_all((0..4).map(writer)).await;
    let mut last = 0;
    let mut values = std::collections::HashMap::new();
    for _ in 0..100 {
        let event = watch.event().await;
        let at = revision(&event["object"]);
        assert!(at > last, "revision {at} after {last}");
        last = at;
        let name = event["object"]["metadata"]["name"].as_str().unwrap().to_owned();
        let value: i32 = event["object"]["data"]["value"].as_str().unwrap().parse().unwrap();
        let before = values.insert(name, value).unwrap_or(-1);
        assert_eq!(value, before + 1, "no change is skipped");
        assert_eq!(event["type"], if value == 0 { "ADDED" } else { "MODIFIED" });
    }
    watch.quiet(Duration::from_millis(100)).await;
}

async fn deleted_carries_the_last_state(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let made = peer.post(&path, config_map("a", "last")).await.ok(201);
    let mut watch = peer.watch(&format!("{path}?watch=true&resourceVersion={}", revision(&made))).await;
    peer.delete(&format!("{path}/a")).await.ok(200);
    let gone = watch.expect("DELETED", "a").await;
    assert_eq!(gone["data"]["value"], "last");
    assert!(revision(&gone) > revision(&made), "with the revision of the deletion");
}

async fn finalized_object_is_modified_then_deleted(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let made = peer.post(&path, json!({"metadata": {"name": "a", "finalizers": ["x.example/y"]}})).await.ok(201);
    let mut watch = peer.watch(&format!("{path}?watch=true&resourceVersion={}", revision(&made))).await;
    peer.delete(&format!("{path}/a")).await.ok(200);
    assert!(watch.expect("MODIFIED", "a").await["metadata"]["deletionTimestamp"].is_string());
    peer.patch(&format!("{path}/a"), "merge", json!({"metadata": {"finalizers": null}})).await.ok(200);
    watch.expect("DELETED", "a").await;
    watch.quiet(Duration::from_millis(100)).await;
}

async fn selector_transitions(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let labelled =
        |value: &str, data: &str| json!({"metadata": {"name": "a", "labels": {"in": value}}, "data": {"n": data}});
    let mut watch = peer.watch(&format!("{path}?watch=true&labelSelector=in%3Dyes")).await;
    peer.post(&path, labelled("no", "1")).await.ok(201);
    peer.put(&format!("{path}/a"), labelled("yes", "2")).await.ok(200);
    assert_eq!(watch.expect("ADDED", "a").await["data"]["n"], "2");
    peer.put(&format!("{path}/a"), labelled("yes", "3")).await.ok(200);
    assert_eq!(watch.expect("MODIFIED", "a").await["data"]["n"], "3");
    let out = peer.put(&format!("{path}/a"), labelled("no", "4")).await.ok(200);
    let gone = watch.expect("DELETED", "a").await;
    assert_eq!(gone["data"]["n"], "3", "the state that last matched");
    assert_eq!(revision(&gone), revision(&out), "at the revision of the change");
    peer.put(&format!("{path}/a"), labelled("no", "5")).await.ok(200);
    peer.delete(&format!("{path}/a")).await.ok(200);
    watch.quiet(Duration::from_millis(200)).await;
}

async fn field_selector_by_name(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let mut watch = peer.watch(&format!("{path}?watch=true&fieldSelector=metadata.name%3Db")).await;
    peer.post(&path, config_map("a", "1")).await.ok(201);
    peer.post(&path, config_map("b", "1")).await.ok(201);
    watch.expect("ADDED", "b").await;
    peer.delete(&path).await.ok(200);
    watch.expect("DELETED", "b").await;
}

async fn one_object_by_name_path(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    peer.post(&path, config_map("a", "1")).await.ok(201);
    let deprecated = format!("/api/v1/watch/namespaces/{ns}/configmaps/b");
    let mut watch = peer.watch(&deprecated).await;
    peer.post(&path, config_map("b", "1")).await.ok(201);
    watch.expect("ADDED", "b").await;
}

async fn ends_after_its_timeout(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let mut watch = peer.watch(&format!("{path}?watch=true&timeoutSeconds=1")).await;
    let rest = watch.rest().await;
    assert!(rest.iter().all(|event| event["type"] == "BOOKMARK"), "{rest:?}");
}

async fn initial_events_end_bookmark(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    peer.post(&path, config_map("a", "1")).await.ok(201);
    peer.post(&path, config_map("b", "1")).await.ok(201);
    let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let list = peer.get(&path).await.ok(200);
    for from in [String::new(), "&resourceVersion=0".to_owned(), format!("&resourceVersion={}", revision(&list))] {
        let mut watch = peer.watch(&format!("{path}?{query}{from}")).await;
        let mut seen = Vec::new();
        let end = loop {
            let event = watch.next().await.unwrap();
            match event["type"].as_str().unwrap() {
                "ADDED" => seen.push(event["object"]["metadata"]["name"].as_str().unwrap().to_owned()),
                "BOOKMARK" => break event["object"].clone(),
                _ => panic!("{event}"),
            }
        };
        seen.sort();
        assert_eq!(seen, ["a", "b"]);
        assert_eq!(end["metadata"]["annotations"]["k8s.io/initial-events-end"], "true", "{end}");
        assert_eq!(end["kind"], "ConfigMap");
        assert!(revision(&end) >= revision(&list));
        let name = format!("after{}", from.len());
        peer.post(&path, config_map(&name, "1")).await.ok(201);
        watch.expect("ADDED", &name).await;
        peer.delete(&format!("{path}/{name}")).await.ok(200);
        // A state of any age may be what the next one begins with.
        watch.expect("DELETED", &name).await;
    }
}

async fn initial_events_need_their_options(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    for query in [
        "watch=true&sendInitialEvents=true",
        "watch=true&sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=5",
        "watch=true&resourceVersionMatch=NotOlderThan&resourceVersion=5",
    ] {
        peer.get(&format!("{path}?{query}&timeoutSeconds=1")).await.fails(422, "Invalid");
    }
}

async fn bookmarks_carry_only_a_revision(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let made = peer.post(&path, config_map("a", "1")).await.ok(201);
    // A bookmark comes at the latest shortly before the watch times out.
    let from = revision(&made);
    let path = format!("{path}?watch=true&allowWatchBookmarks=true&timeoutSeconds=4&resourceVersion={from}");
    // A server that stands still for those seconds has none to send.
    for _ in 0..3 {
        let mut watch = peer.watch(&path).await;
        peer.post("/api/v1/namespaces/default/configmaps", json!({"metadata": {"generateName": "elsewhere-"}}))
            .await
            .ok(201);
        let events = watch.rest().await;
        for event in &events {
            assert_eq!(event["type"], "BOOKMARK");
            let object = &event["object"];
            assert_eq!(object["kind"], "ConfigMap");
            assert!(revision(object) >= from && object["metadata"].get("name").is_none(), "{object}");
        }
        if !events.is_empty() || !peer.is_muster() {
            return;
        }
    }
    panic!("no bookmark within the time of the watch");
}

async fn namespaces_do_not_mix(peer: &Peer) {
    let (one, two) = (peer.namespace().await, peer.namespace().await);
    let mut watch = peer.watch(&format!("{}?watch=true", collection("configmaps", &one))).await;
    peer.post(&collection("configmaps", &two), config_map("other", "1")).await.ok(201);
    peer.post(&collection("configmaps", &one), config_map("mine", "1")).await.ok(201);
    watch.expect("ADDED", "mine").await;
}

async fn cluster_wide(peer: &Peer) {
    let (one, two) = (peer.namespace().await, peer.namespace().await);
    let mut watch = peer.watch(&format!("/api/v1/configmaps?watch=true&labelSelector=wide%3D{one}")).await;
    for ns in [&one, &two] {
        peer.post(&collection("configmaps", ns), json!({"metadata": {"name": "a", "labels": {"wide": one}}}))
            .await
            .ok(201);
        assert_eq!(watch.expect("ADDED", "a").await["metadata"]["namespace"], ns.as_str());
    }
}

async fn cluster_scoped(peer: &Peer) {
    let list = peer.get("/api/v1/namespaces?limit=1").await.ok(200);
    let ns = format!("scoped-{}", revision(&list));
    let mut watch = peer.watch(&format!("/api/v1/namespaces?watch=true&fieldSelector=metadata.name%3D{ns}")).await;
    peer.post("/api/v1/namespaces", json!({"metadata": {"name": ns}})).await.ok(201);
    watch.expect("ADDED", &ns).await;
    peer.patch(&format!("/api/v1/namespaces/{ns}"), "merge", json!({"metadata": {"labels": {"a": "b"}}})).await.ok(200);
    watch.expect("MODIFIED", &ns).await;
}

async fn metadata_only(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("secrets", &ns);
    let accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let mut watch = Watch::open(peer, &format!("{path}?watch=true"), Some(accept)).await;
    peer.post(&path, json!({"metadata": {"name": "a"}, "stringData": {"k": "hidden"}})).await.ok(201);
    let object = watch.expect("ADDED", "a").await;
    assert_eq!(object["kind"], "PartialObjectMetadata");
    assert!(object.get("data").is_none());
}

async fn as_table(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let mut watch =
        Watch::open(peer, &format!("{path}?watch=true"), Some("application/json;as=Table;v=v1;g=meta.k8s.io")).await;
    peer.post(&path, config_map("a", "1")).await.ok(201);
    peer.post(&path, config_map("b", "1")).await.ok(201);
    let first = watch.event().await;
    assert_eq!(first["object"]["kind"], "Table");
    assert_eq!(first["object"]["rows"][0]["cells"][0], "a");
    assert_eq!(first["object"]["columnDefinitions"][0]["name"], "Name");
    let second = watch.event().await;
    assert!(second["object"]["columnDefinitions"].as_array().is_none_or(Vec::is_empty), "columns come once: {second}");
    assert_eq!(second["object"]["rows"][0]["cells"][0], "b");
}

async fn events_are_seen_in_both_groups(peer: &Peer) {
    let ns = peer.namespace().await;
    let mut core = peer.watch(&format!("{}?watch=true", collection("events", &ns))).await;
    let mut new = peer.watch(&format!("{}?watch=true", collection("newevents", &ns))).await;
    let body = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": ns, "name": "x"}, "reason": "R", "message": "m"});
    peer.post(&collection("events", &ns), body).await.ok(201);
    let old = core.expect("ADDED", "e").await;
    let new = new.expect("ADDED", "e").await;
    assert_eq!((old["apiVersion"].as_str(), new["apiVersion"].as_str()), (Some("v1"), Some("events.k8s.io/v1")));
    assert_eq!((&old["message"], &old["involvedObject"]["name"]), (&new["note"], &new["regarding"]["name"]));
    assert_eq!(revision(&old), revision(&new));
}

async fn unchanged_update_is_no_event(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let made = peer.post(&path, config_map("a", "1")).await.ok(201);
    let mut watch = peer.watch(&format!("{path}?watch=true&resourceVersion={}", revision(&made))).await;
    peer.put(&format!("{path}/a"), &made).await.ok(200);
    watch.quiet(Duration::from_millis(200)).await;
}

async fn dry_run_is_no_event(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let mut watch = peer.watch(&format!("{path}?watch=true")).await;
    peer.post(&format!("{path}?dryRun=All"), config_map("a", "1")).await.ok(201);
    watch.quiet(Duration::from_millis(200)).await;
}

async fn over_http1(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    peer.post(&path, config_map("a", "1")).await.ok(201);
    let answer = peer.call("GET", &format!("{path}?watch=true&timeoutSeconds=1")).http1().send().await;
    assert_eq!(answer.version, http::Version::HTTP_11);
    assert_eq!(answer.header("transfer-encoding"), "chunked");
    let first: Value = serde_json::from_str(answer.text().lines().next().unwrap()).unwrap();
    assert_eq!(first["object"]["metadata"]["name"], "a");
}

async fn bad_revision(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    peer.get(&format!("{path}?watch=true&timeoutSeconds=1&resourceVersion=abc")).await.bad_request_or_internal(peer);
}

async fn future_revision(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let made = peer.post(&path, config_map("a", "1")).await.ok(201);
    let future = revision(&made) + 100_000;
    // Events at or below the asked revision are never sent; the watch simply waits (or is refused as too large).
    let answer = peer.get(&format!("{path}?watch=true&timeoutSeconds=1&resourceVersion={future}")).await;
    let first: Value =
        answer.text().lines().next().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    assert!(first.is_null() || first["type"] == "ERROR" || answer.status == 504, "{}", answer.text());
}

async fn many_watchers_see_the_same(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = &collection("configmaps", &ns);
    let made = peer.post(path, config_map("a", "0")).await.ok(201);
    let from = revision(&made);
    let open = (0..10).map(|_| async move { peer.watch(&format!("{path}?watch=true&resourceVersion={from}")).await });
    let mut watches = futures_util::future::join_all(open).await;
    for i in 1..=20 {
        peer.put(&format!("{path}/a"), config_map("a", &i.to_string())).await.ok(200);
    }
    let mut histories = Vec::new();
    for watch in &mut watches {
        let mut history = Vec::new();
        for _ in 0..20 {
            history.push(watch.event().await);
        }
        histories.push(history);
    }
    assert!(histories.iter().all(|history| *history == histories[0]));
}

async fn resumes_without_gap_or_repeat(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let made = peer.post(&path, config_map("a", "0")).await.ok(201);
    let mut at = revision(&made);
    let mut next = 1;
    for round in 0..5 {
        for i in 0..4 {
            peer.put(&format!("{path}/a"), config_map("a", &(round * 4 + i + 1).to_string())).await.ok(200);
        }
        // Read only a part, then come again from there.
        let mut watch = peer.watch(&format!("{path}?watch=true&resourceVersion={at}")).await;
        for _ in 0..3 {
            let object = watch.expect("MODIFIED", "a").await;
            assert_eq!(object["data"]["value"], next.to_string());
            next += 1;
            at = revision(&object);
        }
    }
}

async fn compacted_revision_is_gone(shared: &Peer) {
    // Of its own, because its history is thrown away, which the other cases read.
    let peer = &Peer::start(shared.kind).await.unwrap();
    let ns = peer.namespace().await;
    // Events have no watch cache in Kubernetes, so that compaction shows at once.
    let path = collection("events", &ns);
    let event = |name: &str| json!({"metadata": {"name": name}, "involvedObject": {"namespace": ns}});
    let first = peer.post(&path, event("e1")).await.ok(201);
    peer.post(&path, event("e2")).await.ok(201);
    peer.post(&path, event("e3")).await.ok(201);
    assert!(peer.compact().await);
    let mut watch = peer.watch(&format!("{path}?watch=true&resourceVersion={}", revision(&first))).await;
    gone(&watch.event().await);
    let exact = format!("{path}?resourceVersion={}&resourceVersionMatch=Exact", revision(&first));
    peer.get(&exact).await.fails(410, "Expired");
}

/// A muster of its own, told to keep one second of history; on Kubernetes the same is proven by compacting etcd.
async fn old_history_is_forgotten(shared: &Peer) {
    let settings = Settings { arguments: vec!["--history=1s".to_owned()], ..Settings::default() };
    let peer = &Peer::start_with(shared.kind, settings).await.unwrap_or_else(|why| panic!("{why}"));
    let path = collection("configmaps", "default");
    let first = peer.post(&path, config_map("a", "1")).await.ok(201);
    for name in ["b", "c", "d"] {
        peer.post(&path, config_map(name, "1")).await.ok(201);
    }
    let page = peer.get(&format!("{path}?limit=2")).await.ok(200);
    let token = page["metadata"]["continue"].as_str().unwrap();
    // The newest few thousand events are kept whatever their age: push the first ones out.
    let write = |w: usize| {
        let leases = collection("leases", "default");
        async move {
            for i in 0..160 {
                peer.post(&leases, json!({"metadata": {"name": format!("w{w}-{i}")}})).await.ok(201);
            }
        }
    };
    futures_util::future::join_all((0..16).map(write)).await;
    let next = format!("{path}?limit=2&continue={token}");
    eventually("the continue token expires", || async { peer.get(&next).await.status != 200 }).await;
    let expired = peer.get(&next).await.fails(410, "Expired");
    // The way on: a token that continues after the same name, on the newest revision.
    let token = expired["metadata"]["continue"].as_str().unwrap();
    let rest = peer.get(&format!("{path}?limit=5&continue={token}")).await.ok(200);
    assert_eq!(crate::names(&rest), ["c", "d"]);
    let mut watch = peer.watch(&format!("{path}?watch=true&resourceVersion={}", revision(&first))).await;
    gone(&watch.event().await);
    assert_eq!(watch.next().await, None, "the stream ends after it");
    let exact = format!("{path}?resourceVersion={}&resourceVersionMatch=Exact", revision(&first));
    peer.get(&exact).await.fails(410, "Expired");
    // What is not exact is answered from now.
    peer.get(&format!("{path}?resourceVersion={}", revision(&first))).await.ok(200);
}

/// 410 comes as an ERROR event with a Status, after which the stream ends.
pub fn gone(event: &Value) {
    assert_eq!(event["type"], "ERROR", "{event}");
    assert_eq!(event["object"]["kind"], "Status");
    assert_eq!(event["object"]["code"], 410);
    assert!(event["object"]["reason"] == "Expired" || event["object"]["reason"] == "Gone", "{event}");
}
