//! Amounts of resources: which names there are, what requests and limits must keep, and the class of service that follows.

use crate::kinds::check::{At, NON_NEGATIVE};
use meta::{FieldError, FieldErrors, name};
use schema::quantity::nanos;
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};

const NANO: i128 = 1_000_000_000;
const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

pub fn is_standard(resource: &str) -> bool {
    STANDARD.contains(&resource)
}

fn is_huge(resource: &str) -> bool {
    resource.starts_with("hugepages-")
}

fn is_native(resource: &str) -> bool {
    !resource.contains('/') || resource.contains("kubernetes.io/")
}

/// Extended resources come from a domain that is not Kubernetes' own.
fn is_extended(resource: &str) -> bool {
    !is_native(resource)
        && !resource.starts_with("requests.")
        && name::qualified_name(&format!("requests.{resource}")).is_empty()
}

fn overcommits(resource: &str) -> bool {
    is_native(resource) && !is_huge(resource)
}

fn counts_whole(resource: &str) -> bool {
    const COUNTED: &[&str] = &[
        "pods",
        "services",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    ];
    COUNTED.contains(&resource) || is_extended(resource)
}

/// A resource's name: known, or qualified by a domain.
pub fn resource_name(field: &str, resource: &str, errors: &mut FieldErrors) -> bool {
    let wrong = name::qualified_name(resource);
    if !wrong.is_empty() {
        errors.extend(wrong.into_iter().map(|why| FieldError::invalid(field, resource, why)));
        return false;
    }
    let quota = |prefix: &str| resource.strip_prefix(prefix).is_some_and(is_huge);
    if !resource.contains('/') && !is_standard(resource) && !is_huge(resource) && !quota("requests.") {
        let why = "must be a standard resource type or fully qualified";
        errors.push(FieldError::invalid(field, resource, why));
        return false;
    }
    true
}

pub fn container_resource_name(field: &str, resource: &str, errors: &mut FieldErrors) {
    resource_name(field, resource, errors);
    if !resource.contains('/') {
        if !["cpu", "memory", "ephemeral-storage"].contains(&resource) && !is_huge(resource) {
            errors.push(FieldError::invalid(field, resource, "must be a standard resource for containers"));
        }
    } else if !is_native(resource) && !is_extended(resource) {
        errors.push(FieldError::invalid(field, resource, "doesn't follow extended resource name standard"));
    }
}

/// An amount is not negative, and of what is counted it is whole.
pub fn amount(field: &str, resource: &str, value: &Value, errors: &mut FieldErrors) {
    let amount = value.as_str().and_then(nanos).unwrap_or_default();
    if amount < 0 {
        errors.push(FieldError::invalid(field, value.clone(), NON_NEGATIVE));
    }
    if counts_whole(resource) && amount % NANO != 0 {
        errors.push(FieldError::invalid(field, value.clone(), "must be an integer"));
    }
}

/// ResourceRequirements of a container.
pub fn requirements(at: &At<'_>, claims: &BTreeSet<&str>, errors: &mut FieldErrors) {
    named_requirements(at, container_resource_name, claims, errors);
}

/// The rule of a resource's name: its field, the name.
type NameRule = fn(&str, &str, &mut FieldErrors);

/// The same of whatever may have the resources that `named` allows.
pub fn named_requirements(at: &At<'_>, named: NameRule, claims: &BTreeSet<&str>, errors: &mut FieldErrors) {
    for list in ["limits", "requests"] {
        for (resource, value) in at.entries(list) {
            let field = format!("{}[{resource}]", at.field(list));
            named(&field, resource, errors);
            amount(&field, resource, value, errors);
            if list == "requests" {
                request_within_limit(at, resource, value, errors);
            }
            if is_huge(resource) {
                huge_pages(&field, resource, value, errors);
            }
        }
    }
    let names = |list: &str| at.entries(list).map(|(name, _)| name).collect::<Vec<_>>();
    let all = [names("limits"), names("requests")].concat();
    if all.iter().any(|name| is_huge(name)) && !all.iter().any(|name| ["cpu", "memory"].contains(name)) {
        errors.push(FieldError::forbidden(at.path(), "HugePages require cpu or memory"));
    }
    claim_names(at, claims, errors);
}

fn request_within_limit(at: &At<'_>, resource: &str, value: &Value, errors: &mut FieldErrors) {
    let limits = at.part("limits");
    let request = value.as_str().unwrap_or_default();
    if !limits.has(resource) {
        if !overcommits(resource) {
            let why = "Limit must be set for non overcommitable resources";
            errors.push(FieldError::required(at.field("limits"), why));
        }
        return;
    }
    let limit = limits.text(resource);
    let (asked, allowed) = (nanos(request).unwrap_or_default(), nanos(limit).unwrap_or_default());
    if asked != allowed && !overcommits(resource) {
        let why = format!("must be equal to {resource} limit of {limit}");
        errors.push(FieldError::invalid(at.field("requests"), request, why));
    } else if asked > allowed {
        let why = format!("must be less than or equal to {resource} limit of {limit}");
        errors.push(FieldError::invalid(at.field("requests"), request, why));
    }
}

fn huge_pages(field: &str, resource: &str, value: &Value, errors: &mut FieldErrors) {
    let text = value.as_str().unwrap_or_default();
    let size = resource.strip_prefix("hugepages-").and_then(nanos).unwrap_or_default();
    let asked = nanos(text).unwrap_or_default();
    if asked != 0 && (size == 0 || asked % size != 0) {
        let why = format!("{text} is not positive integer multiple of {resource}");
        errors.push(FieldError::invalid(field, text, why));
    }
}

fn claim_names(at: &At<'_>, claims: &BTreeSet<&str>, errors: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for claim in at.items("claims") {
        let name = claim.text("name");
        if name.is_empty() {
            errors.push(FieldError::required(claim.path(), ""));
            continue;
        }
        if !seen.insert(name) && !claim.has("request") {
            errors.push(FieldError::duplicate(claim.path(), name));
        }
        if !claims.contains(name) {
            let mut error = FieldError::not_found(claim.path(), name);
            error.detail = "must be one of the names in pod.spec.resourceClaims".to_owned();
            if claims.is_empty() {
                error.detail.push_str(" which is empty");
            } else {
                error.detail.push_str(&format!(": {}", claims.iter().copied().collect::<Vec<_>>().join(", ")));
            }
            errors.push(error);
        }
    }
}

/// The class of service: guaranteed when every container limits what it asks for, best effort when nobody asks for anything. What is
/// said of the pod as a whole decides alone.
pub fn qos(spec: &At<'_>) -> &'static str {
    let mut guaranteed = true;
    let mut any = false;
    let containers: Vec<At<'_>> = spec.items("containers").chain(spec.items("initContainers")).collect();
    let holders: &[At<'_>] = if spec.has("resources") { std::slice::from_ref(spec) } else { &containers };
    for holder in holders {
        let resources = holder.part("resources");
        let positive =
            |list: &str, resource: &str| nanos(resources.part(list).text(resource)).filter(|amount| *amount > 0);
        for resource in ["cpu", "memory"] {
            let (request, limit) = (positive("requests", resource), positive("limits", resource));
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn class(containers: Value) -> &'static str {
        let spec = json!({"containers": containers});
        qos(&At::root("spec", spec.as_object().unwrap()))
    }

    #[test]
    fn the_class_of_service_follows_from_requests_and_limits() {
        let full = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1Gi"}});
        let less = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}});
        let none = json!({});
        assert_eq!(class(json!([{"resources": none}])), "BestEffort");
        assert_eq!(class(json!([{"resources": full}])), "Guaranteed");
        assert_eq!(class(json!([{"resources": less}])), "Burstable");
        assert_eq!(class(json!([{"resources": full}, {"resources": none}])), "Burstable");
        assert_eq!(class(json!([{"resources": {"limits": {"example.com/gpu": "1"}}}])), "BestEffort");
    }

    fn findings(resources: Value) -> Vec<String> {
        let mut errors = Vec::new();
        requirements(&At::root("resources", resources.as_object().unwrap()), &BTreeSet::new(), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_request_stays_within_its_limit() {
        assert!(findings(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}})).is_empty());
        assert_eq!(
            findings(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}})),
            ["resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"]
        );
        assert_eq!(
            findings(json!({"requests": {"example.com/gpu": "1"}})),
            ["resources.limits: Required value: Limit must be set for non overcommitable resources"]
        );
    }

    #[test]
    fn resource_names_are_known_or_qualified() {
        assert_eq!(
            findings(json!({"limits": {"gpu": "1"}})),
            [
                "resources.limits[gpu]: Invalid value: \"gpu\": must be a standard resource type or fully qualified",
                "resources.limits[gpu]: Invalid value: \"gpu\": must be a standard resource for containers"
            ]
        );
        assert_eq!(
            findings(json!({"limits": {"cpu": "-1"}})),
            ["resources.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"]
        );
    }
}
