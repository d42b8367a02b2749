//! Everything that is stored, in memory: per collection an ordered map of versions and the history that watchers read.
//!
//! Versions make reads consistent without long locks: a reader picks, item by item, the newest version not newer than the revision
//! it began with. The tree is fed by one feeder at a time (a writer thread, or an engine following etcd), in revision order.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use bytes::Bytes;
use tokio::sync::watch as wake;

use crate::error::{Error, Result};
use crate::held;
use crate::model::{Change, Collection, Entry, Event, Key, Page, Range, Revision};
use crate::watch::Watch;

/// Items looked at, or events dropped, per hold of a collection's lock: a long list or compaction never stalls the writer for long.
const CHUNK: usize = 512;
/// Newest events of a collection that are kept as such, with their rendered form, to be shared by watchers. Older ones, which
/// few will ask for, are made again from the versions: history then costs a name per change beside the values.
const FRESH: usize = 1024;
/// Events a watcher takes per hold of the lock.
const TAKE: usize = 2048;

pub struct Tree {
    shelves: RwLock<BTreeMap<Collection, Arc<Shelf>>>,
    /// Published last: whatever is not newer than this is completely in the shelves.
    revision: AtomicU64,
    /// Raised before anything is trimmed, read under a shelf's lock: a reader that saw it not above its revision reads whole data.
    oldest: AtomicU64,
    closed: AtomicBool,
    /// Bytes of values held only for history's sake.
    superseded: AtomicU64,
    feeding: Mutex<()>,
}

/// One change on its way into the tree.
#[derive(Clone, Debug)]
pub struct Fed {
    pub revision: Revision,
    pub key: Key,
    pub change: Change,
}

/// One collection.
pub(crate) struct Shelf {
    collection: Collection,
    state: RwLock<State>,
    /// The revision of the newest event; set before the tree's revision, so that who saw that one sees this one.
    newest: AtomicU64,
    /// Set after the tree's revision: who is woken sees the events.
    head: wake::Sender<Revision>,
}

#[derive(Default)]
struct State {
    items: BTreeMap<Arc<str>, Versions>,
    live: usize,
    /// Live items per part before the first `/`.
    namespaces: HashMap<Box<str>, usize>,
    /// Which item changed at which revision, after `oldest`, in revision order.
    history: VecDeque<(Revision, Arc<str>)>,
    /// The events of the end of `history`.
    fresh: VecDeque<Arc<Event>>,
    /// The newest change that was dropped, or is being dropped: cursors before it have missed something.
    lost: Revision,
}

struct Versions {
    newest: Version,
    /// Oldest first; usually there are none, and most of a store's items are their newest version only.
    older: Option<Box<Older>>,
}

struct Older(Vec<Version>);

enum Version {
    Live(Entry),
    Gone(Revision),
}

impl Version {
    fn revision(&self) -> Revision {
        match self {
            Version::Live(entry) => entry.revision,
            Version::Gone(revision) => *revision,
        }
    }

    fn entry(&self) -> Option<&Entry> {
        match self {
            Version::Live(entry) => Some(entry),
            Version::Gone(_) => None,
        }
    }

    fn size(&self) -> u64 {
        self.entry().map_or(0, |e| e.value.len() as u64)
    }
}

impl Versions {
    fn new(newest: Version) -> Versions {
        Versions { newest, older: None }
    }

    fn older(&self) -> &[Version] {
        self.older.as_ref().map_or(&[], |older| &older.0)
    }

    fn at(&self, revision: Revision) -> Option<&Entry> {
        if self.newest.revision() <= revision {
            return self.newest.entry();
        }
        self.older().iter().rev().find(|v| v.revision() <= revision).and_then(Version::entry)
    }

    /// What the change at `revision` made, and what was there before.
    fn change(&self, revision: Revision) -> (Option<Entry>, Option<Entry>) {
        let of = |version: Option<&Version>| version.and_then(Version::entry).cloned();
        if self.newest.revision() == revision {
            return (of(Some(&self.newest)), of(self.older().last()));
        }
        let at = self.older().partition_point(|v| v.revision() < revision);
        (of(self.older().get(at)), at.checked_sub(1).and_then(|before| of(self.older().get(before))))
    }

    /// Drops what no reader at `upto` or later can see; gives the bytes freed and whether nothing is left.
    fn trim(&mut self, upto: Revision) -> (u64, bool) {
        if self.newest.revision() <= upto {
            let freed = self.older().iter().map(Version::size).sum();
            self.older = None;
            return (freed, matches!(self.newest, Version::Gone(_)));
        }
        let mut freed = 0;
        // The newest version at or before `upto` stays, unless it is a tombstone: absent and gone read the same.
        let mut cut = self.older().partition_point(|v| v.revision() <= upto).saturating_sub(1);
        if matches!(self.older().get(cut), Some(Version::Gone(r)) if *r <= upto) {
            cut += 1;
        }
        if let Some(older) = &mut self.older {
            freed = older.0.drain(..cut).map(|version| version.size()).sum();
            if older.0.is_empty() {
                self.older = None;
            }
        }
        (freed, false)
    }
}

fn namespace(item: &str) -> Option<&str> {
    item.split_once('/').map(|(namespace, _)| namespace)
}

impl State {
    fn counted(&mut self, item: &str, was: bool, is: bool) {
        if was == is {
            return;
        }
        self.live = if is { self.live + 1 } else { self.live - 1 };
        let Some(namespace) = namespace(item) else { return };
        if is {
            match self.namespaces.get_mut(namespace) {
                Some(n) => *n += 1,
                None => {
                    self.namespaces.insert(namespace.into(), 1);
                }
            }
        } else if let Some(n) = self.namespaces.get_mut(namespace) {
            *n -= 1;
            if *n == 0 {
                self.namespaces.remove(namespace);
            }
        }
    }

    fn count(&self, prefix: &str) -> usize {
        if prefix.is_empty() {
            return self.live;
        }
        if let Some(namespace) = prefix.strip_suffix('/').filter(|n| !n.contains('/')) {
            return self.namespaces.get(namespace).copied().unwrap_or(0);
        }
        self.under(prefix, None).filter(|(_, v)| v.newest.entry().is_some()).count()
    }

    fn under<'a>(&'a self, prefix: &'a str, after: Option<&str>) -> impl Iterator<Item = (&'a Arc<str>, &'a Versions)> {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        self.items.range::<str, _>((start, Bound::Unbounded)).take_while(move |(item, _)| item.starts_with(prefix))
    }

    /// Gives the bytes that are now only history.
    fn put(&mut self, shelf: &Collection, fed: Fed) -> u64 {
        let Fed { revision, key, change } = fed;
        let entry = match change {
            Change::Put { value, attrs } => Some(Entry::new(revision, snug(value), attrs)),
            Change::Delete => None,
        };
        let version = entry.clone().map_or(Version::Gone(revision), Version::Live);
        // One allocation of the item's name serves the map and all its events.
        let (item, prev, superseded) = match self.items.get_key_value(key.item.as_ref()).map(|(k, _)| k.clone()) {
            Some(item) => {
                let Some(versions) = self.items.get_mut(item.as_ref()) else { return 0 };
                let again = versions.newest.revision() >= revision;
                if again || (entry.is_none() && versions.newest.entry().is_none()) {
                    return 0;
                }
                let old = std::mem::replace(&mut versions.newest, version);
                let (prev, size) = (old.entry().cloned(), old.size());
                versions.older.get_or_insert_with(|| Box::new(Older(Vec::with_capacity(1)))).0.push(old);
                (item, prev, size)
            }
            None if entry.is_none() => return 0,
            None => {
                self.items.insert(key.item.clone(), Versions::new(version));
                (key.item, None, 0)
            }
        };
        self.counted(&item, prev.is_some(), entry.is_some());
        self.history.push_back((revision, item.clone()));
        if self.fresh.len() == FRESH {
            self.fresh.pop_front();
        }
        self.fresh.push_back(Arc::new(Event::new(revision, Key { collection: shelf.clone(), item }, entry, prev)));
        superseded
    }
}

/// A value that fills its allocation: callers render into buffers that may be much larger.
fn snug(value: Bytes) -> Bytes {
    match value.try_into_mut() {
        Ok(buffer) if buffer.capacity() > buffer.len() + buffer.len() / 8 + 64 => Bytes::copy_from_slice(&buffer),
        Ok(buffer) => buffer.freeze(),
        Err(shared) => shared,
    }
}

impl Default for Tree {
    fn default() -> Self {
        Tree::new()
    }
}

/// What feeders do.
impl Tree {
    /// Empty, at revision 1: 0 means "any revision" to clients.
    pub fn new() -> Tree {
        Tree {
            shelves: RwLock::default(),
            revision: AtomicU64::new(1),
            oldest: AtomicU64::new(1),
            closed: AtomicBool::new(false),
            superseded: AtomicU64::new(0),
            feeding: Mutex::new(()),
        }
    }

    /// Takes an entry as it was before history begins: no event. Call [`Tree::begin`] when all are in.
    pub fn load(&self, key: Key, entry: Entry) {
        let shelf = self.shelf(&key.collection);
        let mut state = held!(shelf.state.write());
        state.counted(&key.item, false, true);
        if state.items.insert(key.item.clone(), Versions::new(Version::Live(entry))).is_some() {
            state.counted(&key.item, true, false);
        }
    }

    /// What was loaded is the state at `revision`, where history begins.
    pub fn begin(&self, revision: Revision) {
        self.oldest.fetch_max(revision, Ordering::SeqCst);
        self.revision.fetch_max(revision, Ordering::SeqCst);
    }

    /// Takes changes in revision order, then shows them all at once as `revision` (not below the last of them) and wakes watchers.
    /// A change not newer than what its key already has is skipped, so feeding again after a reconnect is harmless.
    pub fn feed(&self, changes: Vec<Fed>, revision: Revision) {
        self.feed_then(changes, revision, || {});
    }

    /// The same; `shown` runs when readers see the changes and before watchers are woken: whoever wrote goes on while they catch up.
    pub(crate) fn feed_then(&self, changes: Vec<Fed>, revision: Revision, shown: impl FnOnce()) {
        let _one = held!(self.feeding.lock());
        let mut touched: Vec<(Arc<Shelf>, Revision)> = Vec::new();
        for fed in changes {
            let last = touched.iter().position(|(shelf, _)| shelf.collection == fed.key.collection);
            let last = last.unwrap_or_else(|| {
                touched.push((self.shelf(&fed.key.collection), 0));
                touched.len() - 1
            });
            let (shelf, head) = &mut touched[last];
            *head = fed.revision;
            shelf.newest.fetch_max(fed.revision, Ordering::SeqCst);
            let superseded = held!(shelf.state.write()).put(&shelf.collection, fed);
            self.superseded.fetch_add(superseded, Ordering::Relaxed);
        }
        self.revision.fetch_max(revision, Ordering::SeqCst);
        shown();
        for (shelf, head) in touched {
            shelf.head.send_replace(head);
        }
    }

    /// Nothing happened up to `revision`.
    pub fn advance(&self, revision: Revision) {
        self.feed(Vec::new(), revision);
    }

    /// Frees what only readers and watchers before `upto` could see.
    pub fn compact(&self, upto: Revision) -> Result<()> {
        let current = self.revision();
        if upto > current {
            return Err(Error::Future { current });
        }
        if self.oldest.fetch_max(upto, Ordering::SeqCst) >= upto {
            return Ok(());
        }
        let shelves: Vec<_> = held!(self.shelves.read()).values().cloned().collect();
        for shelf in shelves {
            while self.compact_some(&shelf, upto) {}
        }
        Ok(())
    }

    /// Every version but a loaded one came with a change in the history, so trimming the items of dropped changes trims all.
    fn compact_some(&self, shelf: &Shelf, upto: Revision) -> bool {
        let mut guard = held!(shelf.state.write());
        let state = &mut *guard;
        // Before anything is trimmed: a watcher in the middle of what goes must not see half of it.
        let end = state.history.partition_point(|(revision, _)| *revision <= upto);
        let Some((last, _)) = end.checked_sub(1).and_then(|last| state.history.get(last)) else { return false };
        state.lost = *last;
        let mut freed = 0;
        for (_, item) in state.history.drain(..end.min(CHUNK)) {
            let Some(versions) = state.items.get_mut(&item) else { continue };
            let (bytes, empty) = versions.trim(upto);
            freed += bytes;
            if empty {
                state.items.remove(&item);
            }
        }
        while state.fresh.pop_front_if(|event| event.revision <= upto).is_some() {}
        if end <= CHUNK && state.history.capacity() > 64 + state.history.len() * 4 {
            state.history.shrink_to_fit();
        }
        drop(guard);
        self.superseded.fetch_sub(freed, Ordering::Relaxed);
        end > CHUNK
    }

    /// Ends all watches.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        for shelf in held!(self.shelves.read()).values() {
            shelf.head.send_modify(|_| ());
        }
    }

    /// Bytes of values held only for history's sake.
    pub fn superseded(&self) -> u64 {
        self.superseded.load(Ordering::Relaxed)
    }

    fn shelf(&self, collection: &Collection) -> Arc<Shelf> {
        if let Some(shelf) = self.find(collection) {
            return shelf;
        }
        let mut shelves = held!(self.shelves.write());
        let make = || Shelf {
            collection: collection.clone(),
            state: RwLock::default(),
            newest: AtomicU64::new(0),
            head: wake::Sender::new(0),
        };
        shelves.entry(collection.clone()).or_insert_with(|| Arc::new(make())).clone()
    }

    fn find(&self, collection: &Collection) -> Option<Arc<Shelf>> {
        held!(self.shelves.read()).get(collection).cloned()
    }
}

/// What readers do.
impl Tree {
    pub fn revision(&self) -> Revision {
        self.revision.load(Ordering::SeqCst)
    }

    pub fn oldest(&self) -> Revision {
        self.oldest.load(Ordering::SeqCst)
    }

    pub fn get(&self, key: &Key) -> Option<Entry> {
        let shelf = self.find(&key.collection)?;
        let state = held!(shelf.state.read());
        // Read under the lock: compaction cannot have trimmed what this revision needs, as it never passes the current one.
        let revision = self.revision();
        state.items.get::<str>(key.item.borrow())?.at(revision).cloned()
    }

    pub fn range(&self, range: &Range<'_>, mut filter: impl FnMut(&str, &Entry) -> bool) -> Result<Page> {
        loop {
            match self.try_range(range, &mut filter) {
                // Compacted up to the very revision being listed, in the middle of the list: take the newer one.
                Err(Error::Compacted { .. }) if range.at.is_none() => continue,
                result => return result,
            }
        }
    }

    fn try_range(&self, range: &Range<'_>, filter: &mut impl FnMut(&str, &Entry) -> bool) -> Result<Page> {
        let current = self.revision();
        let revision = range.at.unwrap_or(current);
        if revision > current {
            return Err(Error::Future { current });
        }
        self.readable(revision)?;
        let mut page = Page { revision, ..Page::default() };
        let Some(shelf) = self.find(range.collection) else { return Ok(page) };
        let mut after: Option<Arc<str>> = range.after.map(Arc::from);
        page.total = held!(shelf.state.read()).count(range.prefix);
        loop {
            let state = held!(shelf.state.read());
            self.readable(revision)?;
            let mut seen = 0;
            let mut last = None;
            for (item, versions) in state.under(range.prefix, after.as_deref()) {
                seen += 1;
                if let Some(entry) = versions.at(revision).filter(|entry| filter(item, entry)) {
                    if range.limit > 0 && page.items.len() == range.limit {
                        page.more = true;
                        return Ok(page);
                    }
                    page.items.push((item.clone(), entry.clone()));
                }
                if seen == CHUNK {
                    last = Some(item.clone());
                    break;
                }
            }
            if last.is_none() {
                return Ok(page);
            }
            after = last;
        }
    }

    fn readable(&self, revision: Revision) -> Result<()> {
        let oldest = self.oldest();
        if revision < oldest { Err(Error::Compacted { oldest }) } else { Ok(()) }
    }

    /// Every entry as it was at `revision`, collection by collection. Nobody may compact past it meanwhile.
    pub(crate) fn each(&self, revision: Revision, mut each: impl FnMut(&Key, Entry) -> Result<()>) -> Result<()> {
        let collections: Vec<_> = held!(self.shelves.read()).keys().cloned().collect();
        for collection in &collections {
            let mut after: Option<Arc<str>> = None;
            loop {
                let after_item = after.as_deref();
                let range = Range { collection, prefix: "", after: after_item, limit: CHUNK, at: Some(revision) };
                let page = self.range(&range, |_, _| true)?;
                for (item, entry) in page.items {
                    let key = Key { collection: collection.clone(), item };
                    each(&key, entry)?;
                    after = Some(key.item);
                }
                if !page.more {
                    break;
                }
            }
        }
        Ok(())
    }

    pub fn count(&self, collection: &Collection, prefix: &str) -> usize {
        self.find(collection).map_or(0, |shelf| held!(shelf.state.read()).count(prefix))
    }

    pub fn collections(&self) -> Vec<Collection> {
        let shelves: Vec<_> = held!(self.shelves.read()).values().cloned().collect();
        let full = shelves.into_iter().filter(|shelf| held!(shelf.state.read()).live > 0);
        full.map(|shelf| shelf.collection.clone()).collect()
    }

    pub fn watch(self: &Arc<Self>, collection: &Collection, prefix: &str, after: Revision) -> Result<Watch> {
        let current = self.revision();
        if after > current {
            return Err(Error::Future { current });
        }
        let shelf = self.shelf(collection);
        let head = shelf.head.subscribe();
        // After the shelf is known: a compaction that runs now is noticed by the cursor.
        self.readable(after)?;
        Ok(Watch::new(self.clone(), shelf, head, prefix, after))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}

impl Shelf {
    pub fn watchers(&self) -> usize {
        self.head.receiver_count()
    }

    /// Appends matching events after `cursor` to `out` and gives the new cursor. `visible` is the tree's revision, read before the call.
    pub(crate) fn events(
        &self,
        prefix: &str,
        cursor: Revision,
        visible: Revision,
        max: usize,
        out: &mut Vec<Arc<Event>>,
    ) -> Result<Revision, Lost> {
        let state = held!(self.state.read());
        if cursor < state.lost {
            return Err(Lost);
        }
        let start = state.history.partition_point(|(revision, _)| *revision <= cursor);
        let fresh = state.history.len() - state.fresh.len();
        let max = max.min(TAKE);
        let mut taken = 0;
        let mut last = cursor;
        for (i, (revision, item)) in state.history.range(start..).enumerate() {
            if *revision > visible {
                break;
            }
            if item.starts_with(prefix) {
                // Events of one revision stay together: the cursor cannot stand between them.
                if taken >= max && *revision > last {
                    return Ok(last);
                }
                out.push(match (start + i).checked_sub(fresh).and_then(|i| state.fresh.get(i)) {
                    Some(event) => event.clone(),
                    None => {
                        let Some(versions) = state.items.get(item) else { return Err(Lost) };
                        let (entry, prev) = versions.change(*revision);
                        let key = Key { collection: self.collection.clone(), item: item.clone() };
                        Arc::new(Event::new(*revision, key, entry, prev))
                    }
                });
                taken += 1;
                last = *revision;
            } else if taken < max {
                last = *revision;
            }
        }
        Ok(visible.max(cursor))
    }

    pub(crate) fn newest(&self) -> Revision {
        self.newest.load(Ordering::SeqCst)
    }
}

/// The cursor fell off the history.
pub(crate) struct Lost;

#[cfg(test)]
mod tests;
