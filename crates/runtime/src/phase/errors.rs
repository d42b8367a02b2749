//! Why a step did not succeed: for good, for now, or because it was told to stop.

use std::fmt;

/// A reason in one CamelCase word, for conditions and Events, and the sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// CamelCase, stable.
    pub reason: String,
    /// What failed, why, what to do.
    pub message: String,
}

impl Problem {
    /// `reason` is CamelCase; anything else becomes `Error`, because an API server would refuse the condition.
    pub fn new(reason: &str, message: impl fmt::Display) -> Self {
        let fits = reason.starts_with(|c: char| c.is_ascii_alphabetic())
            && reason.len() <= 128
            && reason.chars().all(|c| c.is_ascii_alphanumeric());
        let reason = if fits { reason.to_owned() } else { "Error".to_owned() };
        Self { reason, message: shortened(&message.to_string(), 1024) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

/// At most `limit` bytes of a text, cut between characters, with a mark where it was cut.
pub(crate) fn shortened(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let mut end = limit.saturating_sub("…".len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

/// An error of the API in its own words, without the dump of the whole answer.
pub(crate) fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// How a step ends when it does not end well.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Trouble {
    /// Trying again cannot help: the failure transition.
    #[error("{0}")]
    Fatal(Problem),
    /// Tried again after a growing pause: the network, a server that restarts, a conflict.
    #[error("{0}")]
    Retry(Problem),
    /// The machine told the step to stop (cancel, pause, deadline, a failed sibling, a lost journal). Pass it on with `?`.
    #[error("told to stop")]
    Stopped,
}

impl Trouble {
    /// Trying again cannot help.
    pub fn fatal(reason: &str, message: impl fmt::Display) -> Self {
        Self::Fatal(Problem::new(reason, message))
    }

    /// Trying again may help.
    pub fn retry(reason: &str, message: impl fmt::Display) -> Self {
        Self::Retry(Problem::new(reason, message))
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self::retry("InputOutput", error)
    }
}

impl From<kube::Error> for Trouble {
    /// An object the API will never take is fatal; everything else (network, conflict, overload, a right not yet granted) may pass.
    fn from(error: kube::Error) -> Self {
        match &error {
            kube::Error::Api(status) if matches!(status.code, 400 | 405 | 422) => Self::fatal("Refused", said(&error)),
            _ => Self::retry("ApiUnavailable", said(&error)),
        }
    }
}
