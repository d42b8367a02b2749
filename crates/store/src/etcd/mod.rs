//! The etcd engine: writes are transactions in etcd, and the tree follows etcd's watch. Several servers may share one etcd.

mod client;
mod compaction;
mod config;
mod core;
mod feed;
mod layout;
mod reseal;
mod sync;
mod wire;
mod write;

use std::path::Path;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use self::client::Client;
pub use self::config::{Config, Login, Tls};
use self::core::Core;
use self::sync::Syncs;
use self::wire::RangeResponse;
use crate::error::{Error, Result};
use crate::held;
use crate::keeper::{Chore, Keeper, NoArchive};
use crate::model::{BackupInfo, Health, Revision, Write, Written};
use crate::options::Options;
use crate::seal::KeyId;
use crate::store::{Engine, Future};
use crate::tree::Tree;

/// Chores that may wait; more are refused.
const CHORES: usize = 64;

pub(crate) struct Etcd {
    core: Arc<Core>,
    syncs: Syncs,
    chores: SyncSender<Chore>,
    compaction: Arc<compaction::Turn>,
    /// Stopped when dropped.
    tasks: Mutex<JoinSet<()>>,
    writes: usize,
}

/// Lists everything, then follows. Fails if etcd does not answer within the deadline.
pub(crate) async fn open(config: Config, options: Options) -> Result<(Arc<Tree>, Etcd)> {
    let mut writer = [0; 8];
    aws_lc_rs::rand::fill(&mut writer).map_err(|_| Error::Unavailable("no randomness".into()))?;
    let client = Client::new(&config)?;
    let core = Arc::new(Core::new(config, &options, client, u64::from_le_bytes(writer)));
    core.client.one_cluster::<_, RangeResponse>(wire::RANGE, &core.layout.probe()).await?;
    feed::load(&core).await?;

    let mut tasks = JoinSet::new();
    tasks.spawn(feed::follow(core.clone()));
    let syncs = Syncs::start(&core, &mut tasks);
    let compaction = Arc::new(compaction::Turn::default());
    if let Some(every) = core.config.compact_every {
        tasks.spawn(compaction::now_and_then(core.clone(), compaction.clone(), every));
    }
    let (chores, todo) = sync_channel(CHORES);
    let archive = NoArchive { sealer: core.sealer.clone(), clock: options.clock.clone() };
    let writes = options.queue.clamp(1, tokio::sync::Semaphore::MAX_PERMITS);
    let keeper = Keeper { tree: core.tree.clone(), archive, chores: todo, options };
    std::thread::Builder::new()
        .name("store-keeper".into())
        .spawn(move || keeper.run())
        .map_err(|e| Error::io("starting the keeper", e))?;
    Ok((core.tree.clone(), Etcd { core, syncs, chores, compaction, tasks: Mutex::new(tasks), writes }))
}

impl Etcd {
    async fn chore<T>(&self, make: impl FnOnce(oneshot::Sender<Result<T>>) -> Chore) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        match self.chores.try_send(make(answer)) {
            Ok(()) => answered.await.map_err(|_| Error::Closed)?,
            Err(TrySendError::Full(_)) => Err(Error::Unavailable("too many chores are waiting".into())),
            Err(TrySendError::Disconnected(_)) => Err(Error::Closed),
        }
    }
}

impl Engine for Etcd {
    fn write(&self, write: Write) -> Future<'_, Result<Written>> {
        Box::pin(async move {
            let place = timeout_at(self.core.deadline(), self.core.gate.acquire()).await;
            let _place = place
                .map_err(|_| Error::Unavailable("too many writes are waiting".into()))?
                .map_err(|_| Error::Closed)?;
            write::write(&self.core, write).await
        })
    }

    fn sync(&self) -> Future<'_, Result<Revision>> {
        Box::pin(self.syncs.sync(&self.core))
    }

    fn compact(&self, upto: Revision) -> Future<'_, Result<()>> {
        Box::pin(async move {
            self.chore(move |answer| Chore::Compact(upto, answer)).await?;
            compaction::compact(&self.core, upto).await
        })
    }

    fn backup<'a>(&'a self, to: &'a Path) -> Future<'a, Result<BackupInfo>> {
        Box::pin(self.chore(move |answer| Chore::Backup(to.into(), answer)))
    }

    fn reseal(&self) -> Future<'_, Result<KeyId>> {
        Box::pin(async {
            let needed = reseal::reseal(&self.core).await?;
            self.compact(self.core.tree.revision()).await?;
            Ok(needed)
        })
    }

    fn tend(&self) -> Future<'_, Result<()>> {
        Box::pin(async {
            self.chore(Chore::Tend).await?;
            self.compaction.take(&self.core).await
        })
    }

    fn health(&self) -> Health {
        self.core.health()
    }

    fn shutdown(&self) -> Future<'_, ()> {
        Box::pin(async {
            // When all places are ours, no write is on its way.
            let all = u32::try_from(self.writes).unwrap_or(u32::MAX);
            let _ = timeout_at(self.core.deadline(), self.core.gate.acquire_many(all)).await;
            self.core.gate.close();
            let mut tasks = std::mem::take(&mut *held!(self.tasks.lock()));
            tasks.shutdown().await;
            let _ = self.chores.try_send(Chore::Stop);
        })
    }
}
