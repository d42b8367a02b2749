//! The endpoints over real sockets, with an API that knows two tokens.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1 as client;
use kube::{Client, client::Body};
use serde_json::{Value, json};

use super::*;
use crate::{
    Manager, Options, Registry,
    health::{Probe, Verdict},
};

/// Knows `good` (an administrator) and `weak` (may not). Counts what it is asked.
fn api(asked: Arc<AtomicUsize>) -> Client {
    let answer = move |request: Request<Body>| {
        asked.fetch_add(1, Ordering::Relaxed);
        async move {
            let path = request.uri().path().to_owned();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let mut object: Value = serde_json::from_slice(&body).unwrap();
            object["status"] = match path.as_str() {
                "/apis/authentication.k8s.io/v1/tokenreviews" => match object["spec"]["token"].as_str() {
                    Some(name @ ("good" | "weak")) => json!({"authenticated": true, "user": {"username": name}}),
                    _ => json!({"authenticated": false}),
                },
                "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
                    let spec = &object["spec"];
                    assert!(spec["nonResourceAttributes"]["path"].as_str().unwrap().starts_with('/'));
                    json!({"allowed": spec["user"] == "good" && spec["nonResourceAttributes"]["verb"] != "delete"})
                }
                other => panic!("{other}"),
            };
            Ok::<_, Infallible>(
                Response::builder().status(201).body(Body::from(object.to_string().into_bytes())).unwrap(),
            )
        }
    };
    Client::new(tower::service_fn(answer), "default")
}

#[derive(Default)]
struct Level(Mutex<String>);

impl LogLevel for Level {
    fn level(&self) -> String {
        self.0.lock().unwrap().clone()
    }
    fn set_level(&self, level: &str) -> Result<(), String> {
        if level.contains('?') {
            return Err(format!("{level} is no level"));
        }
        *self.0.lock().unwrap() = level.to_owned();
        Ok(())
    }
}

struct Running {
    addr: SocketAddr,
    health: Health,
    asked: Arc<AtomicUsize>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

async fn start(serves: Serves) -> Running {
    let health = Health::default();
    let asked = Arc::new(AtomicUsize::new(0));
    let client = api(Arc::clone(&asked));
    let manager = Manager::new(client.clone(), Registry::new(), Options::default()).unwrap();
    let handle = manager.handle();
    let stop = CancellationToken::new();
    tokio::spawn(manager.run(stop.clone()));
    let endpoints = Endpoints {
        health: health.clone(),
        metrics: Metrics::new(),
        manager: Some(handle),
        admin: Some(Admin::new(client)),
        log: Some(Arc::new(Level::default())),
    };
    let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0)), serves, None).await.unwrap();
    let addr = server.addr().unwrap();
    let task = tokio::spawn(server.run(Arc::new(endpoints), stop.clone()));
    Running { addr, health, asked, stop, task }
}

const ALL: Serves = Serves { health: true, metrics: true, admin: true };

impl Running {
    async fn ask(&self, method: Method, path: &str, token: &str, body: &str) -> (StatusCode, String) {
        let stream = TcpStream::connect(self.addr).await.unwrap();
        let (mut sender, connection) = client::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        let response = sender.send_request(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        connection.abort();
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let (status, body) = self.ask(Method::GET, path, "", "").await;
        (status.as_u16(), body)
    }
}

#[tokio::test]
async fn health_is_shown_as_kubernetes_shows_it() {
    // SYM-10
    let running = start(ALL).await;
    assert_eq!(running.get("/livez").await, (200, "ok".to_owned()));
    let cache = running.health.add_flag(Probe::Ready, "cache", "not synced");
    let _disk = running.health.add(Probe::Live, "disk", || async { Verdict::Ok(()) });
    assert_eq!(running.get("/livez").await, (200, "ok".to_owned()));
    let (code, body) = running.get("/readyz").await;
    assert_eq!((code, body.as_str()), (503, "[-]cache failed: not synced\n[+]disk ok\nreadyz check failed\n"));
    assert_eq!(running.get("/readyz?exclude=cache").await.0, 200);
    assert_eq!(running.get("/readyz/cache").await.0, 503);
    assert_eq!(running.get("/readyz/disk").await.0, 200);
    assert_eq!(running.get("/readyz/nonsense").await.0, 404);
    cache.pass();
    let (code, body) = running.get("/readyz?verbose").await;
    assert_eq!((code, body.as_str()), (200, "[+]cache ok\n[+]disk ok\nreadyz check passed\n"));
    drop(cache);
    assert_eq!(running.get("/readyz/cache").await.0, 404);
    running.stop.cancel();
    running.task.await.unwrap();
}

#[tokio::test]
async fn an_address_answers_only_what_it_is_for() {
    let running = start(Serves { metrics: true, ..Serves::default() }).await;
    let (code, body) = running.get("/metrics").await;
    assert!(code == 200 && body.contains("\nmuster_events_dropped_total 0\n"), "{body}");
    for path in ["/livez", "/readyz", "/debug/pprof/heap", "/controllers", "/", "/metrics/x"] {
        assert_eq!(running.get(path).await.0, 404, "{path}");
    }
    assert_eq!(running.ask(Method::POST, "/metrics", "", "").await.0, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn the_inside_is_for_administrators() {
    // SYM-11
    let running = start(ALL).await;
    let inside = [
        (Method::GET, "/debug/pprof/"),
        (Method::GET, "/debug/pprof/profile?seconds=1"),
        (Method::GET, "/debug/pprof/heap"),
        (Method::GET, "/debug/loglevel"),
        (Method::PUT, "/debug/loglevel"),
        (Method::GET, "/controllers"),
        (Method::POST, "/controllers/at/enable"),
        (Method::POST, "/controllers/at/disable"),
        (Method::POST, "/controllers/at/requeue"),
        (Method::GET, "/debug/nonsense"),
    ];
    for (method, path) in &inside {
        let code = |token| running.ask(method.clone(), path, token, "4");
        assert_eq!(code("").await.0, 401, "{path}");
        assert_eq!(code("bad").await.0, 401, "{path}");
        let (refused, body) = code("weak").await;
        assert!(refused == 403 && body.contains("weak"), "{path}: {body}");
        assert!(!matches!(code("good").await.0.as_u16(), 401 | 403), "{path}");
    }
    // The same question again is answered from memory.
    let before = running.asked.load(Ordering::Relaxed);
    for token in ["good", "bad", "weak"] {
        running.ask(Method::GET, "/controllers", token, "").await;
    }
    assert_eq!(running.asked.load(Ordering::Relaxed), before);
    // Another method on the same path is another question.
    assert_eq!(running.ask(Method::DELETE, "/controllers", "good", "").await.0, 403);
}

#[tokio::test]
async fn administrators_are_answered() {
    let running = start(ALL).await;
    let put = |body: &'static str| running.ask(Method::PUT, "/debug/loglevel", "good", body);
    assert_eq!(put("5").await, (StatusCode::OK, "5\n".to_owned()));
    assert_eq!(put("??").await.0, StatusCode::BAD_REQUEST);
    assert_eq!(running.ask(Method::GET, "/debug/loglevel", "good", "").await.1, "5\n");
    let long: String = "x".repeat(5000);
    let (code, _) = running.ask(Method::PUT, "/debug/loglevel", "good", &long).await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
    let (code, body) = running.ask(Method::GET, "/controllers", "good", "").await;
    assert_eq!((code.as_u16(), body.as_str()), (200, r#"{"items":[],"leading":true}"#));
    let (code, body) = running.ask(Method::POST, "/controllers/at/enable", "good", "").await;
    assert!(code == 404 && body.contains("there is no reconciler at"), "{body}");
    for seconds in ["0", "301", "-1", "x"] {
        let path = format!("/debug/pprof/profile?seconds={seconds}");
        assert_eq!(running.ask(Method::GET, &path, "good", "").await.0, StatusCode::BAD_REQUEST, "{seconds}");
    }
}

#[tokio::test]
async fn tokens_are_not_taken_in_the_clear_from_elsewhere() {
    let endpoints = Arc::new(Endpoints { admin: Some(Admin::new(api(Arc::default()))), ..Endpoints::default() });
    let ask = |peer: &str, encrypted| {
        let way = Way { peer: SocketAddr::new(peer.parse().unwrap(), 1), encrypted };
        let request =
            Request::get("/debug/pprof/").header("authorization", "Bearer good").body(Full::<Bytes>::default());
        let endpoints = Arc::clone(&endpoints);
        async move { routes::route(&endpoints, ALL, way, request.unwrap()).await.status().as_u16() }
    };
    assert_eq!(ask("127.0.0.1", false).await, 200);
    assert_eq!(ask("::1", false).await, 200);
    assert_eq!(ask("::ffff:127.0.0.1", false).await, 200);
    assert_eq!(ask("192.0.2.1", false).await, 403);
    assert_eq!(ask("192.0.2.1", true).await, 200);
    let nobody = Arc::new(Endpoints::default());
    let way = Way { peer: SocketAddr::from(([127, 0, 0, 1], 1)), encrypted: true };
    let request = Request::get("/controllers").body(Full::<Bytes>::default()).unwrap();
    assert_eq!(routes::route(&nobody, ALL, way, request).await.status(), StatusCode::FORBIDDEN);
}
