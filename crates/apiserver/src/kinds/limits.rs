//! Limit ranges and resource quotas: kept and shown, not enforced.

use super::check::At;
use super::columns::{AGE, age};
use super::pod::{amount, container_resource_name, is_standard, resource_name};
use crate::objects::Part;
use jiff::Timestamp;
use meta::table::Column;
use meta::{FieldError, FieldErrors, Object, name};
use schema::quantity::nanos;
use serde_json::Value;
use std::collections::BTreeSet;

pub fn range_default(object: &mut Object) {
    super::defaults::apply("core/v1.LimitRange", &mut object.0);
}

pub fn range_validate(object: &Object) -> FieldErrors {
    const LISTS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];
    let mut errors = Vec::new();
    let root = At::root("", &object.0);
    let spec = root.part("spec");
    let mut seen = BTreeSet::new();
    for limit in spec.items("limits") {
        let kind = limit.text("type");
        let wrong = name::qualified_name(kind);
        if wrong.is_empty() && !kind.contains('/') && !["Pod", "Container", "PersistentVolumeClaim"].contains(&kind) {
            limit.invalid("type", "must be a standard limit type or fully qualified", &mut errors);
        }
        errors.extend(wrong.into_iter().map(|why| FieldError::invalid(limit.field("type"), kind, why)));
        if !seen.insert(kind.to_owned()) {
            errors.push(FieldError::duplicate(limit.field("type"), kind));
        }
        for list in LISTS {
            if kind == "Pod" && ["default", "defaultRequest"].contains(&list) {
                if limit.has(list) {
                    limit.forbidden(list, "may not be specified when `type` is 'Pod'", &mut errors);
                }
                continue;
            }
            for (resource, _) in limit.entries(list) {
                let field = format!("{}[{resource}]", limit.field(list));
                if ["Pod", "Container"].contains(&kind) {
                    container_resource_name(&field, resource, &mut errors);
                } else {
                    resource_name(&field, resource, &mut errors);
                }
            }
        }
        if kind == "PersistentVolumeClaim" && !limit.part("min").has("storage") && !limit.part("max").has("storage") {
            let why = "either minimum or maximum storage value is required, but neither was provided";
            errors.push(FieldError::required(limit.field("limits"), why));
        }
        let resources: BTreeSet<&str> =
            LISTS.iter().flat_map(|list| limit.entries(list)).map(|(resource, _)| resource).collect();
        for resource in resources {
            ordered(&limit, resource, &mut errors);
        }
    }
    errors
}

/// Minimum ≤ default request ≤ default ≤ maximum.
fn ordered(limit: &At<'_>, resource: &str, errors: &mut FieldErrors) {
    // What must not exceed what, and where and of what the error speaks.
    #[rustfmt::skip]
    const RULES: &[(&str, &str, &str, &str, &str)] = &[
        ("min", "max", "min", "min", "min value {} is greater than max value {}"),
        ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min value {} is greater than default request value {}"),
        ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request value {} is greater than max value {}"),
        ("defaultRequest", "default", "defaultRequest", "defaultRequest", "default request value {} is greater than default limit value {}"),
        ("min", "default", "default", "min", "min value {} is greater than default value {}"),
        ("default", "max", "default", "max", "default value {} is greater than max value {}"),
    ];
    let text = |list: &str| limit.value(list).get(resource).and_then(Value::as_str);
    for (less, more, told_at, told, words) in RULES {
        let (Some(small), Some(large)) = (text(less), text(more)) else { continue };
        if nanos(small) > nanos(large) {
            let why = words.replacen("{}", small, 1).replacen("{}", large, 1);
            let field = format!("{}[{resource}]", limit.field(told_at));
            errors.push(FieldError::invalid(field, text(told).unwrap_or_default(), why));
        }
    }
    let Some(ratio) = text("maxLimitRequestRatio") else { return };
    let field = format!("{}[{resource}]", limit.field("maxLimitRequestRatio"));
    if nanos(ratio) < nanos("1") {
        errors.push(FieldError::invalid(field.clone(), ratio, format!("ratio {ratio} is less than 1")));
    }
    let millis = |amount: Option<&str>| amount.and_then(nanos).map(|nanos| (nanos / 1_000_000) as f64);
    if let (Some(most), Some(least), Some(asked)) = (millis(text("max")), millis(text("min")), millis(Some(ratio))) {
        let widest = most / least;
        if asked / 1000.0 > widest {
            let why = format!("ratio {ratio} is greater than max/min = {widest:.6}");
            errors.push(FieldError::invalid(field, ratio, why));
        }
    }
}

/// A range without a name is called after its uid.
pub fn range_create(object: &mut Object) {
    if object.name().is_empty() {
        let name = object.uid().to_owned();
        object.set_meta("name", &name);
    }
}

pub fn quota_default(object: &mut Object) {
    super::defaults::apply("core/v1.ResourceQuota", &mut object.0);
}

fn quota_resources(at: &At<'_>, list: &str, errors: &mut FieldErrors) {
    for (resource, value) in at.entries(list) {
        let field = format!("{}[{resource}]", at.field(list));
        resource_name(&field, resource, errors);
        if !resource.contains('/') && !is_quota_resource(resource) {
            errors.push(FieldError::invalid(field.clone(), resource, "must be a standard resource for quota"));
        }
        amount(&field, resource, value, errors);
    }
}

/// What a quota can limit without counting objects by their group.
fn is_quota_resource(resource: &str) -> bool {
    is_standard(resource) && resource != "storage" || resource.starts_with("requests.hugepages-")
}

/// Whether a scope says anything about a resource.
fn covers(scope: &str, resource: &str) -> bool {
    let compute =
        ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"].contains(&resource);
    match scope {
        "BestEffort" => resource == "pods",
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            resource == "pods" || compute
        }
        "VolumeAttributesClass" => ["persistentvolumeclaims", "requests.storage"].contains(&resource),
        _ => true,
    }
}

const SCOPES: &[&str] = &[
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

/// Scopes that are there or not, and have no values.
const PLAIN_SCOPES: &[&str] =
    &["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"];

/// Scopes chosen by expressions; everything is told at the list, not at its items: so does Kubernetes.
fn scope_selector(spec: &At<'_>, errors: &mut FieldErrors) {
    let Some(selector) = spec.child("scopeSelector") else { return };
    let list = selector.field("matchExpressions");
    let mut seen = BTreeSet::new();
    for requirement in selector.items("matchExpressions") {
        let (scope, operator) = (requirement.text("scopeName"), requirement.text("operator"));
        let at = |field: &str| format!("{list}.{field}");
        if !SCOPES.contains(&scope) {
            errors.push(FieldError::invalid(at("scopeName"), scope, "unsupported scope"));
        }
        let limited = spec.entries("hard").filter(|(resource, _)| is_quota_resource(resource));
        for _ in limited.filter(|(resource, _)| !covers(scope, resource)) {
            let whole = Value::Object(selector.map.clone());
            errors.push(FieldError::invalid(list.clone(), whole, "unsupported scope applied to resource"));
        }
        if PLAIN_SCOPES.contains(&scope) && operator != "Exists" {
            let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
                ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.push(FieldError::invalid(at("operator"), operator, why));
        }
        let values = requirement.list("values");
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.push(FieldError::required(at("values"), why));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errors.push(FieldError::invalid(at("values"), values.to_vec(), why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => errors.push(FieldError::invalid(at("operator"), operator, "not a valid selector operator")),
        }
        seen.insert(scope);
    }
    for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
        if pair.iter().all(|scope| seen.contains(scope)) {
            errors.push(FieldError::invalid(list.clone(), spec.value("scopes").clone(), "conflicting scopes"));
        }
    }
}

pub fn quota_validate(object: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let root = At::root("", &object.0);
    let spec = root.part("spec");
    quota_resources(&spec, "hard", &mut errors);
    let scopes: Vec<&str> = spec.texts("scopes").collect();
    let mut seen = BTreeSet::new();
    for scope in scopes.iter().filter(|scope| seen.insert(**scope)) {
        if !SCOPES.contains(scope) {
            spec.invalid("scopes", "unsupported scope", &mut errors);
        }
        let limited =
            spec.entries("hard").filter(|(resource, _)| SCOPES.contains(scope) && is_quota_resource(resource));
        for (resource, _) in limited {
            if !covers(scope, resource) {
                spec.invalid("scopes", "unsupported scope applied to resource", &mut errors);
            }
        }
    }
    for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
        if pair.iter().all(|scope| scopes.contains(scope)) {
            spec.invalid("scopes", "conflicting scopes", &mut errors);
        }
    }
    scope_selector(&spec, &mut errors);
    errors
}

pub fn quota_validate_update(new: &Object, old: &Object) -> FieldErrors {
    let scopes = |object: &Object| -> BTreeSet<String> {
        let root = At::root("", &object.0);
        root.part("spec").texts("scopes").map(str::to_owned).collect()
    };
    let mut errors = Vec::new();
    if scopes(new) != scopes(old) {
        let root = At::root("", &new.0);
        root.part("spec").invalid("scopes", super::check::IMMUTABLE, &mut errors);
    }
    errors
}

pub fn quota_validate_part(_: Part, new: &Object, _: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let root = At::root("", &new.0);
    let status = root.part("status");
    quota_resources(&status, "hard", &mut errors);
    quota_resources(&status, "used", &mut errors);
    errors
}

pub const QUOTA_COLUMNS: &[Column] =
    &[Column::name(), Column::new("Request", "string"), Column::new("Limit", "string"), AGE];

pub fn quota_cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let root = At::root("", &object.0);
    let status = root.part("status");
    let used = status.part("used");
    let mut columns = [Vec::new(), Vec::new()];
    for (resource, hard) in status.entries("hard") {
        let spent = if used.has(resource) { used.text(resource) } else { "0" };
        let cell = format!("{resource}: {spent}/{}", hard.as_str().unwrap_or_default());
        columns[usize::from(resource.starts_with("limits."))].push(cell);
    }
    let [requests, limits] = columns.map(|cells| Value::from(cells.join(", ")));
    vec![object.name().into(), requests, limits, age(object, now)]
}
