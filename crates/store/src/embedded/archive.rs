//! Folding the past: a snapshot where the kept history begins, then the segments before it go.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::backup;
use crate::clock::Clock;
use crate::embedded::{Segments, named, snapshot_path};
use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::held;
use crate::keeper::Archive;
use crate::model::{BackupInfo, Revision};
use crate::seal::{KeyId, Sealer};
use crate::snapshot::{self, Head, Kind};
use crate::tree::Tree;
use crate::writer::Ask;

const RETRY: Duration = Duration::from_secs(30);

pub(crate) struct FileArchive {
    pub fs: Arc<dyn Fs>,
    pub dir: PathBuf,
    pub segments: Segments,
    /// The newest snapshot's revision and length; zeros if there is none.
    pub snapshot: (Revision, u64),
    pub sealer: Sealer,
    pub clock: Arc<dyn Clock>,
    pub segment_bytes: u64,
    /// When a snapshot last failed: a full disk is not filled with another try at once.
    pub failed: Option<Duration>,
    /// Weak: the writer stops when the store lets go of its queue.
    pub writer: mpsc::WeakSender<Ask>,
    pub _lock: Arc<dyn Send + Sync>,
}

impl FileArchive {
    /// Bytes of the segments that hold nothing after `revision`.
    fn foldable(&self, revision: Revision) -> u64 {
        let segments = held!(self.segments.lock());
        segments.windows(2).filter(|pair| pair[1].first <= revision + 1).map(|pair| pair[0].bytes).sum()
    }

    fn fold(&mut self, tree: &Tree, revision: Revision) -> Result<()> {
        let path = snapshot_path(&self.dir, revision);
        let head = Head { kind: Kind::Snapshot, revision, created: self.clock.unix() };
        let (count, bytes) = snapshot::write(self.fs.as_ref(), &path, head, tree, &self.sealer)?;
        self.snapshot = (revision, bytes);
        tracing::debug!(revision, count, bytes, "snapshot written");
        self.sweep()
    }

    /// Removes files that the newest snapshot replaces.
    fn sweep(&self) -> Result<()> {
        let io = |what: &Path, e| Error::io(format!("removing {}", what.display()), e);
        let replaced = || match &held!(self.segments.lock())[..] {
            [old, next, ..] if next.first <= self.snapshot.0 + 1 => Some(old.path.clone()),
            _ => None,
        };
        // Not under the lock, which the writer needs: removing a large file takes its time.
        while let Some(path) = replaced() {
            match self.fs.remove(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io(&path, error)),
                _ => drop(held!(self.segments.lock()).remove(0)),
            }
        }
        for name in self.fs.list(&self.dir).map_err(|e| io(&self.dir, e))? {
            if named(&name, ".snap").is_some_and(|revision| revision < self.snapshot.0) {
                let path = self.dir.join(name);
                self.fs.remove(&path).map_err(|e| io(&path, e))?;
            }
        }
        self.fs.sync_dir(&self.dir).map_err(|e| io(&self.dir, e))
    }
}

impl Archive for FileArchive {
    fn compacted(&mut self, tree: &Tree, oldest: Revision) -> Result<()> {
        // A snapshot costs as much as the state is large: wait until that much journal can go for it.
        let worth = self.segment_bytes.max(self.snapshot.1 / 2);
        let now = self.clock.now();
        let waiting = self.failed.is_some_and(|then| now.saturating_sub(then) < RETRY);
        if waiting || oldest <= self.snapshot.0 || self.foldable(oldest) < worth {
            return Ok(());
        }
        let folded = self.fold(tree, oldest);
        self.failed = folded.is_err().then_some(now);
        folded
    }

    fn backup(&mut self, tree: &Tree, to: &Path) -> Result<BackupInfo> {
        backup::write(self.fs.as_ref(), to, tree, &self.sealer, self.clock.unix())
    }

    fn reseal(&mut self, tree: &Tree) -> Result<KeyId> {
        let key = self.sealer.primary()?;
        let (answer, answered) = oneshot::channel();
        let writer = self.writer.upgrade().ok_or(Error::Closed)?;
        writer.blocking_send(Ask::Roll(answer)).map_err(|_| Error::Closed)?;
        drop(writer);
        // From here on new frames are sealed under `key` or a newer one; what is older goes, all of it.
        let last = answered.blocking_recv().map_err(|_| Error::Closed)??;
        tree.compact(last)?;
        self.fold(tree, last)?;
        Ok(key)
    }
}
