//! Garbage collection by owner references: what nobody owns any more goes, and owners wait or let go as asked.

use crate::kinds::{Kind, metadata};
use crate::objects::Part;
use crate::ownership::By;
use crate::{Api, Inner};
use meta::options::{DeleteOptions, Propagation};
use meta::{Object, Reason, Status};
use serde_json::Value;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use store::{Collection, Entry, Event, Key, Range};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long a failed piece of work waits before it is tried again.
const RETRY: Duration = Duration::from_millis(200);
const QUEUE: usize = 1024;
const BATCH: usize = 256;
/// Between two looks at a collection, so that a busy one does not wake us with every write and take the core from its writer.
const REST: Duration = Duration::from_millis(20);
/// Owners remembered after they went.
const DEPARTED: usize = 1024;

/// Who owns whom, kept for objects that have owners; built from the store and from its events.
#[derive(Default)]
struct Graph {
    /// Owner's uid to its dependents.
    dependents: HashMap<Box<str>, HashSet<Key>>,
    /// Owners that were seen to go, the newest last: what kind they were may not be known any more when their dependents are looked at.
    departed: VecDeque<Box<str>>,
}

impl Graph {
    fn add(&mut self, key: &Key, entry: &Entry) {
        for owner in &entry.attrs.owners {
            self.dependents.entry(owner.clone()).or_default().insert(key.clone());
        }
    }

    fn remove(&mut self, key: &Key, entry: &Entry) {
        for owner in &entry.attrs.owners {
            if let Some(set) = self.dependents.get_mut(owner) {
                set.remove(key);
                if set.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
    }

    fn depart(&mut self, uid: &str) {
        if self.departed.len() == DEPARTED {
            self.departed.pop_front();
        }
        self.departed.push_back(uid.into());
    }

    fn of(&self, uid: &str) -> Vec<Key> {
        self.dependents.get(uid).map(|set| set.iter().cloned().collect()).unwrap_or_default()
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
    let (events, mut incoming) = mpsc::channel::<Feed>(QUEUE);
    let mut feeders = JoinSet::new();
    let mut fed: HashSet<Collection> = HashSet::new();
    let mut changes = api.inner.served.changes();
    changes.mark_changed();
    let mut graph = Graph::default();
    let mut todo = Todo::default();
    let mut later: Vec<Work> = Vec::new();
    loop {
        if changes.has_changed().unwrap_or_default() {
            changes.mark_unchanged();
            // A collection that is no longer served is fed to its end: its last events are what sets its dependents free.
            for kind in api.inner.served.get().registry.stored() {
                if fed.insert(kind.collection.clone()) {
                    feeders.spawn(feed(api.clone(), kind.collection.clone(), events.clone()));
                }
            }
        }
        // Everything known first: a decision is made on the newest graph.
        while let Ok(item) = incoming.try_recv() {
            learn(&mut graph, &mut todo, item);
        }
        let Some(work) = todo.pop() else {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(RETRY), if !later.is_empty() => later.drain(..).for_each(|w| todo.push(w)),
                changed = changes.changed() => match changed {
                    Ok(()) => changes.mark_changed(),
                    Err(_) => return,
                },
                item = incoming.recv() => match item {
                    Some(item) => learn(&mut graph, &mut todo, item),
                    None => return,
                },
            }
            continue;
        };
        if stop.is_cancelled() {
            return;
        }
        let done = match &work {
            Work::Dependent(key) => collect(&api.inner, &graph, key).await,
            Work::Owner(key) => release(&api.inner, &graph, key).await,
        };
        match done {
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

/// What a feeder tells: objects that exist (at the start or after falling behind), and events.
enum Feed {
    Present(Key, Entry),
    Happened(Arc<Event>),
}

/// Follows one collection; starts over when it falls behind the history.
async fn feed(api: Api, collection: Collection, to: mpsc::Sender<Feed>) {
    let store = &api.inner.store;
    let mut events = Vec::new();
    loop {
        let range = Range { collection: &collection, prefix: "", after: None, limit: 0, at: None };
        // Only objects that own, are owned or are going away matter; the rest is not even looked at.
        let Ok(page) = store.range(&range, |_, e| !e.attrs.owners.is_empty() || is_marked(e)) else { return };
        for (item, entry) in page.items {
            let key = Key { collection: collection.clone(), item };
            if to.send(Feed::Present(key, entry)).await.is_err() {
                return;
            }
        }
        let Ok(mut watch) = store.watch(&collection, "", page.revision) else { continue };
        loop {
            events.clear();
            match watch.next(BATCH, &mut events).await {
                Ok(()) => {
                    let behind = events.len() == BATCH;
                    for event in events.drain(..).filter(|e| matters(e)) {
                        if to.send(Feed::Happened(event)).await.is_err() {
                            return;
                        }
                    }
                    if !behind {
                        tokio::time::sleep(REST).await;
                    }
                }
                Err(store::Error::Compacted { .. }) => break,
                Err(_) => return,
            }
        }
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

fn learn(graph: &mut Graph, todo: &mut Todo, item: Feed) {
    let (key, entry, prev) = match &item {
        Feed::Present(key, entry) => (key, Some(entry), None),
        Feed::Happened(event) => (&event.key, event.entry.as_ref(), event.prev.as_ref()),
    };
    if let Some(prev) = prev {
        graph.remove(key, prev);
    }
    match entry {
        Some(entry) => {
            graph.add(key, entry);
            let owners_changed = prev.is_none_or(|p| p.attrs.owners != entry.attrs.owners);
            if !entry.attrs.owners.is_empty() && owners_changed {
                todo.push(Work::Dependent(key.clone()));
            }
            if is_marked(entry) {
                todo.push(Work::Owner(key.clone()));
            }
        }
        None => {
            if let Some(prev) = prev {
                let dependents = graph.of(&prev.attrs.uid);
                if !dependents.is_empty() {
                    graph.depart(&prev.attrs.uid);
                }
                for dependent in dependents {
                    todo.push(Work::Dependent(dependent));
                }
            }
        }
    }
}

/// How an owner reference stands.
#[derive(PartialEq)]
enum Owner {
    Solid,
    Gone,
    /// Being deleted in the foreground: it waits for its dependents.
    Waiting,
}

fn standing(api: &Inner, graph: &Graph, namespace: &str, owner: &meta::object::Owner<'_>) -> Owner {
    if graph.departed.iter().any(|uid| **uid == *owner.uid) {
        return Owner::Gone;
    }
    // A kind we do not serve is nobody we could judge: leave its dependents alone.
    let served = api.served.get();
    let Some(kind) = served.registry.by_type(owner.api_version, owner.kind) else { return Owner::Solid };
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

fn locate<'a>(api: &Inner, key: &'a Key) -> Option<(Arc<Kind>, &'a str, &'a str)> {
    let kind = api.served.get().registry.stored_in(&key.collection)?.clone();
    let (namespace, name) = if kind.namespaced { key.item.split_once('/')? } else { ("", &*key.item) };
    Some((kind, namespace, name))
}

/// Deletes a dependent that has no owner left, or drops references to owners that are gone.
async fn collect(api: &Inner, graph: &Graph, key: &Key) -> Result<bool, Status> {
    let Some((kind, namespace, name)) = locate(api, key) else { return Ok(true) };
    let Some(entry) = api.store.get(key) else { return Ok(true) };
    if entry.attrs.owners.is_empty() {
        return Ok(true);
    }
    let object = api.decode_stored(&kind, &entry.value, entry.revision)?;
    let standings: Vec<(String, Owner)> =
        object.owners().map(|o| (o.uid.to_owned(), standing(api, graph, namespace, &o))).collect();
    let any = |what: Owner| standings.iter().any(|(_, s)| *s == what);
    if any(Owner::Solid) {
        let stale: Vec<&str> =
            standings.iter().filter(|(_, s)| *s != Owner::Solid).map(|(uid, _)| uid.as_str()).collect();
        if !stale.is_empty() {
            disown(api, &kind, namespace, name, &stale).await?;
        }
        return Ok(true);
    }
    if object.is_deleting() {
        return Ok(true);
    }
    let propagation = if any(Owner::Waiting) && !graph.of(object.uid()).is_empty() {
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
    api.delete(&kind, namespace, name, &options).await?;
    Ok(true)
}

/// Lets a marked owner go when its dependents are: deleted first (foreground) or disowned (orphan).
/// `false` means dependents still block it: it is looked at again.
async fn release(api: &Inner, graph: &Graph, key: &Key) -> Result<bool, Status> {
    let Some((kind, namespace, name)) = locate(api, key) else { return Ok(true) };
    let Some(entry) = api.store.get(key) else { return Ok(true) };
    let object = api.decode_stored(&kind, &entry.value, entry.revision)?;
    if !object.is_deleting() {
        return Ok(true);
    }
    if object.has_finalizer(metadata::ORPHAN) {
        for dependent in graph.of(object.uid()) {
            if let Some((kind, namespace, name)) = locate(api, &dependent) {
                ignore_missing(disown(api, &kind, namespace, name, &[object.uid()]).await)?;
            }
        }
        finalize(api, &kind, namespace, name, metadata::ORPHAN).await?;
    } else if object.has_finalizer(metadata::FOREGROUND) {
        let mut blocked = false;
        for dependent in graph.of(object.uid()) {
            let Some((kind, namespace, name)) = locate(api, &dependent) else { continue };
            let Some(entry) = api.store.get(&dependent) else { continue };
            let dependent_object = api.decode_stored(&kind, &entry.value, entry.revision)?;
            blocked |= dependent_object.owners().any(|o| o.uid == object.uid() && o.blocks);
            if !dependent_object.is_deleting() {
                tracing::trace!(%name, %namespace, "deleting a dependent in the foreground");
                ignore_missing(collect(api, graph, &dependent).await.map(drop))?;
            }
        }
        if blocked {
            return Ok(false);
        }
        finalize(api, &kind, namespace, name, metadata::FOREGROUND).await?;
    }
    Ok(true)
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
