//! The fields a Scale shows: found by dotted paths, and checked like those of the schema.

use crate::kinds::{ScalePaths, ScaleSelector};
use meta::{FieldError, FieldErrors};
use serde_json::{Map, Value};

/// What a Scale shows must be there in a form it can show.
pub fn check(paths: &ScalePaths, object: &Map<String, Value>, errors: &mut FieldErrors) {
    for path in [&paths.replicas, &paths.current] {
        let field = format!(".{path}");
        match lookup(object, path) {
            Err(why) => errors.push(FieldError::invalid(field, 0, why)),
            Ok(None) => {}
            Ok(Some(value)) => match value.as_i64() {
                None => errors.push(FieldError::invalid(field, 0, mistyped(path, value, "int64"))),
                Some(n) if n < 0 => errors.push(FieldError::invalid(field, n, "should be a non-negative integer")),
                Some(n) if n > i64::from(i32::MAX) => {
                    let why = format!("should be less than or equal to {}", i32::MAX);
                    errors.push(FieldError::invalid(field, n, why));
                }
                Some(_) => {}
            },
        }
    }
    if let ScaleSelector::Text(path) = &paths.selector {
        let why = match lookup(object, path) {
            Err(why) => Some(why),
            Ok(Some(value)) if !value.is_string() => Some(mistyped(path, value, "string")),
            Ok(_) => None,
        };
        errors.extend(why.map(|why| FieldError::invalid(format!(".{path}"), "", why)));
    }
}

/// A dotted path; what stands in the way and is no object is an error.
pub fn lookup<'a>(object: &'a Map<String, Value>, path: &str) -> Result<Option<&'a Value>, String> {
    let mut found: Option<&Value> = None;
    for step in path.split('.') {
        let next = match found {
            None => object.get(step),
            Some(Value::Object(map)) => map.get(step),
            Some(other) => return Err(mistyped(path, other, "map[string]interface{}")),
        };
        match next {
            Some(value) => found = Some(value),
            None => return Ok(None),
        }
    }
    Ok(found)
}

fn mistyped(path: &str, found: &Value, expected: &str) -> String {
    let kind = match found {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    let shown = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
    format!(".{path} accessor error: {shown} is of the type {kind}, expected {expected}")
}
