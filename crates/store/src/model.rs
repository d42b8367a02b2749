//! The words of the room: keys, entries, writes, events.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

pub type Revision = u64;

/// A named group of keys with a history of its own, such as `core/configmaps`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Collection(Arc<str>);

impl Collection {
    pub fn new(name: &str) -> Collection {
        Collection(name.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Collection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a value lives: an item (`namespace/name` or `name`) of a collection.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Key {
    pub collection: Collection,
    pub item: Arc<str>,
}

impl Key {
    pub fn new(collection: &Collection, item: &str) -> Key {
        Key { collection: collection.clone(), item: item.into() }
    }
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub revision: Revision,
    pub value: Bytes,
    pub attrs: Arc<Attrs>,
    /// The union of [`mark`] over its labels: what lacks a wanted bit lacks the label, without a look at `attrs`.
    pub marks: u64,
}

impl Entry {
    pub fn new(revision: Revision, value: Bytes, attrs: Arc<Attrs>) -> Entry {
        let marks = attrs.labels.iter().fold(0, |marks, (key, value)| marks | mark(key, value));
        Entry { revision, value, attrs, marks }
    }
}

/// Two of 64 bits for a label. A list that selects one in a hundred objects touches the memory of little more than those.
pub fn mark(key: &str, value: &str) -> u64 {
    let bytes = key.bytes().chain(std::iter::once(b'=')).chain(value.bytes());
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    (1 << (hash >> 58)) | (1 << ((hash >> 52) & 63))
}

/// Facts about a value that readers filter by without parsing it.
#[derive(Default, Debug, PartialEq, Eq, Clone)]
pub struct Attrs {
    pub labels: Vec<(Box<str>, Box<str>)>,
    pub fields: Vec<(Box<str>, Box<str>)>,
    pub uid: Box<str>,
    pub owners: Vec<Box<str>>,
}

/// Derives the attributes of a value that comes from disk or from etcd.
pub type Describe = Arc<dyn Fn(&Key, &[u8]) -> Attrs + Send + Sync>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expect {
    Anything,
    Absent,
    At(Revision),
}

impl Expect {
    pub fn holds(self, current: Option<Revision>) -> bool {
        match self {
            Expect::Anything => true,
            Expect::Absent => current.is_none(),
            Expect::At(revision) => current == Some(revision),
        }
    }
}

#[derive(Clone, Debug)]
pub enum Change {
    Put { value: Bytes, attrs: Arc<Attrs> },
    Delete,
}

#[derive(Clone, Debug)]
pub struct Write {
    pub key: Key,
    pub expect: Expect,
    pub change: Change,
    /// The write happens only while this holds too.
    pub guard: Option<Guard>,
}

impl Write {
    pub fn new(key: Key, expect: Expect, change: Change) -> Write {
        Write { key, expect, change, guard: None }
    }
}

/// Another key that must not have changed since this revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    pub key: Key,
    pub revision: Revision,
}

/// A write that is durable and visible.
#[derive(Clone, Debug)]
pub struct Written {
    pub revision: Revision,
    pub prev: Option<Entry>,
}

/// What to read: items of a collection that start with `prefix`.
#[derive(Clone, Copy, Debug)]
pub struct Range<'a> {
    pub collection: &'a Collection,
    pub prefix: &'a str,
    /// Start behind this item.
    pub after: Option<&'a str>,
    /// 0 = all.
    pub limit: usize,
    pub at: Option<Revision>,
}

#[derive(Clone, Debug, Default)]
pub struct Page {
    pub items: Vec<(Arc<str>, Entry)>,
    /// The snapshot that was read.
    pub revision: Revision,
    /// Another item that passes the filter follows.
    pub more: bool,
    /// Live items under the prefix at read time, whatever the filter.
    pub total: usize,
}

/// One change of one key.
#[derive(Debug)]
pub struct Event {
    pub revision: Revision,
    pub key: Key,
    /// None = deleted.
    pub entry: Option<Entry>,
    pub prev: Option<Entry>,
    rendered: OnceLock<Bytes>,
}

impl Event {
    pub(crate) fn new(revision: Revision, key: Key, entry: Option<Entry>, prev: Option<Entry>) -> Event {
        Event { revision, key, entry, prev, rendered: OnceLock::new() }
    }

    /// The event as watchers send it: made by the first who asks, shared by all who share the event.
    pub fn rendered(&self, render: impl FnOnce(&Event) -> Bytes) -> Bytes {
        self.rendered.get_or_init(|| render(self)).clone()
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Health {
    Ok,
    /// The disk is full; reads go on, writes are tried.
    Full {
        why: String,
    },
    Failed {
        why: String,
    },
}

/// What a backup holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackupInfo {
    pub revision: Revision,
    pub count: u64,
    /// Seconds since 1970.
    pub created: u64,
    pub bytes: u64,
}
