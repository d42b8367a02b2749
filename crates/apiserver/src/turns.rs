//! Taking turns: objects that share something that must be unique (addresses, ports, which class is the default) are written one by one,
//! by all the servers of a store.
//!
//! Within this process a lock sees to that. Between servers it is a pen: a record that is taken by writing it. Whoever has taken it sees
//! everything that was written before, and a write is guarded by the pen's revision: it happens only if nobody has taken the pen since.
//! A server alone takes it once.

use crate::objects::storage;
use crate::{Inner, kinds::Kind};
use bytes::Bytes;
use meta::Status;
use std::collections::HashMap;
use std::sync::Arc;
use store::{Attrs, Change, Collection, Expect, Guard, Key, Revision, Store, Write, Written};
use tokio::sync::{Mutex, MutexGuard};

/// No kind is stored there: nobody reads or writes it by another way.
const PENS: &str = "muster.dev/pens";

/// The pens we have, by what they write, with the revision at which we took them.
#[derive(Default)]
pub(crate) struct Turns(Mutex<HashMap<Collection, Revision>>);

pub(crate) struct Turn<'a> {
    store: &'a Store,
    pens: MutexGuard<'a, HashMap<Collection, Revision>>,
    collection: Collection,
}

impl Inner {
    /// Waits for its turn, knowing what other servers wrote; none for kinds that need not wait.
    pub async fn turn(&self, kind: &Kind) -> Result<Option<Turn<'_>>, Status> {
        if !kind.behaviour.one_by_one {
            return Ok(None);
        }
        let pens = self.turns.0.lock().await;
        self.store.sync().await.map_err(storage)?;
        Ok(Some(Turn { store: &self.store, pens, collection: kind.collection.clone() }))
    }
}

impl Turn<'_> {
    /// Takes the pen, unless we have it. Only what is looked at afterwards may decide what is written.
    pub async fn take_pen(&mut self) -> Result<(), Status> {
        if self.pens.contains_key(&self.collection) {
            return Ok(());
        }
        let change = Change::Put { value: Bytes::from_static(b"{}"), attrs: Arc::new(Attrs::default()) };
        let taken = self.store.write(Write::new(self.key(), Expect::Anything, change)).await.map_err(storage)?;
        self.pens.insert(self.collection.clone(), taken.revision);
        Ok(())
    }

    /// Writes with the pen. Unless it is known what became of the write, the pen is taken anew next time: then it happened before that
    /// and is seen, or never will. So too when nobody waits for the answer any more.
    pub async fn write(&mut self, write: Write) -> store::Result<Written> {
        let Some(revision) = self.pens.remove(&self.collection) else { return Err(store::Error::Overtaken) };
        let guard = Some(Guard { key: self.key(), revision });
        let outcome = self.store.write(Write { guard, ..write }).await;
        if matches!(outcome, Ok(_) | Err(store::Error::Conflict { .. })) {
            self.pens.insert(self.collection.clone(), revision);
        }
        outcome
    }

    fn key(&self) -> Key {
        Key::new(&Collection::new(PENS), self.collection.as_str())
    }
}
