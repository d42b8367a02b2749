//! `/debug/` and `/metrics`: the inside of the server, for those who may use the path and nobody else.
use muster_tests::peer::{Settings, WORKER};
use muster_tests::runner::Case;
use muster_tests::{Kind, Peer, cases, eventually};
use serde_json::json;

use crate::RBAC;

pub fn cases() -> Vec<Case> {
    cases![muster inside: the_log_level_and_profiles_are_for_administrators, requests_are_counted_for_those_who_watch_over_them,
        who_asks_why_not_is_told_and_who_is_refused_is_not]
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

// SYM-11
async fn requests_are_counted_for_those_who_watch_over_them(_: &Peer) {
    let peer = &Peer::start_with(Kind::Muster, Settings::default()).await.unwrap();
    peer.call("GET", "/metrics").token(Some(WORKER)).send().await.fails(403, "Forbidden");
    assert_eq!(peer.call("GET", "/metrics").token(None).fresh().send().await.status, 403);
    crate::bind(peer, "", "watchers", "system:monitoring", crate::user("suite-worker")).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    for name in ["a", "b"] {
        peer.post(maps, json!({"metadata": {"name": name}})).await.ok(201);
    }
    peer.post(maps, json!({"metadata": {"name": "a"}})).await.fails(409, "AlreadyExists");
    peer.get(maps).await.ok(200);
    peer.get(&format!("{maps}/nothing")).await.fails(404, "NotFound");
    let apply = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let call = peer.call("PATCH", &format!("{maps}/a?fieldManager=x")).body(apply);
    call.media("application/apply-patch+yaml").send().await.ok(200);
    peer.call("GET", "/api/v1/secrets").token(Some(WORKER)).send().await.fails(403, "Forbidden");
    for i in 0..300 {
        // Names that nobody serves are not labels.
        peer.get(&format!("/apis/stray{i}.example.com/v1/stray{i}s")).await;
        peer.get(&format!("/stray{i}")).await;
    }
    let watch = peer.watch(&format!("{maps}?watch=true")).await;
    let page = peer.call("GET", "/metrics").token(Some(WORKER)).send().await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/plain; version=0.0.4; charset=utf-8"));
    let text = page.text();
    let has = |line: &str| assert!(text.lines().any(|l| l == line), "no {line} in\n{text}");
    let of = |verb: &str, scope: &str| {
        format!(
            "{{verb=\"{verb}\",group=\"\",version=\"v1\",resource=\"configmaps\",subresource=\"\",scope=\"{scope}\""
        )
    };
    has(&format!("apiserver_request_total{},code=\"201\"}} 2", of("POST", "namespace")));
    has(&format!("apiserver_request_total{},code=\"409\"}} 1", of("POST", "namespace")));
    has(&format!("apiserver_request_total{},code=\"200\"}} 1", of("LIST", "namespace")));
    has(&format!("apiserver_request_total{},code=\"404\"}} 1", of("GET", "resource")));
    has(&format!("apiserver_request_total{},code=\"200\"}} 1", of("APPLY", "resource")));
    has(&format!("apiserver_request_total{},code=\"200\"}} 1", of("WATCH", "namespace")));
    has(&format!("apiserver_request_duration_seconds_count{}}} 3", of("POST", "namespace")));
    let buckets =
        text.lines().filter(|line| line.starts_with("apiserver_request_duration_seconds_bucket{le=\"+Inf\","));
    assert!(
        buckets.into_iter().any(|line| line.ends_with(&format!("{}}} 3", &of("POST", "namespace")[1..]))),
        "{text}"
    );
    has("apiserver_longrunning_requests{verb=\"WATCH\",group=\"\",version=\"v1\",resource=\"configmaps\"} 1");
    has("apiserver_current_inflight_requests{request_kind=\"readOnly\"} 1");
    has("apiserver_current_inflight_requests{request_kind=\"mutating\"} 0");
    has("apiserver_storage_objects{resource=\"configmaps\"} 2");
    has("muster_apiserver_connections_turned_away_total 0");
    assert!(text.contains("resource=\"secrets\",subresource=\"\",scope=\"cluster\",code=\"403\"} 1"), "{text}");
    assert!(!text.contains("stray"), "a label for every name that is asked for:\n{text}");
    assert!(text.contains("process_resident_memory_bytes "));
    // A watch that ended is not open.
    drop(watch);
    let closed = "resource=\"configmaps\"} 0";
    eventually("the watch is no longer counted", || async {
        let text = peer.get("/metrics").await.text();
        text.lines().any(|l| l.starts_with("apiserver_longrunning") && l.ends_with(closed))
    })
    .await;
    peer.call("POST", "/metrics").send().await.fails(405, "MethodNotAllowed");
}

async fn who_asks_why_not_is_told_and_who_is_refused_is_not(_: &Peer) {
    let arguments = vec!["--audit-log-reads".to_owned()];
    let peer = &Peer::start_with(Kind::Muster, Settings { arguments, ..Settings::default() }).await.unwrap();
    crate::bind(peer, "default", "why-view", "view", crate::user("why-ann")).await;
    let attributes = json!({"namespace": "default", "verb": "delete", "resource": "configmaps", "name": "x"});
    let review = json!({"spec": {"user": "why-ann", "groups": ["why-devs"], "resourceAttributes": attributes}});
    let answer = peer.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review).await.ok(201);
    let reason = answer["status"]["reason"].as_str().unwrap();
    for part in [
        "delete configmaps \"x\" in the namespace \"default\"",
        "RoleBinding \"why-view/default\" of ClusterRole \"view\"",
    ] {
        assert!(reason.contains(part), "{reason}");
    }
    let path = "/api/v1/namespaces/default/configmaps/x";
    let refused = crate::as_user(peer, "why-ann", "DELETE", path, None).await.fails(403, "Forbidden");
    let words = refused["message"].as_str().unwrap();
    assert_eq!(
        words,
        "configmaps \"x\" is forbidden: User \"why-ann\" cannot delete resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
    eventually("the refusal is in the audit log", || async {
        let audit = std::fs::read_to_string(peer.dir.join("data/audit/audit.log")).unwrap();
        // The last line may be half written.
        let mut lines = audit.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let Some(line) = lines.find(|line| line.contains("\"verb\":\"delete\"") && line.contains("why-ann")) else {
            return false;
        };
        assert!(line.contains("RBAC: no rule allows to delete configmaps") && line.contains("why-view"), "{line}");
        true
    })
    .await;
}
