//! Groups of the Kubernetes community need its approval, noted in an annotation.

use meta::{FieldError, FieldErrors};

use crate::structural::props::Props;

const ANNOTATION: &str = "api-approved.kubernetes.io";
const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

#[derive(PartialEq)]
enum State {
    Missing,
    Invalid,
    Approved,
    Bypassed,
}

pub(super) fn validate(crd: Props<'_>, spec: Props<'_>, old: Option<Props<'_>>, errors: &mut FieldErrors) {
    let group = spec.text("group");
    let under = |domain: &str| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    if !under("k8s.io") && !under("kubernetes.io") {
        return;
    }
    let now = state(crd);
    if old.is_some_and(|old| state(old) == now) {
        return;
    }
    let field = format!("metadata.annotations[{ANNOTATION}]");
    match now {
        State::Approved | State::Bypassed => {}
        State::Missing => {
            let why = format!("protected groups must have approval annotation \"{ANNOTATION}\", {SEE}");
            errors.push(FieldError::required(field, why));
        }
        State::Invalid => {
            let why = format!(
                "protected groups must have approval annotation \"{ANNOTATION}\" with either a URL or a reason starting with \"unapproved\", {SEE}"
            );
            errors.push(FieldError::invalid(field, annotation(crd), why));
        }
    }
}

fn annotation(crd: Props<'_>) -> &str {
    let annotations = crd.part("metadata").and_then(|metadata| metadata.part("annotations"));
    annotations.map(|annotations| annotations.text(ANNOTATION)).unwrap_or_default()
}

fn state(crd: Props<'_>) -> State {
    let text = annotation(crd);
    let url = || {
        text.split_once("://")
            .is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty() && !rest.starts_with('/'))
    };
    match text {
        "" => State::Missing,
        _ if text.starts_with("unapproved") => State::Bypassed,
        _ if url() => State::Approved,
        _ => State::Invalid,
    }
}
