//! The gateway in figures: which requests were answered how, and how long that took (SYM-11).

use std::time::Duration;

use http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use runtime::Metrics;

/// From an answer out of a cache to a member that takes all its time.
const SECONDS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Counted from the start, shown once somebody registers them.
#[derive(Clone)]
pub(crate) struct Figures {
    requests: Family<Answered, Counter>,
    seconds: Family<Asked, Histogram, fn() -> Histogram>,
    under_way: Gauge,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Asked {
    method: &'static str,
    route: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    method: &'static str,
    route: &'static str,
    code: String,
}

impl Default for Figures {
    fn default() -> Self {
        let times: fn() -> Histogram = || Histogram::new(SECONDS);
        let (requests, under_way) = (Family::default(), Gauge::default());
        Self { requests, seconds: Family::new_with_constructor(times), under_way }
    }
}

impl Figures {
    pub(crate) fn register(&self, metrics: &Metrics) {
        metrics.register(|registry| {
            registry.register(
                "muster_gateway_requests",
                "Requests answered, by method, first part of the path and code",
                self.requests.clone(),
            );
            registry.register(
                "muster_gateway_request_duration_seconds",
                "How long it took until an answer began; of a WebSocket or a log, until it was opened",
                self.seconds.clone(),
            );
            registry.register(
                "muster_gateway_requests_under_way",
                "Requests whose answer has not begun",
                self.under_way.clone(),
            );
        });
    }

    /// A request has come; it is under way until this is dropped.
    pub(crate) fn begin(&self) -> UnderWay {
        self.under_way.inc();
        UnderWay(self.under_way.clone())
    }

    pub(crate) fn answered(&self, method: &Method, path: &str, code: StatusCode, took: Duration) {
        let (method, route) = (word(method), route(path));
        self.requests.get_or_create(&Answered { method, route, code: code.as_str().to_owned() }).inc();
        self.seconds.get_or_create(&Asked { method, route }).observe(took.as_secs_f64());
    }
}

pub(crate) struct UnderWay(Gauge);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Clients invent methods; figures do not grow with them.
fn word(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

/// The first part of a path of ours; everything else is a page.
fn route(path: &str) -> &'static str {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    crate::site::OWN.into_iter().find(|own| *own == first).unwrap_or("page")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn requests_are_counted_by_what_is_bounded() {
        // SYM-11
        let (figures, metrics) = (Figures::default(), Metrics::new());
        figures.register(&metrics);
        let under_way = figures.begin();
        let took = Duration::from_millis(3);
        figures.answered(&Method::GET, "/apiext/v1/core/v1/pods", StatusCode::OK, took);
        figures.answered(&Method::GET, "/apiext/v1/core/v1/nodes/a-name", StatusCode::OK, took);
        figures.answered(&Method::from_bytes(b"BREW").unwrap(), "/any/page", StatusCode::NOT_FOUND, took);
        let text = metrics.encode().unwrap();
        for line in [
            "muster_gateway_requests_total{method=\"GET\",route=\"apiext\",code=\"200\"} 2",
            "muster_gateway_requests_total{method=\"other\",route=\"page\",code=\"404\"} 1",
            "muster_gateway_request_duration_seconds_count{method=\"GET\",route=\"apiext\"} 2",
            "muster_gateway_request_duration_seconds_bucket{le=\"0.0025\",method=\"GET\",route=\"apiext\"} 0",
            "muster_gateway_requests_under_way 1",
        ] {
            assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
        }
        assert!(!text.contains("a-name") && !text.contains("BREW"), "{text}");
        drop(under_way);
        assert!(metrics.encode().unwrap().contains("muster_gateway_requests_under_way 0"));
    }
}
