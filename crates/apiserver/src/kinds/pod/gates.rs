//! Pods that wait for their gates: these only go, and where the pod may run becomes narrower.

use super::update::put;
use crate::kinds::check::At;
use meta::{FieldError, FieldErrors};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Gates open one by one; none is added.
pub fn only_removed(spec: &At<'_>, was: &At<'_>, errors: &mut FieldErrors) {
    let had: HashSet<&str> = was.items("schedulingGates").map(|gate| gate.text("name")).collect();
    for gate in spec.items("schedulingGates").filter(|gate| !had.contains(gate.text("name"))) {
        let why = "only deletion is allowed, but found new scheduling gate";
        let why = format!("{why} '{}'", gate.text("name"));
        errors.push(FieldError::forbidden(gate.field("name"), why));
    }
}

/// A pod that waits may still be told where to run, more narrowly. What may change is in `munged` as it was.
pub fn narrower(spec: &At<'_>, was: &At<'_>, munged: &mut Map<String, Value>, errors: &mut FieldErrors) {
    let kept = was.entries("nodeSelector").all(|(key, value)| spec.part("nodeSelector").value(key) == value);
    if !kept {
        let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        spec.invalid("nodeSelector", why, errors);
    }
    put(munged, "nodeSelector", was.map.get("nodeSelector"));
    let (affinity, before) = (spec.part("affinity"), was.part("affinity"));
    if affinity.value("nodeAffinity") == before.value("nodeAffinity") {
        return;
    }
    narrower_nodes(&affinity.part("nodeAffinity"), &before.part("nodeAffinity"), errors);
    let old = before.map.get("nodeAffinity");
    match munged.get_mut("affinity").and_then(Value::as_object_mut) {
        None => put(munged, "affinity", old.map(|old| json!({"nodeAffinity": old})).as_ref()),
        Some(now) if !was.has("affinity") && now.keys().all(|key| key == "nodeAffinity") => {
            munged.remove("affinity");
        }
        Some(now) => put(now, "nodeAffinity", old),
    }
}

/// Terms that are required stay, each with what it asks for; more may be asked for.
fn narrower_nodes(nodes: &At<'_>, before: &At<'_>, errors: &mut FieldErrors) {
    let (required, old) = (nodes.part(REQUIRED), before.part(REQUIRED));
    let (now, was) = (required.list("nodeSelectorTerms"), old.list("nodeSelectorTerms"));
    if !was.is_empty() && now.len() != was.len() {
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        required.invalid("nodeSelectorTerms", why, errors);
        return;
    }
    for (term, old) in required.items("nodeSelectorTerms").zip(old.items("nodeSelectorTerms")) {
        let bare = |term: &At<'_>| term.list("matchExpressions").is_empty() && term.list("matchFields").is_empty();
        let begins = |list: &str| term.list(list).starts_with(old.list(list));
        // A term that asks for nothing selects nothing: asking for something would widen it.
        if (bare(&old) && !bare(&term)) || !begins("matchExpressions") || !begins("matchFields") {
            let whole = Value::Object(term.map.clone());
            let why = "only additions are allowed (no mutations or deletions)";
            errors.push(FieldError::invalid(term.path(), whole, why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(new: Value, old: Value) -> (Vec<String>, bool) {
        let (new, old) = (json!({"affinity": new}), json!({"affinity": old}));
        let (new, old) = (new.as_object().unwrap(), old.as_object().unwrap());
        let (mut munged, mut errors) = (new.clone(), Vec::new());
        narrower(&At::root("spec", new), &At::root("spec", old), &mut munged, &mut errors);
        (errors.iter().map(|error| error.field.clone()).collect(), munged == *old)
    }

    #[test]
    fn a_gated_pod_asks_for_more_and_never_for_less() {
        let wants = |keys: &[&str]| {
            let all: Vec<Value> = keys.iter().map(|key| json!({"key": key, "operator": "Exists"})).collect();
            json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": all}]}}})
        };
        assert_eq!(told(wants(&["a", "b"]), wants(&["a"])), (vec![], true));
        let terms = format!("spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
        assert_eq!(told(wants(&["b"]), wants(&["a"])).0, [format!("{terms}[0]")]);
        assert_eq!(told(json!({}), wants(&["a"])).0, [terms]);
        assert_eq!(told(wants(&["a"]), json!({})), (vec![], true));
    }
}
