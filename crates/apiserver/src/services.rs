//! Addresses and ports of services, and the service of the API itself.
//!
//! There is no allocator: what is taken is what the stored services hold. Services are written one by one, so two cannot choose the
//! same; a crash loses nothing because there is nothing to lose.

use crate::Inner;
use crate::kinds::check::At;
use crate::kinds::service;
use crate::ownership::By;
use meta::{FieldError, GroupResource, Object, Reason, Status};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;
use store::{Entry, Range};
use thiserror::Error;

/// The addresses services get, as a CIDR: `10.96.0.0/12`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceRange {
    base: u32,
    bits: u32,
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum RangeError {
    #[error("is not an IPv4 CIDR such as 10.96.0.0/12")]
    Format,
    #[error("must leave between 4 and 2^20 addresses: a prefix length from 12 to 30")]
    Size,
}

impl Default for ServiceRange {
    fn default() -> Self {
        Self { base: u32::from(Ipv4Addr::new(10, 96, 0, 0)), bits: 12 }
    }
}

impl FromStr for ServiceRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let (address, bits) = text.split_once('/').ok_or(RangeError::Format)?;
        let address: Ipv4Addr = address.parse().map_err(|_| RangeError::Format)?;
        let bits: u32 = bits.parse().map_err(|_| RangeError::Format)?;
        if !(12..=30).contains(&bits) {
            return Err(RangeError::Size);
        }
        Ok(Self { base: u32::from(address) & (u32::MAX << (32 - bits)), bits })
    }
}

impl std::fmt::Display for ServiceRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.base), self.bits)
    }
}

impl ServiceRange {
    fn size(self) -> u32 {
        1 << (32 - self.bits)
    }

    /// The address of the API's own service.
    fn first(self) -> Ipv4Addr {
        Ipv4Addr::from(self.base + 1)
    }

    /// Neither the network itself nor its broadcast address.
    fn contains(self, address: Ipv4Addr) -> bool {
        let offset = u32::from(address).wrapping_sub(self.base);
        offset > 0 && offset < self.size() - 1
    }

    /// A free address. The lower part of the range is left to those who ask for one, as long as there are others.
    fn choose(self, taken: &HashSet<Ipv4Addr>, random: u64) -> Option<Ipv4Addr> {
        let last = self.size() - 2;
        let kept = (self.size() / 16).clamp(16, 256).min(last);
        let upper = free_from(kept + 1..=last, random, |offset| !taken.contains(&Ipv4Addr::from(self.base + offset)));
        let free = upper
            .or_else(|| free_from(2..=kept, random, |offset| !taken.contains(&Ipv4Addr::from(self.base + offset))));
        free.map(|offset| Ipv4Addr::from(self.base + offset))
    }
}

/// The first free number at or after a random place, round the end.
fn free_from(range: RangeInclusive<u32>, random: u64, free: impl Fn(u32) -> bool) -> Option<u32> {
    if range.is_empty() {
        return None;
    }
    let (start, end) = (*range.start(), *range.end());
    let from = start + u32::try_from(random % u64::from(end - start + 1)).unwrap_or(0);
    (from..=end).chain(start..from).find(|number| free(*number))
}

/// Gives a service what it needs and does not have: families, an address, ports.
pub(crate) fn admit(api: &Inner, object: &mut Object, old: Option<&Object>) -> Result<(), Status> {
    if let Some(old) = old {
        keep_allocated(object, old);
    }
    normalize(object, old);
    families(object)?;
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

/// This cluster speaks IPv4; only a headless service without a selector may say otherwise.
fn families(object: &mut Object) -> Result<(), Status> {
    let Some(spec) = service::spec_mut(object) else { return Ok(()) };
    let at = At::root("spec", spec);
    if !service::needs_address(&at) {
        return Ok(());
    }
    let count = |key: &str| at.list(key).len();
    let open = at.text("clusterIP") == "None" && !at.has("selector");
    let policy = match at.text("ipFamilyPolicy") {
        "" if count("clusterIPs") == 2 || count("ipFamilies") == 2 || open => "RequireDualStack".to_owned(),
        "" => "SingleStack".to_owned(),
        policy => policy.to_owned(),
    };
    let mut errors = service::addresses(&at);
    if errors.is_empty() && policy == "SingleStack" {
        for (key, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
            if count(key) == 2 {
                let why = format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
                errors.push(FieldError::invalid("spec.ipFamilyPolicy", policy.as_str(), why));
            }
        }
    }
    let mut families: Vec<Value> = at.list("ipFamilies").to_vec();
    for (i, address) in at.texts("clusterIPs").enumerate().filter(|(_, address)| *address != "None") {
        if errors.is_empty() && i >= families.len() {
            if address.contains(':') {
                let field = format!("spec.clusterIPs[{i}]");
                let why = "IPv6 is not configured on this cluster";
                errors.push(FieldError::invalid(field, at.list("clusterIPs").to_vec(), why));
            } else {
                families.push("IPv4".into());
            }
        }
    }
    if errors.is_empty() && !open {
        if policy == "RequireDualStack" {
            let why = "this cluster is not configured for dual-stack services";
            errors.push(FieldError::invalid("spec.ipFamilyPolicy", policy.as_str(), why));
        }
        for (i, family) in families.iter().enumerate().filter(|(_, family)| *family != "IPv4") {
            let field = format!("spec.ipFamilies[{i}]");
            errors.push(FieldError::invalid(field, family.clone(), "not configured on this cluster"));
        }
    }
    if !errors.is_empty() {
        return Err(invalid(object, &errors));
    }
    if families.is_empty() {
        families.push("IPv4".into());
    }
    if open && families.len() == 1 && policy != "SingleStack" {
        families.push(if families[0] == "IPv4" { "IPv6".into() } else { "IPv4".into() });
    }
    spec.insert("ipFamilyPolicy".into(), policy.into());
    spec.insert("ipFamilies".into(), families.into());
    Ok(())
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
    if held.is_some_and(|held| held != "None") {
        // It cannot change any more; the rules will say so.
        return Ok(());
    }
    let taken = taken_addresses(api)?;
    if asked.is_empty() {
        let Some(chosen) = range.choose(&taken, api.random()) else {
            return Err(Status::internal(format!("failed to allocate a serviceIP: range is full: {range}")));
        };
        let chosen = chosen.to_string();
        spec.insert("clusterIPs".into(), json!([chosen]));
        spec.insert("clusterIP".into(), chosen.into());
        return Ok(());
    }
    let why = match asked.parse::<Ipv4Addr>() {
        Ok(address) if !range.contains(address) => "the provided network does not match the current range".to_owned(),
        Ok(address) if taken.contains(&address) => "provided IP is already allocated".to_owned(),
        _ => return Ok(()),
    };
    let error = FieldError::invalid(
        "spec.clusterIPs",
        at.list("clusterIPs").to_vec(),
        format!("failed to allocate IP {asked}: {why}"),
    );
    Err(invalid(object, &[error]))
}

fn services(api: &Inner, wanted: impl FnMut(&str, &Entry) -> bool) -> Result<Vec<Entry>, Status> {
    let Some(kind) = api.kind("", "v1", "services") else { return Ok(Vec::new()) };
    let range = Range { collection: &kind.collection, prefix: "", after: None, limit: 0, at: None };
    let page = api.store.range(&range, wanted).map_err(crate::objects::storage)?;
    Ok(page.items.into_iter().map(|(_, entry)| entry).collect())
}

fn fact<'a>(entry: &'a Entry, name: &str) -> Option<&'a str> {
    entry.attrs.fields.iter().find(|(key, _)| &**key == name).map(|(_, value)| &**value)
}

/// Known without parsing anything: the address is a selectable field.
fn taken_addresses(api: &Inner) -> Result<HashSet<Ipv4Addr>, Status> {
    let mut taken = HashSet::new();
    services(api, |_, entry| {
        taken.extend(fact(entry, "spec.clusterIP").and_then(|address| address.parse::<Ipv4Addr>().ok()));
        false
    })?;
    Ok(taken)
}

/// The node ports of all services but the one that is written.
fn taken_ports(api: &Inner, but: &Object) -> Result<HashSet<i64>, Status> {
    let Some(kind) = api.kind("", "v1", "services") else { return Ok(HashSet::new()) };
    let with_ports = |_: &str, entry: &Entry| matches!(fact(entry, "spec.type"), Some("NodePort" | "LoadBalancer"));
    let mut taken = HashSet::new();
    for entry in services(api, with_ports)? {
        let object = api.decode_stored(&kind, &entry.value, entry.revision)?;
        if object.uid() != but.uid() {
            let root = At::root("", &object.0);
            let spec = root.part("spec");
            taken.extend(spec.items("ports").filter_map(|port| port.int("nodePort")));
            taken.extend(spec.int("healthCheckNodePort"));
        }
    }
    Ok(taken)
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
    let old_root = old.map(|old| At::root("", &old.0));
    let was: HashSet<i64> = match &old_root {
        Some(root) => {
            let spec = root.part("spec");
            spec.items("ports").filter_map(|port| port.int("nodePort")).chain(spec.int("healthCheckNodePort")).collect()
        }
        None => HashSet::new(),
    };
    let mut taken = taken_ports(api, object)?;
    let mut errors = Vec::new();
    let mut check = |field: String, number: i64| {
        if was.contains(&number) {
            return;
        }
        if !range.contains(&u16::try_from(number).unwrap_or(0)) {
            let why = format!(
                "provided port is not in the valid range. The range of valid ports is {}-{}",
                range.start(),
                range.end()
            );
            errors.push(FieldError::invalid(field, number, why));
        } else if taken.contains(&number) {
            errors.push(FieldError::invalid(field, number, "provided port is already allocated"));
        }
    };
    for port in at.items("ports") {
        if let Some(number) = port.int("nodePort") {
            check(port.field("nodePort"), number);
        }
    }
    if let Some(number) = at.int("healthCheckNodePort").filter(|_| health) {
        check(at.field("healthCheckNodePort"), number);
    }
    if !errors.is_empty() {
        return Err(invalid(object, &errors));
    }
    taken.extend(at.items("ports").filter_map(|port| port.int("nodePort")));
    let mut next = || {
        let numbers = u32::from(*range.start())..=u32::from(*range.end());
        let free = free_from(numbers, api.random(), |number| !taken.contains(&i64::from(number)));
        let free = free.ok_or_else(|| Status::internal("failed to allocate a nodePort: range is full"))?;
        taken.insert(i64::from(free));
        Ok::<i64, Status>(i64::from(free))
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_range_is_a_cidr_of_sensible_size() {
        let range: ServiceRange = "10.96.3.4/24".parse().unwrap();
        assert_eq!(range.to_string(), "10.96.3.0/24");
        assert_eq!(range.first(), Ipv4Addr::new(10, 96, 3, 1));
        for (text, wrong) in
            [("10.96.0.0", RangeError::Format), ("x/24", RangeError::Format), ("10.0.0.0/8", RangeError::Size)]
        {
            assert_eq!(text.parse::<ServiceRange>(), Err(wrong), "{text}");
        }
    }

    #[test]
    fn every_address_is_given_once_until_none_is_left() {
        let range: ServiceRange = "10.0.0.0/27".parse().unwrap();
        let mut taken = HashSet::from([range.first()]);
        for random in 0..29 {
            let chosen = range.choose(&taken, random * 7).unwrap();
            assert!(range.contains(chosen) && taken.insert(chosen), "{chosen}");
        }
        assert_eq!(range.choose(&taken, 3), None);
    }

    proptest! {
        #[test]
        fn a_free_number_is_found_if_there_is_one(start in 0u32..50, len in 0u32..50, random: u64, taken in proptest::collection::hash_set(0u32..100, 0..60)) {
            let range = start..=start + len;
            let found = free_from(range.clone(), random, |n| !taken.contains(&n));
            match found {
                Some(n) => prop_assert!(range.contains(&n) && !taken.contains(&n)),
                None => prop_assert!(range.clone().all(|n| taken.contains(&n))),
            }
        }
    }
}
