//! `/debug/` of the API server: the framework's profiles and log level, for whom the API server lets in.

use std::sync::Arc;

use apiserver::Inspect;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Collected, Full};
use runtime::{logging::Log, serve::LogLevel};

pub struct Inside(Arc<dyn LogLevel>);

impl Inside {
    pub fn of(log: &Arc<Log>) -> Arc<dyn Inspect> {
        Arc::new(Inside(log.clone()))
    }
}

impl Inspect for Inside {
    fn answer<'a>(&'a self, user: &'a str, request: Request<Bytes>) -> BoxFuture<'a, Response<Bytes>> {
        Box::pin(async move {
            let answer = runtime::serve::debug(Some(&self.0), user, request.map(Full::new)).await;
            let (parts, body) = answer.into_parts();
            let body = body.collect().await.map_or_else(|never| match never {}, Collected::to_bytes);
            Response::from_parts(parts, body)
        })
    }
}
