//! What may be said of a pod that runs.

use super::update::{list_mut, put};
use crate::kinds::check::{At, IMMUTABLE, ip, named};
use meta::{FieldError, FieldErrors, Object, name};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

/// What a write of the status leaves as it was.
pub fn prepare(new: &mut Object, old: &Object) {
    let owners = old.meta().get("ownerReferences").cloned();
    put(new.meta_mut(), "ownerReferences", owners.as_ref());
    let before = old.0.get("status").and_then(Value::as_object);
    let Value::Object(status) = new.0.entry("status").or_insert_with(|| json!({})) else { return };
    // What the server and the kubelet counted is not forgotten by those who do not know it.
    for key in ["qosClass", "observedGeneration"] {
        if let Some(value) = before.and_then(|status| status.get(key)) {
            crate::kinds::defaults::set(status, key, value.clone());
        }
    }
    let conditions = before.and_then(|status| status.get("conditions")).and_then(Value::as_array);
    let kind = |condition: &Value| condition["type"].as_str().unwrap_or_default().to_owned();
    let seen: HashMap<String, &Value> =
        conditions.into_iter().flatten().filter_map(|c| Some((kind(c), c.get("observedGeneration")?))).collect();
    for condition in list_mut(status, "conditions") {
        let kind = condition.get("type").and_then(Value::as_str).unwrap_or_default();
        if let Some(generation) = seen.get(kind).copied() {
            crate::kinds::defaults::set(condition, "observedGeneration", generation.clone());
        }
    }
}

/// The rules of a status.
pub fn check(new: &At<'_>, old: &At<'_>, errors: &mut FieldErrors) {
    let (status, was) = (new.part("status"), old.part("status"));
    for condition in status.items("conditions") {
        if condition.int("observedGeneration").is_some_and(|generation| generation < 0) {
            condition.invalid("observedGeneration", "must be a non-negative integer", errors);
        }
        let kind = condition.text("type");
        if kind.contains('/') {
            named(&condition.field("type"), kind, name::qualified_name, errors);
        }
    }
    let nominated = status.text("nominatedNodeName");
    if nominated != was.text("nominatedNodeName") {
        status.named("nominatedNodeName", name::dns1123_subdomain, errors);
    }
    if status.int("observedGeneration").is_some_and(|generation| generation < 0) {
        status.invalid("observedGeneration", "must be a non-negative integer", errors);
    }
    if status.value("qosClass") != was.value("qosClass") {
        status.invalid("qosClass", IMMUTABLE, errors);
    }
    for list in ["containerStatuses", "initContainerStatuses"] {
        if old.part("spec").text("restartPolicy") != "Always" {
            no_resurrection(&status, &was, old.part("spec").text("restartPolicy"), list, errors);
        }
    }
    for (i, address) in status.items("podIPs").enumerate() {
        named(&format!("status.podIPs[{i}]"), address.text("ip"), ip, errors);
    }
}

/// A container that ended for good does not run again.
fn no_resurrection(status: &At<'_>, was: &At<'_>, restart: &str, list: &str, errors: &mut FieldErrors) {
    let mut running = HashSet::new();
    for new in status.items(list).filter(|new| !new.part("state").has("terminated")) {
        running.insert(new.text("name"));
    }
    for (i, old) in was.items(list).enumerate() {
        let state = old.part("state");
        let Some(ended) = state.child("terminated") else { continue };
        if restart == "OnFailure" && ended.int("exitCode").unwrap_or_default() != 0 {
            continue;
        }
        if running.contains(old.text("name")) {
            let field = format!("{}[{i}].state", status.field(list));
            errors.push(FieldError::forbidden(field, "may not be transitioned to non-terminated state"));
        }
    }
}
