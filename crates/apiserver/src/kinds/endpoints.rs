//! Endpoints and EndpointSlices: the addresses behind a service.

use super::check::{At, IMMUTABLE, PORT, ip, named};
use super::columns::{AGE, age};
use jiff::Timestamp;
use meta::table::Column;
use meta::{FieldError, FieldErrors, Object, name};
use serde_json::Value;
use std::collections::HashSet;
use std::net::IpAddr;

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20_000;

pub fn default(object: &mut Object) {
    super::defaults::apply("core/v1.Endpoints", &mut object.0);
}

pub fn slice_default(object: &mut Object) {
    super::defaults::apply("discovery/v1.EndpointSlice", &mut object.0);
    // Topology is labels of nodes; the old field is not kept.
    for endpoint in object.0.get_mut("endpoints").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(endpoint) = endpoint.as_object_mut() {
            endpoint.remove("deprecatedTopology");
        }
    }
}

pub fn slice_warnings(object: &Object, old: Option<&Object>) -> Vec<String> {
    let named = old.is_none() && object.0.get("addressType").and_then(Value::as_str) == Some("FQDN");
    if named { vec!["spec.addressType: FQDN endpoints are deprecated".to_owned()] } else { Vec::new() }
}

/// Labels choose the slices of a service, so they count as a change of it.
pub fn slice_update(new: &mut Object, old: &Object) {
    if new.meta().get("labels") != old.meta().get("labels") {
        let next = old.generation() + 1;
        new.meta_mut().insert("generation".into(), next.into());
    }
}

/// An address that traffic can be sent to.
pub fn reachable(field: &str, value: &str, errors: &mut FieldErrors) {
    let why = match value.parse::<IpAddr>() {
        Err(_) => "must be a valid IP address".to_owned(),
        Ok(ip) if ip.is_unspecified() => format!("may not be unspecified ({value})"),
        Ok(ip) if ip.is_loopback() => "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned(),
        Ok(IpAddr::V4(ip)) if ip.is_link_local() => LINK_LOCAL.to_owned(),
        Ok(IpAddr::V6(ip)) if ip.is_unicast_link_local() => LINK_LOCAL.to_owned(),
        Ok(IpAddr::V4(ip)) if ip.octets()[..3] == [224, 0, 0] => MULTICAST.to_owned(),
        Ok(IpAddr::V6(ip)) if ip.segments()[0] & 0xff0f == 0xff02 => MULTICAST.to_owned(),
        Ok(_) => return,
    };
    errors.push(FieldError::invalid(field, value, why));
}

const LINK_LOCAL: &str = "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
const MULTICAST: &str = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";

pub fn validate(object: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let root = At::root("", &object.0);
    for subset in root.items("subsets") {
        if !subset.has("addresses") && !subset.has("notReadyAddresses") {
            let why = "must specify `addresses` or `notReadyAddresses`";
            errors.push(FieldError::required(subset.path(), why));
        }
        for list in ["addresses", "notReadyAddresses"] {
            for address in subset.items(list) {
                let value = address.text("ip");
                named(&address.field("ip"), value, ip, &mut errors);
                address.named("hostname", name::dns1123_label, &mut errors);
                address.stated("nodeName", name::dns1123_subdomain, &mut errors);
                reachable(&address.field("ip"), value, &mut errors);
            }
        }
        let several = subset.list("ports").len() > 1;
        for port in subset.items("ports") {
            if several {
                port.required("name", &mut errors);
            }
            port.named("name", name::dns1123_label, &mut errors);
            if !port.int("port").is_some_and(|n| (1..=65535).contains(&n)) {
                port.invalid("port", PORT, &mut errors);
            }
            port.one_of("protocol", PROTOCOLS, &mut errors);
            port.stated("appProtocol", name::qualified_name, &mut errors);
        }
    }
    errors
}

pub fn slice_validate(object: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let root = At::root("", &object.0);
    if root.required("addressType", &mut errors) {
        root.one_of("addressType", &["FQDN", "IPv4", "IPv6"], &mut errors);
    }
    slice_ports(&root, &mut errors);
    if too_many(&root, "endpoints", MAX_ENDPOINTS, &mut errors) {
        return errors;
    }
    for endpoint in root.items("endpoints") {
        let list = endpoint.field("addresses");
        if endpoint.list("addresses").is_empty() {
            errors.push(FieldError::required(list.clone(), "must contain at least 1 address"));
        }
        too_many(&endpoint, "addresses", MAX_ADDRESSES, &mut errors);
        for (i, address) in endpoint.texts("addresses").enumerate() {
            slice_address(root.text("addressType"), &list, i, address, &mut errors);
        }
        endpoint.stated("nodeName", name::dns1123_subdomain, &mut errors);
        endpoint.stated("hostname", name::dns1123_label, &mut errors);
        let hints = endpoint.part("hints");
        for (list, rule) in [("forZones", name::label_value as fn(&str) -> _), ("forNodes", name::dns1123_subdomain)] {
            let mut seen = HashSet::new();
            for hint in hints.items(list) {
                if !seen.insert(hint.text("name")) {
                    errors.push(FieldError::duplicate(hint.field("name"), hint.text("name")));
                }
                named(&hint.field("name"), hint.text("name"), rule, &mut errors);
            }
        }
    }
    errors
}

fn too_many(at: &At<'_>, list: &str, max: usize, errors: &mut FieldErrors) -> bool {
    let count = at.list(list).len();
    if count > max {
        errors.push(FieldError::too_many(at.field(list), count, max));
    }
    count > max
}

fn slice_ports(root: &At<'_>, errors: &mut FieldErrors) {
    if too_many(root, "ports", MAX_PORTS, errors) {
        return;
    }
    let mut seen = HashSet::new();
    for port in root.items("ports") {
        port.named("name", name::dns1123_label, errors);
        if !seen.insert(port.text("name")) {
            errors.push(FieldError::duplicate(port.field("name"), port.text("name")));
        }
        port.one_of("protocol", PROTOCOLS, errors);
        port.stated("appProtocol", name::qualified_name, errors);
    }
}

fn slice_address(kind: &str, list: &str, i: usize, address: &str, errors: &mut FieldErrors) {
    let field = format!("{list}[{i}]");
    let (wanted, other) = match kind {
        "IPv4" => ("must be an IPv4 address", true),
        "IPv6" => ("must be an IPv6 address", false),
        "FQDN" => {
            let domain = address.strip_suffix('.').unwrap_or(address);
            named(&field, domain, name::dns1123_subdomain, errors);
            if !domain.contains('.') {
                let why = "should be a domain with at least two segments separated by dots";
                errors.push(FieldError::invalid(field, address, why));
            }
            return;
        }
        _ => return,
    };
    match address.parse::<IpAddr>() {
        Err(_) => named(&field, address, ip, errors),
        Ok(parsed) => {
            if parsed.is_ipv6() == other {
                errors.push(FieldError::invalid(list, address, wanted));
            }
            reachable(&field, address, errors);
        }
    }
}

pub fn slice_validate_update(new: &Object, old: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    if new.0.get("addressType") != old.0.get("addressType") {
        At::root("", &new.0).invalid("addressType", IMMUTABLE, &mut errors);
    }
    errors
}

pub const COLUMNS: &[Column] = &[Column::name(), Column::new("Endpoints", "string"), AGE];
pub const SLICE_COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("AddressType", "string"),
    Column::new("Ports", "string"),
    Column::new("Endpoints", "string"),
    AGE,
];

/// The first three, and how many more there are.
fn first_three(all: &[String], none: &str) -> String {
    match all.len() {
        0 => none.to_owned(),
        1..=3 => all.join(","),
        n => format!("{} + {} more...", all[..3].join(","), n - 3),
    }
}

pub fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let root = At::root("", &object.0);
    let mut all = Vec::new();
    for subset in root.items("subsets") {
        let addresses: Vec<&str> = subset.items("addresses").map(|a| a.text("ip")).collect();
        if subset.list("ports").is_empty() {
            all.extend(addresses.iter().map(|ip| (*ip).to_owned()));
        }
        for port in subset.items("ports") {
            let number = port.int("port").unwrap_or_default();
            let joined =
                |ip: &&str| if ip.contains(':') { format!("[{ip}]:{number}") } else { format!("{ip}:{number}") };
            all.extend(addresses.iter().map(joined));
        }
    }
    let none = if root.list("subsets").is_empty() { "<none>" } else { "" };
    vec![object.name().into(), first_three(&all, none).into(), age(object, now)]
}

pub fn slice_cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let root = At::root("", &object.0);
    let port = |port: At<'_>| match (port.int("port"), port.value("name").as_str()) {
        (Some(number), _) => number.to_string(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => "*".to_owned(),
    };
    let ports: Vec<String> = root.items("ports").map(port).collect();
    let mut addresses = Vec::new();
    for endpoint in root.items("endpoints") {
        addresses.extend(endpoint.texts("addresses").map(str::to_owned));
    }
    vec![
        object.name().into(),
        root.text("addressType").into(),
        first_three(&ports, "<unset>").into(),
        first_three(&addresses, "<unset>").into(),
        age(object, now),
    ]
}
