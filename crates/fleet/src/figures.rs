//! The fleet in figures, read when somebody asks for them.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
};
use runtime::Metrics;

use crate::{Fleet, State, Status};

impl Fleet {
    /// Adds the fleet's figures to those of the process.
    pub fn measure(&self, metrics: &Metrics) {
        let figures = Figures(self.clone());
        metrics.register(|registry| registry.register_collector(Box::new(figures)));
    }
}

struct Figures(Fleet);

impl fmt::Debug for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Figures")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfMember {
    member: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfState {
    state: String,
}

/// What is measured of one member.
struct Row {
    label: OfMember,
    status: Status,
    cached: usize,
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let rows: Vec<Row> = self
            .0
            .members()
            .iter()
            .map(|member| Row {
                label: OfMember { member: member.name().to_string() },
                status: member.status(),
                cached: member.caches().size(),
            })
            .collect();
        {
            let mut family =
                encoder.encode_descriptor("muster_members", "Members by state", None, MetricType::Gauge)?;
            for state in [State::Connecting, State::Running, State::Unreachable] {
                let count = rows.iter().filter(|row| row.status.state == state).count();
                let label = OfState { state: state.to_string() };
                ConstGauge::new(count as f64).encode(family.encode_family(&label)?)?;
            }
        }
        let mut write = |name: &str, help: &str, value: fn(&Row) -> Option<f64>| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for row in &rows {
                if let Some(value) = value(row) {
                    ConstGauge::new(value).encode(family.encode_family(&row.label)?)?;
                }
            }
            Ok(())
        };
        write("muster_member_up", "1 while the member is Running, 0 otherwise", |row| {
            Some(f64::from(u8::from(row.status.state == State::Running)))
        })?;
        write("muster_member_probe_seconds", "How long the last answered probe took", |row| {
            row.status.latency.map(|latency| latency.as_secs_f64())
        })?;
        write("muster_member_cache_bytes", "Memory taken by what is kept of the member", |row| Some(row.cached as f64))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{Care, Connection, testing};

    #[tokio::test]
    async fn every_member_and_every_state_has_its_figure() {
        // SYM-11
        let (fleet, metrics) = (Fleet::new(Care::default()), Metrics::new());
        fleet.measure(&metrics);
        fleet.declare("a", BTreeMap::new(), Connection::through(testing::client(|_| std::future::pending())));
        let text = metrics.encode().unwrap();
        for line in [
            "muster_members{state=\"Connecting\"} 1",
            "muster_members{state=\"Running\"} 0",
            "muster_member_up{member=\"a\"} 0",
            "muster_member_cache_bytes{member=\"a\"} 0",
        ] {
            assert!(text.contains(line), "no {line} in\n{text}");
        }
    }
}
