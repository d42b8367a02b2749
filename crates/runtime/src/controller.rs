//! One reconciler with everything around it: what it watches, how much at once, what happens when its caches are full.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    future::Future,
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use kube::Resource;
use tracing::Instrument;

use crate::{
    Backoff, Cache, Context, Failure, Filter, Key, Next, Object, Priority, Rate, Reconciler,
    informer::{Change, Informers, Look, Scope, Subscription, is_cluster_kind},
    queue::Queue,
    trace,
};

/// An error from code that sets a reconciler up.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A reconciler and how it is to be run. What the configuration says comes before what is said here.
pub struct Controller<R: Reconciler> {
    reconciler: R,
    pub(crate) tuning: Tuning,
    filter: Filter,
    changes: Changes,
    watches: Vec<Box<dyn Watch>>,
    after_sync: Vec<Callback>,
}

/// How a reconciler is run.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuning {
    /// Reconciles at once, of different objects.
    pub concurrency: usize,
    /// Pauses after failures of an object.
    pub backoff: Backoff,
    /// Retries of all objects together.
    pub rate: Rate,
    /// Look at every object again after this long, changed or not.
    pub resync: Option<Duration>,
    /// A reconcile that takes longer is given up and tried again.
    pub deadline: Duration,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning {
            concurrency: 4,
            backoff: Backoff::default(),
            rate: Rate::default(),
            resync: Some(Duration::from_secs(10 * 3600)),
            deadline: Duration::from_secs(3600),
        }
    }
}

/// Which changes of its own objects a reconciler wants to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Changes {
    All,
    /// All but those that only touched the status.
    NotStatus,
}

pub(crate) type Callback = Box<dyn Fn(Context) -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync>;

impl<R: Reconciler> Controller<R> {
    /// With the defaults.
    pub fn new(reconciler: R) -> Self {
        Controller {
            reconciler,
            tuning: Tuning::default(),
            filter: Filter::default(),
            changes: Changes::All,
            watches: Vec::new(),
            after_sync: Vec::new(),
        }
    }

    /// How many objects at once, how often and how long.
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.tuning = tuning;
        self
    }

    /// How many objects at once.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.tuning.concurrency = concurrency;
        self
    }

    /// Only these objects.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// Changes that only touched the status are not looked at: fewer runs for a reconciler that writes one.
    pub fn ignore_status_changes(mut self) -> Self {
        self.changes = Changes::NotStatus;
        self
    }

    /// Objects of `K` whose owner is one of ours: a change of theirs is a reason to look at the owner. They are in
    /// [`Context::cache`], too.
    pub fn owns<K: Object>(self, filter: Filter) -> Self {
        self.watches::<K>(filter, |object| owners::<R::Object>(object.meta()))
    }

    /// Objects of `K`, and which of ours to look at when one of them changes. Asked before and after a change. They are in
    /// [`Context::cache`], too.
    pub fn watches<K: Object>(mut self, filter: Filter, keys: impl Fn(&K) -> Vec<Key> + Send + Sync + 'static) -> Self {
        self.watches.push(Box::new(Secondary::<K> { filter, keys: Box::new(keys) }));
        self
    }

    /// To be done when all caches are full and this process leads, before the first reconcile.
    pub fn after_sync<F>(mut self, callback: impl Fn(Context) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.after_sync.push(Box::new(move |context| Box::pin(callback(context))));
        self
    }
}

/// The owners among `metadata`'s that are of kind `K`.
fn owners<K: Resource<DynamicType = ()>>(metadata: &kube::api::ObjectMeta) -> Vec<Key> {
    let group = K::group(&());
    let of_group = |version: &str| version.rsplit_once('/').map_or("", |(group, _)| group) == group;
    let namespace = if is_cluster_kind::<K>() { None } else { metadata.namespace.as_deref() };
    let owners = metadata.owner_references.iter().flatten();
    owners
        .filter(|owner| owner.kind == K::kind(&()) && of_group(&owner.api_version))
        .map(|owner| Key::new(namespace, &owner.name))
        .collect()
}

/// Whether more than the status of an object has changed.
fn changed_beyond_status<K: Resource>(old: &K, new: &K) -> bool {
    let (old, new) = (old.meta(), new.meta());
    // Kinds without a generation do not say; every change counts.
    new.generation.is_none()
        || old.generation != new.generation
        || old.uid != new.uid
        || old.labels != new.labels
        || old.annotations != new.annotations
        || old.finalizers != new.finalizers
        || old.owner_references != new.owner_references
        || old.deletion_timestamp != new.deletion_timestamp
}

/// Objects of another kind that lead to ours.
struct Secondary<K> {
    filter: Filter,
    keys: Keys<K>,
}

/// Which of ours an object of another kind leads to.
type Keys<K> = Box<dyn Fn(&K) -> Vec<Key> + Send + Sync>;

/// A secondary watch without its kind.
trait Watch: Send + Sync {
    fn start(self: Box<Self>, informers: &Informers, queue: &Arc<Queue<Key>>) -> Watched;
}

/// A cache that is being filled and told of.
struct Watched {
    kind: TypeId,
    cache: Box<dyn AnyCache>,
    subscriptions: Vec<Subscription>,
}

impl<K: Object> Watch for Secondary<K> {
    fn start(self: Box<Self>, informers: &Informers, queue: &Arc<Queue<Key>>) -> Watched {
        let scopes = Scope::of(&self.filter, &Filter::default(), is_cluster_kind::<K>());
        let cache = informers.cache::<K>(scopes);
        let queue = queue.clone();
        let subscriptions = cache.subscribe(move |change: &Change<'_, K>| {
            if !self.filter.allows(change.key) {
                return;
            }
            let priority = if change.listed { Priority::Listed } else { Priority::Changed };
            for object in change.old.into_iter().chain(change.new) {
                (self.keys)(object).into_iter().for_each(|key| queue.add(key, priority));
            }
        });
        Watched { kind: TypeId::of::<K>(), cache: Box::new(cache), subscriptions }
    }
}

/// A [`Cache`] without its kind.
pub(crate) trait AnyCache: Send + Sync {
    fn synced(&self) -> BoxFuture<'_, ()>;
    fn is_synced(&self) -> bool;
    fn as_any(&self) -> &dyn Any;
}

impl<K: Object> AnyCache for Cache<K> {
    fn synced(&self) -> BoxFuture<'_, ()> {
        Box::pin(Cache::synced(self))
    }

    fn is_synced(&self) -> bool {
        Cache::is_synced(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The caches of a reconciler, by kind.
#[derive(Default)]
pub(crate) struct Caches(HashMap<TypeId, Box<dyn AnyCache>>);

impl Caches {
    pub(crate) fn get<K: Object>(&self) -> Option<Cache<K>> {
        self.0.get(&TypeId::of::<K>())?.as_any().downcast_ref::<Cache<K>>().cloned()
    }

    pub(crate) async fn synced(&self) {
        for cache in self.0.values() {
            cache.synced().await;
        }
    }

    pub(crate) fn are_synced(&self) -> bool {
        self.0.values().all(|cache| cache.is_synced())
    }
}

/// A reconciler that was set up: its caches are being filled and its queue with them.
pub(crate) struct Prepared {
    pub work: Arc<dyn Work>,
    pub caches: Arc<Caches>,
    pub after_sync: Vec<Callback>,
    /// Dropped when the reconciler is disabled.
    pub _subscriptions: Vec<Subscription>,
}

/// What a worker does with a key.
pub(crate) trait Work: Send + Sync {
    fn run(self: Arc<Self>, key: Key, context: Context) -> BoxFuture<'static, Result<Next, Failure>>;
    /// Every key there is.
    fn keys(&self) -> Vec<Key>;
}

struct Reconciling<R: Reconciler> {
    reconciler: R,
    cache: Cache<R::Object>,
    author: Filter,
    configured: Filter,
}

impl<R: Reconciler> Work for Reconciling<R> {
    fn run(self: Arc<Self>, key: Key, context: Context) -> BoxFuture<'static, Result<Next, Failure>> {
        Box::pin(async move {
            // A secondary watch may name a key that is not for us.
            if !self.author.allows(&key) || !self.configured.allows(&key) {
                return Ok(Next::Wait);
            }
            match self.cache.look(&key) {
                Look::Object(object) => {
                    let kind = R::Object::kind(&());
                    let span = trace::reconcile_span(&kind, &key, object.meta().annotations.as_ref());
                    let version = trace::to_link(&span, object.meta());
                    let outcome = self.reconciler.reconcile(object, &context).instrument(span.clone()).await;
                    trace::link_to_writer(&span, version.as_deref());
                    if let Err(failure) = &outcome {
                        span.record("error", tracing::field::display(failure));
                    }
                    outcome
                }
                Look::Unreadable(why) => self.reconciler.unreadable(&key, &why, &context).await,
                Look::Absent => self.reconciler.gone(&key, &context).await,
            }
        })
    }

    fn keys(&self) -> Vec<Key> {
        self.cache.keys()
    }
}

/// A [`Controller`] without its kind.
pub(crate) trait Prepare: Send {
    fn tuning(&self) -> &Tuning;
    fn prepare(self: Box<Self>, informers: &Informers, queue: &Arc<Queue<Key>>, configured: Filter) -> Prepared;
}

impl<R: Reconciler> Prepare for Controller<R> {
    fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    fn prepare(self: Box<Self>, informers: &Informers, queue: &Arc<Queue<Key>>, configured: Filter) -> Prepared {
        let scopes = Scope::of(&self.filter, &configured, is_cluster_kind::<R::Object>());
        let cache = informers.cache::<R::Object>(scopes);
        let mut subscriptions = cache.subscribe({
            let (queue, changes) = (queue.clone(), self.changes);
            let (author, configured) = (self.filter.clone(), configured.clone());
            move |change: &Change<'_, R::Object>| {
                if let (Some(old), Some(new)) = (change.old, change.new)
                    && changes == Changes::NotStatus
                    && !changed_beyond_status(&**old, &**new)
                {
                    return;
                }
                if author.allows(change.key) && configured.allows(change.key) {
                    let priority = if change.listed { Priority::Listed } else { Priority::Changed };
                    queue.add(change.key.clone(), priority);
                }
            }
        });
        let mut caches = Caches::default();
        for watch in self.watches {
            let watched = watch.start(informers, queue);
            caches.0.insert(watched.kind, watched.cache);
            subscriptions.extend(watched.subscriptions);
        }
        caches.0.insert(TypeId::of::<R::Object>(), Box::new(cache.clone()));
        Prepared {
            work: Arc::new(Reconciling { reconciler: self.reconciler, cache, author: self.filter, configured }),
            caches: Arc::new(caches),
            after_sync: self.after_sync,
            _subscriptions: subscriptions,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{
        api::{
            apps::v1::Deployment,
            core::v1::{Namespace, Pod},
        },
        apimachinery::pkg::apis::meta::v1::OwnerReference,
    };

    use super::*;

    #[test]
    fn owners_are_told_by_group_and_kind() {
        let owner = |api_version: &str, kind: &str| OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            name: "o".into(),
            ..OwnerReference::default()
        };
        let mut pod = Pod::default();
        pod.metadata.namespace = Some("n".into());
        let mut keys = |reference| {
            pod.metadata.owner_references = Some(vec![reference]);
            let text = |keys: Vec<Key>| keys.iter().map(Key::to_string).collect::<Vec<_>>().join(",");
            (text(owners::<Deployment>(&pod.metadata)), text(owners::<Namespace>(&pod.metadata)))
        };
        assert_eq!(keys(owner("apps/v1", "Deployment")), ("n/o".into(), String::new()));
        assert_eq!(keys(owner("apps/v1beta1", "Deployment")), ("n/o".into(), String::new()));
        assert_eq!(keys(owner("other/v1", "Deployment")), (String::new(), String::new()));
        assert_eq!(keys(owner("v1", "Namespace")), (String::new(), "o".into()));
    }

    #[test]
    fn a_write_of_the_status_alone_is_told_from_other_changes() {
        let mut old = Deployment::default();
        old.metadata.generation = Some(1);
        old.metadata.resource_version = Some("1".into());
        let mut status = old.clone();
        status.metadata.resource_version = Some("2".into());
        assert!(!changed_beyond_status(&old, &status));
        let mut annotated = status.clone();
        annotated.metadata.annotations = Some([("cancel".to_owned(), "now".to_owned())].into());
        assert!(changed_beyond_status(&old, &annotated));
        let mut spec = status.clone();
        spec.metadata.generation = Some(2);
        assert!(changed_beyond_status(&old, &spec));
        old.metadata.generation = None;
        status.metadata.generation = None;
        assert!(changed_beyond_status(&old, &status));
    }
}
