//! The objects of a kind, kept up to date in memory, and whoever wants to know about changes told at once. Shared by all
//! reconcilers that read the same part of a kind.

mod filter;
mod kept;
mod reflect;
#[cfg(test)]
mod tests;
mod wire;

use std::{
    any::{Any, TypeId, type_name},
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, RwLock, Weak},
};

use kube::{Client, Resource};
use tokio::{sync::watch, task::AbortHandle};

pub use self::filter::Filter;
pub(crate) use self::filter::Scope;
use self::kept::Kept;
use self::wire::{Arrived, Version};
use crate::{Key, Metrics, Object};

/// Objects from memory; possibly a little behind the server.
pub struct Cache<K> {
    parts: Arc<[Arc<Informer<K>>]>,
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Cache { parts: self.parts.clone() }
    }
}

impl<K: Object> Cache<K> {
    /// The object, if it is there and can be read. Memory keeps texts: each call makes the value anew.
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        match self.look(key) {
            Look::Object(object) => Some(object),
            Look::Unreadable(_) | Look::Absent => None,
        }
    }

    /// All objects, in no order.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.keys().iter().filter_map(|key| self.get(key)).collect()
    }

    /// The keys of all objects, in no order.
    pub fn keys(&self) -> Vec<Key> {
        self.parts.iter().flat_map(|part| part.read(|objects| objects.keys().cloned().collect::<Vec<_>>())).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.read(HashMap::len)).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn look(&self, key: &Key) -> Look<K> {
        let found = self.parts.iter().map(|part| part.look(key)).find(|look| !matches!(look, Look::Absent));
        found.unwrap_or(Look::Absent)
    }

    /// Returns when everything has been read once.
    pub(crate) async fn synced(&self) {
        for part in self.parts.iter() {
            // The sender lives as long as the informer.
            let _ = part.synced.subscribe().wait_for(|synced| *synced).await;
        }
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.parts.iter().all(|part| *part.synced.borrow())
    }

    /// Tells `handler` of everything there is and of every change from now on, until the answer is dropped.
    pub(crate) fn subscribe(&self, handler: impl Fn(&Change<'_, K>) + Send + Sync + 'static) -> Vec<Subscription> {
        let handler: Handler<K> = Arc::new(handler);
        self.parts.iter().map(|part| part.subscribe(handler.clone())).collect()
    }
}

/// What memory has of an object.
pub(crate) enum Look<K> {
    Object(Arc<K>),
    /// It exists but is not what its kind says, for this reason.
    Unreadable(Arc<str>),
    Absent,
}

/// Something happened to an object.
pub(crate) struct Change<'a, K> {
    pub key: &'a Key,
    pub old: Option<&'a Arc<K>>,
    pub new: Option<&'a Arc<K>>,
    /// It was there when we began to read: nobody is known to have changed it.
    pub listed: bool,
}

type Handler<K> = Arc<dyn Fn(&Change<'_, K>) + Send + Sync>;

/// Ends a subscription when dropped.
pub(crate) struct Subscription(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(end) = self.0.take() {
            end();
        }
    }
}

/// One watch and what it brought.
pub(crate) struct Informer<K> {
    contents: RwLock<Contents>,
    handlers: Mutex<Handlers<K>>,
    synced: watch::Sender<bool>,
    /// The task that reads; it holds us weakly and ends with us.
    task: Mutex<Option<AbortHandle>>,
}

struct Contents {
    objects: HashMap<Key, Kept>,
    unreadable: HashMap<Key, (Version, Arc<str>)>,
}

struct Handlers<K> {
    next: u64,
    all: Vec<(u64, Handler<K>)>,
}

impl<K> Drop for Informer<K> {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}

impl<K: Object> Informer<K> {
    fn empty() -> Arc<Self> {
        Arc::new(Informer {
            contents: RwLock::new(Contents { objects: HashMap::new(), unreadable: HashMap::new() }),
            handlers: Mutex::new(Handlers { next: 0, all: Vec::new() }),
            synced: watch::Sender::new(false),
            task: Mutex::new(None),
        })
    }

    fn start(client: Client, scope: Scope, metrics: &Metrics) -> Arc<Self> {
        let informer = Self::empty();
        let reader = reflect::Reader::new(client, scope, Arc::downgrade(&informer), metrics);
        let task = tokio::spawn(reader.run()).abort_handle();
        *informer.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        informer
    }

    fn read<T>(&self, read: impl FnOnce(&HashMap<Key, Kept>) -> T) -> T {
        read(&self.contents.read().unwrap_or_else(PoisonError::into_inner).objects)
    }

    fn look(&self, key: &Key) -> Look<K> {
        let contents = self.contents.read().unwrap_or_else(PoisonError::into_inner);
        match (contents.objects.get(key), contents.unreadable.get(key)) {
            (Some(kept), _) => match kept.read() {
                Ok(object) => Look::Object(object),
                Err(why) => Look::Unreadable(why.to_string().into()),
            },
            (None, Some((_, why))) => Look::Unreadable(why.clone()),
            (None, None) => Look::Absent,
        }
    }

    /// Everything known by name, readable or not.
    fn known(&self) -> Vec<Key> {
        let contents = self.contents.read().unwrap_or_else(PoisonError::into_inner);
        contents.objects.keys().chain(contents.unreadable.keys()).cloned().collect()
    }

    /// Takes in what arrived and tells the handlers. Says whether an unreadable version is news.
    fn put(&self, arrived: Arrived<K>, listed: bool) -> Option<Unread> {
        // Held throughout, so that a new subscriber sees every object exactly once: now, or as a change.
        let handlers = self.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        match arrived {
            Arrived::Object(key, object, kept) => {
                let new = Arc::new(*object);
                let old = {
                    let mut contents = self.contents.write().unwrap_or_else(PoisonError::into_inner);
                    if contents.objects.get(&key) == Some(&kept) {
                        return None;
                    }
                    contents.unreadable.remove(&key);
                    contents.objects.insert(key.clone(), kept)
                };
                let old: Option<Arc<K>> = old.and_then(|old| old.read().ok());
                let same = old.as_ref().is_some_and(|old| old.meta().resource_version == new.meta().resource_version);
                if !same {
                    handlers.tell(&Change { key: &key, old: old.as_ref(), new: Some(&new), listed });
                }
                None
            }
            Arrived::Unreadable(key, version, why) => {
                let why: Arc<str> = why.into();
                let (old, known) = {
                    let mut contents = self.contents.write().unwrap_or_else(PoisonError::into_inner);
                    let known = contents.unreadable.insert(key.clone(), (version.clone(), why.clone()));
                    (contents.objects.remove(&key), known)
                };
                if known.is_some_and(|(before, _)| before == version) {
                    return None;
                }
                let old = old.and_then(|old| old.read().ok());
                handlers.tell(&Change { key: &key, old: old.as_ref(), new: None, listed });
                Some(Unread { key, version, why })
            }
        }
    }

    /// The object is no more.
    fn remove(&self, key: &Key) {
        let handlers = self.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        let (old, unreadable) = {
            let mut contents = self.contents.write().unwrap_or_else(PoisonError::into_inner);
            (contents.objects.remove(key), contents.unreadable.remove(key))
        };
        if old.is_some() || unreadable.is_some() {
            let old = old.and_then(|old| old.read().ok());
            handlers.tell(&Change { key, old: old.as_ref(), new: None, listed: false });
        }
    }

    fn subscribe(self: &Arc<Self>, handler: Handler<K>) -> Subscription {
        let mut handlers = self.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        for key in self.known() {
            let new = match self.look(&key) {
                Look::Object(object) => Some(object),
                Look::Unreadable(_) | Look::Absent => None,
            };
            tell(&handler, &Change { key: &key, old: None, new: new.as_ref(), listed: true });
        }
        let id = handlers.next;
        handlers.next += 1;
        handlers.all.push((id, handler));
        let informer = self.clone();
        Subscription(Some(Box::new(move || {
            informer.handlers.lock().unwrap_or_else(PoisonError::into_inner).all.retain(|(other, _)| *other != id);
        })))
    }
}

/// A version of an object that could not be read, for the log.
struct Unread {
    key: Key,
    version: Version,
    why: Arc<str>,
}

impl<K> Handlers<K> {
    fn tell(&self, change: &Change<'_, K>) {
        self.all.iter().for_each(|(_, handler)| tell(handler, change));
    }
}

/// A handler is code of a reconciler's author: its panic must not stop the others.
fn tell<K>(handler: &Handler<K>, change: &Change<'_, K>) {
    let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| handler(change)));
    if told.is_err() {
        let kind = type_name::<K>();
        tracing::error!(kind, key = %change.key, "what maps this object to keys panicked; the event is lost for it");
    }
}

/// Whether objects of `K` live outside namespaces.
pub(crate) fn is_cluster_kind<K: Resource>() -> bool {
    type_name::<K::Scope>().ends_with("ClusterResourceScope")
}

/// All informers of a process, so that equal ones are one.
pub(crate) struct Informers {
    client: Client,
    metrics: Metrics,
    running: Mutex<HashMap<(TypeId, Scope), Weak<dyn Any + Send + Sync>>>,
}

impl Informers {
    pub(crate) fn new(client: Client, metrics: Metrics) -> Arc<Self> {
        Arc::new(Informers { client, metrics, running: Mutex::default() })
    }

    /// The objects in `scopes`, read from now on if nobody reads them yet.
    pub(crate) fn cache<K: Object>(&self, scopes: Vec<Scope>) -> Cache<K> {
        Cache { parts: scopes.into_iter().map(|scope| self.informer(scope)).collect() }
    }

    fn informer<K: Object>(&self, scope: Scope) -> Arc<Informer<K>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|_, informer| informer.strong_count() > 0);
        let id = (TypeId::of::<K>(), scope.clone());
        if let Some(informer) = running.get(&id).and_then(Weak::upgrade)
            && let Ok(informer) = informer.downcast::<Informer<K>>()
        {
            return informer;
        }
        let informer = Informer::<K>::start(self.client.clone(), scope, &self.metrics);
        let weak = Arc::downgrade(&informer);
        running.insert(id, weak as Weak<dyn Any + Send + Sync>);
        informer
    }
}
