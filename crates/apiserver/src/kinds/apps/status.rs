//! What the status of a workload must keep: nothing negative, no part larger than the whole.

use crate::kinds::check::At;
use meta::{FieldError, FieldErrors, Object};

const REPLICAS: &str = "cannot be greater than status.replicas";

fn counts(status: &At<'_>, names: &[&str], errors: &mut FieldErrors) {
    names.iter().for_each(|name| status.non_negative(name, errors));
}

fn at_most(status: &At<'_>, name: &str, whole: &str, why: &str, errors: &mut FieldErrors) {
    let count = |name: &str| status.int(name).unwrap_or_default();
    if count(name) > count(whole) {
        errors.push(FieldError::invalid(status.field(name), count(name), why));
    }
}

/// Hash collisions are counted up, never down.
fn collisions(new: &Object, old: &Object, errors: &mut FieldErrors) {
    let count = |object: &Object| At::root("", &object.0).part("status").int("collisionCount");
    let (is, was) = (count(new), count(old));
    if was.is_some_and(|was| is.unwrap_or_default() < was) {
        let is = is.unwrap_or_default();
        errors.push(FieldError::invalid("status.collisionCount", is, "cannot be decremented"));
    }
}

pub fn deployment(new: &Object, old: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &new.0), Vec::new());
    let status = root.part("status");
    let names = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    counts(&status, &names, &mut errors);
    for part in ["updatedReplicas", "readyReplicas", "availableReplicas"] {
        at_most(&status, part, "replicas", REPLICAS, &mut errors);
    }
    at_most(&status, "availableReplicas", "readyReplicas", "cannot be greater than readyReplicas", &mut errors);
    collisions(new, old, &mut errors);
    errors
}

pub fn replica_set(new: &Object, _: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &new.0), Vec::new());
    let status = root.part("status");
    let names = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    counts(&status, &names, &mut errors);
    for part in ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
        at_most(&status, part, "replicas", REPLICAS, &mut errors);
    }
    at_most(&status, "availableReplicas", "readyReplicas", "cannot be greater than readyReplicas", &mut errors);
    errors
}

pub fn stateful_set(new: &Object, old: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &new.0), Vec::new());
    let status = root.part("status");
    let names = [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ];
    counts(&status, &names, &mut errors);
    for part in ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"] {
        at_most(&status, part, "replicas", REPLICAS, &mut errors);
    }
    at_most(&status, "availableReplicas", "readyReplicas", "cannot be greater than status.readyReplicas", &mut errors);
    collisions(new, old, &mut errors);
    errors
}

pub fn daemon_set(new: &Object, old: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &new.0), Vec::new());
    let names = [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ];
    counts(&root.part("status"), &names, &mut errors);
    collisions(new, old, &mut errors);
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(status: serde_json::Value) -> Object {
        Object::from_value(json!({"status": status})).unwrap()
    }

    fn told(errors: FieldErrors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn no_part_is_larger_than_the_whole() {
        let new = object(json!({"replicas": 1, "readyReplicas": 2, "availableReplicas": 3}));
        assert_eq!(
            told(deployment(&new, &object(json!({})))),
            [
                "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
                "status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
                "status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas",
            ]
        );
    }

    #[test]
    fn collisions_are_not_forgotten() {
        let errors = daemon_set(&object(json!({})), &object(json!({"collisionCount": 2})));
        assert_eq!(told(errors), ["status.collisionCount: Invalid value: 0: cannot be decremented"]);
    }
}
