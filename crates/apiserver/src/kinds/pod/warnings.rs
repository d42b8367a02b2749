//! What an author of pods should be told although it is accepted.

use super::{containers_of, profiles};
use crate::kinds::check::At;
use meta::name;
use schema::quantity::nanos;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

const ANNOTATIONS: &[(&str, &str)] = &[
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        r#"non-functional in v1.16+; use the "priorityClassName" field instead"#,
    ),
    ("security.alpha.kubernetes.io/sysctls", r#"non-functional in v1.11+; use the "sysctls" field instead"#),
    ("security.alpha.kubernetes.io/unsafe-sysctls", r#"non-functional in v1.11+; use the "sysctls" field instead"#),
];

const VOLUMES: &[(&str, &str)] = &[
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

const NODE_LABELS: &[(&str, &str)] = &[
    ("beta.kubernetes.io/arch", r#"deprecated since v1.14; use "kubernetes.io/arch" instead"#),
    ("beta.kubernetes.io/os", r#"deprecated since v1.14; use "kubernetes.io/os" instead"#),
    (
        "failure-domain.beta.kubernetes.io/region",
        r#"deprecated since v1.17; use "topology.kubernetes.io/region" instead"#,
    ),
    ("failure-domain.beta.kubernetes.io/zone", r#"deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#),
    ("beta.kubernetes.io/instance-type", r#"deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    ("scheduler.alpha.kubernetes.io/preferAvoidPods", "deprecated since v1.22; use Taints and Tolerations instead"),
    ("node-role.kubernetes.io/master", r#"use "node-role.kubernetes.io/control-plane" instead"#),
];

/// Why a label of nodes should not be asked for any more.
pub fn old_node_label(key: &str) -> Option<&'static str> {
    NODE_LABELS.iter().find(|(old, _)| *old == key).map(|(_, why)| *why)
}

/// Warnings for a pod or a pod template; `at` is the one that has `metadata` and `spec`.
pub fn warnings(at: &At<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let (metadata, spec) = (at.part("metadata"), at.part("spec"));
    for (key, why) in spec.entries("nodeSelector").filter_map(|(key, _)| Some((key, old_node_label(key)?))) {
        warnings.push(format!("{}[{key}]: {why}", spec.field("nodeSelector")));
    }
    affinity(&spec, &mut warnings);
    for constraint in spec.items("topologySpreadConstraints") {
        let key = constraint.text("topologyKey");
        if let Some(why) = old_node_label(key) {
            warnings.push(format!("{}: {key} is {why}", constraint.field("topologyKey")));
        }
        selects_nothing(&constraint, &mut warnings);
    }
    for (key, why) in ANNOTATIONS {
        if metadata.value("annotations").get(*key).is_some() {
            warnings.push(format!("{}[{key}]: {why}", metadata.field("annotations")));
        }
    }
    for volume in spec.items("volumes") {
        let old = VOLUMES.iter().filter(|(source, _)| volume.has(source));
        warnings.extend(old.map(|(source, why)| {
            let told = if *source == "storageos" { "storageOS" } else { *source };
            format!("{}: {why}", volume.field(told))
        }));
    }
    overlaps(&spec, &mut warnings);
    repeated(&spec, "hostAliases", "ip", &mut warnings);
    repeated(&spec, "imagePullSecrets", "name", &mut warnings);
    for secret in spec.items("imagePullSecrets").filter(|secret| secret.text("name").is_empty()) {
        warnings.push(format!("{}: invalid empty name \"\"", secret.field("name")));
    }
    for resource in ["memory", "ephemeral-storage"] {
        fractional(&spec, "overhead", resource, &mut warnings);
    }
    profiles::pod_warning(&metadata, &spec, &mut warnings);
    let template = !at.path().is_empty();
    for container in containers_of(&spec) {
        profiles::container_warning(&metadata, &spec, &container, template, &mut warnings);
        fractional_bytes(&container.part("resources"), &mut warnings);
        hidden_variables(&container, &mut warnings);
    }
    ports(&spec, &mut warnings);
    if spec.int("terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        let why = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.push(format!("{}: {why}", spec.field("terminationGracePeriodSeconds")));
    }
    let all = spec.part("affinity");
    for pods in ["podAffinity", "podAntiAffinity"].into_iter().filter_map(|kind| all.child(kind)) {
        pods.items(REQUIRED).for_each(|term| selects_nothing(&term, &mut warnings));
        for preferred in pods.items(PREFERRED) {
            selects_nothing(&preferred.part("podAffinityTerm"), &mut warnings);
        }
    }
    warnings
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// No selector at all selects no pod, and rarely is what was meant.
fn selects_nothing(term: &At<'_>, warnings: &mut Vec<String>) {
    if !term.has("labelSelector") {
        warnings.push(format!("{}: a null labelSelector results in matching no pod", term.field("labelSelector")));
    }
}

/// Labels of nodes that are no more, and values that no label has.
fn affinity(spec: &At<'_>, warnings: &mut Vec<String>) {
    let affinity = spec.part("affinity");
    let nodes = affinity.part("nodeAffinity");
    let required = nodes.part(REQUIRED);
    let mut check = |term: &At<'_>, values: bool| {
        for expression in term.items("matchExpressions") {
            let key = expression.text("key");
            if let Some(why) = old_node_label(key) {
                warnings.push(format!("{}: {key} is {why}", expression.field("key")));
            }
            for (i, value) in expression.texts("values").enumerate().filter(|_| values) {
                let field = format!("{}[{i}]", expression.field("values"));
                let wrong = name::label_value(value);
                warnings.extend(wrong.into_iter().map(|why| format!("{field}: {value} is invalid, {why}")));
            }
        }
    };
    required.items("nodeSelectorTerms").for_each(|term| check(&term, false));
    nodes.items(PREFERRED).for_each(|preferred| check(&preferred.part("preference"), true));
}

/// So many files of a volume are compared with each other.
const MOST_FILES: usize = 256;

/// Files of a volume of which one would hide another.
fn overlaps(spec: &At<'_>, warnings: &mut Vec<String>) {
    for volume in spec.items("volumes") {
        let name = volume.text("name");
        let mut tell = |what: &str, mut files: Vec<(String, String)>| {
            files.truncate(MOST_FILES);
            for (i, file) in files.iter().enumerate() {
                for other in files[..i].iter().filter(|other| hides(&file.0, &other.0)) {
                    let shown = |(path, source): &(String, String)| match source.as_str() {
                        "" => format!("{path:?}"),
                        source => format!("{path:?} ({source})"),
                    };
                    let body = format!("{} with {}", shown(file), shown(other));
                    warnings.push(format!("volume {name:?} ({what}): overlapping paths: {body}"));
                }
            }
        };
        let paths = |at: &At<'_>, source: &str| -> Vec<(String, String)> {
            let paths = at.list("items").iter().map(|item| item["path"].as_str().unwrap_or_default());
            paths.map(|path| (path.trim_end_matches('/').to_owned(), source.to_owned())).collect()
        };
        for (field, what, named) in [("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName")] {
            if let Some(source) = volume.child(field) {
                tell(&format!("{what} {:?}", source.text(named)), paths(&source, ""));
            }
        }
        if let Some(source) = volume.child("downwardAPI") {
            tell("DownwardAPI", paths(&source, ""));
        }
        let Some(projected) = volume.child("projected") else { continue };
        let mut files = Vec::new();
        for source in projected.items("sources") {
            for (field, what) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
                if let Some(from) = source.child(field) {
                    files.extend(paths(&from, &format!("{what} {:?}", from.text("name"))));
                }
            }
            if let Some(from) = source.child("downwardAPI") {
                files.extend(paths(&from, "DownwardAPI"));
            }
            if let Some(token) = source.child("serviceAccountToken") {
                files.push((token.text("path").trim_end_matches('/').to_owned(), "ServiceAccountToken".to_owned()));
            }
        }
        tell("Projected", files);
        for _ in projected.items("sources").filter(|source| source.map.is_empty()) {
            warnings.push(format!("volume {name:?} (Projected) has no sources provided"));
        }
    }
}

fn hides(one: &str, other: &str) -> bool {
    let below = |path: &str, root: &str| format!("{path}/").starts_with(&format!("{root}/"));
    !one.is_empty() && !other.is_empty() && (below(one, other) || below(other, one))
}

fn repeated(spec: &At<'_>, list: &str, key: &str, warnings: &mut Vec<String>) {
    let mut seen = HashSet::new();
    for item in spec.items(list) {
        let value = item.text(key);
        if !seen.insert(value) {
            warnings.push(format!("{}: duplicate {key} {value:?}", item.field(key)));
        }
    }
}

/// `100m` of memory is a tenth of a byte, and rarely what was meant.
fn fractional_bytes(resources: &At<'_>, warnings: &mut Vec<String>) {
    for (resource, list) in ["memory", "ephemeral-storage"].into_iter().flat_map(|r| [(r, "limits"), (r, "requests")]) {
        fractional(resources, list, resource, warnings);
    }
}

fn fractional(at: &At<'_>, list: &str, resource: &str, warnings: &mut Vec<String>) {
    const BYTE: i128 = 1_000_000_000;
    let amount = at.value(list).get(resource).and_then(Value::as_str).unwrap_or_default();
    if nanos(amount).is_some_and(|n| n % BYTE != 0) {
        let field = at.field(list);
        warnings.push(format!("{field}[{resource}]: fractional byte value {amount:?} is invalid, must be an integer"));
    }
}

/// A variable set again is fine only when its new value builds on the old one.
fn hidden_variables(container: &At<'_>, warnings: &mut Vec<String>) {
    let mut seen = HashSet::new();
    for variable in container.items("env") {
        let name = variable.text("name");
        if seen.insert(name) {
            continue;
        }
        let reference = format!("$({name})");
        let value = variable.text("value");
        if variable.has("valueFrom") || value == reference || !value.contains(&reference) {
            warnings.push(format!(
                "{}: hides previous definition of {name:?}, which may be dropped when using apply",
                variable.path()
            ));
        }
    }
}

/// A port is compared with so many others of its number: who repeats it more often has been told.
const MOST: usize = 4;

struct Port<'a> {
    path: String,
    name: &'a str,
    /// What the port is within the pod.
    inner: (i64, &'a str),
    host: (i64, &'a str),
}

/// Ports that several containers give, or one gives twice.
fn ports(spec: &At<'_>, warnings: &mut Vec<String>) {
    let mut seen: HashMap<(i64, &str), Vec<&Port<'_>>> = HashMap::new();
    let mut names: HashMap<&str, &Port<'_>> = HashMap::new();
    let mut repeated = Vec::new();
    let containers: Vec<At<'_>> = ["initContainers", "containers"].iter().flat_map(|list| spec.items(list)).collect();
    let ports: Vec<Port<'_>> = containers.iter().flat_map(|container| container.items("ports").map(port)).collect();
    for port in &ports {
        let same = seen.entry(port.inner).or_default();
        for other in same.iter().take(MOST) {
            let ((number, ip), (other_number, other_ip)) = (port.host, other.host);
            let how = if port.host == other.host {
                "duplicate"
            } else if number == 0 || other_number == 0 {
                "overlapping"
            } else if number == other_number && ip.is_empty() != other_ip.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            warnings.push(format!("{}: {how} port definition with {}", port.path, other.path));
        }
        same.push(port);
        match names.get(port.name) {
            _ if port.name.is_empty() => {}
            None => drop(names.insert(port.name, port)),
            Some(Port { path: other, .. }) => repeated.push(format!(
                "{}: duplicate port name {:?} with {other}, services and probes that select ports by name will use {other}",
                port.path, port.name
            )),
        }
    }
    warnings.extend(repeated);
}

fn port(at: At<'_>) -> Port<'_> {
    let number = |name: &str| at.int(name).unwrap_or_default();
    Port {
        path: at.path(),
        name: at.text("name"),
        inner: (number("containerPort"), at.text("protocol")),
        host: (number("hostPort"), at.text("hostIP")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_hidden_variable_is_told() {
        let env = json!([{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}, {"name": "A", "value": "3"}]);
        let template = json!({"spec": {"containers": [{"name": "c", "env": env}]}});
        assert_eq!(
            warnings(&At::root("spec.template", template.as_object().unwrap())),
            [
                "spec.template.spec.containers[0].env[2]: hides previous definition of \"A\", which may be dropped when using apply"
            ]
        );
    }

    #[test]
    fn a_part_of_a_byte_and_an_old_label_are_told() {
        let resources = json!({"limits": {"memory": "100m", "cpu": "100m"}});
        let selector = json!({"beta.kubernetes.io/os": "linux"});
        let pod = json!({"spec": {"nodeSelector": selector, "containers": [{"name": "c", "resources": resources}]}});
        assert_eq!(
            warnings(&At::root("", pod.as_object().unwrap())),
            [
                "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
                "spec.containers[0].resources.limits[memory]: fractional byte value \"100m\" is invalid, must be an integer",
            ]
        );
    }

    #[test]
    fn a_port_given_twice_is_told() {
        let ports = json!([{"containerPort": 80, "name": "a"}, {"containerPort": 80, "hostPort": 8080, "name": "a"}]);
        let pod = json!({"spec": {"containers": [{"name": "c", "ports": ports}]}});
        let told = warnings(&At::root("", pod.as_object().unwrap()));
        assert_eq!(
            told[0],
            "spec.containers[0].ports[1]: overlapping port definition with spec.containers[0].ports[0]"
        );
        assert!(told[1].contains("duplicate port name \"a\""), "{told:?}");
    }
}
