//! Garbage collection by owner references: what nobody owns any more goes, and owners wait or let go as asked.
//!
//! One task owns all of it. Before it decides anything it learns every change that readers can see: an owner that is being deleted
//! finds all its dependents, and a dependent that was judged is judged again when its owner goes.

#[cfg(test)]
mod tests;

use crate::kinds::{Kind, metadata};
use crate::objects::Part;
use crate::ownership::By;
use crate::served::Served;
use crate::{Api, Inner};
use meta::options::{DeleteOptions, Propagation};
use meta::{Object, Reason, Status};
use serde_json::Value;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use store::{Collection, Entry, Event, Key, Range, Watch};
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

/// How long a failed piece of work waits before it is tried again.
const RETRY: Duration = Duration::from_millis(200);
const BATCH: usize = 256;
/// Between two alarms of a collection, so that a busy one does not wake us with every write and take the core from its writer.
const REST: Duration = Duration::from_millis(20);

/// Who owns whom, kept for objects that have owners; built from the store and from its events.
#[derive(Default)]
struct Graph {
    /// By the owner's uid.
    dependents: HashMap<Box<str>, Dependents>,
    /// Owners that went before any dependent of theirs was known, in this look and in the one before: as collections are looked at
    /// one after the other, a dependent may be learned of after its owner went. Later ones name an owner that was gone already.
    departed: [HashSet<Box<str>>; 2],
}

#[derive(Default)]
struct Dependents {
    keys: HashSet<Key>,
    /// Their owner was seen to go: what kind it was may not be known any more when they are looked at.
    orphaned: bool,
}

impl Graph {
    fn change(&mut self, key: &Key, prev: Option<&Entry>, entry: Option<&Entry>) {
        let [old, new] = [prev, entry].map(|entry| entry.map_or(&[][..], |e| &e.attrs.owners));
        for owner in new {
            let orphaned = self.departed.iter().any(|uids| uids.contains(owner));
            let of = self.dependents.entry(owner.clone()).or_default();
            of.orphaned |= orphaned;
            of.keys.insert(key.clone());
        }
        for owner in old.iter().filter(|owner| !new.contains(owner)) {
            if let Some(of) = self.dependents.get_mut(owner) {
                of.keys.remove(key);
                if of.keys.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
    }

    /// An object went; those that it owned.
    fn depart(&mut self, uid: &str) -> Vec<Key> {
        match self.dependents.get_mut(uid) {
            Some(of) => of.orphaned = true,
            None => {
                self.departed[0].insert(uid.into());
            }
        }
        self.of(uid)
    }

    /// A new look begins.
    fn turn(&mut self) {
        self.departed[1] = std::mem::take(&mut self.departed[0]);
    }

    fn forget(&mut self, collection: &Collection) {
        self.dependents.retain(|_, of| {
            of.keys.retain(|key| key.collection != *collection);
            !of.keys.is_empty() || of.orphaned
        });
    }

    fn went(&self, uid: &str) -> bool {
        self.dependents.get(uid).is_some_and(|of| of.orphaned)
    }

    fn of(&self, uid: &str) -> Vec<Key> {
        self.dependents.get(uid).map(|of| of.keys.iter().cloned().collect()).unwrap_or_default()
    }
}

/// One thing to look at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Work {
    /// A dependent whose owners may be gone.
    Dependent(Key),
    /// An owner that waits for its dependents or is to let them go.
    Owner(Key),
}

/// Work waiting its turn; the same work is queued once.
#[derive(Default)]
struct Todo {
    queue: VecDeque<Work>,
    queued: HashSet<Work>,
}

impl Todo {
    fn push(&mut self, work: Work) {
        if self.queued.insert(work.clone()) {
            self.queue.push_back(work);
        }
    }

    fn pop(&mut self) -> Option<Work> {
        let work = self.queue.pop_front()?;
        self.queued.remove(&work);
        Some(work)
    }
}

/// Collects until told to stop.
pub(crate) async fn run(api: Api, stop: CancellationToken) {
    let mut collector = Collector::new(api);
    let mut later: Vec<Work> = Vec::new();
    loop {
        collector.catch_up().await;
        let Some(work) = collector.todo.pop() else {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(RETRY), if !later.is_empty() => later.drain(..).for_each(|w| collector.todo.push(w)),
                () = collector.changed() => {}
            }
            continue;
        };
        if stop.is_cancelled() {
            return;
        }
        match collector.work(&work).await {
            Ok(true) => {}
            Ok(false) => later.push(work),
            Err(s) if s.reason == Reason::NotFound => {}
            Err(error) => {
                tracing::debug!(?work, %error, "garbage collection will try again");
                later.push(work);
            }
        }
    }
}

struct Collector {
    api: Api,
    /// By which is judged. All of its collections are followed: that an owner goes after it was found is noticed.
    served: Arc<Served>,
    changes: watch::Receiver<()>,
    followed: HashMap<Collection, Followed>,
    alarms: JoinSet<()>,
    alarm: Arc<Notify>,
    graph: Graph,
    todo: Todo,
    /// Dependents of types that nobody knows. They are left alone until somebody does.
    unjudged: HashSet<Key>,
}

struct Followed {
    watch: Watch,
    alarm: AbortHandle,
}

impl Collector {
    fn new(api: Api) -> Self {
        let mut changes = api.inner.served.changes();
        changes.mark_changed();
        Self {
            served: api.inner.served.get(),
            changes,
            api,
            followed: HashMap::new(),
            alarms: JoinSet::new(),
            alarm: Arc::default(),
            graph: Graph::default(),
            todo: Todo::default(),
            unjudged: HashSet::new(),
        }
    }

    /// Returns when there may be something new.
    async fn changed(&mut self) {
        tokio::select! {
            Ok(()) = self.changes.changed() => self.changes.mark_changed(),
            () = self.alarm.notified() => {}
        }
    }

    /// Learns everything that readers can see.
    async fn catch_up(&mut self) {
        self.graph.turn();
        loop {
            let behind = |(of, followed): (&Collection, &Followed)| followed.watch.is_behind().then(|| of.clone());
            for collection in self.followed.iter().filter_map(behind).collect::<Vec<_>>() {
                while self.take(&collection) {
                    tokio::task::yield_now().await;
                }
            }
            // Kinds last: whatever was learned of is judged by kinds that were served when it was made.
            if !self.changes.has_changed().unwrap_or_default() {
                return;
            }
            self.changes.mark_unchanged();
            self.follow().await;
        }
    }

    /// Follows what is served now, and nothing else.
    async fn follow(&mut self) {
        let served = self.api.inner.served.get();
        let gone = |collection: &Collection| served.registry.stored_in(collection).is_none();
        for collection in self.followed.keys().filter(|c| gone(c)).cloned().collect::<Vec<_>>() {
            // Its last events set dependents free.
            while self.take(&collection) {}
            self.graph.forget(&collection);
            if let Some(followed) = self.followed.remove(&collection) {
                followed.alarm.abort();
            }
        }
        self.served = served;
        let new = |kind: &Arc<Kind>| !self.followed.contains_key(&kind.collection);
        let new: Vec<_> = self.served.registry.stored().filter(|k| new(k)).map(|k| k.collection.clone()).collect();
        for collection in new {
            self.begin(&collection);
            tokio::task::yield_now().await;
        }
        self.unjudged.drain().for_each(|key| self.todo.push(Work::Dependent(key)));
    }

    /// Learns what a collection holds, and what happens to it from then on.
    fn begin(&mut self, collection: &Collection) {
        let store = &self.api.inner.store;
        let range = Range { collection, prefix: "", after: None, limit: 0, at: None };
        let (page, watch) = loop {
            // Only objects that are owned or are going away matter; the rest is not even looked at.
            let Ok(page) = store.range(&range, |_, e| !e.attrs.owners.is_empty() || is_marked(e)) else { return };
            // Compacted in between: the next list is newer.
            let Ok(watch) = store.watch(collection, "", page.revision) else { continue };
            break (page, watch);
        };
        for (item, entry) in page.items {
            self.learn(&Key { collection: collection.clone(), item }, Some(&entry), None);
        }
        while self.alarms.try_join_next().is_some() {}
        // What happened between the list and the watch rang no bell.
        self.alarm.notify_one();
        let (mut head, alarm) = (watch.head(), self.alarm.clone());
        let alarm = self.alarms.spawn(async move {
            while head.changed().await.is_ok() {
                alarm.notify_one();
                tokio::time::sleep(REST).await;
            }
        });
        self.followed.insert(collection.clone(), Followed { watch, alarm });
    }

    /// Learns some of what happened in a collection; tells whether there may be more.
    fn take(&mut self, collection: &Collection) -> bool {
        let Some(followed) = self.followed.get_mut(collection) else { return false };
        let mut events = Vec::new();
        if followed.watch.take(BATCH, &mut events).is_err() {
            // History was forgotten before we saw it. Whoever went meanwhile is not named: all are asked for their owners again.
            followed.alarm.abort();
            self.graph.forget(collection);
            self.begin(collection);
            let all: HashSet<Key> = self.graph.dependents.values().flat_map(|of| &of.keys).cloned().collect();
            all.into_iter().for_each(|key| self.todo.push(Work::Dependent(key)));
            return false;
        }
        let more = events.len() >= BATCH;
        for event in events.iter().filter(|e| matters(e)) {
            self.learn(&event.key, event.entry.as_ref(), event.prev.as_ref());
        }
        more
    }

    fn learn(&mut self, key: &Key, entry: Option<&Entry>, prev: Option<&Entry>) {
        self.graph.change(key, prev, entry);
        let Some(entry) = entry else {
            self.unjudged.remove(key);
            let dependents = prev.map(|prev| self.graph.depart(&prev.attrs.uid)).unwrap_or_default();
            dependents.into_iter().for_each(|dependent| self.todo.push(Work::Dependent(dependent)));
            return;
        };
        let owners_changed = prev.is_none_or(|p| p.attrs.owners != entry.attrs.owners);
        if !entry.attrs.owners.is_empty() && owners_changed {
            self.todo.push(Work::Dependent(key.clone()));
        }
        if is_marked(entry) {
            self.todo.push(Work::Owner(key.clone()));
        }
    }

    /// `false` means that it is to be looked at again.
    async fn work(&mut self, work: &Work) -> Result<bool, Status> {
        match work {
            Work::Dependent(key) => self.collect(key).await.map(|()| true),
            Work::Owner(key) => self.release(key).await,
        }
    }

    fn standing(&self, namespace: &str, owner: &meta::object::Owner<'_>) -> Owner {
        if self.graph.went(owner.uid) {
            return Owner::Gone;
        }
        let api = &self.api.inner;
        let Some(kind) = self.served.registry.by_type(owner.api_version, owner.kind) else { return Owner::Unknown };
        let Some(entry) = api.store.get(&kind.key(namespace, owner.name)) else { return Owner::Gone };
        if *entry.attrs.uid != *owner.uid {
            return Owner::Gone;
        }
        if !is_marked(&entry) {
            return Owner::Solid;
        }
        match api.decode_stored(kind, &entry.value, entry.revision) {
            Ok(object) if object.is_deleting() && object.has_finalizer(metadata::FOREGROUND) => Owner::Waiting,
            _ => Owner::Solid,
        }
    }

    fn locate<'a>(&self, key: &'a Key) -> Option<(Arc<Kind>, &'a str, &'a str)> {
        let kind = self.served.registry.stored_in(&key.collection)?.clone();
        let (namespace, name) = if kind.namespaced { key.item.split_once('/')? } else { ("", &*key.item) };
        Some((kind, namespace, name))
    }

    /// Deletes a dependent that has no owner left, or drops references to owners that are gone.
    async fn collect(&mut self, key: &Key) -> Result<(), Status> {
        let api = self.api.inner.clone();
        let Some((kind, namespace, name)) = self.locate(key) else { return Ok(()) };
        let Some(entry) = api.store.get(key) else { return Ok(()) };
        if entry.attrs.owners.is_empty() {
            return Ok(());
        }
        let object = api.decode_stored(&kind, &entry.value, entry.revision)?;
        let standings: Vec<(String, Owner)> =
            object.owners().map(|o| (o.uid.to_owned(), self.standing(namespace, &o))).collect();
        let any = |what: Owner| standings.iter().any(|(_, s)| *s == what);
        if any(Owner::Unknown) {
            self.unjudged.insert(key.clone());
        }
        if any(Owner::Solid) || any(Owner::Unknown) {
            let stale = standings.iter().filter(|(_, s)| matches!(s, Owner::Gone | Owner::Waiting));
            let stale: Vec<&str> = stale.map(|(uid, _)| uid.as_str()).collect();
            if !stale.is_empty() {
                disown(&api, &kind, namespace, name, &stale).await?;
            }
            return Ok(());
        }
        if object.is_deleting() {
            return Ok(());
        }
        let propagation = if any(Owner::Waiting) && !self.graph.of(object.uid()).is_empty() {
            Propagation::Foreground
        } else if object.has_finalizer(metadata::ORPHAN) {
            Propagation::Orphan
        } else if object.has_finalizer(metadata::FOREGROUND) {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        let options = DeleteOptions {
            uid: Some(object.uid().to_owned()),
            // Somebody may have adopted it meanwhile.
            resource_version: Some(object.resource_version().to_owned()),
            propagation: Some(propagation),
            ..DeleteOptions::default()
        };
        api.delete(&kind, namespace, name, &options).await.map(drop)
    }

    /// Lets a marked owner go when its dependents are: deleted first (foreground) or disowned (orphan).
    /// `false` means dependents still block it: it is looked at again.
    async fn release(&mut self, key: &Key) -> Result<bool, Status> {
        let api = self.api.inner.clone();
        let Some((kind, namespace, name)) = self.locate(key) else { return Ok(true) };
        let Some(entry) = api.store.get(key) else { return Ok(true) };
        let object = api.decode_stored(&kind, &entry.value, entry.revision)?;
        if !object.is_deleting() {
            return Ok(true);
        }
        if object.has_finalizer(metadata::ORPHAN) {
            for dependent in self.graph.of(object.uid()) {
                if let Some((kind, namespace, name)) = self.locate(&dependent) {
                    ignore_missing(disown(&api, &kind, namespace, name, &[object.uid()]).await)?;
                }
            }
            // There may be more by now: without their owner they would be taken for garbage.
            self.catch_up().await;
            if !self.graph.of(object.uid()).is_empty() {
                return Ok(false);
            }
            finalize(&api, &kind, namespace, name, metadata::ORPHAN).await?;
        } else if object.has_finalizer(metadata::FOREGROUND) {
            let mut blocked = false;
            for dependent in self.graph.of(object.uid()) {
                let Some((kind, namespace, name)) = self.locate(&dependent) else { continue };
                let Some(entry) = api.store.get(&dependent) else { continue };
                let dependent_object = api.decode_stored(&kind, &entry.value, entry.revision)?;
                blocked |= dependent_object.owners().any(|o| o.uid == object.uid() && o.blocks);
                if !dependent_object.is_deleting() {
                    tracing::trace!(%name, %namespace, "deleting a dependent in the foreground");
                    ignore_missing(self.collect(&dependent).await)?;
                }
            }
            if blocked {
                return Ok(false);
            }
            finalize(&api, &kind, namespace, name, metadata::FOREGROUND).await?;
        }
        Ok(true)
    }
}

/// Deletions always matter: somebody may have been owned.
fn matters(event: &Event) -> bool {
    let owned = |e: &Option<Entry>| e.as_ref().is_some_and(|e| !e.attrs.owners.is_empty());
    event.entry.is_none() || owned(&event.entry) || owned(&event.prev) || event.entry.as_ref().is_some_and(is_marked)
}

/// Being deleted, by the text of its metadata: a false alarm costs one look.
fn is_marked(entry: &Entry) -> bool {
    memchr::memmem::find(&entry.value, b"\"deletionTimestamp\":").is_some()
}

/// How an owner reference stands.
#[derive(PartialEq)]
enum Owner {
    Solid,
    Gone,
    /// Being deleted in the foreground: it waits for its dependents.
    Waiting,
    /// Of a type that we do not serve: nobody we could judge.
    Unknown,
}

fn ignore_missing(result: Result<(), Status>) -> Result<(), Status> {
    match result {
        Err(s) if s.reason == Reason::NotFound => Ok(()),
        other => other,
    }
}

async fn finalize(api: &Inner, kind: &Kind, namespace: &str, name: &str, finalizer: &str) -> Result<(), Status> {
    let done = api.update(kind, namespace, name, Part::Main, &By::SERVER, |current| {
        let mut desired = current.clone();
        desired.remove_finalizer(finalizer);
        Ok(desired)
    });
    ignore_missing(done.await.map(drop))
}

/// Drops the references to these owners.
async fn disown(api: &Inner, kind: &Kind, namespace: &str, name: &str, uids: &[&str]) -> Result<(), Status> {
    let done = api.update(kind, namespace, name, Part::Main, &By::SERVER, |current: &Object| {
        let mut desired = current.clone();
        if let Some(Value::Array(list)) = desired.meta_mut().get_mut("ownerReferences") {
            list.retain(|o| !uids.contains(&o.get("uid").and_then(Value::as_str).unwrap_or_default()));
            if list.is_empty() {
                desired.meta_mut().remove("ownerReferences");
            }
        }
        Ok(desired)
    });
    done.await.map(drop)
}
