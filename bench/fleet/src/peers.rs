//! The processes: simulated members, the `muster up` they join, and kubectl.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use muster_tests::peer::free_port;
use muster_tests::process::Process;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::Failure;
use crate::hands::Pod;
use crate::wire::{Door, Wire};

/// For anything that must happen before something can be measured.
pub const PATIENCE: Duration = Duration::from_secs(900);
/// Every member has it, with so many pods.
pub const APP: &str = "app-1";
const PODS_OF_APP: usize = 10;
/// Requests a second that one may send: more than any machine here can ask for.
const PACE: u32 = 1_000_000;
/// Members that are imported at once.
const AT_ONCE: usize = 16;

/// The program that is measured.
pub fn muster() -> Result<PathBuf, Failure> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release/muster");
    let path = std::env::var_os("MUSTER_BIN").map_or(own, PathBuf::from);
    match path.exists() {
        true => Ok(path),
        false => Err(format!("no {}: `cargo build --release -p muster`, or set MUSTER_BIN", path.display()).into()),
    }
}

fn start(name: &str, folder: &Path, flags: &[String]) -> Result<Process, Failure> {
    Ok(Process::spawn(name, &muster()?, flags, &folder.join(format!("{name}.log")))?)
}

/// Waits until the log of a process has the words.
async fn until_said(process: &mut Process, words: &str) -> Result<(), Failure> {
    let begun = Instant::now();
    loop {
        let log = fs::read_to_string(&process.log).unwrap_or_default();
        if log.contains(words) {
            return Ok(());
        }
        if !process.alive() || begun.elapsed() > PATIENCE {
            let last: Vec<&str> = log.lines().rev().take(8).collect();
            return Err(format!("{} did not start:\n{}", process.name, last.join("\n")).into());
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// A member cluster: its name, and the way to it.
#[derive(Clone)]
pub struct Cluster {
    pub name: String,
    pub kubeconfig: PathBuf,
}

/// Simulated members in one process.
pub struct Simulated {
    process: Process,
    pub clusters: Vec<Cluster>,
}

impl Simulated {
    pub async fn start(folder: &Path, prefix: &str, members: usize, pods: usize) -> Result<Simulated, Failure> {
        let dir = folder.join(prefix);
        let nodes = pods.div_ceil(200).max(3);
        let flags = [
            "simulate".to_owned(),
            format!("--members={members}"),
            format!("--prefix={prefix}"),
            format!("--nodes={nodes}"),
            format!("--pods={pods}"),
            "--no-events".to_owned(),
            "--port=0".to_owned(),
            format!("--data-dir={}", dir.display()),
        ];
        let mut process = start(prefix, folder, &flags)?;
        until_said(&mut process, "simulated clusters;").await?;
        let cluster = |i: usize| {
            let name = format!("{prefix}-{i}");
            Cluster { kubeconfig: dir.join(format!("{name}.kubeconfig")), name }
        };
        Ok(Simulated { process, clusters: (1..=members).map(cluster).collect() })
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// From now on its members take in what is sent and say nothing: connections stay, nothing is refused.
    pub fn fall_silent(&self) -> Result<(), Failure> {
        self.signal(Signal::STOP)
    }

    pub fn speak_again(&self) -> Result<(), Failure> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), Failure> {
        let process = i32::try_from(self.id()).ok().and_then(Pid::from_raw).ok_or("no such process")?;
        Ok(kill_process(process, signal)?)
    }
}

/// One `muster up`.
pub struct Up {
    process: Process,
    pub door: Door,
    metrics: SocketAddr,
}

impl Up {
    pub async fn start(folder: &Path, name: &str) -> Result<Up, Failure> {
        let data = folder.join(format!("{name}-data"));
        let here = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let (address, metrics) = (here(free_port()), here(free_port()));
        let flags = [
            "up".to_owned(),
            format!("--data-dir={}", data.display()),
            format!("--bind={address}"),
            "--secure-port=0".to_owned(),
            format!("--metrics-bind-address={metrics}"),
            "--health-bind-address=0".to_owned(),
            format!("--set=gateway.requestsPerSecond={PACE}"),
        ];
        let mut process = start(name, folder, &flags)?;
        until_said(&mut process, ", ready in ").await?;
        let file: Value = serde_json::from_slice(&fs::read(data.join("client.json"))?)?;
        let token = file["token"].as_str().ok_or("client.json has no token")?.to_owned();
        Ok(Up { process, door: Door { address, token }, metrics })
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Makes these clusters members, and waits until all of `total` run. Nothing of what they hold is asked for.
    pub async fn import(&self, clusters: &[Cluster], total: usize) -> Result<(), Failure> {
        let imports = clusters.iter().map(|cluster| async move {
            let kubeconfig = fs::read_to_string(&cluster.kubeconfig)?;
            let body = json!({"name": cluster.name, "kubeconfig": kubeconfig, "labels": {"bench": "fleet"}});
            let mut wire = Wire::connect(self.door.address).await?;
            wire.good(&self.door.post("/apis/zcloud.cn/v1/clusters?action=import", &body)).await?;
            Ok::<_, Failure>(())
        });
        let imports: Vec<_> = imports.collect();
        let mut imports = stream::iter(imports).buffer_unordered(AT_ONCE);
        while let Some(done) = imports.next().await {
            done?;
        }
        self.until_running(total).await
    }

    /// Waits until so many members are Running, no more and no fewer.
    pub async fn until_running(&self, wanted: usize) -> Result<(), Failure> {
        let begun = Instant::now();
        loop {
            let running = self.running().await?;
            if running == wanted {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("{running} members run, not {wanted}").into());
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// From the metrics, which make it read nothing.
    pub async fn running(&self) -> Result<usize, Failure> {
        let door = Door { address: self.metrics, ..self.door.clone() };
        let mut wire = Wire::connect(door.address).await?;
        let text = String::from_utf8_lossy(wire.good(&door.get("/metrics")).await?).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix("muster_members{state=\"Running\"} "));
        let count: f64 = line.ok_or("/metrics does not count members")?.parse()?;
        Ok(count as usize)
    }

    /// Waits until the REST API shows the application on so many members, and nothing is missing.
    pub async fn until_read(&self, members: usize) -> Result<(), Failure> {
        let begun = Instant::now();
        loop {
            let page = self.door.ask(&format!("/api/cluster/all/appPod/{APP}?pageSize=1")).await?;
            let missing = page["unanswered"].as_array().map_or(0, Vec::len);
            if missing == 0 && page["count"] == members * PODS_OF_APP {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("{} pods of {APP} on {members} members, {missing} missing", page["count"]).into());
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// The pods of an application on all members.
    pub async fn pods(&self, app: &str) -> Result<Vec<Pod>, Failure> {
        let mut pods = Vec::new();
        for page in 1.. {
            let path = format!("/api/cluster/all/appPod/{app}?pageSize=1000&page={page}&sort=name");
            let page = self.door.ask(&path).await?;
            let rows = page["items"].as_array().map(Vec::as_slice).unwrap_or_default();
            let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
            pods.extend(rows.iter().map(|row| Pod {
                cluster: text(row, "cluster"),
                namespace: text(row, "namespace"),
                name: text(row, "name"),
            }));
            if rows.is_empty() || page["count"] == pods.len() {
                break;
            }
        }
        Ok(pods)
    }
}

/// kubectl, asking one cluster after the other.
pub struct Kubectl {
    program: PathBuf,
    cache: PathBuf,
}

impl Kubectl {
    pub fn find(folder: &Path) -> Result<Kubectl, Failure> {
        let program = muster_tests::peer::ensure(&["kubectl"])?.join("kubectl");
        Ok(Kubectl { program, cache: folder.join("kubectl") })
    }

    pub fn version(&self) -> String {
        let output = Command::new(&self.program).args(["version", "--client", "-o", "json"]).output();
        let read: Option<Value> = output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok());
        read.and_then(|read| Some(read["clientVersion"]["gitVersion"].as_str()?.to_owned())).unwrap_or_default()
    }

    /// `kubectl get pods -A -l app=…` on each cluster: how many pods it printed.
    pub fn pods(&self, clusters: &[Cluster], app: &str) -> Result<usize, Failure> {
        let mut lines = 0;
        for cluster in clusters {
            let mut command = Command::new(&self.program);
            command.arg("--kubeconfig").arg(&cluster.kubeconfig).arg("--cache-dir").arg(&self.cache);
            let output = command.args(["get", "pods", "-A", "--no-headers", "-l", &format!("app={app}")]).output()?;
            if !output.status.success() {
                return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
            }
            lines += output.stdout.iter().filter(|byte| **byte == b'\n').count();
        }
        Ok(lines)
    }
}
