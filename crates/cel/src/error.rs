//! What goes wrong, in the words the API server shows.

use std::fmt::Write;

/// Why an expression does not compile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// One or more located errors, as `ERROR: <input>:1:6: …` with the source line below each.
    #[error("{0}")]
    Source(String),
    /// It compiles, but to the wrong type.
    #[error("must evaluate to a {0}")]
    Output(&'static str),
    /// A constant part of it fails whenever it is evaluated.
    #[error("program instantiation failed: {0}")]
    Constant(String),
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

/// Errors found in one source text, by place.
#[derive(Debug, Default)]
pub(crate) struct Issues {
    found: Vec<(Option<u32>, String)>,
}

/// After so many, reading on helps nobody.
const MAX_ISSUES: usize = 100;

impl Issues {
    pub fn add(&mut self, at: u32, message: String) {
        if self.found.len() < MAX_ISSUES {
            self.found.push((Some(at), message));
        }
    }

    /// An error of the whole text.
    pub fn add_everywhere(&mut self, message: String) {
        self.found.push((None, message));
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub fn render(mut self, source: &str) -> String {
        self.found.sort_by_key(|(at, _)| *at);
        let mut out = String::new();
        for (at, message) in &self.found {
            if !out.is_empty() {
                out.push('\n');
            }
            match at {
                Some(at) => render(&mut out, source, *at as usize, message),
                None => {
                    let _ = write!(out, "ERROR: <input>:-1:0: {message}");
                }
            }
        }
        out
    }
}

/// Longer lines are not shown.
const MAX_SNIPPET: usize = 16_384;

/// The message, the line, and a caret below the column; wide characters get wide dots.
fn render(out: &mut String, source: &str, at: usize, message: &str) {
    let before = &source[..at];
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = source[start..].split('\n').next().unwrap_or_default();
    let column = source[start..at].chars().count() + 1;
    let row = before.matches('\n').count() + 1;
    let _ = write!(out, "ERROR: <input>:{row}:{column}: {message}");
    if line.len() > MAX_SNIPPET {
        return;
    }
    let _ = write!(out, "\n | {}\n | ", line.replace('\t', " "));
    out.extend(source[start..at].chars().map(|c| if c.is_ascii() { '.' } else { '．' }));
    out.push(if source[at..].chars().next().is_none_or(|c| c.is_ascii()) { '^' } else { '＾' });
}
