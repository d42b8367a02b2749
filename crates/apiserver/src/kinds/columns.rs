//! What `kubectl get` prints for the built-in kinds.

use jiff::Timestamp;
use meta::table::Column;
use meta::{Object, time};
use serde_json::{Map, Value};

pub const AGE: Column = Column::new("Age", "string");

pub fn age(object: &Object, now: Timestamp) -> Value {
    time::age(object.meta_text("creationTimestamp"), now).into()
}

fn at<'a>(object: &'a Object, path: &[&str]) -> &'a Value {
    let mut value = object.0.get(path[0]).unwrap_or(&Value::Null);
    for step in &path[1..] {
        value = value.get(*step).unwrap_or(&Value::Null);
    }
    value
}

fn text(object: &Object, path: &[&str]) -> String {
    at(object, path).as_str().unwrap_or_default().to_owned()
}

fn len(object: &Object, key: &str) -> usize {
    match object.0.get(key) {
        Some(Value::Object(m)) => m.len(),
        Some(Value::Array(a)) => a.len(),
        _ => 0,
    }
}

/// Kinds without columns of their own show when they were created.
pub const PLAIN: &[Column] = &[Column::name(), Column::new("Created At", "date")];
pub fn plain(object: &Object, _: Timestamp) -> Vec<Value> {
    vec![object.name().into(), object.meta_text("creationTimestamp").into()]
}

pub const NAMESPACE: &[Column] = &[Column::name(), Column::new("Status", "string"), AGE];
pub fn namespace(object: &Object, now: Timestamp) -> Vec<Value> {
    vec![object.name().into(), text(object, &["status", "phase"]).into(), age(object, now)]
}

pub const CONFIG_MAP: &[Column] = &[Column::name(), Column::new("Data", "string"), AGE];
pub fn config_map(object: &Object, now: Timestamp) -> Vec<Value> {
    vec![object.name().into(), (len(object, "data") + len(object, "binaryData")).into(), age(object, now)]
}

pub const SECRET: &[Column] = &[Column::name(), Column::new("Type", "string"), Column::new("Data", "string"), AGE];
pub fn secret(object: &Object, now: Timestamp) -> Vec<Value> {
    vec![object.name().into(), text(object, &["type"]).into(), len(object, "data").into(), age(object, now)]
}

pub const SERVICE_ACCOUNT: &[Column] = &[Column::name(), Column::new("Secrets", "string"), AGE];
pub fn service_account(object: &Object, now: Timestamp) -> Vec<Value> {
    vec![object.name().into(), len(object, "secrets").into(), age(object, now)]
}

pub const LEASE: &[Column] = &[Column::name(), Column::new("Holder", "string"), AGE];
pub fn lease(object: &Object, now: Timestamp) -> Vec<Value> {
    vec![object.name().into(), text(object, &["spec", "holderIdentity"]).into(), age(object, now)]
}

pub const EVENT: &[Column] = &[
    Column::new("Last Seen", "string"),
    Column::new("Type", "string"),
    Column::new("Reason", "string"),
    Column::new("Object", "string"),
    Column::new("Subobject", "string").wide(),
    Column::new("Source", "string").wide(),
    Column::new("Message", "string"),
    Column::new("First Seen", "string").wide(),
    Column::new("Count", "string").wide(),
    Column { priority: 1, ..Column::name() },
];

/// Cells are made from the stored form, so both event groups print the same.
pub fn event(object: &Object, now: Timestamp) -> Vec<Value> {
    let event_time = text(object, &["eventTime"]);
    let shown = |first: String| match (first.is_empty(), event_time.is_empty()) {
        (false, _) => time::age(&first, now),
        (true, false) => time::age(&event_time, now),
        (true, true) => "<unknown>".to_owned(),
    };
    let series = at(object, &["series"]);
    let last = match series.get("lastObservedTime").and_then(Value::as_str) {
        Some(t) => t.to_owned(),
        None => text(object, &["lastTimestamp"]),
    };
    let count = series.get("count").or_else(|| object.0.get("count")).and_then(Value::as_i64).unwrap_or(1).max(1);
    let subject = at(object, &["involvedObject"]);
    let subject_text = |key: &str| subject.get(key).and_then(Value::as_str).unwrap_or_default();
    let name = match subject_text("kind") {
        "" => subject_text("name").to_owned(),
        kind => format!("{}/{}", kind.to_lowercase(), subject_text("name")),
    };
    let empty = Map::new();
    let source = object.0.get("source").and_then(Value::as_object).unwrap_or(&empty);
    let source_text = |key: &str| source.get(key).and_then(Value::as_str).unwrap_or_default();
    let component = match source_text("component") {
        "" => text(object, &["reportingComponent"]),
        c => c.to_owned(),
    };
    let origin = match source_text("host") {
        "" => component,
        host => format!("{component}, {host}"),
    };
    vec![
        shown(last).into(),
        text(object, &["type"]).into(),
        text(object, &["reason"]).into(),
        name.into(),
        subject_text("fieldPath").into(),
        origin.into(),
        text(object, &["message"]).trim().into(),
        shown(text(object, &["firstTimestamp"])).into(),
        count.into(),
        object.name().into(),
    ]
}
