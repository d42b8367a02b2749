//! How the resource and its kind are called.

use meta::{FieldError, FieldErrors, name};
use serde_json::Value;

use crate::structural::props::Props;

/// A CRD is called after what it defines.
pub(super) fn object_name(crd: Props<'_>, spec: Props<'_>, errors: &mut FieldErrors) {
    let own = crd.part("metadata").map(|metadata| metadata.text("name")).unwrap_or_default();
    let plural = spec.part("names").map(|names| names.text("plural")).unwrap_or_default();
    if !own.is_empty() && own != format!("{plural}.{}", spec.text("group")) {
        let why = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", own, why));
    }
}

/// Names that must be there in the specification; in the status they may be missing.
pub(super) fn required(names: Props<'_>, path: &str, errors: &mut FieldErrors) {
    for key in ["plural", "singular", "kind", "listKind"] {
        if names.text(key).is_empty() {
            errors.push(FieldError::required(format!("{path}.{key}"), ""));
        }
    }
}

pub(super) fn validate(names: Props<'_>, path: &str, errors: &mut FieldErrors) {
    for (key, mixed_case) in [("plural", false), ("singular", false), ("kind", true), ("listKind", true)] {
        let value = names.text(key);
        if value.is_empty() {
            continue;
        }
        let wrong = if mixed_case { name::dns1035_label(&value.to_lowercase()) } else { name::dns1035_label(value) };
        if !wrong.is_empty() {
            let prefix = if mixed_case { "may have mixed case, but should otherwise match: " } else { "" };
            let why = format!("{prefix}{}", wrong.join(","));
            errors.push(FieldError::invalid(format!("{path}.{key}"), value, why));
        }
    }
    each(names, "shortNames", path, errors);
    if !names.text("kind").is_empty() && names.text("kind") == names.text("listKind") {
        let why = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(format!("{path}.listKind"), names.text("listKind"), why));
    }
    each(names, "categories", path, errors);
}

fn each(names: Props<'_>, key: &str, path: &str, errors: &mut FieldErrors) {
    for (at, value) in names.values(key).iter().filter_map(Value::as_str).enumerate() {
        let wrong = name::dns1035_label(value);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(format!("{path}.{key}[{at}]"), value, wrong.join(",")));
        }
    }
}
