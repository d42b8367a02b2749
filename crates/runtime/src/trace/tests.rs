//! A tiny collector on loopback, and what it gets.

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::{net::TcpListener, sync::mpsc};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use tracing_subscriber::{Layer, filter::filter_fn, layer::SubscriberExt};

use super::{otlp::ExportRequest, *};

/// What one request to the collector brought: path, key, spans.
type Received = (String, String, Vec<otlp::Span>);

async fn collector(status: StatusCode) -> (SocketAddr, mpsc::Receiver<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (to, from) = mpsc::channel(64);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let to = to.clone();
            let answer = service_fn(move |request: Request<Incoming>| {
                let to = to.clone();
                async move {
                    let path = request.uri().path().to_owned();
                    let key =
                        request.headers().get("x-key").map(|v| v.to_str().unwrap().to_owned()).unwrap_or_default();
                    assert_eq!(request.headers()["content-type"], "application/x-protobuf");
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    let request = ExportRequest::decode(body).unwrap();
                    let spans = request.resource_spans.into_iter().flat_map(|r| r.scope_spans).flat_map(|s| s.spans);
                    to.send((path, key, spans.collect())).await.unwrap();
                    Ok::<_, Infallible>(Response::builder().status(status).body(Full::<Bytes>::default()).unwrap())
                }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
        }
    });
    (addr, from)
}

fn options(endpoint: String) -> ExporterOptions {
    ExporterOptions { endpoint, headers: vec![], ca_file: None, ratio: 1.0, service: "muster-test".to_owned() }
}

fn subscriber(layer: TraceLayer) -> impl tracing::Subscriber + Send + Sync {
    let ours = |meta: &tracing::Metadata<'_>| {
        if meta.is_span() { meta.target() == TARGET } else { *meta.level() <= tracing::Level::WARN }
    };
    tracing_subscriber::registry().with(layer.with_filter(filter_fn(ours)))
}

fn key() -> Key {
    Key { namespace: Some("default".into()), name: "one".into() }
}

fn find<'a>(spans: &'a [otlp::Span], name: &str) -> &'a otlp::Span {
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name} in {spans:?}"))
}

#[tokio::test]
async fn a_request_is_continued_and_the_reconcile_is_linked_to_it() {
    // SYM-11
    let _alone = crate::logging::ALONE.lock().await;
    let (addr, mut received) = collector(StatusCode::OK).await;
    let mut options = options(format!("http://{addr}"));
    options.headers = vec![("x-key".to_owned(), "open".to_owned())];
    let (layer, exporter) = Exporter::new(&options).unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(exporter.run(stop.clone()));
    let guard = tracing::subscriber::set_default(subscriber(layer));

    let caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let request = tracing::info_span!(target: TARGET, "request", traceparent = caller, otel.kind = "server", code = 0);
    let sent = async {
        tracing::warn!(what = "disk", "slow");
        tracing::info!("not worth a trace");
        let inner = tracing::info_span!(target: TARGET, "store");
        inner.in_scope(|| tracing::debug_span!(target: "elsewhere", "unseen").in_scope(|| inject(Request::new(()))))
    }
    .instrument(request.clone())
    .await;
    request.record("code", 201);
    drop(request);
    assert_eq!(current(), None);
    let written = sent.headers()["traceparent"].to_str().unwrap().to_owned();
    assert!(written.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && written != caller);

    let annotations = BTreeMap::from([(ANNOTATION.to_owned(), written.clone())]);
    let reconcile = reconcile_span("at", &key(), Some(&annotations));
    reconcile.in_scope(|| assert_ne!(current().unwrap().trace, 0x0af7651916cd43dd8448eb211c80319c));
    reconcile.record("error", "no luck");
    drop(reconcile);
    drop(guard);
    stop.cancel();
    running.await.unwrap();

    let mut spans = Vec::new();
    while let Ok((path, key, more)) = received.try_recv() {
        assert_eq!((path.as_str(), key.as_str()), ("/v1/traces", "open"));
        spans.extend(more);
    }
    assert_eq!(spans.len(), 3);
    let request = find(&spans, "request");
    assert_eq!(request.parent_span_id, 0xb7ad6b7169203331u64.to_be_bytes());
    assert_eq!((request.kind, request.events.len(), request.events[0].name.as_str()), (2, 1, "slow"));
    let store = find(&spans, "store");
    assert_eq!((&store.trace_id, &store.parent_span_id), (&request.trace_id, &request.span_id));
    let context: TraceContext = written.parse().unwrap();
    assert_eq!(store.span_id, context.span.to_be_bytes());
    let reconcile = find(&spans, "reconcile");
    assert_eq!((&reconcile.links[0].trace_id, &reconcile.links[0].span_id), (&store.trace_id, &store.span_id));
    assert!(reconcile.parent_span_id.is_empty() && reconcile.trace_id != request.trace_id);
    assert_eq!(reconcile.status.as_ref().map(|status| status.message.as_str()), Some("no luck"));
}

#[tokio::test]
async fn a_reconcile_is_linked_to_the_request_that_wrote_what_it_saw() {
    // SYM-11
    let _alone = crate::logging::ALONE.lock().await;
    let (addr, mut received) = collector(StatusCode::OK).await;
    let (layer, exporter) = Exporter::new(&options(format!("http://{addr}"))).unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(exporter.run(stop.clone()));
    let guard = tracing::subscriber::set_default(subscriber(layer));

    let version = "77000001";
    let seen = ObjectMeta { resource_version: Some(version.to_owned()), ..ObjectMeta::default() };
    let reconcile = reconcile_span("at", &key(), None);
    let to_link = to_link(&reconcile, &seen);
    assert_eq!(to_link.as_deref(), Some(version));
    // The request has its answer only now.
    let request = tracing::info_span!(target: TARGET, "request", object.version = tracing::field::Empty);
    request.in_scope(|| {
        tracing::Span::current().record("object.version", 77_000_001u64);
    });
    drop(request);
    link_to_writer(&reconcile, to_link.as_deref());
    drop(reconcile);
    // Whoever says on whose behalf is believed, and another version is another request's.
    let annotations = BTreeMap::from([(ANNOTATION.to_owned(), "x".to_owned())]);
    let other = reconcile_span("other", &key(), None);
    assert_eq!(super::to_link(&other, &ObjectMeta { annotations: Some(annotations), ..seen }), None);
    link_to_writer(&other, Some("77000002"));
    drop((other, guard));
    stop.cancel();
    running.await.unwrap();

    let mut spans = Vec::new();
    while let Ok((_, _, more)) = received.try_recv() {
        spans.extend(more);
    }
    let request = find(&spans, "request").clone();
    let links: Vec<_> = spans.iter().filter(|span| span.name == "reconcile").map(|span| span.links.clone()).collect();
    let link = |links: &[otlp::Link]| links.iter().map(|link| link.span_id.clone()).collect::<Vec<_>>();
    assert_eq!([link(&links[0]), link(&links[1])], [vec![request.span_id], vec![]]);
}

#[tokio::test]
async fn what_the_caller_does_not_keep_and_what_no_share_covers_is_not_sent_but_carried_on() {
    let _alone = crate::logging::ALONE.lock().await;
    let (addr, mut received) = collector(StatusCode::OK).await;
    let mut options = options(format!("http://{addr}"));
    options.ratio = 0.0;
    let (layer, exporter) = Exporter::new(&options).unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(exporter.run(stop.clone()));
    let guard = tracing::subscriber::set_default(subscriber(layer));
    let unkept = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    let kept = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for caller in [None, Some(unkept), Some("nonsense"), Some(kept)] {
        let span = tracing::info_span!(target: TARGET, "request", traceparent = caller);
        span.in_scope(|| assert_eq!(current().unwrap().sampled, caller == Some(kept)));
    }
    drop(guard);
    stop.cancel();
    running.await.unwrap();
    assert_eq!(received.recv().await.unwrap().2.len(), 1);
    assert!(received.try_recv().is_err());
}

#[tokio::test]
async fn a_collector_that_is_away_or_refuses_holds_up_nothing() {
    let _alone = crate::logging::ALONE.lock().await;
    let (refusing, _received) = collector(StatusCode::SERVICE_UNAVAILABLE).await;
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for addr in [refusing, nobody] {
        let (layer, exporter) = Exporter::new(&options(format!("http://{addr}"))).unwrap();
        let stop = CancellationToken::new();
        let dropped = exporter.dropped();
        let running = tokio::spawn(exporter.run(stop.clone()));
        let guard = tracing::subscriber::set_default(subscriber(layer));
        for _ in 0..20_000 {
            drop(tracing::info_span!(target: TARGET, "request"));
        }
        drop(guard);
        stop.cancel();
        tokio::time::timeout(Duration::from_secs(60), running).await.unwrap().unwrap();
        assert_eq!(dropped.load(std::sync::atomic::Ordering::Relaxed), 20_000);
    }
}

#[test]
fn addresses_that_are_none_are_refused_by_name() {
    for wrong in ["", "localhost:4318", "ftp://host", "http://", "http:///v1/traces"] {
        let error = Exporter::new(&options(wrong.to_owned())).err().map(|e| e.to_string());
        assert!(error.as_ref().is_some_and(|e| e.contains("http://127.0.0.1:4318")), "{wrong}: {error:?}");
    }
    let mut header = options("http://host/path".to_owned());
    header.headers = vec![("bad name".to_owned(), "x".to_owned())];
    assert!(matches!(Exporter::new(&header), Err(TraceError::Header(_))));
}
