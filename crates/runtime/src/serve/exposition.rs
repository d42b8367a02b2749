//! The figures in the form the scraper asks for: OpenMetrics, or the older Prometheus text.

use std::fmt::Write;

pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
pub const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Whether the `Accept` header prefers OpenMetrics. Whoever does not say gets the text that every program reads.
pub fn wants_openmetrics(accept: &str) -> bool {
    let quality = |wanted: &str| {
        let offers = accept.split(',').filter_map(|offer| {
            let mut parts = offer.split(';').map(str::trim);
            let kind = parts.next()?;
            let q = parts.find_map(|part| part.strip_prefix("q=")).map_or(Some(1.0), |q| q.parse::<f32>().ok())?;
            (kind == wanted).then_some(q)
        });
        offers.fold(0.0, f32::max)
    };
    let openmetrics = quality("application/openmetrics-text");
    openmetrics > 0.0 && openmetrics >= quality("text/plain")
}

/// OpenMetrics text as Prometheus text: counters are declared under their full names, and what the old format lacks is left out.
pub fn prometheus(openmetrics: &str) -> String {
    let mut out = String::with_capacity(openmetrics.len());
    let mut name = "";
    let mut help = None;
    for line in openmetrics.lines() {
        let declared = line.strip_prefix("# ").and_then(|rest| rest.split_once(' '));
        match declared {
            Some(("HELP", rest)) => help = rest.split_once(' '),
            Some(("TYPE", rest)) => {
                let (family, kind) = rest.split_once(' ').unwrap_or((rest, "unknown"));
                name = family;
                let suffix = if kind == "counter" { "_total" } else { "" };
                // The help comes before the type in either order we meet; it needs the same name.
                if let Some((_, text)) = help.take().filter(|(of, _)| *of == family) {
                    let _ = writeln!(out, "# HELP {family}{suffix} {text}");
                }
                let kind = match kind {
                    "unknown" | "info" | "stateset" | "gaugehistogram" => "untyped",
                    known => known,
                };
                let _ = writeln!(out, "# TYPE {family}{suffix} {kind}");
            }
            Some(("UNIT", _)) => (),
            _ if line == "# EOF" => (),
            _ if line.strip_prefix(name).is_some_and(|rest| rest.starts_with("_created")) => (),
            _ => {
                // An exemplar stands behind a second `#`, which no label value of ours can be mistaken for: it follows a number.
                let sample = line.rsplit_once("} ").filter(|(before, _)| before.contains(" # {"));
                let sample =
                    sample.and_then(|(before, _)| before.rsplit_once(" # {")).map_or(line, |(sample, _)| sample);
                let _ = writeln!(out, "{sample}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::{counter::Counter, gauge::Gauge, histogram::Histogram};

    use super::*;
    use crate::Metrics;

    #[test]
    fn the_scraper_gets_what_it_asks_for() {
        for (accept, openmetrics) in [
            ("", false),
            ("*/*", false),
            ("text/plain", false),
            ("application/openmetrics-text", true),
            ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1", true),
            ("application/openmetrics-text;q=0.2,text/plain;q=0.3", false),
            ("application/openmetrics-text;q=0", false),
            ("application/openmetrics-text;q=x", false),
        ] {
            assert_eq!(wants_openmetrics(accept), openmetrics, "{accept}");
        }
    }

    #[test]
    fn the_old_text_declares_counters_by_their_full_names() {
        // SYM-11
        let metrics = Metrics::new();
        let (counter, gauge) = (Counter::<u64>::default(), Gauge::<i64>::default());
        let histogram = Histogram::new([1.0, 2.0]);
        metrics.register(|registry| {
            registry.register("test_things", "Things", counter.clone());
            registry.register("test_level", "Level", gauge.clone());
            registry.register("test_seconds", "Seconds", histogram.clone());
        });
        counter.inc_by(3);
        gauge.set(-4);
        histogram.observe(1.5);
        let text = prometheus(&metrics.encode().unwrap());
        for line in [
            "# HELP test_things_total Things.",
            "# TYPE test_things_total counter",
            "test_things_total 3",
            "# TYPE test_level gauge",
            "test_level -4",
            "# TYPE test_seconds histogram",
            "test_seconds_bucket{le=\"2.0\"} 1",
            "test_seconds_count 1",
        ] {
            assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
        }
        assert!(!text.contains("# EOF") && !text.contains("# TYPE test_things counter"), "{text}");
        assert_eq!(prometheus("a_bucket{le=\"1\"} 5 # {id=\"x\"} 0.67\n"), "a_bucket{le=\"1\"} 5\n");
        assert_eq!(prometheus("a{path=\"/# {x} y\"} 5\n"), "a{path=\"/# {x} y\"} 5\n");
    }
}
