//! The table: both sides, their ratio, the target, and what bounds each measure.
use std::fmt::Write;

use serde_json::{Value, json};

use crate::measure::{Figure, Figures};

pub struct Row {
    pub figure: &'static str,
    pub title: &'static str,
    pub unit: &'static str,
    /// Larger is better (throughput) or smaller (time, memory).
    pub more: bool,
    /// How many times better we want to be.
    pub target: f64,
}

const fn row(figure: &'static str, title: &'static str, unit: &'static str, more: bool, target: f64) -> Row {
    Row { figure, title, unit, more, target }
}

pub const ROWS: [Row; 15] = [
    row("start", "start to ready", "ms", false, 20.0),
    row("memory idle", "resident memory, idle", "MiB", false, 10.0),
    row("memory with many objects", "resident memory, with objects", "MiB", false, 5.0),
    row("creates, 1 clients", "creates, 1 client", "/s", true, 4.0),
    row("creates, 64 clients", "creates, 64 clients", "/s", true, 6.0),
    row("gets, 64 clients", "gets, 64 clients", "/s", true, 8.0),
    row("gets, 64 clients, p99", "gets, 64 clients, p99", "ms", false, 8.0),
    row("list", "LIST of 10,000", "ms", false, 12.0),
    row("list, 1 % by label", "LIST, 1 % by label", "ms", false, 12.0),
    row("events, 20 watchers", "events to 20 watchers", "/s", true, 5.0),
    row("events, 20 watchers, delivered %", "  delivered", "%", true, 0.0),
    row("events, 500 watchers", "events to 500 watchers", "/s", true, 5.0),
    row("events, 500 watchers, delivered %", "  delivered", "%", true, 0.0),
    row("custom creates", "creates of a custom resource, 200 fields", "/s", true, 4.0),
    row("applies, 64 clients", "server-side applies, 64 clients", "/s", true, 4.0),
];

/// The median of the rounds for each figure.
pub fn medians(rounds: &[Figures]) -> Figures {
    let mut all = Figures::new();
    for name in rounds.iter().flat_map(|round| round.keys()) {
        let mut values: Vec<&Figure> = rounds.iter().filter_map(|round| round.get(name)).collect();
        values.sort_by(|a, b| a.value.total_cmp(&b.value));
        all.insert(name.clone(), values[values.len() / 2].clone());
    }
    all
}

pub fn table(kubernetes: &Figures, muster: &Figures) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "| measure | kube-apiserver + etcd | muster | ratio | target | bound by (muster) |");
    let _ = writeln!(text, "| --- | ---: | ---: | ---: | ---: | --- |");
    for row in &ROWS {
        let missing = Figure { value: f64::NAN, ..Figure::default() };
        let (k, m) = (kubernetes.get(row.figure).unwrap_or(&missing), muster.get(row.figure).unwrap_or(&missing));
        if k.value.is_nan() && m.value.is_nan() {
            continue;
        }
        let ratio = if row.more { m.value / k.value } else { k.value / m.value };
        let verdict = match row.target {
            0.0 => String::new(),
            target => format!("{target:.0}× {}", if ratio >= target { "reached" } else { "MISSED" }),
        };
        let ratio = if row.target == 0.0 { String::new() } else { format!("{ratio:.1}×") };
        let _ = writeln!(
            text,
            "| {} | {} {} | {} {} | {ratio} | {verdict} | {} |",
            row.title,
            number(k.value),
            row.unit,
            number(m.value),
            row.unit,
            bound(row, m)
        );
    }
    text
}

/// Bars that are absolute: what a thousand definitions take, and that a request costs the same however many objects are stored.
pub fn absolute(muster: &Figures) -> String {
    let mut text = String::from("| muster alone | measured | target |\n| --- | ---: | ---: |\n");
    let mut put = |title: &str, value: f64, unit: &str, most: f64| {
        let verdict = if value <= most { "reached" } else { "MISSED" };
        let _ = writeln!(text, "| {title} | {} {unit} | ≤ {most:.0} {unit} {verdict} |", number(value));
    };
    let value = |name: &str| muster.get(name).map(|figure| figure.value);
    if let (Some(start), Some(memory)) =
        (value("1000 definitions: start after a kill, ms"), value("1000 definitions: memory, MiB"))
    {
        put("start after a kill with 1,000 definitions", start, "ms", 1000.0);
        put("memory with 1,000 definitions", memory, "MiB", 150.0);
    }
    for what in ["get", "create", "page of 500"] {
        if let (Some(few), Some(many)) =
            (value(&format!("{what} at 1000 objects, µs")), value(&format!("{what} at 100000 objects, µs")))
        {
            put(&format!("{what}: cost at 100,000 objects by that at 1,000"), many / few, "×", 2.0);
        }
    }
    text
}

/// Everything else that was measured, by name.
pub fn rest(kubernetes: &Figures, muster: &Figures) -> String {
    let mut text = String::from("| also | kube-apiserver + etcd | muster |\n| --- | ---: | ---: |\n");
    let names: std::collections::BTreeSet<&String> = kubernetes.keys().chain(muster.keys()).collect();
    for name in names.into_iter().filter(|name| ROWS.iter().all(|row| row.figure != name.as_str())) {
        let show = |figures: &Figures| figures.get(name).map_or("–".to_owned(), |figure| number(figure.value));
        let _ = writeln!(text, "| {name} | {} | {} |", show(kubernetes), show(muster));
    }
    text
}

fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn bound(row: &Row, figure: &Figure) -> String {
    let (server, generator) = (figure.server_cores, figure.generator_cores);
    if server + generator == 0.0 {
        return match row.figure {
            "start" => "process start, key generation, TLS handshake of the probe".to_owned(),
            name if name.starts_with("memory") => "encoded objects, history kept for watches".to_owned(),
            _ => String::new(),
        };
    }
    let other = figure.other_cores;
    let share = format!("server {server:.2}, generator {generator:.2}, others {other:.2} cores");
    if other > 0.3 {
        format!("a busy machine: measure again ({share})")
    } else if generator > 0.9 {
        format!("the generator's one thread ({share})")
    } else if server + generator > 1.7 {
        format!("CPU ({share})")
    } else if row.figure.starts_with("list") {
        format!("one client: the server's work for one request at a time ({share})")
    } else if row.figure.starts_with("creates") {
        format!("fsync ({share})")
    } else {
        format!("round trips ({share})")
    }
}

pub fn json(settings: &Value, kubernetes: &[Figures], muster: &[Figures]) -> Value {
    let side = |rounds: &[Figures]| -> Value {
        let plain = |round: &Figures| -> Value { round.iter().map(|(k, v)| (k.clone(), json!(v.value))).collect() };
        rounds.iter().map(plain).collect()
    };
    json!({"settings": settings, "kubernetes": side(kubernetes), "muster": side(muster)})
}
