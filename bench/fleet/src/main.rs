//! `muster-bench-fleet`: `GET /api/cluster/all/appPod/{app}` and lists of any kind over many members, answered from memory.
//!
//!   muster-bench-fleet [--quick] [--members N] [--pods N] [--connections N] [--events N]
//!
//! Members and the meta API are made of closures, so that what is measured is the gateway with the fleet's memory: HTTP over
//! loopback, rights, rows, pages. The generator runs in the same process and takes its share of the same cores.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fleet::{Care, Connection, Fleet};
use futures_util::stream;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use kube::Client;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const APPS: usize = 50;

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

fn whole(code: u16, body: impl Into<Bytes>) -> Answer {
    Response::builder().status(code).body(Full::new(body.into()).boxed_unsync()).unwrap()
}

/// A pod as a cluster has it, about as large as one usually is.
fn pod(member: usize, at: usize, version: u64) -> Value {
    let env: Vec<Value> =
        (0..8).map(|n| json!({"name": format!("VARIABLE_{n}"), "value": format!("value {n} of {at}")})).collect();
    let app = format!("app-{}", at % APPS);
    json!({"metadata": {"name": format!("{app}-{at:05}"), "namespace": format!("ns-{}", at % 10), "uid": format!("{member}-{at}"),
            "resourceVersion": version.to_string(), "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": {"app": app, "sym-group": if at.is_multiple_of(2) { "blue" } else { "green" }, "pod-template-hash": "5d9f7c6b8"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": "u", "controller": true}]},
        "spec": {"nodeName": format!("node-{}", at % 20), "containers": [{"name": "c", "image": format!("registry/app:{}", at % 7), "env": env,
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}}]},
        "status": {"phase": "Running", "podIP": format!("10.{}.{}.{}", member % 250, at / 250, at % 250), "startTime": "2026-01-02T03:04:06Z",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:07Z"}],
            "containerStatuses": [{"name": "c", "ready": true, "restartCount": 0, "state": {"running": {"startedAt": "2026-01-02T03:04:06Z"}}}]}})
}

/// A member with so many pods, whose watches tell what is sent over the channel.
fn member(number: usize, pods: usize, changes: broadcast::Sender<(usize, Bytes)>) -> Client {
    let items: Vec<Value> = (0..pods).map(|at| pod(number, at, 1)).collect();
    let list = Bytes::from(
        json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items})
            .to_string(),
    );
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let answer = match (request.uri().path(), request.uri().query().unwrap_or_default()) {
            ("/readyz", _) => whole(200, "ok"),
            ("/version", _) => whole(
                200,
                r#"{"major":"1","minor":"34","gitVersion":"v1.34.0","gitCommit":"","gitTreeState":"","buildDate":"","goVersion":"","compiler":"","platform":""}"#,
            ),
            (_, query) if query.contains("watch=true") => {
                let lines = stream::unfold(changes.subscribe(), move |mut changes| async move {
                    loop {
                        match changes.recv().await {
                            Ok((of, line)) if of == number => return Some((Ok(Frame::data(line)), changes)),
                            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                            Err(broadcast::error::RecvError::Closed) => return None,
                        }
                    }
                });
                Response::new(StreamBody::new(lines).boxed_unsync())
            }
            ("/api/v1/pods", _) => whole(200, list.clone()),
            ("/api" | "/apis", _) => whole(200, discovery(request.uri().path())),
            _ => whole(200, r#"{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}"#),
        };
        async move { Ok::<_, Infallible>(answer) }
    });
    Client::new(service, "default")
}

fn discovery(path: &str) -> String {
    let pods = json!({"resource": "pods", "scope": "Namespaced", "responseKind": {"group": "", "version": "v1", "kind": "Pod"}, "verbs": ["get", "list", "watch"]});
    let items = if path == "/api" {
        json!([{"metadata": {"name": ""}, "versions": [{"version": "v1", "resources": [pods]}]}])
    } else {
        json!([])
    };
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items}).to_string()
}

/// A meta API that says yes.
fn meta() -> Client {
    let service = tower::service_fn(|request: Request<kube::client::Body>| {
        let answer = match request.uri().path() {
            path if path.ends_with("selfsubjectaccessreviews") => whole(201, r#"{"status":{"allowed":true}}"#),
            _ => whole(200, r#"{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}"#),
        };
        async move { Ok::<_, Infallible>(answer) }
    });
    Client::new(service, "default")
}

struct Options {
    members: usize,
    pods: usize,
    connections: usize,
    events: u64,
    seconds: u64,
}

impl Options {
    fn parse() -> Options {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let value = |name: &str| {
            words.iter().position(|word| word == name).and_then(|i| words.get(i + 1)?.parse::<usize>().ok())
        };
        let quick = words.iter().any(|word| word == "--quick");
        Options {
            members: value("--members").unwrap_or(100),
            pods: value("--pods").unwrap_or(500),
            connections: value("--connections").unwrap_or(8),
            events: value("--events").unwrap_or(50) as u64,
            seconds: if quick { 3 } else { 10 },
        }
    }
}

#[tokio::main]
async fn main() {
    let options = Options::parse();
    let (changes, _) = broadcast::channel(1024);
    let fleet = Fleet::new(Care::default());
    for number in 0..options.members {
        let client = member(number, options.pods, changes.clone());
        fleet.declare(&format!("m{number:04}"), BTreeMap::new(), Connection::through(client));
    }
    let rate = gateway::Rate { per_second: 1e9, burst: 1e9 };
    let limits =
        gateway::Limits { per_caller: rate, per_stranger: rate, in_flight: 10_000, ..gateway::Limits::default() };
    let face = gateway::Options { limits, ..gateway::Options::new(([127, 0, 0, 1], 0).into()) };
    let face = gateway::Face::new(face, gateway::Upstream::new(meta(), meta())).console().fleet(fleet.clone());
    let listening = face.bind().await.unwrap();
    let address = listening.address();
    let stop = CancellationToken::new();
    let serving = tokio::spawn(listening.run(stop.clone()));
    println!(
        "{} members x {} pods, {} connections, {} events/s",
        options.members, options.pods, options.connections, options.events
    );
    let before = resident();
    let first = Instant::now();
    let path = "/api/cluster/all/appPod/app-7";
    loop {
        let page: Value = serde_json::from_slice(&once(address, path).await).unwrap();
        if page["unanswered"] == json!([]) && page["count"] == options.members * options.pods.div_ceil(APPS) {
            break;
        }
        assert!(first.elapsed() < Duration::from_secs(120), "{page}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let pods = (options.members * options.pods) as u64;
    println!(
        "all read after {:?}; {} bytes of memory for each pod",
        first.elapsed(),
        resident().saturating_sub(before) / pods.max(1)
    );
    let ticking = tokio::spawn(tick(options.members, options.pods, options.events, changes.clone()));
    for path in [
        path,
        "/api/cluster/all/appPod/app-7?group=blue&sort=-name",
        "/api/cluster/m0003/appPod/app-7",
        "/api/cluster/all/resources/core/v1/pods?pageSize=50",
        "/api/cluster/all/resources/core/v1/pods?pageSize=50&sort=-spec.nodeName",
        "/api/cluster/all",
    ] {
        measure(address, path, &options).await;
    }
    // One of ten falls silent.
    for number in (0..options.members).step_by(10) {
        let silent =
            tower::service_fn(|_: Request<kube::client::Body>| std::future::pending::<Result<Answer, Infallible>>());
        fleet.declare(&format!("m{number:04}"), BTreeMap::new(), Connection::through(Client::new(silent, "default")));
    }
    println!("one of ten members is silent from now on");
    tokio::time::sleep(Duration::from_secs(12)).await;
    measure(address, path, &options).await;
    ticking.abort();
    stop.cancel();
    let _ = serving.await;
}

/// Changes of pods, spread over the members.
async fn tick(members: usize, pods: usize, events: u64, changes: broadcast::Sender<(usize, Bytes)>) {
    if events == 0 {
        return;
    }
    let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / events as f64));
    for version in 2u64.. {
        ticks.tick().await;
        let (number, at) = (version as usize % members, version as usize * 31 % pods);
        let line = json!({"type": "MODIFIED", "object": pod(number, at, version)}).to_string() + "\n";
        let _ = changes.send((number, line.into()));
    }
}

async fn once(address: SocketAddr, path: &str) -> Bytes {
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(TcpStream::connect(address).await.unwrap())).await.unwrap();
    let connection = tokio::spawn(connection);
    let body = get(&mut sender, address, path).await;
    connection.abort();
    body
}

async fn get(sender: &mut http1::SendRequest<Empty<Bytes>>, address: SocketAddr, path: &str) -> Bytes {
    let request = Request::get(path).header("host", address.to_string()).header("authorization", "Bearer t");
    let response = sender.send_request(request.body(Empty::new()).unwrap()).await.unwrap();
    let code = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(code.is_success(), "{path}: {code} {}", String::from_utf8_lossy(&body));
    body
}

async fn measure(address: SocketAddr, path: &'static str, options: &Options) {
    once(address, path).await;
    let until = Instant::now() + Duration::from_secs(options.seconds);
    let bytes = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..options.connections)
        .map(|_| {
            let bytes = bytes.clone();
            tokio::spawn(async move {
                let stream = TcpStream::connect(address).await.unwrap();
                let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
                let connection = tokio::spawn(connection);
                let mut took = Vec::new();
                while Instant::now() < until {
                    let begun = Instant::now();
                    bytes.fetch_add(get(&mut sender, address, path).await.len() as u64, Relaxed);
                    took.push(begun.elapsed());
                }
                connection.abort();
                took
            })
        })
        .collect();
    let mut took = Vec::new();
    for client in clients {
        took.extend(client.await.unwrap());
    }
    took.sort_unstable();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
    let rate = took.len() as f64 / options.seconds as f64;
    println!(
        "{rate:9.0}/s  p50 {:>9.2?}  p99 {:>9.2?}  {:>7} B  {path}",
        at(0.5),
        at(0.99),
        bytes.load(Relaxed) / took.len() as u64
    );
}

/// Bytes of memory this process holds.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}
