//! Values as Go prints them, for the refusals that quote one. Clipped: a refusal is no place for a document.

use serde_json::Value;

const MAX: usize = 256;

/// `%v`: `map[a:1 b:2]`, `[x y]`, `<nil>`.
pub(super) fn plain(value: &Value) -> String {
    let mut out = String::new();
    write_plain(value, &mut out);
    clip(out)
}

fn write_plain(value: &Value, out: &mut String) {
    if out.len() > MAX {
        return;
    }
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::String(text) => out.push_str(text),
        Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                write_plain(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push_str("map[");
            for (i, (name, value)) in fields.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                out.push_str(name);
                out.push(':');
                write_plain(value, out);
            }
            out.push(']');
        }
    }
}

/// `%#v`: `map[string]interface {}{"a":1}`, `[]interface {}{"x"}`, `interface {}(nil)`.
pub(super) fn literal(value: &Value) -> String {
    let mut out = String::new();
    write_literal(value, &mut out);
    clip(out)
}

fn write_literal(value: &Value, out: &mut String) {
    if out.len() > MAX {
        return;
    }
    match value {
        Value::Null => out.push_str("interface {}(nil)"),
        Value::String(_) | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
        Value::Array(items) => {
            out.push_str("[]interface {}{");
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_literal(item, out);
            }
            out.push('}');
        }
        Value::Object(fields) => {
            out.push_str("map[string]interface {}{");
            for (i, (name, value)) in fields.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                out.push_str(&format!("{name:?}:"));
                write_literal(value, out);
            }
            out.push('}');
        }
    }
}

/// `%T`.
pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn clip(mut text: String) -> String {
    if text.len() > MAX {
        let end = (0..=MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}
