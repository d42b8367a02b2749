//! A client that cannot write for a leader that was: no lease, no write.
//!
//! The fence knows until when the lease is surely ours, counted from before the renewal was sent. Every write asks it, carries
//! the lease's name, holder and term in a header (our API server compares them with the lease), and is given up when the time is
//! over. What a peer may take over is later than that by the difference between lease and renew deadline.

use std::{
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use http::{HeaderName, HeaderValue, Method, Request, Response};
use jiff::Timestamp;
use kube::{Client, client::Body};
use tokio::time::{Instant, timeout_at};
use tower::{BoxError, Service};

use crate::Clock;

/// `NAMESPACE/NAME/HOLDER/TRANSITIONS` of the lease under which a write is made.
pub const FENCE_HEADER: HeaderName = HeaderName::from_static("muster-fence");

/// Why a write was not sent, or not waited for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fenced {
    /// Somebody else may lead.
    #[error("not written: this process does not hold the lease {lease}")]
    NotLeading {
        /// Its namespace and name.
        lease: String,
    },
    /// This client belongs to a time in which this process led, and that time is over.
    #[error("not written: the term of the lease {lease} in which this began is over")]
    TermOver {
        /// Its namespace and name.
        lease: String,
    },
    /// The answer did not come while the lease was surely ours; the write may or may not have happened.
    #[error(
        "the lease {lease} could not be renewed before the answer to a write came; it may or may not have happened"
    )]
    OutOfTime {
        /// Its namespace and name.
        lease: String,
    },
}

impl Fenced {
    /// The fence's refusal, if that is what `error` is.
    pub fn of(error: &kube::Error) -> Option<&Fenced> {
        match error {
            kube::Error::Service(inner) => inner.downcast_ref(),
            _ => None,
        }
    }
}

/// Whether, and until when, this process leads.
pub(crate) struct Fence {
    lease: String,
    clock: Arc<dyn Clock>,
    held: Mutex<Option<Held>>,
}

#[derive(Debug, Clone)]
struct Held {
    term: u64,
    until: Instant,
    /// The same by the time of day: the other clock stands still while a machine sleeps.
    until_of_day: Timestamp,
    header: HeaderValue,
}

impl Fence {
    pub(crate) fn new(lease: String, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Fence { lease, clock, held: Mutex::new(None) })
    }

    /// The lease is ours in `term` until then.
    pub(crate) fn hold(&self, term: u64, until: Instant, until_of_day: Timestamp, header: HeaderValue) {
        *self.lock() = Some(Held { term, until, until_of_day, header });
    }

    /// The lease is no longer ours, or we give it back.
    pub(crate) fn lose(&self) {
        *self.lock() = None;
    }

    /// Whether a write may go out, and until when its answer counts.
    fn pass(&self, term: Option<u64>) -> Result<Held, Fenced> {
        let held = self.lock().clone();
        let lease = || self.lease.clone();
        let held = held
            .filter(|held| Instant::now() < held.until && self.clock.now() < held.until_of_day)
            .ok_or_else(|| Fenced::NotLeading { lease: lease() })?;
        if term.is_some_and(|term| term != held.term) {
            return Err(Fenced::TermOver { lease: lease() });
        }
        Ok(held)
    }

    /// Whether a write may go out now.
    #[cfg(test)]
    pub(crate) fn open(&self) -> bool {
        self.pass(None).is_ok()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `client`, writing only while the lease is held; with `term`, only while it is held in that term.
    pub(crate) fn client(self: &Arc<Self>, client: Client, term: Option<u64>) -> Client {
        let namespace = client.default_namespace().to_owned();
        Client::new(FencedClient { client, fence: self.clone(), term }, namespace)
    }
}

#[derive(Clone)]
struct FencedClient {
    client: Client,
    fence: Arc<Fence>,
    term: Option<u64>,
}

impl Service<Request<Body>> for FencedClient {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
                return Ok(this.client.send(request).await?);
            }
            let held = this.fence.pass(this.term)?;
            request.headers_mut().insert(FENCE_HEADER, held.header);
            match timeout_at(held.until, this.client.send(request)).await {
                Ok(answer) => Ok(answer?),
                Err(_) => Err(Fenced::OutOfTime { lease: this.fence.lease.clone() }.into()),
            }
        })
    }
}
