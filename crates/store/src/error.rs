//! What can go wrong, why, and what to do next.

use std::io;
use std::path::PathBuf;

use crate::model::{Entry, Revision};

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The compare failed; what is there now. Also: deleting what is absent.
    #[error("the key changed: it is now {}", match .current { Some(e) => format!("at revision {}", e.revision), None => "absent".into() })]
    Conflict { current: Option<Entry> },
    /// The guard of the write had changed; nothing was written.
    #[error("what the write depends on has changed")]
    Overtaken,
    #[error("the revision was compacted away; the oldest kept is {oldest}")]
    Compacted { oldest: Revision },
    #[error("the revision lies in the future; the current one is {current}")]
    Future { current: Revision },
    /// Nothing was written; reads go on, and the next write tries again.
    #[error("the disk is full: {0}")]
    Full(String),
    /// Nothing was written.
    #[error("the store takes no writes: {0}")]
    Unavailable(String),
    #[error("{file}: damaged at byte {offset}: {why}; the store is not opened so that no wrong data is served; restore a backup", file = .file.display())]
    Corrupt { file: PathBuf, offset: u64, why: String },
    #[error("{dir} is in use by process {pid}", dir = .dir.display(), pid = .holder.as_deref().unwrap_or("(unknown)"))]
    Locked { dir: PathBuf, holder: Option<String> },
    #[error("{file} says {found:?}, this program knows {known}; use the program version that wrote it", file = .file.display())]
    Version { file: PathBuf, found: String, known: String },
    #[error("a restore into {dir} was cut short; the store is not opened so that no part of it is taken for the whole; restore again", dir = .dir.display())]
    Unfinished { dir: PathBuf },
    #[error("{dir} holds data; restore into an empty directory", dir = .dir.display())]
    NotEmpty { dir: PathBuf },
    #[error("the value has {size} bytes, more than the {limit} allowed")]
    TooLarge { size: usize, limit: usize },
    /// Whether the write happened is not known.
    #[error("the outcome of the write is not known: {0}")]
    Unknown(String),
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
    /// The key ring, or a value that it does not open.
    #[error("sealing: {0}")]
    Seal(String),
    #[error("not supported by this engine: {0}")]
    Unsupported(&'static str),
    #[error("the store is shut down")]
    Closed,
}

impl Error {
    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> Error {
        Error::Io { what: what.into(), source }
    }
}
