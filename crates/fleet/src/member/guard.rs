//! What stands between a caller and a member: it lets no call wait for ever, no answer fill the memory, no member take all tasks,
//! and says at once that an unreachable member is unreachable.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, RwLock},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full, Limited, combinators::UnsyncBoxBody};
use kube::{Client, client::Body};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};
use tower::BoxError;

/// How much of us one member may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests at once.
    pub requests: usize,
    /// Watches, followed logs and terminals at once.
    pub streams: usize,
    /// How long a request may take with its answer, or a stream until it begins.
    pub deadline: Duration,
    /// How large an answer may be.
    pub answer: usize,
    /// How much memory its caches may take.
    pub cache: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { requests: 32, streams: 128, deadline: Duration::from_secs(30), answer: 64 << 20, cache: 256 << 20 }
    }
}

/// Why a call to a member did not get through. Found in a `kube::Error` with [`CallError::of`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Known to be away: nothing was sent.
    #[error("{member} is unreachable ({why}); it is tried again by itself")]
    Unreachable {
        /// Its name.
        member: Arc<str>,
        /// What the probes saw.
        why: Arc<str>,
    },
    /// It took too long.
    #[error("{member} did not answer within {within:?}")]
    Slow {
        /// Its name.
        member: Arc<str>,
        /// The deadline.
        within: Duration,
    },
    /// As many calls as it may have are under way.
    #[error("{member} has {most} calls under way already and none ended in time; try again later")]
    Busy {
        /// Its name.
        member: Arc<str>,
        /// How many it may have.
        most: usize,
    },
    /// It sent us elsewhere, which we do not follow: our credentials are for it alone.
    #[error("{member} answered with a redirect ({code}), which is never followed; correct the member's address")]
    Redirected {
        /// Its name.
        member: Arc<str>,
        /// The HTTP code.
        code: u16,
    },
    /// The answer is larger than we take.
    #[error("{member} sent an answer of more than {most} bytes; ask for less, or in pages")]
    TooLarge {
        /// Its name.
        member: Arc<str>,
        /// The limit.
        most: usize,
    },
}

impl CallError {
    /// The reason within a client's error, if it is one of ours.
    pub fn of(error: &kube::Error) -> Option<&CallError> {
        match error {
            kube::Error::Service(inner) => inner.downcast_ref(),
            _ => None,
        }
    }
}

/// The gate of one member. Its client is an ordinary `kube::Client`.
pub(crate) struct Gate {
    member: Arc<str>,
    limits: Limits,
    requests: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    /// Why nothing is let through, while it is so.
    shut: Mutex<Option<Arc<str>>>,
    /// The connections behind; replaced when they are believed dead.
    behind: RwLock<Client>,
}

impl Gate {
    pub(crate) fn new(member: Arc<str>, limits: Limits, behind: Client) -> Arc<Self> {
        Arc::new(Gate {
            member,
            limits,
            requests: Arc::new(Semaphore::new(limits.requests.max(1))),
            streams: Arc::new(Semaphore::new(limits.streams.max(1))),
            shut: Mutex::new(None),
            behind: RwLock::new(behind),
        })
    }

    /// A client whose every call passes the gate.
    pub(crate) fn client(self: &Arc<Self>) -> Client {
        let namespace = self.behind().default_namespace().to_owned();
        Client::new(Guarded(self.clone()), namespace)
    }

    /// The client behind the gate: for probes, which must get through when nothing else may.
    pub(crate) fn behind(&self) -> Client {
        self.behind.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn replace(&self, behind: Client) {
        *self.behind.write().unwrap_or_else(PoisonError::into_inner) = behind;
    }

    pub(crate) fn shut(&self, why: impl Into<Arc<str>>) {
        *self.shut.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.into());
    }

    pub(crate) fn open(&self) {
        *self.shut.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn check(&self) -> Result<(), CallError> {
        match &*self.shut.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(why) => Err(CallError::Unreachable { member: self.member.clone(), why: why.clone() }),
            None => Ok(()),
        }
    }

    async fn call(self: Arc<Self>, request: Request<Body>) -> Result<Answer, BoxError> {
        self.check()?;
        let until = Instant::now() + self.limits.deadline;
        let slow = || CallError::Slow { member: self.member.clone(), within: self.limits.deadline };
        if is_stream(&request) {
            let permit = self.permit(&self.streams, self.limits.streams, until).await?;
            let answer = timeout_at(until, self.behind().send(request)).await.map_err(|_| slow())??;
            let answer = self.refuse_redirects(answer)?;
            // The stream counts until its reader lets go of it.
            return Ok(answer.map(|body| {
                let counted = body.map_frame(move |frame| {
                    let _permit = &permit;
                    frame
                });
                counted.map_err(BoxError::from).boxed_unsync()
            }));
        }
        let _permit = self.permit(&self.requests, self.limits.requests, until).await?;
        let whole = async {
            let answer = self.refuse_redirects(self.behind().send(request).await?)?;
            let (parts, body) = answer.into_parts();
            let most = self.limits.answer;
            let body = Limited::new(body, most).collect().await.map_err(|error| {
                if error.is::<http_body_util::LengthLimitError>() {
                    BoxError::from(CallError::TooLarge { member: self.member.clone(), most })
                } else {
                    error
                }
            })?;
            let body = Full::new(body.to_bytes()).map_err(|never| match never {});
            Ok(Response::from_parts(parts, body.boxed_unsync()))
        };
        timeout_at(until, whole).await.map_err(|_| slow())?
    }

    async fn permit(
        &self,
        semaphore: &Arc<Semaphore>,
        most: usize,
        until: Instant,
    ) -> Result<OwnedSemaphorePermit, CallError> {
        // Whoever got no turn in half the time would not get its answer in the rest.
        let turn = until - self.limits.deadline / 2;
        match timeout_at(turn, semaphore.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(CallError::Busy { member: self.member.clone(), most }),
        }
    }

    fn refuse_redirects(&self, answer: Response<Body>) -> Result<Response<Body>, CallError> {
        let code = answer.status().as_u16();
        if answer.status().is_redirection() {
            return Err(CallError::Redirected { member: self.member.clone(), code });
        }
        Ok(answer)
    }
}

/// Whether the answer goes on for as long as somebody reads it.
fn is_stream(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let asked = form_urlencoded::parse(query.as_bytes())
        .any(|(name, value)| matches!(&*name, "watch" | "follow") && matches!(&*value, "true" | "1"));
    asked || request.headers().contains_key(header::UPGRADE)
}

type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// The gate as a service.
#[derive(Clone)]
struct Guarded(Arc<Gate>);

impl tower::Service<Request<Body>> for Guarded {
    type Response = Answer;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.clone().call(request))
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, StreamBody};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Api, api::ListParams};

    use super::*;
    use crate::testing::{self, Answer};

    fn limits() -> Limits {
        Limits { requests: 2, streams: 1, deadline: Duration::from_secs(30), answer: 1000, cache: 1 << 20 }
    }

    async fn list(client: Client) -> Result<usize, String> {
        let api: Api<ConfigMap> = Api::default_namespaced(client);
        let listed = api.list(&ListParams::default()).await;
        listed.map(|list| list.items.len()).map_err(|error| match CallError::of(&error) {
            Some(ours) => ours.to_string(),
            None => format!("other: {error}"),
        })
    }

    fn empty() -> Answer {
        testing::json(
            200,
            &serde_json::json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {}, "items": []}),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_that_never_answers_costs_a_deadline_and_no_more() {
        // F-8
        let gate = Gate::new("m".into(), limits(), testing::client(|_| std::future::pending()));
        let start = Instant::now();
        let errors = futures_util::future::join_all((0..3).map(|_| list(gate.client()))).await;
        assert_eq!(start.elapsed(), Duration::from_secs(30));
        assert!(errors.contains(&Err("m did not answer within 30s".to_owned())), "{errors:?}");
        let busy = errors.iter().filter(|error| error.as_ref().is_err_and(|e| e.contains("2 calls under way")));
        assert_eq!(busy.count(), 1, "{errors:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_trickles_ends_at_the_deadline_too() {
        // F-9
        let gate = Gate::new(
            "m".into(),
            limits(),
            testing::client(|_| async {
                let drops = futures_util::stream::unfold(0, |n| async move {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    Some((Ok(http_body_frame(b" ")), n + 1))
                });
                Response::new(StreamBody::new(drops).boxed_unsync())
            }),
        );
        let start = Instant::now();
        assert_eq!(list(gate.client()).await.unwrap_err(), "m did not answer within 30s");
        assert_eq!(start.elapsed(), Duration::from_secs(30));
    }

    fn http_body_frame(bytes: &'static [u8]) -> http_body::Frame<bytes::Bytes> {
        http_body::Frame::data(bytes::Bytes::from_static(bytes))
    }

    #[tokio::test]
    async fn giant_answers_and_redirects_are_refused() {
        // B-14
        let giant = testing::client(|_| async { testing::json(200, &serde_json::json!({"x": "y".repeat(2000)})) });
        let gate = Gate::new("m".into(), limits(), giant);
        assert_eq!(
            list(gate.client()).await.unwrap_err(),
            "m sent an answer of more than 1000 bytes; ask for less, or in pages"
        );
        let away = testing::client(|_| async { testing::json(307, &serde_json::json!({})) });
        gate.replace(away);
        assert!(list(gate.client()).await.unwrap_err().contains("redirect (307)"));
        gate.replace(testing::client(|_| async { empty() }));
        assert_eq!(list(gate.client()).await, Ok(0));
    }

    #[tokio::test]
    async fn nothing_is_sent_to_a_member_that_is_away() {
        // F-8
        let sent = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = sent.clone();
        let gate = Gate::new(
            "m".into(),
            limits(),
            testing::client(move |_| {
                count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                async { empty() }
            }),
        );
        gate.shut("no answer within 5s");
        let client = gate.client();
        let error = list(client.clone()).await.unwrap_err();
        assert_eq!(error, "m is unreachable (no answer within 5s); it is tried again by itself");
        assert_eq!(sent.load(std::sync::atomic::Ordering::Relaxed), 0);
        gate.open();
        assert_eq!(list(client).await, Ok(0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_counts_until_its_reader_lets_go() {
        let gate = Gate::new("m".into(), limits(), testing::client(|_| async { testing::lines().1 }));
        let client = gate.client();
        let open = || {
            let request = Request::get("/api/v1/pods?watch=true").body(Vec::new()).unwrap();
            let client = client.clone();
            async move { client.request_stream(request).await.map(|_| ()) }
        };
        let request = Request::get("/api/v1/pods?watch=true").body(Vec::new()).unwrap();
        let held = client.request_stream(request).await.unwrap();
        let error = open().await.unwrap_err();
        assert!(matches!(CallError::of(&error), Some(CallError::Busy { most: 1, .. })), "{error}");
        drop(held);
        assert!(open().await.is_ok());
    }
}
