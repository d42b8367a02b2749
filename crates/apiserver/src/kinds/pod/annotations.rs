//! Annotations that mean something to a pod: mirrors, the cost of its deletion, profiles.

use super::profiles::{self, APP_ARMOR};
use crate::kinds::check::At;
use meta::{FieldError, FieldErrors};

/// Of a pod that a node runs on its own, and only shows here.
const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

pub fn is_mirror(metadata: &At<'_>) -> bool {
    metadata.part("annotations").has(MIRROR)
}

/// The annotations of a pod, or of a template, at `path`.
pub fn check(metadata: &At<'_>, path: &str, spec: &At<'_>, errors: &mut FieldErrors) {
    let annotations = metadata.part("annotations");
    if annotations.map.is_empty() {
        return;
    }
    if annotations.has(MIRROR) && spec.text("nodeName").is_empty() {
        let why = "must set spec.nodeName if mirror pod annotation is set";
        errors.push(FieldError::invalid(format!("{path}[{MIRROR}]"), annotations.text(MIRROR), why));
    }
    if annotations.has(DELETION_COST) && !is_cost(annotations.text(DELETION_COST)) {
        let field = format!("{path}[{DELETION_COST}]");
        errors.push(FieldError::invalid(field, annotations.text(DELETION_COST), "must be a 32bit integer"));
    }
    profiles::annotations(annotations.map, path, spec, errors);
}

/// A 32-bit number in its one spelling: neither a plus nor leading zeros.
fn is_cost(text: &str) -> bool {
    let spelled = text == "0" || text.starts_with(|c: char| c == '-' || ('1'..='9').contains(&c));
    spelled && text.parse::<i32>().is_ok()
}

/// What a node said of a pod stays: whether it is a mirror, and its AppArmor profiles.
pub fn check_update(metadata: &At<'_>, was: &At<'_>, errors: &mut FieldErrors) {
    let kept = |key: &str| match key {
        MIRROR => Some("mirror pod annotation"),
        _ if key.starts_with(APP_ARMOR) => Some("AppArmor annotations"),
        _ => None,
    };
    let (annotations, before) = (metadata.part("annotations"), was.part("annotations"));
    let path = metadata.field("annotations");
    for (key, value) in was.entries("annotations") {
        if let Some(what) = kept(key).filter(|_| annotations.value(key) != value) {
            errors.push(FieldError::forbidden(format!("{path}[{key}]"), format!("may not remove or update {what}")));
        }
    }
    for (key, _) in metadata.entries("annotations").filter(|(key, _)| !before.has(key)) {
        if let Some(what) = kept(key) {
            errors.push(FieldError::forbidden(format!("{path}[{key}]"), format!("may not add {what}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_cost_has_one_spelling() {
        for good in ["0", "7", "-3", "2147483647", "-0"] {
            assert!(is_cost(good), "{good}");
        }
        for bad in ["", "+1", "007", "2147483648", "x", "1.5", "-"] {
            assert!(!is_cost(bad), "{bad}");
        }
    }

    #[test]
    fn a_mirror_stays_one_and_is_on_a_node() {
        let told = |new: Value, old: Value| -> Vec<String> {
            let mut errors = Vec::new();
            let (new, old) = (json!({"annotations": new}), json!({"annotations": old}));
            let (new, old) = (new.as_object().unwrap().clone(), old.as_object().unwrap().clone());
            check_update(&At::root("metadata", &new), &At::root("metadata", &old), &mut errors);
            errors.iter().map(ToString::to_string).collect()
        };
        let mirror = json!({"kubernetes.io/config.mirror": "x"});
        assert!(told(mirror.clone(), mirror.clone()).is_empty());
        assert_eq!(
            told(json!({}), mirror.clone()),
            [
                "metadata.annotations[kubernetes.io/config.mirror]: Forbidden: may not remove or update mirror pod annotation"
            ]
        );
        assert_eq!(
            told(mirror.clone(), json!({})),
            ["metadata.annotations[kubernetes.io/config.mirror]: Forbidden: may not add mirror pod annotation"]
        );
        let (mut errors, metadata) = (Vec::new(), json!({"annotations": mirror}));
        let spec = json!({});
        let at = At::root("metadata", metadata.as_object().unwrap());
        check(&at, "metadata.annotations", &At::root("spec", spec.as_object().unwrap()), &mut errors);
        assert_eq!(errors.len(), 1);
    }
}
