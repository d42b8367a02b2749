//! Clients that take too much (B-3): the one that does is told to come back, the others notice nothing.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use muster_tests::client::Failure;
use muster_tests::peer::{Kind, Settings, TOKEN};
use muster_tests::runner::Case;
use muster_tests::{Answer, PATIENCE, Peer, cases};
use serde_json::json;
use tokio::task::JoinSet;

use super::MAPS;

pub fn cases() -> Vec<Case> {
    let ours = cases![muster hostile: slow_writers_do_not_stop_the_others, slow_readers_of_lists_count, watches_of_one_user_are_counted];
    let mut all = cases![hostile: a_request_chooses_its_timeout, long_json_patches];
    all.extend(ours);
    all
}

/// A muster in which the users `greedy` and `modest` may edit configmaps.
async fn start(arguments: &[&str]) -> Peer {
    let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let peer = Peer::start_with(Kind::Muster, Settings { arguments, ..Settings::default() }).await.unwrap();
    let subjects = json!([{"kind": "User", "name": "greedy"}, {"kind": "User", "name": "modest"}]);
    let binding = json!({"metadata": {"name": "editors"}, "roleRef": {"kind": "ClusterRole", "name": "edit"}, "subjects": subjects});
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    peer.post(path, binding).await.ok(201);
    peer
}

async fn create(peer: &Peer, who: &str, name: &str) -> Answer {
    let body = json!({"metadata": {"name": name}});
    peer.call("POST", MAPS).header("impersonate-user", who).body(body).fresh().send().await
}

async fn list(peer: &Peer, who: &str) -> Answer {
    peer.call("GET", MAPS).header("impersonate-user", who).fresh().send().await
}

#[track_caller]
fn told_to_come_back(answer: &Answer) {
    let status = answer.fails(429, "TooManyRequests");
    assert_eq!(status["message"], "Too many requests, please try again later.");
    assert_eq!(status["details"]["retryAfterSeconds"], 1);
    assert_eq!(answer.header("retry-after"), "1");
}

/// A body that never comes.
struct Never;

impl Body for Never {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

fn slow_write(peer: &Peer, path: &str) -> http::request::Builder {
    let request = Request::post(format!("https://127.0.0.1:{}{path}", peer.port));
    request.header("authorization", format!("Bearer {TOKEN}")).header("content-type", "application/json")
}

async fn slow_writers_do_not_stop_the_others(_: &Peer) {
    let peer = start(&["--max-requests-inflight=8", "--max-mutating-requests-inflight=40"]).await;
    let mut writers: JoinSet<hyper::Result<Response<Incoming>>> = JoinSet::new();
    let mut connections = Vec::new();
    for _ in 0..4 {
        let mut sender = peer.h2().await.unwrap();
        for _ in 0..250 {
            let request = slow_write(&peer, MAPS).header("impersonate-user", "greedy").body(Never.boxed()).unwrap();
            writers.spawn(sender.send_request(request));
        }
        connections.push(sender);
    }
    // Three quarters of the room are one user's; everybody else of it is sent away at once.
    for _ in 0..970 {
        let answer = tokio::time::timeout(PATIENCE, writers.join_next()).await.expect("no answer");
        let answer = answer.unwrap().unwrap().unwrap();
        assert_eq!(answer.status(), 429);
        assert_eq!(answer.headers()["retry-after"], "1");
    }
    told_to_come_back(&create(&peer, "greedy", "one-more").await);
    list(&peer, "greedy").await.ok(200);
    create(&peer, "modest", "mine").await.ok(201);
    peer.post(MAPS, json!({"metadata": {"name": "of-a-master"}})).await.ok(201);
    assert_eq!(peer.get("/readyz").await.status, 200);
    // Whoever goes leaves its place behind.
    drop((writers, connections));
    let start = Instant::now();
    while create(&peer, "greedy", &format!("again-{}", start.elapsed().as_micros())).await.status != 201 {
        assert!(start.elapsed() < PATIENCE, "the places were not given back");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(peer.panic_in_log(), None);
}

async fn open(peer: &Peer, who: &str, path: &str) -> Result<Response<Incoming>, Failure> {
    peer.call("GET", path).header("impersonate-user", who).fresh().open().await
}

async fn slow_readers_of_lists_count(_: &Peer) {
    let peer = start(&["--max-requests-inflight=4"]).await;
    // More than the windows of a connection hold, so that a list that is not read is not sent.
    let text = "x".repeat(1 << 20);
    for i in 0..12 {
        peer.post(MAPS, json!({"metadata": {"name": format!("large-{i}")}, "data": {"text": text}})).await.ok(201);
    }
    let mut unread = Vec::new();
    for _ in 0..3 {
        let answer = open(&peer, "greedy", MAPS).await.unwrap();
        assert_eq!(answer.status(), 200);
        unread.push(answer);
    }
    told_to_come_back(&list(&peer, "greedy").await);
    let small = format!("{MAPS}?limit=1");
    assert_eq!(open(&peer, "modest", &small).await.unwrap().status(), 200);
    assert_eq!(peer.call("GET", "/version").header("impersonate-user", "greedy").send().await.status, 200);
    drop(unread);
    let start = Instant::now();
    while open(&peer, "greedy", &small).await.unwrap().status() != 200 {
        assert!(start.elapsed() < PATIENCE, "the places were not given back");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn watches_of_one_user_are_counted(_: &Peer) {
    let peer = start(&["--max-watches-per-user=3", "--max-requests-inflight=2"]).await;
    let watch = format!("{MAPS}?watch=1");
    let mut open_ones = Vec::new();
    for _ in 0..3 {
        let answer = open(&peer, "greedy", &watch).await.unwrap();
        assert_eq!(answer.status(), 200);
        open_ones.push(answer);
    }
    told_to_come_back(&peer.call("GET", &watch).header("impersonate-user", "greedy").fresh().send().await);
    assert_eq!(open(&peer, "modest", &watch).await.unwrap().status(), 200);
    // Watches that stream take no place of a read.
    list(&peer, "greedy").await.ok(200);
    open_ones.pop();
    let start = Instant::now();
    let again = loop {
        let answer = open(&peer, "greedy", &watch).await.unwrap();
        if answer.status() == 200 {
            break answer;
        }
        assert!(start.elapsed() < PATIENCE, "the watch was not given back");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    drop(again);
    // One that the server ends is given back as well.
    open_ones.pop();
    let short = format!("{MAPS}?watch=1&timeoutSeconds=1");
    let start = Instant::now();
    for _ in 0..2 {
        while peer.call("GET", &short).header("impersonate-user", "greedy").fresh().send().await.status != 200 {
            assert!(start.elapsed() < PATIENCE, "the watch was not given back");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn a_request_chooses_its_timeout(peer: &Peer) {
    for (text, why) in [
        ("soon", "time: invalid duration \"soon\""),
        ("5", "time: missing unit in duration \"5\""),
        ("1d", "time: unknown unit \"d\" in duration \"1d\""),
    ] {
        let answer = peer.get(&format!("{MAPS}?timeout={text}")).await;
        let expected = format!("invalid timeout specified in the request URL - {why}");
        assert_eq!(answer.fails(400, "BadRequest")["message"], expected);
    }
    for fine in ["timeout=", "timeout=0s", "timeout=-1s", "timeout=999h", "timeout=32s"] {
        peer.get(&format!("{MAPS}?{fine}")).await.ok(200);
    }
    // A watch has its own parameter.
    let watch = peer.get(&format!("{MAPS}?watch=1&timeout=soon&timeoutSeconds=1")).await;
    assert_eq!(watch.status, 200, "{}", watch.text());
    // A write is none, whatever it says.
    for query in ["timeout=300ms", "watch=1&timeout=300ms"] {
        let start = Instant::now();
        let request = slow_write(peer, &format!("{MAPS}?{query}")).body(Never.boxed()).unwrap();
        let answer = peer.h2().await.unwrap().send_request(request).await.unwrap();
        assert_eq!(answer.status(), 504, "{query}");
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let status: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(status["reason"], "Timeout");
        assert_eq!(status["message"], "Timeout: request did not complete within the allotted timeout");
        assert!(start.elapsed() < PATIENCE, "{query} took {:?}", start.elapsed());
    }
}

async fn long_json_patches(peer: &Peer) {
    peer.post(MAPS, json!({"metadata": {"name": "patched-often"}})).await.ok(201);
    let patch = |n: usize| json!(vec![json!({"op": "add", "path": "/data", "value": {}}); n]);
    let path = format!("{MAPS}/patched-often");
    peer.patch(&path, "json", patch(10_000)).await.ok(200);
    let status = peer.patch(&path, "json", patch(10_001)).await.fails(413, "RequestEntityTooLarge");
    let expected = "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
    assert_eq!(status["message"], expected);
}
