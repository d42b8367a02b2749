//! CustomResourceDefinitions as objects (apiextensions.k8s.io/v1): their defaults and their validation.
//!
//! Errors name fields as kube-apiserver does, which moves what is the same in all versions to `spec.validation`,
//! `spec.subresources` and so on before it looks.

mod approval;
mod conversion;
pub(crate) mod field_path;
mod inner;
mod names;
mod openapi;
mod rules;
mod spec;
mod structure;
mod versions;

use std::collections::BTreeSet;

use meta::field::quoted;
use meta::{FieldError, FieldErrors};
use serde_json::{Map, Value, json};

use crate::structural::props::Props;

type Object = Map<String, Value>;

/// Fills in what the author may leave out.
pub fn default(crd: &mut Object) {
    if let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) {
        if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
            let kind = Props(names).text("kind").to_owned();
            if Props(names).text("singular").is_empty() && !kind.is_empty() {
                names.insert("singular".into(), kind.to_lowercase().into());
            }
            if Props(names).text("listKind").is_empty() && !kind.is_empty() {
                names.insert("listKind".into(), format!("{kind}List").into());
            }
        }
        let conversion = spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
        if let Some(service) = conversion.pointer_mut("/webhook/clientConfig/service").and_then(Value::as_object_mut) {
            service.entry("port").or_insert_with(|| 443.into());
        }
    }
    store_versions(crd);
}

/// What a creation is stored with: a status that only says which version objects are stored in.
pub fn prepare_create(crd: &mut Object) {
    crd.remove("status");
    store_versions(crd);
}

/// What an update is stored with: the old status, in which the storage version is noted.
pub fn prepare_update(crd: &mut Object, old: &Object) {
    match old.get("status") {
        Some(status) => _ = crd.insert("status".into(), status.clone()),
        None => _ = crd.remove("status"),
    }
    let Some(storage) = storage_version(crd) else { return };
    let status = crd.entry("status").or_insert_with(|| json!({}));
    if let Some(status) = status.as_object_mut() {
        let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
        if let Some(stored) = stored.as_array_mut()
            && !stored.iter().any(|version| *version == storage)
        {
            stored.push(storage.into());
        }
    }
}

fn store_versions(crd: &mut Object) {
    let Some(storage) = storage_version(crd) else { return };
    let status = crd.entry("status").or_insert_with(|| json!({}));
    if let Some(status) = status.as_object_mut()
        && Props(status).values("storedVersions").is_empty()
    {
        status.insert("storedVersions".into(), json!([storage]));
    }
}

fn storage_version(crd: &Object) -> Option<String> {
    let versions = Props(crd).part("spec")?.parts("versions");
    versions.into_iter().find(|version| version.flag("storage")).map(|version| version.text("name").to_owned())
}

/// What is wrong with a CRD beyond its metadata; `old` is the stored one on update.
/// `status` is looked at as `prepare_create` and `prepare_update` leave it.
pub fn validate(crd: &Object, old: Option<&Object>) -> FieldErrors {
    let nothing = Map::new();
    let (crd, old) = (Props(crd), old.map(Props));
    let spec = crd.part("spec").unwrap_or(Props(&nothing));
    let status = crd.part("status").unwrap_or(Props(&nothing));
    let mut errors = Vec::new();
    if old.is_none() {
        names::object_name(crd, spec, &mut errors);
    }
    spec::validate(spec, old, &mut errors);
    if let Some(accepted) = status.part("acceptedNames") {
        names::validate(accepted, "status.acceptedNames", &mut errors);
    }
    versions::stored(status, spec, &mut errors);
    approval::validate(crd, spec, old, &mut errors);
    let preserving = |spec: Props<'_>| spec.flag("preserveUnknownFields");
    let preserved = old.and_then(|old| old.part("spec")).is_some_and(preserving);
    if preserving(spec) && !preserved {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true \
                   in spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true, why));
    }
    errors
}

/// What is wrong with an update of the status alone.
pub fn validate_status(crd: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    if let Some(accepted) = Props(crd).part("status").and_then(|status| status.part("acceptedNames")) {
        names::validate(accepted, "status.acceptedNames", &mut errors);
    }
    errors
}

/// Formats that nothing checks, one warning each; those `old` had too are not told again.
pub fn warnings(crd: &Object, old: Option<&Object>) -> Vec<String> {
    let known = old.map(unrecognized).unwrap_or_default();
    unrecognized(crd).difference(&known).map(|format| format!("unrecognized format {}", quoted(format))).collect()
}

fn unrecognized(crd: &Object) -> BTreeSet<&str> {
    let mut out = BTreeSet::new();
    let versions = Props(crd).part("spec").map(|spec| spec.parts("versions")).unwrap_or_default();
    for schema in versions.iter().filter_map(|version| version.part("schema")?.part("openAPIV3Schema")) {
        schema.any(&mut |props| {
            let format = props.text("format");
            if props.kind() == "string" && !format.is_empty() && !crate::structural::is_checked(format) {
                out.insert(format);
            }
            false
        });
    }
    out
}

#[cfg(test)]
mod tests;
