//! Pods.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use fleet::{Bytes, Key};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::object::{Condition, Object, is_true};
use super::{GROUP, LDC, Labels, Made, Sum, UNIT, app_of, apps_of, clip};
use crate::apiext::row::{Row, Shape};
use crate::members::quantity;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodSpec<'a> {
    #[serde(borrow, default)]
    pub(super) node_name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) containers: Vec<Container<'a>>,
    #[serde(borrow, default)]
    pub(super) init_containers: Option<Vec<Container<'a>>>,
}

#[derive(Default, Deserialize)]
pub(super) struct Container<'a> {
    #[serde(borrow, default)]
    pub(super) image: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) resources: Option<Resources<'a>>,
}

#[derive(Default, Deserialize)]
pub(super) struct Resources<'a> {
    #[serde(borrow, default)]
    requests: Option<BTreeMap<Cow<'a, str>, Value>>,
}

impl Container<'_> {
    fn requests(&self, what: &str) -> f64 {
        let requests = self.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        match requests.and_then(|requests| requests.get(what)) {
            Some(Value::String(text)) => quantity::parse(text).max(0.0),
            Some(Value::Number(number)) => number.as_f64().unwrap_or(0.0).max(0.0),
            _ => 0.0,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodStatus<'a> {
    #[serde(borrow, default)]
    phase: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    reason: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "podIP", default)]
    ip: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    conditions: Option<Vec<Condition<'a>>>,
    #[serde(borrow, default)]
    init_container_statuses: Option<Vec<ContainerStatus<'a>>>,
    #[serde(borrow, default)]
    container_statuses: Option<Vec<ContainerStatus<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus<'a> {
    #[serde(default)]
    ready: bool,
    #[serde(default)]
    restart_count: u64,
    #[serde(borrow, default)]
    state: Option<ContainerState<'a>>,
}

#[derive(Default, Deserialize)]
struct ContainerState<'a> {
    #[serde(borrow, default)]
    waiting: Option<Why<'a>>,
    #[serde(borrow, default)]
    terminated: Option<Why<'a>>,
}

#[derive(Default, Deserialize)]
struct Why<'a> {
    #[serde(borrow, default)]
    reason: Option<Cow<'a, str>>,
}

fn is_empty(text: &&str) -> bool {
    text.is_empty()
}

#[derive(Serialize)]
struct PodRow<'a> {
    cluster: &'a str,
    namespace: &'a str,
    name: &'a str,
    app: &'a str,
    phase: &'a str,
    ready: String,
    restarts: u64,
    node: &'a str,
    ip: &'a str,
    created: &'a str,
    #[serde(skip_serializing_if = "is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "is_empty")]
    group: &'a str,
    #[serde(skip_serializing_if = "is_empty")]
    unit: &'a str,
    #[serde(skip_serializing_if = "is_empty")]
    ldc: &'a str,
    image: &'a str,
    labels: &'a Labels<'a>,
}

pub(super) fn pod(cluster: &Arc<str>, key: &Key, object: &Bytes) -> Option<Made> {
    let text = object.json();
    let Object { metadata, spec, status } =
        serde_json::from_slice::<Object<'_, PodSpec<'_>, PodStatus<'_>>>(&text).ok()?;
    let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
    let namespace = key.namespace.clone().unwrap_or_default();
    let labels = metadata.labels.unwrap_or_default();
    let label = |name: &str| labels.get(name).map_or("", |value| &**value);
    let phase = match (&metadata.deletion_timestamp, &status.phase) {
        (Some(_), _) => "Terminating",
        (None, Some(phase)) => phase,
        (None, None) => "Unknown",
    };
    let containers = status.container_statuses.as_deref().unwrap_or_default();
    let all = status.init_container_statuses.iter().flatten().chain(containers);
    let why = |status: &ContainerStatus<'_>| {
        let state = status.state.as_ref()?;
        let why = state.waiting.as_ref().or(state.terminated.as_ref())?.reason.as_deref()?;
        (why != "Completed").then(|| why.to_owned())
    };
    let reason = all.clone().find_map(why).or_else(|| status.reason.as_deref().map(str::to_owned)).unwrap_or_default();
    let created = metadata.creation_timestamp.as_deref().unwrap_or_default();
    let image = spec.containers.first().and_then(|container| container.image.as_deref()).unwrap_or_default();
    let node = spec.node_name.as_deref().unwrap_or_default();
    let row = PodRow {
        cluster,
        namespace: &namespace,
        name: &key.name,
        app: app_of(&labels),
        phase,
        ready: format!("{}/{}", containers.iter().filter(|status| status.ready).count(), spec.containers.len()),
        restarts: all.map(|status| status.restart_count).sum(),
        node,
        ip: status.ip.as_deref().unwrap_or_default(),
        created,
        reason: clip(&reason),
        group: label(GROUP),
        unit: label(UNIT),
        ldc: label(LDC),
        image,
        labels: &labels,
    };
    let json = serde_json::to_vec(&row).ok()?;
    // Whatever has ended asks for nothing any more.
    let over = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let requests = |what: &str| {
        let own: f64 = spec.containers.iter().map(|container| container.requests(what)).sum();
        let first = spec.init_containers.iter().flatten().map(|container| container.requests(what));
        if over { 0.0 } else { first.fold(own, f64::max) }
    };
    let ready = is_true(status.conditions.as_deref(), "Ready");
    // What ended as it should is no pod that lacks anything.
    let done = status.phase.as_deref() == Some("Succeeded");
    let sum = Sum { count: (!done).into(), ready: ready.into(), cpu: requests("cpu"), memory: requests("memory") };
    let shape = Shape {
        created,
        phase,
        words: &[node, image, &reason],
        json,
        ..Shape::of(cluster, &namespace, &key.name, &labels)
    };
    let index = apps_of(&labels);
    Some(Made { row: Row::shaped(shape), index, sum })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_pod_that_is_done_counts_neither_as_one_nor_as_missing() {
        let count = |phase: &str| {
            let pod = serde_json::json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": []}, "status": {"phase": phase}});
            let key = Key::new(Some("n"), "p");
            super::pod(&"c".into(), &key, &serde_json::to_vec(&pod).unwrap().into()).unwrap().sum.count
        };
        assert_eq!(["Running", "Failed", "Succeeded"].map(count), [1, 1, 0]);
    }
}
