//! What a simulated member is like: its nodes, how long things take there, and what time it is.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use meta::{Clock, SystemClock};
use tokio::time::Instant;

/// What a member is told at start. The defaults are a small cluster that starts pods in about a second.
#[derive(Clone)]
pub struct Settings {
    pub name: String,
    pub nodes: Vec<NodePool>,
    pub timing: Timing,
    /// What objects are stamped with. How long things take is measured with `tokio::time`, which tests pause.
    pub clock: Arc<dyn Clock>,
    /// How long events are kept; without it none are written, and a large fleet is cheaper.
    pub events: Option<Duration>,
    /// How many of the newest writes can still be watched from.
    pub history: u64,
}

impl Settings {
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            nodes: vec![NodePool::default()],
            timing: Timing::default(),
            clock: Arc::new(SystemClock),
            events: Some(Duration::from_secs(3600)),
            history: 256,
        }
    }
}

/// Nodes that are alike.
#[derive(Clone, Debug)]
pub struct NodePool {
    /// Nodes are named `prefix-1`, `prefix-2`, …
    pub prefix: String,
    pub count: usize,
    pub cpu: String,
    pub memory: String,
    pub pods: u32,
    pub labels: Vec<(String, String)>,
}

impl Default for NodePool {
    fn default() -> Self {
        Self { prefix: "node".into(), count: 3, cpu: "16".into(), memory: "64Gi".into(), pods: 250, labels: Vec::new() }
    }
}

/// How long things take. Each pod takes between half and all of it, always the same for the same pod.
#[derive(Clone, Debug)]
pub struct Timing {
    /// From bound to pulled.
    pub pull: Duration,
    /// From started to ready.
    pub ready: Duration,
    /// From deleted to gone; never longer than the pod's grace.
    pub stop: Duration,
    /// How long a container runs that is meant to end, unless its pod says otherwise.
    pub run: Duration,
    /// How long a container runs that is meant to crash.
    pub crash: Duration,
    /// After the first crash or failed pull; doubles each time, up to five minutes.
    pub back_off: Duration,
    /// How long pods stay bound to a lost node.
    pub eviction: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            pull: Duration::from_millis(800),
            ready: Duration::from_millis(400),
            stop: Duration::from_millis(600),
            run: Duration::from_secs(5),
            crash: Duration::from_secs(1),
            back_off: Duration::from_secs(10),
            eviction: Duration::from_secs(300),
        }
    }
}

/// A wall clock that goes as `tokio::time` goes: it stands still, and leaps, when a test pauses that.
pub struct VirtualClock {
    begun: Instant,
    at: Timestamp,
}

impl VirtualClock {
    /// Must be called in a runtime.
    pub fn starting_at(at: Timestamp) -> Self {
        Self { begun: Instant::now(), at }
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.begun.elapsed()).unwrap_or_default();
        self.at.checked_add(passed).unwrap_or(self.at)
    }
}
