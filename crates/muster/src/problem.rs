//! What went wrong, why, and what to do about it: the only way this program fails.

use std::{fmt, process::ExitCode};

/// How the program ends, as `muster --help` documents it: a code means one thing, whichever command ends with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 1: something failed while running.
    Failed,
    /// 2: the command line, or a file or variable it names, is wrong. 3 is kept for a difference that was found.
    Usage,
    /// 1: stored data cannot be used.
    Storage,
    /// 4: what was waited for did not come in time.
    Timeout,
    /// 5: the server does not let the caller.
    Forbidden,
    /// 6: there is no such thing.
    NotFound,
    /// 7: something stands against it.
    Conflict,
    /// 7: a port or the data directory is in use.
    InUse,
    /// 8: nobody answers there.
    Unreachable,
}

#[derive(Debug)]
pub struct Problem {
    kind: Kind,
    what: String,
    why: String,
    next: String,
}

impl Problem {
    pub fn new(kind: Kind, what: impl Into<String>, why: impl fmt::Display) -> Problem {
        Problem { kind, what: what.into(), why: why.to_string(), next: String::new() }
    }

    pub fn next(mut self, next: impl Into<String>) -> Problem {
        self.next = next.into();
        self
    }

    /// What and why in one line, for whoever knows better what to do.
    pub fn brief(&self) -> String {
        format!("{}: {}", self.what, self.why)
    }

    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code())
    }

    pub fn code(&self) -> u8 {
        match self.kind {
            Kind::Failed | Kind::Storage => 1,
            Kind::Usage => 2,
            Kind::Timeout => 4,
            Kind::Forbidden => 5,
            Kind::NotFound => 6,
            Kind::Conflict | Kind::InUse => 7,
            Kind::Unreachable => 8,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}\n  because: {}", self.what, self.why)?;
        if !self.next.is_empty() {
            write!(f, "\n  try: {}", self.next)?;
        }
        Ok(())
    }
}

impl From<pki::Error> for Problem {
    fn from(error: pki::Error) -> Self {
        Problem::new(Kind::Usage, "the certificates cannot be used", error)
    }
}

impl From<store::Error> for Problem {
    fn from(error: store::Error) -> Self {
        let why = error.to_string();
        match error {
            store::Error::Locked { .. } => Problem::new(Kind::InUse, "the data directory is in use", why)
                .next("stop that process, or choose another directory with --data-dir"),
            store::Error::Seal(_) => Problem::new(Kind::Storage, "the encryption keys cannot be used", why)
                .next("put back the key file that was in use when the data was written (--encryption-key-file)"),
            store::Error::Corrupt { .. } => Problem::new(Kind::Storage, "the stored data is damaged", why)
                .next("move the store folder aside and run: muster backup restore FILE"),
            store::Error::Unfinished { .. } => Problem::new(Kind::Storage, "the stored data is not all there", why)
                .next("run again: muster backup restore FILE"),
            store::Error::Version { .. } => Problem::new(Kind::Storage, "the stored data is of another version", why),
            _ => Problem::new(Kind::Storage, "the store failed", why),
        }
    }
}
