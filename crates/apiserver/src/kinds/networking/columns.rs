//! What `kubectl get` prints for the networking kinds.

use crate::kinds::cells::{AGE, age, at, selector, text, text_or};
use jiff::Timestamp;
use meta::Object;
use meta::table::Column;
use serde_json::Value;
use std::collections::BTreeSet;

pub const INGRESS: &[Column] = &[
    Column::name(),
    Column::new("Class", "string"),
    Column::new("Hosts", "string"),
    Column::new("Address", "string"),
    Column::new("Ports", "string"),
    AGE,
];

pub fn ingress(object: &Object, now: Timestamp) -> Vec<Value> {
    let secured = at(object, "spec.tls").as_array().is_some_and(|list| !list.is_empty());
    vec![
        object.name().into(),
        text_or(object, "spec.ingressClassName", "<none>"),
        hosts(object).into(),
        addresses(object).into(),
        if secured { "80, 443" } else { "80" }.into(),
        age(object, now),
    ]
}

/// The first three hosts.
fn hosts(object: &Object) -> String {
    const SHOWN: usize = 3;
    let rules = at(object, "spec.rules").as_array().map(Vec::as_slice).unwrap_or_default();
    let mut shown: Vec<&str> = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= shown.len() == SHOWN;
        let host = rule.get("host").and_then(Value::as_str).unwrap_or_default();
        if !more && !host.is_empty() {
            shown.push(host);
        }
    }
    match (shown.is_empty(), more) {
        (true, _) => "*".into(),
        (false, true) => format!("{} + {} more...", shown.join(","), rules.len() - SHOWN),
        (false, false) => shown.join(","),
    }
}

fn addresses(object: &Object) -> String {
    let points = at(object, "status.loadBalancer.ingress").as_array().map(Vec::as_slice).unwrap_or_default();
    let address = |point: &Value| {
        let text = |key: &str| point.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        text("ip").or_else(|| text("hostname")).map(str::to_owned)
    };
    let sorted: BTreeSet<String> = points.iter().filter_map(address).collect();
    sorted.into_iter().collect::<Vec<_>>().join(",")
}

pub const INGRESS_CLASS: &[Column] =
    &[Column::name(), Column::new("Controller", "string"), Column::new("Parameters", "string"), AGE];

pub fn ingress_class(object: &Object, now: Timestamp) -> Vec<Value> {
    let parameters = match at(object, "spec.parameters") {
        Value::Object(reference) => {
            let text = |key: &str| reference.get(key).and_then(Value::as_str);
            let group = text("apiGroup").map(|group| format!(".{group}")).unwrap_or_default();
            format!("{}{group}/{}", text("kind").unwrap_or_default(), text("name").unwrap_or_default())
        }
        _ => "<none>".into(),
    };
    vec![object.name().into(), text(object, "spec.controller").into(), parameters.into(), age(object, now)]
}

pub const NETWORK_POLICY: &[Column] = &[Column::name(), Column::new("Pod-Selector", "string"), AGE];

pub fn network_policy(object: &Object, now: Timestamp) -> Vec<Value> {
    vec![object.name().into(), selector(at(object, "spec.podSelector")), age(object, now)]
}
