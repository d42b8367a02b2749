//! The specification: group, scope, names, versions, and what the versions have in common.

use meta::{FieldError, FieldErrors, name};
use serde_json::{Value, json};

use super::{conversion, names, openapi, versions};
use crate::structural::props::Props;

/// What a version has of its own, unless all versions have the same.
struct Own<'a> {
    schema: Option<Option<Props<'a>>>,
    subresources: Option<Option<Props<'a>>>,
    columns: Option<&'a [Value]>,
    selectable: Option<&'a [Value]>,
}

pub(super) fn validate(spec: Props<'_>, old: Option<Props<'_>>, errors: &mut FieldErrors) {
    group(spec.text("group"), errors);
    match spec.text("scope") {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(FieldError::not_supported("spec.scope", other, &["Cluster", "Namespaced"])),
    }
    let list = spec.schemas("versions");
    for (at, version) in list.iter().enumerate() {
        if openapi_schema(version.schema("schema")).is_none() {
            errors.push(FieldError::required(format!("spec.versions[{at}].schema.openAPIV3Schema"), ""));
        }
    }
    let has_defaults = list
        .iter()
        .filter_map(|version| openapi_schema(version.schema("schema")))
        .any(|schema| schema.any(&mut |props| props.get("default").is_some()));
    if has_defaults && spec.flag("preserveUnknownFields") {
        let why = "must be false in order to use defaults in the schema";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true, why));
    }
    let old_spec = old.and_then(|old| old.schema("spec"));
    all_versions(spec, &list, old_spec, errors);
    if let (Some(old), Some(old_spec)) = (old, old_spec) {
        immutable(spec, old, old_spec, errors);
    }
}

fn group(group: &str, errors: &mut FieldErrors) {
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
        return;
    }
    let wrong = name::dns1123_subdomain(group);
    if !wrong.is_empty() {
        errors.push(FieldError::invalid("spec.group", group, wrong.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid("spec.group", group, "should be a domain with at least one dot"));
    }
}

fn all_versions(spec: Props<'_>, list: &[Props<'_>], old: Option<Props<'_>>, errors: &mut FieldErrors) {
    let same = |part: &str| list.windows(2).all(|pair| pair[0].get(part) == pair[1].get(part));
    let first = list.first().copied();
    let (same_schema, same_subresources) = (same("schema"), same("subresources"));
    let (same_columns, same_selectable) = (same("additionalPrinterColumns"), same("selectableFields"));
    let status_enabled = |version: Props<'_>| {
        version.schema("subresources").is_some_and(|subresources| subresources.get("status").is_some())
    };
    for (at, version) in list.iter().enumerate() {
        let path = format!("spec.versions[{at}]");
        let name = version.text("name");
        let wrong = name::dns1035_label(name);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(format!("{path}.name"), name, wrong.join(",")));
        }
        versions::deprecation(*version, &path, errors);
        let own = Own {
            schema: (!same_schema).then(|| version.schema("schema")),
            subresources: (!same_subresources).then(|| version.schema("subresources")),
            columns: (!same_columns).then(|| version.values("additionalPrinterColumns")),
            selectable: (!same_selectable).then(|| version.values("selectableFields")),
        };
        let schema_name = format!("{path}.schema");
        parts(&own, version.schema("schema"), &path, &schema_name, status_enabled(*version), old, errors);
    }
    version_list(list, errors);
    let own_names = spec.schema("names");
    let nothing = serde_json::Map::new();
    let own_names = own_names.unwrap_or(Props(&nothing));
    names::required(own_names, "spec.names", errors);
    names::validate(own_names, "spec.names", errors);
    if let Some(first) = first {
        let common = Own {
            schema: same_schema.then(|| first.schema("schema")),
            subresources: same_subresources.then(|| first.schema("subresources")),
            columns: same_columns.then(|| first.values("additionalPrinterColumns")),
            selectable: same_selectable.then(|| first.values("selectableFields")),
        };
        let any_status = list.iter().any(|version| status_enabled(*version));
        let schema = if same_schema { first.schema("schema") } else { None };
        parts(&common, schema, "spec", "spec.validation", any_status, old, errors);
    }
    conversion::validate(spec, errors);
}

fn parts(
    own: &Own<'_>,
    schema: Option<Props<'_>>,
    path: &str,
    schema_path: &str,
    status: bool,
    old: Option<Props<'_>>,
    errors: &mut FieldErrors,
) {
    if let Some(props) = own.schema.and_then(openapi_schema) {
        let known = old.is_some_and(|old| {
            let schemas = old.schemas("versions").into_iter().map(|version| openapi_schema(version.schema("schema")));
            schemas.flatten().any(|known| known.0 == props.0)
        });
        openapi::validate(props, schema_path, status, known, errors);
    }
    versions::subresources(own.subresources.flatten(), &format!("{path}.subresources"), errors);
    for (at, column) in own.columns.unwrap_or_default().iter().filter_map(Props::of).enumerate() {
        versions::column(column, &format!("{path}.additionalPrinterColumns[{at}]"), errors);
    }
    let selectable = own.selectable.unwrap_or_default();
    if !selectable.is_empty() {
        let field = format!("{path}.selectableFields");
        match openapi_schema(schema) {
            Some(schema) => versions::selectable(selectable, schema, &field, errors),
            None => errors.push(FieldError::invalid(field, "", "may only be set when validations.schema is included")),
        }
    }
}

fn version_list(list: &[Props<'_>], errors: &mut FieldErrors) {
    let mut complain = |why: &str| errors.push(FieldError::invalid("spec.versions", shown(list), why));
    let repeated = (1..list.len()).any(|at| list[..at].iter().any(|other| other.text("name") == list[at].text("name")));
    if repeated {
        complain("must contain unique version names");
    }
    if list.iter().filter(|version| version.flag("storage")).count() != 1 {
        complain("must have exactly one version marked as storage version");
    }
    if let Some(first) = list.first().map(|version| version.text("name")).filter(|name| !name.is_empty()) {
        let wrong = name::dns1035_label(first);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid("spec.version", first, wrong.join(",")));
        }
    }
}

/// The versions as kube-apiserver shows them in errors: its inner form, in which what all have in common stands elsewhere.
fn shown(list: &[Props<'_>]) -> Value {
    let part = |version: &Props<'_>, name: &str| {
        let same = list.iter().all(|other| other.get(name) == version.get(name));
        version.get(name).filter(|_| !same).cloned().unwrap_or_default()
    };
    let one = |version: &Props<'_>| {
        json!({
            "Name": version.text("name"),
            "Served": version.flag("served"),
            "Storage": version.flag("storage"),
            "Deprecated": version.flag("deprecated"),
            "DeprecationWarning": version.get("deprecationWarning"),
            "Schema": part(version, "schema"),
            "Subresources": part(version, "subresources"),
            "AdditionalPrinterColumns": part(version, "additionalPrinterColumns"),
            "SelectableFields": part(version, "selectableFields"),
        })
    };
    list.iter().map(one).collect()
}

/// Names are storage keys: they cannot change, some of them only once the CRD is in use.
fn immutable(spec: Props<'_>, old: Props<'_>, old_spec: Props<'_>, errors: &mut FieldErrors) {
    let conditions = old.schema("status").map(|status| status.schemas("conditions")).unwrap_or_default();
    let established = conditions
        .iter()
        .any(|condition| condition.text("type") == "Established" && condition.text("status") == "True");
    let name = |spec: Props<'_>, key: &str| {
        spec.schema("names").map(|names| names.text(key).to_owned()).unwrap_or_default()
    };
    let mut fixed = |field: &str, now: &str, before: &str| {
        if now != before {
            errors.push(FieldError::invalid(field, now, "field is immutable"));
        }
    };
    if established {
        fixed("spec.scope", spec.text("scope"), old_spec.text("scope"));
        fixed("spec.names.kind", &name(spec, "kind"), &name(old_spec, "kind"));
    }
    fixed("spec.group", spec.text("group"), old_spec.text("group"));
    fixed("spec.names.plural", &name(spec, "plural"), &name(old_spec, "plural"));
}

fn openapi_schema(schema: Option<Props<'_>>) -> Option<Props<'_>> {
    schema?.schema("openAPIV3Schema")
}
