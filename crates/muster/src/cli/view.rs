//! What a command prints: a table that fits the terminal, or the answer as JSON, YAML or names. Data goes to standard output, talk to
//! standard error.

use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::{
    gateway::{Gateway, Url},
    words::readable,
};
use crate::{
    problem::{Kind, Problem},
    say,
    show::{self, Form},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Json,
    Yaml,
    /// CLUSTER/NAMESPACE/NAME, one a line
    Name,
    /// The table with more columns
    Wide,
}

/// Which rows, in which order, in which form.
#[derive(Debug, Clone, Args)]
pub struct Listing {
    /// How to print it [default: a table]
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
    /// Fields in order of weight, a minus for descending: -restarts,name
    #[arg(long, value_name = "FIELDS", allow_hyphen_values = true)]
    pub sort: Option<String>,
    /// Only rows that fit: "phase eq Failed and restarts gt 3" (docs/apiext.md)
    #[arg(long, value_name = "EXPRESSION")]
    pub filter: Option<String>,
    /// Only what carries these labels: app=web,tier!=back
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
    /// At most so many rows
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
}

/// Rows asked for at once.
const PAGE: u64 = 500;

/// The rows of a list, and what is missing from it.
#[derive(Debug, Default)]
pub struct Rows {
    pub items: Vec<Value>,
    pub count: u64,
    pub unanswered: Vec<Value>,
    pub stale: Vec<Value>,
}

impl Listing {
    /// All rows, or as many as were asked for; page by page.
    pub async fn rows(&self, gateway: &Gateway, url: Url) -> Result<Rows, Problem> {
        let url = url
            .with_some("sort", self.sort.as_ref())
            .with_some("filter", self.filter.as_ref())
            .with_some("labelSelector", self.selector.as_ref());
        let wanted = self.limit.unwrap_or(u64::MAX);
        let size = wanted.min(PAGE);
        let mut rows = Rows::default();
        for page in 1.. {
            let asked = url.clone().with("page", page.to_string()).with("pageSize", size.to_string());
            let answer = gateway.get(&asked).await?;
            let list = |key: &str| answer[key].as_array().cloned().unwrap_or_default();
            let items = list("items");
            let ended = (items.len() as u64) < size;
            rows.items.extend(items);
            rows.count = answer["count"].as_u64().unwrap_or(rows.items.len() as u64);
            (rows.unanswered, rows.stale) = (list("unanswered"), list("stale"));
            if ended || rows.items.len() as u64 >= wanted.min(rows.count) {
                break;
            }
        }
        rows.items.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
        Ok(rows)
    }

    /// Prints rows and says who did not answer. That nobody answered is a failure.
    pub fn print(&self, rows: &Rows, columns: &[Column]) -> Result<(), Problem> {
        rows.talk();
        if rows.items.is_empty() && rows.stale.is_empty() && !rows.unanswered.is_empty() {
            let names: Vec<String> = rows.unanswered.iter().map(|one| text(one, "/cluster")).collect();
            return Err(Problem::new(Kind::Unreachable, "no cluster answered", names.join(", "))
                .next("look at their states: muster cluster list"));
        }
        match self.output {
            Some(Output::Json) => show::value(Form::Json, &rows.whole()),
            Some(Output::Yaml) => show::value(Form::Yaml, &rows.whole()),
            Some(Output::Name) => say(&rows.items.iter().map(|row| format!("{}\n", name(row))).collect::<String>()),
            None | Some(Output::Wide) => {
                if rows.items.is_empty() {
                    eprintln!("nothing found");
                    return Ok(());
                }
                let wide = self.output == Some(Output::Wide);
                say(&table(columns, &rows.items, wide, terminal_width()))?;
                if (rows.items.len() as u64) < rows.count {
                    eprintln!("{} of {}; --limit asks for more", rows.items.len(), rows.count);
                }
                Ok(())
            }
        }
    }
}

impl Rows {
    fn whole(&self) -> Value {
        json!({"items": self.items, "count": self.count, "unanswered": self.unanswered, "stale": self.stale})
    }

    /// What is missing or old, on standard error.
    fn talk(&self) {
        for one in &self.unanswered {
            let why = [text(one, "/message"), text(one, "/reason")].into_iter().find(|why| !why.is_empty());
            eprintln!("warning: {} did not answer: {}", text(one, "/cluster"), why.unwrap_or_default());
        }
        for one in &self.stale {
            eprintln!("warning: {} is not reached; what is shown is of {}", text(one, "/cluster"), text(one, "/since"));
        }
    }
}

/// The place of a row: what is there of cluster, namespace and name.
pub fn name(row: &Value) -> String {
    let parts = ["/cluster", "/namespace", "/name"].map(|key| text(row, key));
    // A cluster's own row is named by itself alone.
    let mut parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    if row.get("namespace").is_none() && row["cluster"] == row["name"] {
        parts.dedup();
    }
    parts.join("/")
}

/// A value of a row as one harmless line; empty when it is not there.
pub fn text(row: &Value, pointer: &str) -> String {
    match row.pointer(pointer) {
        Some(Value::String(text)) => readable(text, 4_000),
        Some(Value::Null) | None => String::new(),
        Some(Value::Array(items)) => {
            let items = items.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned));
            readable(&items.collect::<Vec<_>>().join(","), 4_000)
        }
        Some(value) => readable(&value.to_string(), 4_000),
    }
}

/// A column of a table.
pub struct Column {
    pub head: &'static str,
    pub cell: Box<dyn Fn(&Value) -> String>,
    /// Only with `-o wide`.
    pub wide: bool,
    /// Gives way when the line is too long.
    pub shrinks: bool,
}

impl Column {
    /// The value at a place of the row.
    pub fn at(head: &'static str, pointer: &'static str) -> Column {
        Column::by(head, move |row| text(row, pointer))
    }

    pub fn by(head: &'static str, cell: impl Fn(&Value) -> String + 'static) -> Column {
        Column { head, cell: Box::new(cell), wide: false, shrinks: false }
    }

    pub fn wide(self) -> Column {
        Column { wide: true, ..self }
    }

    pub fn shrinks(self) -> Column {
        Column { shrinks: true, ..self }
    }
}

/// Between columns.
const GAP: usize = 2;
/// A column that gives way keeps so much.
const NARROWEST: usize = 12;

/// Columns as wide as they need; where the line has a bound, those that can give way do. What is empty everywhere is left out.
fn table(columns: &[Column], rows: &[Value], wide: bool, bound: Option<usize>) -> String {
    let shown = columns.iter().filter(|column| wide || !column.wide);
    let mut shown: Vec<(&Column, Vec<String>)> =
        shown.map(|column| (column, rows.iter().map(|row| (column.cell)(row)).collect::<Vec<_>>())).collect();
    shown.retain(|(_, cells)| cells.iter().any(|cell| !cell.is_empty()));
    let length = |text: &str| text.chars().count();
    let mut widths: Vec<usize> = shown
        .iter()
        .map(|(column, cells)| cells.iter().map(|cell| length(cell)).chain([column.head.len()]).max().unwrap_or(0))
        .collect();
    if let Some(bound) = bound {
        let gaps = GAP * widths.len().saturating_sub(1);
        let mut over = (widths.iter().sum::<usize>() + gaps).saturating_sub(bound);
        // The widest gives way first, so that none is cut to nothing while another is long.
        while over > 0 {
            let widest = (0..shown.len()).filter(|i| shown[*i].0.shrinks).max_by_key(|i| widths[*i]);
            let Some(widest) = widest.filter(|i| widths[*i] > NARROWEST) else { break };
            widths[widest] -= 1;
            over -= 1;
        }
    }
    let cut = |text: &str, width: usize| match length(text) > width {
        true => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    };
    let line = |cells: Vec<&str>| {
        let padded: Vec<String> =
            cells.into_iter().zip(&widths).map(|(cell, &width)| format!("{:width$}", cut(cell, width))).collect();
        format!("{}\n", padded.join(&" ".repeat(GAP)).trim_end())
    };
    let mut out = line(shown.iter().map(|(column, _)| column.head).collect());
    for row in 0..rows.len() {
        out.push_str(&line(shown.iter().map(|(_, cells)| cells[row].as_str()).collect()));
    }
    out
}

/// How wide a line may be; none where nobody looks at it.
fn terminal_width() -> Option<usize> {
    let out = std::io::stdout();
    if !out.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&out).ok().map(|size| usize::from(size.ws_col)).filter(|width| *width > 0);
    Some(size.unwrap_or(80).max(80))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Value> {
        vec![
            json!({"cluster": "beijing", "namespace": "shop", "name": "web-blue-6f7d8c9b5-x2x4q", "phase": "Running", "node": "n"}),
            json!({"cluster": "b", "namespace": "shop", "name": "web", "phase": "Pending\u{1b}[2J", "node": ""}),
        ]
    }

    fn columns() -> Vec<Column> {
        vec![
            Column::at("CLUSTER", "/cluster"),
            Column::at("NAME", "/name").shrinks(),
            Column::at("STATUS", "/phase"),
            Column::at("REASON", "/reason"),
            Column::at("NODE", "/node").wide(),
        ]
    }

    #[test]
    fn a_table_lines_up_leaves_out_what_is_empty_and_keeps_to_its_bound() {
        let plain = table(&columns(), &rows(), false, None);
        let lines: Vec<&str> = plain.lines().collect();
        assert_eq!(lines[0], "CLUSTER  NAME                      STATUS");
        assert_eq!(lines[1], "beijing  web-blue-6f7d8c9b5-x2x4q  Running");
        assert_eq!(lines[2], "b        web                       Pending [2J");
        let bound = table(&columns(), &rows(), false, Some(36));
        assert!(bound.lines().all(|line| line.chars().count() <= 36), "{bound}");
        assert!(bound.contains("web-blue-6f7d…"), "{bound}");
        let wide = table(&columns(), &rows(), true, None);
        assert!(wide.lines().next().unwrap().ends_with("NODE"));
    }

    #[test]
    fn a_row_is_named_by_where_it_is() {
        assert_eq!(name(&rows()[1]), "b/shop/web");
        assert_eq!(name(&json!({"cluster": "prod", "name": "prod"})), "prod");
        assert_eq!(name(&json!({"cluster": "prod", "name": "n1"})), "prod/n1");
    }
}
