//! The measures, in the order in which one run can take them: half of the fleet, all of it, and a tenth of it silent.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::{interval, sleep};

use crate::hands::{Hands, Pod, Ticking, visible};
use crate::load::{Run, full, steady};
use crate::meter::{Cast, resident};
use crate::peers::{Cluster, Kubectl, PATIENCE, Simulated, Up};
use crate::report::{Report, Target};
use crate::wire::{Door, Wire};
use crate::{Failure, Scale};

/// Every member has it, with so many pods.
const APP: &str = "app-1";
const PODS_OF_APP: usize = 10;
/// Changes that nobody waits for are made to another one.
const OTHER_APP: &str = "app-2";
/// More than any machine here can ask for.
const PACE: u32 = 1_000_000;
/// A window of a second for each question in turn: what else the machine does hits all of them alike.
const WINDOW: Duration = Duration::from_secs(1);

/// Everything that runs.
pub struct Stage<'a> {
    scale: &'a Scale,
    folder: PathBuf,
    lit: Simulated,
    /// Those that will fall silent.
    dark: Simulated,
    hands: Rc<Hands>,
    up: Up,
    door: Door,
    cast: Cast,
}

impl<'a> Stage<'a> {
    pub async fn set(scale: &'a Scale, folder: &Path) -> Result<Stage<'a>, Failure> {
        eprintln!("{} members of {} pods are filled…", scale.members, scale.pods);
        let begun = Instant::now();
        let silent = scale.members / 10;
        let lit = Simulated::start(folder, "member", scale.members - silent, scale.pods).await?;
        let dark = Simulated::start(folder, "silent", silent, scale.pods).await?;
        let hands = Hands::on(&[&lit.clusters[..], &dark.clusters[..]].concat()).await?;
        hands.until_filled(scale.pods).await?;
        eprintln!("all pods are ready after {:.0} s", begun.elapsed().as_secs_f64());
        let up = Up::start(folder, PACE).await?;
        let (door, folder) = (up.door.clone(), folder.to_owned());
        let cast = Cast { up: up.id(), simulated: vec![lit.id(), dark.id()] };
        Ok(Stage { scale, folder, lit, dark, hands: Rc::new(hands), up, door, cast })
    }

    /// All measures; the version of kubectl, if there is one.
    pub async fn run(&self, report: &mut Report) -> Result<String, Failure> {
        let half = self.scale.members / 2;
        let [first, rest] = self.halves();
        if self.scale.only_silence {
            self.up.import(&[first, rest].concat(), self.scale.members).await?;
            self.until_read(self.scale.members).await?;
            self.silence(report).await?;
            return Ok(String::new());
        }
        self.join_first(report, &first, half).await?;
        self.questions(report, half).await?;
        self.join_rest(report, &rest).await?;
        self.changes(report).await?;
        self.sorting(report).await?;
        let kubectl = self.kubectl(report).await?;
        self.silence(report).await?;
        Ok(kubectl)
    }

    /// Both with their share of those that will fall silent.
    fn halves(&self) -> [Vec<Cluster>; 2] {
        let half = |all: &[Cluster], first: bool| match first {
            true => all[..all.len() / 2].to_vec(),
            false => all[all.len() / 2..].to_vec(),
        };
        [true, false].map(|first| [half(&self.lit.clusters, first), half(&self.dark.clusters, first)].concat())
    }

    /// Waits until the REST API shows the application on so many members, and nothing is missing.
    async fn until_read(&self, members: usize) -> Result<(), Failure> {
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
    async fn pods(&self, app: &str) -> Result<Vec<Pod>, Failure> {
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

    /// What a member costs, and what a pod that is kept in memory costs.
    async fn join_first(&self, report: &mut Report, clusters: &[Cluster], half: usize) -> Result<(), Failure> {
        eprintln!("{half} members join");
        sleep(self.scale.settle).await;
        let empty = resident(self.up.id());
        report.put("memory of up without members", empty, "MiB", Target::None, "pages of the program");
        let begun = Instant::now();
        self.up.import(clusters, half).await?;
        let joined = begun.elapsed();
        sleep(self.scale.settle).await;
        let running = resident(self.up.id());
        let each = (running - empty) * 1024.0 / half as f64;
        let how = format!("connections and TLS; {half} joined in {:.1} s", joined.as_secs_f64());
        report.put("memory of a member, nothing of it asked for", each, "KiB", Target::None, how);
        let begun = Instant::now();
        self.until_read(half).await?;
        let read = begun.elapsed();
        sleep(self.scale.settle).await;
        let pod = self.pods(APP).await?;
        let size = self.hands.size(pod.first().ok_or("no pods")?).await?;
        let kept = (half * self.scale.pods) as f64;
        let each = (resident(self.up.id()) - running) * 1024.0 / kept;
        let how = format!("its JSON of {size} B and its row; all read in {:.1} s", read.as_secs_f64());
        report.put("memory of a cached pod", each, "KiB", Target::AtMost(5.0), how);
        Ok(())
    }

    /// The application's pods on half of the members: how many questions, and how fast.
    async fn questions(&self, report: &mut Report, half: usize) -> Result<(), Failure> {
        let Scale { connections, rate, events, time, .. } = *self.scale;
        let request = [self.door.get(&format!("/api/cluster/all/appPod/{APP}"))];
        full(&self.door, &request, connections, time / 5).await?;
        let what = format!("appPod over {half} members");
        let meter = self.cast.meter();
        let run = full(&self.door, &request, connections, time).await?;
        let bound = format!("{}; {} B each", meter.shares().bound(), run.mean_bytes());
        report.put(
            format!("{what}, {connections} connections"),
            run.per_second(),
            "/s",
            Target::AtLeast(2000.0),
            bound,
        );
        report.put("  p99 at full load", run.percentile(0.99), "ms", Target::None, "the queue of all connections");
        for changing in [0, events] {
            let ticking = match changing {
                0 => None,
                _ => Some(Ticking::start(&self.hands, self.pods(OTHER_APP).await?, changing)),
            };
            let meter = self.cast.meter();
            let run = steady(&self.door, &request, connections, rate, time).await?;
            let bound = format!("p50 {:.2} ms; {}", run.percentile(0.5), meter.shares());
            let name = format!("  p99 at {rate:.0}/s, {changing} changes/s");
            report.put(name, run.percentile(0.99), "ms", Target::AtMost(20.0), bound);
            drop(ticking);
        }
        Ok(())
    }

    async fn join_rest(&self, report: &mut Report, clusters: &[Cluster]) -> Result<(), Failure> {
        let Scale { members, pods, settle, .. } = *self.scale;
        eprintln!("the others join");
        self.up.import(clusters, members).await?;
        self.until_read(members).await?;
        sleep(settle).await;
        let what = format!("{members} members of {pods} pods");
        report.put(format!("memory of up, {what}"), resident(self.up.id()), "MiB", Target::None, "cached pods");
        let both = self.cast.resident();
        report.put("  with the simulated clusters", both, "MiB", Target::AtMost(2048.0), "objects, kept on both sides");
        Ok(())
    }

    /// What changes cost, and when they are seen.
    async fn changes(&self, report: &mut Report) -> Result<(), Failure> {
        let Scale { events, time, changes, .. } = *self.scale;
        let ticking = Ticking::start(&self.hands, self.pods(OTHER_APP).await?, events);
        let meter = self.cast.meter();
        sleep(time * 2).await;
        let shares = meter.shares();
        let made = ticking.per_second();
        let what = format!("steady CPU of up at {events} changes/s");
        report.put(what, shares.up, "cores", Target::AtMost(1.0), format!("{made:.0} changes/s made; {shares}"));
        let pods = self.pods(APP).await?;
        // Neighbours in the list are on the same member: a step that shares no factor with their number visits all.
        let spread: Vec<Pod> = (0..pods.len()).map(|n| pods[n * 7919 % pods.len()].clone()).collect();
        let run = visible(&self.hands, &self.door, APP, &spread, changes).await?;
        let bound = format!("p50 {:.1}, max {:.1} ms of {}", run.percentile(0.5), run.percentile(1.0), run.count());
        report.put("change on a member to REST, p99", run.percentile(0.99), "ms", Target::AtMost(1000.0), bound);
        Ok(())
    }

    /// One page of 20,000 pods in another order, as the console asks for it.
    async fn sorting(&self, report: &mut Report) -> Result<(), Failure> {
        let members = (20_000 / self.scale.pods).clamp(1, self.lit.clusters.len());
        let names: Vec<&str> = self.lit.clusters[..members].iter().map(|cluster| cluster.name.as_str()).collect();
        let path = format!("/api/cluster/all/appPod/all?pageSize=50&sort=-node,name&cluster={}", names.join(","));
        let request = [self.door.get(&path)];
        let run = full(&self.door, &request, 1, self.scale.time / 2).await?;
        let bound = format!("one client; p50 {:.1}, the first {:.1} ms", run.percentile(0.5), run.percentile(1.0));
        let what = format!("page of {} pods sorted by node, p99", members * self.scale.pods);
        report.put(what, run.percentile(0.99), "ms", Target::AtMost(300.0), bound);
        Ok(())
    }

    /// The same question to each cluster by kubectl, and once to us.
    async fn kubectl(&self, report: &mut Report) -> Result<String, Failure> {
        let kubectl = match Kubectl::find(&self.folder) {
            Ok(kubectl) => kubectl,
            Err(why) => {
                eprintln!("no kubectl to compare with: {why}");
                return Ok(String::new());
            }
        };
        let clusters = [&self.lit.clusters[..], &self.dark.clusters[..]].concat();
        // Once before, so that it has read what each cluster has.
        kubectl.pods(&clusters, APP)?;
        let begun = Instant::now();
        let printed = kubectl.pods(&clusters, APP)?;
        let loop_took = begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        let found = self.pods(APP).await?.len();
        let took = begun.elapsed().as_secs_f64();
        if printed != found {
            return Err(format!("kubectl saw {printed} pods, the REST API {found}").into());
        }
        let how = format!("{found} pods: {loop_took:.1} s, and {:.0} ms over REST", took * 1000.0);
        let what = format!("kubectl get pods -A -l app={APP}, one cluster of {} after the other", clusters.len());
        report.put(what, loop_took / took, "×", Target::None, how);
        Ok(kubectl.version())
    }

    /// One of ten members says nothing: what the others' answers take. The machine is faster at one time than at another, so turns with and without
    /// silence alternate until it is noticed, and those with all members surround those after.
    async fn silence(&self, report: &mut Report) -> Result<(), Failure> {
        let pods = self.pods(APP).await?;
        let (dark, lit): (Vec<Pod>, Vec<Pod>) = pods.into_iter().partition(|pod| pod.cluster.starts_with("silent-"));
        let object = |pod: &Pod| {
            let Pod { cluster, namespace, name } = pod;
            format!("/api/cluster/{cluster}/resources/core/v1/namespaces/{namespace}/pods/{name}?raw=true")
        };
        let list = |pod: &Pod| format!("/api/cluster/{}/appPod/{APP}", pod.cluster);
        let all = format!("/api/cluster/all/appPod/{APP}");
        let questions = [
            ("the others, from memory", lit.iter().map(|pod| self.door.get(&list(pod))).collect::<Vec<_>>()),
            ("the others, asked themselves", lit.iter().map(|pod| self.door.get(&object(pod))).collect()),
            ("all members", vec![self.door.get(&all)]),
        ];
        let rounds = if self.scale.time > Duration::from_secs(5) { 20 } else { 3 };
        // Somebody asks for them all the time, over connections that stay: to open one costs more than to be refused.
        let (door, paths) = (self.door.clone(), dark.iter().map(object).collect::<Vec<_>>());
        let idle: Rc<RefCell<Vec<Wire>>> = Rc::default();
        let knocking = tokio::task::spawn_local(async move {
            let mut ticks = interval(Duration::from_millis(200));
            for path in paths.iter().cycle() {
                ticks.tick().await;
                let (door, request, idle) = (door.clone(), door.get(path), idle.clone());
                tokio::task::spawn_local(async move {
                    let kept = idle.borrow_mut().pop();
                    let wire = match kept {
                        Some(wire) => Ok(wire),
                        None => Wire::connect(door.address).await,
                    };
                    let Ok(mut wire) = wire else { return };
                    if wire.send(&request).await.is_ok() {
                        idle.borrow_mut().push(wire);
                    }
                });
            }
        });
        let mut unmeasured = Windows::default();
        self.turn(&questions, &mut unmeasured).await?;
        let (mut heard, mut unnoticed, mut noticed) = (Windows::default(), Windows::default(), Windows::default());
        for _ in 0..rounds {
            self.turn(&questions, &mut heard).await?;
            self.dark.fall_silent()?;
            self.turn(&questions, &mut unnoticed).await?;
            self.dark.speak_again()?;
            // They work off what has piled up.
            sleep(WINDOW).await;
        }
        eprintln!("{} members fall silent", self.dark.clusters.len());
        self.dark.fall_silent()?;
        self.up.until_running(self.lit.clusters.len()).await?;
        for _ in 0..rounds {
            self.turn(&questions, &mut noticed).await?;
        }
        self.dark.speak_again()?;
        self.up.until_running(self.scale.members).await?;
        sleep(self.scale.settle).await;
        for _ in 0..rounds / 2 {
            self.turn(&questions, &mut heard).await?;
        }
        knocking.abort();
        for (i, (what, _)) in questions.iter().enumerate() {
            let [heard, unnoticed, noticed] = [&heard, &unnoticed, &noticed].map(|windows| calm_p99(&windows[i]));
            let how = format!(
                "median p99 of the calmer half of windows of 1 s: all heard {heard:.2}, unnoticed {unnoticed:.2}, noticed {noticed:.2} ms"
            );
            let target = if i < 2 { Target::AtMost(1.1) } else { Target::None };
            let what = format!("one of ten members silent: p99 of {what}, worse by");
            report.put(what, unnoticed.max(noticed) / heard, "×", target, how);
        }
        Ok(())
    }

    /// Asks each question for a while, one after the other.
    async fn turn(&self, questions: &[(&str, Vec<Vec<u8>>); 3], windows: &mut Windows) -> Result<(), Failure> {
        for (windows, (_, requests)) in windows.iter_mut().zip(questions) {
            let meter = self.cast.meter();
            let run = steady(&self.door, requests, self.scale.connections, self.scale.rate, WINDOW).await?;
            windows.push((meter.disturbance(), run));
        }
        Ok(())
    }
}

/// What each question took, window by window, and how much of the machine somebody else had meanwhile.
type Windows = [Vec<(f64, Run)>; 3];

/// A hundredth of a window is lost to one stall of the machine, which says nothing of the program: the half of the windows in which the least
/// was taken from us counts, and of those the median.
fn calm_p99(windows: &[(f64, Run)]) -> f64 {
    let mut windows: Vec<&(f64, Run)> = windows.iter().collect();
    windows.sort_by(|a, b| a.0.total_cmp(&b.0));
    windows.truncate(windows.len().div_ceil(2));
    let mut each: Vec<f64> = windows.iter().map(|(_, run)| run.percentile(0.99)).collect();
    each.sort_by(f64::total_cmp);
    each.get(each.len() / 2).copied().unwrap_or(f64::NAN)
}
