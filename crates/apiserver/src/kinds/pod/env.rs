//! The environment of a container, and references to fields and resources of its pod.

use crate::kinds::check::{At, named};
use meta::{FieldError, FieldErrors, name};

fn env_name(value: &str) -> Vec<String> {
    if !value.is_empty() && value.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=') {
        return Vec::new();
    }
    let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
    vec![why.to_owned()]
}

pub fn env(at: &At<'_>, errors: &mut FieldErrors) {
    for variable in at.items("env") {
        if variable.required("name", errors) {
            variable.named("name", env_name, errors);
        }
        if let Some(from) = variable.child("valueFrom") {
            value_from(&from, !variable.text("value").is_empty(), errors);
        }
    }
}

const ENV_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

fn value_from(from: &At<'_>, has_value: bool, errors: &mut FieldErrors) {
    let sources = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef"];
    if let Some(reference) = from.child("fieldRef") {
        field_reference(&reference, ENV_FIELDS, errors);
    }
    if let Some(reference) = from.child("resourceFieldRef") {
        resource_reference(&reference, false, errors);
    }
    for reference in ["configMapKeyRef", "secretKeyRef"].into_iter().filter_map(|source| from.child(source)) {
        named(&reference.field("name"), reference.text("name"), name::dns1123_subdomain, errors);
        if reference.required("key", errors) {
            reference.named("key", name::config_key, errors);
        }
    }
    let why = match sources.iter().filter(|source| from.has(source)).count() {
        0 => "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
        _ if has_value => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    errors.push(FieldError::invalid(from.path(), "", why));
}

/// A field of the pod itself.
pub fn field_reference(at: &At<'_>, supported: &[&str], errors: &mut FieldErrors) {
    if !at.required("fieldPath", errors) {
        return;
    }
    let path = at.text("fieldPath");
    if let Some((map, key)) = path.strip_suffix("']").and_then(|path| path.split_once("['")) {
        match map {
            "metadata.annotations" => named(&at.path(), &key.to_lowercase(), name::qualified_name, errors),
            "metadata.labels" => named(&at.path(), key, name::qualified_name, errors),
            _ => unconvertible(at, path, errors),
        }
        return;
    }
    const KNOWN: &[&str] = &["metadata.annotations", "metadata.labels"];
    if !ENV_FIELDS.contains(&path) && !KNOWN.contains(&path) {
        unconvertible(at, path, errors);
    } else if !supported.contains(&path) {
        errors.push(FieldError::not_supported(at.field("fieldPath"), path, supported));
    }
}

fn unconvertible(at: &At<'_>, path: &str, errors: &mut FieldErrors) {
    let label = path.split_once("['").map_or(path, |(map, _)| map);
    let why = match label == path {
        true => format!("error converting fieldPath: field label not supported: {path}"),
        false => format!("error converting fieldPath: field label does not support subscript: {path}"),
    };
    at.invalid("fieldPath", why, errors);
}

/// A resource of one of the pod's containers.
pub fn resource_reference(at: &At<'_>, in_volume: bool, errors: &mut FieldErrors) {
    const SUPPORTED: &[&str] = &[
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
    ];
    let resource = at.text("resource");
    let huge = ["limits.hugepages-", "requests.hugepages-"].iter().any(|prefix| resource.starts_with(prefix));
    if in_volume && at.text("containerName").is_empty() {
        errors.push(FieldError::required(at.field("containerName"), ""));
    } else if at.required("resource", errors) && !SUPPORTED.contains(&resource) && !huge {
        errors.push(FieldError::not_supported(at.field("resource"), resource, SUPPORTED));
    }
    let divisor = at.text("divisor");
    if matches!(divisor, "" | "0") {
        return;
    }
    let of_cpu = resource.ends_with(".cpu");
    let bytes = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let fits = if of_cpu { ["1m", "1"].contains(&divisor) } else { bytes.contains(&divisor) };
    if !fits {
        let what = match resource.rsplit_once('.').map_or("", |(_, what)| what) {
            "cpu" => "values 1m and 1 are supported with the cpu resource",
            "memory" => {
                "values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the memory resource"
            }
            "ephemeral-storage" => {
                "values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the local ephemeral storage resource"
            }
            _ if huge => {
                "values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the hugepages resource"
            }
            _ => return,
        };
        errors.push(FieldError::invalid(at.field("divisor"), resource, format!("only divisor's {what}")));
    }
}

pub fn env_from(at: &At<'_>, errors: &mut FieldErrors) {
    for source in at.items("envFrom") {
        source.named("prefix", env_name, errors);
        let set = ["configMapRef", "secretRef"].into_iter().filter_map(|kind| source.child(kind));
        let mut count = 0;
        for reference in set {
            count += 1;
            if reference.required("name", errors) {
                reference.named("name", name::dns1123_subdomain, errors);
            }
        }
        if count != 1 {
            let why = match count {
                0 => "must specify one of: `configMapRef` or `secretRef`",
                _ => "may not have more than one field specified at a time",
            };
            errors.push(FieldError::invalid(at.field("envFrom"), "", why));
        }
    }
}
