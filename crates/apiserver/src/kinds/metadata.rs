//! The rules of `metadata`, the same for every kind.

use super::Kind;
use meta::{FieldError, FieldErrors, Object, name};
use serde_json::Value;

const MAX_ANNOTATIONS: usize = 256 * 1024;

/// A trailing dash is fine in a prefix: the suffix follows it.
fn unprefixed(value: &str, prefix: bool) -> &str {
    if prefix { value.trim_end_matches('-') } else { value }
}

pub fn subdomain(value: &str, prefix: bool) -> Vec<String> {
    name::dns1123_subdomain(unprefixed(value, prefix))
}

pub fn label(value: &str, prefix: bool) -> Vec<String> {
    name::dns1123_label(unprefixed(value, prefix))
}

/// Names of services are host names of old: they begin with a letter.
pub fn service(value: &str, prefix: bool) -> Vec<String> {
    name::dns1035_label(unprefixed(value, prefix))
}

/// Any name that can stand in a path.
pub fn segment(value: &str, _: bool) -> Vec<String> {
    name::path_segment(value)
}

/// Rules that hold for every object.
pub fn validate(kind: &Kind, object: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let rule = kind.behaviour.name;
    let generate = object.meta_text("generateName");
    if !generate.is_empty() {
        errors.extend(
            rule(generate, true).into_iter().map(|m| FieldError::invalid("metadata.generateName", generate, m)),
        );
    }
    if object.name().is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        errors.extend(
            rule(object.name(), false).into_iter().map(|m| FieldError::invalid("metadata.name", object.name(), m)),
        );
    }
    let namespace = object.namespace();
    if kind.namespaced {
        if namespace.is_empty() {
            errors.push(FieldError::required("metadata.namespace", ""));
        } else {
            let wrong = name::dns1123_label(namespace);
            errors.extend(wrong.into_iter().map(|m| FieldError::invalid("metadata.namespace", namespace, m)));
        }
    } else if !namespace.is_empty() {
        errors.push(FieldError::forbidden("metadata.namespace", "not allowed on this type"));
    }
    labels(object, &mut errors);
    annotations(object, &mut errors);
    owners(object, &mut errors);
    finalizers(kind, object, &mut errors);
    errors
}

fn entries<'a>(object: &'a Object, key: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let map = object.meta().get(key).and_then(Value::as_object);
    map.into_iter().flatten().map(|(k, v)| (k.as_str(), v.as_str().unwrap_or_default()))
}

fn labels(object: &Object, errors: &mut FieldErrors) {
    for (key, value) in entries(object, "labels") {
        errors.extend(name::qualified_name(key).into_iter().map(|m| FieldError::invalid("metadata.labels", key, m)));
        errors.extend(name::label_value(value).into_iter().map(|m| FieldError::invalid("metadata.labels", value, m)));
    }
}

fn annotations(object: &Object, errors: &mut FieldErrors) {
    let mut size = 0;
    for (key, value) in entries(object, "annotations") {
        size += key.len() + value.len();
        let wrong = name::qualified_name(&key.to_lowercase());
        errors.extend(wrong.into_iter().map(|m| FieldError::invalid("metadata.annotations", key, m)));
    }
    if size > MAX_ANNOTATIONS {
        errors.push(FieldError::too_long("metadata.annotations", MAX_ANNOTATIONS));
    }
}

fn owners(object: &Object, errors: &mut FieldErrors) {
    let mut controller = None;
    let list = object.meta().get("ownerReferences").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (owner, raw) in object.owners().zip(list) {
        let field = |key: &str| format!("metadata.ownerReferences.{key}");
        if owner.api_version.is_empty() {
            errors.push(FieldError::invalid(field("apiVersion"), "", "version must not be empty"));
        }
        for (key, value) in [("kind", owner.kind), ("name", owner.name), ("uid", owner.uid)] {
            if value.is_empty() {
                errors.push(FieldError::invalid(field(key), "", "must not be empty"));
            }
        }
        if owner.api_version == "v1" && owner.kind == "Event" {
            errors.push(FieldError::invalid(
                "metadata.ownerReferences",
                raw.clone(),
                "/v1, Kind=Event is disallowed from being an owner",
            ));
        }
        if raw.get("controller").and_then(Value::as_bool).unwrap_or_default() {
            let this = format!("{}/{}", owner.kind, owner.name);
            let what = "Only one reference can have Controller set to true. Found \"true\" in references for";
            match &controller {
                None => controller = Some(this),
                Some(first) => {
                    let what = format!("{what} {first} and {this}");
                    errors.push(FieldError::invalid("metadata.ownerReferences", Value::Array(list.to_vec()), what));
                }
            }
        }
    }
}

/// Finalizers the server itself acts on.
pub const FOREGROUND: &str = "foregroundDeletion";
pub const ORPHAN: &str = "orphan";

/// What is wrong with one finalizer name of a core kind: the server's own ones need no domain.
pub fn finalizer(field: &str, value: &str) -> FieldErrors {
    let wrong = name::qualified_name(value);
    if !wrong.is_empty() {
        return wrong.into_iter().map(|m| FieldError::invalid(field, value, m)).collect();
    }
    if is_bare(value) { vec![FieldError::invalid(field, value, BARE)] } else { Vec::new() }
}

const BARE: &str = "name is neither a standard finalizer name nor is it fully qualified";

/// Not one of the server's own, and without a domain.
fn is_bare(finalizer: &str) -> bool {
    !finalizer.contains('/') && ![FOREGROUND, ORPHAN, "kubernetes"].contains(&finalizer)
}

fn finalizers(kind: &Kind, object: &Object, errors: &mut FieldErrors) {
    for (i, value) in object.finalizers().enumerate() {
        let wrong = name::qualified_name(value);
        errors.extend(wrong.into_iter().map(|m| FieldError::invalid("metadata.finalizers", value, m)));
        if kind.group.is_empty() && is_bare(value) {
            errors.push(FieldError::invalid(format!("metadata.finalizers[{i}]"), value, BARE));
        }
    }
    if object.has_finalizer(FOREGROUND) && object.has_finalizer(ORPHAN) {
        let all: Vec<&str> = object.finalizers().collect();
        errors.push(FieldError::invalid(
            "metadata.finalizers",
            all,
            format!("finalizer {FOREGROUND} and {ORPHAN} cannot be both set"),
        ));
    }
}

/// What an update may not change.
pub fn validate_update(new: &Object, old: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    if old.is_deleting() {
        let added: Vec<String> = new.finalizers().filter(|f| !old.has_finalizer(f)).map(|f| format!("{f:?}")).collect();
        if !added.is_empty() {
            errors.push(FieldError::forbidden(
                "metadata.finalizers",
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    added.join(", ")
                ),
            ));
        }
    }
    if new.generation() < old.generation() {
        errors.push(FieldError::invalid("metadata.generation", new.generation(), "must not be decremented"));
    }
    for key in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (was, is) = (old.meta().get(key), new.meta().get(key));
        if was != is {
            errors.push(FieldError::invalid(
                format!("metadata.{key}"),
                is.cloned().unwrap_or(Value::Null),
                "field is immutable",
            ));
        }
    }
    errors
}
