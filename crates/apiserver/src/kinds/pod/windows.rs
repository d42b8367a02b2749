//! Which operating system a pod is for, and what only one of them knows.

use super::containers_of;
use crate::kinds::check::At;
use meta::{FieldError, FieldErrors, name};
use serde_json::Value;

const MAX_CREDENTIAL_SPEC: usize = 64 * 1024;
const MAX_DOMAIN: usize = 256;
const MAX_USER: usize = 104;

/// What of a pod's own security context is Linux alone.
const LINUX_POD: &[&str] = &[
    "securityContext.appArmorProfile",
    "securityContext.seLinuxOptions",
    "hostUsers",
    "hostPID",
    "hostIPC",
    "securityContext.seccompProfile",
    "securityContext.fsGroup",
    "securityContext.fsGroupChangePolicy",
    "securityContext.sysctls",
    "shareProcessNamespace",
    "securityContext.runAsUser",
    "securityContext.runAsGroup",
    "securityContext.supplementalGroups",
    "securityContext.supplementalGroupsPolicy",
    "securityContext.seLinuxChangePolicy",
];

/// The same of a container's.
const LINUX_CONTAINER: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// The system a pod names, and that it asks for nothing that system does not have.
pub fn system(spec: &At<'_>, errors: &mut FieldErrors) {
    let Some(os) = spec.child("os") else { return };
    match os.text("name") {
        "" => errors.push(FieldError::required(os.field("name"), "")),
        "linux" => linux(spec, errors),
        "windows" => windows(spec, errors),
        other => errors.push(FieldError::not_supported(os.path(), other, &["linux", "windows"])),
    }
}

fn linux(spec: &At<'_>, errors: &mut FieldErrors) {
    const WHY: &str = "windows options cannot be set for a linux pod";
    let context = spec.part("securityContext");
    if context.has("windowsOptions") {
        context.forbidden("windowsOptions", WHY, errors);
    }
    for container in containers_of(spec) {
        let context = container.part("securityContext");
        if context.has("windowsOptions") {
            context.forbidden("windowsOptions", WHY, errors);
        }
    }
}

fn windows(spec: &At<'_>, errors: &mut FieldErrors) {
    const WHY: &str = "cannot be set for a windows pod";
    let context = spec.part("securityContext");
    for path in LINUX_POD {
        let value = match path.split_once('.') {
            Some((_, field)) => context.value(field),
            None => spec.value(path),
        };
        // A flag that is off is as good as none, where Go does not tell them apart.
        let off = ["hostPID", "hostIPC"].contains(path) && value == &Value::Bool(false);
        if !value.is_null() && !off {
            spec.forbidden(path, WHY, errors);
        }
    }
    for container in containers_of(spec) {
        let context = container.part("securityContext");
        for field in LINUX_CONTAINER.iter().filter(|field| context.has(field)) {
            context.forbidden(field, WHY, errors);
        }
    }
}

/// The options of a container or pod on Windows; `at` is the security context.
pub fn options(at: &At<'_>, errors: &mut FieldErrors) {
    let Some(options) = at.child("windowsOptions") else { return };
    if options.has("gmsaCredentialSpecName") {
        let wrong = name::dns1123_subdomain(options.text("gmsaCredentialSpecName"));
        wrong.into_iter().for_each(|why| options.invalid("gmsaCredentialSpecName", why, errors));
    }
    if options.has("gmsaCredentialSpec") {
        match options.text("gmsaCredentialSpec").len() {
            0 => options.invalid("gmsaCredentialSpec", "gmsaCredentialSpec cannot be an empty string", errors),
            length if length > MAX_CREDENTIAL_SPEC => {
                options.invalid("gmsaCredentialSpec", "gmsaCredentialSpec size must be under 64 KiB", errors);
            }
            _ => {}
        }
    }
    if options.has("runAsUserName") {
        let wrong = user_name(options.text("runAsUserName"));
        wrong.into_iter().for_each(|why| options.invalid("runAsUserName", format!("runAsUserName{why}"), errors));
    }
}

/// What is wrong with `DOMAIN\USER`, where the domain may be left out.
fn user_name(value: &str) -> Vec<&'static str> {
    if value.is_empty() {
        return vec![" cannot be an empty string"];
    }
    if value.contains(|c: char| c.is_ascii_control()) {
        return vec![" cannot contain control characters"];
    }
    let (domain, user) = match value.split_once('\\') {
        Some((_, user)) if user.contains('\\') => return vec![" cannot contain more than one backslash"],
        Some((domain, user)) => (Some(domain), user),
        None => (None, value),
    };
    let mut wrong = Vec::new();
    if let Some(domain) = domain {
        if domain.len() >= MAX_DOMAIN {
            wrong.push("'s Domain length must be under 256 characters");
        }
        if !is_net_bios(domain) && !is_domain(domain) {
            wrong.push("'s Domain doesn't match the NetBios nor the DNS format");
        }
    }
    if user.is_empty() {
        wrong.push("'s User cannot be empty");
    } else if user.len() > MAX_USER {
        wrong.push("'s User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| c == '.' || c == ' ') {
        wrong.push("'s User cannot contain only periods or spaces");
    }
    if user.contains(|c| "\"/\\:;|=,+*?<>@[]".contains(c)) {
        wrong.push(r#"'s User cannot contain the following characters: "/\:;|=,+*?<>@[]"#);
    }
    wrong
}

fn is_net_bios(domain: &str) -> bool {
    let allowed = |c: char| !"\\/:*?\"<>|".contains(c);
    (1..=15).contains(&domain.chars().count()) && domain.chars().all(allowed) && !domain.starts_with('.')
}

fn is_domain(domain: &str) -> bool {
    domain.split('.').all(|label| {
        let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = label.as_bytes();
        bytes.len() <= 63
            && edge(bytes.first())
            && edge(bytes.last())
            && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
    })
}

/// Containers that are processes of the host: all or none, and on the host's network.
pub fn host_processes(spec: &At<'_>, errors: &mut FieldErrors) {
    let context = spec.part("securityContext");
    let of_pod = context.part("windowsOptions").value("hostProcess").as_bool();
    let (mut all, mut of_host) = (0, 0);
    for container in containers_of(spec) {
        all += 1;
        let context = container.part("securityContext");
        let options = context.part("windowsOptions");
        let own = options.value("hostProcess").as_bool();
        if let (Some(pod), Some(own)) = (of_pod, own)
            && pod != own
        {
            let why = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            options.invalid("hostProcess", why, errors);
        }
        of_host += usize::from(own.or(of_pod).unwrap_or_default());
    }
    if of_host == 0 {
        return;
    }
    if of_host != all {
        let why = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.push(FieldError::invalid(spec.path(), "", why));
    }
    if !spec.flag("hostNetwork") {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(FieldError::invalid(spec.field("hostNetwork"), false, why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn user_names_have_a_domain_or_none() {
        for good in ["user", "DOMAIN\\user", "a.example.com\\user", "net bios\\a b", "NT AUTHORITY\\NETWORK SERVICE"] {
            assert!(user_name(good).is_empty(), "{good}");
        }
        for bad in ["", "a\\b\\c", "\\user", ".dot\\user", "d\\", "...", "a@b", "tab\t", "x:y"] {
            assert!(!user_name(bad).is_empty(), "{bad:?}");
        }
        assert_eq!(user_name(&format!("{}\\u", "a.".repeat(130))).len(), 2);
    }

    fn findings(spec: Value) -> Vec<String> {
        let mut errors = Vec::new();
        let at = At::root("spec", spec.as_object().unwrap());
        system(&at, &mut errors);
        host_processes(&at, &mut errors);
        errors.iter().map(|error| error.field.clone()).collect()
    }

    #[test]
    fn a_windows_pod_asks_for_nothing_of_linux() {
        let context = json!({"fsGroup": 1, "windowsOptions": {"runAsUserName": "u"}});
        let container = json!({"name": "c", "securityContext": {"privileged": false, "runAsUser": 1}});
        let spec = |os: &str| json!({"os": {"name": os}, "hostPID": false, "hostUsers": true, "securityContext": context, "containers": [container]});
        assert_eq!(
            findings(spec("windows")),
            [
                "spec.hostUsers",
                "spec.securityContext.fsGroup",
                "spec.containers[0].securityContext.privileged",
                "spec.containers[0].securityContext.runAsUser"
            ]
        );
        assert_eq!(findings(spec("linux")), ["spec.securityContext.windowsOptions"]);
        assert_eq!(findings(spec("plan9")), ["spec.os"]);
        assert_eq!(findings(json!({"os": {}})), ["spec.os.name"]);
    }

    #[test]
    fn processes_of_the_host_are_all_or_none() {
        let process = |own: Value| json!({"name": "c", "securityContext": {"windowsOptions": {"hostProcess": own}}});
        let pod = |containers: Value| json!({"hostNetwork": true, "containers": containers});
        assert_eq!(findings(pod(json!([process(json!(true)), process(json!(false))]))), ["spec"]);
        assert!(findings(pod(json!([process(json!(true))]))).is_empty());
        assert!(findings(pod(json!([process(json!(false)), {"name": "d"}]))).is_empty());
    }
}
