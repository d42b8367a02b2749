//! Services: what they are by default, what they may be, what they print. Their addresses come from `crate::services`.

mod addresses;
mod columns;
mod warnings;

pub use addresses::addresses;
pub use columns::{COLUMNS, cells};
pub use warnings::warnings;

use addresses::{ONCE, kept_addresses};

use super::check::{At, IMMUTABLE, PORT, cidr, ip, named};
use super::defaults::set;
use super::endpoints::reachable;
use crate::objects::Part;
use meta::{FieldError, FieldErrors, Object, name};
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, HashSet};

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const MAX_AFFINITY_SECONDS: i64 = 86400;
/// How traffic keeps to its zone, and what that was called before.
const TOPOLOGY: &str = "service.kubernetes.io/topology-mode";
const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
/// Who may reach a load balancer, before there was a field for it.
const SOURCES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

/// Reached from outside of the cluster.
pub fn is_external(spec: &At<'_>) -> bool {
    let kind = spec.text("type");
    kind == "LoadBalancer" || kind == "NodePort" || (kind == "ClusterIP" && spec.has("externalIPs"))
}

pub fn needs_address(spec: &At<'_>) -> bool {
    spec.text("type") != "ExternalName"
}

pub fn needs_node_ports(spec: &At<'_>) -> bool {
    matches!(spec.text("type"), "NodePort" | "LoadBalancer")
}

/// A load balancer that keeps traffic on the node asks each node whether it has any.
pub fn needs_health_port(spec: &At<'_>) -> bool {
    spec.text("type") == "LoadBalancer" && spec.text("externalTrafficPolicy") == "Local"
}

pub fn is_headless(spec: &At<'_>) -> bool {
    spec.texts("clusterIPs").eq(["None"])
}

pub fn default(object: &mut Object) {
    super::defaults::apply("core/v1.Service", &mut object.0);
    let Value::Object(spec) = object.0.entry("spec").or_insert_with(|| json!({})) else { return };
    set(spec, "sessionAffinity", "None");
    match spec.get("sessionAffinity").and_then(Value::as_str) {
        Some("None") => {
            spec.remove("sessionAffinityConfig");
        }
        Some("ClientIP") => {
            let config = spec.get("sessionAffinityConfig").and_then(|c| c.get("clientIP"));
            if config.and_then(|c| c.get("timeoutSeconds")).is_none() {
                spec.insert("sessionAffinityConfig".into(), json!({"clientIP": {"timeoutSeconds": 10800}}));
            }
        }
        _ => {}
    }
    set(spec, "type", "ClusterIP");
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if matches!(&port["targetPort"], Value::Null) || port["targetPort"] == 0 || port["targetPort"] == "" {
            port["targetPort"] = port["port"].clone();
        }
    }
    let kind = spec.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    if is_external(&At::root("", spec)) {
        set(spec, "externalTrafficPolicy", "Cluster");
    }
    if ["ClusterIP", "NodePort", "LoadBalancer"].contains(&kind.as_str()) {
        set(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", true);
        let ingress =
            object.0.get_mut("status").and_then(|s| s.get_mut("loadBalancer")).and_then(|l| l.get_mut("ingress"));
        for point in ingress.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut) {
            if point.contains_key("ip") {
                set(point, "ipMode", "VIP");
            }
        }
    }
}

/// What the new type has no use for goes, unless the writer changed it, too: then the rules will tell.
pub fn prepare_update(new: &mut Object, old: &Object) {
    let (old_root, new_root) = (At::root("", &old.0), At::root("", &new.0));
    let (was, spec) = (old_root.part("spec"), new_root.part("spec"));
    let same = |key: &str| was.value(key) == spec.value(key);
    let mut drop: Vec<&str> = Vec::new();
    if needs_address(&was) && !needs_address(&spec) {
        if same("clusterIP") && same("clusterIPs") {
            drop.extend(["clusterIP", "clusterIPs"]);
        }
        drop.extend(["ipFamilies", "ipFamilyPolicy"].into_iter().filter(|key| same(key)));
    }
    let ports = |at: &At<'_>| -> BTreeSet<i64> { at.items("ports").filter_map(|port| port.int("nodePort")).collect() };
    let drop_ports = needs_node_ports(&was) && !needs_node_ports(&spec) && ports(&was) == ports(&spec);
    if needs_health_port(&was) && !needs_health_port(&spec) && same("healthCheckNodePort") {
        drop.push("healthCheckNodePort");
    }
    if was.text("type") == "LoadBalancer" && spec.text("type") != "LoadBalancer" {
        drop.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass"].into_iter().filter(|key| same(key)));
    }
    if is_external(&was) && !is_external(&spec) && same("externalTrafficPolicy") {
        drop.push("externalTrafficPolicy");
    }
    if !needs_address(&spec) && same("internalTrafficPolicy") {
        drop.push("internalTrafficPolicy");
    }
    let balanced = spec.text("type") == "LoadBalancer";
    let Some(Value::Object(spec)) = new.0.get_mut("spec") else { return };
    drop.into_iter().for_each(|key| std::mem::drop(spec.remove(key)));
    if drop_ports {
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            port.as_object_mut().map(|port| port.remove("nodePort"));
        }
    }
    if !balanced && let Some(Value::Object(status)) = new.0.get_mut("status") {
        status.insert("loadBalancer".into(), json!({}));
    }
}

pub fn validate(object: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let root = At::root("", &object.0);
    let spec = root.part("spec");
    let (kind, headless) = (spec.text("type"), is_headless(&spec));
    let metadata = root.part("metadata");
    let annotations = metadata.part("annotations");
    if annotations.has(TOPOLOGY) && annotations.has(HINTS) && annotations.text(TOPOLOGY) != annotations.text(HINTS) {
        let field = format!("metadata.annotations[{TOPOLOGY}]");
        let why = format!("must match annotations[{HINTS}] when both are specified");
        errors.push(FieldError::invalid(field, annotations.text(TOPOLOGY), why));
    }
    if spec.list("ports").is_empty() && !headless && kind != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    match kind {
        "LoadBalancer" | "NodePort" if headless => {
            let why = format!("may not be set to 'None' for {kind} services");
            errors.push(FieldError::invalid("spec.clusterIPs[0]", "None", why));
        }
        "ExternalName" => {
            for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"].into_iter().filter(|key| spec.has(key)) {
                spec.forbidden(key, "may not be set for ExternalName services", &mut errors);
            }
            let cname = spec.text("externalName");
            match cname.strip_suffix('.').unwrap_or(cname) {
                "" => errors.push(FieldError::required("spec.externalName", "")),
                cname => named("spec.externalName", cname, name::dns1123_subdomain, &mut errors),
            }
        }
        _ => {}
    }
    ports(&spec, &mut errors);
    spec.labels("selector", &mut errors);
    spec.one_of("sessionAffinity", &["ClientIP", "None"], &mut errors);
    if spec.text("sessionAffinity") == "ClientIP" {
        let config = spec.part("sessionAffinityConfig");
        let client = config.part("clientIP");
        if client.int("timeoutSeconds").is_some_and(|seconds| !(1..=MAX_AFFINITY_SECONDS).contains(&seconds)) {
            let why = format!("must be greater than 0 and less than {MAX_AFFINITY_SECONDS}");
            client.invalid("timeoutSeconds", why, &mut errors);
        }
    }
    errors.extend(addresses(&spec));
    for (i, address) in spec.texts("externalIPs").enumerate() {
        let field = format!("spec.externalIPs[{i}]");
        if ip(address).is_empty() {
            reachable(&field, address, &mut errors);
        } else {
            named(&field, address, ip, &mut errors);
        }
    }
    spec.one_of("type", TYPES, &mut errors);
    port_pairs(&spec, &mut errors);
    balancing(&spec, &annotations, &mut errors);
    traffic(&spec, &mut errors);
    errors
}

fn ports(spec: &At<'_>, errors: &mut FieldErrors) {
    let several = spec.list("ports").len() > 1;
    let mut names = HashSet::new();
    for port in spec.items("ports") {
        let name = port.text("name");
        if several {
            port.required("name", errors);
        }
        if !name.is_empty() {
            port.named("name", name::dns1123_label, errors);
            if !names.insert(name) {
                errors.push(FieldError::duplicate(port.field("name"), name));
            }
        }
        if !port.int("port").is_some_and(|n| (1..=65535).contains(&n)) {
            port.invalid("port", PORT, errors);
        }
        port.one_of("protocol", &["SCTP", "TCP", "UDP"], errors);
        port.port_or_name("targetPort", errors);
        port.stated("appProtocol", name::qualified_name, errors);
    }
}

fn port_pairs(spec: &At<'_>, errors: &mut FieldErrors) {
    if spec.text("type") == "ClusterIP" {
        for port in spec.items("ports").filter(|port| port.has("nodePort")) {
            port.forbidden("nodePort", "may not be used when `type` is 'ClusterIP'", errors);
        }
    }
    let mut seen = HashSet::new();
    for port in spec.items("ports") {
        if let Some(number) = port.int("nodePort").filter(|number| !seen.insert((port.text("protocol"), *number))) {
            errors.push(FieldError::duplicate(port.field("nodePort"), number));
        }
    }
    let mut seen = HashSet::new();
    for port in spec.items("ports") {
        let (protocol, number) = (port.text("protocol"), port.int("port").unwrap_or_default());
        if !seen.insert((protocol, number)) {
            // The value is the pair as a port of its own, in the words of Go.
            let value = json!({"port": number, "protocol": protocol, "targetPort": 0});
            errors.push(FieldError::duplicate(port.path(), value));
        }
    }
}

fn balancing(spec: &At<'_>, annotations: &At<'_>, errors: &mut FieldErrors) {
    const ONLY: &str = "may only be used when `type` is 'LoadBalancer'";
    let balanced = spec.text("type") == "LoadBalancer";
    if spec.has("loadBalancerSourceRanges") {
        // Told with a capital: so does Kubernetes.
        let field = "spec.LoadBalancerSourceRanges";
        if !balanced {
            errors.push(FieldError::forbidden(field, ONLY));
        }
        for (i, range) in spec.texts("loadBalancerSourceRanges").enumerate() {
            named(&format!("{field}[{i}]"), range.trim(), cidr, errors);
        }
    } else if annotations.has(SOURCES) {
        let field = format!("metadata.annotations[{SOURCES}]");
        if !balanced {
            errors.push(FieldError::forbidden(field.clone(), ONLY));
        }
        let ranges = annotations.text(SOURCES).trim();
        for range in ranges.split(',').filter(|_| !ranges.is_empty()) {
            named(&field, range.trim(), cidr, errors);
        }
    }
    for key in
        ["allocateLoadBalancerNodePorts", "loadBalancerClass"].into_iter().filter(|key| spec.has(key) && !balanced)
    {
        spec.forbidden(key, ONLY, errors);
    }
    if balanced {
        spec.stated("loadBalancerClass", name::qualified_name, errors);
    }
}

fn traffic(spec: &At<'_>, errors: &mut FieldErrors) {
    if is_external(spec) {
        spec.one_of("externalTrafficPolicy", &["Cluster", "Local"], errors);
    } else if spec.has("externalTrafficPolicy") {
        spec.invalid("externalTrafficPolicy", "may only be set for externally-accessible services", errors);
    }
    if needs_health_port(spec) {
        if spec.required("healthCheckNodePort", errors) {
            spec.port("healthCheckNodePort", errors);
        }
    } else if spec.has("healthCheckNodePort") {
        let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        spec.invalid("healthCheckNodePort", why, errors);
    }
    spec.one_of("internalTrafficPolicy", &["Cluster", "Local"], errors);
    let distributions = &["PreferClose", "PreferSameZone", "PreferSameNode"];
    spec.one_of("trafficDistribution", distributions, errors);
}

/// A service keeps its address for life, unless it becomes or was a mere name.
pub fn validate_update(new: &Object, old: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let (root, old_root) = (At::root("", &new.0), At::root("", &old.0));
    let (spec, was) = (root.part("spec"), old_root.part("spec"));
    kept_addresses(&spec, &was, &mut errors);
    let both = |kind: &str| spec.text("type") == kind && was.text("type") == kind;
    if both("LoadBalancer") && spec.value("loadBalancerClass") != was.value("loadBalancerClass") {
        spec.invalid("loadBalancerClass", ONCE, &mut errors);
    }
    if needs_health_port(&spec)
        && needs_health_port(&was)
        && spec.value("healthCheckNodePort") != was.value("healthCheckNodePort")
    {
        spec.forbidden("healthCheckNodePort", IMMUTABLE, &mut errors);
    }
    errors
}

pub fn validate_part(_: Part, new: &Object, _: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let root = At::root("", &new.0);
    let status = root.part("status");
    let balancer = status.part("loadBalancer");
    if balancer.has("ingress") && root.part("spec").text("type") != "LoadBalancer" {
        balancer.forbidden("ingress", "may only be used when `spec.type` is 'LoadBalancer'", &mut errors);
        return errors;
    }
    for point in balancer.items("ingress") {
        point.named("ip", ip, &mut errors);
        match (point.has("ip"), point.has("ipMode")) {
            (true, false) => {
                let why = "must be specified when `ip` is set";
                errors.push(FieldError::required(point.field("ipMode"), why));
            }
            (false, true) => point.forbidden("ipMode", "may not be specified when `ip` is not set", &mut errors),
            _ => point.one_of("ipMode", &["Proxy", "VIP"], &mut errors),
        }
        point.named("hostname", name::dns1123_subdomain, &mut errors);
        if point.text("hostname").parse::<std::net::IpAddr>().is_ok() {
            point.invalid("hostname", "must be a DNS name, not an IP address", &mut errors);
        }
    }
    errors
}

/// The service's spec to change; made when it is not there.
pub fn spec_mut(object: &mut Object) -> Option<&mut Map<String, Value>> {
    object.0.entry("spec").or_insert_with(|| json!({})).as_object_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: Value) -> Object {
        let mut object = Object::from_value(json!({"metadata": {"name": "s"}, "spec": spec})).unwrap();
        default(&mut object);
        object
    }

    fn findings(spec: Value) -> Vec<String> {
        validate(&service(spec)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_port_leads_to_itself() {
        let made = service(json!({"ports": [{"port": 80}, {"port": 81, "targetPort": "web", "name": "x"}]}));
        assert_eq!(made.0["spec"]["ports"][0], json!({"port": 80, "protocol": "TCP", "targetPort": 80}));
        assert_eq!(made.0["spec"]["ports"][1]["targetPort"], "web");
        assert_eq!(made.0["spec"]["internalTrafficPolicy"], "Cluster");
        assert_eq!(made.0["spec"]["sessionAffinity"], "None");
    }

    #[test]
    fn several_ports_need_names_and_differ() {
        assert_eq!(
            findings(json!({"ports": [{"port": 80}, {"port": 80}]})),
            [
                "spec.ports[0].name: Required value",
                "spec.ports[1].name: Required value",
                r#"spec.ports[1]: Duplicate value: {"port":80,"protocol":"TCP","targetPort":0}"#
            ]
        );
        assert_eq!(
            findings(json!({"ports": [{"port": 0}]})),
            [
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive"
            ]
        );
        assert_eq!(findings(json!({})), ["spec.ports: Required value"]);
        assert!(findings(json!({"clusterIP": "None", "clusterIPs": ["None"]})).is_empty());
    }

    #[test]
    fn the_address_stays() {
        let with = |ip: &str| service(json!({"clusterIP": ip, "clusterIPs": [ip], "ports": [{"port": 1}]}));
        let found = validate_update(&with("10.0.0.2"), &with("10.0.0.1"));
        assert_eq!(found[0].to_string(), r#"spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set"#);
        assert!(validate_update(&with("10.0.0.1"), &with("10.0.0.1")).is_empty());
    }

    #[test]
    fn a_service_that_becomes_a_name_gives_its_address_back() {
        let old = service(json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ports": [{"port": 1}]}));
        let mut new = old.clone();
        new.0["spec"]["type"] = "ExternalName".into();
        new.0["spec"]["externalName"] = "a.example".into();
        prepare_update(&mut new, &old);
        assert!(new.0["spec"].get("clusterIP").is_none() && new.0["spec"].get("clusterIPs").is_none());
        assert!(validate(&new).is_empty(), "{:?}", validate(&new));
    }
}
