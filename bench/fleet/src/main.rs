//! `muster-bench-fleet`: one `muster up` with hundreds of simulated members, which run in processes of their own. Everything goes over
//! the network as it does for a user: members join by kubeconfig, questions are asked of the REST API, changes are made on the members.
//!
//!   muster-bench-fleet [--quick] [--members N] [--pods N] [--connections N] [--dir FOLDER] [--only-silence]
#![allow(clippy::print_stdout)]

use k8s_openapi as _;

mod hands;
mod load;
mod measures;
mod meter;
mod peers;
mod report;
mod silence;
mod wire;

use std::path::{Path, PathBuf};
use std::time::Duration;

use measures::Stage;
use report::Report;
use serde_json::json;
use silence::Silence;

// The generator shares the machine with what it measures, so it is made cheap.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub type Failure = Box<dyn std::error::Error>;

const USAGE: &str =
    "muster-bench-fleet [--quick] [--members N] [--pods N] [--connections N] [--dir FOLDER] [--only-silence]";

/// How much, and for how long.
#[derive(Clone, Debug)]
pub struct Scale {
    pub members: usize,
    /// In each.
    pub pods: usize,
    pub connections: usize,
    /// Requests a second where latency is measured.
    pub rate: f64,
    /// Changes of pods a second.
    pub events: usize,
    /// Of one measure.
    pub time: Duration,
    /// Changes waited for until they are seen.
    pub changes: usize,
    /// Before memory is read.
    pub settle: Duration,
    /// Nothing but what a silent tenth costs the others.
    pub only_silence: bool,
}

impl Scale {
    fn new(quick: bool) -> Scale {
        let seconds = |full: u64, short: u64| Duration::from_secs(if quick { short } else { full });
        Scale {
            members: if quick { 20 } else { 200 },
            pods: if quick { 50 } else { 500 },
            connections: 64,
            rate: 500.0,
            events: 50,
            time: seconds(10, 2),
            changes: if quick { 100 } else { 1000 },
            settle: seconds(5, 1),
            only_silence: false,
        }
    }
}

fn options() -> Result<(Scale, PathBuf), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut scale = Scale::new(words.iter().any(|word| word == "--quick"));
    let mut dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value. {USAGE}"));
        match word.as_str() {
            "--quick" => {}
            "--only-silence" => scale.only_silence = true,
            "--members" => scale.members = value()?.parse()?,
            "--pods" => scale.pods = value()?.parse()?,
            "--connections" => scale.connections = value()?.parse()?,
            // Not /tmp by default, which is memory on many machines.
            "--dir" => dir = value()?.into(),
            _ => return Err(format!("{word}: not known. {USAGE}").into()),
        }
    }
    if scale.members < 20 || scale.pods < 20 {
        return Err("at least 20 members of 20 pods are needed".into());
    }
    Ok((scale, dir))
}

fn main() {
    if let Err(why) = run() {
        eprintln!("muster-bench-fleet: {why}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Failure> {
    let (scale, dir) = options()?;
    let folder = tempfile::Builder::new().prefix("bench-fleet-").tempdir_in(dir)?;
    let output = std::process::Command::new(peers::muster()?).arg("--version").output()?;
    let load = meter::load();
    let mut report = Report::default();
    // One thread: what is measured has the others.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    let small = Scale { members: scale.members.min(100), pods: scale.pods.min(100), ..scale.clone() };
    let kubectl = local.block_on(&runtime, async {
        let kubectl = match scale.only_silence {
            true => String::new(),
            false => Stage::set(&scale, folder.path()).await?.run(&mut report).await?,
        };
        let folder = folder.path().join("silence");
        std::fs::create_dir(&folder)?;
        Silence::set(&small, &folder).await?.run(&mut report).await?;
        Ok::<_, Failure>(kubectl)
    })?;
    let settings = json!({
        "machine": meter::machine(), "load before": load, "load after": meter::load(),
        "muster": String::from_utf8_lossy(&output.stdout).trim(), "kubectl": kubectl, "scale": format!("{scale:?}"),
        "silence": format!("{} members of {} pods", small.members, small.pods),
        "members": "muster simulate --no-events in processes of their own, HTTPS on loopback with client certificates",
        "generator": "HTTP/1.1 kept alive, one thread, the administrator's token, gateway.requestsPerSecond raised",
    });
    println!("\n{settings:#}\n\n{}", report.table());
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results");
    let stamp = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let file = results.join(format!("fleet-{stamp}.json"));
    std::fs::create_dir_all(&results)?;
    std::fs::write(&file, format!("{:#}\n", report.json(&settings)))?;
    println!("written to {}", file.display());
    Ok(())
}
