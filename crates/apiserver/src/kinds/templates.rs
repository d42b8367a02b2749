//! Replication controllers and pod templates.

use super::check::{At, NON_NEGATIVE};
use super::columns::{AGE, age};
use super::pod::{default_template, validate_template};
use crate::objects::Part;
use jiff::Timestamp;
use meta::table::Column;
use meta::{FieldError, FieldErrors, Object};
use serde_json::{Map, Value, json};

pub fn template_default(object: &mut Object) {
    if let Value::Object(template) = object.0.entry("template").or_insert_with(|| json!({})) {
        default_template(template);
    }
}

pub fn template_validate(object: &Object) -> FieldErrors {
    let empty = Map::new();
    validate_template("template", object.0.get("template").and_then(Value::as_object).unwrap_or(&empty))
}

pub fn template_warnings(new: &Object, old: Option<&Object>) -> Vec<String> {
    if old.is_some_and(|old| old.generation() == new.generation()) {
        return Vec::new();
    }
    super::pod::warnings(&At::root("", &new.0).part("template"))
}

pub const TEMPLATE_COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Containers", "string"),
    Column::new("Images", "string"),
    Column::new("Pod Labels", "string"),
];

pub fn template_cells(object: &Object, _: Timestamp) -> Vec<Value> {
    let root = At::root("", &object.0);
    let template = root.part("template");
    let [names, images] = containers(&template);
    vec![object.name().into(), names, images, labels(&template.part("metadata"), "labels")]
}

/// Names and images of a template's containers.
pub fn containers(template: &At<'_>) -> [Value; 2] {
    let spec = template.part("spec");
    ["name", "image"].map(|key| {
        let mut texts = Vec::new();
        for container in spec.items("containers") {
            texts.push(container.text(key).to_owned());
        }
        texts.join(",").into()
    })
}

/// A map of labels as `a=b,c=d`.
pub fn labels(at: &At<'_>, field: &str) -> Value {
    let all: Vec<String> =
        at.entries(field).map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    if all.is_empty() { "<none>".into() } else { all.join(",").into() }
}

/// A controller without a selector looks after what it makes.
pub fn controller_default(object: &mut Object) {
    super::defaults::apply("core/v1.ReplicationController", &mut object.0);
    let template = object.0.get("spec").and_then(|spec| spec.get("template"));
    let labels = template.and_then(|t| t.get("metadata")).and_then(|m| m.get("labels")).cloned();
    let Some(labels) = labels else { return };
    if let Some(Value::Object(spec)) = object.0.get_mut("spec") {
        super::defaults::set(spec, "selector", labels.clone());
    }
    super::defaults::set(object.meta_mut(), "labels", labels);
}

pub fn controller_validate(object: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let root = At::root("", &object.0);
    let spec = root.part("spec");
    spec.non_negative("minReadySeconds", &mut errors);
    spec.required("selector", &mut errors);
    spec.non_negative("replicas", &mut errors);
    let Some(template) = spec.child("template") else {
        errors.push(FieldError::required("spec.template", ""));
        return errors;
    };
    let metadata = template.part("metadata");
    let carried = metadata.part("labels");
    if spec.entries("selector").any(|(key, value)| carried.value(key) != value) {
        let why = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid(metadata.field("labels"), metadata.value("labels").clone(), why));
    }
    errors.extend(validate_template("spec.template", template.map));
    let pod = template.part("spec");
    if pod.text("restartPolicy") != "Always" {
        let policy = pod.value("restartPolicy").clone();
        errors.push(FieldError::not_supported(pod.field("restartPolicy"), policy, &["Always"]));
    }
    if pod.has("activeDeadlineSeconds") {
        let why = "activeDeadlineSeconds in ReplicationController is not Supported";
        pod.forbidden("activeDeadlineSeconds", why, &mut errors);
    }
    errors
}

pub fn controller_validate_part(_: Part, new: &Object, _: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let root = At::root("", &new.0);
    let status = root.part("status");
    let counts = ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"];
    for field in counts {
        if status.int(field).is_some_and(|n| n < 0) {
            status.invalid(field, NON_NEGATIVE, &mut errors);
        }
    }
    let count = |field: &str| status.int(field).unwrap_or_default();
    for field in ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
        if count(field) > count("replicas") {
            status.invalid(field, "cannot be greater than status.replicas", &mut errors);
        }
    }
    if count("availableReplicas") > count("readyReplicas") {
        status.invalid("availableReplicas", "cannot be greater than readyReplicas", &mut errors);
    }
    errors
}

pub const CONTROLLER_COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Desired", "integer"),
    Column::new("Current", "integer"),
    Column::new("Ready", "integer"),
    AGE,
    Column::new("Containers", "string").wide(),
    Column::new("Images", "string").wide(),
    Column::new("Selector", "string").wide(),
];

pub fn controller_cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let root = At::root("", &object.0);
    let (spec, status) = (root.part("spec"), root.part("status"));
    let [names, images] = containers(&spec.part("template"));
    let number = |at: &At<'_>, key: &str| Value::from(at.int(key).unwrap_or_default());
    vec![
        object.name().into(),
        number(&spec, "replicas"),
        number(&status, "replicas"),
        number(&status, "readyReplicas"),
        age(object, now),
        names,
        images,
        labels(&spec, "selector"),
    ]
}
