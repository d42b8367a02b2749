//! What an autoscaler must keep: bounds, something to scale, metrics that can be measured.

use crate::kinds::check::{At, named};
use crate::kinds::pod;
use meta::{FieldError, FieldErrors, Object, name};
use schema::quantity::nanos;

const MAX_PERIOD: i64 = 1800;
const MAX_WINDOW: i64 = 3600;
const SOURCES: &[(&str, &str)] = &[
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const TYPES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];

pub fn validate(object: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &object.0), Vec::new());
    let spec = root.part("spec");
    let (min, max) = (spec.int("minReplicas"), spec.int("maxReplicas").unwrap_or_default());
    if min.is_some_and(|min| min < 1) {
        spec.invalid("minReplicas", "must be greater than or equal to 1", &mut errors);
    }
    if max < 1 {
        errors.push(FieldError::invalid(spec.field("maxReplicas"), max, "must be greater than 0"));
    }
    if min.is_some_and(|min| max < min) {
        let why = "must be greater than or equal to `minReplicas`";
        errors.push(FieldError::invalid(spec.field("maxReplicas"), max, why));
    }
    let target = spec.part("scaleTargetRef");
    reference(&target, target.text("kind") == "ReplicationController", &mut errors);
    spec.items("metrics").for_each(|at| metric(&at, &mut errors));
    if min == Some(0) && !spec.items("metrics").any(|m| ["Object", "External"].contains(&m.text("type"))) {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        spec.forbidden("metrics", why, &mut errors);
    }
    let behavior = spec.part("behavior");
    for rules in ["scaleUp", "scaleDown"].into_iter().filter_map(|direction| behavior.child(direction)) {
        scaling_rules(&rules, &mut errors);
    }
    errors
}

/// An object of another kind, by its name.
fn reference(at: &At<'_>, core: bool, errors: &mut FieldErrors) {
    for field in ["kind", "name"] {
        if at.required(field, errors) {
            at.named(field, name::path_segment, errors);
        }
    }
    let version = at.text("apiVersion");
    if version.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {version}");
        errors.push(FieldError::invalid(at.field("apiVersion"), version, why));
    } else if !core && (!version.contains('/') || version.starts_with('/')) {
        errors.push(FieldError::invalid(at.field("apiVersion"), version, "apiVersion must specify API group"));
    }
}

fn scaling_rules(rules: &At<'_>, errors: &mut FieldErrors) {
    let window = rules.int("stabilizationWindowSeconds").unwrap_or_default();
    if window < 0 {
        rules.invalid("stabilizationWindowSeconds", "must be greater than or equal to zero", errors);
    }
    if window > MAX_WINDOW {
        rules.invalid("stabilizationWindowSeconds", format!("must be less than or equal to {MAX_WINDOW}"), errors);
    }
    rules.one_of("selectPolicy", &["Disabled", "Max", "Min"], errors);
    if rules.list("policies").is_empty() {
        errors.push(FieldError::required(rules.field("policies"), "must specify at least one Policy"));
    }
    for policy in rules.items("policies") {
        policy.one_of("type", &["Percent", "Pods"], errors);
        if policy.int("value").unwrap_or_default() <= 0 {
            policy.invalid("value", "must be greater than zero", errors);
        }
        let period = policy.int("periodSeconds").unwrap_or_default();
        if period <= 0 {
            policy.invalid("periodSeconds", "must be greater than zero", errors);
        }
        if period > MAX_PERIOD {
            policy.invalid("periodSeconds", format!("must be less than or equal to {MAX_PERIOD}"), errors);
        }
    }
}

fn metric(at: &At<'_>, errors: &mut FieldErrors) {
    let kind = at.text("type");
    if kind.is_empty() {
        errors.push(FieldError::required(at.field("type"), "must specify a metric source type"));
    }
    let known = TYPES.contains(&kind);
    if !known {
        errors.push(FieldError::not_supported(at.field("type"), kind, TYPES));
    }
    let present: Vec<&str> = SOURCES.iter().map(|(_, field)| *field).filter(|field| at.has(field)).collect();
    if let Some(first) = present.first().and_then(|field| at.child(field)) {
        source(&first, present[0], errors);
    }
    let expected = SOURCES.iter().find(|(name, _)| *name == kind).map(|(_, field)| *field);
    match expected {
        Some(field) if !at.has(field) => {
            let why = "must populate information for the given metric source";
            errors.push(FieldError::required(at.field(field), why));
        }
        Some(_) => {}
        None => errors.push(FieldError::not_supported(at.field("type"), kind, TYPES)),
    }
    if present.len() != 1 {
        for field in present.iter().filter(|field| Some(**field) != expected) {
            at.forbidden(field, "must populate the given metric source only", errors);
        }
    }
}

fn source(at: &At<'_>, kind: &str, errors: &mut FieldErrors) {
    let target = at.part("target");
    let has = |field: &str| target.has(field);
    match kind {
        "object" => {
            reference(&at.part("describedObject"), true, errors);
            identifier(at, errors);
        }
        "external" | "pods" => identifier(at, errors),
        _ => {
            if at.text("name").is_empty() {
                errors.push(FieldError::required(at.field("name"), "must specify a resource name"));
            } else if kind == "containerResource" {
                pod::resource_name(&at.field("name"), at.text("name"), errors);
            }
            if kind == "containerResource" {
                if at.text("container").is_empty() {
                    errors.push(FieldError::required(at.field("container"), "must specify a container"));
                } else {
                    named(&at.field("container"), at.text("container"), name::dns1123_label, errors);
                }
            }
        }
    }
    metric_target(&target, errors);
    let required = |field: &str, why: &str| FieldError::required(target.field(field), why);
    match kind {
        "object" if !has("value") && !has("averageValue") => {
            errors.push(required("averageValue", "must set either a target value or averageValue"));
        }
        "external" if !has("value") && !has("averageValue") => {
            let why = "must set either a target value for metric or a per-pod target";
            errors.push(required("averageValue", why));
        }
        "external" if has("value") && has("averageValue") => {
            let why = "may not set both a target value for metric and a per-pod target";
            target.forbidden("value", why, errors);
        }
        "pods" if !has("averageValue") => {
            errors.push(required("averageValue", "must specify a positive target averageValue"));
        }
        "resource" | "containerResource" => match (has("averageUtilization"), has("averageValue")) {
            (false, false) => {
                let why = "must set either a target raw value or a target utilization";
                errors.push(required("averageUtilization", why));
            }
            (true, true) => {
                let why = "may not set both a target raw value and a target utilization";
                target.forbidden("averageValue", why, errors);
            }
            _ => {}
        },
        _ => {}
    }
}

fn identifier(at: &At<'_>, errors: &mut FieldErrors) {
    let metric = at.part("metric");
    if metric.text("name").is_empty() {
        errors.push(FieldError::required(metric.field("name"), "must specify a metric name"));
    } else {
        metric.named("name", name::path_segment, errors);
    }
}

fn metric_target(target: &At<'_>, errors: &mut FieldErrors) {
    let kind = target.text("type");
    if kind.is_empty() {
        errors.push(FieldError::required(target.field("type"), "must specify a metric target type"));
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind) {
        let why = "must be either Utilization, Value, or AverageValue";
        errors.push(FieldError::invalid(target.field("type"), kind, why));
    }
    for amount in ["value", "averageValue"] {
        if target.has(amount) && nanos(target.text(amount)).is_none_or(|n| n <= 0) {
            target.invalid(amount, "must be positive", errors);
        }
    }
    if target.int("averageUtilization").is_some_and(|percent| percent < 1) {
        target.invalid("averageUtilization", "must be greater than 0", errors);
    }
}

pub fn validate_status(new: &Object, _: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &new.0), Vec::new());
    let status = root.part("status");
    status.non_negative("currentReplicas", &mut errors);
    status.non_negative("desiredReplicas", &mut errors);
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn told(metrics: Value) -> Vec<String> {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        let object = json!({"spec": {"maxReplicas": 3, "scaleTargetRef": target, "metrics": metrics}});
        validate(&Object::from_value(object).unwrap()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_metric_has_the_source_its_type_names() {
        assert!(told(json!([super::super::convert::cpu(50)])).is_empty());
        assert_eq!(
            told(json!([{"type": "Resource"}])),
            ["spec.metrics[0].resource: Required value: must populate information for the given metric source"]
        );
        let pods = json!({"metric": {"name": "x"}, "target": {"type": "AverageValue", "averageValue": "1"}});
        let mut both = super::super::convert::cpu(50);
        both["pods"] = pods;
        assert_eq!(
            told(json!([both])),
            ["spec.metrics[0].pods: Forbidden: must populate the given metric source only"]
        );
    }

    #[test]
    fn a_target_is_positive() {
        let target = json!({"type": "AverageValue", "averageValue": "-1"});
        let told = told(json!([{"type": "Resource", "resource": {"name": "memory", "target": target}}]));
        assert_eq!(told, ["spec.metrics[0].resource.target.averageValue: Invalid value: \"-1\": must be positive"]);
    }
}
