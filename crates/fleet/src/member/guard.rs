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
use futures_util::{StreamExt, stream};
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, BodyStream, Full, LengthLimitError, Limited, StreamBody, combinators::UnsyncBoxBody};
use kube::{Client, client::Body};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;
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
    /// It is no longer a member.
    #[error("{member} left the fleet, or was declared anew; look it up again")]
    Left {
        /// Its name.
        member: Arc<str>,
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
    /// A stream was ended because nothing comes over its connection any more.
    #[error("the connection to {member} is believed dead; open the stream again")]
    Cut {
        /// Its name.
        member: Arc<str>,
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
    shut: Mutex<Option<CallError>>,
    /// The connections behind; replaced when they are believed dead.
    behind: RwLock<Client>,
    /// Ends the streams over those connections. Nothing comes over a dead one, not even its end.
    cut: Mutex<Cuts>,
}

/// What ends streams. A watch can be opened anew for nothing, so it ends as soon as its connection is in doubt; a log that somebody
/// reads, or a request under way, ends only when the member is gone.
#[derive(Default)]
struct Cuts {
    watches: CancellationToken,
    logs: CancellationToken,
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
            cut: Mutex::default(),
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
        let mut cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut cut.watches).cancel();
    }

    /// Lets nothing through while the member is away.
    pub(crate) fn shut(&self, why: impl Into<Arc<str>>) {
        self.refuse(CallError::Unreachable { member: self.member.clone(), why: why.into() });
    }

    /// Lets nothing through any more: whoever still holds a client of a member that left must not go on using its credentials.
    pub(crate) fn close(&self) {
        self.refuse(CallError::Left { member: self.member.clone() });
    }

    fn refuse(&self, with: CallError) {
        let mut shut = self.shut.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*shut, Some(CallError::Left { .. })) {
            *shut = Some(with);
        }
        drop(shut);
        let cut = std::mem::take(&mut *self.cut.lock().unwrap_or_else(PoisonError::into_inner));
        cut.watches.cancel();
        cut.logs.cancel();
    }

    /// Lets calls through again, unless it is closed.
    pub(crate) fn open(&self) {
        let mut shut = self.shut.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*shut, Some(CallError::Left { .. })) {
            *shut = None;
        }
    }

    fn check(&self) -> Result<(), CallError> {
        match &*self.shut.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(()),
        }
    }

    async fn call(self: Arc<Self>, request: Request<Body>) -> Result<Answer, BoxError> {
        self.check()?;
        let until = Instant::now() + self.limits.deadline;
        let away = self.cut_of(Stream::Log);
        let answer = async {
            match stream_of(&request) {
                Some(kind) => self.stream(request, kind, until).await,
                None => self.request(request, until).await,
            }
        };
        tokio::select! {
            biased;
            answer = timeout_at(until, answer) => match answer {
                Ok(answer) => answer,
                Err(_) => Err(CallError::Slow { member: self.member.clone(), within: self.limits.deadline }.into()),
            },
            // It was found to be away while we waited: nothing will come.
            () = away.cancelled() => Err(self.check().err().unwrap_or_else(|| self.broken()).into()),
        }
    }

    /// A request with its whole answer.
    async fn request(&self, request: Request<Body>, until: Instant) -> Result<Answer, BoxError> {
        let _permit = self.permit(&self.requests, self.limits.requests, until).await?;
        let answer = self.behind().send(request).await?;
        self.whole(self.refuse_redirects(answer)?).await
    }

    /// A request whose answer goes on.
    async fn stream(&self, request: Request<Body>, kind: Stream, until: Instant) -> Result<Answer, BoxError> {
        let permit = self.permit(&self.streams, self.limits.streams, until).await?;
        let cut = self.cut_of(kind);
        let answer = self.behind().send(request).await?;
        let answer = self.refuse_redirects(answer)?;
        if !answer.status().is_success() && answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return self.whole(answer).await;
        }
        Ok(answer.map(|body| counted(body, permit, cut, self.broken())))
    }

    /// The answer with all of its body, if that is not too large.
    async fn whole(&self, answer: Response<Body>) -> Result<Answer, BoxError> {
        let (parts, body) = answer.into_parts();
        let most = self.limits.answer;
        let body = Limited::new(body, most).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                BoxError::from(CallError::TooLarge { member: self.member.clone(), most })
            } else {
                error
            }
        })?;
        let body = Full::new(body.to_bytes()).map_err(|never| match never {});
        Ok(Response::from_parts(parts, body.boxed_unsync()))
    }

    fn broken(&self) -> CallError {
        CallError::Cut { member: self.member.clone() }
    }

    fn cut_of(&self, kind: Stream) -> CancellationToken {
        let cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
        match kind {
            Stream::Watch => cut.watches.clone(),
            Stream::Log => cut.logs.clone(),
        }
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
            Ok(Ok(permit)) => self.check().map(|()| permit),
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

/// An answer that goes on for as long as somebody reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Watch,
    /// A log that is followed, or a terminal.
    Log,
}

fn stream_of(request: &Request<Body>) -> Option<Stream> {
    let query = request.uri().query().unwrap_or_default();
    let asked = |name: &str| {
        form_urlencoded::parse(query.as_bytes()).any(|(word, value)| word == name && matches!(&*value, "true" | "1"))
    };
    if asked("watch") {
        Some(Stream::Watch)
    } else if asked("follow") || request.headers().contains_key(header::UPGRADE) {
        Some(Stream::Log)
    } else {
        None
    }
}

/// The body, counted until its reader lets go of it, and ended when it is cut.
fn counted(
    body: Body,
    permit: OwnedSemaphorePermit,
    cut: CancellationToken,
    broken: CallError,
) -> UnsyncBoxBody<Bytes, BoxError> {
    let start = Some((BodyStream::new(body), permit, cut, broken));
    let frames = stream::unfold(start, |state| async move {
        let (mut frames, permit, cut, broken) = state?;
        tokio::select! {
            biased;
            () = cut.cancelled() => Some((Err(BoxError::from(broken)), None)),
            frame = frames.next() => {
                let frame = frame?.map_err(BoxError::from);
                Some((frame, Some((frames, permit, cut, broken))))
            }
        }
    });
    StreamBody::new(frames).boxed_unsync()
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
#[path = "guard_tests.rs"]
mod tests;
