//! Validation findings: which field, what is wrong with it, in the words Kubernetes users know.

use serde_json::Value;
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
        Self::new(Wrong::TooLong, field, None, format!("may not be more than {max} bytes"))
    }
    /// The list has more items than it may.
    pub fn too_many(field: impl Into<String>, count: usize, max: usize) -> Self {
        let items = if max == 1 { "item" } else { "items" };
        Self::new(Wrong::TooMany, field, Some(count.into()), format!("must have at most {max} {items}"))
    }
    /// Wrong, but what it is would tell nothing.
    pub fn invalid_as_a_whole(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(Wrong::Invalid, field, None, detail)
    }
    pub fn type_invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(Wrong::TypeInvalid, field, Some(value.into()), detail)
    }
    pub fn not_supported(field: impl Into<String>, value: impl Into<Value>, supported: &[&str]) -> Self {
        let list: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
        Self::new(Wrong::NotSupported, field, Some(value.into()), format!("supported values: {}", list.join(", ")))
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
        };
        let mut out = what.to_owned();
        if let Some(value) = &self.value {
            out.push_str(": ");
            out.push_str(&value.to_string());
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

/// Several findings as one line: a single one stands alone, more are bracketed.
pub fn aggregate(errors: &[FieldError]) -> String {
    let mut unique: Vec<String> = Vec::with_capacity(errors.len());
    for e in errors {
        let line = e.to_string();
        if !unique.contains(&line) {
            unique.push(line);
        }
    }
    if unique.len() == 1 { unique.remove(0) } else { format!("[{}]", unique.join(", ")) }
}
