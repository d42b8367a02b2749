//! The rules of containers, whichever list they stand in.

use super::resources;
use crate::kinds::check::{At, descending, named, no_backsteps, port_name};
use meta::{FieldError, FieldErrors, name};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap, HashSet};

/// What containers refer to in the pod around them.
pub struct Pod<'a> {
    pub volumes: &'a HashMap<&'a str, At<'a>>,
    pub claims: &'a BTreeSet<&'a str>,
    pub grace: Option<i64>,
    pub restart: &'a str,
    pub host_users: bool,
    /// The operating system the pod names.
    pub os: &'a str,
}

const HANDLERS: &[&str] = &["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// The containers that do the pod's work.
pub fn containers(spec: &At<'_>, pod: &Pod<'_>, errors: &mut FieldErrors) {
    if !spec.required("containers", errors) {
        return;
    }
    let mut names = HashSet::new();
    for at in spec.items("containers") {
        common(&at, pod, errors);
        unique(&at, &mut names, errors);
        running(&at, pod, errors);
        if at.has("restartPolicy") {
            at.forbidden("restartPolicy", "may not be set for non-init containers", errors);
        }
    }
    let mut taken = HashSet::new();
    spec.items("containers").for_each(|at| host_ports(&at, &mut taken, errors));
}

/// Those that run before them, or beside them when they are always restarted.
pub fn init_containers(spec: &At<'_>, pod: &Pod<'_>, errors: &mut FieldErrors) {
    let mut names: HashSet<&str> = spec.items("containers").map(|at| at.text("name")).collect();
    for at in spec.items("initContainers") {
        common(&at, pod, errors);
        at.one_of("restartPolicy", &["Always"], errors);
        unique(&at, &mut names, errors);
        host_ports(&at, &mut HashSet::new(), errors);
        if at.text("restartPolicy") == "Always" {
            running(&at, pod, errors);
        } else {
            for field in ["lifecycle"].into_iter().chain(PROBES).filter(|field| at.has(field)) {
                at.forbidden(field, "may not be set for init containers without restartPolicy=Always", errors);
            }
        }
    }
}

/// Those that are added to a running pod to look at it.
pub fn ephemeral_containers(spec: &At<'_>, pod: &Pod<'_>, errors: &mut FieldErrors) {
    let lists = || spec.items("containers").chain(spec.items("initContainers"));
    let others: HashSet<&str> = lists().map(|at| at.text("name")).collect();
    let mut names = others.clone();
    for at in spec.items("ephemeralContainers") {
        common(&at, pod, errors);
        whitespace(&at, errors);
        unique(&at, &mut names, errors);
        let target = at.text("targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            errors.push(FieldError::not_found(at.field("targetContainerName"), target));
        }
        const NEVER: &[&str] =
            &["ports", "resources", "lifecycle", "resizePolicy", "restartPolicy", "restartPolicyRules"];
        for field in NEVER.iter().copied().chain(PROBES) {
            let set = match at.value(field) {
                Value::Object(map) => !map.is_empty(),
                other => !other.is_null(),
            };
            if set {
                at.forbidden(field, "cannot be set for an Ephemeral Container", errors);
            }
        }
        for mount in at.items("volumeMounts") {
            for field in ["subPath", "subPathExpr"].into_iter().filter(|field| mount.has(field)) {
                mount.forbidden(field, "cannot be set for an Ephemeral Container", errors);
            }
        }
    }
}

/// Spaces around an image are left in templates for the sake of old objects, not in pods.
pub fn whitespace(at: &At<'_>, errors: &mut FieldErrors) {
    let image = at.text("image");
    if image.trim() != image {
        at.invalid("image", "must not have leading or trailing whitespace", errors);
    }
}

fn unique<'a>(at: &At<'a>, names: &mut HashSet<&'a str>, errors: &mut FieldErrors) {
    let name = at.text("name");
    if !names.insert(name) && !name.is_empty() {
        errors.push(FieldError::duplicate(at.field("name"), name));
    }
}

fn common(at: &At<'_>, pod: &Pod<'_>, errors: &mut FieldErrors) {
    at.required("name", errors);
    at.named("name", name::dns1123_label, errors);
    at.required("image", errors);
    at.one_of("terminationMessagePolicy", &["File", "FallbackToLogsOnError"], errors);
    ports(at, errors);
    env(at, errors);
    env_from(at, errors);
    mounts(at, pod, errors);
    devices(at, pod, errors);
    at.one_of("imagePullPolicy", &["Always", "IfNotPresent", "Never"], errors);
    if let Some(resources) = at.child("resources") {
        resources::requirements(&resources, pod.claims, errors);
    }
    resize_policy(at, pod, errors);
    if let Some(security) = at.child("securityContext") {
        security_context(&security, pod, errors);
    }
}

fn ports(at: &At<'_>, errors: &mut FieldErrors) {
    let mut names = HashSet::new();
    for port in at.items("ports") {
        let name = port.text("name");
        if !name.is_empty() {
            let wrong = port_name(name);
            if wrong.is_empty() && !names.insert(name) {
                errors.push(FieldError::duplicate(port.field("name"), name));
            }
            errors.extend(wrong.into_iter().map(|why| FieldError::invalid(port.field("name"), name, why)));
        }
        if port.required("containerPort", errors) {
            port.port("containerPort", errors);
        }
        port.port("hostPort", errors);
        port.one_of("protocol", &["SCTP", "TCP", "UDP"], errors);
    }
}

fn host_ports(at: &At<'_>, taken: &mut HashSet<String>, errors: &mut FieldErrors) {
    for port in at.items("ports") {
        if let Some(number) = port.int("hostPort") {
            let what = format!("{}/{}/{number}", port.text("protocol"), port.text("hostIP"));
            if !taken.insert(what.clone()) {
                errors.push(FieldError::duplicate(port.field("hostPort"), what));
            }
        }
    }
}

fn env_name(value: &str) -> Vec<String> {
    if !value.is_empty() && value.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=') {
        return Vec::new();
    }
    let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
    vec![why.to_owned()]
}

fn env(at: &At<'_>, errors: &mut FieldErrors) {
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

fn env_from(at: &At<'_>, errors: &mut FieldErrors) {
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

fn mounts(at: &At<'_>, pod: &Pod<'_>, errors: &mut FieldErrors) {
    let mut paths = HashSet::new();
    let devices = |key: &'static str| -> HashSet<&str> { at.items("volumeDevices").map(|d| d.text(key)).collect() };
    let (device_names, device_paths) = (devices("name"), devices("devicePath"));
    let list = at.field("volumeMounts");
    for mount in at.items("volumeMounts") {
        let (name, path) = (mount.text("name"), mount.text("mountPath"));
        mount.required("name", errors);
        if !pod.volumes.contains_key(name) {
            errors.push(FieldError::not_found(mount.field("name"), name));
        }
        mount.required("mountPath", errors);
        if !paths.insert(path) {
            errors.push(FieldError::invalid(mount.field("mountPath"), path, "must be unique"));
        }
        if device_names.contains(name) {
            mount.invalid("name", "must not already exist in volumeDevices", errors);
        }
        if device_paths.contains(path) {
            mount.invalid("mountPath", "must not already exist as a path in volumeDevices", errors);
        }
        for field in ["subPath", "subPathExpr"] {
            if field == "subPathExpr" && mount.has("subPath") && mount.has(field) {
                mount.invalid(field, "subPathExpr and subPath are mutually exclusive", errors);
            }
            descending(format!("{list}.{field}"), mount.text(field), errors);
        }
        let propagation = mount.text("mountPropagation");
        if mount.has("mountPropagation") {
            const MODES: &[&str] = &["Bidirectional", "HostToContainer", "None"];
            let field = format!("{list}.mountPropagation");
            if !MODES.contains(&propagation) {
                errors.push(FieldError::not_supported(field.clone(), propagation, MODES));
            }
            if propagation == "Bidirectional" && !at.part("securityContext").flag("privileged") {
                let why = "Bidirectional mount propagation is available only to privileged containers";
                errors.push(FieldError::forbidden(field, why));
            }
        }
        recursive_read_only(&mount, &format!("{list}.recursiveReadOnly"), errors);
    }
}

fn recursive_read_only(mount: &At<'_>, field: &str, errors: &mut FieldErrors) {
    match mount.text("recursiveReadOnly") {
        "" | "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.flag("readOnly") {
                errors.push(FieldError::forbidden(field, "may only be specified when readOnly is true"));
            }
            if !matches!(mount.text("mountPropagation"), "" | "None") {
                let why = "may only be specified when mountPropagation is None or not specified";
                errors.push(FieldError::forbidden(field, why));
            }
        }
        other => errors.push(FieldError::not_supported(field, other, &["Disabled", "Enabled", "IfPossible"])),
    }
}

fn devices(at: &At<'_>, pod: &Pod<'_>, errors: &mut FieldErrors) {
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    let mounts = |key: &'static str| -> HashSet<&str> { at.items("volumeMounts").map(|m| m.text(key)).collect() };
    let (mount_names, mount_paths) = (mounts("name"), mounts("mountPath"));
    for device in at.items("volumeDevices") {
        let (name, path) = (device.text("name"), device.text("devicePath"));
        device.required("name", errors);
        if !name.is_empty() && !names.insert(name) {
            device.invalid("name", "must be unique", errors);
        }
        match pod.volumes.get(name) {
            Some(volume) if !volume.has("persistentVolumeClaim") && !volume.has("ephemeral") => {
                let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                device.invalid("name", why, errors);
            }
            Some(_) => {}
            None => errors.push(FieldError::not_found(device.field("name"), name)),
        }
        device.required("devicePath", errors);
        if !paths.insert(path) {
            device.invalid("devicePath", "must be unique", errors);
        }
        if no_backsteps(path).is_some() {
            device.invalid("devicePath", "can not contain backsteps ('..')", errors);
        }
        if mount_names.contains(name) {
            device.invalid("name", "must not already exist in volumeMounts", errors);
        }
        if mount_paths.contains(path) {
            device.invalid("devicePath", "must not already exist as a path in volumeMounts", errors);
        }
    }
}

fn resize_policy(at: &At<'_>, pod: &Pod<'_>, errors: &mut FieldErrors) {
    let list = at.field("resizePolicy");
    let mut seen = HashSet::new();
    for policy in at.items("resizePolicy") {
        let (resource, restart) = (policy.text("resourceName"), policy.text("restartPolicy"));
        if !seen.insert(resource) {
            errors.push(FieldError::duplicate(policy.path(), resource));
        }
        for (value, supported) in [(resource, ["cpu", "memory"]), (restart, ["NotRequired", "RestartContainer"])] {
            if value.is_empty() {
                errors.push(FieldError::required(list.clone(), ""));
            } else if !supported.contains(&value) {
                errors.push(FieldError::not_supported(list.clone(), value, &supported));
            }
        }
        if pod.restart == "Never" && restart != "NotRequired" {
            let why = "must be 'NotRequired' when `restartPolicy` is 'Never'";
            errors.push(FieldError::invalid(list.clone(), restart, why));
        }
    }
}

/// What only containers have that keep running.
fn running(at: &At<'_>, pod: &Pod<'_>, errors: &mut FieldErrors) {
    if let Some(lifecycle) = at.child("lifecycle") {
        for hook in ["postStart", "preStop"].into_iter().filter_map(|hook| lifecycle.child(hook)) {
            handler(&hook, pod, errors);
        }
        if lifecycle.has("stopSignal") && pod.os.is_empty() {
            lifecycle.forbidden("stopSignal", "may not be set for containers with empty `spec.os.name`", errors);
        }
    }
    for kind in PROBES {
        let Some(probe) = at.child(kind) else { continue };
        handler(&probe, pod, errors);
        for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            probe.non_negative(field, errors);
        }
        if probe.int("terminationGracePeriodSeconds").is_some_and(|seconds| seconds <= 0) {
            probe.invalid("terminationGracePeriodSeconds", "must be greater than 0", errors);
        }
        if kind == "readinessProbe" {
            if probe.has("terminationGracePeriodSeconds") {
                probe.invalid("terminationGracePeriodSeconds", "must not be set for readinessProbes", errors);
            }
        } else if probe.int("successThreshold") != Some(1) {
            probe.invalid("successThreshold", "must be 1", errors);
        }
    }
}

fn handler(at: &At<'_>, pod: &Pod<'_>, errors: &mut FieldErrors) {
    let mut set = HANDLERS.iter().copied().filter_map(|kind| Some((kind, at.child(kind)?)));
    let Some((kind, action)) = set.next() else {
        errors.push(FieldError::required(at.path(), "must specify a handler type"));
        return;
    };
    match kind {
        "exec" => {
            action.required("command", errors);
        }
        "httpGet" => {
            action.port_or_name("port", errors);
            action.one_of("scheme", &["HTTP", "HTTPS"], errors);
            for header in action.items("httpHeaders") {
                named(&action.field("httpHeaders"), header.text("name"), header_name, errors);
            }
        }
        "tcpSocket" | "grpc" => action.port_or_name("port", errors),
        _ => {
            if let (Some(grace), Some(seconds)) = (pod.grace, action.int("seconds"))
                && !(0..=grace).contains(&seconds)
            {
                let why = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                errors.push(FieldError::invalid(action.path(), seconds, why));
            }
        }
    }
    for (kind, _) in set {
        at.forbidden(kind, "may not specify more than 1 handler type", errors);
    }
}

fn header_name(value: &str) -> Vec<String> {
    if !value.is_empty() && value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Vec::new();
    }
    vec![
        "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for \
          validation is '[-A-Za-z0-9]+')"
            .to_owned(),
    ]
}

pub const ID: &str = "must be between 0 and 2147483647, inclusive";

pub fn is_id(id: i64) -> bool {
    (0..=i64::from(i32::MAX)).contains(&id)
}

fn security_context(at: &At<'_>, pod: &Pod<'_>, errors: &mut FieldErrors) {
    if at.flag("privileged") {
        at.forbidden("privileged", "disallowed by cluster policy", errors);
    }
    for field in ["runAsUser", "runAsGroup"] {
        if at.int(field).is_some_and(|id| !is_id(id)) {
            at.invalid(field, ID, errors);
        }
    }
    at.one_of("procMount", &["Default", "Unmasked"], errors);
    if pod.host_users && at.text("procMount") == "Unmasked" {
        at.invalid("procMount", "`hostUsers` must be false to use `Unmasked`", errors);
    }
    seccomp(at, errors);
    if at.value("allowPrivilegeEscalation") == &Value::Bool(false) {
        let whole = Value::Object(at.map.clone());
        if at.flag("privileged") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.push(FieldError::invalid(at.path(), whole.clone(), why));
        }
        if at.part("capabilities").texts("add").any(|capability| capability == "CAP_SYS_ADMIN") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.push(FieldError::invalid(at.path(), whole, why));
        }
    }
}

/// The seccomp profile of a container or pod.
pub fn seccomp(at: &At<'_>, errors: &mut FieldErrors) {
    let Some(profile) = at.child("seccompProfile") else { return };
    match profile.text("type") {
        "Localhost" if !profile.has("localhostProfile") => {
            let why = "must be set when seccomp type is Localhost";
            errors.push(FieldError::required(profile.field("localhostProfile"), why));
        }
        "Localhost" => descending(profile.field("localhostProfile"), profile.text("localhostProfile"), errors),
        kind => {
            if kind.is_empty() {
                errors.push(FieldError::required(profile.field("type"), "type is required when seccompProfile is set"));
            } else {
                profile.one_of("type", &["Localhost", "RuntimeDefault", "Unconfined"], errors);
            }
            if profile.has("localhostProfile") {
                let whole = Value::Object(profile.map.clone());
                let why = "can only be set when seccomp type is Localhost";
                errors.push(FieldError::invalid(profile.field("localhostProfile"), whole, why));
            }
        }
    }
}
