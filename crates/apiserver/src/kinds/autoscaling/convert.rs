//! autoscaling/v1 knows one metric, the use of processors. What else a v2 object holds travels in annotations and back.

use meta::Object;
use serde_json::{Map, Value, json};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CURRENT: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";

/// Where a field of a metric stands in v2, and its name in v1; `{}` is the side: what should be (`target`) or what is (`current`).
type Names = &'static [(&'static str, &'static str)];

#[rustfmt::skip]
const SOURCES: &[(&str, Names)] = &[
    ("object", &[("/describedObject", "target"), ("/metric/name", "metricName"), ("/metric/selector", "selector"), ("/{}/value", "{}Value"), ("/{}/averageValue", "averageValue")]),
    ("pods", &[("/metric/name", "metricName"), ("/metric/selector", "selector"), ("/{}/averageValue", "{}AverageValue")]),
    ("resource", &[("/name", "name"), ("/{}/averageUtilization", "{}AverageUtilization"), ("/{}/averageValue", "{}AverageValue")]),
    ("containerResource", &[("/name", "name"), ("/container", "container"), ("/{}/averageUtilization", "{}AverageUtilization"), ("/{}/averageValue", "{}AverageValue")]),
    ("external", &[("/metric/name", "metricName"), ("/metric/selector", "metricSelector"), ("/{}/value", "{}Value"), ("/{}/averageValue", "{}AverageValue")]),
];

/// The order of the fields in the annotations.
#[rustfmt::skip]
const ORDER: &[&str] = &[
    "type", "status", "lastTransitionTime", "reason", "message", "object", "pods", "resource", "containerResource", "external",
    "target", "kind", "name", "apiVersion", "metricName", "metricSelector", "targetValue", "currentValue", "targetAverageUtilization",
    "currentAverageUtilization", "targetAverageValue", "currentAverageValue", "container", "selector", "averageValue", "matchLabels",
    "matchExpressions", "ScaleUp", "ScaleDown", "StabilizationWindowSeconds", "SelectPolicy", "Policies", "Type", "Value", "PeriodSeconds",
];

/// The metric that processors are busy this many percent of the time.
pub fn cpu(percent: i64) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}})
}

fn cpu_percent(metric: &Value, part: &str) -> Option<i64> {
    let resource =
        metric.get("resource").filter(|resource| metric["type"] == "Resource" && resource["name"] == "cpu")?;
    resource[part]["averageUtilization"].as_i64()
}

fn array(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    }
}

/// The struct in a field, made when it is not there.
fn part<'a>(object: &'a mut Object, name: &str) -> Option<&'a mut Map<String, Value>> {
    object.0.entry(name).or_insert_with(|| json!({})).as_object_mut()
}

/// Without any metric, v1 shows the one that the object gets.
pub fn default_v1(object: &mut Object) {
    let others = note(object, METRICS).is_some_and(|list| list.as_array().is_some_and(|list| !list.is_empty()));
    if let Some(Value::Object(spec)) = object.0.get_mut("spec").filter(|_| !others) {
        super::set(spec, "targetCPUUtilizationPercentage", super::CPU_UTILIZATION);
    }
}

pub fn to_v1(object: &mut Object) {
    let mut notes = Vec::new();
    if let Some(spec) = part(object, "spec") {
        let metrics = array(spec.remove("metrics"));
        let percents = metrics.iter().filter_map(|metric| cpu_percent(metric, "target"));
        if let Some(percent) = percents.clone().next() {
            spec.insert("targetCPUUtilizationPercentage".into(), percent.into());
        }
        let others: Vec<Value> = metrics
            .iter()
            .filter(|metric| cpu_percent(metric, "target").is_none())
            .map(|metric| renamed(metric, "target"))
            .collect();
        if !others.is_empty() {
            notes.push((METRICS, Value::Array(others)));
        }
        if let Some(behavior) = spec.remove("behavior") {
            let mut behavior = recased(&behavior, u8::to_ascii_uppercase);
            // A field that is not told apart from one without a value.
            for rules in behavior.as_object_mut().into_iter().flat_map(|map| map.values_mut()) {
                rules.as_object_mut().map(|rules| rules.entry("Tolerance").or_insert(Value::Null));
            }
            notes.push((BEHAVIOR, behavior));
        }
    }
    if let Some(status) = part(object, "status") {
        let metrics = array(status.remove("currentMetrics"));
        if let Some(percent) = metrics.iter().filter_map(|metric| cpu_percent(metric, "current")).next_back() {
            status.insert("currentCPUUtilizationPercentage".into(), percent.into());
        }
        if !metrics.is_empty() {
            notes.push((CURRENT, metrics.iter().map(|metric| renamed(metric, "current")).collect()));
        }
        if let Some(conditions) =
            status.remove("conditions").filter(|list| list.as_array().is_some_and(|l| !l.is_empty()))
        {
            notes.push((CONDITIONS, conditions));
        }
    }
    drop_notes(object);
    for (key, value) in notes {
        let annotations = object.meta_mut().entry("annotations").or_insert_with(|| json!({}));
        if let Value::Object(annotations) = annotations {
            annotations.insert(key.into(), meta::field::ordered(&value, ORDER, &["Tolerance"]).into());
        }
    }
}

pub fn to_v2(object: &mut Object) {
    let restore = |list: Value, side: &str| -> Option<Value> {
        list.as_array()?.iter().map(|metric| metric.is_object().then(|| restored(metric, side))).collect()
    };
    let specs = note(object, METRICS).and_then(|list| typed("MetricSpec", restore(list, "target")?));
    let behavior = note(object, BEHAVIOR).map(|value| recased(&value, u8::to_ascii_lowercase));
    let behavior = behavior.filter(Value::is_object).and_then(|value| typed("HorizontalPodAutoscalerBehavior", value));
    let statuses = note(object, CURRENT).and_then(|list| typed("MetricStatus", restore(list, "current")?));
    let conditions = note(object, CONDITIONS)
        .filter(Value::is_array)
        .and_then(|list| typed("HorizontalPodAutoscalerCondition", list));
    if let Some(spec) = part(object, "spec") {
        let mut metrics = array(specs);
        if let Some(percent) = spec.remove("targetCPUUtilizationPercentage").and_then(|value| value.as_i64()) {
            metrics.push(cpu(percent));
        }
        if metrics.is_empty() {
            metrics.push(cpu(super::CPU_UTILIZATION));
        }
        spec.insert("metrics".into(), metrics.into());
        if let Some(behavior) = behavior {
            spec.insert("behavior".into(), behavior);
        }
    }
    if let Some(status) = part(object, "status") {
        let percent = status.remove("currentCPUUtilizationPercentage").map(|percent| {
            let current = json!({"averageUtilization": percent});
            json!([{"type": "Resource", "resource": {"name": "cpu", "current": current}}])
        });
        if let Some(current) = statuses.or(percent) {
            status.insert("currentMetrics".into(), current);
        }
        if let Some(conditions) = conditions {
            status.insert("conditions".into(), conditions);
        }
    }
    drop_notes(object);
}

/// What an annotation holds, if it can be read.
fn note(object: &Object, key: &str) -> Option<Value> {
    let text = object.meta().get("annotations")?.get(key)?.as_str()?;
    meta::json::parse(text.as_bytes()).ok().map(|parsed| parsed.value)
}

/// A value of a v2 type, or a list of them; anybody can write an annotation, and what is no such value is not kept.
fn typed(name: &str, mut value: Value) -> Option<Value> {
    let facts = schema::Facts::builtin();
    let ty = facts.named(&format!("autoscaling/v2.{name}"))?;
    match &mut value {
        Value::Array(list) => list.iter_mut().try_for_each(|item| schema::decode(facts, ty, item).map(drop)).ok()?,
        other => schema::decode(facts, ty, other).map(drop).ok()?,
    }
    Some(value)
}

/// Whoever has annotations without these keeps them; none at all are not kept.
fn drop_notes(object: &mut Object) {
    let meta = object.meta_mut();
    if let Some(Value::Object(annotations)) = meta.get_mut("annotations") {
        [METRICS, BEHAVIOR, CURRENT, CONDITIONS].iter().for_each(|key| drop(annotations.remove(*key)));
        if annotations.is_empty() {
            meta.remove("annotations");
        }
    }
}

/// A v2 metric under v1's names.
fn renamed(metric: &Value, side: &str) -> Value {
    let mut out = json!({"type": metric["type"]});
    for (source, names) in SOURCES {
        let Some(inner) = metric.get(*source) else { continue };
        let fields = names.iter().filter_map(|(path, name)| {
            let value = inner.pointer(&path.replace("{}", side))?;
            Some((name.replace("{}", side), value.clone()))
        });
        out[*source] = Value::Object(fields.collect());
    }
    out
}

/// A metric under v1's names as v2 has it; v1 did not say the type of a target.
fn restored(metric: &Value, side: &str) -> Value {
    let mut out = json!({"type": metric["type"]});
    for (source, names) in SOURCES {
        let Some(inner) = metric.get(*source) else { continue };
        let mut made = json!({});
        for (path, name) in *names {
            let Some(value) = inner.get(name.replace("{}", side)) else { continue };
            let mut slot = &mut made;
            for step in path.replace("{}", side).trim_start_matches('/').split('/') {
                slot = &mut slot[step];
            }
            *slot = value.clone();
        }
        if side == "target" {
            made[side]["type"] = target_type(source, &made[side]).into();
        }
        out[*source] = made;
    }
    out
}

fn target_type(source: &str, target: &Value) -> &'static str {
    let has = |field: &str| target.get(field).is_some();
    match source {
        _ if has("averageUtilization") => "Utilization",
        "object" if has("averageValue") => "AverageValue",
        "object" | "external" if has("value") => "Value",
        _ => "AverageValue",
    }
}

/// The annotation for the behavior has Go's names of the fields.
fn recased(value: &Value, case: fn(&u8) -> u8) -> Value {
    match value {
        Value::Object(map) => {
            let fields = map.iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| {
                let first = key.bytes().next().map(|b| char::from(case(&b))).unwrap_or_default();
                (format!("{first}{}", key.get(1..).unwrap_or_default()), recased(value, case))
            });
            Value::Object(fields.collect())
        }
        Value::Array(list) => list.iter().map(|item| recased(item, case)).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn full() -> Object {
        let metrics = json!([
            {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "500Mi"}}},
            {"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "10"}}},
            {"type": "Object", "object": {"describedObject": {"kind": "Ingress", "name": "i"}, "metric": {"name": "hits"},
                "target": {"type": "Value", "value": "2k"}}},
            {"type": "External", "external": {"metric": {"name": "queue", "selector": {}}, "target": {"type": "AverageValue", "averageValue": "30"}}},
            cpu(50),
        ]);
        let object = json!({"metadata": {"name": "a", "annotations": {"x": "1"}},
            "spec": {"maxReplicas": 3, "metrics": metrics, "behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 5}]}}},
            "status": {"currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 40, "averageValue": "1"}}}],
                "conditions": [{"type": "AbleToScale", "status": "True", "lastTransitionTime": null}]}});
        Object::from_value(object).unwrap()
    }

    #[test]
    fn what_v1_cannot_say_survives_the_way_there_and_back() {
        let mut object = full();
        to_v1(&mut object);
        assert_eq!(object.0["spec"]["targetCPUUtilizationPercentage"], 50);
        assert_eq!(object.0["status"]["currentCPUUtilizationPercentage"], 40);
        assert!(object.0["spec"].get("metrics").is_none());
        to_v2(&mut object);
        assert_eq!(object, full());
    }

    #[test]
    fn annotations_that_are_no_metrics_are_not_kept() {
        const WRONG: &str =
            r#"[{"type": "Pods", "status": 1, "pods": {"targetAverageValue": "x", "currentAverageValue": "x"}}]"#;
        for text in ["", "{", "[1]", r#"[{"type": 5}]"#, WRONG, "null"] {
            let annotations = json!({METRICS: text, BEHAVIOR: text, CURRENT: text, CONDITIONS: text});
            let object = json!({"metadata": {"annotations": annotations}, "spec": {"maxReplicas": 1}});
            let mut object = Object::from_value(object).unwrap();
            to_v2(&mut object);
            assert_eq!(object.0["spec"], json!({"maxReplicas": 1, "metrics": [cpu(80)]}), "{text}");
            assert_eq!((&object.0["status"], object.meta().len()), (&json!({}), 0), "{text}");
        }
    }

    /// Metrics as they are stored, the one v1 knows at the end.
    fn metrics() -> impl Strategy<Value = Vec<Value>> {
        let target = prop_oneof![
            (1..100u32).prop_map(|n| json!({"type": "AverageValue", "averageValue": n.to_string()})),
            (1..100u32).prop_map(|n| json!({"type": "Value", "value": n.to_string()})),
        ];
        let average = (1..100u32).prop_map(|n| json!({"type": "AverageValue", "averageValue": n.to_string()}));
        let metric = prop_oneof![
            average.clone().prop_map(|t| json!({"type": "Pods", "pods": {"metric": {"name": "m"}, "target": t}})),
            average.prop_map(|t| json!({"type": "Resource", "resource": {"name": "cpu", "target": t}})),
            target.clone().prop_map(|t| json!({"type": "External", "external": {"metric": {"name": "m"}, "target": t}})),
            target.prop_map(|t| {
                let described = json!({"kind": "K", "name": "n"});
                json!({"type": "Object", "object": {"describedObject": described, "metric": {"name": "m"}, "target": t}})
            }),
        ];
        (proptest::collection::vec(metric, 0..4), 1..100i64).prop_map(|(mut list, percent)| {
            list.push(cpu(percent));
            list
        })
    }

    proptest! {
        #[test]
        fn any_metrics_survive_the_way_there_and_back(metrics in metrics()) {
            let object = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 3, "metrics": metrics}, "status": {}});
            let stored = Object::from_value(object).unwrap();
            let mut object = stored.clone();
            to_v1(&mut object);
            to_v2(&mut object);
            prop_assert_eq!(object, stored);
        }
    }

    #[test]
    fn a_v1_object_without_a_target_gets_the_usual_one() {
        let mut object = Object::from_value(json!({"spec": {"maxReplicas": 1}})).unwrap();
        to_v2(&mut object);
        assert_eq!(object.0["spec"]["metrics"], json!([cpu(80)]));
    }
}
