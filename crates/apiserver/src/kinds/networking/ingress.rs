//! What an Ingress and its class must keep: hosts, paths and backends that lead somewhere.

use super::cidr;
use crate::kinds::check::{At, IMMUTABLE, domain_prefixed, ip, named, port_name};
use meta::{FieldError, FieldErrors, Object, name};

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const PATH_TYPES: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];
const MAX_CONTROLLER: usize = 250;
const NOT_AN_ADDRESS: &str = "must be a DNS name, not an IP address";

pub fn validate(object: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &object.0), Vec::new());
    let spec = root.part("spec");
    let default = spec.child("defaultBackend");
    if spec.list("rules").is_empty() && default.is_none() {
        let why = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid("spec", spec.value("rules").clone(), why));
    }
    if let Some(default) = default {
        backend(&default, &mut errors);
    }
    spec.items("rules").for_each(|at| rule(&at, &mut errors));
    for tls in spec.items("tls") {
        for (i, host) in tls.texts("hosts").enumerate() {
            host_name(&format!("{}[{i}]", tls.field("hosts")), host, &mut errors);
        }
        tls.named("secretName", name::dns1123_subdomain, &mut errors);
    }
    if spec.has("ingressClassName") {
        let field = spec.field("ingressClassName");
        named(&field, spec.text("ingressClassName"), name::dns1123_subdomain, &mut errors);
    }
    errors
}

fn annotation(object: &Object) -> Option<&str> {
    object.meta().get("annotations").and_then(|a| a.get(CLASS_ANNOTATION)).and_then(|value| value.as_str())
}

pub fn validate_create(object: &Object) -> FieldErrors {
    let root = At::root("", &object.0);
    let spec = root.part("spec");
    match annotation(object) {
        Some(class) if spec.has("ingressClassName") && spec.text("ingressClassName") != class => {
            let why = "must match `ingressClassName` when both are specified";
            vec![FieldError::invalid(format!("annotations.{CLASS_ANNOTATION}"), class, why)]
        }
        _ => Vec::new(),
    }
}

pub fn warnings(new: &Object, old: Option<&Object>) -> Vec<String> {
    let classless = !At::root("", &new.0).part("spec").has("ingressClassName");
    if old.is_none() && classless && annotation(new).is_some() {
        return vec![format!(
            "annotation {CLASS_ANNOTATION:?} is deprecated, please use 'spec.ingressClassName' instead"
        )];
    }
    Vec::new()
}

fn host_name(field: &str, host: &str, errors: &mut FieldErrors) {
    let rule = if host.contains('*') { wildcard } else { name::dns1123_subdomain };
    named(field, host, rule, errors);
}

/// `*.` and a subdomain.
fn wildcard(host: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if host.len() > 253 {
        wrong.push("must be no more than 253 characters".to_owned());
    }
    if !host.strip_prefix("*.").is_some_and(|rest| name::dns1123_subdomain(rest).is_empty()) {
        wrong.push(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower \
             case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used \
             for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    wrong
}

fn rule(at: &At<'_>, errors: &mut FieldErrors) {
    let host = at.text("host");
    if !host.is_empty() {
        if cidr::address(host).is_some() {
            at.invalid("host", NOT_AN_ADDRESS, errors);
        }
        host_name(&at.field("host"), host, errors);
    }
    if let Some(http) = at.child("http") {
        http.required("paths", errors);
        http.items("paths").for_each(|at| path(&at, errors));
    }
}

fn path(at: &At<'_>, errors: &mut FieldErrors) {
    if !at.has("pathType") {
        errors.push(FieldError::required(at.field("pathType"), "pathType must be specified"));
        return;
    }
    let path = at.text("path");
    let wrong = |why: String, errors: &mut FieldErrors| errors.push(FieldError::invalid(at.field("path"), path, why));
    match at.text("pathType") {
        "Exact" | "Prefix" => {
            if !path.starts_with('/') {
                wrong("must be an absolute path".into(), errors);
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|part| path.contains(*part)) {
                wrong(format!("must not contain '{part}'"), errors);
            }
            for end in ["/..", "/."].into_iter().filter(|end| path.ends_with(*end)) {
                wrong(format!("cannot end with '{end}'"), errors);
            }
        }
        "ImplementationSpecific" if !path.is_empty() && !path.starts_with('/') => {
            wrong("must be an absolute path".into(), errors);
        }
        _ => at.one_of("pathType", PATH_TYPES, errors),
    }
    backend(&at.part("backend"), errors);
}

fn backend(at: &At<'_>, errors: &mut FieldErrors) {
    match (at.child("resource"), at.child("service")) {
        (Some(_), Some(_)) => {
            errors.push(FieldError::invalid(at.path(), "", "cannot set both resource and service backends"));
        }
        (Some(resource), None) => reference(&resource, errors),
        (None, Some(service)) => {
            if service.required("name", errors) {
                service.named("name", name::dns1035_label, errors);
            }
            let port = service.part("port");
            let (by_name, number) = (port.text("name"), port.int("number").unwrap_or_default());
            match (by_name.is_empty(), number == 0) {
                (false, false) => {
                    errors.push(FieldError::invalid(at.path(), "", "cannot set both port name & port number"));
                }
                (false, true) => named(&port.field("name"), by_name, port_name, errors),
                (true, false) => port.port("number", errors),
                (true, true) => errors.push(FieldError::required(at.path(), "port name or number is required")),
            }
        }
        (None, None) => errors.push(FieldError::invalid(at.path(), "", "resource or service backend is required")),
    }
}

/// A reference to an object of any kind in the same namespace.
fn reference(at: &At<'_>, errors: &mut FieldErrors) {
    if at.has("apiGroup") {
        named(&at.field("apiGroup"), at.text("apiGroup"), name::dns1123_subdomain, errors);
    }
    for field in ["kind", "name"] {
        if at.required(field, errors) {
            at.named(field, name::path_segment, errors);
        }
    }
}

pub fn validate_status(new: &Object, _: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &new.0), Vec::new());
    let status = root.part("status");
    let balancer = status.part("loadBalancer");
    for point in balancer.items("ingress") {
        point.named("ip", ip, &mut errors);
        let host = point.text("hostname");
        if !host.is_empty() {
            named(&point.field("hostname"), host, name::dns1123_subdomain, &mut errors);
            if cidr::address(host).is_some() {
                point.invalid("hostname", NOT_AN_ADDRESS, &mut errors);
            }
        }
    }
    errors
}

pub fn validate_class(object: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &object.0), Vec::new());
    let spec = root.part("spec");
    if spec.text("controller").len() > MAX_CONTROLLER {
        errors.push(FieldError::too_long(spec.field("controller"), MAX_CONTROLLER));
    }
    domain_prefixed(&spec, "controller", &mut errors);
    let Some(parameters) = spec.child("parameters") else { return errors };
    reference(&parameters, &mut errors);
    match (parameters.text("scope"), parameters.has("namespace")) {
        ("Namespace", false) => {
            let why = "`parameters.scope` is set to 'Namespace'";
            errors.push(FieldError::required(parameters.field("namespace"), why));
        }
        ("Namespace", true) => {
            named(&parameters.field("namespace"), parameters.text("namespace"), name::dns1123_label, &mut errors);
        }
        ("Cluster", true) => parameters.forbidden("namespace", "`parameters.scope` is set to 'Cluster'", &mut errors),
        _ => parameters.one_of("scope", &["Cluster", "Namespace"], &mut errors),
    }
    errors
}

pub fn validate_class_update(new: &Object, old: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let (root, old_root) = (At::root("", &new.0), At::root("", &old.0));
    if root.part("spec").value("controller") != old_root.part("spec").value("controller") {
        root.part("spec").invalid("controller", IMMUTABLE, &mut errors);
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn told(spec: Value) -> Vec<String> {
        validate(&Object::from_value(json!({"spec": spec})).unwrap()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_ingress_leads_somewhere() {
        assert_eq!(
            told(json!({"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}})),
            Vec::<String>::new()
        );
        assert_eq!(
            told(json!({})),
            ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]
        );
        assert_eq!(
            told(json!({"defaultBackend": {"service": {"name": "web", "port": {}}}})),
            ["spec.defaultBackend: Required value: port name or number is required"]
        );
    }

    #[test]
    fn hosts_are_names_and_paths_are_plain() {
        let rule = |host: &str, path: &str| {
            let backend = json!({"service": {"name": "web", "port": {"number": 1}}});
            told(
                json!({"rules": [{"host": host, "http": {"paths": [{"path": path, "pathType": "Prefix", "backend": backend}]}}]}),
            )
        };
        assert!(rule("*.a.example", "/x").is_empty());
        assert_eq!(
            rule("1.2.3.4", "/")[0],
            "spec.rules[0].host: Invalid value: \"1.2.3.4\": must be a DNS name, not an IP address"
        );
        assert!(rule("*a", "/")[0].contains("a wildcard DNS-1123 subdomain"));
        assert_eq!(rule("a", "/a//b/..").len(), 2);
    }
}
