//! `muster-bench-reconciles`: a reconciler on our framework against one on controller-runtime, on the same API server, in one run.
//!
//!   muster-bench-reconciles [--quick] [--rounds N] [--on kubernetes|muster] [--dir FOLDER] [--only reconciles]
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, unused_crate_dependencies)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use muster_tests::peer::Settings;
use muster_tests::{Kind, Peer};
use serde_json::json;

/// One of the two programs, running.
struct Program {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Program {
    fn start(path: &Path, kubeconfig: &Path, objects: usize, write: bool) -> Program {
        let mut child = Command::new(path)
            .arg(kubeconfig)
            .arg(objects.to_string())
            .arg(if write { "1" } else { "0" })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Program { child, lines }
    }

    /// The figures after `word` in the next line.
    fn figures(&self, word: &str) -> Vec<f64> {
        let line = self.lines.recv_timeout(Duration::from_secs(300)).expect("an answer in time");
        let mut words = line.split(' ');
        assert_eq!(words.next(), Some(word), "{line}");
        words.map(|figure| figure.parse().unwrap()).collect()
    }

    fn ask(&mut self, command: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{command}").unwrap();
    }

    fn memory(&self, field: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    }

    /// Processor time so far, in milliseconds.
    fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let after = stat.rsplit_once(") ").unwrap().1;
        let ticks: f64 = after.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<f64>().unwrap()).sum();
        ticks * 10.0
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

type Figures = BTreeMap<&'static str, f64>;

struct Scale {
    objects: usize,
    updates: usize,
    idle: Duration,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| words.iter().position(|word| word == name).and_then(|i| words.get(i + 1)).cloned();
    if value("--only").is_some_and(|only| !only.split(',').any(|part| part == "reconciles")) {
        return;
    }
    let quick = words.iter().any(|word| word == "--quick");
    let rounds: usize = value("--rounds").and_then(|n| n.parse().ok()).unwrap_or(if quick { 1 } else { 3 });
    let scale = match quick {
        true => Scale { objects: 2_000, updates: 1_000, idle: Duration::from_secs(3) },
        false => Scale { objects: 10_000, updates: 5_000, idle: Duration::from_secs(10) },
    };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = value("--dir").map_or_else(|| here.join("../../target"), PathBuf::from);
    let kind = if value("--on").as_deref() == Some("kubernetes") { Kind::Kubernetes } else { Kind::Muster };
    let ours = std::env::current_exe().unwrap().with_file_name("muster-bench-reconciler");
    let theirs = dir.join("reconciles-go");
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&theirs)
        .arg("./reconciles")
        .current_dir(here.join("../../tests/clients/go"))
        .env("CGO_ENABLED", "0")
        .status();
    assert!(built.expect("Go is there").success(), "tests/clients/go/reconciles does not build");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut sides: [Vec<Figures>; 2] = Default::default();
    for round in 0..rounds {
        let mut order = [(0, &theirs), (1, &ours)];
        if round % 2 == 1 {
            order.reverse();
        }
        for (side, program) in order {
            eprintln!("round {} of {rounds}: {}", round + 1, program.display());
            // A server of its own for each, so that none meets what the other left.
            let figures = runtime.block_on(run(kind, &dir, program, &scale));
            sides[side].push(figures);
        }
    }
    println!(
        "\n{} objects, 1 KiB of settings, 10 workers each, {} updates in flight 8 at a time; API server: {}; \
         controller-runtime v0.25.2, {}; rounds {rounds}, medians\n",
        scale.objects,
        scale.updates,
        kind.name(),
        version(),
    );
    println!("| measure | controller-runtime | muster runtime | ratio | target |\n| --- | ---: | ---: | ---: | ---: |");
    let names: Vec<&str> = sides[0][0].keys().copied().collect();
    for name in names {
        let median = |rounds: &[Figures]| {
            let mut all: Vec<f64> = rounds.iter().map(|figures| figures[name]).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        let (go, rust) = (median(&sides[0]), median(&sides[1]));
        let (ratio, wanted) = (go / rust.max(0.001), TARGETS.iter().find(|(measure, _)| *measure == name));
        let verdict = wanted.map_or_else(String::new, |(_, times)| {
            format!("{times:.0}× {}", if ratio >= *times { "reached" } else { "MISSED" })
        });
        println!("| {name} | {go:.2} | {rust:.2} | {ratio:.2}× | {verdict} |");
    }
}

/// How many times better we want to be. Idle is nothing to compare: less than can be measured is wanted.
const TARGETS: [(&str, f64); 4] = [
    ("1 cold, looking only, s", 2.0),
    ("3 resident memory after, MiB", 3.0),
    ("5 cold, each status written, s", 2.0),
    ("9 event to reconcile p99, ms", 2.0),
];

fn version() -> String {
    let output = Command::new("go").arg("version").output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

async fn run(kind: Kind, dir: &Path, program: &Path, scale: &Scale) -> Figures {
    let settings = Settings { under: Some(dir.to_owned()), ..Settings::default() };
    let peer = Arc::new(Peer::start_with(kind, settings).await.unwrap());
    fill(&peer, scale.objects).await;
    let kubeconfig = peer.kubeconfig();
    let mut figures = Figures::new();
    {
        let program = Program::start(program, &kubeconfig, scale.objects, false);
        figures.insert("1 cold, looking only, s", tokio::task::block_in_place(|| program.figures("cold"))[0]);
        figures.insert("2 cold, looking only, CPU s", program.cpu() / 1000.0);
        // Let allocators and collectors settle, for both alike.
        tokio::time::sleep(SETTLE).await;
        figures.insert("3 resident memory after, MiB", program.memory("VmRSS"));
        figures.insert("4 peak memory, MiB", program.memory("VmHWM"));
    }
    {
        let program = Program::start(program, &kubeconfig, scale.objects, true);
        figures.insert("5 cold, each status written, s", tokio::task::block_in_place(|| program.figures("cold"))[0]);
        figures.insert("6 cold, each status written, CPU s", program.cpu() / 1000.0);
        tokio::time::sleep(SETTLE).await;
        figures.insert("7 resident memory after writing, MiB", program.memory("VmRSS"));
    }
    let mut program = Program::start(program, &kubeconfig, scale.objects, false);
    tokio::task::block_in_place(|| program.figures("cold"));
    update(&peer, scale).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    program.ask("report");
    let latency = tokio::task::block_in_place(|| program.figures("latency"));
    figures.insert("8 event to reconcile p50, ms", latency[0] / 1000.0);
    figures.insert("9 event to reconcile p99, ms", latency[1] / 1000.0);
    assert!(latency[3] as usize > scale.updates / 2, "{latency:?}");
    let before = program.cpu();
    tokio::time::sleep(scale.idle).await;
    figures.insert("idle CPU, ms per s", (program.cpu() - before) / scale.idle.as_secs_f64());
    figures
}

const SETTLE: Duration = Duration::from_secs(2);

const ITEMS: &str = "/apis/bench.muster.dev/v1/namespaces/default/items";

async fn fill(peer: &Arc<Peer>, objects: usize) {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}});
    let versions =
        json!([{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": schema}]);
    let names = json!({"plural": "items", "singular": "item", "kind": "Item", "listKind": "ItemList"});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "items.bench.muster.dev"},
        "spec": {"group": "bench.muster.dev", "scope": "Namespaced", "names": names, "versions": versions}});
    peer.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await.ok(201);
    let limit = Instant::now() + Duration::from_secs(30);
    while peer.get(ITEMS).await.status != 200 {
        assert!(Instant::now() < limit, "the definition is not served");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    side_by_side(peer, objects, |peer, i| async move {
        let labels = json!({"app": format!("app-{}", i % 50), "tier": "backend", "team": "bench"});
        let item = json!({"apiVersion": "bench.muster.dev/v1", "kind": "Item",
            "metadata": {"name": format!("item-{i}"), "labels": labels}, "spec": {"stamp": 0, "payload": settings(i)}});
        peer.post(ITEMS, item).await.ok(201);
    })
    .await;
}

/// 1 KiB of settings as objects carry them, none like another.
fn settings(object: usize) -> String {
    let mut random = object as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let mut text = String::new();
    while text.len() < 1024 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (name, value) = (random >> 56, (random >> 16) as u32);
        text.push_str(&format!("- name: VARIABLE_{name}\n  value: {value:08x}.example.com\n"));
    }
    text.truncate(1024);
    text
}

async fn update(peer: &Arc<Peer>, scale: &Scale) {
    let objects = scale.objects;
    side_by_side(peer, scale.updates, move |peer, i| async move {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64);
        let path = format!("{ITEMS}/item-{}", (i * 7919) % objects);
        peer.patch(&path, "merge", json!({"spec": {"stamp": now}})).await.ok(200);
    })
    .await;
}

/// Eight at a time.
async fn side_by_side<F>(
    peer: &Arc<Peer>,
    count: usize,
    work: impl Fn(Arc<Peer>, usize) -> F + Copy + Send + Sync + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let tasks: Vec<_> = (0..8)
        .map(|lane| {
            let peer = peer.clone();
            tokio::spawn(async move {
                for i in (lane..count).step_by(8) {
                    work(peer.clone(), i).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}
