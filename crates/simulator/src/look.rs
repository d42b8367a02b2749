//! Reading and writing the parts of an object that the simulation cares for; what is absent or odd reads as nothing.

use meta::Object;
use serde_json::{Map, Value, json};
use store::Entry;

static NOTHING: Value = Value::Null;

/// A part of an object by its JSON pointer.
pub(crate) fn at<'a>(object: &'a Object, pointer: &str) -> &'a Value {
    let mut steps = pointer.split('/').skip(1);
    let first = steps.next().and_then(|step| object.0.get(step));
    steps.try_fold(first.unwrap_or(&NOTHING), |value, step| value.get(step)).unwrap_or(&NOTHING)
}

pub(crate) fn text<'a>(object: &'a Object, pointer: &str) -> &'a str {
    at(object, pointer).as_str().unwrap_or_default()
}

pub(crate) fn number(object: &Object, pointer: &str) -> i64 {
    at(object, pointer).as_i64().unwrap_or_default()
}

pub(crate) fn list<'a>(object: &'a Object, pointer: &str) -> &'a [Value] {
    at(object, pointer).as_array().map(Vec::as_slice).unwrap_or_default()
}

pub(crate) fn annotation<'a>(object: &'a Object, name: &str) -> Option<&'a str> {
    object.meta().get("annotations").and_then(|all| all.get(name)).and_then(Value::as_str)
}

pub(crate) fn label<'a>(object: &'a Object, name: &str) -> Option<&'a str> {
    object.meta().get("labels").and_then(|all| all.get(name)).and_then(Value::as_str)
}

/// A map in the metadata (labels, annotations), made if it is not there.
pub(crate) fn entries<'a>(object: &'a mut Object, name: &str) -> &'a mut Map<String, Value> {
    let slot = object.meta_mut().entry(name).or_insert_with(|| json!({}));
    if !slot.is_object() {
        *slot = json!({});
    }
    match slot {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

/// A top-level map (spec, status), made if it is not there.
pub(crate) fn part<'a>(object: &'a mut Object, name: &str) -> &'a mut Map<String, Value> {
    let slot = object.0.entry(name).or_insert_with(|| json!({}));
    if !slot.is_object() {
        *slot = json!({});
    }
    match slot {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

pub(crate) fn condition<'a>(object: &'a Object, kind: &str) -> &'a Value {
    list(object, "/status/conditions").iter().find(|c| c["type"] == kind).unwrap_or(&NOTHING)
}

pub(crate) fn is_true(object: &Object, kind: &str) -> bool {
    condition(object, kind)["status"] == "True"
}

/// Sets a condition in a status; the time of its last change stays when its status stays.
pub(crate) fn set_condition(status: &mut Map<String, Value>, mut condition: Value, now: &str) {
    let Value::Array(all) = status.entry("conditions").or_insert_with(|| json!([])) else { return };
    condition["lastTransitionTime"] = now.into();
    match all.iter_mut().find(|old| old["type"] == condition["type"]) {
        Some(old) => {
            if old["status"] == condition["status"] {
                condition["lastTransitionTime"] = old["lastTransitionTime"].take();
            }
            *old = condition;
        }
        None => all.push(condition),
    }
}

/// The owner that controls it: kind and name.
pub(crate) fn controller(object: &Object) -> Option<(&str, &str)> {
    let owners = object.meta().get("ownerReferences")?.as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    Some((owner["kind"].as_str()?, owner["name"].as_str()?))
}

pub(crate) fn owner_reference(api_version: &str, kind: &str, owner: &Object) -> Value {
    json!([{"apiVersion": api_version, "kind": kind, "name": owner.name(), "uid": owner.uid(),
        "controller": true, "blockOwnerDeletion": true}])
}

/// Whether an entry is owned by this uid, without decoding it.
pub(crate) fn owned(entry: &Entry, uid: &str) -> bool {
    entry.attrs.owners.iter().any(|owner| **owner == *uid)
}

/// Whether labels fit a map of labels.
pub(crate) fn fits<'a>(wanted: &Map<String, Value>, label: impl Fn(&str) -> Option<&'a str>) -> bool {
    wanted.iter().all(|(key, value)| label(key) == value.as_str())
}

pub(crate) fn phase(pod: &Object) -> &str {
    text(pod, "/status/phase")
}

/// Counts for whoever wants it to run: not ended, and not told to.
pub(crate) fn is_active(pod: &Object) -> bool {
    !pod.is_deleting() && !matches!(phase(pod), "Succeeded" | "Failed")
}

/// A stable number made of text (FNV-1a), for names and for what shall look random and be the same each time.
pub(crate) fn hash(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A hash as it is used in names: no vowels, so that it is never a word.
pub(crate) fn short_hash(mut number: u64) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let base = LETTERS.len() as u64;
    let mut out = String::with_capacity(10);
    for _ in 0..10 {
        out.push(char::from(LETTERS[(number % base) as usize]));
        number /= base;
    }
    out
}

/// `25%` of or simply a number; a percentage is rounded up or down.
pub(crate) fn share(value: &Value, of: i64, up: bool) -> i64 {
    match value {
        Value::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or_default();
            let product = percent.saturating_mul(of);
            if up { (product + 99) / 100 } else { product / 100 }
        }
        value => value.as_i64().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_reads_as_nothing() {
        let object = Object::from_value(json!({"spec": {"a": {"b": 3}}, "status": 5})).unwrap();
        assert_eq!(number(&object, "/spec/a/b"), 3);
        assert_eq!(number(&object, "/spec/a/b/c"), 0);
        assert_eq!(text(&object, "/nothing/here"), "");
        assert!(list(&object, "/status/conditions").is_empty());
        let mut object = object;
        part(&mut object, "status").insert("x".into(), 1.into());
        assert_eq!(number(&object, "/status/x"), 1);
    }

    #[test]
    fn shares_round_as_asked() {
        assert_eq!(share(&json!("25%"), 3, true), 1);
        assert_eq!(share(&json!("25%"), 3, false), 0);
        assert_eq!(share(&json!(2), 3, false), 2);
        assert_eq!(share(&json!("nonsense"), 3, false), 0);
    }

    #[test]
    fn a_condition_keeps_its_time_while_its_status_stays() {
        let mut status = Map::new();
        set_condition(&mut status, json!({"type": "Ready", "status": "True"}), "1");
        set_condition(&mut status, json!({"type": "Ready", "status": "True", "reason": "x"}), "2");
        assert_eq!(status["conditions"][0]["lastTransitionTime"], "1");
        set_condition(&mut status, json!({"type": "Ready", "status": "False"}), "3");
        assert_eq!(status["conditions"][0]["lastTransitionTime"], "3");
        assert_eq!(status["conditions"].as_array().unwrap().len(), 1);
    }
}
