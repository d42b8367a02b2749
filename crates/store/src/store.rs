//! The face of the room: reads go to the tree, writes to the engine.

use std::future::Future as StdFuture;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use crate::embedded;
use crate::error::Result;
use crate::etcd;
use crate::fs::Fs;
use crate::local::Local;
use crate::model::{BackupInfo, Collection, Entry, Health, Key, Page, Range, Revision, Write, Written};
use crate::options::Options;
use crate::seal::KeyId;
use crate::tree::Tree;
use crate::watch::Watch;

pub type Future<'a, T> = Pin<Box<dyn StdFuture<Output = T> + Send + 'a>>;

/// The write half of a store. An engine answers a write only when it is durable and already visible in the tree.
pub trait Engine: Send + Sync {
    fn write(&self, write: Write) -> Future<'_, Result<Written>>;
    /// A revision at least as new as any write acknowledged anywhere before the call, visible in the tree.
    fn sync(&self) -> Future<'_, Result<Revision>>;
    fn compact(&self, upto: Revision) -> Future<'_, Result<()>>;
    fn backup<'a>(&'a self, to: &'a Path) -> Future<'a, Result<BackupInfo>>;
    /// Rewrites what is sealed under older keys and answers with the oldest key still needed (0 without a key ring).
    fn reseal(&self) -> Future<'_, Result<KeyId>>;
    /// One round of looking after history and files, which otherwise happens by itself.
    fn tend(&self) -> Future<'_, Result<()>>;
    fn health(&self) -> Health;
    fn shutdown(&self) -> Future<'_, ()>;
}

#[derive(Clone)]
pub struct Store {
    tree: Arc<Tree>,
    engine: Arc<dyn Engine>,
}

impl Store {
    /// Nothing survives the process.
    pub fn memory(options: Options) -> Store {
        let tree = Arc::new(Tree::new());
        Store { engine: Arc::new(Local::memory(tree.clone(), options)), tree }
    }

    /// Lives in a directory, which it holds alone. Refuses a damaged one rather than serve wrong data.
    pub fn embedded(fs: Arc<dyn Fs>, dir: &Path, options: Options) -> Result<Store> {
        let (tree, engine) = embedded::open(fs, dir, options)?;
        Ok(Store { tree, engine: Arc::new(engine) })
    }

    /// Lives in etcd, which several servers may share. Fails if etcd does not answer within the deadline.
    pub async fn etcd(config: etcd::Config, options: Options) -> Result<Store> {
        let (tree, engine) = etcd::open(config, options).await?;
        Ok(Store { tree, engine: Arc::new(engine) })
    }

    /// A store whose engine feeds `tree`.
    pub fn with_engine(tree: Arc<Tree>, engine: Arc<dyn Engine>) -> Store {
        Store { tree, engine }
    }

    /// The newest revision readers see.
    pub fn revision(&self) -> Revision {
        self.tree.revision()
    }

    /// Waits until reads are at least as new as any write acknowledged anywhere before the call.
    pub async fn sync(&self) -> Result<Revision> {
        self.engine.sync().await
    }

    pub fn get(&self, key: &Key) -> Option<Entry> {
        self.tree.get(key)
    }

    pub fn range(&self, range: &Range<'_>, filter: impl FnMut(&str, &Entry) -> bool) -> Result<Page> {
        self.tree.range(range, filter)
    }

    /// Live items under the prefix; costs nothing for `""` and `"namespace/"`.
    pub fn count(&self, collection: &Collection, prefix: &str) -> usize {
        self.tree.count(collection, prefix)
    }

    /// Deleting what is absent is a conflict, even when anything is expected. Once begun, a write may happen even if the caller stops waiting.
    pub async fn write(&self, write: Write) -> Result<Written> {
        self.engine.write(write).await
    }

    /// Events after `after`, in order, each once.
    pub fn watch(&self, collection: &Collection, prefix: &str, after: Revision) -> Result<Watch> {
        self.tree.watch(collection, prefix, after)
    }

    /// Forgets what was before `upto`: older revisions can no longer be read or watched from.
    pub async fn compact(&self, upto: Revision) -> Result<()> {
        self.engine.compact(upto).await
    }

    /// The oldest revision that can still be read or watched from.
    pub fn oldest(&self) -> Revision {
        self.tree.oldest()
    }

    /// The collections that hold something.
    pub fn collections(&self) -> Vec<Collection> {
        self.tree.collections()
    }

    pub fn health(&self) -> Health {
        self.engine.health()
    }

    /// Writes a consistent, checksummed copy into one file while the store goes on.
    pub async fn backup(&self, to: &Path) -> Result<BackupInfo> {
        self.engine.backup(to).await
    }

    /// Rewrites what is sealed under older keys and answers with the oldest key still needed, up to which the ring may be
    /// [pruned](crate::KeyRing::prune): no file of the store holds anything under an older one (backups made before still do).
    /// History before the call is compacted.
    pub async fn reseal(&self) -> Result<KeyId> {
        self.engine.reseal().await
    }

    /// One round of looking after history and files, which otherwise happens by itself.
    pub async fn tend(&self) -> Result<()> {
        self.engine.tend().await
    }

    /// Finishes queued writes, flushes, stops the threads and releases the lock. Watches end with [`Error::Closed`](crate::Error::Closed).
    pub async fn shutdown(&self) {
        self.engine.shutdown().await;
        self.tree.close();
    }
}
