//! What `kubectl get` prints for autoscalers: each metric as it is and as it should be.

use crate::kinds::cells::{AGE, age, at, number, text};
use jiff::Timestamp;
use meta::Object;
use meta::table::Column;
use serde_json::Value;

pub const COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Reference", "string"),
    Column::new("Targets", "string"),
    Column::new("MinPods", "string"),
    Column::new("MaxPods", "string"),
    Column::new("Replicas", "string"),
    AGE,
];

pub fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let min = at(object, "spec.minReplicas").as_i64().map_or("<unset>".to_owned(), |n| n.to_string());
    vec![
        object.name().into(),
        format!("{}/{}", text(object, "spec.scaleTargetRef.kind"), text(object, "spec.scaleTargetRef.name")).into(),
        targets(object).into(),
        min.into(),
        number(object, "spec.maxReplicas").into(),
        number(object, "status.currentReplicas").into(),
        age(object, now),
    ]
}

fn targets(object: &Object) -> String {
    const SHOWN: usize = 2;
    let list = |path: &str| at(object, path).as_array().map(Vec::as_slice).unwrap_or_default();
    let (specs, statuses) = (list("spec.metrics"), list("status.currentMetrics"));
    if specs.is_empty() {
        return "<none>".into();
    }
    let shown: Vec<String> =
        specs.iter().enumerate().take(SHOWN).map(|(i, spec)| target(spec, statuses.get(i))).collect();
    match specs.len().checked_sub(SHOWN) {
        Some(more @ 1..) => format!("{} + {more} more...", shown.join(", ")),
        _ => shown.join(", "),
    }
}

fn target(spec: &Value, status: Option<&Value>) -> String {
    let source = match spec["type"].as_str().unwrap_or_default() {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".into(),
    };
    let (wanted, current) = (&spec[source]["target"], status.map(|status| &status[source]["current"]));
    let is = |field: &str| current.and_then(|current| current[field].as_str()).unwrap_or("<unknown>").to_owned();
    let should = |field: &str| wanted[field].as_str().map(str::to_owned);
    let percent = |value: &Value, none: &str| value.as_i64().map_or(none.to_owned(), |n| format!("{n}%"));
    let average = should("averageValue");
    match source {
        "resource" | "containerResource" => {
            let name = spec[source]["name"].as_str().unwrap_or_default();
            match average {
                Some(average) => format!("{name}: {}/{average}", is("averageValue")),
                None => {
                    let is = current.map_or("<unknown>".to_owned(), |c| percent(&c["averageUtilization"], "<unknown>"));
                    format!("{name}: {is}/{}", percent(&wanted["averageUtilization"], "<auto>"))
                }
            }
        }
        "pods" => format!("{}/{}", is("averageValue"), average.unwrap_or_default()),
        _ => match average {
            Some(average) => format!("{}/{average} (avg)", is("averageValue")),
            None => format!("{}/{}", is("value"), should("value").unwrap_or_default()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn targets_show_what_is_and_what_should_be() {
        let object = |metrics: Value, current: Value| {
            Object::from_value(json!({"spec": {"metrics": metrics}, "status": {"currentMetrics": current}})).unwrap()
        };
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}});
        let pods = json!({"type": "Pods", "pods": {"target": {"averageValue": "10"}}});
        let now = json!([{"resource": {"current": {"averageUtilization": 40}}}]);
        assert_eq!(targets(&object(json!([cpu]), now)), "cpu: 40%/80%");
        assert_eq!(
            targets(&object(json!([cpu, pods, cpu]), json!(null))),
            "cpu: <unknown>/80%, <unknown>/10 + 1 more..."
        );
        assert_eq!(targets(&object(json!([]), json!([]))), "<none>");
    }
}
