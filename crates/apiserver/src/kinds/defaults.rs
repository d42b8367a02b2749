//! Defaults by type: one table, applied wherever the facts say that a value of the type stands.

use schema::{Facts, Form, Shape, Type, quantity};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::LazyLock;

/// What a type's fields are when nobody says otherwise, as JSON, and what a constant cannot say.
pub type Row = (&'static str, &'static str, fn(&mut Map<String, Value>));

#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("core/v1.AzureDiskVolumeSource", r#"{"readOnly":false}"#, nothing),
    ("core/v1.ConfigMapVolumeSource", r#"{"defaultMode":420}"#, nothing),
    ("core/v1.Container", CONTAINER, pull_policy),
    ("core/v1.DownwardAPIVolumeSource", r#"{"defaultMode":420}"#, nothing),
    ("core/v1.EndpointPort", r#"{"protocol":"TCP"}"#, nothing),
    ("core/v1.EnvVarSource", "{}", |source| drop(source.remove("fileKeyRef"))),
    ("core/v1.EphemeralContainer", CONTAINER, pull_policy),
    ("core/v1.GRPCAction", r#"{"service":""}"#, nothing),
    ("core/v1.HTTPGetAction", r#"{"path":"/","scheme":"HTTP"}"#, nothing),
    ("core/v1.HostPathVolumeSource", r#"{"type":""}"#, nothing),
    ("core/v1.ImageVolumeSource", "{}", image_volume),
    ("core/v1.Lifecycle", "{}", |lifecycle| drop(lifecycle.remove("stopSignal"))),
    ("core/v1.LimitRangeItem", "{}", limit_range_item),
    ("core/v1.NodeSpec", "{}", |spec| twins(spec, "podCIDR", "podCIDRs", Value::clone)),
    ("core/v1.NodeStatus", "{}", allocatable),
    ("core/v1.ObjectFieldSelector", r#"{"apiVersion":"v1"}"#, nothing),
    ("core/v1.PersistentVolumeClaimSpec", r#"{"volumeMode":"Filesystem"}"#, nothing),
    ("core/v1.PersistentVolumeClaimStatus", r#"{"phase":"Pending"}"#, nothing),
    ("core/v1.PersistentVolumeSpec", r#"{"persistentVolumeReclaimPolicy":"Retain","volumeMode":"Filesystem"}"#, nothing),
    ("core/v1.PersistentVolumeStatus", r#"{"phase":"Pending"}"#, nothing),
    ("core/v1.PodSpec", r#"{"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}"#, pod_spec),
    ("core/v1.PodStatus", "{}", |status| twins(status, "podIP", "podIPs", |ip| serde_json::json!({"ip": ip}))),
    ("core/v1.Probe", r#"{"failureThreshold":3,"periodSeconds":10,"successThreshold":1,"timeoutSeconds":1}"#, nothing),
    ("core/v1.ProjectedVolumeSource", r#"{"defaultMode":420}"#, nothing),
    ("core/v1.SecretVolumeSource", r#"{"defaultMode":420}"#, nothing),
    ("core/v1.ServiceAccountTokenProjection", r#"{"expirationSeconds":3600}"#, nothing),
    ("core/v1.Volume", "{}", empty_dir),
    ("core/v1.VolumeProjection", "{}", |source| source.retain(|kind, _| !["clusterTrustBundle", "podCertificate"].contains(&kind.as_str()))),
    ("discovery/v1.EndpointPort", r#"{"name":"","protocol":"TCP"}"#, nothing),
];

const CONTAINER: &str = r#"{"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}"#;

fn rows() -> impl Iterator<Item = &'static Row> {
    let tables = [
        ROWS,
        super::apps::DEFAULTS,
        super::batch::DEFAULTS,
        super::autoscaling::DEFAULTS,
        super::networking::DEFAULTS,
        super::classes::DEFAULTS,
    ];
    tables.into_iter().flatten()
}

struct Rule {
    fields: Map<String, Value>,
    more: fn(&mut Map<String, Value>),
}

static RULES: LazyLock<HashMap<&'static str, Rule>> = LazyLock::new(|| {
    rows()
        .map(|(name, fields, more)| {
            (*name, Rule { fields: serde_json::from_str(fields).unwrap_or_default(), more: *more })
        })
        .collect()
});

/// Sets the defaults of a value of the named type and of everything in it.
pub fn apply(type_name: &str, map: &mut Map<String, Value>) {
    if let Some(ty) = Facts::builtin().named(type_name) {
        walk(Facts::builtin(), ty, map);
    }
}

fn walk(facts: &Facts, ty: &Type, map: &mut Map<String, Value>) {
    if ty.name == "meta/v1.ObjectMeta" {
        return;
    }
    for field in &ty.fields {
        if let Some(default) = field.default() {
            set(map, field.name, default);
        }
    }
    if let Some(rule) = RULES.get(ty.name) {
        for (name, value) in &rule.fields {
            set(map, name, value.clone());
        }
        (rule.more)(map);
    }
    for (name, value) in map.iter_mut() {
        if let Some(field) = ty.field(name) {
            descend(facts, &field.shape, value);
        }
    }
}

fn descend(facts: &Facts, shape: &Shape, value: &mut Value) {
    match (&shape.form, value) {
        (Form::Struct(id), Value::Object(map)) => walk(facts, facts.get(*id), map),
        (Form::List(element), Value::Array(list)) => list.iter_mut().for_each(|item| descend(facts, element, item)),
        (Form::Map(element), Value::Object(map)) if matches!(element.form, Form::Quantity) => round(map),
        (Form::Map(element), Value::Object(map)) => map.values_mut().for_each(|item| descend(facts, element, item)),
        _ => {}
    }
}

/// Sets what is not there.
pub fn set(map: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    if map.get(name).is_none_or(Value::is_null) {
        map.insert(name.to_owned(), value.into());
    }
}

pub fn nothing(_: &mut Map<String, Value>) {}

/// Resources are counted in thousandths; finer amounts are rounded up.
fn round(resources: &mut Map<String, Value>) {
    const MILLI: i128 = 1_000_000;
    for value in resources.values_mut() {
        let Some(nanos) = value.as_str().and_then(quantity::nanos) else { continue };
        if nanos % MILLI != 0 {
            let millis = nanos / MILLI + nanos.signum();
            *value = quantity::canonical(&format!("{millis}m")).unwrap_or_default().into();
        }
    }
}

/// An image without a tag, or tagged latest, may change under its name.
fn changes(image: &str) -> bool {
    let name = image.rsplit_once('/').map_or(image, |(_, last)| last);
    !image.is_empty() && !image.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

fn pull(map: &mut Map<String, Value>, image: &str, policy: &str) {
    let image = map.get(image).and_then(Value::as_str).unwrap_or_default();
    let default = if changes(image) { "Always" } else { "IfNotPresent" };
    set(map, policy, default);
}

fn pull_policy(container: &mut Map<String, Value>) {
    pull(container, "image", "imagePullPolicy");
}

fn image_volume(volume: &mut Map<String, Value>) {
    pull(volume, "reference", "pullPolicy");
}

/// A volume that names no source is an empty directory.
fn empty_dir(volume: &mut Map<String, Value>) {
    if volume.keys().all(|key| key == "name") {
        volume.insert("emptyDir".into(), Value::Object(Map::new()));
    }
}

fn pod_spec(spec: &mut Map<String, Value>) {
    account(spec);
    drop_alpha(spec);
}

/// Fields of features that are not on in 1.34 are not kept, here and in the rows that remove something.
fn drop_alpha(spec: &mut Map<String, Value>) {
    spec.remove("hostnameOverride");
    let images = image_volumes(spec);
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for container in containers.filter_map(Value::as_object_mut) {
            drop_named(container, "volumeMounts", &images);
            if list == "ephemeralContainers" {
                continue;
            }
            container.remove("restartPolicyRules");
            if list == "containers" || container.get("restartPolicy").is_some_and(|policy| policy != "Always") {
                container.remove("restartPolicy");
            }
        }
    }
}

/// Takes out the volumes that come from images; their names.
fn image_volumes(spec: &mut Map<String, Value>) -> Vec<String> {
    let volumes = spec.get("volumes").and_then(Value::as_array).into_iter().flatten();
    let images = volumes.filter(|volume| volume.get("image").is_some_and(Value::is_object));
    let names: Vec<String> = images.map(|volume| volume["name"].as_str().unwrap_or_default().to_owned()).collect();
    drop_named(spec, "volumes", &names);
    names
}

/// Takes the items of these names out of a list; an empty list is none.
fn drop_named(map: &mut Map<String, Value>, list: &str, names: &[String]) {
    let Some(Value::Array(items)) = map.get_mut(list).filter(|_| !names.is_empty()) else { return };
    items.retain(|item| !names.iter().any(|name| item.get("name").is_some_and(|of| of == name.as_str())));
    if items.is_empty() {
        map.remove(list);
    }
}

/// `serviceAccount` is the old name of `serviceAccountName`; both are always written.
fn account(spec: &mut Map<String, Value>) {
    let named = spec.get("serviceAccountName").or_else(|| spec.get("serviceAccount")).cloned();
    match named {
        Some(name) => {
            spec.insert("serviceAccountName".into(), name.clone());
            spec.insert("serviceAccount".into(), name);
        }
        None => {
            spec.remove("serviceAccount");
        }
    }
}

/// An old field with one value and the newer list that begins with it: the old one decides.
fn twins(map: &mut Map<String, Value>, one: &str, many: &str, element: fn(&Value) -> Value) {
    let text = |v: &Value| v.as_str().or_else(|| v.get("ip").and_then(Value::as_str)).unwrap_or_default().to_owned();
    let first = map.get(many).and_then(Value::as_array).and_then(|list| list.first()).map(text);
    match (map.get(one).cloned(), first) {
        (Some(value), first) if first.as_deref() != value.as_str() => {
            map.insert(many.into(), Value::Array(vec![element(&value)]));
        }
        (None, Some(first)) => {
            map.insert(one.into(), first.into());
        }
        _ => {}
    }
}

fn allocatable(status: &mut Map<String, Value>) {
    if let Some(capacity) = status.get("capacity").cloned() {
        set(status, "allocatable", capacity);
    }
}

/// Limits follow from the maximum, requests from limits, then from the minimum.
fn limit_range_item(item: &mut Map<String, Value>) {
    if item.get("type").and_then(Value::as_str) != Some("Container") {
        return;
    }
    for (from, into) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let Some(Value::Object(source)) = item.get(from).cloned() else { continue };
        if let Value::Object(target) = item.entry(into).or_insert_with(|| Value::Object(Map::new())) {
            source.into_iter().for_each(|(name, amount)| set(target, &name, amount));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn defaulted(type_name: &str, value: Value) -> Value {
        let Value::Object(mut map) = value else { panic!("an object") };
        apply(type_name, &mut map);
        Value::Object(map)
    }

    #[test]
    fn every_row_names_a_type_and_fields_of_it() {
        for (name, fields, _) in rows() {
            let ty = Facts::builtin().named(name).unwrap_or_else(|| panic!("{name} is not in the table"));
            let fields: Map<String, Value> = serde_json::from_str(fields).unwrap();
            for field in fields.keys() {
                assert!(ty.field(field).is_some(), "{name} has no {field}");
            }
        }
    }

    #[test]
    fn the_pull_policy_follows_the_tag() {
        for (image, policy) in [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1.29", "IfNotPresent"),
            ("localhost:5000/nginx", "Always"),
            ("localhost:5000/nginx:1", "IfNotPresent"),
            ("nginx@sha256:0000", "IfNotPresent"),
            ("", "IfNotPresent"),
        ] {
            let made = defaulted("core/v1.Container", json!({"name": "a", "image": image}));
            assert_eq!(made["imagePullPolicy"], policy, "{image}");
        }
    }

    #[test]
    fn resources_are_rounded_up_to_thousandths() {
        let made = defaulted("core/v1.ResourceRequirements", json!({"limits": {"cpu": "1100u", "memory": "1Gi"}}));
        assert_eq!(made["limits"], json!({"cpu": "2m", "memory": "1Gi"}));
    }

    #[test]
    fn a_container_limit_range_fills_its_defaults() {
        let item = json!({"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1", "memory": "1Mi"}});
        let made = defaulted("core/v1.LimitRangeItem", item);
        assert_eq!(made["default"], json!({"cpu": "2"}));
        assert_eq!(made["defaultRequest"], json!({"cpu": "2", "memory": "1Mi"}));
    }

    #[test]
    fn the_old_field_of_a_pair_decides() {
        assert_eq!(
            defaulted("core/v1.NodeSpec", json!({"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.1.0.0/24"]}))["podCIDRs"],
            json!(["10.0.0.0/24"])
        );
        assert_eq!(defaulted("core/v1.PodStatus", json!({"podIPs": [{"ip": "10.0.0.1"}]}))["podIP"], "10.0.0.1");
    }
}
