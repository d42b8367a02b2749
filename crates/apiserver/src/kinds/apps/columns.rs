//! What `kubectl get` prints for workloads.

use crate::kinds::cells::{AGE, CONTAINERS, IMAGES, SELECTOR, age, at, containers, number, selector};
use jiff::Timestamp;
use meta::table::Column;
use meta::{Object, selector::LabelSelector};
use serde_json::Value;

const fn integer(name: &'static str) -> Column {
    Column::new(name, "integer")
}

/// `ready/desired`
fn ready(object: &Object) -> Value {
    format!("{}/{}", number(object, "status.readyReplicas"), number(object, "spec.replicas")).into()
}

fn template(object: &Object) -> [Value; 2] {
    containers(at(object, "spec.template.spec"))
}

pub const DEPLOYMENT: &[Column] = &[
    Column::name(),
    Column::new("Ready", "string"),
    Column::new("Up-to-date", "string"),
    Column::new("Available", "string"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub fn deployment(object: &Object, now: Timestamp) -> Vec<Value> {
    let [names, images] = template(object);
    let selector = LabelSelector::from_object(at(object, "spec.selector"));
    vec![
        object.name().into(),
        ready(object),
        number(object, "status.updatedReplicas").into(),
        number(object, "status.availableReplicas").into(),
        age(object, now),
        names,
        images,
        selector.map_or("<invalid>".to_owned(), |s| s.to_string()).into(),
    ]
}

pub const REPLICA_SET: &[Column] =
    &[Column::name(), integer("Desired"), integer("Current"), integer("Ready"), AGE, CONTAINERS, IMAGES, SELECTOR];

pub fn replica_set(object: &Object, now: Timestamp) -> Vec<Value> {
    let [names, images] = template(object);
    vec![
        object.name().into(),
        number(object, "spec.replicas").into(),
        number(object, "status.replicas").into(),
        number(object, "status.readyReplicas").into(),
        age(object, now),
        names,
        images,
        selector(at(object, "spec.selector")),
    ]
}

pub const STATEFUL_SET: &[Column] = &[Column::name(), Column::new("Ready", "string"), AGE, CONTAINERS, IMAGES];

pub fn stateful_set(object: &Object, now: Timestamp) -> Vec<Value> {
    let [names, images] = template(object);
    vec![object.name().into(), ready(object), age(object, now), names, images]
}

pub const DAEMON_SET: &[Column] = &[
    Column::name(),
    integer("Desired"),
    integer("Current"),
    integer("Ready"),
    integer("Up-to-date"),
    integer("Available"),
    Column::new("Node Selector", "string"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub fn daemon_set(object: &Object, now: Timestamp) -> Vec<Value> {
    let [names, images] = template(object);
    let nodes = at(object, "spec.template.spec.nodeSelector").as_object();
    let nodes: Vec<String> = nodes
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    let count = |name: &str| Value::from(number(object, &format!("status.{name}")));
    vec![
        object.name().into(),
        count("desiredNumberScheduled"),
        count("currentNumberScheduled"),
        count("numberReady"),
        count("updatedNumberScheduled"),
        count("numberAvailable"),
        if nodes.is_empty() { "<none>".into() } else { nodes.join(",").into() },
        age(object, now),
        names,
        images,
        selector(at(object, "spec.selector")),
    ]
}

pub const CONTROLLER_REVISION: &[Column] =
    &[Column::name(), Column::new("Controller", "string"), Column::new("Revision", "string"), AGE];

pub fn controller_revision(object: &Object, now: Timestamp) -> Vec<Value> {
    let owners = object.meta().get("ownerReferences").and_then(Value::as_array);
    let controls = |owner: &&Value| owner.get("controller").and_then(Value::as_bool).unwrap_or_default();
    let controller = owners.into_iter().flatten().find(controls).map_or("<none>".to_owned(), |owner| {
        let text = |key: &str| owner.get(key).and_then(Value::as_str).unwrap_or_default();
        let kind = match meta::split_api_version(text("apiVersion")) {
            ("", _) => text("kind").to_owned(),
            (group, _) => format!("{}.{group}", text("kind")),
        };
        format!("{}/{}", kind.to_lowercase(), text("name"))
    });
    vec![object.name().into(), controller.into(), number(object, "revision").into(), age(object, now)]
}
