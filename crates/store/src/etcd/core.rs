//! What the engine's parts share: the tree, the client, how far the tree is, and the writes on their way.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::{Semaphore, watch as wake};
use tokio::time::{Instant, timeout_at};

use super::client::Client;
use super::config::Config;
use super::layout::{Layout, Tag, unfold};
use super::wire::KeyValue;
use super::write::Fence;
use crate::error::Result;
use crate::held;
use crate::model::{Attrs, Describe, Entry, Health, Key, Revision};
use crate::seal::Sealer;
use crate::tree::Tree;

pub(super) struct Core {
    pub tree: Arc<Tree>,
    pub client: Client,
    pub layout: Layout,
    pub config: Config,
    pub sealer: Sealer,
    pub describe: Describe,
    pub max_value: usize,
    /// The tree's revision, set after it.
    pub seen: wake::Sender<Revision>,
    /// Someone waits until the tree is here.
    pub wanted: wake::Sender<Revision>,
    pub writes: Writes,
    pub fence: Fence,
    /// How often the stream of events was broken and made good by a new list.
    pub reloads: AtomicU64,
    /// Bounds the writes on their way; closed when the store is.
    pub gate: Semaphore,
    condition: Mutex<Condition>,
}

/// Our own writes between being sent and being answered.
pub(super) struct Writes {
    /// Who we are in the tags of values.
    pub writer: u64,
    numbers: AtomicU64,
    on_the_way: Mutex<HashMap<u64, Way>>,
}

enum Way {
    /// What the caller gave, so that the event need not be opened and parsed again.
    Sent(Bytes, Arc<Attrs>),
    Seen(Revision),
}

#[derive(Default)]
struct Condition {
    cut_off: Option<String>,
    full: Option<String>,
}

impl Core {
    pub(super) fn new(config: Config, options: &crate::Options, client: Client, writer: u64) -> Core {
        Core {
            tree: Arc::new(Tree::new()),
            client,
            layout: Layout::new(&config.prefix),
            sealer: options.sealer(),
            describe: options.describe.clone(),
            max_value: options.max_value.min(config.max_value),
            config,
            seen: wake::Sender::new(0),
            wanted: wake::Sender::new(0),
            writes: Writes { writer, numbers: AtomicU64::new(1), on_the_way: Mutex::default() },
            fence: Fence::default(),
            reloads: AtomicU64::new(0),
            gate: Semaphore::new(options.queue.clamp(1, Semaphore::MAX_PERMITS)),
            condition: Mutex::default(),
        }
    }

    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.config.deadline
    }

    /// Waits until the tree is at `revision`; false when it is not by the deadline.
    pub(super) async fn reached(&self, revision: Revision, deadline: Instant) -> bool {
        if *self.seen.borrow() >= revision {
            return true;
        }
        self.wanted.send_if_modified(|wanted| {
            let further = *wanted < revision;
            *wanted = revision.max(*wanted);
            further
        });
        let mut seen = self.seen.subscribe();
        matches!(timeout_at(deadline, seen.wait_for(|seen| *seen >= revision)).await, Ok(Ok(_)))
    }

    /// A value as the tree holds it. None: not a value of ours, which reads as absent.
    pub(super) fn entry(&self, key: &Key, kv: &KeyValue) -> Result<Option<Entry>> {
        let Some((tag, sealed, body)) = unfold(&kv.value) else {
            tracing::warn!(%key.collection, %key.item, "etcd holds something that we did not write; it is ignored");
            return Ok(None);
        };
        let (value, attrs) = match self.writes.seen(tag, kv.revision()) {
            Some(ours) => ours,
            None => {
                // Copied: the message it came in is far larger.
                let value = if sealed { self.sealer.unseal(key, body)?.into() } else { Bytes::copy_from_slice(body) };
                let attrs = Arc::new((self.describe)(key, &value));
                (value, attrs)
            }
        };
        Ok(Some(Entry::new(kv.revision(), value, attrs)))
    }

    pub(super) fn cut_off(&self, why: Option<String>) {
        let mut condition = held!(self.condition.lock());
        match (&condition.cut_off, &why) {
            (None, Some(why)) => tracing::error!(why, "cut off from etcd"),
            (Some(_), None) => tracing::info!("etcd is followed again"),
            _ => {}
        }
        condition.cut_off = why;
    }

    pub(super) fn full(&self, why: Option<String>) {
        held!(self.condition.lock()).full = why;
    }

    pub(super) fn health(&self) -> Health {
        let condition = held!(self.condition.lock());
        match (&condition.cut_off, &condition.full) {
            (Some(why), _) => Health::Failed { why: why.clone() },
            (None, Some(why)) => Health::Full { why: why.clone() },
            (None, None) => Health::Ok,
        }
    }
}

impl Writes {
    pub(super) fn begin(&self) -> Ticket<'_> {
        let number = self.numbers.fetch_add(1, Ordering::SeqCst);
        Ticket { writes: self, tag: Tag { writer: self.writer, number } }
    }

    /// The event of a write of ours came; gives back what was sent, once.
    fn seen(&self, tag: Tag, revision: Revision) -> Option<(Bytes, Arc<Attrs>)> {
        if tag.writer != self.writer {
            return None;
        }
        let mut on_the_way = held!(self.on_the_way.lock());
        let way = on_the_way.get_mut(&tag.number)?;
        match std::mem::replace(way, Way::Seen(revision)) {
            Way::Sent(value, attrs) => Some((value, attrs)),
            Way::Seen(_) => None,
        }
    }
}

/// A write on its way; forgotten when dropped.
pub(super) struct Ticket<'a> {
    writes: &'a Writes,
    pub tag: Tag,
}

impl Ticket<'_> {
    pub(super) fn sent(&self, value: Bytes, attrs: Arc<Attrs>) {
        held!(self.writes.on_the_way.lock()).insert(self.tag.number, Way::Sent(value, attrs));
    }

    /// The revision at which the tree got this write.
    pub(super) fn seen(&self) -> Option<Revision> {
        match held!(self.writes.on_the_way.lock()).get(&self.tag.number) {
            Some(Way::Seen(revision)) => Some(*revision),
            _ => None,
        }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        held!(self.writes.on_the_way.lock()).remove(&self.tag.number);
    }
}
