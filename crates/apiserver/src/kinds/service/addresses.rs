//! The addresses a service has within the cluster, and the families they are of.

use super::{is_headless, needs_address};
use crate::kinds::check::{At, ip, named};
use meta::{FieldError, FieldErrors};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashSet};

pub const ONCE: &str = "may not change once set";

/// What the fields for the cluster's own addresses must be among themselves.
pub fn addresses(spec: &At<'_>) -> FieldErrors {
    let mut errors = Vec::new();
    if !needs_address(spec) {
        return errors;
    }
    let all: Vec<&str> = spec.texts("clusterIPs").collect();
    match (spec.text("clusterIP"), all.first()) {
        ("", Some(_)) => {
            spec.invalid("clusterIPs", "must be empty when `clusterIP` is not specified", &mut errors);
        }
        ("", None) => {}
        (_, None) => errors.push(FieldError::required("spec.clusterIPs", "")),
        (one, Some(first)) if one != *first => {
            spec.invalid("clusterIPs", "first value must match `clusterIP`", &mut errors);
        }
        _ => {}
    }
    let families: Vec<&str> = spec.texts("ipFamilies").collect();
    let mut seen = HashSet::new();
    for (i, family) in families.iter().enumerate() {
        let field = format!("spec.ipFamilies[{i}]");
        if !["IPv4", "IPv6"].contains(family) {
            errors.push(FieldError::not_supported(field.clone(), *family, &["IPv4", "IPv6"]));
        }
        if !seen.insert(family) {
            errors.push(FieldError::duplicate(field, *family));
        }
    }
    spec.one_of("ipFamilyPolicy", &["PreferDualStack", "RequireDualStack", "SingleStack"], &mut errors);
    let before = errors.len();
    for (i, address) in all.iter().enumerate() {
        if i == 0 && *address == "None" {
            if all.len() > 1 {
                spec.invalid("clusterIPs", "'None' must be the first and only value", &mut errors);
            }
            continue;
        }
        named(&format!("spec.clusterIPs[{i}]"), address, ip, &mut errors);
    }
    let broken = errors.len() > before;
    if all.len() > 2 {
        spec.invalid("clusterIPs", "may only hold up to 2 values", &mut errors);
    }
    if broken {
        return errors;
    }
    let six = |address: &str| address.contains(':');
    if all.len() > 1 && all.iter().map(|a| six(a)).collect::<BTreeSet<_>>().len() != all.len() {
        spec.invalid("clusterIPs", "may specify no more than one IP for each IP family", &mut errors);
    }
    if !is_headless(spec) {
        for (i, (address, family)) in all.iter().zip(&families).enumerate() {
            if six(address) != (*family == "IPv6") {
                let why = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
                errors.push(FieldError::invalid(format!("spec.clusterIPs[{i}]"), *address, why));
            }
        }
    }
    errors
}

/// What a service is reached by stays, unless it becomes or was a mere name; only the second address and family come and go.
pub fn kept_addresses(spec: &At<'_>, was: &At<'_>, errors: &mut FieldErrors) {
    if !needs_address(spec) || !needs_address(was) {
        return;
    }
    let (headless, was_headless) = (is_headless(spec), is_headless(was));
    if !(headless && was_headless) {
        kept(spec, was, "clusterIPs", "clusterIP", errors);
    }
    if !headless && !was_headless {
        kept(spec, was, "ipFamilies", "ipFamily", errors);
    }
}

fn kept(spec: &At<'_>, was: &At<'_>, list: &str, one: &str, errors: &mut FieldErrors) {
    let (now, before) = (spec.list(list), was.list(list));
    let addresses = spec.list("clusterIPs");
    let whole = |values: &[Value]| Value::Array(values.to_vec());
    if now.len() == before.len() {
        for (i, _) in now.iter().zip(before).enumerate().filter(|(_, (new, old))| new != old) {
            let place = if list == "clusterIPs" { i } else { 0 };
            errors.push(FieldError::invalid(format!("{}[{place}]", spec.field(list)), whole(now), ONCE));
        }
        return;
    }
    let first = format!("{}[0]", spec.field(list));
    if now.len() < before.len() && addresses.is_empty() {
        let why = format!("primary {one} can not be unset");
        errors.push(FieldError::invalid(first.clone(), json!([]), why));
    }
    if let (Some(new), Some(old)) = (now.first(), before.first())
        && new != old
    {
        errors.push(FieldError::invalid(first, whole(addresses), ONCE));
    }
    if now.len() == 1 && before.len() > 1 && spec.text("ipFamilyPolicy") != "SingleStack" {
        let why = format!("must be set to 'SingleStack' when releasing the secondary {one}");
        errors.push(FieldError::invalid(spec.field("ipFamilyPolicy"), spec.value("ipFamilyPolicy").clone(), why));
    }
}
