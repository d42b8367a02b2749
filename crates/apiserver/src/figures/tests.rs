use super::*;
use crate::{Api, Options, describe};
use auth::{Authenticator, Authorizer, Peer, User};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use prometheus_client::registry::Registry as Shown;
use std::time::Instant;
use store::Store;

fn api(measured: bool) -> Api {
    let store = Store::memory(store::Options { describe: describe(), tick: None, ..store::Options::default() });
    let mut options = Options::new(Authenticator::new(auth::Options::default()).unwrap(), Authorizer::new());
    options.measured = measured;
    Api::new(store, options)
}

async fn ask(api: &Api, who: User, method: &str, uri: &str) -> u16 {
    let mut request = Request::builder().method(method).uri(uri).body(Full::<Bytes>::default()).unwrap();
    request.extensions_mut().insert(Peer::in_process(who));
    let response = api.handle(request).await;
    let code = response.status().as_u16();
    let _ = response.into_body().collect().await;
    code
}

fn shown(api: &Api) -> String {
    let mut registry = Shown::default();
    api.measure(&mut registry);
    let mut out = String::new();
    prometheus_client::encoding::text::encode(&mut out, &registry).unwrap();
    out
}

fn total(text: &str, labels: &[&str]) -> u64 {
    let lines = text.lines().filter(|line| line.starts_with("apiserver_request_total{"));
    let found = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
    found.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
}

// SYM-11
#[tokio::test]
async fn every_answer_is_counted_where_it_belongs() {
    let api = api(true);
    let stranger = || User::authenticated("stranger", "", []);
    assert_eq!(ask(&api, User::admin(), "GET", "/api/v1/configmaps").await, 200);
    assert_eq!(ask(&api, stranger(), "GET", "/api/v1/namespaces/d/configmaps/x").await, 403);
    assert_eq!(ask(&api, User::admin(), "PUT", "/api/v1/namespaces/d/pods/x/status").await, 400);
    assert_eq!(ask(&api, User::admin(), "GET", "/api/v1/namespaces/d/pods/x/invented").await, 404);
    assert_eq!(ask(&api, User::admin(), "GET", "/apis/nobody.example.com/v1/things").await, 404);
    assert_eq!(ask(&api, User::admin(), "GET", "/version").await, 200);
    assert_eq!(ask(&api, User::admin(), "GET", "/nowhere/at/all").await, 404);
    assert_eq!(ask(&api, User::admin(), "GET", "/api/v1/%2e%2e/x").await, 400);
    let text = shown(&api);
    for labels in [
        ["verb=\"LIST\"", "resource=\"configmaps\",subresource=\"\"", "scope=\"cluster\"", "code=\"200\""],
        ["verb=\"GET\"", "resource=\"configmaps\",subresource=\"\"", "scope=\"resource\"", "code=\"403\""],
        ["verb=\"PUT\"", "resource=\"pods\",subresource=\"status\"", "scope=\"resource\"", "code=\"400\""],
        ["verb=\"GET\"", "resource=\"pods\",subresource=\"other\"", "scope=\"resource\"", "code=\"404\""],
        ["verb=\"LIST\"", "group=\"other\"", "resource=\"other\"", "code=\"404\""],
        ["verb=\"GET\"", "resource=\"\"", "subresource=\"/version\"", "code=\"200\""],
        ["verb=\"GET\"", "resource=\"\"", "subresource=\"other\"", "code=\"404\""],
        ["verb=\"GET\"", "resource=\"\"", "subresource=\"other\"", "code=\"400\""],
    ] {
        assert_eq!(total(&text, &labels), 1, "{labels:?} in\n{text}");
    }
    assert_eq!(total(&text, &[]), 8);
    assert!(!text.contains("invented") && !text.contains("nobody.example.com") && !text.contains("nowhere"), "{text}");
    assert!(text.contains("apiserver_current_inflight_requests{request_kind=\"readOnly\"} 0\n"), "{text}");
    assert!(text.contains("apiserver_storage_objects{resource=\"deployments.apps\"} 0"), "{text}");
}

#[tokio::test]
async fn a_server_that_does_not_measure_keeps_nothing() {
    let api = api(false);
    assert_eq!(ask(&api, User::admin(), "GET", "/api/v1/configmaps").await, 200);
    assert!(!shown(&api).contains("apiserver_request_total"));
}

fn kind(plural: &str) -> Kind {
    let body = crate::kinds::GroupVersionKind { group: "example.com", version: "v1", kind: "Thing" };
    Kind { plural: plural.to_owned(), ..Kind::of_body(body) }
}

#[test]
fn custom_kinds_have_names_as_long_as_there_is_room_and_come_back_to_their_own() {
    let figures = Figures::new(&Registry::builtin());
    let rows: Vec<Arc<Row>> = (0..MOST_CUSTOM).map(|i| figures.row_of_custom(&kind(&format!("k{i}")))).collect();
    assert!(Arc::ptr_eq(&figures.row_of_custom(&kind("k7")), &rows[7]), "one that is defined anew goes on");
    assert!(Arc::ptr_eq(&figures.row_of_custom(&kind("late")), &figures.other));
    assert_eq!(figures.custom.lock().unwrap().len(), MOST_CUSTOM);
}

#[test]
fn built_in_kinds_find_their_own_row() {
    let registry = Registry::builtin();
    let figures = Figures::new(&registry);
    for kind in registry.builtins() {
        assert!(figures.row(Some(kind)).is_of(kind), "{}", kind.plural);
    }
    assert!(Arc::ptr_eq(figures.row(None), &figures.other));
}

#[test]
fn times_fall_into_the_bucket_they_are_not_longer_than() {
    let row = Row::new("", "v1", "things", Vec::new());
    for (took, bucket) in [(0, 0), (1_000_000, 0), (1_000_001, 1), (60_000_000_000, 15), (60_000_000_001, 16)] {
        row.count(0, 0, 0, 200, Duration::from_nanos(took));
        let cell = row.cells[0].get().unwrap();
        assert!(cell.buckets[bucket].load(Relaxed) > 0, "{took} ns");
    }
    let cell = row.cells[0].get().unwrap();
    assert_eq!(cell.buckets.iter().map(|b| b.load(Relaxed)).collect::<Vec<_>>()[..2], [2, 1]);
    assert_eq!(cell.codes[0].load(Relaxed), 5);
    // A watch has no time.
    row.count(0, WATCH, 0, 200, Duration::from_secs(1));
    let watch = row.cells[WATCH * SCOPES.len()].get().unwrap();
    assert_eq!((watch.codes[0].load(Relaxed), watch.nanos.load(Relaxed)), (1, 0));
    row.count(0, 0, 0, 418, Duration::ZERO);
    assert_eq!(cell.codes[CODES.len() - 1].load(Relaxed), 1);
}

/// `cargo test --release -p muster-apiserver --lib -- --ignored --nocapture the_cost_of_counting`
#[test]
#[ignore = "a measurement"]
#[allow(clippy::print_stdout)]
fn the_cost_of_counting() {
    const TIMES: u32 = 10_000_000;
    let registry = Registry::builtin();
    let figures = Figures::new(&registry);
    let kind = registry.find("", "v1", "configmaps").unwrap();
    let target = Resource { resource: "configmaps".into(), name: "x".into(), ..Resource::default() };
    let (parts, ()) = Request::get("/").body(()).unwrap().into_parts();
    let start = Instant::now();
    for i in 0..TIMES {
        let _under_way = figures.begin(&parts.method);
        let row = figures.row(Some(kind));
        figures.answered(row, &parts, &target, Some(Verb::Get), 200, Duration::from_nanos(u64::from(i)));
    }
    println!("{:.1} ns a request", start.elapsed().as_secs_f64() * 1e9 / f64::from(TIMES));
}
