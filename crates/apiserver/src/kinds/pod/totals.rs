//! Resources of a pod as a whole: what its containers add up to, what follows from that, and what must fit.

use super::resources;
use crate::kinds::check::At;
use crate::kinds::defaults::set;
use meta::{FieldError, FieldErrors};
use schema::quantity::{nanos, sum};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

type Amounts = BTreeMap<String, String>;

/// More kinds of resources are not added up.
const MOST: usize = 64;

fn is_huge(resource: &str) -> bool {
    resource.starts_with("hugepages-")
}

fn is_supported(resource: &str) -> bool {
    ["cpu", "memory"].contains(&resource) || is_huge(resource)
}

/// A resource that may be said of a pod as a whole.
pub fn resource_name(field: &str, resource: &str, errors: &mut FieldErrors) {
    if resources::resource_name(field, resource, errors) && !is_supported(resource) {
        errors.push(FieldError::not_supported(field, resource, &["cpu", "hugepages-", "memory"]));
    }
}

fn add(into: &mut Amounts, more: &Amounts) {
    for (resource, amount) in more {
        if into.len() >= MOST && !into.contains_key(resource) {
            break;
        }
        let whole = match into.get(resource) {
            Some(before) => sum(before, amount).unwrap_or_default(),
            None => amount.clone(),
        };
        into.insert(resource.clone(), whole);
    }
}

fn at_least(into: &mut Amounts, other: &Amounts) {
    for (resource, amount) in other {
        if into.len() >= MOST && !into.contains_key(resource) {
            break;
        }
        if into.get(resource).is_none_or(|before| nanos(before) < nanos(amount)) {
            into.insert(resource.clone(), amount.clone());
        }
    }
}

/// What the containers need at their highest: all that run together, or one that starts beside the sidecars before it.
fn needed(spec: &At<'_>, list: &str) -> Amounts {
    let of = |container: &At<'_>| -> Amounts {
        let resources = container.part("resources");
        let amounts = resources.entries(list).filter(|(name, _)| is_supported(name)).take(MOST);
        amounts.map(|(name, amount)| (name.to_owned(), amount.as_str().unwrap_or_default().to_owned())).collect()
    };
    let mut together = Amounts::new();
    spec.items("containers").for_each(|container| add(&mut together, &of(&container)));
    let (mut sidecars, mut starting) = (Amounts::new(), Amounts::new());
    for container in spec.items("initContainers") {
        let mut own = of(&container);
        if container.text("restartPolicy") == "Always" {
            add(&mut together, &own);
            add(&mut sidecars, &own);
            own = sidecars.clone();
        } else {
            add(&mut own, &sidecars);
        }
        at_least(&mut starting, &own);
    }
    at_least(&mut together, &starting);
    together
}

/// Who limits a pod as a whole asks for what its containers do, or for the limit.
pub fn default(spec: &mut Map<String, Value>) {
    let said = |list: &str| spec.get("resources").and_then(|r| r.get(list)).and_then(Value::as_object);
    let is_set = |list: &str| said(list).is_some_and(|amounts| !amounts.is_empty());
    if !is_set("limits") && !is_set("requests") {
        return;
    }
    let at = At::root("spec", spec);
    let (limits, requests) = (needed(&at, "limits"), needed(&at, "requests"));
    let Some(Value::Object(resources)) = spec.get_mut("resources") else { return };
    let asked = resources.get("requests").and_then(Value::as_object).cloned().unwrap_or_default();
    let pages: Vec<_> = limits.iter().filter(|(name, _)| is_huge(name) && !asked.contains_key(*name)).collect();
    if !pages.is_empty()
        && let Value::Object(all) = resources.entry("limits").or_insert_with(|| json!({}))
    {
        pages.into_iter().for_each(|(name, amount)| set(all, name, amount.as_str()));
    }
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else { return };
    if let Value::Object(all) = resources.entry("requests").or_insert_with(|| json!({})) {
        let shared = requests.iter().filter(|(name, _)| ["cpu", "memory"].contains(&name.as_str()));
        shared.for_each(|(name, amount)| set(all, name, amount.as_str()));
        let rest = limits.into_iter().filter(|(name, _)| is_supported(name));
        rest.for_each(|(name, amount)| set(all, &name, amount));
        if all.is_empty() {
            resources.remove("requests");
        }
    }
}

/// The rules of `spec.resources`: names, amounts, and that the containers fit.
pub fn check(spec: &At<'_>, claims: &BTreeSet<&str>, errors: &mut FieldErrors) {
    let Some(at) = spec.child("resources") else { return };
    if spec.part("os").text("name") == "windows" {
        errors.push(FieldError::forbidden(at.path(), "may not be set for a windows pod"));
        return;
    }
    if at.has("claims") {
        at.forbidden("claims", "claims may not be set for Resources at pod-level", errors);
    }
    resources::named_requirements(&at, resource_name, claims, errors);
    let (limits, requests) = (at.part("limits"), at.part("requests"));
    for (resource, needed) in needed(spec, "requests") {
        let asked = requests.text(&resource);
        if requests.has(&resource) && nanos(&needed) > nanos(asked) {
            let why = format!("must be greater than or equal to aggregate container requests of {needed}");
            errors.push(FieldError::invalid(format!("{}[{resource}]", at.field("requests")), asked, why));
        }
    }
    for (resource, needed) in needed(spec, "limits").into_iter().filter(|(resource, _)| is_huge(resource)) {
        let limit = limits.text(&resource);
        if limits.has(&resource) && nanos(&needed) > nanos(limit) {
            let why = format!("must be greater than or equal to aggregate container limits of {needed}");
            errors.push(FieldError::invalid(format!("{}[{resource}]", at.field("limits")), limit, why));
        }
    }
    for (i, container) in spec.items("containers").enumerate() {
        let resources = container.part("resources");
        for (resource, own) in resources.entries("limits") {
            let (own, limit) = (own.as_str().unwrap_or_default(), limits.text(resource));
            if limits.has(resource) && nanos(own) > nanos(limit) {
                let field = format!("{}.containers[{i}][{resource}].limits", at.path());
                let why = format!("must be less than or equal to pod limits of {limit}");
                errors.push(FieldError::invalid(field, own, why));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(requests: Value) -> Value {
        json!({"name": "c", "resources": {"requests": requests}})
    }

    #[test]
    fn sidecars_count_beside_what_starts_after_them() {
        let sidecar = |cpu: &str| {
            let mut sidecar = container(json!({"cpu": cpu}));
            sidecar["restartPolicy"] = "Always".into();
            sidecar
        };
        let spec = json!({"containers": [container(json!({"cpu": "1"})), container(json!({"cpu": "500m"}))],
            "initContainers": [sidecar("250m"), container(json!({"cpu": "3"})), sidecar("1")]});
        let all = needed(&At::root("spec", spec.as_object().unwrap()), "requests");
        assert_eq!(all["cpu"], "3250m", "the one that starts beside the first sidecar");
        let spec =
            json!({"containers": [container(json!({"cpu": "3", "memory": "1Gi"}))], "initContainers": [sidecar("1")]});
        let all = needed(&At::root("spec", spec.as_object().unwrap()), "requests");
        assert_eq!((all["cpu"].as_str(), all["memory"].as_str()), ("4", "1Gi"));
    }

    #[test]
    fn a_limited_pod_asks_for_what_its_containers_do_or_for_the_limit() {
        let spec = json!({"resources": {"limits": {"cpu": "4", "memory": "2Gi"}}, "containers": [container(json!({"cpu": "1"}))]});
        let mut spec = spec.as_object().unwrap().clone();
        default(&mut spec);
        assert_eq!(spec["resources"]["requests"], json!({"cpu": "1", "memory": "2Gi"}));
        let mut bare =
            json!({"resources": {}, "containers": [container(json!({"cpu": "1"}))]}).as_object().unwrap().clone();
        default(&mut bare);
        assert_eq!(bare["resources"], json!({}));
    }

    #[test]
    fn containers_fit_into_their_pod() {
        let mut big = container(json!({"cpu": "2"}));
        big["resources"]["limits"] = json!({"memory": "3Gi"});
        let spec = json!({"resources": {"limits": {"memory": "2Gi", "storage": "1"}, "requests": {"cpu": "1"}}, "containers": [big]});
        let mut errors = Vec::new();
        check(&At::root("spec", spec.as_object().unwrap()), &BTreeSet::new(), &mut errors);
        let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "spec.resources.limits[storage]: Unsupported value: \"storage\": supported values: \"cpu\", \"hugepages-\", \"memory\"",
                "spec.resources.requests[cpu]: Invalid value: \"1\": must be greater than or equal to aggregate container requests of 2",
                "spec.resources.containers[0][memory].limits: Invalid value: \"3Gi\": must be less than or equal to pod limits of 2Gi"
            ]
        );
    }
}
