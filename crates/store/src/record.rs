//! One change as bytes, the same in journals, snapshots and backups; sealed values are sealed here, on their way out.

use std::sync::Arc;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::model::{Change, Collection, Describe, Key, Revision};
use crate::seal::Sealer;
use crate::tree::Fed;

const DELETE: u8 = 0;
const PLAIN: u8 = 1;
const SEALED: u8 = 2;

/// Appends `kind, revision, collection, item, value`, each text with its length before it.
pub(crate) fn write(
    out: &mut Vec<u8>,
    key: &Key,
    revision: Revision,
    value: Option<&[u8]>,
    sealer: &Sealer,
) -> Result<()> {
    let sealed = match value {
        Some(value) if sealer.seals(&key.collection) => Some(sealer.seal(key, value)?),
        _ => None,
    };
    out.push(if value.is_none() {
        DELETE
    } else if sealed.is_some() {
        SEALED
    } else {
        PLAIN
    });
    out.extend_from_slice(&revision.to_le_bytes());
    for part in [key.collection.as_str().as_bytes(), key.item.as_bytes(), sealed.as_deref().or(value).unwrap_or(&[])] {
        let len =
            u32::try_from(part.len()).map_err(|_| Error::TooLarge { size: part.len(), limit: u32::MAX as usize })?;
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(part);
    }
    Ok(())
}

/// A record as it stands in a file.
pub(crate) struct Raw<'a> {
    kind: u8,
    pub revision: Revision,
    collection: &'a str,
    item: &'a str,
    value: &'a [u8],
}

impl<'a> Raw<'a> {
    /// Takes one record from the front; None if the bytes are not one.
    pub(crate) fn take(bytes: &mut &'a [u8]) -> Option<Raw<'a>> {
        let (kind, rest) = bytes.split_first()?;
        let (revision, mut rest) = rest.split_first_chunk()?;
        let mut part = || {
            let (len, after) = rest.split_first_chunk()?;
            let (part, after) = after.split_at_checked(u32::from_le_bytes(*len) as usize)?;
            rest = after;
            Some(part)
        };
        let collection = std::str::from_utf8(part()?).ok()?;
        let item = std::str::from_utf8(part()?).ok()?;
        let value = part()?;
        *bytes = rest;
        let raw = Raw { kind: *kind, revision: u64::from_le_bytes(*revision), collection, item, value };
        (*kind <= SEALED).then_some(raw)
    }

    /// Opens it.
    pub(crate) fn fed(&self, names: &mut Names, sealer: &Sealer, describe: &Describe) -> Result<Fed> {
        let key = Key { collection: names.collection(self.collection), item: self.item.into() };
        let value = match self.kind {
            DELETE => return Ok(Fed { revision: self.revision, key, change: Change::Delete }),
            SEALED => Bytes::from(sealer.unseal(&key, self.value)?),
            _ => Bytes::copy_from_slice(self.value),
        };
        let attrs = Arc::new(describe(&key, &value));
        Ok(Fed { revision: self.revision, key, change: Change::Put { value, attrs } })
    }
}

/// Collections by name, so that all keys share one allocation.
#[derive(Default)]
pub(crate) struct Names(std::collections::HashMap<Box<str>, Collection>);

impl Names {
    fn collection(&mut self, name: &str) -> Collection {
        if let Some(collection) = self.0.get(name) {
            return collection.clone();
        }
        let collection = Collection::new(name);
        self.0.insert(name.into(), collection.clone());
        collection
    }
}
