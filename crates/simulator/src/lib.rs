//! Simulated member clusters: our API server with nodes, kubelets and controllers that only pretend to run containers.
//!
//! A member is cheap: its store has no threads, all its controllers are one task, and a pod at rest costs nothing but its object.
//! Time is `tokio::time`, so tests run hours in milliseconds.
//!
//! Failures are asked for by an annotation, on a pod, a pod template or a node; taken away, things recover:
//!
//! | annotation | on | what happens |
//! | --- | --- | --- |
//! | [`FAIL`]` = image-pull` | pod | ErrImagePull, then ImagePullBackOff |
//! | [`FAIL`]` = crash-loop` | pod | the containers crash and are started again ever later |
//! | [`FAIL`]` = not-ready` | pod | runs, and never becomes ready |
//! | [`FAIL`]` = lost` | node | its kubelet falls silent; after a while its pods are evicted |
//! | [`RUN_FOR`]` = 90s` | pod | how long containers run that are meant to end |
//! | [`EXIT_CODE`]` = 3` | pod | how they end |

mod cluster;
mod doors;
mod driver;
mod engine;
mod exec;
mod fill;
mod kubelet;
mod log;
mod log_request;
mod look;
mod member;
mod metrics;
mod network;
mod node;
mod pod;
mod scheduler;
mod settings;
mod shell;
mod todo;
mod workloads;

pub use member::{Member, MemberError, MemberService, Served};
pub use network::Network;
pub use settings::{NodePool, Settings, Timing, VirtualClock};

/// The annotation that asks for a failure.
pub const FAIL: &str = "simulator.muster.dev/fail";
/// The annotation that says how long containers run that are meant to end.
pub const RUN_FOR: &str = "simulator.muster.dev/run-for";
/// The annotation that says with which code they end.
pub const EXIT_CODE: &str = "simulator.muster.dev/exit-code";

/// What can be made to go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    ImagePull,
    CrashLoop,
    NotReady,
    /// Of a node: nobody hears of it any more.
    Lost,
}

impl Failure {
    /// The annotation's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ImagePull => "image-pull",
            Self::CrashLoop => "crash-loop",
            Self::NotReady => "not-ready",
            Self::Lost => "lost",
        }
    }

    pub(crate) fn of(annotation: Option<&str>) -> Option<Self> {
        let all = [Self::ImagePull, Self::CrashLoop, Self::NotReady, Self::Lost];
        all.into_iter().find(|failure| annotation == Some(failure.as_str()))
    }
}
