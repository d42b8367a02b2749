//! The measures, in the order in which one run can take them: half of the fleet, then all of it.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use tokio::time::sleep;

use crate::hands::{Hands, Pod, Ticking, visible};
use crate::load::{Side, full, steady};
use crate::meter::{Cast, resident};
use crate::peers::{APP, Cluster, Kubectl, Simulated, Up};
use crate::report::{Report, Target};
use crate::wire::Door;
use crate::{Failure, Scale};

/// Changes that nobody waits for are made to another one.
const OTHER_APP: &str = "app-2";

/// Everything that runs.
pub struct Stage<'a> {
    scale: &'a Scale,
    folder: PathBuf,
    members: Simulated,
    hands: Rc<Hands>,
    up: Up,
    door: Door,
    cast: Cast,
}

impl<'a> Stage<'a> {
    pub async fn set(scale: &'a Scale, folder: &Path) -> Result<Stage<'a>, Failure> {
        eprintln!("{} members of {} pods are filled…", scale.members, scale.pods);
        let begun = Instant::now();
        let members = Simulated::start(folder, "member", scale.members, scale.pods).await?;
        let hands = Hands::on(&members.clusters).await?;
        hands.until_filled(scale.pods).await?;
        eprintln!("all pods are ready after {:.0} s", begun.elapsed().as_secs_f64());
        let up = Up::start(folder, "up").await?;
        let (door, folder) = (up.door.clone(), folder.to_owned());
        let cast = Cast { up: up.id(), simulated: members.id() };
        Ok(Stage { scale, folder, members, hands: Rc::new(hands), up, door, cast })
    }

    /// All measures; the version of kubectl, if there is one.
    pub async fn run(&self, report: &mut Report) -> Result<String, Failure> {
        let half = self.scale.members / 2;
        let (first, rest) = self.members.clusters.split_at(half);
        self.join_first(report, first, half).await?;
        self.questions(report, half).await?;
        self.join_rest(report, rest).await?;
        self.changes(report).await?;
        self.sorting(report).await?;
        self.kubectl(report).await
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
        self.up.until_read(half).await?;
        let read = begun.elapsed();
        sleep(self.scale.settle).await;
        let pod = self.up.pods(APP).await?;
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
                _ => Some(Ticking::start(&self.hands, self.up.pods(OTHER_APP).await?, changing)),
            };
            let side = Side { door: &self.door, requests: &request };
            let meter = self.cast.meter();
            let run = steady(&[side], connections, rate, time).await?.remove(0);
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
        self.up.until_read(members).await?;
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
        let ticking = Ticking::start(&self.hands, self.up.pods(OTHER_APP).await?, events);
        let meter = self.cast.meter();
        sleep(time * 2).await;
        let shares = meter.shares();
        let made = ticking.per_second();
        let what = format!("steady CPU of up at {events} changes/s");
        report.put(what, shares.up, "cores", Target::AtMost(1.0), format!("{made:.0} changes/s made; {shares}"));
        let pods = self.up.pods(APP).await?;
        // Neighbours in the list are on the same member: a step that shares no factor with their number visits all.
        let spread: Vec<Pod> = (0..pods.len()).map(|n| pods[n * 7919 % pods.len()].clone()).collect();
        let run = visible(&self.hands, &self.door, APP, &spread, changes).await?;
        let bound = format!("p50 {:.1}, max {:.1} ms of {}", run.percentile(0.5), run.percentile(1.0), run.count());
        report.put("change on a member to REST, p99", run.percentile(0.99), "ms", Target::AtMost(1000.0), bound);
        Ok(())
    }

    /// One page of 20,000 pods in another order, as the console asks for it.
    async fn sorting(&self, report: &mut Report) -> Result<(), Failure> {
        let members = (20_000 / self.scale.pods).clamp(1, self.members.clusters.len());
        let names: Vec<&str> = self.members.clusters[..members].iter().map(|cluster| cluster.name.as_str()).collect();
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
        let clusters = &self.members.clusters;
        // Once before, so that it has read what each cluster has.
        kubectl.pods(clusters, APP)?;
        let begun = Instant::now();
        let printed = kubectl.pods(clusters, APP)?;
        let loop_took = begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        let found = self.up.pods(APP).await?.len();
        let took = begun.elapsed().as_secs_f64();
        if printed != found {
            return Err(format!("kubectl saw {printed} pods, the REST API {found}").into());
        }
        let how = format!("{found} pods: {loop_took:.1} s, and {:.0} ms over REST", took * 1000.0);
        let what = format!("kubectl get pods -A -l app={APP}, one cluster of {} after the other", clusters.len());
        report.put(what, loop_took / took, "×", Target::None, how);
        Ok(kubectl.version())
    }
}
