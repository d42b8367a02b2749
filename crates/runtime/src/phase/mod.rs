//! The phase machine: long work as phases, a transition table, a handler per phase, and a journal in the object's status (KC-6).
//!
//! A kind gives its phases as an enum ([`Phase`]), says in two tables where success and failure lead, and writes one
//! handler per phase. [`Machine::build`](Builder::build) refuses tables that cannot work. Everything the machine knows stands in
//! [`PhaseStatus`], saved before and after each step, so a crash at any instant resumes where it was:
//! - a step that is done never runs again;
//! - a step that was under way runs again from its last checkpoint, and therefore looks before it acts ([`Effect`]).
//!
//! The core is free of I/O: it speaks to a [`Journal`]. [`Phased`] is the journal in a Kubernetes object.

mod build;
mod errors;
mod graph;
mod handler;
mod journal;
mod kube;
mod machine;
mod model;
mod moves;
mod plan;
mod progress;
mod status;
#[cfg(test)]
mod tests;

pub use build::{Builder, Defect, Defects};
pub use errors::{Problem, Trouble};
pub use graph::{Edge, Graph, Node, Reason};
pub use handler::{Effect, Handler, Step};
pub use journal::{Controls, Journal, JournalError, Loaded};
pub use kube::{CANCEL, PAUSE, Phased, Phases, RETRY, annotated_controls};
pub use machine::{Change, Machine, Observer, Settings};
pub use model::{Phase, PhaseKind};
pub use plan::Plan;
pub use progress::Progress;
pub use status::{PhaseStatus, StepState, Visit};
