//! What goes wrong, in the words the API server shows.

/// Why an expression does not compile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// One or more located errors, as `ERROR: <input>:1:6: …` with the source line below each.
    #[error("{0}")]
    Source(String),
    /// It compiles, but to the wrong type.
    #[error("must evaluate to a {0}")]
    Output(&'static str),
}

/// Why an evaluation gave no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    #[error("{0}")]
    Failed(String),
    /// The evaluation, or all that share its budget together, cost too much.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimit {
        /// Whether the budget shared by all evaluations is what ran out.
        total: bool,
    },
}
