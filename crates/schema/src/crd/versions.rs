//! What belongs to one version, or to all of them: warnings, subresources, columns, selectable fields, storage.

use std::collections::BTreeSet;

use meta::{FieldError, FieldErrors};
use serde_json::Value;

use super::field_path;
use crate::structural::props::Props;

const MAX_SELECTABLE: usize = 8;

/// Versions that objects may be stored in must stay until a migration says they need not.
pub(super) fn stored(status: Props<'_>, spec: Props<'_>, errors: &mut FieldErrors) {
    const FIELD: &str = "status.storedVersions";
    let stored = status.texts("storedVersions");
    if stored.is_empty() {
        errors.push(FieldError::invalid(FIELD, Value::Null, "must have at least one stored version"));
        return;
    }
    let versions = spec.parts("versions");
    for version in versions.iter().filter(|version| version.flag("storage")) {
        let name = version.text("name");
        if !stored.contains(&name) {
            errors.push(FieldError::invalid(FIELD, stored.clone(), format!("must have the storage version {name}")));
        }
    }
    for (at, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| version.text("name") == *name) {
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration \
                 ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.push(FieldError::invalid(format!("{FIELD}[{at}]"), *name, why));
        }
    }
}

pub(super) fn deprecation(version: Props<'_>, path: &str, errors: &mut FieldErrors) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else { return };
    let mut complain =
        |why: String| errors.push(FieldError::invalid(format!("{path}.deprecationWarning"), warning, why));
    if !version.flag("deprecated") {
        complain("can only be set for deprecated versions".into());
        return;
    }
    if warning.len() > 256 {
        complain("must be <= 256 characters long".into());
    }
    if warning.is_empty() {
        complain("must not be an empty string".into());
    }
    if let Some((at, _)) = warning.char_indices().find(|(_, c)| c.is_control() || (c.is_whitespace() && *c != ' ')) {
        let why = format!("must only contain printable UTF-8 characters; non-printable character found at index {at}");
        complain(why);
    }
}

pub(super) fn subresources(subresources: Option<Props<'_>>, path: &str, errors: &mut FieldErrors) {
    let Some(scale) = subresources.and_then(|subresources| subresources.part("scale")) else { return };
    let cases: [(&str, &[&str], &str); 3] = [
        ("specReplicasPath", &[".spec."], ".spec"),
        ("statusReplicasPath", &[".status."], ".status"),
        ("labelSelectorPath", &[".spec.", ".status."], "either .spec or .status"),
    ];
    for (key, under, named) in cases {
        let field = format!("{path}.scale.{key}");
        let value = scale.text(key);
        if value.is_empty() {
            if key != "labelSelectorPath" {
                errors.push(FieldError::required(field, ""));
            }
        } else if !simple_path(value, &field, errors) {
        } else if !under.iter().any(|prefix| value.starts_with(prefix)) {
            errors.push(FieldError::invalid(field, value, format!("should be a json path under {named}")));
        }
    }
}

fn simple_path(value: &str, field: &str, errors: &mut FieldErrors) -> bool {
    let simple = value.starts_with('.');
    if !simple {
        errors.push(FieldError::invalid(field, value, "must be a simple json path starting with ."));
    }
    simple
}

pub(super) fn column(column: Props<'_>, path: &str, errors: &mut FieldErrors) {
    const TYPES: &str = "boolean,date,integer,number,string";
    const FORMATS: &str = "byte,date,date-time,double,float,int32,int64,password";
    let one_of = |list: &str, value: &str| list.split(',').any(|known| known == value);
    if column.text("name").is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    }
    let kind = column.text("type");
    if kind.is_empty() {
        errors.push(FieldError::required(format!("{path}.type"), format!("must be one of {TYPES}")));
    } else if !one_of(TYPES, kind) {
        errors.push(FieldError::invalid(format!("{path}.type"), kind, format!("must be one of {TYPES}")));
    }
    let format = column.text("format");
    if !format.is_empty() && !one_of(FORMATS, format) {
        errors.push(FieldError::invalid(format!("{path}.format"), format, format!("must be one of {FORMATS}")));
    }
    let json_path = column.text("jsonPath");
    let field = format!("{path}.JSONPath");
    if json_path.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else {
        simple_path(json_path, &field, errors);
    }
}

pub(super) fn selectable(fields: &[Value], schema: Props<'_>, path: &str, errors: &mut FieldErrors) {
    let mut unique = BTreeSet::new();
    for (at, written) in fields.iter().filter_map(Props::of).enumerate() {
        let field = format!("{path}[{at}].jsonPath");
        let json_path = written.text("jsonPath");
        if json_path.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let mut complain = |why: String| errors.push(FieldError::invalid(&*field, json_path, why));
        let found = match field_path::follow(json_path, schema, false) {
            Ok(found) => found,
            Err(why) => {
                complain(format!("is an invalid path: {why}"));
                continue;
            }
        };
        if found.first == "metadata" {
            complain("must not point to fields in metadata".into());
        }
        if !found.props.is_some_and(|props| matches!(props.kind(), "string" | "boolean" | "integer")) {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            complain(why.into());
        }
        if !unique.insert(found.path) {
            errors.push(FieldError::duplicate(field, json_path));
        }
    }
    if unique.len() > MAX_SELECTABLE {
        errors.push(FieldError::too_many(path, unique.len(), MAX_SELECTABLE));
    }
}
