//! The embedded engine: a journal in segments and snapshots of the tree, in one directory.
//!
//! ```text
//! LOCK       held while open; says by whom
//! VERSION    the directory's format; written last, so a directory without it was never ready (or: a restore is under way)
//! R.log      journal segment whose first revision is R
//! R.snap     the whole state at revision R
//! ```
//! A snapshot stands where the kept history begins, so what is replayed after it is the history: watches resume over a restart.

mod archive;
mod frame;
mod journal;
mod open;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;

use crate::error::{Error, Result};
use crate::fs::{Fs, read_all, replace};
use crate::local::Local;
use crate::model::Revision;
use crate::options::Options;
use crate::tree::Tree;

pub(crate) const VERSION: &str = "muster store 1\n";
/// Stands in VERSION until a restore has put everything in its place; programs that do not know it refuse it as well.
pub(crate) const RESTORING: &str = "muster store 1, restore under way\n";

/// One journal file.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub first: Revision,
    pub path: PathBuf,
    pub bytes: u64,
}

/// The journal's files, oldest first; the last is being written.
pub(crate) type Segments = Arc<Mutex<Vec<Segment>>>;

pub(crate) fn open(fs: Arc<dyn Fs>, dir: &Path, options: Options) -> Result<(Arc<Tree>, Local)> {
    let tree = Arc::new(Tree::new());
    let opened = open::open(&fs, dir, &tree, &options)?;
    let (queue, asks) = mpsc::channel(options.queue.max(1));
    let segments: Segments = Arc::new(Mutex::new(opened.segments));
    let lock: Arc<dyn Send + Sync> = Arc::from(opened.lock);
    let journal = journal::FileJournal::new(
        fs.clone(),
        dir,
        opened.file,
        segments.clone(),
        options.sealer(),
        options.segment_bytes,
        lock.clone(),
    );
    let archive = archive::FileArchive {
        fs,
        dir: dir.into(),
        segments,
        snapshot: opened.snapshot,
        sealer: options.sealer(),
        clock: options.clock.clone(),
        segment_bytes: options.segment_bytes,
        failed: None,
        writer: queue.downgrade(),
        _lock: lock,
    };
    let local = Local::start(tree.clone(), journal, archive, (queue, asks), options);
    Ok((tree, local))
}

pub(crate) fn snapshot_path(dir: &Path, revision: Revision) -> PathBuf {
    dir.join(format!("{revision:020}.snap"))
}

fn segment_path(dir: &Path, first: Revision) -> PathBuf {
    dir.join(format!("{first:020}.log"))
}

/// The revision a file is named by.
fn named(name: &str, extension: &str) -> Option<Revision> {
    let digits = name.strip_suffix(extension)?;
    if digits.len() == 20 { digits.parse().ok() } else { None }
}

pub(crate) fn lock(fs: &dyn Fs, dir: &Path) -> Result<Box<dyn Send + Sync>> {
    let path = dir.join("LOCK");
    match fs.lock(&path) {
        Ok(lock) => Ok(lock),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            let holder = read_all(fs, &path).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let holder = holder.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
            Err(Error::Locked { dir: dir.into(), holder })
        }
        Err(error) => Err(Error::io(format!("locking {}", path.display()), error)),
    }
}

/// Makes the first segment and then the mark that the directory is ready.
pub(crate) fn initialise(fs: &dyn Fs, dir: &Path, first: Revision) -> Result<()> {
    let io = |e| Error::io(format!("making a store in {}", dir.display()), e);
    drop(journal::create_segment(fs, dir, first).map_err(io)?);
    mark(fs, dir, VERSION)
}

/// Says what the directory is; after a crash it is what it was or what it is to be.
pub(crate) fn mark(fs: &dyn Fs, dir: &Path, version: &str) -> Result<()> {
    let path = dir.join("VERSION");
    replace(fs, &path, version.as_bytes()).map_err(|e| Error::io(format!("writing {}", path.display()), e))
}

/// What must go before a restore: the leftovers of one that was cut short. Anything else is refused.
pub(crate) fn restorable(fs: &dyn Fs, dir: &Path) -> Result<Vec<String>> {
    let io = |e| Error::io(format!("reading {}", dir.display()), e);
    let mut names = fs.list(dir).map_err(io)?;
    names.retain(|name| name != "LOCK");
    let begun = names.iter().any(|name| name == "VERSION")
        && read_all(fs, &dir.join("VERSION")).map_err(io)? == RESTORING.as_bytes();
    let ours = |name: &String| {
        let data = named(name.trim_end_matches(".tmp"), ".snap").or_else(|| named(name, ".log")).is_some();
        name == "VERSION.tmp" || (begun && (name == "VERSION" || data))
    };
    if names.iter().all(ours) {
        return Ok(names);
    }
    Err(Error::NotEmpty { dir: dir.into() })
}
