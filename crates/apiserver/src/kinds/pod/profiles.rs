//! Seccomp and AppArmor profiles: the fields, the annotations that came before them, and that both say the same.

use super::containers_of;
use crate::kinds::check::{At, descending};
use meta::{FieldError, FieldErrors, Object};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP: &str = "container.seccomp.security.alpha.kubernetes.io/";
pub const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];
/// The longest path there is.
const MAX_PROFILE: usize = 4095;

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
                profile.one_of("type", TYPES, errors);
            }
            if profile.has("localhostProfile") {
                let whole = Value::Object(profile.map.clone());
                let why = "can only be set when seccomp type is Localhost";
                errors.push(FieldError::invalid(profile.field("localhostProfile"), whole, why));
            }
        }
    }
}

/// The AppArmor profile of a container or pod.
pub fn app_armor(at: &At<'_>, errors: &mut FieldErrors) {
    let Some(profile) = at.child("appArmorProfile") else { return };
    match profile.text("type") {
        "Localhost" => {
            let name = profile.text("localhostProfile");
            if name.trim() != name {
                profile.invalid("localhostProfile", "must not be padded with whitespace", errors);
            } else if name.is_empty() {
                let why = "must be set when AppArmor type is Localhost";
                errors.push(FieldError::required(profile.field("localhostProfile"), why));
            }
            if name.len() > MAX_PROFILE {
                errors.push(FieldError::too_long(profile.field("localhostProfile"), MAX_PROFILE));
            }
        }
        "" => errors.push(FieldError::required(profile.field("type"), "type is required when appArmorProfile is set")),
        kind if TYPES.contains(&kind) => {
            if profile.has("localhostProfile") {
                profile.invalid("localhostProfile", "can only be set when AppArmor type is Localhost", errors);
            }
        }
        _ => profile.one_of("type", TYPES, errors),
    }
}

/// The annotations by themselves; `path` is where they stand.
pub fn annotations(annotations: &Map<String, Value>, path: &str, spec: &At<'_>, errors: &mut FieldErrors) {
    let of = |prefix: &'static str| {
        annotations.iter().filter_map(move |(key, value)| Some((key, key.strip_prefix(prefix)?, value.as_str()?)))
    };
    if let Some(profile) = annotations.get(SECCOMP_POD).and_then(Value::as_str) {
        seccomp_name(format!("{path}.{SECCOMP_POD}"), profile, errors);
    }
    for (key, _, profile) in of(SECCOMP) {
        seccomp_name(format!("{path}.{key}"), profile, errors);
    }
    let mut names = None;
    for (key, container, profile) in of(APP_ARMOR) {
        let field = format!("{path}[{key}]");
        let names = names.get_or_insert_with(|| containers_of(spec).map(|at| at.text("name")).collect::<HashSet<_>>());
        if !names.contains(container) {
            errors.push(FieldError::invalid(field.clone(), container, "container not found"));
        }
        if !matches!(profile, "" | "runtime/default" | "unconfined") && !profile.starts_with("localhost/") {
            let why = format!("invalid AppArmor profile name: {}", meta::field::quoted(profile));
            errors.push(FieldError::invalid(field, profile, why));
        }
    }
}

fn seccomp_name(field: String, profile: &str, errors: &mut FieldErrors) {
    if matches!(profile, "runtime/default" | "docker/default" | "unconfined") {
        return;
    }
    match profile.strip_prefix("localhost/") {
        Some(path) => descending(field, path, errors),
        None => errors.push(FieldError::invalid(field, profile, "must be a valid seccomp profile")),
    }
}

/// Where both an annotation and a field name a profile, they name the same; `at` has `metadata` and `spec`.
pub fn agree(at: &At<'_>, errors: &mut FieldErrors) {
    let (metadata, spec) = (at.part("metadata"), at.part("spec"));
    let annotations = metadata.part("annotations");
    let pod = spec.part("securityContext");
    let seccomp = |owner: &At<'_>, key: &str, errors: &mut FieldErrors| {
        if annotations.has(key)
            && let Some(profile) = owner.child("seccompProfile")
        {
            differs(&profile, profile.path(), annotations.text(key), "seccomp", errors);
        }
    };
    seccomp(&pod, SECCOMP_POD, errors);
    for container in containers_of(&spec) {
        seccomp(&container.part("securityContext"), &format!("{SECCOMP}{}", container.text("name")), errors);
    }
    if spec.part("os").text("name") == "windows" {
        return;
    }
    for container in containers_of(&spec) {
        let key = format!("{APP_ARMOR}{}", container.text("name"));
        let own = container.part("securityContext");
        let Some(profile) = own.child("appArmorProfile").or_else(|| pod.child("appArmorProfile")) else { continue };
        if annotations.has(&key) {
            differs(&profile, own.field("appArmorProfile"), annotations.text(&key), "apparmor", errors);
        }
    }
}

/// What is told of a profile that is not the one an annotation names.
fn differs(profile: &At<'_>, path: String, annotation: &str, what: &str, errors: &mut FieldErrors) {
    let local = annotation.strip_prefix("localhost/");
    let same_type = match profile.text("type") {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => annotation == "runtime/default" || (what == "seccomp" && annotation == "docker/default"),
        "Localhost" => local.is_some(),
        _ => return,
    };
    if !same_type {
        let why = format!("{what} type in annotation and field must match");
        errors.push(FieldError::forbidden(format!("{path}.type"), why));
    } else if profile.text("type") == "Localhost" && local != Some(profile.text("localhostProfile")) {
        let why = format!("{what} profile in annotation and field must match");
        errors.push(FieldError::forbidden(format!("{path}.localhostProfile"), why));
    }
}

/// The profile an AppArmor annotation names, if it names a good one.
fn named(annotation: &str) -> Option<Value> {
    let profile = match annotation {
        "unconfined" => json!({"type": "Unconfined"}),
        "runtime/default" => json!({"type": "RuntimeDefault"}),
        _ => {
            let name = annotation.strip_prefix("localhost/").filter(|name| !name.is_empty())?;
            json!({"type": "Localhost", "localhostProfile": name})
        }
    };
    let owner = json!({"appArmorProfile": profile});
    let mut errors = Vec::new();
    app_armor(&At::root("", owner.as_object()?), &mut errors);
    errors.is_empty().then_some(profile)
}

/// Which containers of a new pod get a profile from an annotation: list, place, annotation, and the profile unless it is the pod's
/// own or no good.
fn adopted(pod: &Object) -> Vec<(&'static str, usize, String, Option<Value>)> {
    let root = At::root("", &pod.0);
    let (metadata, spec) = (root.part("metadata"), root.part("spec"));
    let (annotations, context) = (metadata.part("annotations"), spec.part("securityContext"));
    let mut found = Vec::new();
    if spec.part("os").text("name") == "windows" || annotations.map.is_empty() {
        return found;
    }
    for list in super::CONTAINER_LISTS {
        for (i, container) in spec.items(list).enumerate() {
            let key = format!("{APP_ARMOR}{}", container.text("name"));
            if !annotations.has(&key) || container.part("securityContext").has("appArmorProfile") {
                continue;
            }
            let profile = named(annotations.text(&key));
            if profile.as_ref().is_none_or(|profile| profile != context.value("appArmorProfile")) {
                found.push((list, i, key, profile));
            }
        }
    }
    found
}

/// The annotation of a new pod becomes the field that took its place.
pub fn adopt(pod: &mut Object) {
    for (list, i, _, profile) in adopted(pod) {
        let container = pod.0.get_mut("spec").and_then(|spec| spec.get_mut(list)).and_then(|list| list.get_mut(i));
        if let (Some(Value::Object(container)), Some(profile)) = (container, profile)
            && let Value::Object(context) = container.entry("securityContext").or_insert_with(|| json!({}))
        {
            context.insert("appArmorProfile".into(), profile);
        }
    }
}

fn use_the_field(path: String) -> String {
    format!("{path}: deprecated since v1.30; use the \"appArmorProfile\" field instead")
}

/// What the author of a new pod is told of its annotations.
pub fn advice(pod: &Object) -> Vec<String> {
    adopted(pod).into_iter().map(|(_, _, key, _)| use_the_field(format!("metadata.annotations[{key}]"))).collect()
}

/// A seccomp annotation without the field does nothing any more.
pub fn pod_warning(metadata: &At<'_>, spec: &At<'_>, warnings: &mut Vec<String>) {
    let context = spec.part("securityContext");
    without_field(metadata, &context, SECCOMP_POD.to_owned(), warnings);
}

fn without_field(metadata: &At<'_>, context: &At<'_>, key: String, warnings: &mut Vec<String>) {
    if !context.has("seccompProfile") && metadata.part("annotations").has(&key) {
        let path = metadata.field("annotations");
        warnings.push(format!("{path}[{key}]: non-functional in v1.27+; use the \"seccompProfile\" field instead"));
    }
}

/// The same of a container; of AppArmor in templates alone, as pods are told when they are made.
pub fn container_warning(
    metadata: &At<'_>,
    spec: &At<'_>,
    container: &At<'_>,
    template: bool,
    warnings: &mut Vec<String>,
) {
    let context = container.part("securityContext");
    without_field(metadata, &context, format!("{SECCOMP}{}", container.text("name")), warnings);
    let key = format!("{APP_ARMOR}{}", container.text("name"));
    let annotations = metadata.part("annotations");
    if template && !context.has("appArmorProfile") && annotations.has(&key) {
        let pods = spec.part("securityContext");
        let same = named(annotations.text(&key)).is_some_and(|profile| profile == *pods.value("appArmorProfile"));
        if !same {
            warnings.push(use_the_field(format!("{}[{key}]", metadata.field("annotations"))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(annotations: Value, context: Value, container: Value) -> Object {
        let spec = json!({"securityContext": context, "containers": [{"name": "c", "securityContext": container}]});
        Object::from_value(json!({"metadata": {"name": "p", "annotations": annotations}, "spec": spec})).unwrap()
    }

    fn disagreements(pod: &Object) -> Vec<String> {
        let mut errors = Vec::new();
        agree(&At::root("", &pod.0), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_annotation_becomes_the_field_unless_the_pod_says_the_same() {
        let notes = json!({"container.apparmor.security.beta.kubernetes.io/c": "localhost/mine"});
        let mut made = pod(notes.clone(), json!({}), json!({}));
        adopt(&mut made);
        let profile = json!({"type": "Localhost", "localhostProfile": "mine"});
        assert_eq!(made.0["spec"]["containers"][0]["securityContext"]["appArmorProfile"], profile);
        assert!(advice(&made).is_empty(), "told once");
        let mut same = pod(notes, json!({"appArmorProfile": profile}), json!({}));
        assert!(advice(&same).is_empty());
        adopt(&mut same);
        assert_eq!(same.0["spec"]["containers"][0]["securityContext"], json!({}));
    }

    #[test]
    fn an_annotation_that_names_nothing_good_is_told_and_not_taken() {
        let mut odd = pod(json!({"container.apparmor.security.beta.kubernetes.io/c": "odd"}), json!({}), json!({}));
        assert_eq!(advice(&odd).len(), 1);
        adopt(&mut odd);
        assert_eq!(odd.0["spec"]["containers"][0]["securityContext"], json!({}));
        let mut errors = Vec::new();
        let root = At::root("", &odd.0);
        let notes = root.part("metadata").part("annotations").map.clone();
        annotations(&notes, "metadata.annotations", &root.part("spec"), &mut errors);
        assert_eq!(
            errors[0].to_string(),
            "metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: Invalid value: \"odd\": invalid \
             AppArmor profile name: \"odd\""
        );
    }

    #[test]
    fn annotation_and_field_say_the_same() {
        let notes = json!({"container.seccomp.security.alpha.kubernetes.io/c": "localhost/a"});
        let with = |profile: Value| pod(notes.clone(), json!({}), json!({"seccompProfile": profile}));
        assert!(disagreements(&with(json!({"type": "Localhost", "localhostProfile": "a"}))).is_empty());
        assert_eq!(
            disagreements(&with(json!({"type": "Unconfined"}))),
            [
                "spec.containers[0].securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match"
            ]
        );
        assert_eq!(
            disagreements(&with(json!({"type": "Localhost", "localhostProfile": "b"}))),
            [
                "spec.containers[0].securityContext.seccompProfile.localhostProfile: Forbidden: seccomp profile in annotation and field must match"
            ]
        );
    }
}
