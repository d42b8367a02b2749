//! The stream: what a tab hears, and when it stops hearing. // B-20
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use muster_tests::peer::TOKEN;
use muster_tests::runner::Case;
use muster_tests::{PATIENCE, Peer, cases, eventually, within};
use muster_tests_gateway::Face;
use muster_tests_gateway::browser::{Browser, Tab};
use serde_json::{Value, json};

pub fn all() -> Vec<Case> {
    cases![live: a_tab_hears_of_changes, a_tab_hears_only_of_what_its_user_may_read, a_right_taken_away_ends_the_subscription,
        the_end_of_a_session_ends_its_sockets_at_once, a_token_needs_no_ticket_and_loses_its_stream_with_its_right,
        the_servers_end_is_said, sockets_are_bounded]
}

const PASSWORD: &str = "correct horse battery";

async fn admins(peer: &Peer) -> Face {
    Face::console(peer, |face| face.first_admin(fleet::Secret::new(PASSWORD))).await
}

fn subscribe(id: &str, path: &str) -> Value {
    json!({"subscribe": {"id": id, "path": path}})
}

/// A user without rights but those in a role of one namespace; gives back the binding's path.
async fn user(peer: &Peer, face: &Face, name: &str, namespace: &str) -> String {
    let hash = peer.get(&face.secret("admin")).await.ok(200)["data"]["hash"].clone();
    let data = json!({"name": BASE64_STANDARD.encode(name), "groups": BASE64_STANDARD.encode("dev"), "hash": hash});
    let secret = json!({"metadata": {"name": format!("muster-user-{name}")}, "type": "muster.dev/user", "data": data});
    peer.post(&format!("/api/v1/namespaces/{}/secrets", face.namespace), secret).await.ok(201);
    let group = "rbac.authorization.k8s.io";
    let place = format!("/apis/{group}/v1/namespaces/{namespace}");
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]);
    peer.post(&format!("{place}/roles"), json!({"metadata": {"name": name}, "rules": rules})).await.ok(201);
    let subject = json!({"kind": "User", "apiGroup": group, "name": name});
    let binding = json!({"metadata": {"name": name}, "subjects": [subject], "roleRef": {"apiGroup": group, "kind": "Role", "name": name}});
    peer.post(&format!("{place}/rolebindings"), binding).await.ok(201);
    format!("{place}/rolebindings/{name}")
}

/// Logs in as a user that was just made, and waits until its rights count.
async fn login(face: &Face, name: &str, path: &str) -> Browser {
    let begun = Instant::now();
    let mut browser = Browser::new(face);
    loop {
        let answer = browser.try_login(name, PASSWORD).await;
        if answer.status == 200 {
            browser.take(&answer);
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{name} cannot log in: {}", answer.text());
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    eventually("the rights count", || async { browser.get(path).await.status == 200 }).await;
    browser
}

/// Makes changes until this subscription hears of one: it begins some time after it was asked for.
async fn hears<F: Future<Output = ()>>(tab: &mut Tab, id: &str, mut change: impl FnMut(usize) -> F) {
    for n in 0..12 {
        change(n).await;
        while let Some(heard) = tab.hear(Duration::from_secs(5)).await {
            assert_eq!(heard["event"], "changed", "{heard}");
            if heard["id"] == id {
                return;
            }
        }
    }
    panic!("{id} hears of no change");
}

/// Waits until everything that was said has been listened to.
async fn listened(tab: &mut Tab) {
    tab.say(subscribe("nothing", "/nowhere")).await;
    while tab.hear(PATIENCE).await.expect("nobody listens")["id"] != "nothing" {}
}

/// Lets what is under way come, so that the next word is news.
async fn settle(tab: &mut Tab) {
    while tab.hear(Duration::from_millis(700)).await.is_some() {}
}

async fn a_tab_hears_of_changes(peer: &Peer) {
    let (face, ns) = (admins(peer).await, peer.namespace().await);
    let browser = Browser::login(&face, "admin", PASSWORD).await;
    let mut tab = browser.stream().await;
    let path = format!("/apiext/v1/core/v1/namespaces/{ns}/configmaps");
    tab.say(subscribe("list", &format!("{path}?pageSize=10&sort=name"))).await;
    settle(&mut tab).await;
    hears(&mut tab, "list", |n| {
        let (browser, path) = (&browser, &path);
        async move { drop(browser.post(path, json!({"name": format!("x{n}")})).await.ok(201)) }
    })
    .await;
    let one = format!("{path}/x0");
    tab.say(subscribe("one", &one)).await;
    hears(&mut tab, "one", |n| {
        let alter = browser.call("PATCH", &one).json(json!({"data": {"n": n.to_string()}}));
        async move { drop(alter.send().await.ok(200)) }
    })
    .await;
    settle(&mut tab).await;
    assert_eq!(browser.call("DELETE", &one).send().await.status, 200);
    let mut missing = vec!["one", "list"];
    while !missing.is_empty() {
        let heard = tab.hear(PATIENCE).await.unwrap();
        missing.retain(|id| heard["id"] != *id);
    }
    tab.say(json!({"unsubscribe": "one"})).await;
    tab.say(json!({"unsubscribe": "list"})).await;
    listened(&mut tab).await;
    settle(&mut tab).await;
    browser.post(&path, json!({"name": "y"})).await.ok(201);
    assert_eq!(tab.hear(Duration::from_secs(2)).await, None);
    for (path, word) in [("/nowhere", "gone"), ("/apiext/v1/no.such/v1/things", "gone"), ("/wapi/v1/session", "gone")] {
        tab.say(subscribe("x", path)).await;
        assert_eq!(tab.hear(PATIENCE).await.unwrap()["event"], word, "{path}");
    }
}

async fn a_tab_hears_only_of_what_its_user_may_read(peer: &Peer) {
    let (face, ns, other) = (admins(peer).await, peer.namespace().await, peer.namespace().await);
    user(peer, &face, "live.ann", &ns).await;
    let path = format!("/apiext/v1/core/v1/namespaces/{ns}/configmaps");
    let browser = login(&face, "live.ann", &path).await;
    let mut tab = browser.stream().await;
    for forbidden in [
        format!("/apiext/v1/core/v1/namespaces/{other}/configmaps"),
        "/apiext/v1/core/v1/configmaps".to_owned(),
        format!("/apiext/v1/core/v1/namespaces/{ns}/secrets"),
        format!("/apiext/v1/core/v1/namespaces/{ns}/secrets/x"),
        "/wapi/v1/controllers".to_owned(),
    ] {
        tab.say(subscribe("x", &forbidden)).await;
        let heard = tab.hear(PATIENCE).await.unwrap();
        assert_eq!(heard["event"], "denied", "{forbidden}: {heard}");
    }
}

async fn a_right_taken_away_ends_the_subscription(peer: &Peer) {
    // B-20
    let (face, ns) = (admins(peer).await, peer.namespace().await);
    let binding = user(peer, &face, "revoked.ann", &ns).await;
    let path = format!("/apiext/v1/core/v1/namespaces/{ns}/configmaps");
    let browser = login(&face, "revoked.ann", &path).await;
    let mut tab = browser.stream().await;
    tab.say(subscribe("list", &path)).await;
    settle(&mut tab).await;
    peer.delete(&binding).await.ok(200);
    let denied = async {
        loop {
            let heard = tab.hear(2 * PATIENCE).await.unwrap();
            if heard["event"] != "changed" {
                return heard;
            }
        }
    };
    // Half a minute, and kube-apiserver takes a moment itself.
    let heard = within(Duration::from_secs(35), denied).await.expect("the subscription goes on");
    assert_eq!(heard["event"], "denied", "{heard}");
    assert_eq!(browser.status().await, 200, "the session itself goes on");
}

async fn the_end_of_a_session_ends_its_sockets_at_once(peer: &Peer) {
    // B-20
    let face = admins(peer).await;
    let (here, there) =
        (Browser::login(&face, "admin", PASSWORD).await, Browser::login(&face, "admin", PASSWORD).await);
    let (mut tab, mut other) = (here.stream().await, there.stream().await);
    tab.say(subscribe("list", "/apiext/v1/core/v1/namespaces")).await;
    settle(&mut tab).await;
    assert_eq!(here.call("POST", "/wapi/v1/logout").send().await.status, 204);
    let mut heard = tab.hear(PATIENCE).await;
    while heard.as_ref().is_some_and(|event| event["event"] == "changed") {
        heard = tab.hear(PATIENCE).await;
    }
    assert_eq!(heard, Some(json!(4401)));
    other.say(subscribe("x", "/nowhere")).await;
    assert_eq!(other.hear(PATIENCE).await.unwrap()["event"], "gone", "another session's goes on");
    // And when the user is no more.
    peer.delete(&face.secret("admin")).await.ok(200);
    assert_eq!(other.hear(PATIENCE).await, Some(json!(4401)));
}

async fn a_token_needs_no_ticket_and_loses_its_stream_with_its_right(peer: &Peer) {
    let (face, ns) = (admins(peer).await, peer.namespace().await);
    let bearer = format!("Bearer {TOKEN}");
    let mut tab = Tab::open(face.address, "/wapi/v1/stream", &[("authorization", &bearer)]).await.unwrap();
    let path = format!("/apiext/v1/core/v1/namespaces/{ns}/configmaps");
    tab.say(subscribe("list", &path)).await;
    settle(&mut tab).await;
    hears(&mut tab, "list", |n| {
        let make = face.call("POST", &path).json(json!({"name": format!("x{n}")}));
        async move { drop(make.send().await.ok(201)) }
    })
    .await;
    let wrong = Tab::open(face.address, "/wapi/v1/stream", &[("authorization", "Bearer wrong")]).await;
    assert_eq!(wrong.err(), Some(401));
}

async fn the_servers_end_is_said(peer: &Peer) {
    let face = admins(peer).await;
    let browser = Browser::login(&face, "admin", PASSWORD).await;
    let mut tab = browser.stream().await;
    tab.say(subscribe("x", "/nowhere")).await;
    assert_eq!(tab.hear(PATIENCE).await.unwrap()["event"], "gone");
    face.stop.cancel();
    assert_eq!(tab.hear(PATIENCE).await, Some(json!(1001)));
    let Face { running, .. } = face;
    tokio::time::timeout(PATIENCE, running).await.expect("it stops although a socket was open").unwrap();
}

async fn sockets_are_bounded(peer: &Peer) {
    let face = admins(peer).await;
    let browser = Browser::login(&face, "admin", PASSWORD).await;
    // Those that do not say who they are hold a few places for a moment only.
    let mut waiting = Vec::new();
    let mut refused = 0;
    let begun = Instant::now();
    for _ in 0..60 {
        match Tab::open(face.address, "/wapi/v1/stream", &[]).await {
            Ok(tab) => waiting.push(tab),
            Err(code) => {
                assert_eq!(code, 429);
                refused += 1;
            }
        }
    }
    // After a few seconds the first go, and others have their places.
    assert!(
        (waiting.len(), refused) == (50, 10) || refused > 0 && begun.elapsed() > Duration::from_secs(5),
        "{refused}"
    );
    assert_eq!(waiting[0].hear(PATIENCE).await, Some(json!(4408)));
    drop(waiting);
    eventually("there is a place again", || async {
        Tab::open(face.address, "/wapi/v1/stream", &[("origin", &browser.origin())]).await.is_ok()
    })
    .await;
    browser.stream().await;
}
