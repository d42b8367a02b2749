//! Resources inside resources (x-kubernetes-embedded-resource): they have apiVersion, kind and metadata of their own.

use meta::{FieldError, FieldErrors, name};
use serde_json::{Map, Value};

use super::node::{Additional, Node};
use super::path::Path;
use crate::{Facts, decode};

const MAX_ANNOTATIONS: usize = 256 * 1024;

/// Brings embedded metadata to the form a stored object has, telling what it dropped.
/// What is malformed stays for `validate` to refuse.
pub(super) fn coerce(map: &mut Map<String, Value>, path: &Path<'_>, told: &mut Vec<String>) {
    let Some(metadata) = map.get_mut("metadata") else { return };
    let mut copy = metadata.clone();
    if let Ok(unknown) = read(&mut copy) {
        *metadata = copy;
        let at = path.field("metadata").to_string();
        told.extend(unknown.into_iter().map(|field| format!("{at}.{field}")));
    }
}

fn read(metadata: &mut Value) -> Result<Vec<String>, String> {
    let facts = Facts::builtin();
    let Some(ty) = facts.named("meta/v1.ObjectMeta") else { return Ok(Vec::new()) };
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    let decoded = decode(facts, ty, metadata).map_err(|mismatch| mismatch.to_string())?;
    if let Some(map) = metadata.as_object_mut()
        && map.get("creationTimestamp").is_some_and(Value::is_null)
    {
        map.remove("creationTimestamp");
    }
    Ok(decoded.unknown)
}

fn object(map: &Map<String, Value>, node: &Node, path: &Path<'_>, errors: &mut FieldErrors) {
    if !node.below.embedded {
        return;
    }
    if node.embedded {
        resource(map, path, errors);
    }
    fields(map, node, path, errors);
}

/// The resources in an object, itself not counted: its metadata has rules of its own.
pub(super) fn fields(map: &Map<String, Value>, node: &Node, path: &Path<'_>, errors: &mut FieldErrors) {
    if !node.below.embedded {
        return;
    }
    let mut at = 0;
    for (name, value) in map {
        if let Some(property) = node.seek(name, &mut at) {
            self::value(value, property, &path.field(name), errors);
        } else if let Some(Additional::Typed(inner)) = &node.additional {
            self::value(value, inner, &path.key(name), errors);
        }
    }
}

pub(super) fn value(value: &Value, node: &Node, path: &Path<'_>, errors: &mut FieldErrors) {
    match value {
        Value::Object(map) => object(map, node, path, errors),
        Value::Array(list) => {
            if let Some(items) = node.items.as_deref().filter(|items| items.below.embedded) {
                for (at, item) in list.iter().enumerate() {
                    self::value(item, items, &path.index(at), errors);
                }
            }
        }
        _ => {}
    }
}

pub(super) fn resource(map: &Map<String, Value>, path: &Path<'_>, errors: &mut FieldErrors) {
    for key in ["apiVersion", "kind"] {
        let field = path.field(key).to_string();
        match map.get(key) {
            None => errors.push(FieldError::required(field, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(field, "", "must not be empty"));
            }
            Some(Value::String(text)) => {
                errors.extend(type_meta(key, text).map(|why| FieldError::invalid(field, text.as_str(), why)))
            }
            Some(other) => errors.push(FieldError::invalid(field, other.clone(), NO_TEXT)),
        }
    }
    if let Some(metadata) = map.get("metadata") {
        self::metadata(metadata, &path.field("metadata"), errors);
    }
}

/// The first resource in the object that could not even be read.
pub(super) fn malformed(map: &Map<String, Value>, node: &Node, path: &Path<'_>) -> Option<FieldError> {
    let mut errors = Vec::new();
    fields(map, node, path, &mut errors);
    errors.into_iter().find(|error| error.detail == NO_TEXT || error.detail.starts_with(NOT_READ))
}

const NO_TEXT: &str = "must be a string";
/// How reading into a type fails.
const NOT_READ: &str = "json: ";

fn type_meta(key: &str, text: &str) -> Option<String> {
    if key == "apiVersion" {
        return (text.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {text}"));
    }
    let wrong = name::dns1035_label(&text.to_lowercase());
    (!wrong.is_empty()).then(|| format!("may have mixed case, but should otherwise match: {}", wrong.join(",")))
}

fn metadata(value: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let mut copy = value.clone();
    if let Err(why) = read(&mut copy) {
        errors.push(FieldError::invalid(path.to_string(), value.clone(), why));
        return;
    }
    let mut complain = |key: &str, text: &str, wrong: Vec<String>| {
        let field = path.field(key).to_string();
        errors.extend(wrong.into_iter().map(|why| FieldError::invalid(field.clone(), text, why)));
    };
    let texts = |key: &str| {
        let map = copy.get(key).and_then(Value::as_object);
        map.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    };
    let text = |key: &str| copy.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    if let Some(prefix) = text("generateName") {
        complain("generateName", prefix, name::path_segment_prefix(prefix));
    }
    if let Some(own) = text("name") {
        complain("name", own, name::path_segment(own));
    }
    if let Some(namespace) = text("namespace") {
        complain("namespace", namespace, name::dns1123_label(namespace));
    }
    for (key, value) in texts("labels") {
        complain("labels", key, name::qualified_name(key));
        complain("labels", value, name::label_value(value));
    }
    for (key, _) in texts("annotations") {
        complain("annotations", key, name::qualified_name(&key.to_lowercase()));
    }
    for finalizer in copy.get("finalizers").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        complain("finalizers", finalizer, name::qualified_name(finalizer));
    }
    if texts("annotations").map(|(key, value)| key.len() + value.len()).sum::<usize>() > MAX_ANNOTATIONS {
        errors.push(FieldError::too_long(path.field("annotations").to_string(), MAX_ANNOTATIONS));
    }
}
