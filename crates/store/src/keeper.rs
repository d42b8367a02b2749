//! The thread that looks after the past: drops history that is old enough and runs the store's other chores, one at a time, so
//! that nothing is compacted away under a snapshot or a backup.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::backup;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::fs::RealFs;
use crate::model::{BackupInfo, Revision};
use crate::options::{History, Options};
use crate::seal::{KeyId, Sealer};
use crate::tree::Tree;

pub(crate) enum Chore {
    Compact(Revision, oneshot::Sender<Result<()>>),
    Backup(PathBuf, oneshot::Sender<Result<BackupInfo>>),
    Reseal(oneshot::Sender<Result<KeyId>>),
    /// One round of looking after things, as each tick does.
    Tend(oneshot::Sender<Result<()>>),
    Stop,
}

/// What an engine does on disk for the keeper.
pub(crate) trait Archive: Send {
    /// The tree was compacted up to `oldest`: a chance to fold old files.
    fn compacted(&mut self, tree: &Tree, oldest: Revision) -> Result<()>;
    fn backup(&mut self, tree: &Tree, to: &Path) -> Result<BackupInfo>;
    fn reseal(&mut self, tree: &Tree) -> Result<KeyId>;
}

pub(crate) struct Keeper<A> {
    pub tree: Arc<Tree>,
    pub archive: A,
    pub chores: Receiver<Chore>,
    pub options: Options,
}

impl<A: Archive> Keeper<A> {
    pub(crate) fn run(mut self) {
        let mut past = Past::default();
        loop {
            let chore = match self.options.tick {
                Some(tick) => self.chores.recv_timeout(tick),
                None => self.chores.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match chore {
                Ok(Chore::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(error) = self.tend(&mut past) {
                        tracing::error!(%error, "looking after the store's files failed; it is tried again");
                    }
                }
                Ok(Chore::Tend(answer)) => drop(answer.send(self.tend(&mut past))),
                Ok(Chore::Compact(upto, answer)) => drop(answer.send(self.compact(upto))),
                Ok(Chore::Backup(to, answer)) => drop(answer.send(self.archive.backup(&self.tree, &to))),
                Ok(Chore::Reseal(answer)) => drop(answer.send(self.archive.reseal(&self.tree))),
            }
        }
    }

    fn compact(&mut self, upto: Revision) -> Result<()> {
        if upto < self.tree.oldest() {
            return Err(Error::Compacted { oldest: self.tree.oldest() });
        }
        self.tree.compact(upto)?;
        self.archive.compacted(&self.tree, self.tree.oldest())
    }

    fn tend(&mut self, past: &mut Past) -> Result<()> {
        let revision = self.tree.revision();
        let now = self.options.clock.now();
        past.saw(now, revision);
        let upto = past.end(now, &self.options.history, self.tree.oldest(), revision, self.tree.superseded());
        self.tree.compact(upto)?;
        self.archive.compacted(&self.tree, self.tree.oldest())
    }
}

/// Which revision was current when.
#[derive(Default)]
struct Past(VecDeque<(Duration, Revision)>);

impl Past {
    fn saw(&mut self, now: Duration, revision: Revision) {
        if self.0.back().is_none_or(|(_, last)| *last < revision) {
            self.0.push_back((now, revision));
        }
    }

    /// Where the past may end now.
    fn end(&mut self, now: Duration, bounds: &History, oldest: Revision, revision: Revision, bytes: u64) -> Revision {
        let mut upto = oldest;
        while let Some((seen, then)) = self.0.front().copied() {
            if now.saturating_sub(seen) < bounds.keep {
                break;
            }
            // Whatever is not newer than `then` happened before `seen`.
            upto = upto.max(then);
            self.0.pop_front();
        }
        upto = upto.max(revision.saturating_sub(bounds.max_events));
        if bytes > bounds.max_bytes {
            // What each event weighs is not known; half the events go, and half again next time if that was not enough.
            upto = upto.max(oldest + (revision - oldest) / 2);
        }
        upto.min(revision.saturating_sub(bounds.min_events)).max(oldest)
    }
}

/// For engines without files of their own.
pub(crate) struct NoArchive {
    pub sealer: Sealer,
    pub clock: Arc<dyn Clock>,
}

impl Archive for NoArchive {
    fn compacted(&mut self, _: &Tree, _: Revision) -> Result<()> {
        Ok(())
    }

    fn backup(&mut self, tree: &Tree, to: &Path) -> Result<BackupInfo> {
        backup::write(&RealFs, to, tree, &self.sealer, self.clock.unix())
    }

    fn reseal(&mut self, _: &Tree) -> Result<KeyId> {
        self.sealer.primary()
    }
}
