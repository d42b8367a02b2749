//! The Common Expression Language as Kubernetes uses it in CRD validation rules. Pure: no I/O, no clock.

mod budget;
mod decl;
mod error;
mod program;

pub use budget::Budget;
pub use decl::{Decl, Identity};
pub use error::{CompileError, EvalError};
pub use program::{OldSelf, Outcome, Output, Program};

/// What one evaluation may cost.
pub const PER_CALL_LIMIT: u64 = 1_000_000;
/// What all evaluations for one object may cost together.
pub const OBJECT_BUDGET: u64 = 10_000_000;
