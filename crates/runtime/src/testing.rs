//! A server made of a closure, for tests without one. Other crates' tests have it with the feature `testing`.

use std::{convert::Infallible, future::Future};

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::{Client, client::Body};
use tokio::sync::mpsc;

/// What it answers.
pub type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// A client whose requests `answer` answers.
pub fn client<F>(answer: impl Fn(Request<Bytes>) -> F + Clone + Send + Sync + 'static) -> Client
where
    F: Future<Output = Answer> + Send + 'static,
{
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answer.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            Ok::<_, Infallible>(answer(Request::from_parts(parts, body)).await)
        }
    });
    Client::new(service, "default")
}

/// A whole answer.
pub fn json(code: u16, value: &serde_json::Value) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(value.to_string())).boxed_unsync());
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or_default();
    answer
}

/// A refusal in the form of the Kubernetes API.
pub fn refusal(code: u16) -> Answer {
    let reason = if code == 404 { "NotFound" } else { "Planted" };
    let status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": reason, "message": format!("planted {code}")});
    json(code, &status)
}

/// Lines that end when the sender is dropped.
pub fn lines() -> (mpsc::UnboundedSender<String>, Answer) {
    let (sender, receiver) = mpsc::unbounded_channel::<String>();
    let frames = stream::unfold(receiver, |mut receiver| async {
        let line = receiver.recv().await?;
        Some((Ok(Frame::data(Bytes::from(line + "\n"))), receiver))
    });
    (sender, Response::new(StreamBody::new(frames).boxed_unsync()))
}

/// An answer whose body never comes.
pub fn lines_for_ever() -> Answer {
    Response::new(StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>()).boxed_unsync())
}
