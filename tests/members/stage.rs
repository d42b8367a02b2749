//! A fleet of simulated members behind a face, and how to ask both.
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fleet::{Care, Connection, Fleet, Pace, Rules};
use http::Request;
use kube::Client;
use muster_tests::{Answer, PATIENCE, Peer};
use muster_tests_gateway::Face;
use serde_json::{Value, json};
use simulator::{Member, Settings, Timing};

pub struct Stage {
    pub face: Face,
    pub fleet: Fleet,
    pub members: BTreeMap<String, Member>,
}

/// Probes in milliseconds instead of seconds.
pub fn care() -> Care {
    let millis = Duration::from_millis;
    Care {
        // Long enough for a busy machine: a member is lost here because a test cut it off, never because it was slow.
        limits: fleet::Limits { deadline: millis(10_000), ..fleet::Limits::default() },
        rules: Rules { failures: 3, failing_for: millis(500), answers: 2 },
        pace: Pace { steady: millis(300), doubt: millis(100), deadline: millis(4000) },
    }
}

/// A simulated cluster in which pods start in no time.
pub async fn member(name: &str) -> Member {
    let soon = Duration::from_millis(20);
    let timing = Timing { pull: soon, ready: soon, stop: soon, ..Timing::default() };
    Member::start(Settings { timing, ..Settings::new(name) }).await.unwrap()
}

pub fn client(member: &Member) -> Client {
    Client::new(member.service(), "default")
}

impl Stage {
    pub async fn begin(peer: &Peer, names: &[&str]) -> Stage {
        let fleet = Fleet::new(care());
        let mut members = BTreeMap::new();
        for name in names {
            let member = member(name).await;
            let labels = BTreeMap::from([("region".to_owned(), (*name).to_owned())]);
            fleet.declare(name, labels, Connection::through(client(&member)));
            members.insert((*name).to_owned(), member);
        }
        let face = Face::console(peer, |face| face.fleet(fleet.clone())).await;
        for name in names {
            let mut watch = fleet.member(name).unwrap().watch();
            let running = watch.wait_for(|status| status.state == fleet::State::Running);
            tokio::time::timeout(PATIENCE, running).await.unwrap().unwrap();
        }
        Stage { face, fleet, members }
    }

    /// A member that takes everything and answers nothing.
    pub fn declare_silent(&self, name: &str) {
        let service = tower::service_fn(|_: Request<kube::client::Body>| async {
            std::future::pending::<Result<http::Response<http_body_util::Full<bytes::Bytes>>, std::io::Error>>().await
        });
        self.fleet.declare(name, BTreeMap::new(), Connection::through(Client::new(service, "default")));
    }

    /// A request to a member itself, past the face.
    pub async fn on(&self, member: &str, method: &str, path: &str, body: Value) -> Value {
        ask(&client(&self.members[member]), method, path, body).await
    }

    /// An application on a member: a deployment with a service, its pods running.
    pub async fn app(&self, member: &str, namespace: &str, name: &str, labels: Value, replicas: u32) {
        let spaces = self.on(member, "GET", "/api/v1/namespaces", Value::Null).await;
        let there = spaces["items"].as_array().unwrap().iter().any(|one| one["metadata"]["name"] == namespace);
        if !there {
            self.on(member, "POST", "/api/v1/namespaces", json!({"metadata": {"name": namespace}})).await;
        }
        let container =
            json!({"name": "c", "image": "shop/web:v8", "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}}});
        let deployment = json!({"metadata": {"name": name, "labels": labels}, "spec": {"replicas": replicas,
            "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}});
        self.on(member, "POST", &format!("/apis/apps/v1/namespaces/{namespace}/deployments"), deployment).await;
        let service = json!({"metadata": {"name": name, "labels": labels}, "spec": {"selector": labels, "ports": [{"port": 80}]}});
        self.on(member, "POST", &format!("/api/v1/namespaces/{namespace}/services"), service).await;
    }

    /// Asks until the answer is as it should be.
    pub async fn until(&self, path: &str, right: impl Fn(&Value) -> bool) -> Value {
        until(&self.face, path, right).await
    }

    /// Ready pods of an application, once there are so many.
    pub async fn pods(&self, app: &str, count: usize) -> Vec<Value> {
        let path = format!("/api/cluster/all/appPod/{app}?pageSize=500&filter=phase+eq+Running+and+ready+eq+%271/1%27");
        let page = self.until(&path, |page| page["count"] == count).await;
        page["items"].as_array().unwrap().clone()
    }

    pub async fn end(self) {
        for member in self.members.values() {
            member.stop().await;
        }
    }
}

pub async fn until(face: &Face, path: &str, right: impl Fn(&Value) -> bool) -> Value {
    let limit = Instant::now() + PATIENCE;
    loop {
        let answer: Answer = face.get(path).await;
        if answer.status == 200 && right(&answer.json()) {
            return answer.json();
        }
        assert!(Instant::now() < limit, "{path} did not become right: {}", answer.text());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until a cluster has said which kinds it has: whoever asks for an object waits a few seconds for that, and is then told to ask again.
pub async fn until_known(face: &Face, cluster: &str) {
    until(face, &format!("/api/cluster/{cluster}/kinds"), |kinds| kinds.as_array().is_some_and(|all| !all.is_empty()))
        .await;
}

pub async fn ask(client: &Client, method: &str, path: &str, body: Value) -> Value {
    let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let bytes = if body.is_null() { vec![] } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).header("content-type", media).body(bytes).unwrap();
    client.request::<Value>(request).await.unwrap_or_else(|why| panic!("{method} {path}: {why}"))
}

/// The clusters that did not answer, with why.
pub fn silent(page: &Value) -> Vec<(String, String)> {
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    let all = page["unanswered"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().map(|one| (text(one, "cluster"), text(one, "message"))).collect()
}

/// Whether this one alone did not answer: on a busy machine another may be late with what is asked for first.
pub fn only_silent(page: &Value, cluster: &str) -> bool {
    matches!(&silent(page)[..], [(name, _)] if name == cluster)
}

/// The values of one field of rows, in their order.
pub fn field(page: &Value, name: &str) -> Vec<String> {
    let rows = page["items"].as_array().unwrap();
    rows.iter().map(|row| row[name].as_str().unwrap_or_default().to_owned()).collect()
}
