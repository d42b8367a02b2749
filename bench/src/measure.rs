//! The measures: each takes a running server and gives numbers by name.
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use muster_tests::Peer;
use muster_tests::client::Failure;
use serde_json::json;

use crate::load::{Client, Run, drive};
use crate::watcher::watch;

/// How long and how much.
#[derive(Clone, Debug)]
pub struct Scale {
    pub time: Duration,
    pub listed: usize,
    pub many: usize,
    pub sizes: Vec<usize>,
    pub updates_20: usize,
    pub updates_500: usize,
    /// How many definitions a server is started with.
    pub definitions: usize,
    pub idle: Duration,
}

impl Scale {
    pub fn quick() -> Self {
        Scale {
            time: Duration::from_secs(4),
            listed: 10_000,
            many: 10_000,
            sizes: vec![1_000, 10_000],
            updates_20: 800,
            updates_500: 600,
            definitions: 1000,
            idle: Duration::from_secs(2),
        }
    }

    pub fn full() -> Self {
        Scale {
            time: Duration::from_secs(10),
            listed: 10_000,
            many: 50_000,
            sizes: vec![1_000, 10_000, 50_000, 100_000],
            updates_20: 3_000,
            updates_500: 1000,
            definitions: 1000,
            idle: Duration::from_secs(10),
        }
    }
}

/// A number and what the machine did meanwhile.
#[derive(Clone, Debug, Default)]
pub struct Figure {
    pub value: f64,
    /// Cores used by the server and by the generator during the measure.
    pub server_cores: f64,
    pub generator_cores: f64,
    /// Cores that neither of them used: whatever else ran on the machine.
    pub other_cores: f64,
}

pub type Figures = BTreeMap<String, Figure>;

pub struct Bench<'a> {
    pub peer: &'a Peer,
    pub figures: Figures,
    stored: usize,
}

/// As many as the reference bears without losing watchers that fall behind.
const WRITERS: usize = 16;
const COLLECTION: &str = "/api/v1/namespaces/bench/configmaps";

pub fn name(n: usize) -> String {
    format!("object-{n:07}")
}

/// A config map of 2 KiB with a few labels; one in a hundred is picked.
pub fn body(name: &str, n: usize, salt: usize) -> Bytes {
    thread_local!(static PAYLOAD: String = "0123456789abcdef".repeat(128));
    let picked = if n.is_multiple_of(100) { "yes" } else { "no" };
    PAYLOAD.with(|payload| {
        format!(
            "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"{name}\",\"labels\":{{\"app\":\"bench\",\"tier\":\"t{}\",\
             \"picked\":\"{picked}\"}}}},\"data\":{{\"payload\":\"{payload}\",\"salt\":\"{salt}\"}}}}",
            n % 7
        )
        .into()
    })
}

/// Cores that this process used between two moments.
fn own_cpu() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or("");
    let ticks = |n: usize| after.split_whitespace().nth(n).and_then(|t| t.parse::<u64>().ok()).unwrap_or(0);
    (ticks(11) + ticks(12)) * 10
}

pub struct Meter {
    start: Instant,
    server: u64,
    generator: u64,
    machine: u64,
}

/// Milliseconds that all cores together were busy since the start of the machine.
fn busy_millis() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks: Vec<u64> =
        stat.lines().next().unwrap_or("").split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // user, nice, system, (idle, iowait), irq, softirq
    [0, 1, 2, 5, 6].iter().filter_map(|i| ticks.get(*i)).sum::<u64>() * 10
}

impl Meter {
    pub fn start(peer: &Peer) -> Meter {
        Meter { start: Instant::now(), server: peer.cpu_millis(), generator: own_cpu(), machine: busy_millis() }
    }

    fn figure(&self, peer: &Peer, value: f64) -> Figure {
        let millis = self.start.elapsed().as_millis().max(1) as f64;
        let server_cores = (peer.cpu_millis() - self.server) as f64 / millis;
        let generator_cores = (own_cpu() - self.generator) as f64 / millis;
        let all = (busy_millis() - self.machine) as f64 / millis;
        Figure { value, server_cores, generator_cores, other_cores: (all - server_cores - generator_cores).max(0.0) }
    }
}

impl<'a> Bench<'a> {
    pub fn new(peer: &'a Peer) -> Self {
        Bench { peer, figures: Figures::new(), stored: 0 }
    }

    pub fn put(&mut self, what: &str, value: f64, meter: Option<&Meter>) {
        let figure = meter.map_or(Figure { value, ..Figure::default() }, |meter| meter.figure(self.peer, value));
        self.figures.insert(what.to_owned(), figure);
    }

    pub async fn prepare(&mut self, scale: &Scale) -> Result<(), Failure> {
        self.put("start", self.peer.started_in.as_secs_f64() * 1000.0, None);
        tokio::time::sleep(scale.idle).await;
        self.put("memory idle", self.peer.memory().resident as f64 / 1024.0, None);
        self.peer.post("/api/v1/namespaces", json!({"metadata": {"name": "bench"}})).await.ok(201);
        self.grant().await
    }

    /// The clients are no administrators: their right is one role among a hundred.
    pub async fn grant(&mut self) -> Result<(), Failure> {
        let access = "/apis/rbac.authorization.k8s.io/v1";
        for n in 0..100 {
            let (name, user) =
                (format!("role-{n:03}"), if n == 50 { "suite-worker".to_owned() } else { format!("user-{n}") });
            let rules = json!([
                {"apiGroups": [""], "resources": ["configmaps", "namespaces"], "verbs": ["*"]},
                {"apiGroups": ["bench.muster.dev"], "resources": ["*"], "verbs": ["*"]},
                {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["*"]}]);
            let role = json!({"metadata": {"name": name}, "rules": rules});
            self.peer.post(&format!("{access}/clusterroles"), role).await.ok(201);
            let binding = json!({"metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}]});
            self.peer.post(&format!("{access}/clusterrolebindings"), binding).await.ok(201);
        }
        let mut client = Client::connect(self.peer).await?;
        let deadline = Instant::now() + Duration::from_secs(30);
        while let Err(why) = client.call("GET", COLLECTION, None).await {
            if Instant::now() > deadline {
                return Err(why);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Creates until the collection holds `total`.
    pub async fn fill(&mut self, total: usize) -> Result<(), Failure> {
        if total > self.stored {
            let mut clients = Client::several(self.peer, 64).await?;
            self.create(&mut clients, Duration::MAX, total - self.stored).await?;
        }
        Ok(())
    }

    async fn create(&mut self, clients: &mut [Client], time: Duration, limit: usize) -> Result<Run, Failure> {
        let first = self.stored;
        let run = drive(clients, time, limit, |n| {
            let name = name(first + n);
            let body = body(&name, first + n, 0);
            ("POST", COLLECTION.to_owned(), Some(body))
        })
        .await?;
        self.stored += run.requests;
        Ok(run)
    }

    pub async fn creates(&mut self, scale: &Scale) -> Result<(), Failure> {
        for count in [1, 64] {
            let mut clients = Client::several(self.peer, count).await?;
            let meter = Meter::start(self.peer);
            let run = self.create(&mut clients, scale.time, usize::MAX).await?;
            self.put(&format!("creates, {count} clients"), run.per_second(), Some(&meter));
            self.put(&format!("creates, {count} clients, p99"), run.percentile(0.99), Some(&meter));
        }
        Ok(())
    }

    pub async fn gets(&mut self, scale: &Scale) -> Result<(), Failure> {
        let stored = self.stored;
        let mut clients = Client::several(self.peer, 64).await?;
        let meter = Meter::start(self.peer);
        let make = |n: usize| ("GET", format!("{COLLECTION}/{}", name(n.wrapping_mul(7919) % stored)), None);
        let run = drive(&mut clients, scale.time, usize::MAX, make).await?;
        self.put("gets, 64 clients", run.per_second(), Some(&meter));
        self.put("gets, 64 clients, p99", run.percentile(0.99), Some(&meter));
        Ok(())
    }

    /// Lists exactly `listed` objects, so it needs a collection of its own size: run it when that many are stored, or select.
    pub async fn lists(&mut self, scale: &Scale) -> Result<(), Failure> {
        self.make_list_namespace(scale.listed).await?;
        let mut clients = Client::several(self.peer, 1).await?;
        for (what, query) in [("list", ""), ("list, 1 % by label", "?labelSelector=picked%3Dyes")] {
            let path = format!("/api/v1/namespaces/listed/configmaps{query}");
            let length = clients[0].call("GET", &path, None).await?;
            let meter = Meter::start(self.peer);
            let run = drive(&mut clients, scale.time, 200, |_| ("GET", path.clone(), None)).await?;
            self.put(what, run.percentile(0.5), Some(&meter));
            self.put(&format!("{what}, MiB"), length as f64 / 1_048_576.0, None);
        }
        Ok(())
    }

    async fn make_list_namespace(&mut self, count: usize) -> Result<(), Failure> {
        let mut clients = Client::several(self.peer, 64).await?;
        clients[0].call("POST", "/api/v1/namespaces", Some(r#"{"metadata":{"name":"listed"}}"#.into())).await?;
        drive(&mut clients, Duration::MAX, count, |n| {
            let name = name(n);
            let body = body(&name, n, 0);
            ("POST", "/api/v1/namespaces/listed/configmaps".to_owned(), Some(body))
        })
        .await?;
        Ok(())
    }

    /// Updates with watchers attached: events per second until the last watcher has the last event.
    pub async fn fan_out(&mut self, watchers: usize, updates: usize) -> Result<(), Failure> {
        let namespace = format!("watched-{watchers}");
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let mut clients = Client::several(self.peer, WRITERS).await?;
        let made = format!("{{\"metadata\":{{\"name\":\"{namespace}\"}}}}");
        clients[0].call("POST", "/api/v1/namespaces", Some(made.into())).await?;
        drive(&mut clients, Duration::MAX, WRITERS, |n| ("POST", path.clone(), Some(body(&name(n), n, 0)))).await?;
        // Every watcher first sees these objects: then all are attached.
        let seen: Rc<Vec<Cell<usize>>> = Rc::new(vec![Cell::new(0); watchers]);
        let mut tasks = Vec::new();
        for i in 0..watchers {
            let seen = seen.clone();
            tasks.push(watch(self.peer, &format!("{path}?watch=true"), move |n| seen[i].set(seen[i].get() + n)).await?);
        }
        let all = |count: usize| seen.iter().all(|cell| cell.get() >= count);
        wait(Duration::from_secs(60), || all(WRITERS)).await;
        let start = Instant::now();
        let meter = Meter::start(self.peer);
        let run = drive(&mut clients, Duration::from_secs(120), updates, |n| {
            let name = name(n % WRITERS);
            let body = body(&name, n % WRITERS, n + 1);
            ("PUT", format!("{path}/{name}"), Some(body))
        })
        .await?;
        // Concurrent unconditional updates of one object never conflict for good; every acknowledged one is one event.
        let expected = WRITERS + run.requests;
        wait(Duration::from_secs(60), || all(expected)).await;
        let seconds = start.elapsed().as_secs_f64();
        let delivered: usize = seen.iter().map(|cell| cell.get().min(expected) - WRITERS).sum();
        let extra: usize = seen.iter().map(|cell| cell.get().saturating_sub(expected)).sum();
        self.put(&format!("events, {watchers} watchers"), delivered as f64 / seconds, Some(&meter));
        self.put(
            &format!("events, {watchers} watchers, delivered %"),
            100.0 * delivered as f64 / (run.requests * watchers) as f64,
            None,
        );
        self.put(&format!("events, {watchers} watchers, repeated"), extra as f64, None);
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        Ok(())
    }

    /// While the store grows: cost per request (one client at rest, median), and the memory with `many` objects.
    pub async fn growth(&mut self, scale: &Scale) -> Result<(), Failure> {
        for size in &scale.sizes {
            self.fill(*size).await?;
            if *size == scale.many {
                // Let caches and collectors settle, for both alike.
                tokio::time::sleep(scale.idle).await;
                let memory = self.peer.memory();
                self.put("memory with many objects", memory.resident as f64 / 1024.0, None);
                self.put("memory with many objects, peak", memory.peak as f64 / 1024.0, None);
            }
            let stored = self.stored;
            let mut clients = Client::several(self.peer, 1).await?;
            let time = scale.time / 2;
            let get = |n: usize| ("GET", format!("{COLLECTION}/{}", name(n.wrapping_mul(7919) % stored)), None);
            let gets = drive(&mut clients, time, 2_000, get).await?;
            let page = |_| ("GET", format!("{COLLECTION}?limit=500"), None);
            let pages = drive(&mut clients, time, 100, page).await?;
            let creates = self.create(&mut clients, time, 500).await?;
            for (what, run) in [("get", &gets), ("create", &creates), ("page of 500", &pages)] {
                self.put(&format!("{what} at {size} objects, µs"), run.percentile(0.5) * 1000.0, None);
            }
        }
        Ok(())
    }
}

async fn wait(limit: Duration, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() && start.elapsed() < limit {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
