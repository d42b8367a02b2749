//! Custom resources and server-side apply: what schemas, rules and owners cost.

use bytes::Bytes;
use muster_tests::client::Failure;
use serde_json::{Map, Value, json};
use std::time::Duration;

use crate::load::{Client, drive};
use crate::measure::{Bench, Meter, Scale, body, name};

const GROUPS: usize = 20;
const FIELDS: usize = 10;

/// A definition with 200 fields of every simple kind.
fn definition(plural: &str, kind: &str) -> Value {
    let field = |n: usize| match n % 5 {
        0 => json!({"type": "string", "maxLength": 64}),
        1 => json!({"type": "integer", "minimum": 0, "maximum": 1_000_000}),
        2 => json!({"type": "string", "enum": ["red", "green", "blue"], "default": "red"}),
        3 => json!({"type": "array", "items": {"type": "string"}, "maxItems": 10}),
        _ => json!({"type": "string", "pattern": "^[a-z0-9-]+$"}),
    };
    let group = || -> Map<String, Value> { (0..FIELDS).map(|n| (format!("field{n}"), field(n))).collect() };
    let groups: Map<String, Value> =
        (0..GROUPS).map(|n| (format!("group{n:02}"), json!({"type": "object", "properties": group()}))).collect();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.bench.muster.dev")},
        "spec": {"group": "bench.muster.dev", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": groups},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}})
}

fn resource() -> String {
    let field = |n: usize| match n % 5 {
        1 => json!(n * 1000),
        2 => json!("green"),
        3 => json!(["a", "b", "c"]),
        _ => json!("some-text-here"),
    };
    let group = || -> Map<String, Value> { (0..FIELDS).map(|n| (format!("field{n}"), field(n))).collect() };
    let spec: Map<String, Value> = (0..GROUPS).map(|n| (format!("group{n:02}"), group().into())).collect();
    json!({"apiVersion": "bench.muster.dev/v1", "kind": "Record", "metadata": {"name": "NAME"}, "spec": spec})
        .to_string()
}

impl Bench<'_> {
    /// Creates of a resource that uses all 200 fields of its schema.
    pub async fn custom(&mut self, scale: &Scale) -> Result<(), Failure> {
        let mut clients = Client::several(self.peer, 64).await?;
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        clients[0].call("POST", definitions, Some(definition("records", "Record").to_string().into())).await?;
        let path = "/apis/bench.muster.dev/v1/namespaces/bench/records";
        for _ in 0..200 {
            if clients[0].call("GET", path, None).await.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let template = resource();
        let make = |n: usize| ("POST", path.to_owned(), Some(Bytes::from(template.replace("NAME", &name(n)))));
        // A first few, so that schemas are compiled on both sides.
        drive(&mut clients[..1], Duration::MAX, 20, |n| make(9_000_000 + n)).await?;
        let meter = Meter::start(self.peer);
        let run = drive(&mut clients, scale.time, usize::MAX, make).await?;
        self.put("custom creates", run.per_second(), Some(&meter));
        self.put("custom creates, p99", run.percentile(0.99), Some(&meter));
        Ok(())
    }

    /// Server-side applies that change one field of existing objects.
    pub async fn applies(&mut self, scale: &Scale) -> Result<(), Failure> {
        let mut clients = Client::several(self.peer, 64).await?;
        let path =
            |n: usize| format!("/api/v1/namespaces/bench/configmaps/applied-{}?fieldManager=bench&force=true", n % 256);
        let make = |n: usize| ("PATCH", path(n), Some(body(&format!("applied-{}", n % 256), n % 256, n)));
        drive(&mut clients, Duration::MAX, 256, make).await?;
        let meter = Meter::start(self.peer);
        let run = drive(&mut clients, scale.time, usize::MAX, |n| make(n + 256)).await?;
        self.put("applies, 64 clients", run.per_second(), Some(&meter));
        self.put("applies, 64 clients, p99", run.percentile(0.99), Some(&meter));
        Ok(())
    }

    /// A server that has a thousand definitions: how soon it is back after a kill, and how much memory it takes then.
    pub async fn definitions(&mut self, scale: &Scale) -> Result<(), Failure> {
        let mut clients = Client::several(self.peer, 4).await?;
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let make = |n: usize| {
            let definition = definition(&format!("kind{n}s"), &format!("Kind{n}"));
            ("POST", path.to_owned(), Some(Bytes::from(definition.to_string())))
        };
        let run = drive(&mut clients, Duration::MAX, scale.definitions, make).await?;
        self.put("definitions: create, median ms", run.percentile(0.5), None);
        self.peer.kill();
        self.peer.launch()?;
        let back = self.peer.ready_again(Duration::from_secs(60)).await?;
        let what = scale.definitions;
        self.put(&format!("{what} definitions: start after a kill, ms"), back.as_secs_f64() * 1000.0, None);
        tokio::time::sleep(scale.idle).await;
        self.put(&format!("{what} definitions: memory, MiB"), self.peer.memory().resident as f64 / 1024.0, None);
        Ok(())
    }
}
