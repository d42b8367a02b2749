//! A request after the door, and the rooms that answer it.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::TryFutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode};
use http_body::Body as _;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Collected, Full, Limited};
use serde_json::Value;
use tokio::time::timeout;

use crate::caller::Caller;
use crate::options::Limits;
use crate::problem::Problem;
use crate::ws::Socket;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What goes over the wire, either way: whole or piece by piece.
pub(crate) type Body = UnsyncBoxBody<Bytes, BoxError>;

/// What a room makes of a request.
pub(crate) type Answered = Result<Response<Body>, Problem>;

/// Proof of intent, as only a page of ours can send it.
pub(crate) const CSRF: HeaderName = HeaderName::from_static("x-muster-csrf");

/// Of each request, made by us; what the client says it is is not believed.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// One request of somebody who was let in. Only the door's caller can be in it.
pub(crate) struct Visit {
    pub(crate) caller: Caller,
    pub(crate) method: Method,
    /// As it was sent: not decoded, nothing collapsed.
    pub(crate) path: String,
    /// Without the question mark; empty when there is none.
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    /// Behind a lock that nobody waits for: so a visit can be lent to another thread although a body cannot.
    body: Mutex<Body>,
}

impl Visit {
    pub(crate) fn new(caller: Caller, method: Method, uri: &http::Uri, headers: HeaderMap, body: Body) -> Self {
        let (path, query) = (uri.path().to_owned(), uri.query().unwrap_or("").to_owned());
        Self { caller, method, path, query, headers, body: Mutex::new(body) }
    }

    /// A header as text; nothing when it is absent or not text.
    pub(crate) fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Reads the body, once. Bounded in size and time.
    pub(crate) async fn body(&mut self, limits: &Limits) -> Result<Bytes, Problem> {
        read(self.take_body(), limits).await
    }

    /// The body as it comes.
    pub(crate) fn take_body(&mut self) -> Body {
        std::mem::take(self.body.get_mut().unwrap_or_else(PoisonError::into_inner))
    }

    /// For a GET that does something: refused unless the request shows what a stranger's page cannot make a browser send.
    pub(crate) fn intended(&self) -> Result<(), Problem> {
        if !self.caller.is_ambient() || self.headers.contains_key(CSRF) {
            return Ok(());
        }
        Err(Problem::forbidden("this request does something: send the header X-Muster-Csrf with it")
            .with("header", "X-Muster-Csrf"))
    }
}

/// Reads a body within the limits.
pub(crate) async fn read(body: Body, limits: &Limits) -> Result<Bytes, Problem> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    match timeout(limits.body_timeout, collect(body, limits.body_bytes)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(why)) if why.is::<http_body_util::LengthLimitError>() => Err(Problem::new(
            413,
            "RequestEntityTooLarge",
            format!("the body has more than {} bytes", limits.body_bytes),
        )),
        Ok(Err(_)) => Err(Problem::bad_request("the body broke off")),
        Err(_) => Err(Problem::new(408, "Timeout", "the body did not come in time")),
    }
}

/// Boxed here, outside of any `async`: the compiler cannot prove within one that a boxed error may change threads.
pub(crate) fn collect(body: Body, most: usize) -> BoxFuture<'static, Result<Bytes, BoxError>> {
    Box::pin(Limited::new(body, most).collect().map_ok(Collected::to_bytes))
}

/// A whole body.
pub(crate) fn whole(body: impl Into<Bytes>) -> Body {
    Full::new(body.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A JSON answer.
pub(crate) fn json(code: u16, value: &Value) -> Response<Body> {
    bytes(code, "application/json", value.to_string())
}

/// An answer of any media type.
pub(crate) fn bytes(code: u16, media: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(whole(body));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::OK);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// Done, with nothing to say.
pub(crate) fn nothing() -> Response<Body> {
    let mut response = Response::new(Body::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// What is heard of the things behind a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Something changed: the page is worth reading again.
    Changed,
    /// What is behind the path is no longer the same set (a member came or went): follow it anew.
    Moved,
}

/// Notices until nobody listens any more. May be silent for ever; its end means the path must be followed anew.
pub(crate) type Notices = BoxStream<'static, Notice>;

/// Text that goes on.
pub(crate) struct Text {
    pub(crate) pieces: BoxStream<'static, Result<Bytes, BoxError>>,
    /// Returns, with the reason, when it must end although there may be more: the right to it was lost, or where it comes from.
    pub(crate) until: BoxFuture<'static, Problem>,
}

/// A part of the face that answers the paths it owns.
pub(crate) trait Room: Send + Sync + 'static {
    fn owns(&self, path: &str) -> bool;

    /// Answers one request. The deadline of requests is kept by who calls; the body of the answer may take longer.
    fn answer(self: Arc<Self>, visit: Visit) -> BoxFuture<'static, Answered>;

    /// Whether this path is a WebSocket: then `converse` has it.
    fn converses(&self, _path: &str) -> bool {
        false
    }

    /// Talks until it is over. The caller is known, what they may do is not proved yet. The visit has no body.
    fn converse(self: Arc<Self>, _visit: Visit, socket: Socket) -> BoxFuture<'static, ()> {
        Box::pin(socket.close(4404, "there is nothing to talk to at this path"))
    }

    /// Hears of changes of a list or an object, if the caller may read it. Asked again every half minute while somebody listens, so
    /// it must ask for the right each time, and should be cheap.
    fn follow(
        self: Arc<Self>,
        _caller: Caller,
        _path: String,
        _query: String,
    ) -> BoxFuture<'static, Result<Notices, Problem>> {
        Box::pin(async { Err(Problem::not_found("this path cannot be followed")) })
    }

    /// Reads a text that goes on, such as a log, if the caller may.
    fn text(
        self: Arc<Self>,
        _caller: Caller,
        _path: String,
        _query: String,
    ) -> BoxFuture<'static, Result<Text, Problem>> {
        Box::pin(async { Err(Problem::not_found("there is no log at this path")) })
    }
}
