//! The engine of stores whose truth is in this process: a writer thread and a keeper thread around the tree.

use std::path::Path;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

use crate::error::{Error, Result};
use crate::held;
use crate::keeper::{Archive, Chore, Keeper, NoArchive};
use crate::model::{BackupInfo, Change, Health, Revision, Write, Written};
use crate::options::Options;
use crate::seal::KeyId;
use crate::store::{Engine, Future};
use crate::tree::Tree;
use crate::writer::{Ask, Journal, NoJournal, Writer};

/// Chores that may wait; more are refused.
const CHORES: usize = 64;

pub(crate) struct Local {
    tree: Arc<Tree>,
    queue: Mutex<Option<mpsc::Sender<Ask>>>,
    chores: Mutex<Option<SyncSender<Chore>>>,
    health: Arc<Mutex<Health>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    max_value: usize,
}

impl Local {
    pub(crate) fn memory(tree: Arc<Tree>, options: Options) -> Local {
        let archive = NoArchive { sealer: options.sealer(), clock: options.clock.clone() };
        let (queue, asks) = mpsc::channel(options.queue.max(1));
        Local::start(tree, NoJournal, archive, (queue, asks), options)
    }

    pub(crate) fn start(
        tree: Arc<Tree>,
        journal: impl Journal + 'static,
        archive: impl Archive + 'static,
        (queue, asks): (mpsc::Sender<Ask>, mpsc::Receiver<Ask>),
        options: Options,
    ) -> Local {
        let (chores, todo) = sync_channel(CHORES);
        let health = Arc::new(Mutex::new(Health::Ok));
        let max_value = options.max_value;
        let writer = Writer { tree: tree.clone(), journal, queue: asks, health: health.clone() };
        let keeper = Keeper { tree: tree.clone(), archive, chores: todo, options };
        let threads = vec![
            std::thread::Builder::new().name("store-writer".into()).spawn(move || writer.run()),
            std::thread::Builder::new().name("store-keeper".into()).spawn(move || keeper.run()),
        ];
        // A thread that cannot be started drops its end of the queue: every write is then refused as closed.
        let threads = threads.into_iter().filter_map(|t| t.inspect_err(|e| tracing::error!(%e, "no thread")).ok());
        Local {
            threads: Mutex::new(threads.collect()),
            tree,
            queue: Mutex::new(Some(queue)),
            chores: Mutex::new(Some(chores)),
            health,
            max_value,
        }
    }

    fn queue(&self) -> Result<mpsc::Sender<Ask>> {
        held!(self.queue.lock()).clone().ok_or(Error::Closed)
    }

    async fn chore<T>(&self, make: impl FnOnce(oneshot::Sender<Result<T>>) -> Chore) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let chores = held!(self.chores.lock()).clone().ok_or(Error::Closed)?;
        match chores.try_send(make(answer)) {
            Ok(()) => answered.await.map_err(|_| Error::Closed)?,
            Err(TrySendError::Full(_)) => Err(Error::Unavailable("too many chores are waiting".into())),
            Err(TrySendError::Disconnected(_)) => Err(Error::Closed),
        }
    }

    /// One round of looking after history and files, now.
    pub(crate) async fn tend(&self) -> Result<()> {
        self.chore(Chore::Tend).await
    }

    /// After what it is doing now; if its queue is full, after that.
    fn stop_keeper(&self) {
        if let Some(chores) = held!(self.chores.lock()).take() {
            let _ = chores.try_send(Chore::Stop);
        }
    }

    fn join(&self) {
        let threads: Vec<_> = std::mem::take(&mut *held!(self.threads.lock()));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the store died");
            }
        }
    }
}

impl Engine for Local {
    fn write(&self, write: Write) -> Future<'_, Result<Written>> {
        Box::pin(async move {
            if let Change::Put { value, .. } = &write.change
                && value.len() > self.max_value
            {
                return Err(Error::TooLarge { size: value.len(), limit: self.max_value });
            }
            let queue = self.queue()?;
            let (answer, answered) = oneshot::channel();
            queue.send(Ask::Write(write, answer)).await.map_err(|_| Error::Closed)?;
            answered.await.map_err(|_| Error::Unknown("the writer stopped".into()))?
        })
    }

    fn sync(&self) -> Future<'_, Result<Revision>> {
        // Every acknowledged write is already in the tree.
        Box::pin(async { Ok(self.tree.revision()) })
    }

    fn compact(&self, upto: Revision) -> Future<'_, Result<()>> {
        Box::pin(self.chore(move |answer| Chore::Compact(upto, answer)))
    }

    fn backup<'a>(&'a self, to: &'a Path) -> Future<'a, Result<BackupInfo>> {
        Box::pin(self.chore(move |answer| Chore::Backup(to.into(), answer)))
    }

    fn reseal(&self) -> Future<'_, Result<KeyId>> {
        Box::pin(self.chore(Chore::Reseal))
    }

    fn tend(&self) -> Future<'_, Result<()>> {
        Box::pin(Local::tend(self))
    }

    fn health(&self) -> Health {
        held!(self.health.lock()).clone()
    }

    fn shutdown(&self) -> Future<'_, ()> {
        Box::pin(async {
            let queue = held!(self.queue.lock()).take();
            if let Some(queue) = queue {
                let (answer, answered) = oneshot::channel();
                if queue.send(Ask::Stop(answer)).await.is_ok() {
                    let _ = answered.await;
                }
            }
            self.stop_keeper();
            let threads: Vec<_> = std::mem::take(&mut *held!(self.threads.lock()));
            let _ = tokio::task::spawn_blocking(move || threads.into_iter().for_each(|t| drop(t.join()))).await;
        })
    }
}

/// A store that is dropped without a shutdown still stops its threads, and with them frees its lock.
impl Drop for Local {
    fn drop(&mut self) {
        held!(self.queue.lock()).take();
        self.stop_keeper();
        self.join();
    }
}
