//! One of ten members says nothing: what the answers of the others take meanwhile.
//!
//! A machine differs by more than a tenth from one minute to the next, so both sides are measured at once: two `muster up` with the same nine
//! tenths of members and a tenth of its own each, asked in turn, one millisecond this one, the next millisecond that one. The tenth of one falls
//! silent, then that of the other. What is between the two while all are heard is the error of the measure.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{interval, sleep};

use crate::hands::{Hands, Pod};
use crate::load::{Run, Side, steady};
use crate::meter::used;
use crate::peers::{APP, Simulated, Up};
use crate::report::{Report, Target};
use crate::wire::{Door, Wire};
use crate::{Failure, Scale};

/// Each question is asked for so long before the next.
const WINDOW: Duration = Duration::from_secs(1);
/// Somebody asks each for one of its own members so often. Far from a hundredth of all requests, which would be the p99 itself.
const KNOCK: Duration = Duration::from_millis(500);

/// Everything that runs.
pub struct Silence<'a> {
    scale: &'a Scale,
    /// Members of both.
    _lit: Simulated,
    /// Members of one of the two: they will fall silent.
    dark: [Simulated; 2],
    ups: [Up; 2],
    questions: Vec<Question>,
    _knocking: [Knocking; 2],
}

struct Question {
    name: &'static str,
    target: Target,
    /// To the one, and to the other.
    requests: [Requests; 2],
}

type Requests = Vec<Vec<u8>>;
/// Requests for these pods.
type Ask = fn(&Door, &[Pod]) -> Requests;

/// What the one with silent members did, and the other at its side.
#[derive(Default)]
struct Phase {
    /// For each question.
    took: [[Run; 2]; 3],
    seconds: f64,
    /// Milliseconds of CPU.
    used: [u64; 2],
}

impl<'a> Silence<'a> {
    pub async fn set(scale: &'a Scale, folder: &Path) -> Result<Silence<'a>, Failure> {
        let Scale { members, pods, .. } = *scale;
        let tenth = members / 10;
        eprintln!("two fleets of {members} members of {pods} pods, nine of ten shared, are filled…");
        let lit = Simulated::start(folder, "member", members - tenth, pods).await?;
        let dark = [
            Simulated::start(folder, "first", tenth, pods).await?,
            Simulated::start(folder, "second", tenth, pods).await?,
        ];
        let clusters = [&lit.clusters[..], &dark[0].clusters[..], &dark[1].clusters[..]].concat();
        Hands::on(&clusters).await?.until_filled(pods).await?;
        let ups = [Up::start(folder, "up-first").await?, Up::start(folder, "up-second").await?];
        let mut asked = Vec::new();
        for (up, dark) in ups.iter().zip(&dark) {
            up.import(&[&lit.clusters[..], &dark.clusters[..]].concat(), members).await?;
            up.until_read(members).await?;
            let (shared, own): (Vec<Pod>, Vec<Pod>) =
                up.pods(APP).await?.into_iter().partition(|pod| pod.cluster.starts_with("member-"));
            asked.push((shared, own));
        }
        let lists: Ask = |door, pods| {
            pods.iter().map(|pod| door.get(&format!("/api/cluster/{}/appPod/{APP}", pod.cluster))).collect()
        };
        let objects: Ask = |door, pods| pods.iter().map(|pod| door.get(&object(pod))).collect();
        let everything: Ask = |door, _| vec![door.get(&format!("/api/cluster/all/appPod/{APP}"))];
        let question = |name, target, ask: Ask| {
            let requests = [0, 1].map(|i| ask(&ups[i].door, &asked[i].0));
            Question { name, target, requests }
        };
        let questions = vec![
            question("the others, from memory", Target::AtMost(1.1), lists),
            question("the others, asked themselves", Target::AtMost(1.1), objects),
            question("all members", Target::None, everything),
        ];
        let knocking = [0, 1].map(|i| Knocking::start(&ups[i].door, &asked[i].1));
        Ok(Silence { scale, _lit: lit, dark, ups, questions, _knocking: knocking })
    }

    /// Each of the two has silent members as often as the other.
    pub async fn run(&self, report: &mut Report) -> Result<(), Failure> {
        let (cycles, turns) = if self.scale.time > Duration::from_secs(5) { (6, 8) } else { (2, 2) };
        let all = self.scale.members;
        let (mut heard, mut unnoticed, mut noticed) = (Phase::default(), Phase::default(), Phase::default());
        for _ in 0..2 {
            self.turn(0, &mut Phase::default()).await?;
        }
        for cycle in 0..cycles {
            let silent = cycle % 2;
            let (up, dark) = (&self.ups[silent], &self.dark[silent]);
            sleep(self.scale.settle).await;
            for _ in 0..turns {
                self.turn(silent, &mut heard).await?;
            }
            eprintln!("{} members of one fall silent", dark.clusters.len());
            dark.fall_silent()?;
            while up.running().await? == all {
                self.turn(silent, &mut unnoticed).await?;
            }
            up.until_running(all - dark.clusters.len()).await?;
            for _ in 0..turns {
                self.turn(silent, &mut noticed).await?;
            }
            dark.speak_again()?;
            up.until_running(all).await?;
        }
        for (i, question) in self.questions.iter().enumerate() {
            let [error, unnoticed, noticed] = [&heard, &unnoticed, &noticed].map(|phase| Compared::of(&phase.took[i]));
            let what = format!("one of ten members silent: p99 of {}, worse by", question.name);
            let how = format!("not yet noticed {unnoticed}; noticed {noticed}; for control, all heard {error}");
            report.put(what, unnoticed.ratio.max(noticed.ratio), "×", question.target, how);
        }
        let [before, after] = [&heard, &noticed].map(|phase| phase.used.map(|used| used as f64 / phase.seconds));
        let how = format!(
            "ms of CPU a second, and of the other at its side: noticed {:.1} and {:.1}, all heard {:.1} and {:.1}",
            after[0], after[1], before[0], before[1]
        );
        report.put("  CPU of up", after[0] / after[1], "×", Target::None, how);
        Ok(())
    }

    /// Asks each question for a while, one after the other.
    async fn turn(&self, silent: usize, phase: &mut Phase) -> Result<(), Failure> {
        let order = [silent, 1 - silent];
        let before = order.map(|i| used(self.ups[i].id()));
        for (question, took) in self.questions.iter().zip(&mut phase.took) {
            let sides = [0, 1].map(|i| Side { door: &self.ups[i].door, requests: &question.requests[i] });
            let runs = steady(&sides, self.scale.connections, 2.0 * self.scale.rate, WINDOW).await?;
            for (took, i) in took.iter_mut().zip(order) {
                took.add(&runs[i]);
            }
            phase.seconds += WINDOW.as_secs_f64();
        }
        for (i, up) in order.into_iter().enumerate() {
            phase.used[i] += used(self.ups[up].id()).saturating_sub(before[i]);
        }
        Ok(())
    }
}

/// A pod, read from its cluster itself.
fn object(Pod { cluster, namespace, name }: &Pod) -> String {
    format!("/api/cluster/{cluster}/resources/core/v1/namespaces/{namespace}/pods/{name}?raw=true")
}

struct Compared {
    ratio: f64,
    p99: [f64; 2],
    count: usize,
}

impl Compared {
    fn of(sides: &[Run; 2]) -> Compared {
        let p99 = [sides[0].percentile(0.99), sides[1].percentile(0.99)];
        Compared { ratio: p99[0] / p99[1], p99, count: sides[0].count() }
    }
}

impl std::fmt::Display for Compared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Compared { ratio, p99: [one, other], count } = self;
        write!(f, "{one:.2} to {other:.2} ms ({ratio:.2} ×, {count} requests each)")
    }
}

/// Requests for members that may be silent, until this is dropped.
struct Knocking(JoinHandle<()>);

impl Knocking {
    /// Over connections that stay: to open one costs more than to be refused. One that gets no answer delays no other.
    fn start(door: &Door, pods: &[Pod]) -> Knocking {
        let (address, requests) = (door.address, pods.iter().map(|pod| door.get(&object(pod))).collect::<Vec<_>>());
        let idle: Rc<RefCell<Vec<Wire>>> = Rc::default();
        Knocking(tokio::task::spawn_local(async move {
            let mut ticks = interval(KNOCK);
            for request in requests.into_iter().cycle() {
                ticks.tick().await;
                let idle = idle.clone();
                tokio::task::spawn_local(async move {
                    let kept = idle.borrow_mut().pop();
                    let wire = match kept {
                        Some(wire) => Ok(wire),
                        None => Wire::connect(address).await,
                    };
                    let Ok(mut wire) = wire else { return };
                    if wire.send(&request).await.is_ok() {
                        idle.borrow_mut().push(wire);
                    }
                });
            }
        }))
    }
}

impl Drop for Knocking {
    fn drop(&mut self) {
        self.0.abort();
    }
}
