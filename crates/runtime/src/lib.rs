//! The controller framework: a reconciler is a type, a function and one line of registration; everything around it is here.
//!
//! On kube-rs, against any Kubernetes API. Nothing in this crate knows a kind of the product.

mod clock;
pub mod health;
pub mod profile;
mod reconciler;
pub mod trace;

pub use clock::{Clock, SystemClock};
pub use reconciler::{Context, Failure, Key, Next, Object, Reconciler};
