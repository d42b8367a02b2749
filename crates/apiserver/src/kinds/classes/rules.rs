//! What priority and runtime classes must keep.

use crate::Inner;
use crate::kinds::check::{At, IMMUTABLE, named};
use crate::kinds::pod;
use crate::objects::storage;
use meta::{FieldError, FieldErrors, Object, Status, name};
use serde_json::Value;
use std::collections::HashSet;
use store::Range;

const HIGHEST: i64 = 1_000_000_000;
const SYSTEM_PREFIX: &str = "system-";

/// The classes the system itself makes: name, value, description.
pub const SYSTEM_PRIORITIES: &[(&str, i64, &str)] = &[
    (
        "system-node-critical",
        2 * HIGHEST + 1000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2 * HIGHEST,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

pub fn priority_class(object: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &object.0), Vec::new());
    if object.name().starts_with(SYSTEM_PREFIX) {
        if let Some(why) = not_a_system_class(&root, object.name()) {
            let why = format!(
                "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {why}"
            );
            errors.push(FieldError::forbidden("metadata.name", why));
        }
    } else if root.int("value").is_some_and(|value| value > HIGHEST) {
        let why = format!("maximum allowed value of a user defined priority is {HIGHEST}");
        root.forbidden("value", &why, &mut errors);
    }
    if root.has("preemptionPolicy") && root.text("preemptionPolicy").is_empty() {
        errors.push(FieldError::required("preemptionPolicy", ""));
    } else {
        root.one_of("preemptionPolicy", &["PreemptLowerPriority", "Never"], &mut errors);
    }
    errors
}

/// There is one default class at most.
pub fn single_default(api: &Inner, object: &mut Object, _: Option<&Object>) -> Result<(), Status> {
    let served = api.served.get();
    let Some(kind) = served.registry.by_type(object.api_version(), object.kind()) else { return Ok(()) };
    if !At::root("", &object.0).flag("globalDefault") {
        return Ok(());
    }
    let range = Range { collection: &kind.collection, prefix: "", after: None, limit: 0, at: None };
    let classes = api.store.range(&range, |item, _| item != object.name()).map_err(storage)?;
    for (item, entry) in classes.items {
        let class = api.decode_stored(kind, &entry.value, entry.revision)?;
        if At::root("", &class.0).flag("globalDefault") {
            let why = format!("PriorityClass {item} is already marked as default. Only one default can exist");
            return Err(Status::forbidden(kind.resource(), object.name(), &why));
        }
    }
    Ok(())
}

fn not_a_system_class(root: &At<'_>, name: &str) -> Option<String> {
    let Some((_, value, _)) = SYSTEM_PRIORITIES.iter().find(|(known, ..)| *known == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if root.int("value").unwrap_or_default() != *value {
        return Some(format!("value of {name} PriorityClass must be {value}"));
    }
    root.flag("globalDefault").then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

pub fn priority_class_update(new: &Object, old: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &new.0), Vec::new());
    let old = At::root("", &old.0);
    if root.int("value").unwrap_or_default() != old.int("value").unwrap_or_default() {
        root.forbidden("value", "may not be changed in an update.", &mut errors);
    }
    if root.value("preemptionPolicy") != old.value("preemptionPolicy") {
        root.invalid("preemptionPolicy", IMMUTABLE, &mut errors);
    }
    errors
}

pub fn runtime_class(object: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &object.0), Vec::new());
    named("handler", root.text("handler"), name::dns1123_label, &mut errors);
    if let Some(overhead) = root.child("overhead") {
        let limits = serde_json::Map::from_iter([("limits".to_owned(), overhead.value("podFixed").clone())]);
        pod::check_resources(&At::root("overhead", &limits), &Default::default(), &mut errors);
    }
    let Some(scheduling) = root.child("scheduling") else { return errors };
    scheduling.labels("nodeSelector", &mut errors);
    // Kubernetes tells these one step deeper than they are.
    let tolerations = At::root("scheduling.tolerations", scheduling.map);
    pod::tolerations(&tolerations, &mut errors);
    let mut seen = HashSet::new();
    for toleration in scheduling.items("tolerations") {
        if !seen.insert(["key", "operator", "value", "effect"].map(|field| toleration.text(field))) {
            errors.push(FieldError::duplicate(toleration.path(), Value::Object(toleration.map.clone())));
        }
    }
    errors
}

pub fn runtime_class_warnings(object: &Object) -> Vec<String> {
    let root = At::root("", &object.0);
    let scheduling = root.part("scheduling");
    let old = scheduling.entries("nodeSelector").filter_map(|(key, _)| pod::old_node_label(key));
    old.map(|why| format!("scheduling.nodeSelector: {why}")).collect()
}

pub fn runtime_class_update(new: &Object, old: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    if new.0.get("handler") != old.0.get("handler") {
        At::root("", &new.0).invalid("handler", IMMUTABLE, &mut errors);
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(name: &str, value: i64) -> Vec<String> {
        let object = json!({"metadata": {"name": name}, "value": value});
        priority_class(&Object::from_value(object).unwrap()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_system_keeps_the_highest_priorities_to_itself() {
        assert!(told("mine", HIGHEST).is_empty());
        assert_eq!(
            told("mine", HIGHEST + 1),
            ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"]
        );
        assert!(told("system-cluster-critical", 2 * HIGHEST).is_empty());
        assert!(told("system-cluster-critical", 1)[0].ends_with("PriorityClass must be 2000000000"));
        assert!(told("system-mine", 1)[0].ends_with("system-mine is not a known system priority class"));
    }
}
