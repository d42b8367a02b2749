//! Nodes.

use super::check::{At, cidr, named};
use super::columns::{AGE, age};
use super::pod::amount;
use crate::objects::Part;
use jiff::Timestamp;
use meta::table::Column;
use meta::{FieldError, FieldErrors, Object, name};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub fn default(node: &mut Object) {
    super::defaults::apply("core/v1.Node", &mut node.0);
}

/// Nothing is scheduled to a node before it has been seen ready.
pub fn prepare_create(node: &mut Object) {
    forget_config(node);
    let Value::Object(spec) = node.0.entry("spec").or_insert_with(|| json!({})) else { return };
    let Value::Array(taints) = spec.entry("taints").or_insert_with(|| json!([])) else { return };
    if !taints.iter().any(|taint| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule") {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    }
}

pub fn prepare_update(node: &mut Object, _: &Object) {
    forget_config(node);
}

/// Kubelets are no longer configured through the API.
fn forget_config(node: &mut Object) {
    for (part, field) in [("spec", "configSource"), ("status", "config")] {
        if let Some(Value::Object(part)) = node.0.get_mut(part) {
            part.remove(field);
        }
    }
}

pub fn validate(node: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let root = At::root("", &node.0);
    let (spec, status) = (root.part("spec"), root.part("status"));
    taints(&spec, &mut errors);
    resources(&status, &mut errors);
    let cidrs: Vec<&str> = spec.texts("podCIDRs").collect();
    for (i, value) in cidrs.iter().enumerate() {
        named(&format!("spec.podCIDRs[{i}]"), value, cidr, &mut errors);
    }
    let families: BTreeSet<bool> = cidrs.iter().map(|value| value.contains(':')).collect();
    if cidrs.len() > families.len() {
        spec.invalid("podCIDRs", "may specify no more than one CIDR for each IP family", &mut errors);
    }
    errors
}

/// Taints are told below the metadata: so does Kubernetes.
fn taints(spec: &At<'_>, errors: &mut FieldErrors) {
    let at = At::root("metadata", spec.map);
    let mut seen = BTreeSet::new();
    for taint in at.items("taints") {
        named(&taint.field("key"), taint.text("key"), name::qualified_name, errors);
        let wrong = name::label_value(taint.text("value"));
        if !wrong.is_empty() {
            taint.invalid("value", wrong.join(";"), errors);
        }
        if taint.required("effect", errors) {
            taint.one_of("effect", EFFECTS, errors);
        }
        if !seen.insert((taint.text("key"), taint.text("effect"))) {
            let mut error = FieldError::duplicate(taint.path(), Value::Object(taint.map.clone()));
            error.detail = "taints must be unique by key and effect pair".into();
            errors.push(error);
        }
    }
}

fn resources(status: &At<'_>, errors: &mut FieldErrors) {
    for list in ["capacity", "allocatable"] {
        for (resource, value) in status.entries(list) {
            amount(&format!("status.{list}.{resource}"), resource, value, errors);
        }
    }
}

pub fn validate_update(new: &Object, old: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let (root, old_root) = (At::root("", &new.0), At::root("", &old.0));
    let (spec, was) = (root.part("spec"), old_root.part("spec"));
    addresses(&root.part("status"), &mut errors);
    if was.has("podCIDRs") && was.value("podCIDRs") != spec.value("podCIDRs") {
        let why = "node updates may not change podCIDR except from \"\" to valid";
        spec.forbidden("podCIDRs", why, &mut errors);
    }
    if was.has("providerID") && was.value("providerID") != spec.value("providerID") {
        let why = "node updates may not change providerID except from \"\" to valid";
        spec.forbidden("providerID", why, &mut errors);
    }
    if was.value("externalID") != spec.value("externalID") {
        spec.forbidden("externalID", "may not be updated", &mut errors);
    }
    errors
}

fn addresses(status: &At<'_>, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for address in status.items("addresses") {
        if !seen.insert((address.text("type"), address.text("address"))) {
            errors.push(FieldError::duplicate(address.path(), Value::Object(address.map.clone())));
        }
    }
}

pub fn validate_part(_: Part, new: &Object, _: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let root = At::root("", &new.0);
    resources(&root.part("status"), &mut errors);
    addresses(&root.part("status"), &mut errors);
    errors
}

pub const COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Status", "string"),
    Column::new("Roles", "string"),
    AGE,
    Column::new("Version", "string"),
    Column::new("Internal-IP", "string").wide(),
    Column::new("External-IP", "string").wide(),
    Column::new("OS-Image", "string").wide(),
    Column::new("Kernel-Version", "string").wide(),
    Column::new("Container-Runtime", "string").wide(),
];

pub fn cells(node: &Object, now: Timestamp) -> Vec<Value> {
    let root = At::root("", &node.0);
    let status = root.part("status");
    let ready = status.items("conditions").filter(|c| c.text("type") == "Ready").last();
    let mut state = match ready {
        Some(ready) if ready.text("status") == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if root.part("spec").flag("unschedulable") {
        state.push_str(",SchedulingDisabled");
    }
    let roles: BTreeSet<&str> = node
        .labels()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None => (key == "kubernetes.io/role").then_some(value),
        })
        .filter(|role| !role.is_empty())
        .collect();
    let roles = if roles.is_empty() { "<none>".to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") };
    let address = |kind: &str| {
        let found = status.items("addresses").find(|address| address.text("type") == kind);
        Value::from(found.map_or_else(|| "<none>".to_owned(), |address| address.text("address").to_owned()))
    };
    let info = status.part("nodeInfo");
    let known = |key: &str| Value::from(if info.text(key).is_empty() { "<unknown>" } else { info.text(key) });
    vec![
        node.name().into(),
        state.into(),
        roles.into(),
        age(node, now),
        info.text("kubeletVersion").into(),
        address("InternalIP"),
        address("ExternalIP"),
        known("osImage"),
        known("kernelVersion"),
        known("containerRuntimeVersion"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_node_is_tainted_once() {
        let mut node = Object::from_value(json!({"metadata": {"name": "n"}})).unwrap();
        prepare_create(&mut node);
        prepare_create(&mut node);
        assert_eq!(node.0["spec"]["taints"], json!([{"key": NOT_READY, "effect": "NoSchedule"}]));
    }

    #[test]
    fn a_pod_cidr_is_given_once() {
        let node = |cidr: Value| Object::from_value(json!({"spec": {"podCIDRs": cidr}})).unwrap();
        let (none, one, other) = (node(json!([])), node(json!(["10.0.0.0/24"])), node(json!(["10.1.0.0/24"])));
        assert_eq!(validate_update(&other, &one).len(), 1);
        assert!(validate_update(&one, &Object::default()).is_empty() && validate_update(&one, &one).is_empty());
        assert!(validate(&one).is_empty() && validate(&none).is_empty());
        assert_eq!(validate(&node(json!(["10.0.0.0/24", "10.1.0.0/24"]))).len(), 1);
        assert_eq!(validate(&node(json!(["10.0.0.0"]))).len(), 1);
    }

    #[test]
    fn a_cordoned_node_says_so() {
        let node = json!({"metadata": {"name": "n", "labels": {"node-role.kubernetes.io/worker": ""}},
            "spec": {"unschedulable": true}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let cells = cells(&Object::from_value(node).unwrap(), Timestamp::UNIX_EPOCH);
        assert_eq!(cells[1], "Ready,SchedulingDisabled");
        assert_eq!(cells[2], "worker");
    }
}
