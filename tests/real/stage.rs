//! What the cases share: three clusters, one `muster up`, and what an application on them is.
use std::fs;
use std::path::PathBuf;

use muster_tests::cluster::{Cluster, Nodes};
use muster_tests_up::Up;
use serde_json::Value;
use tokio::runtime::Runtime;

pub const NAMES: [&str; 3] = ["one", "two", "three"];

pub struct Stage {
    pub up: Up,
    pub clusters: Vec<Cluster>,
    pub runtime: Runtime,
}

impl Stage {
    pub fn begin() -> Result<Stage, String> {
        let runtime = Runtime::new().map_err(|why| why.to_string())?;
        // One after the other: at once they would starve each other on a small machine.
        let clusters: Result<_, String> =
            NAMES.iter().map(|name| runtime.block_on(Cluster::start(name, Nodes::Fake))).collect();
        Ok(Stage { clusters: clusters?, up: Up::start(&[]), runtime })
    }

    pub fn cluster(&self, name: &str) -> &Cluster {
        self.clusters.iter().find(|cluster| cluster.name == name).unwrap()
    }

    pub fn kubectl(&self, cluster: &str, line: &str) -> String {
        self.cluster(cluster).kubectl(line).unwrap()
    }

    pub fn apply(&self, cluster: &str, manifest: &str) {
        self.cluster(cluster).kubectl_fed("apply -f -", manifest).unwrap();
    }

    /// A file for a command to read.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.up.folder().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Whoever has not joined yet does so, by kubeconfig.
    pub fn join_all(&self) {
        let there = self.up.ok("cluster list -o name");
        for cluster in self.clusters.iter().filter(|cluster| !there.lines().any(|name| name == cluster.name)) {
            self.join(cluster);
        }
        self.up.until_running(self.clusters.len());
    }

    pub fn join(&self, cluster: &Cluster) {
        let name = &cluster.name;
        let file = self.file(&format!("{name}.kubeconfig"), &cluster.kubeconfig().unwrap());
        self.up.ok(&format!("cluster import {name} --kubeconfig {} --label zone={name} --wait", file.display()));
    }

    /// A request as the administrator of this machine: code and body.
    pub fn request(&self, method: &str, path: &str) -> (u16, String) {
        let door = fs::read_to_string(self.up.data().join("client.json")).unwrap();
        let door: Value = serde_json::from_str(&door).unwrap();
        let bearer = format!("Bearer {}", door["token"].as_str().unwrap());
        self.up.request(method, path, &[("Authorization", &bearer)], "")
    }

    pub fn get(&self, path: &str) -> Value {
        let (code, body) = self.request("GET", path);
        assert_eq!(code, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap_or_else(|why| panic!("{path}: {why}: {body}"))
    }

    pub fn state(&self, cluster: &str) -> String {
        let rows = self.get("/api/cluster/all");
        let row = rows["items"].as_array().unwrap().iter().find(|row| row["name"] == cluster);
        row.and_then(|row| row["state"].as_str()).unwrap_or_default().to_owned()
    }

    /// The names of the pods that run and are ready, as `cluster/namespace/name`: none, when no cluster answers.
    pub fn running(&self, line: &str) -> Vec<String> {
        let line = format!("pods {line} -o json");
        let (code, out, err) = self.up.command(&line.split_whitespace().collect::<Vec<_>>());
        assert!(matches!(code, 0 | 8), "`muster {line}`: {code} {out}{err}");
        if code == 8 {
            return Vec::new();
        }
        let answer: Value = serde_json::from_str(&out).unwrap();
        let ready = |row: &&Value| row["phase"] == "Running" && row["ready"] == "1/1";
        let name = |row: &Value| format!("{}/{}/{}", text(row, "cluster"), text(row, "namespace"), text(row, "name"));
        let mut names: Vec<String> = answer["items"].as_array().unwrap().iter().filter(ready).map(name).collect();
        names.sort();
        names
    }

    pub fn logs(&self) -> String {
        let clusters = self.clusters.iter().map(|cluster| format!("=== {}\n{}", cluster.name, cluster.log_tail()));
        let log = self.up.log();
        let last: Vec<&str> = log.lines().rev().take(60).collect();
        let muster = last.into_iter().rev().collect::<Vec<_>>().join("\n");
        format!("{}\n=== muster\n{muster}", clusters.collect::<String>())
    }
}

pub fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_default()
}

/// One group of an application, with a Service.
pub fn group(app: &str, group: &str, replicas: usize) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {app}-{group}, namespace: shop, labels: {{app: {app}, sym-group: {group}}}}}\n\
         spec:\n  replicas: {replicas}\n  selector: {{matchLabels: {{app: {app}, sym-group: {group}}}}}\n  \
         template:\n    metadata: {{labels: {{app: {app}, sym-group: {group}}}}}\n    \
         spec: {{containers: [{{name: main, image: \"example/{app}:1\", ports: [{{containerPort: 8080}}], \
         resources: {{requests: {{cpu: 100m, memory: 64Mi}}}}}}]}}\n---\n\
         apiVersion: v1\nkind: Service\nmetadata: {{name: {app}-{group}, namespace: shop, labels: {{app: {app}, sym-group: {group}}}}}\n\
         spec: {{selector: {{app: {app}, sym-group: {group}}}, ports: [{{name: http, port: 80, targetPort: 8080}}]}}\n---\n"
    )
}

const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\n";

/// The application the cases look at: two blue pods and a green one on every cluster.
pub fn web(stage: &Stage) {
    let manifest = format!("{NAMESPACE}{}{}", group("web", "blue", 2), group("web", "green", 1));
    stage.clusters.iter().for_each(|cluster| stage.apply(&cluster.name, &manifest));
}
