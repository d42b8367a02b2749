//! What a Job must keep: its numbers, its selector, and a template that stays as it is.

use super::{generated_labels, inherit_labels, job_policy};
use crate::kinds::apps::{selects_template, template_mismatch};
use crate::kinds::check::{At, IMMUTABLE, domain_prefixed, label_selector};
use crate::kinds::pod;
use meta::selector::LabelSelector;
use meta::{FieldError, FieldErrors, Object, name};
use serde_json::{Map, Value, json};

const UID: &str = "batch.kubernetes.io/controller-uid";
const MAX_PARALLELISM: i64 = 100_000;
const MAX_FAILED: i64 = 100_000;
/// Above this many completions the limits below hold for jobs with a backoff limit per index.
const MANY: i64 = 100_000;
const MANY_PARALLELISM: i64 = 10_000;
const MANY_FAILED: i64 = 10_000;

/// Pods of a job carry its uid, unless its author chose the selector.
pub fn generate_selector(object: &mut Object) {
    let bare = object.labels().next().is_none();
    let generated = generated_labels(object);
    let Some(Value::Object(spec)) = object.0.get_mut("spec") else { return };
    if spec.get("manualSelector") != Some(&Value::Bool(true)) {
        let labels = entry(entry(entry(spec, "template"), "metadata"), "labels");
        let uid = generated[0].1.clone();
        for (key, value) in generated {
            labels.entry(key).or_insert(value);
        }
        entry(entry(spec, "selector"), "matchLabels").entry(UID).or_insert(uid);
    }
    if bare {
        inherit_labels(object);
    }
}

/// The object in a field, made when it is not there.
fn entry<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let slot = map.entry(key).or_insert_with(|| json!({}));
    if !slot.is_object() {
        *slot = json!({});
    }
    match slot {
        Value::Object(inner) => inner,
        _ => unreachable!("made an object above"),
    }
}

pub fn validate(object: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &object.0), Vec::new());
    let spec = root.part("spec");
    generated_selector(object, &spec, &mut errors);
    validate_spec(&spec, &mut errors);
    match spec.child("selector") {
        None => errors.push(FieldError::required(spec.field("selector"), "")),
        Some(selector) => label_selector(&selector, &mut errors),
    }
    let selector = LabelSelector::from_object(spec.value("selector"));
    if selector.is_ok_and(|selector| !selects_template(&spec, &selector)) {
        template_mismatch(&spec, &mut errors);
    }
    let completions = spec.int("completions").unwrap_or_default();
    if spec.text("completionMode") == "Indexed" && completions > 0 {
        let hostname = format!("{}-{}", object.name(), completions - 1);
        if !name::dns1123_label(&hostname).is_empty() {
            let why = format!("will not able to create pod with invalid DNS label: {hostname}");
            errors.push(FieldError::invalid("metadata.name", object.name(), why));
        }
    }
    errors
}

/// The generated labels may not be overridden.
fn generated_selector(object: &Object, spec: &At<'_>, errors: &mut FieldErrors) {
    if spec.flag("manualSelector") || !spec.has("selector") {
        return;
    }
    let template = spec.part("template");
    let metadata = template.part("metadata");
    let labels = metadata.value("labels");
    let generated = generated_labels(object);
    for (key, expected) in &generated {
        let field = format!("{}[{key}]", metadata.field("labels"));
        let why = format!("must be '{}'", expected.as_str().unwrap_or_default());
        match labels.get(*key) {
            None => errors.push(FieldError::required(field, why)),
            Some(value) if value != expected => errors.push(FieldError::invalid(field, labels.clone(), why)),
            Some(_) => {}
        }
    }
    let lookup = |key: &str| generated.iter().find(|(k, _)| *k == key).and_then(|(_, value)| value.as_str());
    if LabelSelector::from_object(spec.value("selector")).is_ok_and(|selector| !selector.matches_with(lookup)) {
        spec.invalid("selector", "`selector` not auto-generated", errors);
    }
}

/// The rules of a JobSpec, in a job or in a CronJob.
pub fn validate_spec(spec: &At<'_>, errors: &mut FieldErrors) {
    for count in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        spec.non_negative(count, errors);
    }
    if spec.has("maxFailedIndexes") && !spec.has("backoffLimitPerIndex") {
        errors.push(FieldError::required(spec.field("backoffLimitPerIndex"), "when maxFailedIndexes is specified"));
    }
    if spec.has("managedBy") {
        domain_prefixed(spec, "managedBy", errors);
        if spec.text("managedBy").len() > 63 {
            errors.push(FieldError::too_long(spec.field("managedBy"), 63));
        }
    }
    spec.one_of("completionMode", &["NonIndexed", "Indexed"], errors);
    match spec.text("completionMode") {
        "Indexed" => indexed(spec, errors),
        "" if spec.has("completionMode") => {}
        "" | "NonIndexed" => {
            for field in ["backoffLimitPerIndex", "maxFailedIndexes"].into_iter().filter(|field| spec.has(field)) {
                spec.invalid(field, "requires indexed completion mode", errors);
            }
        }
        _ => {}
    }
    job_policy::failure(spec, errors);
    job_policy::success(spec, errors);
    job_policy::replacement(spec, errors);
    errors.extend(pod::validate_template(&spec.field("template"), spec.part("template").map));
    restart_policy(spec, errors);
}

fn indexed(spec: &At<'_>, errors: &mut FieldErrors) {
    let (completions, parallelism) = (spec.int("completions"), spec.int("parallelism").unwrap_or_default());
    let failed = spec.int("maxFailedIndexes");
    if completions.is_none() {
        errors.push(FieldError::required(spec.field("completions"), "when completion mode is Indexed"));
    }
    if parallelism > MAX_PARALLELISM {
        let why = format!("must be less than or equal to {MAX_PARALLELISM} when completion mode is Indexed");
        spec.invalid("parallelism", why, errors);
    }
    if failed.zip(completions).is_some_and(|(failed, completions)| failed > completions) {
        spec.invalid("maxFailedIndexes", "must be less than or equal to completions", errors);
    }
    if failed.is_some_and(|failed| failed > MAX_FAILED) {
        spec.invalid("maxFailedIndexes", format!("must be less than or equal to {MAX_FAILED}"), errors);
    }
    if completions.is_some_and(|completions| completions > MANY) && spec.has("backoffLimitPerIndex") {
        let why = |limit: i64| {
            format!(
                "must be less than or equal to {limit} when completions are above {MANY} and used with backoff limit per index"
            )
        };
        if failed.is_none() {
            let why = format!("must be specified when completions is above {MANY}");
            errors.push(FieldError::required(spec.field("maxFailedIndexes"), why));
        }
        if parallelism > MANY_PARALLELISM {
            spec.invalid("parallelism", why(MANY_PARALLELISM), errors);
        }
        if failed.is_some_and(|failed| failed > MANY_FAILED) {
            spec.invalid("maxFailedIndexes", why(MANY_FAILED), errors);
        }
    }
}

/// A job that never ends is not one.
fn restart_policy(spec: &At<'_>, errors: &mut FieldErrors) {
    let template = spec.part("template");
    let pods = template.part("spec");
    match pods.text("restartPolicy") {
        "" | "Always" => {
            errors.push(FieldError::required(pods.field("restartPolicy"), r#"valid values: "OnFailure", "Never""#));
        }
        "Never" => {}
        "OnFailure" if spec.has("podFailurePolicy") => {
            pods.invalid("restartPolicy", "only \"Never\" is supported when podFailurePolicy is specified", errors);
        }
        "OnFailure" => {}
        _ => pods.one_of("restartPolicy", &["OnFailure", "Never"], errors),
    }
}

pub fn validate_update(new: &Object, old: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &new.0), Vec::new());
    let old_root = At::root("", &old.0);
    let (spec, old_spec) = (root.part("spec"), old_root.part("spec"));
    completions_update(&spec, &old_spec, &mut errors);
    let same = |field: &str, errors: &mut FieldErrors| {
        if spec.value(field) != old_spec.value(field) {
            spec.invalid(field, IMMUTABLE, errors);
        }
    };
    same("selector", &mut errors);
    template_update(&spec, &old_spec, !old_root.part("status").has("startTime"), &mut errors);
    for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        same(field, &mut errors);
    }
    errors
}

/// The number of completions of an indexed job is elastic, together with its parallelism.
fn completions_update(spec: &At<'_>, old: &At<'_>, errors: &mut FieldErrors) {
    if spec.value("completions") == old.value("completions") {
        return;
    }
    if spec.text("completionMode") != "Indexed" {
        spec.invalid("completions", IMMUTABLE, errors);
    } else if spec.has("completions") && spec.int("completions") != spec.int("parallelism") {
        spec.invalid("completions", "can only be modified in tandem with spec.parallelism", errors);
    }
}

/// Where the pods may run can change as long as none was started.
fn template_update(spec: &At<'_>, old: &At<'_>, not_started: bool, errors: &mut FieldErrors) {
    let template = Value::Object(spec.part("template").map.clone());
    let mut old_template = Value::Object(old.part("template").map.clone());
    if old.flag("suspend") && not_started {
        for (part, fields) in [
            ("spec", &["nodeSelector", "tolerations", "schedulingGates"][..]),
            ("metadata", &["annotations", "labels"]),
        ] {
            fields.iter().for_each(|field| take(&mut old_template[part], &template[part], field));
        }
        let affinity = &template["spec"]["affinity"];
        match (affinity.is_null(), &mut old_template["spec"]) {
            (true, Value::Object(old_pods)) => {
                let only_nodes = |a: &Value| a.as_object().is_some_and(|a| a.keys().all(|key| key == "nodeAffinity"));
                if old_pods.get("affinity").is_some_and(only_nodes) {
                    old_pods.remove("affinity");
                }
            }
            (false, Value::Object(old_pods)) => {
                let slot = old_pods.entry("affinity").or_insert_with(|| json!({}));
                take(slot, affinity, "nodeAffinity");
            }
            _ => {}
        }
    }
    if template != old_template {
        spec.invalid("template", IMMUTABLE, errors);
    }
}

fn take(into: &mut Value, from: &Value, field: &str) {
    if let Value::Object(into) = into {
        match from.get(field) {
            Some(value) => into.insert(field.into(), value.clone()),
            None => into.remove(field),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(spec: Value) -> Object {
        let mut object = Object::from_value(json!({"metadata": {"name": "j", "uid": "u"}, "spec": spec})).unwrap();
        crate::kinds::defaults::apply("batch/v1.Job", &mut object.0);
        generate_selector(&mut object);
        object
    }

    fn template() -> Value {
        json!({"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}})
    }

    fn told(errors: FieldErrors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_job_selects_its_own_pods() {
        let object = job(json!({"template": template()}));
        assert_eq!(object.0["spec"]["selector"], json!({"matchLabels": {UID: "u"}}));
        let labels = &object.0["spec"]["template"]["metadata"]["labels"];
        assert_eq!(labels["job-name"], "j");
        assert_eq!(&object.0["metadata"]["labels"], labels, "a job without labels has its pods'");
        assert_eq!(told(validate(&object)), Vec::<String>::new());
    }

    #[test]
    fn only_a_suspended_job_that_never_ran_may_move() {
        let old = job(json!({"suspend": true, "template": template()}));
        let mut new = old.clone();
        new.0["spec"]["template"]["spec"]["nodeSelector"] = json!({"a": "b"});
        new.0["spec"]["template"]["spec"]["affinity"] = json!({"nodeAffinity": {}});
        assert_eq!(told(validate_update(&new, &old)), Vec::<String>::new());
        assert_eq!(told(validate_update(&old, &new)), Vec::<String>::new(), "and back");
        let mut running = old.clone();
        running.0["spec"]["suspend"] = false.into();
        assert!(told(validate_update(&new, &running))[0].ends_with(IMMUTABLE));
        new.0["spec"]["template"]["spec"]["hostNetwork"] = true.into();
        assert!(told(validate_update(&new, &old))[0].starts_with("spec.template: Invalid value"));
    }

    #[test]
    fn completions_move_with_parallelism_in_indexed_jobs_only() {
        let spec = |mode: &str, n: i64, p: i64| {
            job(json!({"completionMode": mode, "completions": n, "parallelism": p, "template": template()}))
        };
        let told = |new: Object, old: Object| told(validate_update(&new, &old));
        assert_eq!(
            told(spec("NonIndexed", 2, 2), spec("NonIndexed", 1, 1)),
            ["spec.completions: Invalid value: 2: field is immutable"]
        );
        assert!(told(spec("Indexed", 2, 2), spec("Indexed", 1, 1)).is_empty());
        assert_eq!(
            told(spec("Indexed", 2, 1), spec("Indexed", 1, 1)),
            ["spec.completions: Invalid value: 2: can only be modified in tandem with spec.parallelism"]
        );
    }
}
