//! The Common Expression Language as Kubernetes uses it in CRD validation rules. Pure: no I/O, no clock.
//!
//! An expression is read (`syntax`), checked against the schema's types (`check`), reckoned at its worst (`estimate`) and planned
//! (`eval::plan`) once; then it runs (`eval`) on JSON that is borrowed, not copied (`value`), within a [`Budget`]. Words of errors,
//! costs and limits are those of kube-apiserver 1.34.

mod base64;
mod budget;
mod check;
mod decl;
mod error;
mod escape;
mod estimate;
mod eval;
mod explain;
mod functions;
pub mod pattern;
mod program;
mod syntax;
mod value;

pub use budget::Budget;
pub use decl::{Decl, Identity, MAX_REQUEST_BYTES};
pub use error::{CompileError, EvalError};
pub use escape::{escape, unescape};
#[doc(hidden)]
pub use program::explain;
pub use program::{OldSelf, Outcome, Output, Program};

/// What one evaluation may cost.
pub const PER_CALL_LIMIT: u64 = 1_000_000;
/// What all evaluations for one object may cost together.
pub const OBJECT_BUDGET: u64 = 10_000_000;
