//! Rows of whole kinds, kept current by watches that all callers share: started by the first list, dropped when nobody lists.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::catalog::Kind;
use super::columns::Columns;
use super::field::FieldPath;
use super::row::{Row, Show};
use crate::access::{Authorized, List, Verb};
use crate::options::Limits;
use crate::problem::Problem;
use crate::visit::{Notice, Notices};

/// How long the first list of a kind waits for the cache before it asks the API directly.
const FILL_DEADLINE: Duration = Duration::from_secs(15);
/// After a failure of the watch, lists go to the API until the watch has shown that it lives, or this long.
const DISTRUST: Duration = Duration::from_secs(45);
/// A kind that the gateway may not watch is tried again after this.
const REFUSED_FOR: Duration = Duration::from_secs(30);
/// How long a write waits to be seen by the next list.
const SETTLE: Duration = Duration::from_secs(1);

/// By namespace and name.
type ByName = BTreeMap<(Arc<str>, Arc<str>), Arc<Row>>;

/// All rows of a kind at one moment, in order of namespace and name.
pub(crate) type Rows = Arc<[Arc<Row>]>;

pub(crate) struct Caches {
    client: Client,
    limits: Limits,
    kinds: Mutex<HashMap<String, Arc<Cache>>>,
    bytes: Arc<AtomicUsize>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// The rows of one kind.
pub(crate) struct Cache {
    kind: Arc<Kind>,
    content: Mutex<Content>,
    columns: Columns,
    /// Bumped with every change of the content.
    changes: watch::Sender<u64>,
    stop: CancellationToken,
    bytes: Arc<AtomicUsize>,
}

struct Content {
    state: State,
    rows: ByName,
    /// The new rows while the API lists them anew.
    filling: Option<ByName>,
    /// `rows` as a list, made when asked for and dropped by the next change.
    listed: Option<Rows>,
    used: Instant,
    distrusted: Option<Instant>,
    bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Filling,
    Ready,
    /// The gateway may not watch it, it is gone, it is too large, or nobody used it.
    Over(Instant),
}

/// What a write left behind, so that the writer's next list shows it.
pub(crate) enum Write<'a> {
    Stored { namespace: &'a str, name: &'a str, version: &'a str },
    Gone { namespace: &'a str, name: &'a str, id: &'a str },
}

impl Caches {
    pub(crate) fn new(client: Client, limits: Limits, stop: CancellationToken) -> Self {
        Self { client, limits, kinds: Mutex::default(), bytes: Arc::default(), tasks: TaskTracker::new(), stop }
    }

    /// The cache of the kind the proof is for; `None` when there can be none now and the API must be asked directly.
    pub(crate) async fn of(&self, proof: &Authorized<List>) -> Result<Option<(Arc<Cache>, Rows)>, Problem> {
        let (kind, ..) = proof.resource()?;
        if !(kind.allows("list") && kind.allows("watch")) || self.stop.is_cancelled() {
            return Ok(None);
        }
        let cache = self.find_or_start(kind);
        let mut changes = cache.changes.subscribe();
        let deadline = Instant::now() + FILL_DEADLINE;
        loop {
            if let Some(rows) = cache.rows() {
                return Ok(rows.map(|rows| (cache, rows)));
            }
            if timeout_at(deadline, changes.changed()).await.is_err() {
                return Ok(None);
            }
        }
    }

    /// Hears of changes of the kind the proof is for: of every row, without saying which.
    pub(crate) fn notices<V: Verb>(&self, proof: &Authorized<V>) -> Result<Notices, Problem> {
        let (kind, ..) = proof.resource()?;
        if !(kind.allows("list") && kind.allows("watch")) || self.stop.is_cancelled() {
            return Err(Problem::new(405, "MethodNotAllowed", format!("{} cannot be watched", kind.kind)));
        }
        let cache = self.find_or_start(kind);
        let changes = cache.changes.subscribe();
        // Ends when the cache does; whoever still listens follows anew.
        Ok(stream::unfold((cache, changes), |(cache, mut changes)| async move {
            if cache.is_over() {
                return None;
            }
            tokio::select! {
                changed = changes.changed() => changed.ok()?,
                () = cache.stop.cancelled() => return None,
            }
            Some((Notice::Changed, (cache, changes)))
        })
        .boxed())
    }

    fn find_or_start(&self, kind: &Arc<Kind>) -> Arc<Cache> {
        let key = kind.url(None, None);
        let mut kinds = self.kinds();
        kinds.retain(|_, cache| !cache.is_over());
        if let Some(cache) = kinds.get(&key).filter(|cache| cache.kind == *kind) {
            cache.content().used = Instant::now();
            return cache.clone();
        }
        if kinds.len() >= self.limits.cached_kinds.max(1) {
            let oldest = kinds.iter().min_by_key(|(_, cache)| cache.content().used).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest.and_then(|key| kinds.remove(&key)) {
                oldest.stop.cancel();
            }
        }
        let cache = Arc::new(Cache::new(kind.clone(), self.stop.child_token(), self.bytes.clone()));
        if let Some(old) = kinds.insert(key, cache.clone()) {
            old.stop.cancel();
        }
        self.tasks.spawn(cache.clone().follow(self.client.clone(), self.limits.clone()));
        cache
    }

    /// Waits, shortly, until the cache of the kind (if there is one) shows what was written.
    pub(crate) async fn settle(&self, kind: &Kind, write: Write<'_>) {
        let cache = self.kinds().get(&kind.url(None, None)).cloned();
        let Some(cache) = cache.filter(|cache| cache.content().usable() == Some(true)) else { return };
        let mut changes = cache.changes.subscribe();
        let deadline = Instant::now() + SETTLE;
        while !cache.shows(&write) {
            if timeout_at(deadline, changes.changed()).await.is_err() {
                tracing::debug!(kind = %kind.kind, "a write is not in the cache yet");
                return;
            }
        }
    }

    fn kinds(&self) -> MutexGuard<'_, HashMap<String, Arc<Cache>>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// After the stop token: waits for the watches to end.
    pub(crate) async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Cache {
    fn new(kind: Arc<Kind>, stop: CancellationToken, bytes: Arc<AtomicUsize>) -> Self {
        let content = Content {
            state: State::Filling,
            rows: BTreeMap::new(),
            filling: None,
            listed: None,
            used: Instant::now(),
            distrusted: None,
            bytes: 0,
        };
        let (columns, changes) = (Columns::default(), watch::Sender::new(0));
        Self { kind, content: Mutex::new(content), columns, changes, stop, bytes }
    }

    /// The rows, if lists may be answered from them; nothing is known while they come in.
    fn rows(&self) -> Option<Option<Rows>> {
        let mut content = self.content();
        content.used = Instant::now();
        if !content.usable()? {
            return Some(None);
        }
        if content.listed.is_none() {
            content.listed = Some(content.rows.values().cloned().collect());
        }
        Some(content.listed.clone())
    }

    /// The number under which rows keep the cells of a column.
    pub(crate) fn number(&self, path: &FieldPath) -> u32 {
        self.columns.number(path)
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        let refused = matches!(self.content().state, State::Over(at) if at.elapsed() > REFUSED_FOR);
        refused || self.stop.is_cancelled()
    }

    fn shows(&self, write: &Write<'_>) -> bool {
        let content = self.content();
        let row = |namespace: &str, name: &str| content.rows.get(&(namespace.into(), name.into()));
        match write {
            Write::Stored { namespace, name, version } => row(namespace, name).is_some_and(|row| {
                // Revisions are opaque but for this: later ones are larger numbers.
                let number = |text: &str| text.parse::<u128>().ok();
                *row.version == **version
                    || matches!((number(&row.version), number(version)), (Some(a), Some(b)) if a >= b)
            }),
            Write::Gone { namespace, name, id } => row(namespace, name).is_none_or(|row| *row.id != **id),
        }
    }

    /// Follows the kind until it is stopped, not used any more, or refused.
    async fn follow(self: Arc<Self>, client: Client, limits: Limits) {
        let resource = ApiResource {
            group: self.kind.group.clone(),
            version: self.kind.version.clone(),
            api_version: self.kind.api_version(),
            kind: self.kind.kind.clone(),
            plural: self.kind.plural.clone(),
        };
        let api: Api<DynamicObject> = Api::all_with(client, &resource);
        let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
        let mut look = tokio::time::interval((limits.cache_idle / 4).max(Duration::from_millis(100)));
        loop {
            let event = tokio::select! {
                () = self.stop.cancelled() => break,
                _ = look.tick() => {
                    if self.content().used.elapsed() > limits.cache_idle {
                        break;
                    }
                    continue;
                }
                event = events.next() => event,
            };
            let refused = match event {
                Some(Ok(event)) => self.apply(event, &limits),
                Some(Err(why)) => self.failed(&why),
                None => true,
            };
            if refused {
                return self.end();
            }
        }
        self.stop.cancel();
        self.end();
    }

    fn end(&self) {
        let mut content = self.content();
        content.clear(&self.bytes);
        content.state = State::Over(Instant::now());
        drop(content);
        self.changed();
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Takes an event in; says whether the kind outgrew its bounds.
    fn apply(&self, event: Event<DynamicObject>, limits: &Limits) -> bool {
        let row = |object| Arc::new(Row::new(object, &self.kind, Show::Public));
        let mut content = self.content();
        content.distrusted = None;
        let mut visible = true;
        match event {
            Event::Init => {
                // A list that broke off is forgotten.
                for row in content.filling.replace(BTreeMap::new()).into_iter().flat_map(BTreeMap::into_values) {
                    content.count(0, Some(row), &self.bytes);
                }
                visible = false;
            }
            Event::InitApply(object) => {
                let row = row(object);
                let bytes = row.bytes();
                let old = content.filling.get_or_insert_default().insert(row.key(), row);
                content.count(bytes, old, &self.bytes);
                visible = false;
            }
            Event::InitDone => {
                let new = content.filling.take().unwrap_or_default();
                for row in std::mem::replace(&mut content.rows, new).into_values() {
                    content.count(0, Some(row), &self.bytes);
                }
                content.state = State::Ready;
            }
            Event::Apply(object) => {
                let row = row(object);
                let bytes = row.bytes();
                let old = content.rows.insert(row.key(), row);
                content.count(bytes, old, &self.bytes);
            }
            Event::Delete(object) => {
                let key = (
                    object.metadata.namespace.unwrap_or_default().into(),
                    object.metadata.name.unwrap_or_default().into(),
                );
                let old = content.rows.remove(&key);
                content.count(0, old, &self.bytes);
            }
        }
        let many = content.rows.len().max(content.filling.as_ref().map_or(0, BTreeMap::len));
        let outgrown = many > limits.objects_per_kind || self.bytes.load(Relaxed) > limits.cache_bytes;
        if outgrown {
            tracing::warn!(kind = %self.kind.kind, objects = many, "a kind is too large to be cached; lists of it go to the API");
        }
        if visible {
            content.listed = None;
            drop(content);
            self.changed();
        }
        outgrown
    }

    /// Says whether there is no point in going on.
    fn failed(&self, why: &watcher::Error) -> bool {
        let status = match why {
            watcher::Error::InitialListFailed(kube::Error::Api(status))
            | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        };
        let final_no = matches!(status, Some(401 | 403 | 404 | 405));
        if final_no {
            tracing::warn!(kind = %self.kind.kind, %why, "the gateway cannot watch a kind; lists of it go to the API as the caller");
        } else {
            tracing::debug!(kind = %self.kind.kind, %why, "the watch of a kind broke; it is resumed");
        }
        self.content().distrusted = Some(Instant::now());
        final_no
    }
}

impl Content {
    /// Whether lists may be answered from it; `None` while it fills.
    fn usable(&self) -> Option<bool> {
        match self.state {
            State::Filling => None,
            State::Ready => Some(self.distrusted.is_none_or(|since| since.elapsed() > DISTRUST)),
            State::Over(_) => Some(false),
        }
    }

    fn count(&mut self, added: usize, removed: Option<Arc<Row>>, all: &AtomicUsize) {
        let removed = removed.map_or(0, |row| row.bytes());
        all.fetch_add(added, Relaxed);
        all.fetch_sub(removed, Relaxed);
        self.bytes = (self.bytes + added).saturating_sub(removed);
    }

    fn clear(&mut self, all: &AtomicUsize) {
        all.fetch_sub(self.bytes, Relaxed);
        self.bytes = 0;
        self.rows.clear();
        self.filling = None;
        self.listed = None;
    }
}

impl Row {
    fn key(&self) -> (Arc<str>, Arc<str>) {
        (self.namespace.clone(), self.name.clone())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn cache() -> Cache {
        let kind = Kind::for_tests("", "v1", "configmaps", "ConfigMap");
        Cache::new(Arc::new(kind), CancellationToken::new(), Arc::default())
    }

    fn object(name: &str, version: u64) -> DynamicObject {
        let metadata = json!({"name": name, "namespace": "ns", "uid": format!("{name}-{}", version / 100), "resourceVersion": version.to_string()});
        serde_json::from_value(json!({"metadata": metadata, "data": {"k": "v".repeat(version as usize % 7)}})).unwrap()
    }

    fn apply(cache: &Cache, events: Vec<Event<DynamicObject>>) {
        for event in events {
            assert!(!cache.apply(event, &Limits::default()));
        }
    }

    fn names(cache: &Cache) -> Vec<String> {
        cache.rows().unwrap().unwrap().iter().map(|row| row.name.to_string()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn rows_show_only_whole_lists() {
        let cache = cache();
        apply(&cache, vec![Event::Init, Event::InitApply(object("a", 1))]);
        assert!(cache.rows().is_none(), "not yet");
        apply(
            &cache,
            vec![
                Event::InitApply(object("b", 2)),
                Event::InitDone,
                Event::Apply(object("c", 3)),
                Event::Delete(object("a", 4)),
            ],
        );
        assert_eq!(names(&cache), ["b", "c"]);
        // A list that breaks off changes nothing; the one after it counts.
        apply(&cache, vec![Event::Init, Event::InitApply(object("x", 5))]);
        assert_eq!(names(&cache), ["b", "c"]);
        apply(&cache, vec![Event::Init, Event::InitApply(object("y", 6)), Event::InitDone]);
        assert_eq!(names(&cache), ["y"]);
        cache.end();
        assert!(cache.rows().unwrap().is_none(), "what is over is never shown as an empty list");
        assert_eq!(cache.bytes.load(Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_broken_watch_is_not_trusted_until_it_shows_life() {
        let cache = cache();
        apply(&cache, vec![Event::Init, Event::InitApply(object("a", 1)), Event::InitDone]);
        assert!(!cache.failed(&watcher::Error::NoResourceVersion));
        assert!(cache.rows().unwrap().is_none());
        apply(&cache, vec![Event::Apply(object("b", 2))]);
        assert_eq!(names(&cache), ["a", "b"]);
        cache.failed(&watcher::Error::NoResourceVersion);
        tokio::time::advance(DISTRUST + Duration::from_secs(1)).await;
        assert_eq!(names(&cache), ["a", "b"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_is_shown_once_its_version_or_a_later_one_is() {
        let cache = cache();
        apply(&cache, vec![Event::Init, Event::InitApply(object("a", 110)), Event::InitDone]);
        let stored = |version| cache.shows(&Write::Stored { namespace: "ns", name: "a", version });
        assert_eq!((stored("110"), stored("99"), stored("111"), stored("odd")), (true, true, false, false));
        let gone = |id| cache.shows(&Write::Gone { namespace: "ns", name: "a", id });
        assert_eq!((gone("a-1"), gone("a-0")), (false, true), "another object of the same name is not the deleted one");
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_outgrows_its_bounds_says_so() {
        let limits = Limits { objects_per_kind: 1, ..Limits::default() };
        let cache = cache();
        assert!(!cache.apply(Event::InitApply(object("a", 1)), &limits));
        assert!(cache.apply(Event::InitApply(object("b", 1)), &limits));
        let tight = Limits { cache_bytes: 10, ..Limits::default() };
        assert!(cache.apply(Event::Apply(object("c", 1)), &tight));
    }

    proptest! {
        /// Whatever happens, the bytes counted are those of the rows held.
        #[test]
        fn bytes_are_counted_exactly(steps in prop::collection::vec((0..5u8, 0..6u8, 0..300u64), 0..60)) {
            let cache = cache();
            for (what, who, version) in steps {
                let object = object(&format!("o{who}"), version);
                let event = match what {
                    0 => Event::Init,
                    1 => Event::InitApply(object),
                    2 => Event::InitDone,
                    3 => Event::Apply(object),
                    _ => Event::Delete(object),
                };
                cache.apply(event, &Limits::default());
                let content = cache.content();
                let held: usize = content.rows.values().chain(content.filling.iter().flat_map(BTreeMap::values)).map(|row| row.bytes()).sum();
                prop_assert_eq!((content.bytes, cache.bytes.load(Relaxed)), (held, held));
            }
        }
    }
}
