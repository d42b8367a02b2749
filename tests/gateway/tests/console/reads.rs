//! What else the console reads: reconcilers, the audit log, its own files.
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use gateway::{Controllers, Problem};
use muster_tests::runner::Case;
use muster_tests::{Peer, cases};
use muster_tests_gateway::browser::Browser;
use muster_tests_gateway::{Face, refused, user};
use serde_json::{Value, json};

pub fn all() -> Vec<Case> {
    cases![reads: reconcilers_are_seen_and_switched_by_who_may, the_audit_log_is_for_who_may_read_it, files_and_their_absence]
}

#[derive(Default)]
struct Hub(Mutex<bool>, Mutex<Vec<String>>);

impl Controllers for Hub {
    fn list(&self) -> BoxFuture<'_, Result<Vec<Value>, Problem>> {
        Box::pin(async { Ok(vec![json!({"name": "at", "enabled": *self.0.lock().unwrap()})]) })
    }

    fn switch<'a>(&'a self, name: &'a str, on: bool) -> BoxFuture<'a, Result<(), Problem>> {
        Box::pin(async move {
            if name != "at" {
                return Err(Problem::not_found("there is no such reconciler; there are at"));
            }
            *self.0.lock().unwrap() = on;
            Ok(())
        })
    }

    fn requeue<'a>(&'a self, name: &'a str, key: Option<&'a str>) -> BoxFuture<'a, Result<usize, Problem>> {
        Box::pin(async move {
            self.1.lock().unwrap().push(format!("{name} {}", key.unwrap_or("*")));
            Ok(if key.is_some() { 1 } else { 7 })
        })
    }
}

async fn reconcilers_are_seen_and_switched_by_who_may(peer: &Peer) {
    let hub = Arc::new(Hub::default());
    let face = Face::console(peer, |face| face.controllers(hub.clone())).await;
    let path = "/wapi/v1/controllers";
    assert_eq!(face.get(path).await.ok(200)["items"], json!([{"name": "at", "enabled": false}]));
    assert_eq!(face.call("POST", &format!("{path}/at/enable")).send().await.status, 204);
    assert_eq!(face.get(path).await.ok(200)["items"][0]["enabled"], true);
    refused(&face.call("POST", &format!("{path}/nope/disable")).send().await, 404);
    refused(&face.call("POST", &format!("{path}/at/explode")).send().await, 404);
    refused(&face.call("GET", &format!("{path}/at/enable")).send().await, 405);
    let again = |query: &str| face.call("POST", &format!("{path}/at/requeue{query}"));
    assert_eq!(again("?key=default/first").send().await.ok(200)["count"], 1);
    assert_eq!(again("").send().await.ok(200)["count"], 7);
    refused(&again("?key=").send().await, 400);
    refused(&again("?key=a/b/c").send().await, 400);
    refused(&face.call("GET", &format!("{path}/at/requeue")).send().await, 405);
    assert_eq!(*hub.1.lock().unwrap(), ["at default/first", "at *"]);
    let rules = json!([{"nonResourceURLs": ["/controllers"], "verbs": ["get"]}, {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]);
    let viewer = user(peer, "full-viewer", None, Some(rules)).await;
    face.call("GET", path).token(Some(&viewer)).send().await.ok(200);
    for word in ["disable", "requeue", "requeue?key=default/first"] {
        refused(&face.call("POST", &format!("{path}/at/{word}")).token(Some(&viewer)).send().await, 403);
    }
    assert_eq!(hub.1.lock().unwrap().len(), 2);
    let nobody = user(peer, "hub-nobody", None, None).await;
    refused(&face.call("GET", path).token(Some(&nobody)).send().await, 403);
    assert!(*hub.0.lock().unwrap());
    let without = Face::console(peer, |face| face).await;
    refused(&without.get(path).await, 404);
}

async fn the_audit_log_is_for_who_may_read_it(peer: &Peer) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.log");
    let line = |n: usize| json!({"n": n, "user": "gateway", "impersonatedUser": "ann", "verb": "delete"}).to_string();
    std::fs::write(folder.path().join("audit.log.1"), format!("{}\n", line(1))).unwrap();
    std::fs::write(&file, format!("{}\n{}\n", line(2), line(3))).unwrap();
    let face = Face::console(peer, |face| face.audit(file)).await;
    let page = face.get("/wapi/v1/audit?user=ann&pageSize=2").await.ok(200);
    assert_eq!((&page["count"], &page["complete"]), (&json!(3), &json!(true)));
    assert_eq!((&page["items"][0]["n"], &page["items"][1]["n"]), (&json!(3), &json!(2)));
    refused(&face.get("/wapi/v1/audit?page=0").await, 400);
    refused(&face.call("POST", "/wapi/v1/audit").send().await, 405);
    let nobody = user(peer, "audit-nobody", None, None).await;
    refused(&face.call("GET", "/wapi/v1/audit").token(Some(&nobody)).send().await, 403);
    refused(&Face::console(peer, |face| face).await.get("/wapi/v1/audit").await, 404);
}

async fn files_and_their_absence(peer: &Peer) {
    let face = Face::console(peer, |face| face).await;
    let browser = Browser::new(&face);
    let page = browser.bare("GET", "/").send().await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    assert!(page.text().contains("<html"), "unpacked for who does not say br");
    assert_eq!(page.header("cache-control"), "no-cache");
    let packed = browser.bare("GET", "/index.html").header("accept-encoding", "gzip, br").send().await;
    assert_eq!((packed.header("content-encoding"), packed.header("etag")), ("br", page.header("etag")));
    assert!(packed.body.len() < page.body.len());
    let known = browser.bare("GET", "/").header("if-none-match", page.header("etag")).send().await;
    assert_eq!((known.status, known.body.len()), (304, 0));
    let head = browser.bare("HEAD", "/").send().await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    refused(&browser.bare("GET", "/assets/missing.js").send().await, 404);
    refused(&browser.bare("POST", "/").send().await, 405);
    assert_eq!(browser.bare("GET", "/any/page").header("accept", "text/html").send().await.text(), page.text());
}
