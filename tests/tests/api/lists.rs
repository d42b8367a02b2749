//! Lists: snapshots, pages, selectors, resource versions. The behaviours of the upstream storage contract, by our own tests.
use muster_tests::runner::Case;
use muster_tests::{Peer, cases};
use serde_json::{Value, json};

use crate::{collection, config_map, names, revision};

pub fn cases() -> Vec<Case> {
    cases![lists: order_is_by_name, all_namespaces, pages_are_one_snapshot, pages_with_a_selector_have_no_remaining_count,
        continue_token_cannot_be_mixed_with_a_revision, bad_options_are_refused, exact_and_not_older_than, future_revision_is_a_timeout,
        label_selectors, field_selectors, events_by_fields, tables, table_pages, partial_metadata, empty_list_shape, namespaces_list]
    .into_iter()
    .chain(cases![kubernetes lists: expired_continue_token])
    .collect()
}

async fn fill(peer: &Peer, path: &str, names: &[&str]) -> Vec<Value> {
    let mut made = Vec::new();
    for name in names {
        made.push(peer.post(path, config_map(name, "1")).await.ok(201));
    }
    made
}

async fn order_is_by_name(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    fill(peer, &path, &["c", "a.b", "a", "a-b", "b", "a0"]).await;
    let list = peer.get(&path).await.ok(200);
    assert_eq!(list["kind"], "ConfigMapList");
    assert_eq!(list["apiVersion"], "v1");
    assert_eq!(names(&list), ["a", "a-b", "a.b", "a0", "b", "c"]);
}

async fn all_namespaces(peer: &Peer) {
    let (one, two) = (peer.namespace().await, peer.namespace().await);
    for ns in [&one, &two] {
        peer.post(&collection("configmaps", ns), json!({"metadata": {"name": "a", "labels": {"all": one}}}))
            .await
            .ok(201);
    }
    let list = peer.get(&format!("/api/v1/configmaps?labelSelector=all%3D{one}")).await.ok(200);
    let found: Vec<&str> =
        list["items"].as_array().unwrap().iter().filter_map(|i| i["metadata"]["namespace"].as_str()).collect();
    assert_eq!(found.len(), 2);
    assert!(found.contains(&one.as_str()) && found.contains(&two.as_str()));
}

async fn pages_are_one_snapshot(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    fill(peer, &path, &["a", "b", "c", "d", "e"]).await;
    let first = peer.get(&format!("{path}?limit=2")).await.ok(200);
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    // Written between pages: none of it may show.
    fill(peer, &path, &["bb", "cc", "z"]).await;
    peer.delete(&format!("{path}/d")).await.ok(200);
    peer.put(&format!("{path}/e"), config_map("e", "changed")).await.ok(200);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = peer.get(&format!("{path}?limit=2&continue={token}")).await.ok(200);
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(revision(&second), revision(&first), "all pages are of one revision");
    assert_eq!(second["metadata"]["remainingItemCount"], 1);
    let token = second["metadata"]["continue"].as_str().unwrap();
    let third = peer.get(&format!("{path}?limit=2&continue={token}")).await.ok(200);
    assert_eq!(names(&third), ["e"]);
    assert_eq!(third["items"][0]["data"]["value"], "1", "the last page shows the snapshot too");
    assert!(
        third["metadata"].get("continue").is_none() && third["metadata"].get("remainingItemCount").is_none(),
        "{third}"
    );
    // The rest in one go, without a limit.
    let token = first["metadata"]["continue"].as_str().unwrap();
    assert_eq!(names(&peer.get(&format!("{path}?continue={token}")).await.ok(200)), ["c", "d", "e"]);
    // A page as large as the collection is the whole collection.
    let whole = peer.get(&format!("{path}?limit=7")).await.ok(200);
    assert!(whole["metadata"].get("continue").is_none());
    assert_eq!(names(&whole).len(), 7);
}

async fn pages_with_a_selector_have_no_remaining_count(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    for i in 0..9 {
        peer.post(&path, json!({"metadata": {"name": format!("n{i}"), "labels": {"odd": (i % 2).to_string()}}}))
            .await
            .ok(201);
    }
    let mut found = Vec::new();
    let mut token = String::new();
    loop {
        let page = peer.get(&format!("{path}?limit=2&labelSelector=odd%3D1&continue={token}")).await.ok(200);
        assert!(page["metadata"].get("remainingItemCount").is_none());
        assert!(names(&page).len() <= 2);
        found.extend(names(&page));
        match page["metadata"]["continue"].as_str() {
            Some(next) if !next.is_empty() => token = next.to_owned(),
            _ => break,
        }
    }
    assert_eq!(found, ["n1", "n3", "n5", "n7"]);
}

async fn continue_token_cannot_be_mixed_with_a_revision(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    fill(peer, &path, &["a", "b"]).await;
    let page = peer.get(&format!("{path}?limit=1")).await.ok(200);
    let token = page["metadata"]["continue"].as_str().unwrap();
    peer.get(&format!("{path}?limit=1&continue={token}&resourceVersion=2")).await.fails(400, "BadRequest");
    peer.get(&format!("{path}?limit=1&continue=nonsense")).await.fails(400, "BadRequest");
}

async fn bad_options_are_refused(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    peer.get(&format!("{path}?resourceVersionMatch=Exact")).await.fails(422, "Invalid");
    peer.get(&format!("{path}?resourceVersionMatch=Other&resourceVersion=1")).await.fails(422, "Invalid");
    peer.get(&format!("{path}?resourceVersionMatch=Exact&resourceVersion=0")).await.fails(422, "Invalid");
    peer.get(&format!("{path}?resourceVersion=abc")).await.fails(400, "BadRequest");
    peer.get(&format!("{path}?labelSelector=a%20in%20(")).await.fails(400, "BadRequest");
    peer.get(&format!("{path}?fieldSelector=data.x%3Dy")).await.fails(400, "BadRequest");
    peer.get(&format!("{path}?sendInitialEvents=true")).await.fails(422, "Invalid");
}

async fn exact_and_not_older_than(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let made = fill(peer, &path, &["a", "b"]).await;
    let (first, second) = (revision(&made[0]), revision(&made[1]));
    let exact = peer.get(&format!("{path}?resourceVersion={first}&resourceVersionMatch=Exact")).await.ok(200);
    assert_eq!(names(&exact), ["a"]);
    assert_eq!(revision(&exact), first);
    let newer = peer.get(&format!("{path}?resourceVersion={first}&resourceVersionMatch=NotOlderThan")).await.ok(200);
    assert!(revision(&newer) >= first);
    let newer = peer.get(&format!("{path}?resourceVersion={second}")).await.ok(200);
    assert_eq!(names(&newer), ["a", "b"]);
    let any = peer.get(&format!("{path}?resourceVersion=0")).await.ok(200);
    assert!(revision(&any) > 0);
    // With a limit, a revision without a match is exact.
    let page = peer.get(&format!("{path}?resourceVersion={first}&limit=5")).await.ok(200);
    assert!(revision(&page) >= first);
    peer.get(&format!("{path}/a?resourceVersion={first}")).await.ok(200);
    peer.get(&format!("{path}/a?resourceVersion=0")).await.ok(200);
}

async fn future_revision_is_a_timeout(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let made = fill(peer, &path, &["a"]).await;
    let future = revision(&made[0]) + 1_000_000;
    for path in [format!("{path}?resourceVersion={future}"), format!("{path}/a?resourceVersion={future}")] {
        let status = peer.get(&path).await.fails(504, "Timeout");
        assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge", "{status}");
        assert!(status["details"]["retryAfterSeconds"].as_u64().unwrap() > 0);
    }
}

async fn label_selectors(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    for (name, labels) in
        [("a", json!({"env": "prod", "n": "5"})), ("b", json!({"env": "test", "n": "50"})), ("c", json!({}))]
    {
        peer.post(&path, json!({"metadata": {"name": name, "labels": labels}})).await.ok(201);
    }
    for (selector, expected) in [
        ("env=prod", "a"),
        ("env==prod", "a"),
        ("env!=prod", "b c"),
        ("env", "a b"),
        ("!env", "c"),
        ("env in (prod,test)", "a b"),
        ("env notin (prod)", "b c"),
        ("env in (prod),n=5", "a"),
        ("n>10", "b"),
        ("n<10", "a"),
        ("env=", ""),
        ("env,!n", ""),
        ("", "a b c"),
    ] {
        let encoded: String = selector.bytes().map(|b| format!("%{b:02X}")).collect();
        let list = peer.get(&format!("{path}?labelSelector={encoded}")).await.ok(200);
        assert_eq!(names(&list).join(" "), expected, "{selector}");
    }
}

async fn field_selectors(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    fill(peer, &path, &["a", "b", "c"]).await;
    for (selector, expected) in [
        ("metadata.name=b", "b"),
        ("metadata.name==b", "b"),
        ("metadata.name!=b", "a c"),
        ("metadata.name=b,metadata.name=c", ""),
        ("metadata.namespace=elsewhere", ""),
    ] {
        let encoded: String = selector.bytes().map(|b| format!("%{b:02X}")).collect();
        let list = peer.get(&format!("{path}?fieldSelector={encoded}")).await.ok(200);
        assert_eq!(names(&list).join(" "), expected, "{selector}");
    }
    let secrets = collection("secrets", &ns);
    peer.post(&secrets, json!({"metadata": {"name": "s"}, "type": "x.example/t"})).await.ok(201);
    peer.post(&secrets, json!({"metadata": {"name": "o"}})).await.ok(201);
    assert_eq!(names(&peer.get(&format!("{secrets}?fieldSelector=type%3Dx.example/t")).await.ok(200)), ["s"]);
    assert_eq!(names(&peer.get(&format!("{secrets}?fieldSelector=type%3DOpaque")).await.ok(200)), ["o"]);
    let mine =
        peer.get(&format!("/api/v1/namespaces?fieldSelector=metadata.name%3D{ns},status.phase%3DActive")).await.ok(200);
    assert_eq!(names(&mine), [ns]);
}

async fn events_by_fields(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("events", &ns);
    for (name, object, reason) in [("e1", "x", "Made"), ("e2", "y", "Made"), ("e3", "x", "Gone")] {
        let body = json!({"metadata": {"name": name}, "involvedObject": {"kind": "ConfigMap", "name": object, "namespace": ns, "uid": object},
            "reason": reason, "type": "Normal", "source": {"component": "suite"}, "reportingComponent": "suite"});
        peer.post(&path, body).await.ok(201);
    }
    for (selector, expected) in [
        ("involvedObject.name=x", "e1 e3"),
        ("involvedObject.name=x,reason=Made", "e1"),
        ("involvedObject.uid=y", "e2"),
        ("involvedObject.kind=Secret", ""),
        ("type!=Normal", ""),
        ("source=suite", "e1 e2 e3"),
    ] {
        let encoded: String = selector.bytes().map(|b| format!("%{b:02X}")).collect();
        let list = peer.get(&format!("{path}?fieldSelector={encoded}")).await.ok(200);
        assert_eq!(names(&list).join(" "), expected, "{selector}");
    }
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

async fn tables(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    peer.post(&path, json!({"metadata": {"name": "a"}, "data": {"x": "1", "y": "2"}})).await.ok(201);
    let table = peer.call("GET", &path).accept(TABLE).send().await.ok(200);
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["apiVersion"], "meta.k8s.io/v1");
    let columns: Vec<&str> =
        table["columnDefinitions"].as_array().unwrap().iter().filter_map(|c| c["name"].as_str()).collect();
    assert_eq!(columns, ["Name", "Data", "Age"]);
    assert_eq!(table["rows"][0]["cells"][0], "a");
    assert_eq!(table["rows"][0]["cells"][1], 2);
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let one = peer.call("GET", &format!("{path}/a?includeObject=Object")).accept(TABLE).send().await.ok(200);
    assert_eq!(one["rows"][0]["object"]["data"]["x"], "1");
    let bare = peer.call("GET", &format!("{path}/a?includeObject=None")).accept(TABLE).send().await.ok(200);
    assert!(bare["rows"][0]["object"].is_null(), "{bare}");
    // A failure stays a Status, whatever was asked for.
    peer.call("GET", &format!("{path}/none")).accept(TABLE).send().await.fails(404, "NotFound");
}

async fn table_pages(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    fill(peer, &path, &["a", "b", "c"]).await;
    let first = peer.call("GET", &format!("{path}?limit=2")).accept(TABLE).send().await.ok(200);
    assert_eq!(first["rows"].as_array().unwrap().len(), 2);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let rest = peer.call("GET", &format!("{path}?limit=2&continue={token}")).accept(TABLE).send().await.ok(200);
    assert_eq!(rest["rows"][0]["cells"][0], "c");
}

async fn partial_metadata(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("secrets", &ns);
    peer.post(&path, json!({"metadata": {"name": "a", "labels": {"l": "m"}}, "stringData": {"secret": "hidden"}}))
        .await
        .ok(201);
    let accept = |what: &str| format!("application/json;as={what};v=v1;g=meta.k8s.io");
    let answer = peer.call("GET", &format!("{path}/a")).accept(&accept("PartialObjectMetadata")).send().await;
    let one = answer.ok(200);
    assert_eq!(one["kind"], "PartialObjectMetadata");
    assert_eq!(one["apiVersion"], "meta.k8s.io/v1");
    assert_eq!(one["metadata"]["labels"]["l"], "m");
    assert!(one.get("data").is_none() && one.get("type").is_none());
    let list = peer.call("GET", &path).accept(&accept("PartialObjectMetadataList")).send().await.ok(200);
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][0]["metadata"]["name"], "a");
    assert!(list["items"][0].get("data").is_none());
}

async fn empty_list_shape(peer: &Peer) {
    let ns = peer.namespace().await;
    for (resource, kind) in [
        ("configmaps", "ConfigMapList"),
        ("secrets", "SecretList"),
        ("leases", "LeaseList"),
        ("newevents", "EventList"),
    ] {
        let list = peer.get(&collection(resource, &ns)).await.ok(200);
        assert_eq!(list["kind"], kind);
        assert_eq!(list["items"], json!([]));
        assert!(revision(&list) > 0);
    }
}

async fn namespaces_list(peer: &Peer) {
    let list = peer.get("/api/v1/namespaces").await.ok(200);
    let names = names(&list);
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        assert!(names.contains(&name.to_owned()), "{names:?}");
    }
}

/// On us the same is proven with a short history in `watches::old_history_is_forgotten`.
async fn expired_continue_token(shared: &Peer) {
    // Of its own, because its history is thrown away, which the other cases read.
    let peer = &Peer::start(shared.kind).await.unwrap();
    let ns = peer.namespace().await;
    let path = collection("events", &ns);
    for i in 0..4 {
        peer.post(&path, json!({"metadata": {"name": format!("e{i}")}, "involvedObject": {"namespace": ns}}))
            .await
            .ok(201);
    }
    let page = peer.get(&format!("{path}?limit=2")).await.ok(200);
    peer.post(&path, json!({"metadata": {"name": "e9"}, "involvedObject": {"namespace": ns}})).await.ok(201);
    assert!(peer.compact().await);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let status = peer.get(&format!("{path}?limit=2&continue={token}")).await.fails(410, "Expired");
    // The way on: a token that continues after the same name, on the newest revision.
    let token = status["metadata"]["continue"].as_str().unwrap();
    let rest = peer.get(&format!("{path}?limit=5&continue={token}")).await.ok(200);
    assert_eq!(names(&rest), ["e2", "e3", "e9"]);
}
