//! Services as rows of a table.

use crate::kinds::check::At;
use crate::kinds::columns::{AGE, age};
use crate::kinds::templates::labels;
use jiff::Timestamp;
use meta::Object;
use meta::table::Column;
use serde_json::Value;
use std::collections::BTreeSet;

pub const COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Type", "string"),
    Column::new("Cluster-IP", "string"),
    Column::new("External-IP", "string"),
    Column::new("Port(s)", "string"),
    AGE,
    Column::new("Selector", "string").wide(),
];

pub fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let root = At::root("", &object.0);
    let (spec, status) = (root.part("spec"), root.part("status"));
    let port = |port: At<'_>| {
        let (number, protocol) = (port.int("port").unwrap_or_default(), port.text("protocol").to_owned());
        match port.int("nodePort") {
            Some(node) if node > 0 => format!("{number}:{node}/{protocol}"),
            _ => format!("{number}/{protocol}"),
        }
    };
    let or_none = |text: String| Value::from(if text.is_empty() { "<none>".to_owned() } else { text });
    let ports: Vec<String> = spec.items("ports").map(port).collect();
    vec![
        object.name().into(),
        spec.text("type").into(),
        or_none(spec.texts("clusterIPs").next().unwrap_or_default().to_owned()),
        external(&spec, &status).into(),
        or_none(ports.join(",")),
        age(object, now),
        labels(&spec, "selector"),
    ]
}

/// Where a service is reached from outside.
fn external(spec: &At<'_>, status: &At<'_>) -> String {
    let mut all: Vec<String> = Vec::new();
    match spec.text("type") {
        "ExternalName" => return spec.text("externalName").to_owned(),
        "LoadBalancer" => {
            let balancer = status.part("loadBalancer");
            let mut points = BTreeSet::new();
            for point in balancer.items("ingress") {
                let name = if point.has("ip") { point.text("ip") } else { point.text("hostname") };
                points.insert(name.to_owned());
            }
            points.remove("");
            all.extend(points);
        }
        _ => {}
    }
    all.extend(spec.texts("externalIPs").map(str::to_owned));
    match (all.is_empty(), spec.text("type")) {
        (false, _) => all.join(","),
        (true, "LoadBalancer") => "<pending>".to_owned(),
        (true, "ClusterIP" | "NodePort") => "<none>".to_owned(),
        (true, _) => "<unknown>".to_owned(),
    }
}
