//! Why credentials are not taken: every field that stands in the way, each with the way out, and never a value that may be secret.

use std::fmt;

/// Why credentials are not taken. Names the field and the way out, never a value that may be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}; {remedy}")]
pub struct Refused {
    /// Where, as a path into the document.
    pub field: String,
    /// What is wrong there.
    pub why: String,
    /// What to do.
    pub remedy: String,
}

impl Refused {
    pub(super) fn new(field: impl Into<String>, why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Refused { field: field.into(), why: why.into(), remedy: remedy.into() }
    }
}

/// Everything that is refused of one document, so that it can be mended at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusals {
    first: Refused,
    others: Vec<Refused>,
}

impl Refusals {
    /// None when nothing is refused.
    pub(super) fn of(all: Vec<Refused>) -> Option<Self> {
        let mut all = all.into_iter();
        let first = all.next()?;
        Some(Refusals { first, others: all.collect() })
    }

    /// The one that stands first in the document.
    pub fn first(&self) -> &Refused {
        &self.first
    }

    /// All of them, in the order of the document.
    pub fn iter(&self) -> impl Iterator<Item = &Refused> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// The same where the document is a part of another one.
    pub(crate) fn within(mut self, place: impl Fn(&str) -> String) -> Self {
        for refused in std::iter::once(&mut self.first).chain(&mut self.others) {
            refused.field = place(&refused.field);
        }
        self
    }
}

impl From<Refused> for Refusals {
    fn from(first: Refused) -> Self {
        Refusals { first, others: Vec::new() }
    }
}

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        self.others.iter().try_for_each(|refused| write!(f, "; and {refused}"))
    }
}

impl std::error::Error for Refusals {}

/// What is well is kept, what is not is written down, and the reading goes on.
pub(super) fn keep<T>(read: Result<T, Refused>, wrong: &mut Vec<Refused>) -> Option<T> {
    read.map_err(|refused| wrong.push(refused)).ok()
}
