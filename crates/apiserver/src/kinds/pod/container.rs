//! The rules of containers, whichever list they stand in.

use super::env::{env, env_from};
use super::mounts::{devices, mounts};
use super::{profiles, resources, windows};
use crate::kinds::check::{At, named, port_name};
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
    for field in ["runAsUser", "runAsGroup"] {
        if at.int(field).is_some_and(|id| !is_id(id)) {
            at.invalid(field, ID, errors);
        }
    }
    at.one_of("procMount", &["Default", "Unmasked"], errors);
    if pod.host_users && at.text("procMount") == "Unmasked" {
        at.invalid("procMount", "`hostUsers` must be false to use `Unmasked`", errors);
    }
    profiles::seccomp(at, errors);
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
    windows::options(at, errors);
    profiles::app_armor(at, errors);
}
