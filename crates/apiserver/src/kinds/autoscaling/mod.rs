//! autoscaling: HorizontalPodAutoscaler, one collection in two versions. It is stored as v2; v1 shows what it can of it.

mod columns;
mod convert;
mod rules;

use super::builtin::{PLAIN, Row};
use super::defaults::{self, set};
use super::{Behaviour, StoredAs};
use meta::Object;
use serde_json::{Map, Value, json};

static AUTOSCALER: Behaviour = Behaviour {
    status: true,
    categories: &["all"],
    columns: columns::COLUMNS,
    cells: columns::cells,
    default: |object| defaults::apply("autoscaling/v2.HorizontalPodAutoscaler", &mut object.0),
    prepare_create: drop_tolerance,
    prepare_update: |new, _| drop_tolerance(new),
    validate: rules::validate,
    validate_part: |_, new, old| rules::validate_status(new, old),
    ..PLAIN
};

/// What v1 holds is checked as what it is stored as.
static AUTOSCALER_V1: Behaviour = Behaviour {
    default: |object| {
        defaults::apply("autoscaling/v1.HorizontalPodAutoscaler", &mut object.0);
        convert::default_v1(object);
    },
    // What annotations say of it counts more than the fields.
    authored: Some(|object| {
        convert::to_v2(object);
        convert::to_v1(object);
    }),
    prepare_create: |_| {},
    prepare_update: |_, _| {},
    validate: |new| rules::validate(&as_stored(new)),
    ..AUTOSCALER
};

fn as_stored(object: &Object) -> Object {
    let mut stored = object.clone();
    convert::to_v2(&mut stored);
    stored
}

fn stored_as_v2() -> StoredAs {
    StoredAs { api_version: "autoscaling/v2", renames: &[], to_stored: convert::to_v2, to_served: convert::to_v1 }
}

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    Row { group: "autoscaling", version: "v2", kind: "HorizontalPodAutoscaler", plural: "horizontalpodautoscalers", singular: "horizontalpodautoscaler", short: &["hpa"], namespaced: true, collection: "autoscaling/horizontalpodautoscalers", stored_as: None, behaviour: &AUTOSCALER },
    Row { group: "autoscaling", version: "v1", kind: "HorizontalPodAutoscaler", plural: "horizontalpodautoscalers", singular: "horizontalpodautoscaler", short: &["hpa"], namespaced: true, collection: "autoscaling/horizontalpodautoscalers", stored_as: Some(stored_as_v2), behaviour: &AUTOSCALER_V1 },
];

#[rustfmt::skip]
pub const DEFAULTS: &[defaults::Row] = &[
    ("autoscaling/v1.HorizontalPodAutoscalerSpec", r#"{"minReplicas":1}"#, defaults::nothing),
    ("autoscaling/v2.HorizontalPodAutoscalerBehavior", r#"{"scaleDown":{},"scaleUp":{}}"#, scaling_rules),
    ("autoscaling/v2.HorizontalPodAutoscalerSpec", r#"{"minReplicas":1}"#, cpu_metric),
];

const CPU_UTILIZATION: i64 = 80;

/// Without a metric, processors are to be busy four fifths of the time.
fn cpu_metric(spec: &mut Map<String, Value>) {
    if spec.get("metrics").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        spec.insert("metrics".into(), json!([convert::cpu(CPU_UTILIZATION)]));
    }
}

/// Up at once, by four pods or to the double; down without a limit.
fn scaling_rules(behavior: &mut Map<String, Value>) {
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    for (direction, policies) in [("scaleUp", json!([pods, percent])), ("scaleDown", json!([percent]))] {
        let Some(Value::Object(rules)) = behavior.get_mut(direction) else { continue };
        if direction == "scaleUp" {
            set(rules, "stabilizationWindowSeconds", 0);
        }
        set(rules, "selectPolicy", "Max");
        set(rules, "policies", policies);
    }
}

/// A tolerance of one's own is a feature that is off.
fn drop_tolerance(object: &mut Object) {
    for direction in ["scaleUp", "scaleDown"] {
        let rules = object.0.get_mut("spec").and_then(|spec| spec.get_mut("behavior")?.get_mut(direction));
        if let Some(Value::Object(rules)) = rules {
            rules.remove("tolerance");
        }
    }
}
