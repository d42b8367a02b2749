//! An app against an API that knows nothing: it starts, answers, and stops.

use std::{collections::BTreeMap, path::Path, time::Duration};

use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::*;
use crate::config::{Overrides, Tracing};

fn config(text: &str) -> Config {
    Config::read("test.yaml", Path::new(""), text, Overrides::default()).unwrap()
}

async fn get(addr: std::net::SocketAddr, path: &str) -> Option<(u16, String)> {
    let stream = TcpStream::connect(addr).await.ok()?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    tokio::spawn(connection);
    let request = http::Request::get(path).body(Empty::<bytes::Bytes>::new()).ok()?;
    let response = sender.send_request(request).await.ok()?;
    let code = response.status().as_u16();
    Some((code, String::from_utf8_lossy(&response.into_body().collect().await.ok()?.to_bytes()).into_owned()))
}

/// An address nobody has at this moment.
async fn free() -> std::net::SocketAddr {
    tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn an_app_starts_without_its_api_says_so_and_stops_cleanly() {
    // KC-1
    let (health, metrics) = (free().await, free().await);
    let text = format!(
        "managers:\n  a:\n    api: {{server: 'http://127.0.0.1:1'}}\n    healthBindAddress: {health}\n    \
         metricsBindAddress: {metrics}\n    leaderElection: {{enabled: false}}\n"
    );
    let app = App::new(&config(&text), Registry::new, None).await.unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(app.run(stop.clone()));
    let mut live = None;
    for _ in 0..200 {
        live = get(health, "/livez?verbose").await;
        if live.as_ref().is_some_and(|(code, _)| *code == 200) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(live, Some((200, "[+]manager ok\nlivez check passed\n".to_owned())));
    let (code, ready) = get(health, "/readyz?exclude=shutdown").await.unwrap();
    assert!(code == 503 && ready.contains("[-]api failed") && ready.contains("[+]caches ok"), "{ready}");
    let (code, figures) = get(metrics, "/metrics").await.unwrap();
    assert!(code == 200 && figures.contains("process_open_fds "), "{figures}");
    // An address that is taken is named.
    let error = App::new(&config(&text), Registry::new, None).await.err().unwrap().to_string();
    assert!(error.contains("managers.a") && error.contains(&health.to_string()), "{error}");
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(get(health, "/livez").await, None);
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_is_named() {
    let text =
        "managers:\n  a:\n    api: {server: 'http://127.0.0.1:1'}\n    tls: {certFile: /nowhere/a.crt, keyFile: b}\n";
    let error = App::new(&config(text), Registry::new, None).await.err().unwrap().to_string();
    assert!(error.starts_with("/nowhere/a.crt: "), "{error}");
}

#[test]
fn traces_go_where_the_configuration_or_the_known_variables_say() {
    let tracing = |endpoint: Option<&str>| Tracing { endpoint: endpoint.map(str::to_owned), ratio: 1.0, ca_file: None };
    let options = |endpoint, variables: &[(&str, &str)]| {
        let variables: BTreeMap<_, _> = variables.iter().map(|(a, b)| (*a, (*b).to_owned())).collect();
        exporter_options_from(&tracing(endpoint), "muster", |name| variables.get(name).cloned())
    };
    assert!(options(None, &[]).is_none());
    let common = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");
    let found = options(None, &[common, ("OTEL_EXPORTER_OTLP_HEADERS", "a=b, c = d=e"), ("OTEL_SERVICE_NAME", "mine")]);
    let found = found.unwrap();
    assert_eq!((found.endpoint.as_str(), found.service.as_str()), ("http://collector:4318/v1/traces", "mine"));
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(found.headers, [pair("a", "b"), pair("c", "d=e")]);
    assert_eq!(options(Some("http://x"), &[common]).unwrap().endpoint, "http://x");
    assert!(options(Some("http://x"), &[("OTEL_SDK_DISABLED", "TRUE")]).is_none());
}
