//! Answers as kubectl prints them: a table, or `-o json|yaml|name`.

use clap::ValueEnum;
use serde::Serialize;

use crate::{
    problem::{Kind, Problem},
    say,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    Json,
    Yaml,
    Name,
}

/// As JSON or YAML, to standard output.
pub fn value(form: Form, value: &impl Serialize) -> Result<(), Problem> {
    let failed = |why: String| Problem::new(Kind::Failed, "the answer cannot be written", why);
    say(&match form {
        Form::Yaml => serde_saphyr::to_string(value).map_err(|e| failed(e.to_string()))?,
        _ => format!("{}\n", serde_json::to_string_pretty(value).map_err(|e| failed(e.to_string()))?),
    })
}

/// Columns as wide as they need, three spaces apart.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row.get(column).map_or(0, |cell| cell.chars().count()));
        cells.chain([head[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells.zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        format!("{}\n", padded.join("   ").trim_end())
    };
    let mut out = line(&mut head.iter().copied());
    for row in rows {
        out.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [vec!["at".to_owned(), "true".to_owned()], vec!["redismigration".to_owned(), "false".to_owned()]];
        let table = table(&["NAME", "ENABLED"], &rows);
        assert_eq!(table, "NAME             ENABLED\nat               true\nredismigration   false\n");
    }
}
