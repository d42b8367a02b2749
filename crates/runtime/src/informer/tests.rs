//! Informers against a scripted server, in virtual time.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::sync::mpsc;

use super::*;
use crate::testing::{Answer, client, json as answer_json, lines, refusal};

/// A server that hands each request to the test, which answers it.
struct Server {
    asked: mpsc::UnboundedReceiver<(String, tokio::sync::oneshot::Sender<Answer>)>,
    client: Client,
}

impl Server {
    fn new() -> Self {
        let (sender, asked) = mpsc::unbounded_channel();
        let client = client(move |request: Request<Bytes>| {
            let sender = sender.clone();
            async move {
                let (answer, answered) = tokio::sync::oneshot::channel();
                let path = request.uri().to_string();
                let _ = sender.send((path, answer));
                answered.await.unwrap_or_else(|_| refusal(500))
            }
        });
        Server { asked, client }
    }

    /// The next request, which must have all these words.
    async fn expect(&mut self, words: &[&str]) -> tokio::sync::oneshot::Sender<Answer> {
        let next = tokio::time::timeout(Duration::from_secs(600), self.asked.recv());
        let (path, answer) = next.await.expect("no request came").expect("the server is gone");
        for word in words {
            assert!(path.contains(word), "{word} is not in {path}");
        }
        answer
    }

    async fn expect_watch(&mut self, words: &[&str]) -> mpsc::UnboundedSender<String> {
        let answer = self.expect(words).await;
        let (sender, response) = lines();
        assert!(answer.send(response).is_ok());
        sender
    }
}

const STREAMED: &[&str] = &["watch=true", "sendInitialEvents=true", "resourceVersionMatch=NotOlderThan"];

fn event(kind: &str, name: &str, version: u64) -> String {
    let metadata = json!({"name": name, "namespace": "n", "resourceVersion": version.to_string()});
    format!(r#"{{"type":"{kind}","object":{{"metadata":{metadata}}}}}"#)
}

fn bookmark(version: u64, end: bool) -> String {
    let annotations = if end { json!({"k8s.io/initial-events-end": "true"}) } else { json!({}) };
    let metadata = json!({"resourceVersion": version.to_string(), "annotations": annotations});
    format!(r#"{{"type":"BOOKMARK","object":{{"metadata":{metadata}}}}}"#)
}

fn start(server: &Server) -> Cache<ConfigMap> {
    let informers = Informers::new(server.client.clone(), Metrics::new());
    informers.cache::<ConfigMap>(vec![Scope { labels: Some("a=b".into()), ..Scope::default() }])
}

/// What a subscriber was told, in words.
fn told(cache: &Cache<ConfigMap>) -> (Arc<Mutex<Vec<String>>>, Vec<Subscription>) {
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let record = told.clone();
    let subscriptions = cache.subscribe(move |change| {
        let what = match (change.old, change.new, change.listed) {
            (None, Some(_), true) => "listed",
            (None, Some(_), false) => "added",
            (Some(_), Some(_), _) => "changed",
            (_, None, _) => "gone",
        };
        record.lock().unwrap().push(format!("{what} {}", change.key.name));
    });
    (told, subscriptions)
}

async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn reads_everything_over_the_watch_then_follows_and_resumes_where_it_was() {
    let mut server = Server::new();
    let cache = start(&server);
    let (told, _subscriptions) = told(&cache);
    let watch = server.expect_watch(&[STREAMED, &["labelSelector=a%3Db"]].concat()).await;
    watch.send(event("ADDED", "a", 1)).unwrap();
    watch.send(event("ADDED", "b", 2)).unwrap();
    settle().await;
    assert!(!cache.is_synced());
    watch.send(bookmark(5, true)).unwrap();
    cache.synced().await;
    watch.send(event("MODIFIED", "a", 6)).unwrap();
    watch.send(event("DELETED", "b", 7)).unwrap();
    watch.send(event("ADDED", "c", 8)).unwrap();
    watch.send(bookmark(20, false)).unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    drop(watch);
    let watch = server.expect_watch(&["watch=true", "resourceVersion=20"]).await;
    watch.send(event("ADDED", "d", 21)).unwrap();
    drop(watch);
    // Where the last event was, and again within the same second: no bookmark needed.
    let watch = server.expect_watch(&["resourceVersion=21"]).await;
    settle().await;
    assert_eq!(
        *told.lock().unwrap(),
        ["listed a", "listed b", "changed a", "gone b", "added c", "added d"].map(str::to_owned)
    );
    let mut names: Vec<String> = cache.keys().iter().map(Key::to_string).collect();
    names.sort();
    assert_eq!(names, ["n/a", "n/c", "n/d"]);
    drop(watch);
}

#[tokio::test(start_paused = true)]
async fn a_history_that_is_gone_is_read_anew_and_only_differences_are_told() {
    for in_stream in [true, false] {
        let mut server = Server::new();
        let cache = start(&server);
        let watch = server.expect_watch(STREAMED).await;
        for (name, version) in [("same", 1), ("changes", 2), ("goes", 3)] {
            watch.send(event("ADDED", name, version)).unwrap();
        }
        watch.send(bookmark(3, true)).unwrap();
        cache.synced().await;
        let (told, _subscriptions) = told(&cache);
        told.lock().unwrap().clear();
        if in_stream {
            let status = r#"{"kind":"Status","code":410,"message":"too old resource version"}"#;
            watch.send(format!(r#"{{"type":"ERROR","object":{status}}}"#)).unwrap();
        } else {
            drop(watch);
            assert!(server.expect(&["resourceVersion=3"]).await.send(refusal(410)).is_ok());
        }
        let watch = server.expect_watch(STREAMED).await;
        for (name, version) in [("same", 1), ("changes", 8), ("comes", 9)] {
            watch.send(event("ADDED", name, version)).unwrap();
        }
        watch.send(bookmark(10, true)).unwrap();
        settle().await;
        let told = told.lock().unwrap().clone();
        assert_eq!(told, ["changed changes", "added comes", "gone goes"].map(str::to_owned), "in stream: {in_stream}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_stream_is_listed_in_pages() {
    let mut server = Server::new();
    let cache = start(&server);
    assert!(server.expect(STREAMED).await.send(refusal(422)).is_ok());
    let page = |names: &[&str], next: &str| {
        let items: Vec<_> =
            names.iter().map(|name| json!({"metadata": {"name": name, "resourceVersion": "1"}})).collect();
        answer_json(200, &json!({"metadata": {"resourceVersion": "40", "continue": next}, "items": items}))
    };
    assert!(server.expect(&["limit=500"]).await.send(page(&["a", "b"], "more")).is_ok());
    settle().await;
    assert!(!cache.is_synced());
    assert!(server.expect(&["limit=500", "continue=more"]).await.send(page(&["c"], "")).is_ok());
    let _watch = server.expect_watch(&["watch=true", "resourceVersion=40"]).await;
    cache.synced().await;
    assert_eq!(cache.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_ends_the_initial_events_is_listed_instead() {
    let mut server = Server::new();
    let _cache = start(&server);
    let watch = server.expect_watch(STREAMED).await;
    watch.send(event("ADDED", "a", 1)).unwrap();
    let list = server.expect(&["limit=500"]).await;
    assert!(list.send(answer_json(200, &json!({"metadata": {"resourceVersion": "2"}, "items": []}))).is_ok());
    server.expect(&["resourceVersion=2"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_is_asked_again_but_not_without_pause() {
    let mut server = Server::new();
    let cache = start(&server);
    let start = tokio::time::Instant::now();
    let mut asked = 0;
    while start.elapsed() < Duration::from_secs(60) {
        assert!(server.expect(STREAMED).await.send(refusal(503)).is_ok());
        asked += 1;
    }
    assert!((12..40).contains(&asked), "asked {asked} times in a minute");
    let watch = server.expect_watch(STREAMED).await;
    watch.send(bookmark(1, true)).unwrap();
    cache.synced().await;
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_comes_late_sees_everything_once() {
    let mut server = Server::new();
    let cache = start(&server);
    let watch = server.expect_watch(STREAMED).await;
    watch.send(event("ADDED", "a", 1)).unwrap();
    watch.send(bookmark(1, true)).unwrap();
    cache.synced().await;
    let (told, subscriptions) = told(&cache);
    watch.send(event("ADDED", "b", 2)).unwrap();
    settle().await;
    assert_eq!(*told.lock().unwrap(), ["listed a", "added b"].map(str::to_owned));
    drop(subscriptions);
    watch.send(event("ADDED", "c", 3)).unwrap();
    settle().await;
    assert_eq!(told.lock().unwrap().len(), 2);
    assert_eq!(cache.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn equal_wishes_share_one_watch_which_ends_with_the_last_of_them() {
    let mut server = Server::new();
    let informers = Informers::new(server.client.clone(), Metrics::new());
    let scope = |labels: &str| vec![Scope { labels: Some(labels.to_owned()), ..Scope::default() }];
    let first = informers.cache::<ConfigMap>(scope("x=1"));
    let second = informers.cache::<ConfigMap>(scope("x=1"));
    let other = informers.cache::<ConfigMap>(scope("x=2"));
    let one = server.expect_watch(&["x%3D1"]).await;
    let two = server.expect_watch(&["x%3D2"]).await;
    one.send(event("ADDED", "a", 1)).unwrap();
    settle().await;
    assert_eq!((first.len(), second.len(), other.len()), (1, 1, 0));
    assert!(server.asked.try_recv().is_err(), "a third request");
    drop(first);
    settle().await;
    assert!(!one.is_closed());
    drop(second);
    settle().await;
    assert!(one.is_closed() && !two.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_does_not_stop_the_others() {
    let mut server = Server::new();
    let cache = start(&server);
    let _bad = cache.subscribe(|_| panic!("planted"));
    let (told, _subscriptions) = told(&cache);
    let watch = server.expect_watch(STREAMED).await;
    watch.send(event("ADDED", "a", 1)).unwrap();
    watch.send(event("ADDED", "b", 2)).unwrap();
    settle().await;
    assert_eq!(told.lock().unwrap().len(), 2);
}

/// One object per step: whatever order things come in, memory ends as the server is.
#[tokio::test(start_paused = true)]
async fn after_any_cuts_and_relists_memory_is_what_the_server_has() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut server = Server::new();
        let cache = start(&server);
        let seen: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
        let record = seen.clone();
        let _subscriptions = cache.subscribe(move |change: &Change<'_, ConfigMap>| {
            let name = change.key.name.to_string();
            let mut seen = record.lock().unwrap();
            match change.new {
                Some(new) => drop(seen.insert(name, new.metadata.resource_version.clone().unwrap_or_default())),
                None => drop(seen.remove(&name)),
            }
        });
        let mut truth: BTreeMap<String, u64> = BTreeMap::new();
        let mut version = 1;
        let mut history: Vec<(u64, String)> = Vec::new();
        let mut oldest = 0;
        for _ in 0..12 {
            // Serve one watch for a while.
            let (path, answer) = server.asked.recv().await.unwrap();
            let from = path.split("&resourceVersion=").nth(1).and_then(|v| v.split('&').next()?.parse::<u64>().ok());
            let (lines, response) = lines();
            match from {
                Some(from) if from < oldest => {
                    assert!(answer.send(refusal(410)).is_ok());
                    continue;
                }
                Some(from) => {
                    history.iter().filter(|(at, _)| *at > from).for_each(|(_, line)| lines.send(line.clone()).unwrap());
                }
                None => {
                    truth.iter().for_each(|(name, at)| lines.send(event("ADDED", name, *at)).unwrap());
                    lines.send(bookmark(version, true)).unwrap();
                }
            }
            assert!(answer.send(response).is_ok());
            let live = random.usize(0..6);
            for step in 0..random.usize(1..12) {
                version += 1;
                let name = format!("o{}", random.u8(0..5));
                let line = match truth.remove(&name) {
                    Some(_) if random.bool() => event("DELETED", &name, version),
                    known => {
                        truth.insert(name.clone(), version);
                        event(if known.is_some() { "MODIFIED" } else { "ADDED" }, &name, version)
                    }
                };
                history.push((version, line.clone()));
                // The rest happens while nobody watches.
                if step < live {
                    let _ = lines.send(line);
                    settle().await;
                }
            }
            if random.u8(0..4) == 0 {
                oldest = version;
            }
        }
        let (path, answer) = server.asked.recv().await.unwrap();
        let (lines, response) = lines();
        let from = path.split("&resourceVersion=").nth(1).and_then(|v| v.split('&').next()?.parse::<u64>().ok());
        match from {
            Some(from) => history.iter().filter(|(at, _)| *at > from).for_each(|(_, l)| lines.send(l.clone()).unwrap()),
            None => {
                truth.iter().for_each(|(name, at)| lines.send(event("ADDED", name, *at)).unwrap());
                lines.send(bookmark(version, true)).unwrap();
            }
        }
        assert!(answer.send(response).is_ok());
        tokio::time::sleep(Duration::from_secs(1)).await;
        let truth: BTreeMap<String, String> = truth.into_iter().map(|(name, at)| (name, at.to_string())).collect();
        assert_eq!(*seen.lock().unwrap(), truth, "seed {seed}");
    }
}
