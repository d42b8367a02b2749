//! What a platform engineer writes: one function that brings one object closer to what its spec says.

use std::{error::Error, fmt, future::Future, sync::Arc, time::Duration};

use kube::Client;
use serde::{Serialize, de::DeserializeOwned};
use tokio_util::sync::CancellationToken;

use crate::{Cache, Clock, Recorder, controller::Caches};

/// A kind a reconciler can be written for: what `#[derive(CustomResource)]` and k8s-openapi make.
pub trait Object:
    kube::Resource<DynamicType = ()> + Clone + fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}
impl<K> Object for K where
    K: kube::Resource<DynamicType = ()> + Clone + fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

/// Which object: its namespace (absent for cluster kinds) and its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The namespace; `None` for an object of the cluster.
    pub namespace: Option<Arc<str>>,
    /// The name.
    pub name: Arc<str>,
}

impl Key {
    /// From a namespace, if the kind has them, and a name.
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        Key { namespace: namespace.filter(|namespace| !namespace.is_empty()).map(Into::into), name: name.into() }
    }

    /// Of an object.
    pub fn of<K: kube::Resource>(object: &K) -> Self {
        let meta = object.meta();
        Key::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default())
    }

    /// From `namespace/name` or `name`.
    pub fn parse(text: &str) -> Self {
        match text.split_once('/') {
            Some((namespace, name)) => Key::new(Some(namespace), name),
            None => Key::new(None, text),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Brings objects of one kind to what their spec says. Called for one key at a time, again after a failure, and again after a
/// restart: it must look before it acts.
pub trait Reconciler: Send + Sync + 'static {
    /// The kind.
    type Object: Object;

    /// Looks at `object` (from the cache, possibly behind) and acts.
    fn reconcile(
        &self,
        object: Arc<Self::Object>,
        context: &Context,
    ) -> impl Future<Output = Result<Next, Failure>> + Send;

    /// The object is no more. Clean-up that must not be missed belongs into a finalizer instead.
    fn gone(&self, _key: &Key, _context: &Context) -> impl Future<Output = Result<Next, Failure>> + Send {
        async { Ok(Next::Wait) }
    }

    /// The object exists, but what the server has is not what the kind says, for the reason `why`. It has been logged and
    /// counted already; whoever knows a place to tell the user, does it here.
    fn unreadable(
        &self,
        _key: &Key,
        _why: &str,
        _context: &Context,
    ) -> impl Future<Output = Result<Next, Failure>> + Send {
        async { Ok(Next::Wait) }
    }
}

/// When to look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// When something changes.
    Wait,
    /// After this long, or when something changes.
    After(Duration),
    /// At once, behind changes that are waiting; after a hundred times in a row no faster than retries are granted.
    Again,
}

/// Why a reconcile did not succeed, and whether trying again can help.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Tried again, with growing pauses.
    #[error("{0}")]
    Retry(#[source] Box<dyn Error + Send + Sync>),
    /// Not tried again until the object changes.
    #[error("{0}")]
    Fatal(#[source] Box<dyn Error + Send + Sync>),
}

impl Failure {
    /// Trying again may help.
    pub fn retry(why: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Failure::Retry(why.into())
    }

    /// Trying again cannot help; the object must change first.
    pub fn fatal(why: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Failure::Fatal(why.into())
    }
}

impl From<kube::Error> for Failure {
    /// The API may be away, or somebody else wrote first: both pass.
    fn from(error: kube::Error) -> Self {
        Failure::Retry(Box::new(error))
    }
}

/// What a reconcile may use.
#[derive(Clone)]
pub struct Context {
    /// The API that holds the objects. Refuses writes, for good, once the term in which this process led is over.
    pub client: Client,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Events on objects.
    pub events: Recorder,
    pub(crate) caches: Arc<Caches>,
    pub(crate) stopping: CancellationToken,
}

impl Context {
    /// Without caches, and with events going nowhere: for tests, and for whoever drives a reconciler by hand.
    pub fn new(client: Client, clock: Arc<dyn Clock>) -> Self {
        Context { client, clock, events: Recorder::none(), caches: Arc::default(), stopping: CancellationToken::new() }
    }

    /// Cancelled when the manager stops or the reconciler is disabled: long work saves where it stands and returns, instead of
    /// being cut off a little later.
    pub fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Objects of a kind this reconciler reconciles, owns or watches, from memory. `None` for other kinds.
    pub fn cache<K: Object>(&self) -> Option<Cache<K>> {
        self.caches.get()
    }
}
