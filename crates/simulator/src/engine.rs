//! A store without threads: the member's objects live in the tree alone, and a write is done when it returns. A thousand members cost
//! no thread more than one.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use store::{
    BackupInfo, Change, Engine, Error, Fed, Future, Health, KeyId, Result, Revision, Store, Tree, Write, Written,
};
use tokio::sync::Notify;

/// The largest value taken, as in a real server.
const MAX_VALUE: usize = 3 << 20;
/// How many writes pass between two looks at the past.
const TIDY: u64 = 64;

/// Opens an empty store that keeps about `history` events, and tells of every write through `written`.
pub(crate) fn open(history: u64, written: Arc<Notify>) -> Store {
    let tree = Arc::new(Tree::new());
    let engine = Quiet { tree: Arc::clone(&tree), turn: Mutex::new(()), history, written };
    Store::with_engine(tree, Arc::new(engine))
}

struct Quiet {
    tree: Arc<Tree>,
    /// Held from the compare to the set.
    turn: Mutex<()>,
    history: u64,
    written: Arc<Notify>,
}

impl Quiet {
    fn put(&self, Write { key, expect, change, guard }: Write) -> Result<Written> {
        if let Change::Put { value, .. } = &change
            && value.len() > MAX_VALUE
        {
            return Err(Error::TooLarge { size: value.len(), limit: MAX_VALUE });
        }
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(guard) = guard
            && self.tree.get(&guard.key).is_none_or(|entry| entry.revision != guard.revision)
        {
            return Err(Error::Overtaken);
        }
        let current = self.tree.get(&key);
        let absent_delete = matches!(change, Change::Delete) && current.is_none();
        if absent_delete || !expect.holds(current.as_ref().map(|entry| entry.revision)) {
            return Err(Error::Conflict { current });
        }
        let revision = self.tree.revision() + 1;
        self.tree.feed(vec![Fed { revision, key, change }], revision);
        if revision.is_multiple_of(TIDY) {
            self.tree.compact(revision.saturating_sub(self.history).max(self.tree.oldest()))?;
        }
        drop(turn);
        self.written.notify_one();
        Ok(Written { revision, prev: current })
    }
}

impl Engine for Quiet {
    fn write(&self, write: Write) -> Future<'_, Result<Written>> {
        Box::pin(async move { self.put(write) })
    }

    fn sync(&self) -> Future<'_, Result<Revision>> {
        Box::pin(async { Ok(self.tree.revision()) })
    }

    fn compact(&self, upto: Revision) -> Future<'_, Result<()>> {
        Box::pin(async move { self.tree.compact(upto) })
    }

    fn backup<'a>(&'a self, _: &'a Path) -> Future<'a, Result<BackupInfo>> {
        Box::pin(async { Err(Error::Unsupported("a simulated member has no backup")) })
    }

    fn reseal(&self) -> Future<'_, Result<KeyId>> {
        Box::pin(async { Err(Error::Unsupported("a simulated member seals nothing")) })
    }

    fn tend(&self) -> Future<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn health(&self) -> Health {
        Health::Ok
    }

    fn shutdown(&self) -> Future<'_, ()> {
        Box::pin(async {})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{Attrs, Collection, Expect, Guard, Key};

    fn write(name: &str, expect: Expect, value: &'static [u8]) -> Write {
        let key = Key::new(&Collection::new("things"), name);
        Write::new(key, expect, Change::Put { value: value.into(), attrs: Arc::new(Attrs::default()) })
    }

    #[tokio::test]
    async fn a_write_is_compared_seen_at_once_and_told() {
        let written = Arc::new(Notify::new());
        let store = open(10, Arc::clone(&written));
        let first = store.write(write("a", Expect::Absent, b"1")).await.unwrap();
        written.notified().await;
        assert!(store.write(write("a", Expect::Absent, b"2")).await.is_err());
        store.write(write("a", Expect::At(first.revision), b"3")).await.unwrap();
        let key = Key::new(&Collection::new("things"), "a");
        assert_eq!(&store.get(&key).unwrap().value[..], b"3");
        let gone = Key::new(&Collection::new("things"), "b");
        let delete = Write::new(gone, Expect::Anything, Change::Delete);
        assert!(matches!(store.write(delete).await, Err(Error::Conflict { current: None })));
    }

    #[tokio::test]
    async fn a_write_whose_guard_changed_does_not_happen() {
        let store = open(10, Arc::default());
        let lease = store.write(write("lease", Expect::Absent, b"1")).await.unwrap();
        let guard = Guard { key: Key::new(&Collection::new("things"), "lease"), revision: lease.revision };
        let guarded = |name: &str| Write { guard: Some(guard.clone()), ..write(name, Expect::Absent, b"x") };
        store.write(guarded("a")).await.unwrap();
        store.write(write("lease", Expect::Anything, b"2")).await.unwrap();
        assert!(matches!(store.write(guarded("b")).await, Err(Error::Overtaken)));
    }

    #[tokio::test]
    async fn the_past_is_bounded() {
        let store = open(10, Arc::default());
        for _ in 0..10 * TIDY {
            store.write(write("a", Expect::Anything, b"1")).await.unwrap();
        }
        assert!(store.revision() - store.oldest() <= 10 + TIDY);
        assert!(store.watch(&Collection::new("things"), "", 1).is_err() || store.oldest() > 1);
    }
}
