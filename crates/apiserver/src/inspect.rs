//! `/debug/` and `/metrics`: what goes on inside the process, for those who may use the path. What that is, whoever runs the server knows.

use crate::Inner;
use crate::body::Body;
use crate::decode;
use auth::Authorized;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{Request, Response, header};
use http_body::Body as HttpBody;
use meta::Status;
use std::time::Duration;

/// A profile takes as long as was asked for; longer ones are refused by who takes them.
pub(crate) const LONGEST: Duration = Duration::from_secs(360);

/// Answers below `/debug/` and at `/metrics`.
pub trait Inspect: Send + Sync {
    /// The user was let in for exactly this method and path.
    fn answer<'a>(&'a self, user: &'a str, request: Request<Bytes>) -> BoxFuture<'a, Response<Bytes>>;
}

pub(crate) fn is_inside(segments: &[String]) -> bool {
    segments.first().is_some_and(|first| first == "debug")
}

/// What is answered by whoever runs the server.
pub(crate) fn is_shown(segments: &[String]) -> bool {
    is_inside(segments) || matches!(segments, [only] if only == "metrics")
}

impl Inner {
    pub(crate) async fn inspect<B>(
        &self,
        parts: &Parts,
        proof: &Authorized<'_>,
        body: B,
    ) -> Result<Response<Body>, Status>
    where
        B: HttpBody + Send,
        B::Data: Send,
        B::Error: std::fmt::Display,
    {
        let Some(inspect) = &self.options.inspect else { return Ok(crate::render::no_page()) };
        let body = decode::read(&parts.headers, body).await?;
        let mut request = Request::new(body);
        *request.method_mut() = parts.method.clone();
        *request.uri_mut() = parts.uri.clone();
        if let Some(accept) = parts.headers.get(header::ACCEPT) {
            request.headers_mut().insert(header::ACCEPT, accept.clone());
        }
        Ok(inspect.answer(&proof.user().name, request).await.map(Body::from))
    }
}
