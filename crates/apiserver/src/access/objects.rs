//! The stored objects tokens depend on: their account, and what they are bound to.

use auth::{BoundKind, Found, Objects};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use memchr::memmem;
use meta::Object;
use serde_json::Value;
use std::sync::Arc;
use store::{Collection, Key, Store};

pub(super) struct Stored {
    store: Store,
    accounts: Collection,
    secrets: Collection,
    pods: Collection,
    nodes: Collection,
}

impl Stored {
    pub fn new(store: Store) -> Self {
        let core = |plural: &str| Collection::new(&format!("core/{plural}"));
        Self {
            store,
            accounts: core("serviceaccounts"),
            secrets: core("secrets"),
            pods: core("pods"),
            nodes: core("nodes"),
        }
    }
}

impl Objects for Stored {
    fn find(&self, kind: BoundKind, item: &Arc<str>, uid: &str, deleted_before: i64) -> Found {
        let collection = match kind {
            BoundKind::ServiceAccount => &self.accounts,
            BoundKind::Secret => &self.secrets,
            BoundKind::Pod => &self.pods,
            BoundKind::Node => &self.nodes,
        };
        let key = Key { collection: collection.clone(), item: item.clone() };
        match self.store.get(&key) {
            None => Found::Gone,
            Some(entry) if &*entry.attrs.uid != uid => Found::Other(entry.attrs.uid.to_string()),
            Some(entry) if was_deleted(&entry.value, deleted_before) => Found::Gone,
            Some(_) => Found::Same,
        }
    }

    fn token_in(&self, item: &Arc<str>) -> Option<Vec<u8>> {
        let entry = self.store.get(&Key { collection: self.secrets.clone(), item: item.clone() })?;
        let secret = Object::from_value(meta::json::parse(&entry.value).ok()?.value)?;
        if secret.is_deleting() {
            return None;
        }
        BASE64_STANDARD.decode(secret.0.get("data")?.get("token")?.as_str()?).ok()
    }
}

/// Only what is being deleted is parsed, and that is rare.
fn was_deleted(value: &[u8], before: i64) -> bool {
    if memmem::find(value, b"\"deletionTimestamp\":").is_none() {
        return false;
    }
    let object = meta::json::parse(value).ok().and_then(|parsed| Object::from_value(parsed.value)).unwrap_or_default();
    let at = object.meta().get("deletionTimestamp").and_then(Value::as_str);
    at.and_then(|at| at.parse::<jiff::Timestamp>().ok()).is_some_and(|at| at.as_second() < before)
}
