//! The rules of a PodSpec, in a pod or in a template.

use super::container::{self, ID, Pod, is_id};
use super::{annotations, containers_of, profiles, resources, scheduling, totals, volume, windows};
use crate::kinds::check::{At, ip, named};
use meta::{FieldError, FieldErrors, Object, name};
use serde_json::{Map, Value};
use std::collections::{BTreeSet, HashSet};

/// The rules of a pod.
pub fn validate(object: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let root = At::root("", &object.0);
    let spec = root.part("spec");
    annotations::check(&root.part("metadata"), "metadata.annotations", &spec, &mut errors);
    pod_spec(&spec, object.name(), &mut errors);
    if spec.text("serviceAccountName").is_empty() {
        for volume in spec.items("volumes") {
            let projected = volume.part("projected");
            for source in projected.items("sources").filter(|source| source.has("serviceAccountToken")) {
                let why = "must not be specified when serviceAccountName is not set";
                source.forbidden("serviceAccountToken", why, &mut errors);
            }
        }
    }
    for list in ["containers", "initContainers"] {
        spec.items(list).for_each(|at| container::whitespace(&at, &mut errors));
    }
    errors
}

/// The rules of a PodTemplateSpec at `path`.
pub fn validate_template(path: &str, template: &Map<String, Value>) -> FieldErrors {
    let mut errors = Vec::new();
    let at = At::root(path, template);
    let metadata = at.part("metadata");
    // Told without `metadata`: so does Kubernetes.
    At::root(path, metadata.map).labels("labels", &mut errors);
    for (key, _) in metadata.entries("annotations") {
        let wrong = name::qualified_name(&key.to_lowercase());
        errors.extend(wrong.into_iter().map(|why| FieldError::invalid(at.field("annotations"), key, why)));
    }
    let spec = at.part("spec");
    annotations::check(&metadata, &at.field("annotations"), &spec, &mut errors);
    pod_spec(&spec, "", &mut errors);
    profiles::agree(&at, &mut errors);
    if spec.has("ephemeralContainers") {
        spec.forbidden("ephemeralContainers", "ephemeral containers not allowed in pod template", &mut errors);
    }
    errors
}

/// `pod_name` is empty in a template.
fn pod_spec(spec: &At<'_>, pod_name: &str, errors: &mut FieldErrors) {
    let volumes = volume::volumes(spec, pod_name, errors);
    let claims: BTreeSet<&str> = spec.items("resourceClaims").map(|claim| claim.text("name")).collect();
    resource_claims(spec, errors);
    let pod = Pod {
        volumes: &volumes,
        claims: &claims,
        grace: spec.int("terminationGracePeriodSeconds"),
        restart: spec.text("restartPolicy"),
        host_users: spec.value("hostUsers") != &Value::Bool(false),
        os: spec.part("os").text("name"),
    };
    container::containers(spec, &pod, errors);
    container::init_containers(spec, &pod, errors);
    container::ephemeral_containers(spec, &pod, errors);
    totals::check(spec, &claims, errors);
    host_network(spec, !pod_name.is_empty(), errors);
    spec.one_of("restartPolicy", &["Always", "OnFailure", "Never"], errors);
    spec.one_of("dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], errors);
    spec.labels("nodeSelector", errors);
    security_context(spec, errors);
    scheduling::affinity(spec, errors);
    dns_config(spec, errors);
    for gate in spec.items("readinessGates") {
        named(&gate.field("conditionType"), gate.text("conditionType"), name::qualified_name, errors);
    }
    scheduling_gates(spec, errors);
    scheduling::spreading(spec, errors);
    windows::host_processes(spec, errors);
    host_users(spec, errors);
    spec.named("serviceAccountName", name::dns1123_subdomain, errors);
    spec.named("nodeName", name::dns1123_subdomain, errors);
    if spec.int("activeDeadlineSeconds").is_some_and(|seconds| !(1..=i64::from(i32::MAX)).contains(&seconds)) {
        spec.invalid("activeDeadlineSeconds", "must be between 1 and 2147483647, inclusive", errors);
    }
    spec.named("hostname", name::dns1123_label, errors);
    spec.named("subdomain", name::dns1123_label, errors);
    scheduling::tolerations(spec, errors);
    for alias in spec.items("hostAliases") {
        named(&alias.field("ip"), alias.text("ip"), ip, errors);
        for (i, hostname) in alias.texts("hostnames").enumerate() {
            named(&format!("{}[{i}]", alias.field("hostnames")), hostname, name::dns1123_subdomain, errors);
        }
    }
    spec.named("priorityClassName", name::dns1123_subdomain, errors);
    spec.named("runtimeClassName", name::dns1123_subdomain, errors);
    spec.one_of("preemptionPolicy", &["PreemptLowerPriority", "Never"], errors);
    if let Some(Value::Object(overhead)) = spec.map.get("overhead") {
        // Judged as if it were what a container is limited to, and told so.
        let limits = Map::from_iter([("limits".to_owned(), Value::Object(overhead.clone()))]);
        let path = spec.field("overhead");
        resources::requirements(&At::root(&path, &limits), &BTreeSet::new(), errors);
    }
    windows::system(spec, errors);
}

fn resource_claims(spec: &At<'_>, errors: &mut FieldErrors) {
    let mut names = HashSet::new();
    for claim in spec.items("resourceClaims") {
        let name = claim.text("name");
        if claim.required("name", errors) {
            if !names.insert(name) {
                errors.push(FieldError::duplicate(claim.field("name"), name));
            }
            claim.named("name", name::dns1123_label, errors);
        }
        let why = match (claim.has("resourceClaimName"), claim.has("resourceClaimTemplateName")) {
            (true, true) => "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            (false, false) => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            _ => continue,
        };
        errors.push(FieldError::invalid(claim.path(), Value::Object(claim.map.clone()), why));
    }
}

fn host_network(spec: &At<'_>, is_pod: bool, errors: &mut FieldErrors) {
    if !spec.flag("hostNetwork") {
        return;
    }
    for container in spec.items("containers") {
        for port in container.items("ports") {
            let (host, inner) =
                (port.int("hostPort").unwrap_or_default(), port.int("containerPort").unwrap_or_default());
            if (is_pod || host != 0) && host != inner {
                let why = "must match `containerPort` when `hostNetwork` is true";
                errors.push(FieldError::invalid(port.field("hostPort"), host, why));
            }
        }
    }
}

fn security_context(spec: &At<'_>, errors: &mut FieldErrors) {
    let Some(at) = spec.child("securityContext") else { return };
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        if at.int(field).is_some_and(|id| !is_id(id)) {
            at.invalid(field, ID, errors);
        }
    }
    for (i, group) in at.list("supplementalGroups").iter().enumerate() {
        if group.as_i64().is_some_and(|id| !is_id(id)) {
            errors.push(FieldError::invalid(format!("{}[{i}]", at.field("supplementalGroups")), group.clone(), ID));
        }
    }
    if spec.flag("shareProcessNamespace") && spec.flag("hostPID") {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(FieldError::invalid(at.field("shareProcessNamespace"), true, why));
    }
    sysctls(spec, &at, errors);
    at.one_of("fsGroupChangePolicy", &["Always", "OnRootMismatch"], errors);
    profiles::seccomp(&at, errors);
    windows::options(&at, errors);
    profiles::app_armor(&at, errors);
    at.one_of("supplementalGroupsPolicy", &["Merge", "Strict"], errors);
    // `MountOption` belongs to a feature that is off.
    at.one_of("seLinuxChangePolicy", &["Recursive"], errors);
}

fn sysctls(spec: &At<'_>, at: &At<'_>, errors: &mut FieldErrors) {
    const RULE: &str = "must have at most 253 characters and match regex \
        ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
    let mut names = HashSet::new();
    for sysctl in at.items("sysctls") {
        let name = sysctl.text("name");
        let word = |part: &str| {
            let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
            !part.is_empty() && part.bytes().all(inner) && !part.starts_with(['-', '_']) && !part.ends_with(['-', '_'])
        };
        if !sysctl.required("name", errors) {
            continue;
        }
        let first = names.insert(name);
        if name.len() > 253 || !name.split(['.', '/']).all(word) {
            sysctl.invalid("name", RULE, errors);
        } else if !first {
            errors.push(FieldError::duplicate(sysctl.field("name"), name));
        }
        match namespace_of(name) {
            "net" if spec.flag("hostNetwork") => {
                sysctl.invalid("name", "may not be specified when 'hostNetwork' is true", errors);
            }
            "ipc" if spec.flag("hostIPC") => {
                sysctl.invalid("name", "may not be specified when 'hostIPC' is true", errors);
            }
            _ => {}
        }
    }
}

/// What a kernel parameter belongs to, whichever way it is written.
fn namespace_of(sysctl: &str) -> &'static str {
    const IPC: &[&str] = &[
        "kernel.msg",
        "kernel.msgmax",
        "kernel.msgmnb",
        "kernel.msgmni",
        "kernel.sem",
        "kernel.shm",
        "kernel.shm_rmid_forced",
        "kernel.shmall",
        "kernel.shmmax",
        "kernel.shmmni",
    ];
    let slashed = sysctl.find(['.', '/']).is_some_and(|at| sysctl[at..].starts_with('/'));
    let name = if slashed { sysctl.replace('/', ".") } else { sysctl.to_owned() };
    match name.as_str() {
        name if name.starts_with("net.") => "net",
        name if IPC.contains(&name) || name.starts_with("fs.mqueue.") => "ipc",
        _ => "",
    }
}

fn dns_config(spec: &At<'_>, errors: &mut FieldErrors) {
    let none = spec.text("dnsPolicy") == "None";
    let Some(at) = spec.child("dnsConfig") else {
        if none {
            let why = "must provide `dnsConfig` when `dnsPolicy` is None";
            errors.push(FieldError::required(spec.field("dnsConfig"), why));
        }
        return;
    };
    let servers = at.list("nameservers");
    if none && servers.is_empty() {
        let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        errors.push(FieldError::required(at.field("nameservers"), why));
        return;
    }
    if servers.len() > 3 {
        at.invalid("nameservers", "must not have more than 3 nameservers", errors);
    }
    for (i, server) in at.texts("nameservers").enumerate() {
        named(&format!("{}[{i}]", at.field("nameservers")), server, ip, errors);
    }
    if at.list("searches").len() > 32 {
        at.invalid("searches", "must not have more than 32 search paths", errors);
    }
    if at.texts("searches").map(|search| search.len() + 1).sum::<usize>() > 2049 {
        let why = "must not have more than 2048 characters (including spaces) in the search list";
        at.invalid("searches", why, errors);
    }
    for (i, search) in at.texts("searches").enumerate().filter(|(_, search)| *search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        named(&format!("{}[{i}]", at.field("searches")), search, search_path, errors);
    }
    for option in at.items("options").filter(|option| option.text("name").is_empty()) {
        errors.push(FieldError::required(option.path(), "must not be empty"));
    }
}

/// A DNS name in which labels may begin with an underscore.
fn search_path(value: &str) -> Vec<String> {
    let wrong = name::dns1123_subdomain(&value.replace('_', "a"));
    if wrong.is_empty() {
        return wrong;
    }
    vec![
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must \
         start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
         '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')"
            .to_owned(),
    ]
}

fn scheduling_gates(spec: &At<'_>, errors: &mut FieldErrors) {
    let mut names = HashSet::new();
    for gate in spec.items("schedulingGates") {
        let name = gate.text("name");
        named(&gate.path(), name, name::qualified_name, errors);
        if !names.insert(name) {
            errors.push(FieldError::duplicate(gate.path(), name));
        }
    }
}

fn host_users(spec: &At<'_>, errors: &mut FieldErrors) {
    if spec.value("hostUsers") == &Value::Bool(false) {
        for (flag, told) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
            if spec.flag(flag) {
                spec.forbidden(told, "when `hostUsers` is false", errors);
            }
        }
        for container in containers_of(spec).filter(|container| !container.list("volumeDevices").is_empty()) {
            container.forbidden("volumeDevices", "when `hostUsers` is false", errors);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn findings(spec: Value) -> Vec<String> {
        let mut object = Object::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap();
        super::super::default_pod(&mut object);
        validate(&object).iter().map(ToString::to_string).collect()
    }

    /// A pod that is fine but for the given fields of its only container.
    fn container(mut fields: Value) -> Value {
        fields["name"] = "c".into();
        fields["image"] = "x".into();
        json!({"containers": [fields], "volumes": [{"name": "v"}]})
    }

    #[test]
    fn a_plain_pod_is_fine() {
        assert!(findings(container(json!({}))).is_empty());
        let full = json!({"ports": [{"containerPort": 80, "name": "http"}], "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}}],
            "livenessProbe": {"httpGet": {"port": "http"}}, "resources": {"limits": {"cpu": "1"}}});
        assert!(findings(container(full)).is_empty());
    }

    #[test]
    fn every_rule_names_its_field() {
        for (spec, finding) in [
            (json!({"containers": []}), "spec.containers: Required value"),
            (
                container(json!({"imagePullPolicy": "Often"})),
                "spec.containers[0].imagePullPolicy: Unsupported value: \"Often\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
            ),
            (
                container(json!({"ports": [{"containerPort": 70000}]})),
                "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
            ),
            (
                container(json!({"volumeMounts": [{"name": "w", "mountPath": "/w"}]})),
                "spec.containers[0].volumeMounts[0].name: Not found: \"w\"",
            ),
            (
                container(json!({"env": [{"name": "A=B"}]})),
                "spec.containers[0].env[0].name: Invalid value: \"A=B\": a valid environment variable name must consist only of printable ASCII characters other than '='",
            ),
            (
                container(json!({"livenessProbe": {"exec": {"command": ["x"]}, "successThreshold": 2}})),
                "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
            ),
            (
                container(json!({"readinessProbe": {}})),
                "spec.containers[0].readinessProbe: Required value: must specify a handler type",
            ),
            (
                container(json!({"lifecycle": {"preStop": {"exec": {}}}})),
                "spec.containers[0].lifecycle.preStop.exec.command: Required value",
            ),
            (
                container(json!({"securityContext": {"runAsUser": -1}})),
                "spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
            ),
        ] {
            assert_eq!(findings(spec), [finding]);
        }
    }

    #[test]
    fn names_are_unique_among_all_containers() {
        let named = |name: &str| json!({"name": name, "image": "x"});
        let spec = json!({"containers": [named("a"), named("a")], "initContainers": [named("a")]});
        assert_eq!(
            findings(spec),
            ["spec.containers[1].name: Duplicate value: \"a\"", "spec.initContainers[0].name: Duplicate value: \"a\""]
        );
    }

    #[test]
    fn a_volume_has_one_source() {
        let spec = json!({"containers": [{"name": "c", "image": "x"}],
            "volumes": [{"name": "v", "emptyDir": {}, "secret": {"secretName": "s"}}, {"name": "w", "configMap": {}}]});
        assert_eq!(
            findings(spec),
            [
                "spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type",
                "spec.volumes[1].configMap.name: Required value"
            ]
        );
    }

    #[test]
    fn a_template_is_told_at_its_own_path() {
        let template = json!({"metadata": {"labels": {"a b": "c"}}, "spec": {"containers": [{"name": "c"}]}});
        let mut template = template.as_object().unwrap().clone();
        super::super::default_template(&mut template);
        let found: Vec<String> =
            validate_template("spec.template", &template).iter().map(|e| e.field.clone()).collect();
        assert_eq!(found, ["spec.template.labels", "spec.template.spec.containers[0].image"]);
    }
}
