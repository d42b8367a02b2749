//! A watch is a cursor into its collection's history; there is no queue per watcher.

use std::sync::Arc;

use tokio::sync::watch as wake;

use crate::error::{Error, Result};
use crate::model::{Event, Revision};
use crate::tree::{Shelf, Tree};

pub struct Watch {
    tree: Arc<Tree>,
    shelf: Arc<Shelf>,
    head: wake::Receiver<Revision>,
    prefix: Box<str>,
    /// Everything that matches up to here was handed out.
    cursor: Revision,
}

impl Watch {
    pub(crate) fn new(
        tree: Arc<Tree>,
        shelf: Arc<Shelf>,
        head: wake::Receiver<Revision>,
        prefix: &str,
        cursor: Revision,
    ) -> Watch {
        Watch { tree, shelf, head, prefix: prefix.into(), cursor }
    }

    /// Waits until something newer than the cursor matched; appends up to `max` events in order (a few more if they share one
    /// revision). Err(Compacted) when the cursor fell off the history. Cancel-safe.
    pub async fn next(&mut self, max: usize, out: &mut Vec<Arc<Event>>) -> Result<()> {
        let before = out.len();
        loop {
            // Before looking: what comes after the look wakes us again.
            self.head.mark_unchanged();
            self.take(max, out)?;
            if out.len() > before {
                return Ok(());
            }
            if self.tree.is_closed() {
                return Err(Error::Closed);
            }
            if self.head.changed().await.is_err() {
                return Err(Error::Closed);
            }
        }
    }

    /// What [`next`](Self::next) would give now, without waiting: perhaps nothing.
    pub fn take(&mut self, max: usize, out: &mut Vec<Arc<Event>>) -> Result<()> {
        let visible = self.tree.revision();
        match self.shelf.events(&self.prefix, self.cursor, visible, max.max(1), out) {
            Ok(cursor) => self.cursor = cursor,
            Err(_lost) => return Err(Error::Compacted { oldest: self.tree.oldest() }),
        }
        Ok(())
    }

    /// Changes whenever the collection does, for who waits for several.
    pub fn head(&self) -> wake::Receiver<Revision> {
        self.head.clone()
    }

    /// The collection has changed since the cursor. Costs one load; may be true a moment before the change can be taken.
    pub fn is_behind(&self) -> bool {
        self.shelf.newest() > self.cursor
    }

    /// How many watch this collection, this one included.
    pub fn watchers(&self) -> usize {
        self.shelf.watchers()
    }

    /// Everything up to here was seen; at the collection's head this is the store's revision, so a bookmark can carry it.
    pub fn revision(&self) -> Revision {
        let visible = self.tree.revision();
        if self.shelf.newest() <= self.cursor { visible.max(self.cursor) } else { self.cursor }
    }
}
