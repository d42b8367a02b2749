//! The figures as whoever scrapes them reads them; everything is gathered when it is asked for.

use super::{CODES, Cell, Figures, OTHER, Row, SCOPES, SECONDS, VERBS};
use crate::serve::Stats;
use crate::{Api, Inner};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, Weak};

impl Api {
    /// Shows the server's figures, if it was told to keep any.
    pub fn measure(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(Shown(Arc::downgrade(&self.inner))));
    }
}

impl Stats {
    /// Shows what happens on the listeners.
    pub fn measure(self: &Arc<Self>, registry: &mut Registry) {
        registry.register_collector(Box::new(Listened(Arc::clone(self))));
    }
}

#[derive(Debug)]
struct Listened(Arc<Stats>);

impl Collector for Listened {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stats = &self.0;
        let mut counter = |name: &str, help: &str, value: u64| {
            ConstCounter::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)
        };
        let failed = stats.handshakes_failed.load(Relaxed);
        counter("muster_apiserver_connections_accepted", "Connections accepted", stats.accepted.load(Relaxed))?;
        counter("apiserver_tls_handshake_errors", "TLS handshakes that failed", failed)?;
        let help = "Connections closed at once because their address had its share open";
        counter("muster_apiserver_connections_turned_away", help, stats.turned_away.load(Relaxed))?;
        let help = "Connections and streams closed because their client did not go on";
        counter("muster_apiserver_dawdlers_cut", help, stats.dawdlers_cut.load(Relaxed))?;
        let open = gauge(stats.open.load(Relaxed));
        let name = "muster_apiserver_connections_open";
        open.encode(encoder.encode_descriptor(name, "Connections open", None, MetricType::Gauge)?)
    }
}

/// Does not keep the server alive: whoever shows figures may live longer.
struct Shown(Weak<Inner>);

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the API server's figures")
    }
}

impl Collector for Shown {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(api) = self.0.upgrade() else { return Ok(()) };
        if let Some(figures) = &api.figures {
            figures.encode(&mut encoder)?;
        }
        objects(&api, &mut encoder)?;
        let audit = &api.options.audit;
        let mut counter = |name: &str, help: &str, value: u64| {
            ConstCounter::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)
        };
        counter("apiserver_audit_event", "Lines written to the audit log", audit.written())?;
        counter("muster_audit_events_dropped", "Lines the audit log could not take in time", audit.dropped())?;
        let help = "Revision of the newest write";
        let revision = gauge(usize::try_from(api.store.revision()).unwrap_or(usize::MAX));
        revision.encode(encoder.encode_descriptor("muster_storage_revision", help, None, MetricType::Gauge)?)
    }
}

/// Whole numbers look like it.
fn gauge(value: usize) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}

fn objects(api: &Inner, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "Objects stored, by resource";
    let mut family = encoder.encode_descriptor("apiserver_storage_objects", help, None, MetricType::Gauge)?;
    let served = api.served.get();
    let (mut shown, mut rest) = (0, 0);
    for kind in served.registry.stored() {
        let count = api.store.count(&kind.collection, "");
        shown += usize::from(kind.custom.is_some());
        if shown > super::MOST_CUSTOM {
            rest += count;
            continue;
        }
        let resource = kind.resource().to_string();
        gauge(count).encode(family.encode_family(&[("resource", resource.as_str())])?)?;
    }
    if shown > super::MOST_CUSTOM {
        gauge(rest).encode(family.encode_family(&[("resource", OTHER)])?)?;
    }
    Ok(())
}

impl Figures {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let custom = self.custom.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let rows = || self.builtin.iter().chain(&custom).chain([&self.other]).map(|row| &**row).chain([&self.paths]);

        let help = "Requests answered, by what they were about, how, and with which code";
        let mut family = encoder.encode_descriptor("apiserver_request", help, None, MetricType::Counter)?;
        for (row, labels, cell) in rows().flat_map(Row::used) {
            for (code, count) in CODES.iter().zip(&cell.codes) {
                let count = count.load(Relaxed);
                if count > 0 {
                    let code = if *code == 0 { OTHER.to_owned() } else { code.to_string() };
                    let mut labels = row.labels(labels);
                    labels.push(("code", &code));
                    ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
                }
            }
        }

        let help = "How long requests took until their answer began; without watches";
        let name = "apiserver_request_duration_seconds";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (row, labels, cell) in rows().flat_map(Row::used) {
            let times = Times::of(cell);
            if times.count > 0 {
                times.encode(family.encode_family(&row.labels(labels))?)?;
            }
        }

        let help = "Requests whose answer has not begun";
        let name = "apiserver_current_inflight_requests";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (kind, count) in ["readOnly", "mutating"].into_iter().zip(&self.under_way) {
            gauge(count.load(Relaxed)).encode(family.encode_family(&[("request_kind", kind)])?)?;
        }

        let help = "Watches that are open";
        let mut family = encoder.encode_descriptor("apiserver_longrunning_requests", help, None, MetricType::Gauge)?;
        for row in rows() {
            let open = row.watches.load(Relaxed);
            // A resource that was ever watched stays, or its line would end without a zero.
            if open > 0 || row.used().any(|(_, labels, _)| labels.verb == VERBS[super::WATCH]) {
                let labels = [
                    ("verb", VERBS[super::WATCH]),
                    ("group", &*row.group),
                    ("version", &*row.version),
                    ("resource", &*row.resource),
                ];
                gauge(open).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

/// Where a cell stands in its row.
#[derive(Clone, Copy)]
struct Labels<'a> {
    subresource: &'a str,
    verb: &'static str,
    scope: &'static str,
}

impl Row {
    fn used(&self) -> impl Iterator<Item = (&Row, Labels<'_>, &Cell)> {
        self.cells.iter().enumerate().filter_map(move |(at, cell)| {
            let (rest, scope) = (at / SCOPES.len(), at % SCOPES.len());
            let subresource = self.subresources.get(rest / VERBS.len())?;
            let labels = Labels { subresource, verb: VERBS[rest % VERBS.len()], scope: SCOPES[scope] };
            Some((self, labels, &**cell.get()?))
        })
    }

    fn labels<'a>(&'a self, labels: Labels<'a>) -> Vec<(&'static str, &'a str)> {
        vec![
            ("verb", labels.verb),
            ("group", &*self.group),
            ("version", &*self.version),
            ("resource", &*self.resource),
            ("subresource", labels.subresource),
            ("scope", if self.resource.is_empty() { "" } else { labels.scope }),
        ]
    }
}

/// A cell's times, read once, so that the sum and the buckets are of one look.
struct Times {
    buckets: Vec<(f64, u64)>,
    count: u64,
    seconds: f64,
}

impl Times {
    fn of(cell: &Cell) -> Self {
        let ends = SECONDS.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = ends.zip(cell.buckets.iter().map(|bucket| bucket.load(Relaxed))).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        Self { buckets, count, seconds: cell.nanos.load(Relaxed) as f64 / 1e9 }
    }
}

impl TypedMetric for Times {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Times {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_histogram::<NoLabelSet>(self.seconds, self.count, &self.buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}
