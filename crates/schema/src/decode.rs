//! Typed decoding: does to a JSON body what the Go types of Kubernetes do to it when it is read and written again.

use std::fmt::Write;

use serde_json::{Map, Value};
use thiserror::Error;

use crate::empty::is_told_apart;
use crate::facts::{Facts, Form, Shape, Type};
use crate::time::{self, Precision};
use crate::{quantity, scalar};

/// Only self-referring types (JSON schemas) nest without end; the JSON parser's own limit is lower.
const MAX_DEPTH: usize = 256;
/// Empty objects that get fields filled in: three bytes of a body become hundreds of memory. Real objects name what they require.
const MAX_FILLED: usize = 100_000;
/// More unknown fields than this are dropped without being told.
const MAX_UNKNOWN: usize = 100;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// Paths of the fields that the type does not have, as Kubernetes prints them: `spec.containers[0].foo`.
    pub unknown: Vec<String>,
}

/// A value that its type cannot hold. Worded as Go words it; Kubernetes puts
/// `ConfigMap in version "v1" cannot be handled as a ConfigMap: ` before it and answers 400.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Mismatch {
    #[error("json: cannot unmarshal {found} into Go {target} of type {expected}")]
    Type {
        found: String,
        /// `struct field ConfigMap.data` or `value`.
        target: String,
        expected: String,
    },
    #[error("{0}")]
    Time(String),
    #[error(transparent)]
    Quantity(#[from] quantity::QuantityError),
    #[error("illegal base64 data at input byte {0}")]
    Base64(usize),
    #[error("boolean or JSON schema expected")]
    SchemaOrBool,
    #[error("json: exceeded max depth")]
    Depth,
    #[error("the object holds more than {MAX_FILLED} empty objects")]
    Empty,
}

/// Brings `value` to the form Kubernetes stores and answers for a body of type `ty`:
/// unknown fields, nulls and omitted zero values go; always-written fields come; times, quantities and base64 take their one form.
pub fn decode(facts: &Facts, ty: &Type, value: &mut Value) -> Result<Decoded, Mismatch> {
    let mut decoder = Decoder { facts, decoded: Decoded::default(), silent: false, filled: 0 };
    let Value::Object(map) = value else {
        return Err(Mismatch::Type {
            found: found(value, false),
            target: "value".into(),
            expected: ty.go_name().to_owned(),
        });
    };
    decoder.object(ty, map, &Path::ROOT)?;
    Ok(decoder.decoded)
}

struct Decoder<'f> {
    facts: &'f Facts,
    decoded: Decoded,
    /// Inside types with an own unmarshaller Go drops unknown fields without a word.
    silent: bool,
    filled: usize,
}

/// Where we are, as a chain of stack frames: costs nothing until a path must be told.
struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
    depth: usize,
}

enum Step<'a> {
    Root,
    /// A field, with the Go name of its struct.
    Field(&'a str, &'static str),
    Key(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    const ROOT: Path<'static> = Path { parent: None, step: Step::Root, depth: 0 };

    fn then(&'a self, step: Step<'a>) -> Path<'a> {
        Path { parent: Some(self), step, depth: self.depth + 1 }
    }

    /// `spec.containers[0].name`
    fn full(&self) -> String {
        let mut text = self.parent.map(Path::full).unwrap_or_default();
        match self.step {
            Step::Root => {}
            Step::Field(name, _) | Step::Key(name) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(name);
            }
            Step::Index(at) => {
                let _ = write!(text, "[{at}]");
            }
        }
        text
    }

    /// `struct field Container.spec.containers.name`: the innermost struct, then the fields from the root.
    fn target(&self) -> String {
        let mut fields = Vec::new();
        let mut owner = None;
        let mut here = Some(self);
        while let Some(path) = here {
            if let Step::Field(name, of) = path.step {
                owner = owner.or(Some(of));
                fields.push(name);
            }
            here = path.parent;
        }
        fields.reverse();
        match owner {
            Some(owner) => format!("struct field {owner}.{}", fields.join(".")),
            None => "value".into(),
        }
    }
}

/// The JSON kind as Go names it; numbers are spelled out where they are out of range.
fn found(value: &Value, spelled: bool) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "bool".into(),
        Value::Number(n) if spelled => format!("number {n}"),
        Value::Number(_) => "number".into(),
        Value::String(_) => "string".into(),
        Value::Array(_) => "array".into(),
        Value::Object(_) => "object".into(),
    }
}

impl Decoder<'_> {
    fn object(&mut self, ty: &Type, map: &mut Map<String, Value>, path: &Path<'_>) -> Result<(), Mismatch> {
        if path.depth > MAX_DEPTH {
            return Err(Mismatch::Depth);
        }
        if map.is_empty() && !ty.always.is_empty() {
            self.filled += 1;
            if self.filled > MAX_FILLED {
                return Err(Mismatch::Empty);
            }
        }
        let mut failed = None;
        map.retain(|name, value| {
            if failed.is_some() {
                return true;
            }
            let Some(field) = ty.field(name) else {
                if !self.silent && self.decoded.unknown.len() < MAX_UNKNOWN {
                    self.decoded.unknown.push(path.then(Step::Key(name)).full());
                }
                return false;
            };
            if value.is_null() {
                return false;
            }
            match self.value(&field.shape, value, &path.then(Step::Field(field.name, ty.short_name()))) {
                Ok(()) => {
                    // Stored objects have been through protobuf, which does not tell an empty map from none. Of lists it matters
                    // until they are stored.
                    if matches!((&field.shape.form, &*value), (Form::Map(_), Value::Object(map)) if map.is_empty()) {
                        *value = Value::Null;
                        return !field.omit_empty;
                    }
                    !field.omits(value) || is_told_apart(ty, field.name)
                }
                Err(error) => {
                    failed = Some(error);
                    true
                }
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        self.facts.fill(ty, map);
        Ok(())
    }

    fn value(&mut self, shape: &Shape, value: &mut Value, path: &Path<'_>) -> Result<(), Mismatch> {
        match (&shape.form, &mut *value) {
            (Form::String, Value::String(_)) | (Form::Bool, Value::Bool(_)) => Ok(()),
            (Form::Int32, Value::Number(n)) if n.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => Ok(()),
            (Form::Int64, Value::Number(n)) if n.is_i64() => Ok(()),
            (Form::Int32 | Form::Int64, Value::Number(_)) => Err(self.mismatch(shape, value, path, true)),
            (Form::Double, Value::Number(n)) => {
                // Go writes whole floats without a decimal point.
                if let Some(whole) = n.as_f64().filter(|f| n.is_f64() && f.fract() == 0.0 && f.abs() < 1e15) {
                    *value = Value::from(whole as i64);
                }
                Ok(())
            }
            (Form::Bytes, Value::String(text)) => {
                if let std::borrow::Cow::Owned(clean) = scalar::base64(text).map_err(Mismatch::Base64)? {
                    *text = clean;
                }
                Ok(())
            }
            // Go also takes bytes as a list of numbers.
            (Form::Bytes, Value::Array(list)) => {
                let bytes: Option<Vec<u8>> =
                    list.iter().map(|n| n.as_u64().and_then(|n| u8::try_from(n).ok())).collect();
                let Some(bytes) = bytes else { return Err(self.mismatch(shape, value, path, false)) };
                *value = Value::String(scalar::to_base64(&bytes));
                Ok(())
            }
            (Form::Struct(id), Value::Object(map)) => self.object(self.facts.get(*id), map, path),
            (Form::List(element), Value::Array(list)) => {
                for (at, item) in list.iter_mut().enumerate() {
                    self.element(element, item, &path.then(Step::Index(at)))?;
                }
                Ok(())
            }
            (Form::Map(element), Value::Object(map)) => {
                for (key, item) in map.iter_mut() {
                    self.element(element, item, &path.then(Step::Key(key)))?;
                }
                Ok(())
            }
            (Form::Items, Value::Array(list)) => {
                for (at, item) in list.iter_mut().enumerate() {
                    self.element(&STRING, item, &path.then(Step::Index(at)))?;
                }
                Ok(())
            }
            (Form::Raw | Form::FieldsV1 | Form::Json, _) => Ok(()),
            (Form::Time, Value::String(text)) => time_value(text, Precision::Seconds).map(|time| *value = time),
            (Form::MicroTime, Value::String(text)) => time_value(text, Precision::Micros).map(|time| *value = time),
            (Form::Time | Form::MicroTime, _) => Err(self.mismatch(&STRING, value, path, false)),
            (Form::Quantity, _) => {
                let text = match &*value {
                    Value::String(text) => quantity::canonical(text.trim())?,
                    other => quantity::canonical(&other.to_string())?,
                };
                *value = Value::String(text);
                Ok(())
            }
            (Form::IntOrString, Value::String(_)) => Ok(()),
            (Form::IntOrString, _) => self.value(&INT32, value, path),
            (Form::SchemaOrBool | Form::SchemaOrArray | Form::SchemaOrStrings, _) => self.schema_or(shape, value, path),
            _ => Err(self.mismatch(shape, value, path, false)),
        }
    }

    /// An element of a list or map: null stands for the zero value.
    fn element(&mut self, shape: &Shape, value: &mut Value, path: &Path<'_>) -> Result<(), Mismatch> {
        if !value.is_null() {
            return self.value(shape, value, path);
        }
        *value = match shape.form {
            Form::Bytes => Value::String(String::new()),
            _ => self.facts.zero(shape),
        };
        Ok(())
    }

    /// The three types of a JSON schema that are a schema or something simpler.
    fn schema_or(&mut self, shape: &Shape, value: &mut Value, path: &Path<'_>) -> Result<(), Mismatch> {
        let Some(schema) = self.facts.named("apiextensions/v1.JSONSchemaProps") else { return Ok(()) };
        let was_silent = std::mem::replace(&mut self.silent, true);
        let here = Path { depth: path.depth + 1, ..Path::ROOT };
        let result = match (&shape.form, &mut *value) {
            (_, Value::Object(map)) => self.object(schema, map, &here),
            (Form::SchemaOrBool, Value::Bool(_)) => Ok(()),
            (Form::SchemaOrBool, _) => Err(Mismatch::SchemaOrBool),
            (Form::SchemaOrArray, Value::Array(list)) => {
                let element = Shape { form: Form::Struct(schema.id), pointer: false, go: None };
                list.iter_mut().try_for_each(|item| self.element(&element, item, &here))
            }
            (Form::SchemaOrStrings, Value::Array(list)) => {
                list.iter_mut().try_for_each(|item| self.element(&STRING, item, &here))
            }
            // Neither: Go leaves it unset without a word.
            _ => {
                *value = Value::Null;
                Ok(())
            }
        };
        self.silent = was_silent;
        // An own unmarshaller's mismatch is told with the field it was called for.
        result.map_err(|error| match error {
            Mismatch::Type { found, expected, .. } => Mismatch::Type { found, target: path.target(), expected },
            other => other,
        })
    }

    fn mismatch(&self, shape: &Shape, value: &Value, path: &Path<'_>, spelled: bool) -> Mismatch {
        Mismatch::Type { found: found(value, spelled), target: path.target(), expected: shape.go_type(self.facts) }
    }
}

const STRING: Shape = Shape { form: Form::String, pointer: false, go: None };
const INT32: Shape = Shape { form: Form::Int32, pointer: false, go: None };

fn time_value(text: &str, precision: Precision) -> Result<Value, Mismatch> {
    let moment = time::parse(text, precision).map_err(Mismatch::Time)?;
    Ok(match moment.format(precision) {
        Some(text) if !moment.is_zero() => Value::String(text),
        _ => Value::Null,
    })
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
