//! Printer columns: what `kubectl get` shows of a custom resource.

use super::{list, text};
use crate::kinds::jsonpath::Path;
use jiff::Timestamp;
use meta::time;
use serde_json::{Value, json};

/// A printer column.
pub struct Printed {
    pub definition: Value,
    pub kind: String,
    pub path: Option<Path>,
}

pub fn columns(version: &Value) -> Vec<Printed> {
    let age = [json!({"name": "Age", "type": "date", "description": "", "jsonPath": ".metadata.creationTimestamp"})];
    let own = list(version, "additionalPrinterColumns");
    let shown = if own.is_empty() { &age[..] } else { own };
    let column = |column: &Value| {
        let path = text(column, "jsonPath");
        let description = match column.get("description").and_then(Value::as_str) {
            Some(words) if !words.is_empty() || own.is_empty() => words.to_owned(),
            _ => format!("Custom resource definition column (in JSONPath format): {path}"),
        };
        let definition = json!({"name": text(column, "name"), "type": text(column, "type"), "format": text(column, "format"),
            "description": description, "priority": column.get("priority").and_then(Value::as_i64).unwrap_or_default()});
        Printed { definition, kind: text(column, "type").into(), path: Path::parse(path) }
    };
    shown.iter().map(column).collect()
}

pub fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        (_, Value::Null) => Value::Null,
        ("string", Value::String(text)) => text.as_str().into(),
        ("string", other) => other.to_string().into(),
        ("integer", Value::Number(n)) => match (n.as_i64(), n.as_f64()) {
            (Some(whole), _) => whole.into(),
            // Go cuts off; what does not fit saturates.
            #[expect(clippy::cast_possible_truncation, reason = "cutting off is what is wanted")]
            (None, Some(float)) => (float as i64).into(),
            _ => Value::Null,
        },
        ("number", Value::Number(n)) => n.as_f64().map(Value::from).unwrap_or_default(),
        ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => match time::parse(text) {
            Some(_) => time::age(text, now).into(),
            None => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}
