//! The way from client-side apply: kubectl kept what it applied in an annotation.

use serde_json::Value;

use super::apply::{Fields, Scope};
use super::compare::compare;
use super::encode::write_json;
use super::extract::fields_of;
use super::schema::{Node, Schema};
use super::set::FieldSet;
use super::validate::{Duplicates, validate};

/// The manager that takes over from client-side apply.
pub(super) const CLIENT: &str = "kubectl";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// All annotations of an object together.
const MAX_ANNOTATIONS: usize = 256 * 1024;

fn annotations(object: &Fields) -> Option<&Fields> {
    object.get("metadata")?.get("annotations")?.as_object()
}

fn last_applied(object: &Fields) -> Option<&str> {
    annotations(object)?.get(LAST_APPLIED)?.as_str().filter(|text| !text.is_empty())
}

/// What the client last applied, when it is of this version and fits the type.
pub(super) fn unchanged<'t, T: Schema<'t>>(live: &Fields, scope: &Scope<'_, T>) -> Option<Fields> {
    let parsed = meta::json::parse(last_applied(live)?.as_bytes()).ok()?;
    let Value::Object(last) = parsed.value else { return None };
    let fits = last.get("apiVersion").and_then(Value::as_str) == Some(scope.api_version)
        && validate(live, scope.node, Duplicates::Refused).is_ok()
        && validate(&last, scope.node, Duplicates::Refused).is_ok();
    fits.then_some(last)
}

/// The fields of it that still have the value they were applied with.
pub(super) fn fields<'a, 't: 'a, T: Schema<'t>>(
    last: &'a Fields,
    live: &'a Fields,
    node: Node<T>,
) -> Option<FieldSet<'a>> {
    let changes = compare(last, live, node).ok()?;
    let all = fields_of(last, node).ok()?;
    Some(all.difference(&changes.modified).difference(&changes.added).difference(&changes.removed))
}

/// Keeps the annotation up to date where there is one: whoever goes back to client-side apply finds what was last applied.
pub(super) fn follow(live: &Fields, configuration: &Fields, object: &mut Option<Fields>) {
    if last_applied(object.as_ref().unwrap_or(live)).is_none() {
        return;
    }
    let mut applied = configuration.clone();
    if let Some(Value::Object(annotations)) = applied.get_mut("metadata").and_then(|m| m.get_mut("annotations")) {
        annotations.remove(LAST_APPLIED);
    }
    let mut text = Vec::new();
    write_json(&Value::Object(applied), &mut text);
    text.push(b'\n');
    let text = String::from_utf8_lossy(&text).into_owned();
    if last_applied(object.as_ref().unwrap_or(live)) == Some(&text) {
        return;
    }
    let object = object.get_or_insert_with(|| live.clone());
    let Some(Value::Object(annotations)) = object.get_mut("metadata").and_then(|m| m.get_mut("annotations")) else {
        return;
    };
    annotations.insert(LAST_APPLIED.into(), text.into());
    let size: usize = annotations.iter().map(|(k, v)| k.len() + v.as_str().map_or(0, str::len)).sum();
    if size > MAX_ANNOTATIONS {
        annotations.remove(LAST_APPLIED);
    }
}
