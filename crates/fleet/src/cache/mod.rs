//! What is kept of a member in memory: only the kinds somebody asks for, for as long as somebody does, and never more than the
//! member may take.

mod direct;
mod follow;
mod short;
mod store;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, Mutex, PoisonError, RwLock, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use kube::Client;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use runtime::Key;
use tokio::{
    sync::{broadcast, watch},
    task::AbortHandle,
    time::{Instant, sleep, timeout},
};

use self::store::Store;
pub use self::{short::Bytes, store::Selection};

/// How long a kind is followed after the last question about it.
const IDLE: Duration = Duration::from_secs(300);
/// How long what was too large is not tried again.
const TOO_LARGE_FOR: Duration = Duration::from_secs(600);
/// More than this is not listed past the memory.
const LARGEST_LIST: usize = 64 << 20;
/// Changes a slow listener may be behind; beyond, it must read again.
const BEHIND: usize = 256;

/// One kind of objects on a member, all or those of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subject {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The name in paths: `pods`.
    pub plural: String,
    /// Only in this namespace.
    pub namespace: Option<String>,
    /// Only with these labels, as `kubectl -l` takes them.
    pub selector: Option<String>,
    /// Labels objects are often asked for by.
    pub index: Vec<String>,
}

impl Subject {
    /// All objects of a kind.
    pub fn new(group: &str, version: &str, plural: &str) -> Self {
        Subject {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            namespace: None,
            selector: None,
            index: Vec::new(),
        }
    }

    /// Found fast by this label.
    pub fn indexed(mut self, label: &str) -> Self {
        self.index.push(label.to_owned());
        self
    }

    /// Whether its objects hold what must not lie about in memory.
    fn is_secret(&self) -> bool {
        self.group.is_empty() && self.plural == "secrets"
    }

    /// Its collection's path.
    fn path(&self) -> String {
        let (version, plural) = (segment(&self.version), segment(&self.plural));
        let api = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", segment(&self.group)) };
        match &self.namespace {
            Some(namespace) => format!("{api}/{version}/namespaces/{}/{plural}", segment(namespace)),
            None => format!("{api}/{version}/{plural}"),
        }
    }
}

/// One segment of a path, whatever it holds: it can lead nowhere else.
fn segment(text: &str) -> String {
    const PLAIN: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');
    match text {
        "." | ".." => text.replace('.', "%2E"),
        _ => utf8_percent_encode(text, &PLAIN).to_string(),
    }
}

/// Why there is nothing in memory to answer from. The caller asks the member itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotCached {
    /// Everything is being read for the first time.
    #[error("its objects are still being read")]
    Reading,
    /// More than the member may take of our memory.
    #[error("there is too much of it to be kept in memory")]
    TooLarge,
}

/// Objects, and how fresh they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The objects, without an order.
    pub objects: Vec<(Key, Bytes)>,
    /// How fresh they are.
    pub freshness: Freshness,
}

/// How fresh objects are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// From memory, which the member keeps up to date.
    Live,
    /// From memory, as they were when the member was last heard.
    Stale,
    /// From the member itself, just now.
    Direct,
}

/// Something happened to an object of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which.
    pub key: Key,
    /// What it is now; `None` when it is gone.
    pub now: Option<Bytes>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Reading,
    /// Everything is here; since when the member does not keep us up to date, if so.
    Here(Option<Instant>),
    TooLarge,
}

/// The objects of one subject, kept up to date.
pub struct Cache {
    store: RwLock<Store>,
    phase: watch::Sender<Phase>,
    changes: broadcast::Sender<Change>,
    /// Grows with every change.
    version: AtomicU64,
    /// Why the last try to follow it failed, until one works.
    trouble: Mutex<Option<Arc<str>>>,
    /// What all caches of the member take.
    budget: Arc<Budget>,
    task: Mutex<Option<AbortHandle>>,
}

struct Budget {
    used: AtomicUsize,
    most: usize,
}

impl Drop for Cache {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
        let size = self.store.get_mut().unwrap_or_else(PoisonError::into_inner).size();
        self.budget.used.fetch_sub(size, Ordering::Relaxed);
    }
}

impl Cache {
    /// The selected objects.
    pub fn select(&self, selection: &Selection) -> Result<Vec<(Key, Bytes)>, NotCached> {
        self.check()?;
        Ok(self.store.read().unwrap_or_else(PoisonError::into_inner).select(selection))
    }

    /// One object.
    pub fn get(&self, key: &Key) -> Result<Option<Bytes>, NotCached> {
        self.check()?;
        Ok(self.store.read().unwrap_or_else(PoisonError::into_inner).get(key))
    }

    /// How many objects there are.
    pub fn count(&self) -> Result<usize, NotCached> {
        self.check()?;
        Ok(self.store.read().unwrap_or_else(PoisonError::into_inner).len())
    }

    /// Whether the member keeps it up to date at this moment; otherwise it is what was known last.
    pub fn is_fresh(&self) -> bool {
        *self.phase.borrow() == Phase::Here(None)
    }

    /// Returns when the member keeps it up to date, or no longer does.
    pub async fn turns(&self, fresh: bool) {
        let mut phase = self.phase.subscribe();
        // The sender is this cache itself: it cannot be gone.
        let _ = phase.wait_for(|phase| (*phase == Phase::Here(None)) == fresh).await;
    }

    /// Since when the member no longer keeps it up to date, if it does not.
    pub fn stale_since(&self) -> Option<Instant> {
        match *self.phase.borrow() {
            Phase::Here(since) => since,
            _ => None,
        }
    }

    /// Why it cannot be followed at this moment, in words that can be shown; none while all is well.
    pub fn trouble(&self) -> Option<Arc<str>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn troubled(&self, why: Option<Arc<str>>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// Another number after every change: what was made of the objects under the same number still holds.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Every change from now on. Whoever falls behind is told so and reads again.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// Waits until everything was read once, as long as `patience`.
    pub async fn ready(&self, patience: Duration) -> Result<(), NotCached> {
        let mut phase = self.phase.subscribe();
        // The sender lives as long as we do; too late is what `check` says.
        let _ = timeout(patience, phase.wait_for(|phase| *phase != Phase::Reading)).await;
        self.check()
    }

    fn check(&self) -> Result<(), NotCached> {
        match *self.phase.borrow() {
            Phase::Here(_) => Ok(()),
            Phase::Reading => Err(NotCached::Reading),
            Phase::TooLarge => Err(NotCached::TooLarge),
        }
    }

    /// Takes an object in. False when that is more than the member may take: then everything is dropped.
    fn put(&self, key: Key, bytes: Bytes) -> bool {
        let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
        if store.get(&key).is_some_and(|before| before == bytes) {
            return true;
        }
        let before = store.size();
        store.put(key.clone(), bytes.clone());
        self.version.fetch_add(1, Ordering::Release);
        self.settle(before, store.size());
        if self.budget.used.load(Ordering::Relaxed) > self.budget.most {
            let before = store.size();
            *store = Store::default();
            self.settle(before, 0);
            drop(store);
            self.phase.send_replace(Phase::TooLarge);
            return false;
        }
        drop(store);
        // Nobody listens: fine.
        let _ = self.changes.send(Change { key, now: Some(bytes) });
        true
    }

    fn remove(&self, key: &Key) {
        let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
        let before = store.size();
        if store.remove(key) {
            self.version.fetch_add(1, Ordering::Release);
            self.settle(before, store.size());
            drop(store);
            let _ = self.changes.send(Change { key: key.clone(), now: None });
        }
    }

    fn settle(&self, before: usize, now: usize) {
        if now >= before {
            self.budget.used.fetch_add(now - before, Ordering::Relaxed);
        } else {
            self.budget.used.fetch_sub(before - now, Ordering::Relaxed);
        }
    }

    fn known(&self) -> BTreeSet<Key> {
        self.store.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// The member keeps us up to date, or no longer does. Without meaning before everything was read.
    fn fresh(&self, fresh: bool) {
        self.phase.send_if_modified(|phase| match phase {
            Phase::Here(since) if since.is_none() != fresh => {
                *since = (!fresh).then(Instant::now);
                true
            }
            _ => false,
        });
    }
}

/// The caches of one member. Cheap to clone.
#[derive(Clone)]
pub struct Caches(Arc<Inner>);

struct Inner {
    member: Arc<str>,
    client: Client,
    budget: Arc<Budget>,
    running: Mutex<HashMap<Subject, Running>>,
    sweeper: Mutex<Option<AbortHandle>>,
}

struct Running {
    cache: Arc<Cache>,
    since: Instant,
    asked: Instant,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(task) = self.sweeper.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}

impl Caches {
    pub(crate) fn new(member: Arc<str>, client: Client, most: usize) -> Self {
        let budget = Arc::new(Budget { used: AtomicUsize::new(0), most });
        let (running, sweeper) = (Mutex::default(), Mutex::new(None));
        Caches(Arc::new(Inner { member, client, budget, running, sweeper }))
    }

    /// The objects of `subject`, followed from now on if they are not yet. Never waits; see [`Cache::ready`].
    pub fn open(&self, subject: &Subject) -> Arc<Cache> {
        let mut running = self.0.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = running.get_mut(subject)
            && !(*running.cache.phase.borrow() == Phase::TooLarge && running.since.elapsed() >= TOO_LARGE_FOR)
        {
            running.asked = Instant::now();
            return running.cache.clone();
        }
        let cache = Arc::new(Cache {
            store: RwLock::new(Store::new(&subject.index)),
            phase: watch::Sender::new(Phase::Reading),
            changes: broadcast::Sender::new(BEHIND),
            version: AtomicU64::new(0),
            trouble: Mutex::default(),
            budget: self.0.budget.clone(),
            task: Mutex::new(None),
        });
        let reader = follow::Reader::new(&self.0.member, self.0.client.clone(), subject, Arc::downgrade(&cache));
        let task = tokio::spawn(reader.run()).abort_handle();
        *cache.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        let now = Instant::now();
        running.insert(subject.clone(), Running { cache: cache.clone(), since: now, asked: now });
        drop(running);
        let mut sweeper = self.0.sweeper.lock().unwrap_or_else(PoisonError::into_inner);
        sweeper.get_or_insert_with(|| tokio::spawn(sweep(Arc::downgrade(&self.0))).abort_handle());
        cache
    }

    /// What is followed already of `subject`, if it is: nothing is begun for it.
    pub fn followed(&self, subject: &Subject) -> Option<Arc<Cache>> {
        let mut running = self.0.running.lock().unwrap_or_else(PoisonError::into_inner);
        let running = running.get_mut(subject)?;
        running.asked = Instant::now();
        Some(running.cache.clone())
    }

    /// The selected objects: from memory if everything is there within `patience`, otherwise from the member itself.
    pub async fn list(
        &self,
        subject: &Subject,
        selection: &Selection,
        patience: Duration,
    ) -> Result<Listed, kube::Error> {
        let cache = self.open(subject);
        if cache.ready(patience).await.is_ok()
            && let Ok(objects) = cache.select(selection)
        {
            let freshness = if cache.is_fresh() { Freshness::Live } else { Freshness::Stale };
            return Ok(Listed { objects, freshness });
        }
        let objects = direct::list(&self.0.member, &self.0.client, subject, selection, LARGEST_LIST).await?;
        Ok(Listed { objects, freshness: Freshness::Direct })
    }

    /// Drops all of them; what was handed out stays as it was and is no longer followed.
    pub(crate) fn close(&self) {
        let mut running = self.0.running.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, running) in running.drain() {
            if let Some(task) = running.cache.task.lock().unwrap_or_else(PoisonError::into_inner).take() {
                task.abort();
            }
            running.cache.fresh(false);
        }
    }

    /// How much memory they take.
    pub fn size(&self) -> usize {
        self.0.budget.used.load(Ordering::Relaxed)
    }

    /// What is followed at this moment.
    pub fn subjects(&self) -> Vec<Subject> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }
}

/// Drops what nobody holds and nobody asked for lately.
async fn sweep(caches: Weak<Inner>) {
    loop {
        sleep(IDLE / 10).await;
        let Some(caches) = caches.upgrade() else { return };
        let mut running = caches.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|_, running| Arc::strong_count(&running.cache) > 1 || running.asked.elapsed() < IDLE);
    }
}

#[cfg(test)]
mod tests;
