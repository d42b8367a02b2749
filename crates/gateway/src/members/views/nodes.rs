//! Nodes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use fleet::{Bytes, Key};
use serde::{Deserialize, Serialize};

use super::object::{Condition, Object, is_true};
use super::{Labels, Made, Sum};
use crate::apiext::row::{Row, Shape};
use crate::members::quantity;

#[derive(Default, Deserialize)]
struct NodeSpec {
    #[serde(default)]
    unschedulable: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeStatus<'a> {
    #[serde(borrow, default)]
    allocatable: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
    #[serde(borrow, default)]
    conditions: Option<Vec<Condition<'a>>>,
    #[serde(borrow, default)]
    node_info: Option<NodeInfo<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeInfo<'a> {
    #[serde(borrow, default)]
    kubelet_version: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct NodeRow<'a> {
    cluster: &'a str,
    name: &'a str,
    phase: &'a str,
    ready: bool,
    schedulable: bool,
    roles: Vec<&'a str>,
    version: &'a str,
    cpu: f64,
    memory: f64,
    pods: f64,
    created: &'a str,
    labels: &'a Labels<'a>,
}

pub(super) fn node(cluster: &Arc<str>, key: &Key, object: &Bytes) -> Option<Made> {
    let text = object.json();
    let Object { metadata, spec, status } =
        serde_json::from_slice::<Object<'_, NodeSpec, NodeStatus<'_>>>(&text).ok()?;
    let status = status.unwrap_or_default();
    let labels = metadata.labels.unwrap_or_default();
    let ready = is_true(status.conditions.as_deref(), "Ready");
    let has = |what: &str| {
        let given = status.allocatable.as_ref().and_then(|given| given.get(what));
        given.map_or(0.0, |text| quantity::parse(text).max(0.0))
    };
    let created = metadata.creation_timestamp.as_deref().unwrap_or_default();
    let phase = if ready { "Ready" } else { "NotReady" };
    let row = NodeRow {
        cluster,
        name: &key.name,
        phase,
        ready,
        schedulable: !spec.unwrap_or_default().unschedulable.unwrap_or(false),
        roles: labels.keys().filter_map(|key| key.strip_prefix("node-role.kubernetes.io/")).collect(),
        version: status.node_info.as_ref().and_then(|info| info.kubelet_version.as_deref()).unwrap_or_default(),
        cpu: has("cpu"),
        memory: has("memory"),
        pods: has("pods"),
        created,
        labels: &labels,
    };
    let json = serde_json::to_vec(&row).ok()?;
    let sum = Sum { count: 1, ready: ready.into(), cpu: row.cpu, memory: row.memory };
    let nowhere = Arc::from("");
    let shape = Shape { created, phase, json, ..Shape::of(cluster, &nowhere, &key.name, &labels) };
    Some(Made { row: Row::shaped(shape), index: vec![], sum })
}
