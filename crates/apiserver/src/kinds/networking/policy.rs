//! What a NetworkPolicy must keep: ports that exist, peers that are one thing, ranges that can be read.

use super::cidr::{self, Cidr};
use crate::kinds::check::{At, label_selector};
use meta::{FieldError, FieldErrors, Object};
use serde_json::Value;

/// Rules of each direction, and what they call the other side.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];
const PROTOCOLS: &[&str] = &["TCP", "UDP", "SCTP"];
const TYPES: &[&str] = &["Ingress", "Egress"];

pub fn validate(object: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &object.0), Vec::new());
    let spec = root.part("spec");
    label_selector(&spec.part("podSelector"), &mut errors);
    for (rules, peers) in DIRECTIONS {
        for rule in spec.items(rules) {
            rule.items("ports").for_each(|at| port(&at, &mut errors));
            rule.items(peers).for_each(|at| peer(&at, &mut errors));
        }
    }
    if spec.list("policyTypes").len() > TYPES.len() {
        spec.invalid("policyTypes", "may not specify more than two policyTypes", &mut errors);
        return errors;
    }
    for (i, kind) in spec.texts("policyTypes").enumerate() {
        if !TYPES.contains(&kind) {
            errors.push(FieldError::not_supported(format!("{}[{i}]", spec.field("policyTypes")), kind, TYPES));
        }
    }
    errors
}

fn port(at: &At<'_>, errors: &mut FieldErrors) {
    at.one_of("protocol", PROTOCOLS, errors);
    let end = at.int("endPort");
    match at.value("port") {
        Value::Null if end.is_some() => {
            at.invalid("endPort", "may not be specified when `port` is not specified", errors)
        }
        Value::Null => {}
        Value::String(_) => {
            if end.is_some() {
                at.invalid("endPort", "may not be specified when `port` is non-numeric", errors);
            }
            at.port_or_name("port", errors);
        }
        number => {
            at.port("port", errors);
            if end.zip(number.as_i64()).is_some_and(|(end, start)| end < start) {
                let why = "must be greater than or equal to `port`";
                // It is the first port that Kubernetes shows here.
                errors.push(FieldError::invalid(at.field("endPort"), number.clone(), why));
            }
            at.port("endPort", errors);
        }
    }
}

fn peer(at: &At<'_>, errors: &mut FieldErrors) {
    let selectors = ["podSelector", "namespaceSelector"];
    for selector in selectors.iter().filter_map(|name| at.child(name)) {
        label_selector(&selector, errors);
    }
    let selects = selectors.iter().any(|name| at.has(name));
    match at.child("ipBlock") {
        Some(block) => {
            ip_block(&block, errors);
            if selects {
                errors.push(FieldError::forbidden(at.path(), "may not specify both ipBlock and another peer"));
            }
        }
        None if selects => {}
        None => errors.push(FieldError::required(at.path(), "must specify a peer")),
    }
}

fn ip_block(block: &At<'_>, errors: &mut FieldErrors) {
    const WRONG: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    if !block.required("cidr", errors) {
        return;
    }
    let Some(range) = Cidr::parse(block.text("cidr")) else {
        block.invalid("cidr", WRONG, errors);
        return;
    };
    for (i, text) in block.texts("except").enumerate() {
        let why = match Cidr::parse(text) {
            None => WRONG,
            Some(except) if !range.strictly_contains(except) => "must be a strict subset of `cidr`",
            Some(_) => continue,
        };
        errors.push(FieldError::invalid(format!("{}[{i}]", block.field("except")), text, why));
    }
}

pub fn warnings(object: &Object) -> Vec<String> {
    let mut warnings = Vec::new();
    let root = At::root("", &object.0);
    let spec = root.part("spec");
    for (rules, peers) in DIRECTIONS {
        for rule in spec.items(rules) {
            for peer in rule.items(peers) {
                let Some(block) = peer.child("ipBlock") else { continue };
                warnings.extend(cidr::warning(&block.field("cidr"), block.text("cidr")));
                for (i, text) in block.texts("except").enumerate() {
                    warnings.extend(cidr::warning(&format!("{}[{i}]", block.field("except")), text));
                }
            }
        }
    }
    warnings
}
