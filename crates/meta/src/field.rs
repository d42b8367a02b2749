//! Validation findings: which field, what is wrong with it, in the words Kubernetes users know.

use serde_json::Value;
use std::collections::HashSet;
use std::fmt;

pub type FieldErrors = Vec<FieldError>;

/// What kind of wrong a field is; decides the wording and the machine-readable cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    Required,
    Invalid,
    NotFound,
    Duplicate,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    TypeInvalid,
    Internal,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    pub wrong: Wrong,
    pub field: String,
    pub value: Option<Value>,
    pub detail: String,
}

impl FieldError {
    fn new(wrong: Wrong, field: impl Into<String>, value: Option<Value>, detail: impl Into<String>) -> Self {
        Self { wrong, field: field.into(), value, detail: detail.into() }
    }
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(Wrong::Required, field, None, detail)
    }
    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(Wrong::Invalid, field, Some(value.into()), detail)
    }
    pub fn not_found(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(Wrong::NotFound, field, Some(value.into()), "")
    }
    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(Wrong::Duplicate, field, Some(value.into()), "")
    }
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(Wrong::Forbidden, field, None, detail)
    }
    pub fn too_long(field: impl Into<String>, max: usize) -> Self {
        let bytes = if max == 1 { "byte" } else { "bytes" };
        Self::new(Wrong::TooLong, field, None, format!("may not be more than {max} {bytes}"))
    }
    pub fn too_many(field: impl Into<String>, actual: usize, max: usize) -> Self {
        let items = if max == 1 { "item" } else { "items" };
        Self::new(Wrong::TooMany, field, Some(actual.into()), format!("must have at most {max} {items}"))
    }
    pub fn internal(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(Wrong::Internal, field, None, detail)
    }
    /// Wrong, but what it is would tell nothing.
    pub fn invalid_as_a_whole(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(Wrong::Invalid, field, None, detail)
    }
    pub fn type_invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(Wrong::TypeInvalid, field, Some(value.into()), detail)
    }
    pub fn not_supported(field: impl Into<String>, value: impl Into<Value>, supported: &[&str]) -> Self {
        let list: Vec<String> = supported.iter().map(|s| quoted(s)).collect();
        let detail = if list.is_empty() { String::new() } else { format!("supported values: {}", list.join(", ")) };
        Self::new(Wrong::NotSupported, field, Some(value.into()), detail)
    }

    /// The cause's reason, as clients match on it.
    pub fn reason(&self) -> &'static str {
        match self.wrong {
            Wrong::Required => "FieldValueRequired",
            Wrong::Invalid => "FieldValueInvalid",
            Wrong::NotFound => "FieldValueNotFound",
            Wrong::Duplicate => "FieldValueDuplicate",
            Wrong::NotSupported => "FieldValueNotSupported",
            Wrong::Forbidden => "FieldValueForbidden",
            Wrong::TooLong => "FieldValueTooLong",
            Wrong::TooMany => "FieldValueTooMany",
            Wrong::TypeInvalid => "FieldValueTypeInvalid",
            Wrong::Internal => "InternalError",
        }
    }

    /// The finding without its field: `Invalid value: "x": must be …`.
    pub fn message(&self) -> String {
        let what = match self.wrong {
            Wrong::Required => "Required value",
            Wrong::Invalid | Wrong::TypeInvalid => "Invalid value",
            Wrong::NotFound => "Not found",
            Wrong::Duplicate => "Duplicate value",
            Wrong::NotSupported => "Unsupported value",
            Wrong::Forbidden => "Forbidden",
            Wrong::TooLong => "Too long",
            Wrong::TooMany => "Too many",
            Wrong::Internal => "Internal error",
        };
        let mut out = what.to_owned();
        if let Some(value) = &self.value {
            out.push_str(": ");
            out.push_str(&shown(value));
        }
        if !self.detail.is_empty() {
            out.push_str(": ");
            out.push_str(&self.detail);
        }
        out
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message())
    }
}

/// A value as Go's `%v` and `%q` print it; what is composed is JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Number(number) if number.is_f64() => float(number.as_f64().unwrap_or_default()),
        // Go prints a struct as it is declared; these are the ones that are shown most.
        _ => ordered(value, &["matchLabels", "matchExpressions"], &["controller", "blockOwnerDeletion"]),
    }
}

/// JSON with these fields first and last, wherever they stand, and the others by name between them.
pub fn ordered(value: &Value, first: &[&str], last: &[&str]) -> String {
    match value {
        Value::Object(map) => {
            let place = |key: &str| match (first.iter().position(|k| *k == key), last.iter().position(|k| *k == key)) {
                (Some(at), _) => (0, at),
                (None, None) => (1, 0),
                (None, Some(at)) => (2, at),
            };
            let mut fields: Vec<(&String, &Value)> = map.iter().collect();
            fields.sort_by_key(|(key, _)| place(key));
            let fields = fields
                .into_iter()
                .map(|(key, value)| format!("{}:{}", Value::String(key.clone()), ordered(value, first, last)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(|item| ordered(item, first, last)).collect();
            format!("[{}]", items.join(","))
        }
        other => other.to_string(),
    }
}

/// As Go's `%v` prints floats: shortest digits, with an exponent below 1e-4 and from 1e6 on.
pub fn float(float: f64) -> String {
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return float.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// As Go's `%q` quotes text.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Several findings as one line: a single one stands alone, more are bracketed.
pub fn aggregate(errors: &[FieldError]) -> String {
    let mut seen = HashSet::new();
    let mut unique: Vec<String> = errors.iter().map(ToString::to_string).collect();
    unique.retain(|line| seen.insert(line.clone()));
    if unique.len() == 1 { unique.remove(0) } else { format!("[{}]", unique.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_shown_as_go_shows_them() {
        let cases = [
            (json!(6.0), "6"),
            (json!(2000000.5), "2.0000005e+06"),
            (json!(0.000001), "1e-06"),
            (json!(0.0001), "0.0001"),
            (json!(100000.5), "100000.5"),
            (json!(-3), "-3"),
            (json!("é\u{1}<\"\\\n"), r#""é\x01<\"\\\n""#),
            (json!({"a": [null, "x"]}), r#"{"a":[null,"x"]}"#),
        ];
        for (value, expected) in cases {
            assert_eq!(FieldError::invalid("f", value, "").to_string(), format!("f: Invalid value: {expected}"));
        }
    }

    #[test]
    fn fields_that_have_a_place_are_shown_in_it() {
        let value = json!({"z": 1, "b": {"y": [], "x": {}}, "a": [{"last": null, "x": "q\"", "first": 2.5}]});
        assert_eq!(
            ordered(&value, &["first", "z"], &["last", "b"]),
            r#"{"z":1,"a":[{"first":2.5,"x":"q\"","last":null}],"b":{"x":{},"y":[]}}"#
        );
        assert_eq!(ordered(&value, &[], &[]), value.to_string());
    }

    #[test]
    fn limits_of_one_are_told_in_the_singular() {
        assert_eq!(FieldError::too_many("f", 3, 1).to_string(), "f: Too many: 3: must have at most 1 item");
        assert_eq!(FieldError::too_many("f", 3, 2).to_string(), "f: Too many: 3: must have at most 2 items");
        assert_eq!(FieldError::too_long("f", 1).to_string(), "f: Too long: may not be more than 1 byte");
        assert_eq!(FieldError::not_supported("f", "x", &[]).to_string(), "f: Unsupported value: \"x\"");
        assert_eq!(FieldError::internal("f", "y").to_string(), "f: Internal error: y");
    }
}
