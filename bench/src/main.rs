//! `muster-bench`: the same load on kube-apiserver + etcd and on muster, in one run, on one disk, with fsync and TLS on both.
//!
//!   muster-bench [--quick] [--rounds N] [--on kubernetes|muster] [--dir FOLDER]
//!                [--only creates,gets,lists,watches,custom,applies,definitions,growth]
#![allow(clippy::print_stdout)]

mod custom;
mod load;
mod measure;
mod report;
mod watcher;

use std::path::{Path, PathBuf};

use measure::{Bench, Figures, Scale};
use muster_tests::client::Failure;
use muster_tests::peer::{Settings, muster_binary};
use muster_tests::{Kind, Peer};
use serde_json::json;

// The generator shares the machine with what it measures, so it is made cheap.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "muster-bench [--quick] [--rounds N] [--on kubernetes|muster] [--dir FOLDER] [--only creates,gets,lists,watches,custom,applies,definitions,growth]";

struct Options {
    quick: bool,
    rounds: usize,
    on: Option<String>,
    dir: PathBuf,
    only: Vec<String>,
}

impl Options {
    fn parse() -> Options {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let known = ["--quick", "--rounds", "--on", "--dir", "--only"];
        if let Some(wrong) = words.iter().find(|word| word.starts_with('-') && !known.contains(&word.as_str())) {
            eprintln!("{wrong}: not known. {USAGE}");
            std::process::exit(2);
        }
        let value = |name: &str| words.iter().position(|word| word == name).and_then(|i| words.get(i + 1)).cloned();
        let quick = words.iter().any(|word| word == "--quick");
        Options {
            quick,
            rounds: value("--rounds").and_then(|n| n.parse().ok()).unwrap_or(if quick { 1 } else { 3 }),
            on: value("--on"),
            // Not /tmp by default, which is memory on many machines: fsync must mean something.
            dir: value("--dir").map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from),
            only: value("--only").map(|text| text.split(',').map(str::to_owned).collect()).unwrap_or_default(),
        }
    }

    fn wants(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == part)
    }
}

fn main() {
    let options = Options::parse();
    let scale = if options.quick { Scale::quick() } else { Scale::full() };
    let mut sides: [Vec<Figures>; 2] = [Vec::new(), Vec::new()];
    for round in 0..options.rounds {
        // The order alternates: whoever comes second meets a warmer disk.
        let mut order = [(0, Kind::Kubernetes), (1, Kind::Muster)];
        if round % 2 == 1 {
            order.reverse();
        }
        for (side, kind) in order {
            if options.on.as_deref().is_some_and(|on| on != kind.name()) {
                continue;
            }
            eprintln!("round {} of {}: {}", round + 1, options.rounds, kind.name());
            match run_one(&options, &scale, kind, round) {
                Ok(figures) => sides[side].push(figures),
                Err(why) => {
                    eprintln!("{}: {why}", kind.name());
                    std::process::exit(1);
                }
            }
        }
    }
    let [kubernetes, muster] = sides;
    let settings = json!({
        "machine": machine(), "quick": options.quick, "rounds": options.rounds, "scale": format!("{scale:?}"),
        "peers": "kube-apiserver v1.34.4 + etcd v3.6.16 (tests/peers), fsync on, TLS, bearer token, RBAC with a hundred roles; muster: the same, embedded store",
        "object": "ConfigMap, 2 KiB payload, 3 labels", "generator": "HTTP/2 over TLS, one connection per client, one thread",
        "muster": muster_version(),
    });
    println!("\n{settings:#}\n");
    println!("{}", report::table(&report::medians(&kubernetes), &report::medians(&muster)));
    println!("{}", report::absolute(&report::medians(&muster)));
    println!("{}", report::rest(&report::medians(&kubernetes), &report::medians(&muster)));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    let stamp = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let file = folder.join(format!("{stamp}.json"));
    let text = format!("{:#}\n", report::json(&settings, &kubernetes, &muster));
    match std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&file, text)) {
        Ok(()) => println!("written to {}", file.display()),
        Err(why) => eprintln!("{}: {why}", file.display()),
    }
}

/// One server from its start to its end, on a thread of its own with a runtime of its own.
fn run_one(options: &Options, scale: &Scale, kind: Kind, round: usize) -> Result<Figures, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let binary = if kind == Kind::Muster && std::env::var_os("MUSTER_BIN").is_none() {
            Some(release_binary())
        } else {
            None
        };
        let settings = Settings { under: Some(options.dir.clone()), binary, ..Settings::default() };
        let peer = Peer::start_with(kind, settings).await?;
        let mut bench = Bench::new(&peer);
        bench.prepare(scale).await?;
        if options.wants("creates") {
            bench.creates(scale).await?;
        }
        bench.fill(1_000).await?;
        if options.wants("gets") {
            bench.gets(scale).await?;
        }
        if options.wants("lists") {
            bench.lists(scale).await?;
        }
        if options.wants("watches") {
            bench.fan_out(20, scale.updates_20).await?;
            bench.fan_out(500, scale.updates_500).await?;
        }
        if options.wants("custom") {
            bench.custom(scale).await?;
        }
        if options.wants("applies") {
            bench.applies(scale).await?;
        }
        let mut figures = bench.figures;
        drop(peer);
        // The bar is absolute, and kube-apiserver would need minutes and gigabytes for it.
        if options.wants("definitions") && kind == Kind::Muster && round == 0 {
            figures = definitions(options, scale, figures).await?;
        }
        // Slow and steady figures: the first round is enough.
        if options.wants("growth") && round == 0 {
            return growth(options, scale, kind, figures).await;
        }
        Ok(figures)
    })
}

async fn definitions(options: &Options, scale: &Scale, mut figures: Figures) -> Result<Figures, Failure> {
    let binary = std::env::var_os("MUSTER_BIN").is_none().then(release_binary);
    let settings = Settings { under: Some(options.dir.clone()), binary, ..Settings::default() };
    let peer = Peer::start_with(Kind::Muster, settings).await?;
    let mut bench = Bench::new(&peer);
    bench.grant().await?;
    bench.definitions(scale).await?;
    figures.extend(bench.figures);
    Ok(figures)
}

/// On a fresh server, so that the sizes are what they say.
async fn growth(options: &Options, scale: &Scale, kind: Kind, mut figures: Figures) -> Result<Figures, Failure> {
    let binary =
        if kind == Kind::Muster && std::env::var_os("MUSTER_BIN").is_none() { Some(release_binary()) } else { None };
    let settings = Settings { under: Some(options.dir.clone()), binary, ..Settings::default() };
    let peer = Peer::start_with(kind, settings).await?;
    let mut bench = Bench::new(&peer);
    bench.prepare(&Scale { idle: std::time::Duration::ZERO, ..scale.clone() }).await?;
    bench.growth(scale).await?;
    for (name, figure) in
        bench.figures.into_iter().filter(|(name, _)| name.contains(" at ") || name.contains("many objects"))
    {
        figures.insert(name, figure);
    }
    Ok(figures)
}

fn release_binary() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/muster")
}

fn muster_version() -> String {
    let binary =
        if std::env::var_os("MUSTER_BIN").is_some() { muster_binary().unwrap_or_default() } else { release_binary() };
    let output = std::process::Command::new(binary).arg("--version").output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let model = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| line.strip_prefix("model name\t: ").map(str::to_owned))
        .unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = read("/proc/meminfo").lines().next().unwrap_or("").split_whitespace().nth(1).unwrap_or("0").to_owned();
    let load = read("/proc/loadavg");
    format!(
        "{cores} cores, {model}, {} MiB, load {}",
        memory.parse::<u64>().unwrap_or(0) / 1024,
        load.split(' ').next().unwrap_or("")
    )
}
