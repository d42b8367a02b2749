//! The table: what was measured, what was aimed at, and what bounds it.

use std::fmt::Write;

use serde_json::{Value, json};

#[derive(Clone, Copy)]
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// For comparison only.
    None,
}

struct Row {
    measure: String,
    value: f64,
    unit: &'static str,
    target: Target,
    bound: String,
}

/// Rows in the order they were measured.
#[derive(Default)]
pub struct Report {
    rows: Vec<Row>,
}

impl Report {
    pub fn put(
        &mut self,
        measure: impl Into<String>,
        value: f64,
        unit: &'static str,
        target: Target,
        bound: impl Into<String>,
    ) {
        let row = Row { measure: measure.into(), value, unit, target, bound: bound.into() };
        // Told at once: a run takes minutes.
        eprintln!("  {}: {} {} {}", row.measure, number(value), unit, verdict(&row));
        self.rows.push(row);
    }

    pub fn table(&self) -> String {
        let mut text = String::from("| measure | muster | target | bound by |\n| --- | ---: | ---: | --- |\n");
        for row in &self.rows {
            let value = number(row.value);
            let _ = writeln!(text, "| {} | {value} {} | {} | {} |", row.measure, row.unit, verdict(row), row.bound);
        }
        text
    }

    pub fn json(&self, settings: &Value) -> Value {
        let row = |row: &Row| json!({"measure": row.measure, "value": row.value, "unit": row.unit, "target": verdict(row), "bound": row.bound});
        json!({"settings": settings, "rows": self.rows.iter().map(row).collect::<Vec<_>>()})
    }
}

fn verdict(row: &Row) -> String {
    let (sign, target, reached) = match row.target {
        Target::AtLeast(target) => ("≥", target, row.value >= target),
        Target::AtMost(target) => ("≤", target, row.value <= target),
        Target::None => return String::new(),
    };
    format!("{sign} {} {}", number(target), if reached { "reached" } else { "MISSED" })
}

fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_reaches_nothing() {
        let mut report = Report::default();
        report.put("a", f64::NAN, "ms", Target::AtMost(1.0), "");
        report.put("b", 2000.0, "/s", Target::AtLeast(2000.0), "");
        report.put("c", 1.0, "", Target::None, "");
        let table = report.table();
        assert!(table.contains("≤ 1.00 MISSED") && table.contains("≥ 2000 reached"), "{table}");
        assert_eq!(table.matches("reached").count(), 1);
    }
}
