//! Addresses and ports of services, and the service of the API itself.
//!
//! There is no allocator: what is taken is what the stored services hold (`taken`). Services are written one by one (`turns`), so two
//! cannot choose the same; a crash loses nothing because there is nothing to lose.

mod families;
mod range;
mod taken;

pub use range::{RangeError, ServiceRange};
pub(crate) use taken::Taken;

use crate::Inner;
use crate::kinds::check::At;
use crate::kinds::service;
use crate::ownership::By;
use meta::{FieldError, GroupResource, Object, Reason, Status};
use range::free_from;
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Gives a service what it needs and does not have: families, an address, ports.
pub(crate) fn admit(api: &Inner, object: &mut Object, old: Option<&Object>) -> Result<(), Status> {
    if let Some(old) = old {
        keep_allocated(object, old);
    }
    normalize(object, old);
    families::settle(object, old)?;
    address(api, object, old)?;
    node_ports(api, object, old)
}

fn invalid(object: &Object, errors: &[FieldError]) -> Status {
    Status::invalid("", "Service", object.name(), errors)
}

/// What was allocated stays when the writer does not mention it.
fn keep_allocated(object: &mut Object, old: &Object) {
    let root = At::root("", &old.0);
    let was = root.part("spec");
    let Some(spec) = service::spec_mut(object) else { return };
    let at = At::root("", spec);
    let (addresses, ports) = (
        service::needs_address(&was) && service::needs_address(&at),
        service::needs_node_ports(&was) && service::needs_node_ports(&at),
    );
    let health = service::needs_health_port(&was) && service::needs_health_port(&at);
    let mut keys = Vec::new();
    if addresses {
        keys.extend(["clusterIP", "clusterIPs"]);
    }
    if health {
        keys.push("healthCheckNodePort");
    }
    for key in keys {
        if let Some(value) = was.map.get(key) {
            crate::kinds::defaults::set(spec, key, value.clone());
        }
    }
    if ports {
        let list = spec.get_mut("ports").and_then(Value::as_array_mut);
        let mut list: Vec<&mut Map<String, Value>> =
            list.into_iter().flatten().filter_map(Value::as_object_mut).collect();
        let used: HashSet<i64> = list.iter().filter_map(|port| port.get("nodePort")?.as_i64()).collect();
        let before: HashMap<&str, Option<i64>> =
            was.items("ports").map(|old| (old.text("name"), old.int("nodePort"))).collect();
        for port in &mut list {
            let name = port.get("name").and_then(Value::as_str).unwrap_or_default();
            if let Some(number) = before.get(name).copied().flatten().filter(|number| !used.contains(number)) {
                crate::kinds::defaults::set(port, "nodePort", number);
            }
        }
    }
}

/// `clusterIP` and `clusterIPs` say the same: who writes one means both.
fn normalize(object: &mut Object, old: Option<&Object>) {
    let Some(spec) = service::spec_mut(object) else { return };
    let one = spec.get("clusterIP").cloned();
    let many = spec.get("clusterIPs").cloned();
    let before = |key: &str| old.and_then(|old| old.0.get("spec")).and_then(|spec| spec.get(key)).cloned();
    match (one, many, old) {
        (Some(one), None, None) => {
            spec.insert("clusterIPs".into(), json!([one]));
        }
        (one, many, Some(_)) if one != before("clusterIP") && many == before("clusterIPs") => {
            match one {
                Some(one) => spec.insert("clusterIPs".into(), json!([one])),
                None => spec.remove("clusterIPs"),
            };
        }
        _ => {}
    }
}

fn address(api: &Inner, object: &mut Object, old: Option<&Object>) -> Result<(), Status> {
    let range = api.options.service_range;
    let Some(spec) = service::spec_mut(object) else { return Ok(()) };
    let at = At::root("spec", spec);
    let asked = at.text("clusterIP").to_owned();
    let held = old.and_then(|old| old.0.get("spec")).and_then(|spec| spec.get("clusterIP")).and_then(Value::as_str);
    if !service::needs_address(&at) || asked == "None" || (!asked.is_empty() && Some(asked.as_str()) == held) {
        return Ok(());
    }
    if held.is_some() {
        // It cannot change any more; the rules will say so.
        return Ok(());
    }
    if asked.is_empty() {
        let random = api.random();
        let free = |taken: &taken::Holders| range.choose(random, |address| taken.has_address(address));
        let Some(chosen) = api.taken.read(&api.store, free)? else {
            return Err(Status::internal(format!("failed to allocate a serviceIP: range is full: {range}")));
        };
        let chosen = chosen.to_string();
        spec.insert("clusterIPs".into(), json!([chosen]));
        spec.insert("clusterIP".into(), chosen.into());
        return Ok(());
    }
    let why = match asked.parse::<Ipv4Addr>() {
        Ok(address) if !range.contains(address) => "the provided network does not match the current range".to_owned(),
        Ok(address) if api.taken.read(&api.store, |taken| taken.has_address(address))? => {
            "provided IP is already allocated".to_owned()
        }
        _ => return Ok(()),
    };
    let error = FieldError::invalid(
        "spec.clusterIPs",
        at.list("clusterIPs").to_vec(),
        format!("failed to allocate IP {asked}: {why}"),
    );
    Err(invalid(object, &[error]))
}

fn node_ports(api: &Inner, object: &mut Object, old: Option<&Object>) -> Result<(), Status> {
    let root = At::root("", &object.0);
    let at = root.part("spec");
    if !service::needs_node_ports(&at) {
        return Ok(());
    }
    let range = &api.options.service_node_ports;
    let choose = at.text("type") == "NodePort" || at.flag("allocateLoadBalancerNodePorts");
    let health = service::needs_health_port(&at);
    let was = old.map(taken::node_ports).unwrap_or_default();
    let item = format!("{}/{}", object.namespace(), object.name());
    let is_taken = |number: i64| api.taken.read(&api.store, |taken| taken.has_port(number, &item));
    let mut errors = Vec::new();
    let mut check = |field: String, number: i64| -> Result<(), Status> {
        if was.contains(&number) {
            return Ok(());
        }
        if !range.contains(&u16::try_from(number).unwrap_or(0)) {
            let why = format!(
                "provided port is not in the valid range. The range of valid ports is {}-{}",
                range.start(),
                range.end()
            );
            errors.push(FieldError::invalid(field, number, why));
        } else if is_taken(number)? {
            errors.push(FieldError::invalid(field, number, "provided port is already allocated"));
        }
        Ok(())
    };
    for port in at.items("ports") {
        if let Some(number) = port.int("nodePort") {
            check(port.field("nodePort"), number)?;
        }
    }
    if let Some(number) = at.int("healthCheckNodePort").filter(|_| health) {
        check(at.field("healthCheckNodePort"), number)?;
    }
    if !errors.is_empty() {
        return Err(invalid(object, &errors));
    }
    let mut own: HashSet<i64> = at.items("ports").filter_map(|port| port.int("nodePort")).collect();
    let mut next = || {
        let numbers = u32::from(*range.start())..=u32::from(*range.end());
        let random = api.random();
        let chosen = api.taken.read(&api.store, |taken| {
            let free = |number| !own.contains(&number) && !taken.has_port(number, &item);
            free_from(numbers, random, |number| free(i64::from(number)))
        })?;
        let chosen = chosen.ok_or_else(|| Status::internal("failed to allocate a nodePort: range is full"))?;
        own.insert(i64::from(chosen));
        Ok::<i64, Status>(i64::from(chosen))
    };
    let Some(spec) = service::spec_mut(object) else { return Ok(()) };
    // Ports of one number (TCP and UDP) share a node port.
    let mut by_port: HashMap<i64, i64> = HashMap::new();
    let list = spec.get_mut("ports").and_then(Value::as_array_mut);
    let mut list: Vec<&mut Map<String, Value>> = list.into_iter().flatten().filter_map(Value::as_object_mut).collect();
    for port in &list {
        let number = |key: &str| port.get(key).and_then(Value::as_i64);
        if let (Some(port), Some(node)) = (number("port"), number("nodePort")) {
            by_port.entry(port).or_insert(node);
        }
    }
    for port in list.iter_mut().filter(|port| choose && !port.contains_key("nodePort")) {
        let number = port.get("port").and_then(Value::as_i64).unwrap_or_default();
        let node = match by_port.get(&number) {
            Some(node) => *node,
            None => next()?,
        };
        by_port.insert(number, node);
        port.insert("nodePort".into(), node.into());
    }
    if health && !spec.contains_key("healthCheckNodePort") {
        spec.insert("healthCheckNodePort".into(), next()?.into());
    }
    Ok(())
}

/// Makes the service under which the cluster reaches this API, and says where it is.
pub(crate) async fn ensure_system(api: &Inner) -> Result<(), Status> {
    let port = api.options.advertise.map_or(6443, |address| address.port());
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {"clusterIP": api.options.service_range.first().to_string(), "type": "ClusterIP", "sessionAffinity": "None",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]}});
    make(api, "", "services", service).await?;
    // An address that only this machine can reach is nobody's endpoint.
    if let Some(address) = api.options.advertise.filter(is_reachable) {
        let ip = address.ip().to_string();
        let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints",
            "metadata": {"name": "kubernetes", "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
            "subsets": [{"addresses": [{"ip": ip}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}]});
        let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}},
            "addressType": if address.is_ipv4() { "IPv4" } else { "IPv6" },
            "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}]});
        make(api, "", "endpoints", endpoints).await?;
        make(api, "discovery.k8s.io", "endpointslices", slice).await?;
    }
    Ok(())
}

fn is_reachable(address: &SocketAddr) -> bool {
    let ip = address.ip();
    let local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !ip.is_loopback() && !ip.is_unspecified() && !local
}

/// Makes an object in the default namespace, or brings its content up to date.
async fn make(api: &Inner, group: &str, plural: &str, desired: Value) -> Result<(), Status> {
    let Some(kind) = api.kind(group, "v1", plural) else { return Ok(()) };
    let desired = Object::from_value(desired).unwrap_or_default();
    let name = desired.name().to_owned();
    match api.store.get(&kind.key("default", &name)) {
        None => match api.create(&kind, "default", desired, &By::SERVER).await {
            Err(e) if e.reason == Reason::AlreadyExists => Ok(()),
            made => made.map(drop),
        },
        // The service keeps its address; where the API is found may have changed.
        Some(_) if plural == "services" => Ok(()),
        Some(_) => {
            let change = |current: &Object| {
                let mut next = current.clone();
                for key in ["subsets", "endpoints", "ports", "addressType"] {
                    if let Some(value) = desired.0.get(key) {
                        next.0.insert(key.into(), value.clone());
                    }
                }
                Ok(next)
            };
            let part = crate::objects::Part::Main;
            match api.update(&kind, "default", &name, part, &By::SERVER, change).await {
                Err(e) if e.reason == Reason::NotFound => Ok(()),
                // Somebody made it into what it cannot be any more; that is theirs to mend.
                Err(e) if e.reason == Reason::Invalid => {
                    let what = GroupResource { group, resource: plural };
                    tracing::warn!(object = %what, error = %e, "cannot say where the API is");
                    Ok(())
                }
                done => done.map(drop),
            }
        }
    }
}

#[cfg(test)]
mod tests;
