//! APIExt in front of a server under test, and a client that sends exactly what it is told.
// The whole crate is a test tool: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod browser;

use std::net::SocketAddr;

use bytes::Bytes;
use gateway::{Actions, Limits, Options, Rate, Upstream, bind};
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use muster_tests::peer::TOKEN;
use muster_tests::{Answer, PATIENCE, Peer, eventually};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A running face. It stops when dropped.
pub struct Face {
    pub address: SocketAddr,
    pub stop: CancellationToken,
    pub running: JoinHandle<()>,
    /// Where the console's users are; empty without a console.
    pub namespace: String,
    /// The console's setup link, if nobody is set up yet.
    pub link: Option<String>,
    _stop: DropGuard,
}

/// The way to a peer, as its administrator.
pub async fn upstream(peer: &Peer) -> Upstream {
    upstream_as(peer, TOKEN).await
}

async fn upstream_as(peer: &Peer, token: &str) -> Upstream {
    let text = format!(
        "clusters: [{{name: c, cluster: {{server: \"https://127.0.0.1:{}\", certificate-authority: {}}}}}]\n\
         users: [{{name: u, user: {{token: {token}}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n",
        peer.port,
        peer.ca_file().display()
    );
    let config =
        Config::from_custom_kubeconfig(Kubeconfig::from_yaml(&text).unwrap(), &KubeConfigOptions::default()).await;
    Upstream::from_config(config.unwrap()).unwrap()
}

/// Limits under which a test does not have to care how fast it is.
pub fn generous() -> Limits {
    let rate = Rate { per_second: 10_000.0, burst: 10_000.0 };
    Limits { per_caller: rate, per_stranger: rate, ..Limits::default() }
}

impl Face {
    pub async fn start(peer: &Peer) -> Face {
        let options = Options { limits: generous(), ..Options::new(([127, 0, 0, 1], 0).into()) };
        Self::start_with(peer, options, Actions::default()).await
    }

    pub async fn start_with(peer: &Peer, options: Options, actions: Actions) -> Face {
        Self::run(options, upstream(peer).await, actions).await
    }

    /// A face whose own identity is this token's.
    pub async fn start_as(peer: &Peer, token: &str) -> Face {
        let options = Options { limits: generous(), ..Options::new(([127, 0, 0, 1], 0).into()) };
        Self::run(options, upstream_as(peer, token).await, Actions::default()).await
    }

    async fn run(options: Options, upstream: Upstream, actions: Actions) -> Face {
        Self::of(bind(options, upstream, actions).await.unwrap(), String::new())
    }

    fn of(listening: gateway::Listening, namespace: String) -> Face {
        let (stop, address, link) = (CancellationToken::new(), listening.address(), listening.setup_link());
        let running = tokio::spawn(listening.run(stop.clone()));
        Face { address, running, namespace, link, _stop: stop.clone().drop_guard(), stop }
    }

    /// A face with the console, its users in a namespace of their own. `more` says what else it has.
    pub async fn console(peer: &Peer, more: impl FnOnce(gateway::Face) -> gateway::Face) -> Face {
        let options = Options { limits: generous(), ..Options::new(([127, 0, 0, 1], 0).into()) };
        Self::console_with(peer, options, more).await
    }

    pub async fn console_with(
        peer: &Peer,
        options: Options,
        more: impl FnOnce(gateway::Face) -> gateway::Face,
    ) -> Face {
        let namespace = peer.namespace().await;
        let face = gateway::Face::new(options, upstream(peer).await).console().namespace(&namespace);
        Self::of(more(face).bind().await.unwrap(), namespace)
    }

    /// The path of a user's Secret.
    pub fn secret(&self, user: &str) -> String {
        format!("/api/v1/namespaces/{}/secrets/muster-user-{user}", self.namespace)
    }

    pub fn call<'a>(&self, method: &'a str, path: &str) -> Call<'a> {
        Call {
            address: self.address,
            method,
            path: path.to_owned(),
            token: Some(TOKEN.to_owned()),
            body: None,
            headers: vec![],
        }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.call("GET", path).send().await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.call("POST", path).json(body).send().await
    }

    /// The names in a list, in its order.
    pub async fn names(&self, path: &str) -> Vec<String> {
        let page = self.get(path).await.ok(200);
        page["items"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    }
}

/// One request over a connection of its own.
pub struct Call<'a> {
    address: SocketAddr,
    method: &'a str,
    path: String,
    token: Option<String>,
    body: Option<Bytes>,
    headers: Vec<(String, String)>,
}

impl Call<'_> {
    pub fn token(mut self, token: Option<&str>) -> Self {
        self.token = token.map(str::to_owned);
        self
    }

    pub fn json(self, body: Value) -> Self {
        let media = if self.method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        self.raw(media, body.to_string())
    }

    pub fn raw(mut self, media: &str, body: impl Into<Bytes>) -> Self {
        self.body = Some(body.into());
        self.header("content-type", media)
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub async fn send(self) -> Answer {
        let stream = TcpStream::connect(self.address).await.unwrap();
        self.over(stream).await
    }

    pub async fn over(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Answer {
        let what = format!("{} {}", self.method, self.path);
        let mut request = Request::builder().method(self.method).uri(self.path.as_str());
        if !self.headers.iter().any(|(name, _)| name == "host") {
            request = request.header("host", self.address.to_string());
        }
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in &self.headers {
            request = request.header(name.as_str(), value.as_str());
        }
        let request =
            request.body(Full::new(self.body.unwrap_or_default())).unwrap_or_else(|why| panic!("{what}: {why}"));
        let exchange = async {
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
            let connection = tokio::spawn(connection);
            let (parts, body) =
                sender.send_request(request).await.unwrap_or_else(|why| panic!("{what}: {why}")).into_parts();
            let body = body.collect().await.unwrap_or_else(|why| panic!("{what}: {why}")).to_bytes();
            connection.abort();
            Answer {
                what: what.clone(),
                status: parts.status.as_u16(),
                version: parts.version,
                headers: parts.headers,
                body,
            }
        };
        tokio::time::timeout(PATIENCE, exchange).await.unwrap_or_else(|_| panic!("{what}: no answer"))
    }
}

/// A refusal in the one shape, with this code.
#[track_caller]
pub fn refused(answer: &Answer, code: u16) -> Value {
    assert_eq!(answer.status, code, "{}: {}", answer.what, answer.text());
    let problem = answer.json();
    let fields: Vec<&String> = problem.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["code", "details", "message", "reason"], "{}: {problem}", answer.what);
    assert_eq!(problem["code"], code, "{}: {problem}", answer.what);
    assert!(problem["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{}: {problem}", answer.what);
    assert!(problem["message"].as_str().is_some_and(|message| !message.is_empty()), "{}: {problem}", answer.what);
    assert!(problem["details"].is_object(), "{}: {problem}", answer.what);
    problem
}

/// A service account with these rights in a namespace (or, with none, in all), and its token. Whatever the rights are, config maps can be listed with them.
pub async fn user(peer: &Peer, name: &str, within: Option<&str>, rules: Option<Value>) -> String {
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    peer.post(accounts, json!({"metadata": {"name": name}})).await.ok(201);
    if let Some(rules) = rules {
        let group = "rbac.authorization.k8s.io";
        let (role, place) = match within {
            Some(namespace) => ("Role", format!("/apis/{group}/v1/namespaces/{namespace}/")),
            None => ("ClusterRole", format!("/apis/{group}/v1/cluster")),
        };
        let (roles, bindings) = (format!("{place}roles"), format!("{place}rolebindings"));
        peer.post(&roles, json!({"metadata": {"name": name}, "rules": rules})).await.ok(201);
        let subject = json!({"kind": "ServiceAccount", "name": name, "namespace": "default"});
        let reference = json!({"apiGroup": group, "kind": role, "name": name});
        peer.post(&bindings, json!({"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}))
            .await
            .ok(201);
        let listing = json!({"verb": "list", "resource": "configmaps", "namespace": within.unwrap_or("default")});
        peer.allows(&format!("system:serviceaccount:default:{name}"), listing).await;
    }
    let token = peer.post(&format!("{accounts}/{name}/token"), json!({})).await.ok(201);
    token["status"]["token"].as_str().unwrap().to_owned()
}

pub fn deployment(name: &str, replicas: u32) -> Value {
    json!({"name": name, "labels": {"app": name}, "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": format!("{name}:1")}]}}}})
}

/// Defines `things.{group}` and waits until they are served.
pub async fn define_things(peer: &Peer, group: &str) {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let spec = json!({"type": "object", "properties": {"size": {"type": "integer"}, "displayName": {"type": "string"}, "nested": open}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": open}}});
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}});
    let names = json!({"plural": "things", "singular": "thing", "kind": "Thing"});
    let definition = json!({"metadata": {"name": format!("things.{group}")}, "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}});
    peer.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await.ok(201);
    let path = format!("/apis/{group}/v1/things");
    eventually("things are served", || async { peer.get(&path).await.status == 200 }).await;
    peer.knows("things are discovered", || async {
        let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let all = peer.call("GET", "/apis").accept(aggregated).send().await.ok(200);
        all["items"].as_array().unwrap().iter().any(|one| one["metadata"]["name"] == group)
    })
    .await;
}
