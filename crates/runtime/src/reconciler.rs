//! What a platform engineer writes: one function that brings one object closer to what its spec says.

use std::{error::Error, fmt, future::Future, sync::Arc, time::Duration};

use kube::Client;
use serde::{Serialize, de::DeserializeOwned};

use crate::Clock;

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
}

/// When to look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// When something changes.
    Wait,
    /// After this long, or when something changes.
    After(Duration),
    /// At once, behind whatever else is waiting.
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

/// What a reconcile may use. The client refuses writes once this process no longer leads.
#[derive(Clone)]
pub struct Context {
    /// The API that holds the objects.
    pub client: Client,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
}
