//! Several servers may share a store: before anybody is refused because of what an object is, it is looked at as it is now.

use super::storage;
use crate::kinds::Kind;
use crate::{Inner, namespaces};
use meta::Status;
use store::Key;

impl Inner {
    /// Whether an object may be made in the namespace, which another server may have made a moment ago.
    pub(super) async fn enter(&self, kind: &Kind, namespace: &str, name: &str) -> Result<(), Status> {
        if namespaces::admit(self, kind, namespace, name).is_ok() {
            return Ok(());
        }
        self.store.sync().await.map_err(storage)?;
        namespaces::admit(self, kind, namespace, name)
    }

    /// Whether an object is no longer what it was when it was seen (with that revision, or not at all): another server wrote it, and we
    /// learn of it only now.
    pub async fn is_outdated(&self, key: &Key, seen: Option<u64>) -> Result<bool, Status> {
        self.store.sync().await.map_err(storage)?;
        Ok(self.store.get(key).map(|entry| entry.revision) != seen)
    }

    /// A refusal stands if what it rests on is still so.
    pub(super) async fn judge_again(&self, key: &Key, seen: Option<u64>, refused: Status) -> Result<(), Status> {
        if self.is_outdated(key, seen).await? { Ok(()) } else { Err(refused) }
    }
}
