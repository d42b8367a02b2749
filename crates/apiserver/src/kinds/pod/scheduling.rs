//! Where a pod may run: tolerations, affinity, spreading.

use crate::kinds::check::{At, label_selector, label_values, named, requirement_values};
use meta::{FieldError, FieldErrors, Object, name};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};

const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// The tolerations in `spec`.
pub fn tolerations(spec: &At<'_>, errors: &mut FieldErrors) {
    for at in spec.items("tolerations") {
        at.named("key", name::qualified_name, errors);
        let (operator, value) = (at.text("operator"), at.text("value"));
        if at.text("key").is_empty() && operator != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(at.field("operator"), operator, why));
        }
        if at.has("tolerationSeconds") && at.text("effect") != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(FieldError::invalid(at.field("effect"), at.text("effect"), why));
        }
        match operator {
            "" | "Equal" => {
                let wrong = name::label_value(value);
                if !wrong.is_empty() {
                    errors.push(FieldError::invalid(at.field("operator"), value, wrong.join(";")));
                }
            }
            "Exists" if !value.is_empty() => {
                let why = "value must be empty when `operator` is 'Exists'";
                errors.push(FieldError::invalid(at.field("operator"), value, why));
            }
            "Exists" => {}
            _ => at.one_of("operator", &["Equal", "Exists"], errors),
        }
        at.one_of("effect", EFFECTS, errors);
    }
}

pub fn affinity(spec: &At<'_>, errors: &mut FieldErrors) {
    let Some(affinity) = spec.child("affinity") else { return };
    if let Some(node) = affinity.child("nodeAffinity") {
        if let Some(required) = node.child(REQUIRED) {
            node_selector(&required, errors);
        }
        for preferred in node.items(PREFERRED) {
            weight(&preferred, errors);
            node_selector_term(&preferred.part("preference"), false, errors);
        }
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = affinity.child(kind) else { continue };
        for term in pods.items(REQUIRED) {
            pod_affinity_term(&term, errors);
        }
        for preferred in pods.items(PREFERRED) {
            weight(&preferred, errors);
            pod_affinity_term(&preferred.part("podAffinityTerm"), errors);
        }
    }
}

fn weight(at: &At<'_>, errors: &mut FieldErrors) {
    if at.int("weight").is_some_and(|weight| !(1..=100).contains(&weight)) {
        at.invalid("weight", "must be in the range 1-100", errors);
    }
}

pub fn node_selector(at: &At<'_>, errors: &mut FieldErrors) {
    if at.list("nodeSelectorTerms").is_empty() {
        let why = "must have at least one node selector term";
        errors.push(FieldError::required(at.field("nodeSelectorTerms"), why));
    }
    for term in at.items("nodeSelectorTerms") {
        node_selector_term(&term, true, errors);
    }
}

fn node_selector_term(term: &At<'_>, strict: bool, errors: &mut FieldErrors) {
    for requirement in term.items("matchExpressions") {
        match requirement.text("operator") {
            "Gt" | "Lt" => {
                if requirement.list("values").len() != 1 {
                    let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                    errors.push(FieldError::required(requirement.field("values"), why));
                }
            }
            _ => requirement_values(&requirement, errors),
        }
        named(&requirement.field("key"), requirement.text("key"), name::qualified_name, errors);
        if strict {
            label_values(&requirement, errors);
        }
    }
    for requirement in term.items("matchFields") {
        node_field(&requirement, errors);
    }
}

/// Nodes can be chosen by one field: their name.
fn node_field(requirement: &At<'_>, errors: &mut FieldErrors) {
    match requirement.text("operator") {
        "In" | "NotIn" => {
            if requirement.list("values").len() != 1 {
                let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                errors.push(FieldError::required(requirement.field("values"), why));
            }
        }
        operator => {
            let why = "not a valid selector operator";
            errors.push(FieldError::invalid(requirement.field("operator"), operator, why));
        }
    }
    match requirement.text("key") {
        "metadata.name" => {
            for (i, value) in requirement.texts("values").enumerate() {
                named(&format!("{}[{i}]", requirement.field("values")), value, name::dns1123_subdomain, errors);
            }
        }
        key => errors.push(FieldError::invalid(requirement.field("key"), key, "not a valid field selector key")),
    }
}

fn pod_affinity_term(at: &At<'_>, errors: &mut FieldErrors) {
    for selector in ["labelSelector", "namespaceSelector"] {
        if let Some(selector) = at.child(selector) {
            label_selector(&selector, errors);
        }
    }
    for namespace in at.texts("namespaces") {
        named(&at.field("namespace"), namespace, name::dns1123_label, errors);
    }
    label_keys(at, errors);
    let key = at.text("topologyKey");
    if key.is_empty() {
        errors.push(FieldError::required(at.field("topologyKey"), "can not be empty"));
    }
    named(&at.field("topologyKey"), key, name::qualified_name, errors);
}

/// Labels whose values of the pod itself count: known names, each in one place. The selector holds them already (`follow_labels`).
fn label_keys(at: &At<'_>, errors: &mut FieldErrors) {
    for keys in ["matchLabelKeys", "mismatchLabelKeys"].into_iter().filter(|keys| !at.list(keys).is_empty()) {
        if !at.has("labelSelector") {
            at.forbidden(keys, "must not be specified when labelSelector is not set", errors);
            continue;
        }
        for (i, key) in at.texts(keys).enumerate() {
            named(&format!("{}[{i}]", at.field(keys)), key, name::qualified_name, errors);
        }
    }
    let places: HashMap<&str, usize> = at.texts("matchLabelKeys").enumerate().map(|(i, key)| (key, i)).collect();
    let selector = at.part("labelSelector");
    let mut selected: HashSet<&str> = selector.entries("matchLabels").map(|(key, _)| key).collect();
    for requirement in selector.items("matchExpressions") {
        let key = requirement.text("key");
        if let Some(i) = places.get(key).filter(|_| !selected.insert(key)) {
            // Told at the term, not at the list: so does Kubernetes.
            let why = "exists in both matchLabelKeys and labelSelector";
            errors.push(FieldError::invalid(format!("{}[{i}]", at.path()), key, why));
        }
        selected.insert(key);
    }
    let mismatched: HashSet<&str> = at.texts("mismatchLabelKeys").collect();
    for (i, key) in at.texts("matchLabelKeys").enumerate().filter(|(_, key)| mismatched.contains(key)) {
        let why = "exists in both matchLabelKeys and mismatchLabelKeys";
        errors.push(FieldError::invalid(format!("{}[{i}]", at.field("matchLabelKeys")), key, why));
    }
}

/// A new pod's own labels take their place in the selectors that ask for them.
pub fn follow_labels(pod: &mut Object) {
    let labels = pod.meta().get("labels").and_then(Value::as_object).cloned().unwrap_or_default();
    let Some(Value::Object(spec)) = pod.0.get_mut("spec") else { return };
    let mut terms: Vec<&mut Value> = Vec::new();
    // Two parts of the spec at once: a walk over its fields, not two lookups.
    for (field, value) in spec.iter_mut() {
        match field.as_str() {
            "topologySpreadConstraints" => terms.extend(value.as_array_mut().into_iter().flatten()),
            "affinity" => {
                let kinds = value.as_object_mut().into_iter().flatten();
                for (_, kind) in kinds.filter(|(kind, _)| ["podAffinity", "podAntiAffinity"].contains(&kind.as_str())) {
                    for (list, value) in kind.as_object_mut().into_iter().flatten() {
                        let items = value.as_array_mut().into_iter().flatten();
                        match list.as_str() {
                            PREFERRED => terms.extend(items.filter_map(|item| item.get_mut("podAffinityTerm"))),
                            _ => terms.extend(items),
                        }
                    }
                }
            }
            _ => {}
        }
    }
    for term in terms.into_iter().filter_map(Value::as_object_mut) {
        select_own(term, &labels);
    }
}

fn select_own(term: &mut Map<String, Value>, labels: &Map<String, Value>) {
    let mut own = Vec::new();
    for (keys, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let keys = term.get(keys).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let values = keys.filter_map(|key| Some((key, labels.get(key)?)));
        own.extend(values.map(|(key, value)| json!({"key": key, "operator": operator, "values": [value]})));
    }
    if !own.is_empty()
        && let Some(Value::Object(selector)) = term.get_mut("labelSelector")
        && let Value::Array(all) = selector.entry("matchExpressions").or_insert_with(|| json!([]))
    {
        all.extend(own);
    }
}

pub fn spreading(spec: &At<'_>, errors: &mut FieldErrors) {
    const ACTIONS: &[&str] = &["DoNotSchedule", "ScheduleAnyway"];
    let mut last = HashMap::new();
    for (i, at) in spec.items("topologySpreadConstraints").enumerate() {
        last.insert((at.text("topologyKey"), at.text("whenUnsatisfiable")), i);
    }
    for (i, at) in spec.items("topologySpreadConstraints").enumerate() {
        let (key, action) = (at.text("topologyKey"), at.text("whenUnsatisfiable"));
        positive(&at, "maxSkew", errors);
        if key.is_empty() {
            errors.push(FieldError::required(at.field("topologyKey"), "can not be empty"));
        }
        at.one_of("whenUnsatisfiable", ACTIONS, errors);
        if last.get(&(key, action)).is_some_and(|last| *last > i) {
            let field = at.field("{topologyKey, whenUnsatisfiable}");
            errors.push(FieldError::duplicate(field, format!("{{{key}, {action}}}")));
        }
        if at.has("minDomains") {
            positive(&at, "minDomains", errors);
            if action != "DoNotSchedule" {
                let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                at.invalid("minDomains", why, errors);
            }
        }
        at.one_of("nodeAffinityPolicy", &["Honor", "Ignore"], errors);
        at.one_of("nodeTaintsPolicy", &["Honor", "Ignore"], errors);
        label_keys(&at, errors);
        if let Some(selector) = at.child("labelSelector") {
            label_selector(&selector, errors);
        }
    }
}

fn positive(at: &At<'_>, name: &str, errors: &mut FieldErrors) {
    if at.int(name).is_some_and(|n| n <= 0) {
        at.invalid(name, "must be greater than zero", errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(keys: Value, selector: Value) -> Object {
        let term = json!({"topologyKey": "zone", "matchLabelKeys": keys, "labelSelector": selector});
        let spec = json!({"topologySpreadConstraints": [term],
            "affinity": {"podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}}});
        let object = json!({"metadata": {"labels": {"hash": "abc", "app": "x"}}, "spec": spec});
        Object::from_value(object).unwrap()
    }

    #[test]
    fn a_pods_own_labels_join_the_selectors_that_ask_for_them() {
        let mut made = pod(json!(["hash", "absent"]), json!({"matchLabels": {"app": "x"}}));
        follow_labels(&mut made);
        let expected = json!([{"key": "hash", "operator": "In", "values": ["abc"]}]);
        assert_eq!(made.0["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"], expected);
        let preferred = &made.0["spec"]["affinity"]["podAntiAffinity"][PREFERRED][0]["podAffinityTerm"];
        assert_eq!(preferred["labelSelector"]["matchExpressions"], expected);
    }

    #[test]
    fn a_label_is_asked_for_in_one_place() {
        let told = |keys: Value, selector: Value| -> Vec<String> {
            let mut made = pod(keys, selector);
            follow_labels(&mut made);
            let mut errors = Vec::new();
            let root = At::root("", &made.0);
            let spec = root.part("spec");
            spec.items("topologySpreadConstraints").for_each(|term| label_keys(&term, &mut errors));
            errors.iter().map(ToString::to_string).collect()
        };
        assert!(told(json!(["hash"]), json!({"matchLabels": {"app": "x"}})).is_empty());
        assert_eq!(
            told(json!(["app"]), json!({"matchLabels": {"app": "x"}})),
            [
                "spec.topologySpreadConstraints[0][0]: Invalid value: \"app\": exists in both matchLabelKeys and labelSelector"
            ]
        );
        assert_eq!(
            told(json!(["app"]), Value::Null),
            [
                "spec.topologySpreadConstraints[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"
            ]
        );
    }
}
