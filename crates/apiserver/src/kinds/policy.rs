//! policy: how many pods may be missing at a time.

use super::Behaviour;
use super::apps::{int_or_percent, not_more_than_all};
use super::builtin::{PLAIN, Row};
use super::cells::{AGE, age, at, number};
use super::check::{At, condition, label_selector};
use super::metadata;
use jiff::Timestamp;
use meta::table::Column;
use meta::{FieldError, FieldErrors, Object};
use serde_json::Value;
use std::collections::HashSet;

static BUDGET: Behaviour = Behaviour {
    name: metadata::segment,
    generation: true,
    status: true,
    unconditional_update: false,
    columns: COLUMNS,
    cells,
    validate,
    validate_part: |_, new, _| validate_status(new),
    ..PLAIN
};

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    Row { group: "policy", version: "v1", kind: "PodDisruptionBudget", plural: "poddisruptionbudgets", singular: "poddisruptionbudget", short: &["pdb"], namespaced: true, collection: "policy/poddisruptionbudgets", stored_as: None, behaviour: &BUDGET },
];

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Min Available", "string"),
    Column::new("Max Unavailable", "string"),
    Column::new("Allowed Disruptions", "integer"),
    AGE,
];

fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let bound = |path: &str| match at(object, path) {
        Value::Null => "N/A".to_owned(),
        Value::String(percent) => percent.clone(),
        count => count.to_string(),
    };
    vec![
        object.name().into(),
        bound("spec.minAvailable").into(),
        bound("spec.maxUnavailable").into(),
        number(object, "status.disruptionsAllowed").into(),
        age(object, now),
    ]
}

fn validate(object: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &object.0), Vec::new());
    let spec = root.part("spec");
    if spec.has("minAvailable") && spec.has("maxUnavailable") {
        root.invalid("spec", "minAvailable and maxUnavailable cannot be both set", &mut errors);
    }
    for bound in ["minAvailable", "maxUnavailable"] {
        int_or_percent(&spec, bound, &mut errors);
        not_more_than_all(&spec, bound, &mut errors);
    }
    label_selector(&spec.part("selector"), &mut errors);
    spec.one_of("unhealthyPodEvictionPolicy", &["AlwaysAllow", "IfHealthyBudget"], &mut errors);
    errors
}

fn validate_status(new: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &new.0), Vec::new());
    let status = root.part("status");
    let mut seen = HashSet::new();
    for at in status.items("conditions") {
        if !seen.insert(at.text("type")) {
            errors.push(FieldError::duplicate(at.field("type"), at.text("type")));
        }
        condition(&at, &mut errors);
    }
    for count in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        status.non_negative(count, &mut errors);
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_budget_has_one_bound() {
        let told = |spec: Value| -> Vec<String> {
            let object = Object::from_value(json!({"spec": spec})).unwrap();
            validate(&object).iter().map(ToString::to_string).collect()
        };
        assert!(told(json!({"minAvailable": 1})).is_empty() && told(json!({"maxUnavailable": "30%"})).is_empty());
        assert!(told(json!({"minAvailable": 1, "maxUnavailable": 1}))[0].ends_with("cannot be both set"));
        assert_eq!(
            told(json!({"maxUnavailable": "101%"})),
            ["spec.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%"]
        );
        assert!(told(json!({"minAvailable": "some"}))[0].contains("a valid percent string"));
    }
}
