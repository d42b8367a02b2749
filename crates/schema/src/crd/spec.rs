//! The specification: group, scope, names, versions, and what the versions have in common.

use std::collections::HashSet;

use meta::{FieldError, FieldErrors, name};
use serde_json::Map;

use super::{conversion, inner, names, openapi, versions};
use crate::structural::props::Props;

/// Where something stands: in one version, or at the top for what all versions have alike.
struct Place<'a> {
    version: Props<'a>,
    path: String,
    /// How the schema is called there.
    schema: &'static str,
    /// The parts that stand here.
    parts: Vec<&'static str>,
    status: bool,
}

const PARTS: [&str; 4] = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"];

pub(super) fn validate(spec: Props<'_>, old: Option<Props<'_>>, errors: &mut FieldErrors) {
    group(spec.text("group"), errors);
    match spec.text("scope") {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(FieldError::not_supported("spec.scope", other, &["Cluster", "Namespaced"])),
    }
    let list = spec.parts("versions");
    for (at, version) in list.iter().enumerate() {
        if openapi_schema(version.part("schema")).is_none() {
            errors.push(FieldError::required(format!("spec.versions[{at}].schema.openAPIV3Schema"), ""));
        }
    }
    let has_defaults = list
        .iter()
        .filter_map(|version| openapi_schema(version.part("schema")))
        .any(|schema| schema.any(&mut |props| props.get("default").is_some()));
    if has_defaults && spec.flag("preserveUnknownFields") {
        let why = "must be false in order to use defaults in the schema";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true, why));
    }
    let old_spec = old.and_then(|old| old.part("spec"));
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
    let common: Vec<&str> = PARTS.into_iter().filter(|part| same(list, part)).collect();
    let own: Vec<&str> = PARTS.into_iter().filter(|part| !common.contains(part)).collect();
    let status = |version: &Props<'_>| {
        version.part("subresources").is_some_and(|subresources| subresources.get("status").is_some())
    };
    for (at, version) in list.iter().enumerate() {
        let path = format!("spec.versions[{at}]");
        let name = version.text("name");
        let wrong = name::dns1035_label(name);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(format!("{path}.name"), name, wrong.join(",")));
        }
        versions::deprecation(*version, &path, errors);
        let place = Place { version: *version, path, schema: "schema", parts: own.clone(), status: status(version) };
        parts(&place, old, errors);
    }
    version_list(spec, list, &common, errors);
    let nothing = Map::new();
    let names = spec.part("names").unwrap_or(Props(&nothing));
    names::required(names, "spec.names", errors);
    names::validate(names, "spec.names", errors);
    if let Some(first) = list.first() {
        let status = list.iter().any(status);
        let place = Place { version: *first, path: "spec".into(), schema: "validation", parts: common, status };
        parts(&place, old, errors);
    }
    conversion::validate(spec, errors);
}

fn parts(place: &Place<'_>, old: Option<Props<'_>>, errors: &mut FieldErrors) {
    let Place { version, path, .. } = place;
    let here = |part: &str| place.parts.contains(&part);
    let schema = openapi_schema(version.part("schema")).filter(|_| here("schema"));
    if let Some(schema) = schema {
        let before = old.map(|old| old.parts("versions")).unwrap_or_default();
        let before = before.into_iter().find(|known| known.text("name") == version.text("name"));
        let known = before.and_then(|known| openapi_schema(known.part("schema")));
        let unchanged = known.is_some_and(|known| known.0 == schema.0);
        openapi::validate(schema, &format!("{path}.{}", place.schema), place.status, unchanged, errors);
    }
    if here("subresources") {
        versions::subresources(version.part("subresources"), &format!("{path}.subresources"), errors);
    }
    if here("additionalPrinterColumns") {
        for (at, column) in version.parts("additionalPrinterColumns").into_iter().enumerate() {
            versions::column(column, &format!("{path}.additionalPrinterColumns[{at}]"), errors);
        }
    }
    let selectable = version.values("selectableFields");
    if here("selectableFields") && !selectable.is_empty() {
        let field = format!("{path}.selectableFields");
        match schema {
            Some(schema) => versions::selectable(selectable, schema, &field, errors),
            // kube-apiserver finds the schema only beside the fields: both at the top, or both in the version.
            None if path == "spec" => {
                errors.push(FieldError::invalid(field, "", "may only be set when validations.schema is included"));
            }
            None => {
                let why = "may only be set when `version.schema.openAPIV3Schema` is not included";
                errors.push(FieldError::invalid(field, "", why));
            }
        }
    }
}

fn version_list(spec: Props<'_>, list: &[Props<'_>], common: &[&str], errors: &mut FieldErrors) {
    let shown = if spec.get("versions").is_some() { inner::versions(list, common) } else { "null".to_owned() };
    let mut complain = |why: &str| errors.push(inner::invalid("spec.versions", &shown, why));
    let mut seen = HashSet::new();
    if !list.iter().all(|version| seen.insert(version.text("name"))) {
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

fn same(list: &[Props<'_>], part: &str) -> bool {
    list.windows(2).all(|pair| pair[0].get(part) == pair[1].get(part))
}

/// Names are storage keys: they cannot change, some of them only once the CRD is in use.
fn immutable(spec: Props<'_>, old: Props<'_>, old_spec: Props<'_>, errors: &mut FieldErrors) {
    let conditions = old.part("status").map(|status| status.parts("conditions")).unwrap_or_default();
    let established = conditions
        .iter()
        .any(|condition| condition.text("type") == "Established" && condition.text("status") == "True");
    let name =
        |spec: Props<'_>, key: &str| spec.part("names").map(|names| names.text(key).to_owned()).unwrap_or_default();
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
    schema?.part("openAPIV3Schema")
}
