//! What can be done to stored objects, whoever asks: the rules of create, update and delete over compare-and-set.

mod create;
mod delete;
mod update;

pub(crate) use delete::{Deleted, preconditions};

use crate::Inner;
use crate::kinds::{Kind, metadata};
use crate::ownership::{self, By};
use bytes::Bytes;
use meta::{Object, Status, time};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;
use store::{Attrs, Entry, Key};

/// How often a write is tried again when somebody else was faster; more means a live-lock worth telling.
const RETRIES: usize = 64;

/// An object in stored form with its revision.
#[derive(Clone)]
pub(crate) struct Stored {
    pub value: Bytes,
    pub revision: u64,
}

impl From<Entry> for Stored {
    fn from(entry: Entry) -> Self {
        Self { value: entry.value, revision: entry.revision }
    }
}

/// Which part of an object a write is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    Status,
    Finalize,
    /// The containers that look into a running pod.
    EphemeralContainers,
    /// The resources of a pod's containers.
    Resize,
}

impl Part {
    /// The subresource it is written through.
    pub fn subresource(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Finalize => "finalize",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Resize => "resize",
        }
    }
}

impl Inner {
    /// Decodes a stored value into the form `kind` serves, with its resourceVersion.
    pub fn decode_stored(&self, kind: &Kind, value: &[u8], revision: u64) -> Result<Object, Status> {
        let parsed =
            meta::json::parse(value).map_err(|e| Status::internal(format!("stored object is damaged: {e}")))?;
        let mut object = Object::from_value(parsed.value).unwrap_or_default();
        kind.to_served(&mut object, revision);
        object.set_revision(revision);
        Ok(object)
    }

    /// The same for somebody who changes the object: its owners stay JSON, and are not part of it.
    fn decode_owned<'e>(&self, kind: &Kind, entry: &'e Entry) -> Result<(Object, Cow<'e, [u8]>), Status> {
        let Some((owners, field)) = meta::object::managed_fields(&entry.value) else {
            let mut object = self.decode_stored(kind, &entry.value, entry.revision)?;
            let owners = object.meta_mut().remove("managedFields").map(|owners| owners.to_string().into_bytes());
            return Ok((object, Cow::Owned(owners.unwrap_or_default())));
        };
        let mut rest = Vec::with_capacity(entry.value.len() - field.len());
        rest.extend_from_slice(&entry.value[..field.start]);
        rest.extend_from_slice(&entry.value[field.end..]);
        Ok((self.decode_stored(kind, &rest, entry.revision)?, Cow::Borrowed(&entry.value[owners])))
    }

    fn encode(&self, kind: &Kind, object: &Object, owners: &[u8]) -> (Bytes, Arc<Attrs>) {
        let mut converted = None;
        let stored = if kind.converts() {
            let converted = converted.insert(object.clone());
            kind.to_stored(converted);
            converted
        } else {
            object
        };
        // Boxed first: spare capacity would be kept for as long as the object lives.
        (stored.encode_with(owners).into_boxed_slice().into(), Arc::new(kind.describe(stored)))
    }

    /// Whether an object is no longer what it was when it was seen (with that revision, or not at all): another server wrote it, and we
    /// learn of it only now.
    pub async fn is_outdated(&self, key: &Key, seen: Option<u64>) -> Result<bool, Status> {
        self.store.sync().await.map_err(storage)?;
        Ok(self.store.get(key).map(|entry| entry.revision) != seen)
    }

    /// A refusal stands if what it rests on is still so.
    async fn judge_again(&self, key: &Key, seen: Option<u64>, refused: Status) -> Result<(), Status> {
        if self.is_outdated(key, seen).await? { Ok(()) } else { Err(refused) }
    }

    fn validate(&self, kind: &Kind, part: Part, object: &Object, old: Option<&Object>) -> Result<(), Status> {
        let whole = self.writes_whole(kind);
        // Who may change everything through the status is judged for everything.
        let part = if whole && kind.custom.is_some() { Part::Main } else { part };
        let mut errors = metadata::validate(kind, object);
        if let Some(old) = old {
            errors.extend(metadata::validate_update(object, old));
        }
        errors.extend(kind.validate(part, object, old));
        if whole && part == Part::Main && old.is_some_and(|old| old.0.get("status") != object.0.get("status")) {
            let more = kind.validate(Part::Status, object, old);
            errors.extend(more.into_iter().filter(|error| !errors.contains(error)).collect::<Vec<_>>());
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Status::invalid(kind.error_group(), &kind.kind, object.name(), &errors))
        }
    }

    /// Whether one write may change an object of this kind and its status together.
    fn writes_whole(&self, kind: &Kind) -> bool {
        self.options.unrestricted_update && kind.behaviour.status
    }

    /// Who owns an object that is answered but not stored: its author, all of it.
    pub fn owners_of_new(&self, kind: &Kind, by: &By<'_>, object: &Object) -> Option<Value> {
        let owners = self.write(kind, by, |write| write.created(object, None));
        meta::json::parse(&owners).ok().map(|parsed| parsed.value)
    }

    fn write<R>(&self, kind: &Kind, by: &By<'_>, act: impl FnOnce(ownership::Write<'_>) -> R) -> R {
        let now = time::seconds(self.clock.now());
        let (served, unrestricted) = (self.served.get(), self.options.unrestricted_update);
        act(ownership::Write { kind, registry: &served.registry, by, now: &now, unrestricted })
    }
}

fn keep(into: &mut serde_json::Map<String, Value>, from: &serde_json::Map<String, Value>, key: &str) {
    match from.get(key) {
        Some(value) => into.insert(key.into(), value.clone()),
        None => into.remove(key),
    };
}

/// A storage failure as clients should see it.
pub(crate) fn storage(e: store::Error) -> Status {
    match e {
        store::Error::Compacted { .. } => Status::expired("The resourceVersion for the provided list is too old."),
        store::Error::Full(why) => Status::storage_full(format!(
            "the disk that holds the data is full, nothing was written: {why}; free some space, writing resumes by itself"
        )),
        store::Error::TooLarge { limit, .. } => Status::too_large(limit),
        e @ store::Error::Unknown(_) => Status::timeout(format!(
            "request did not complete within requested timeout - {e}; read before trying again"
        )),
        e @ (store::Error::Unavailable(_) | store::Error::Closed) => Status::unavailable(e.to_string()),
        e => Status::internal(e),
    }
}

#[cfg(test)]
mod late;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_of_unknown_outcome_is_a_timeout_and_not_a_failure() {
        let status = storage(store::Error::Unknown("the connection broke".into()));
        assert_eq!((status.code, status.reason), (504, meta::Reason::Timeout));
        assert!(
            status.message.starts_with("Timeout: request did not complete within requested timeout - "),
            "{status}"
        );
        assert_eq!(storage(store::Error::Closed).code, 503);
        assert_eq!(storage(store::Error::Full("x".into())).code, 507);
    }
}
