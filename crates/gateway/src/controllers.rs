//! The hub's reconcilers as the console sees them. The gateway does not know the hub: who starts both hands this over.

use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::problem::Problem;

/// Asks and steers the reconcilers of a running hub.
pub trait Controllers: Send + Sync + 'static {
    /// Each reconciler as an object: what the hub's `/controllers` says of it and, if it is a phase machine,
    /// `"graph": {"phases": [{"name", "terminal"}], "edges": [{"from", "to", "on"}]}`.
    fn list(&self) -> BoxFuture<'_, Result<Vec<Value>, Problem>>;

    /// Starts or stops one. A name that nobody has is a [`Problem::not_found`].
    fn switch<'a>(&'a self, name: &'a str, on: bool) -> BoxFuture<'a, Result<(), Problem>>;

    /// Has one object (`NAMESPACE/NAME`, or `NAME` of a kind without namespaces), or all of them, looked at again. Says how many.
    fn requeue<'a>(&'a self, name: &'a str, key: Option<&'a str>) -> BoxFuture<'a, Result<usize, Problem>>;
}
