//! Traces from a request to the reconcile it causes: W3C trace context carried along, spans sent out by OTLP.
//!
//! A span belongs to a trace when its target is [`TARGET`]; any crate makes one with `tracing` alone. Fields with a meaning:
//! `traceparent` (the caller's context: the span continues it), `link.traceparent` (a context it is linked to), `otel.kind`
//! (`server`, `client`, …), `object.version` (the version of an object that was written), `error` (the span failed, and why).
//! While no exporter runs, nobody listens to that target and such a span costs a load and a branch.

mod context;
mod export;
mod layer;
mod otlp;
mod versions;

use std::collections::BTreeMap;

use http::{HeaderValue, Request};
use kube::core::ObjectMeta;

use crate::Key;

pub use context::{TraceContext, current};
pub use export::{Exporter, ExporterOptions, TraceError};
pub use layer::TraceLayer;

/// The target of the spans that make up traces.
pub const TARGET: &str = "trace";

/// Whoever writes an object may say here, as a W3C `traceparent`, on whose behalf: the reconciles of the object are linked to it.
pub const ANNOTATION: &str = "muster.dev/traceparent";

/// The span of one reconcile: linked to the request that the object's annotation names.
pub fn reconcile_span(kind: &str, key: &Key, annotations: Option<&BTreeMap<String, String>>) -> tracing::Span {
    let link = annotations.and_then(|annotations| annotations.get(ANNOTATION)).map(String::as_str);
    tracing::info_span!(
        target: TARGET, parent: None, "reconcile", kind, object = %key, link.traceparent = link, error = tracing::field::Empty,
    )
}

/// The version of an object whose writer the span of a reconcile is to be linked to: none when nobody listens, or when the
/// annotation says on whose behalf it was written.
pub fn to_link(span: &tracing::Span, object: &ObjectMeta) -> Option<String> {
    let annotated = || object.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(ANNOTATION));
    if span.is_disabled() || annotated() { None } else { object.resource_version.clone() }
}

/// Links the span of a reconcile to the request that wrote this version, where that was to the API server in this process. Asked when
/// the reconcile is over: it may begin before the request has its answer.
pub fn link_to_writer(span: &tracing::Span, version: Option<&str>) {
    if let Some(writer) = version.and_then(versions::writer) {
        span.record("link.traceparent", tracing::field::display(writer));
    }
}

/// Sends the current span's context along with a request. For `kube::client::ClientBuilder::with_layer`, by way of
/// `tower::util::MapRequestLayer`.
pub fn inject<B>(mut request: Request<B>) -> Request<B> {
    if let Some(value) = current().and_then(|context| HeaderValue::from_str(&context.to_string()).ok()) {
        request.headers_mut().entry("traceparent").or_insert(value);
    }
    request
}

#[cfg(test)]
mod tests;
