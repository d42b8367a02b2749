//! The gate in front of servers made of closures, in virtual time.

use futures_util::AsyncBufReadExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::ListParams};

use super::*;
use crate::testing::{self, Answer};

fn limits() -> Limits {
    Limits { requests: 2, streams: 1, deadline: Duration::from_secs(30), answer: 1000, cache: 1 << 20 }
}

async fn list(client: Client) -> Result<usize, String> {
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let listed = api.list(&ListParams::default()).await;
    listed.map(|list| list.items.len()).map_err(|error| match CallError::of(&error) {
        Some(ours) => ours.to_string(),
        None => format!("other: {error}"),
    })
}

fn empty() -> Answer {
    testing::json(200, &serde_json::json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {}, "items": []}))
}

#[tokio::test(start_paused = true)]
async fn a_member_that_never_answers_costs_a_deadline_and_no_more() {
    // F-8
    let gate = Gate::new("m".into(), limits(), testing::client(|_| std::future::pending()));
    let start = Instant::now();
    let errors = futures_util::future::join_all((0..3).map(|_| list(gate.client()))).await;
    assert_eq!(start.elapsed(), Duration::from_secs(30));
    assert!(errors.contains(&Err("m did not answer within 30s".to_owned())), "{errors:?}");
    let busy = errors.iter().filter(|error| error.as_ref().is_err_and(|e| e.contains("2 calls under way")));
    assert_eq!(busy.count(), 1, "{errors:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_trickles_ends_at_the_deadline_too() {
    // F-9
    let gate = Gate::new(
        "m".into(),
        limits(),
        testing::client(|_| async {
            let drops = futures_util::stream::unfold(0, |n| async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Some((Ok(http_body_frame(b" ")), n + 1))
            });
            Response::new(StreamBody::new(drops).boxed_unsync())
        }),
    );
    let start = Instant::now();
    assert_eq!(list(gate.client()).await.unwrap_err(), "m did not answer within 30s");
    assert_eq!(start.elapsed(), Duration::from_secs(30));
}

fn http_body_frame(bytes: &'static [u8]) -> http_body::Frame<bytes::Bytes> {
    http_body::Frame::data(bytes::Bytes::from_static(bytes))
}

#[tokio::test]
async fn giant_answers_and_redirects_are_refused() {
    // B-14
    let giant = testing::client(|_| async { testing::json(200, &serde_json::json!({"x": "y".repeat(2000)})) });
    let gate = Gate::new("m".into(), limits(), giant);
    assert_eq!(
        list(gate.client()).await.unwrap_err(),
        "m sent an answer of more than 1000 bytes; ask for less, or in pages"
    );
    let away = testing::client(|_| async { testing::json(307, &serde_json::json!({})) });
    gate.replace(away);
    assert!(list(gate.client()).await.unwrap_err().contains("redirect (307)"));
    gate.replace(testing::client(|_| async { empty() }));
    assert_eq!(list(gate.client()).await, Ok(0));
}

#[tokio::test]
async fn nothing_is_sent_to_a_member_that_is_away() {
    // F-8
    let sent = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = sent.clone();
    let gate = Gate::new(
        "m".into(),
        limits(),
        testing::client(move |_| {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            async { empty() }
        }),
    );
    gate.shut("no answer within 5s");
    let client = gate.client();
    let error = list(client.clone()).await.unwrap_err();
    assert_eq!(error, "m is unreachable (no answer within 5s); it is tried again by itself");
    assert_eq!(sent.load(std::sync::atomic::Ordering::Relaxed), 0);
    gate.open();
    assert_eq!(list(client).await, Ok(0));
}

#[tokio::test(start_paused = true)]
async fn a_stream_counts_until_its_reader_lets_go() {
    let gate = Gate::new("m".into(), limits(), testing::client(|_| async { testing::lines().1 }));
    let client = gate.client();
    let open = || {
        let request = Request::get("/api/v1/pods?watch=true").body(Vec::new()).unwrap();
        let client = client.clone();
        async move { client.request_stream(request).await.map(|_| ()) }
    };
    let request = Request::get("/api/v1/pods?watch=true").body(Vec::new()).unwrap();
    let held = client.request_stream(request).await.unwrap();
    let error = open().await.unwrap_err();
    assert!(matches!(CallError::of(&error), Some(CallError::Busy { most: 1, .. })), "{error}");
    drop(held);
    assert!(open().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_when_its_connection_is_believed_dead() {
    // F-8
    let silent = || testing::client(|_| async { testing::lines_for_ever() });
    let gate = Gate::new("m".into(), Limits { streams: 9, ..limits() }, silent());
    let client = gate.client();
    let open = |query: &str| {
        let request = Request::get(format!("/api/v1/pods?{query}")).body(Vec::new()).unwrap();
        let client = client.clone();
        tokio::spawn(async move {
            let mut stream = std::pin::pin!(client.request_stream(request).await.unwrap());
            let mut line = String::new();
            stream.read_line(&mut line).await.map_err(|error| error.to_string())
        })
    };
    let (watch, log) = (open("watch=true"), open("follow=true"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    gate.replace(silent());
    let error = watch.await.unwrap().unwrap_err();
    assert!(error.contains("the connection to m is believed dead"), "{error}");
    let second = open("watch=1");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!second.is_finished() && !log.is_finished());
    gate.shut("gone");
    assert!(second.await.unwrap().is_err() && log.await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_ends_when_the_member_is_found_to_be_away() {
    // F-8
    let gate = Gate::new("m".into(), limits(), testing::client(|_| std::future::pending()));
    let start = Instant::now();
    let waiting = tokio::spawn(list(gate.client()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    gate.shut("no answer within 5s");
    assert!(waiting.await.unwrap().unwrap_err().contains("m is unreachable"));
    assert_eq!(start.elapsed(), Duration::from_secs(1));
    gate.close();
    gate.open();
    assert!(list(gate.client()).await.unwrap_err().contains("left the fleet"));
}

#[tokio::test]
async fn a_refused_watch_may_not_go_on_for_ever() {
    // B-14
    let giant = testing::client(|_| async { testing::json(403, &serde_json::json!({"x": "y".repeat(2000)})) });
    let gate = Gate::new("m".into(), limits(), giant);
    let request = Request::get("/api/v1/pods?watch=true").body(Vec::new()).unwrap();
    let error = gate.client().request_stream(request).await.err().unwrap();
    assert!(matches!(CallError::of(&error), Some(CallError::TooLarge { .. })), "{error}");
}
