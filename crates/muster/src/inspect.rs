//! `/debug/` and `/metrics` of the API server: the framework's profiles, log level and figures, for whom the API server lets in.

use std::sync::Arc;

use apiserver::Inspect;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Collected, Full};
use runtime::{Metrics, logging::Log, serve::LogLevel};

pub struct Inside {
    log: Arc<dyn LogLevel>,
    metrics: Metrics,
}

impl Inside {
    pub fn of(log: &Arc<Log>, metrics: Metrics) -> Arc<dyn Inspect> {
        Arc::new(Inside { log: log.clone(), metrics })
    }
}

impl Inspect for Inside {
    fn answer<'a>(&'a self, user: &'a str, request: Request<Bytes>) -> BoxFuture<'a, Response<Bytes>> {
        Box::pin(async move {
            let figures = request.uri().path().trim_end_matches('/') == "/metrics";
            let answer = match figures {
                true => runtime::serve::metrics(&self.metrics, &request),
                false => runtime::serve::debug(Some(&self.log), user, request.map(Full::new)).await,
            };
            let (parts, body) = answer.into_parts();
            let body = body.collect().await.map_or_else(|never| match never {}, Collected::to_bytes);
            Response::from_parts(parts, body)
        })
    }
}
