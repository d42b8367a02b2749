//! Revisions, compare-and-set, ranges, watches and durability over plain bytes; nothing here knows what the bytes mean.
//!
//! All reads are answered by the in-memory [`Tree`]; an [`Engine`] is only the write half: it makes a write durable, gives it a
//! revision and feeds it to the tree.

mod backup;
mod clock;
mod embedded;
mod error;
pub mod etcd;
mod fs;
mod keeper;
mod local;
mod model;
mod options;
mod record;
mod seal;
mod snapshot;
mod store;
pub mod testing;
mod tree;
mod watch;
mod writer;

pub use backup::{RESTORE_LEAP, restore, verify};
pub use clock::{Clock, SystemClock};
pub use error::{Error, Result};
pub use fs::{File, Fs, RealFs};
pub use model::{
    Attrs, BackupInfo, Change, Collection, Describe, Entry, Event, Expect, Guard, Health, Key, Page, Range, Revision,
    Write, Written, mark,
};
pub use options::{History, Options};
pub use seal::{KeyId, KeyRing, Sealer};
pub use store::{Engine, Future, Store};
pub use tree::{Fed, Tree};
pub use watch::Watch;

/// Takes a lock even if a thread died holding it: every critical section here leaves its data whole at each step.
macro_rules! held {
    ($guard:expr) => {
        $guard.unwrap_or_else(std::sync::PoisonError::into_inner)
    };
}
pub(crate) use held;
