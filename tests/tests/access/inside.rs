//! `/debug/`: the inside of the server, for those who may use the path and nobody else.
use muster_tests::peer::{Settings, WORKER};
use muster_tests::runner::Case;
use muster_tests::{Kind, Peer, cases};
use serde_json::json;

use crate::RBAC;

pub fn cases() -> Vec<Case> {
    cases![muster inside: the_log_level_and_profiles_are_for_administrators]
}

// SYM-10, SYM-11
async fn the_log_level_and_profiles_are_for_administrators(_: &Peer) {
    let peer = &Peer::start_with(Kind::Muster, Settings::default()).await.unwrap();
    let level = "/debug/loglevel";
    let put =
        |text: &str, token: &str| peer.call("PUT", level).body(text).media("text/plain").token(Some(token)).send();
    assert_eq!(peer.get(level).await.text(), "0\n");
    for refused in [peer.call("GET", level).token(Some(WORKER)).send().await, put("6", WORKER).await] {
        refused.fails(403, "Forbidden");
    }
    assert_eq!(peer.call("GET", level).token(None).fresh().send().await.status, 403);
    assert_eq!(put("4", muster_tests::peer::TOKEN).await.text(), "4\n");
    assert_eq!(peer.get(level).await.text(), "4\n");
    put("11", muster_tests::peer::TOKEN).await.fails(400, "BadRequest");
    assert_eq!(peer.get(level).await.text(), "4\n");
    // A right on the path is enough, and is for the method it names.
    let rule = json!({"nonResourceURLs": ["/debug/*"], "verbs": ["get"]});
    peer.post(&format!("{RBAC}/clusterroles"), json!({"metadata": {"name": "looker"}, "rules": [rule]})).await.ok(201);
    crate::bind(peer, "", "looker", "looker", crate::user("suite-worker")).await;
    assert_eq!(peer.call("GET", level).token(Some(WORKER)).send().await.status, 200);
    put("2", WORKER).await.fails(403, "Forbidden");
    let profile = peer.call("GET", "/debug/pprof/profile?seconds=1").token(Some(WORKER)).send().await;
    assert_eq!((profile.status, &profile.body[..2]), (200, &[0x1f, 0x8b][..]), "{}", profile.text());
    peer.get("/debug/pprof/profile?seconds=0").await.fails(400, "BadRequest");
    peer.get("/debug/pprof/profile?seconds=301").await.fails(400, "BadRequest");
    // Without --profiling there are no samples.
    let heap = peer.get("/debug/pprof/heap").await.fails(404, "NotFound");
    assert!(heap["message"].as_str().unwrap().contains("--profiling"), "{heap}");
    peer.get("/debug/other").await.fails(404, "NotFound");
    peer.delete(level).await.fails(404, "NotFound");
    assert!(peer.get("/debug/pprof/").await.text().contains("profile"));

    let arguments = vec!["--profiling".to_owned()];
    let sampled = Peer::start_with(Kind::Muster, Settings { arguments, ..Settings::default() }).await.unwrap();
    let heap = sampled.get("/debug/pprof/heap").await;
    assert_eq!((heap.status, &heap.body[..2]), (200, &[0x1f, 0x8b][..]), "{}", heap.text());
}
