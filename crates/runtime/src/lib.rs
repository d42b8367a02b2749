//! The controller framework: a reconciler is a type, a function and one line of registration; everything around it is here.
//!
//! On kube-rs, against any Kubernetes API. Nothing in this crate knows a kind of the product.

pub mod app;
mod clock;
pub mod config;
mod controller;
mod dispatch;
mod election;
mod events;
mod fence;
mod handle;
pub mod health;
mod informer;
pub mod lines;
pub mod logging;
mod manager;
mod metrics;
pub mod packed;
mod pattern;
pub mod phase;
pub mod process;
pub mod profile;
mod queue;
mod reconciler;
mod registry;
pub mod serve;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod trace;

pub use clock::{Clock, SystemClock};
pub use controller::{BoxError, Controller, Tuning};
pub use election::Election;
pub use events::Recorder;
pub use fence::{FENCE_HEADER, Fenced};
pub use handle::{ControllerStatus, Handle, HandleError, LastError};
pub use informer::{Cache, Filter};
pub use manager::{Manager, ManagerError, Options, Settings};
pub use metrics::Metrics;
pub use pattern::Patterns;
pub use queue::{Backoff, Priority, QueueStatus, Rate};
pub use reconciler::{Context, Failure, Key, Next, Object, Reconciler};
pub use registry::{Registered, Registration, Registry, Setup};
