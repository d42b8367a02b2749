//! Defaults and validation of the built-in kinds, in the words their users know.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use meta::{FieldError, FieldErrors, Object, name};
use serde_json::{Map, Value, json};

/// A ConfigMap's or Secret's payload is at most this large.
const MAX_DATA: usize = 1024 * 1024;
pub const NAMESPACE_FINALIZER: &str = "kubernetes";

fn map<'a>(object: &'a Object, key: &str) -> Option<&'a Map<String, Value>> {
    object.0.get(key).and_then(Value::as_object)
}

fn text<'a>(object: &'a Object, key: &str) -> &'a str {
    object.0.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn decoded_len(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    let padding = text.bytes().rev().take_while(|b| *b == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

pub fn namespace_default(object: &mut Object) {
    if !object.name().is_empty() {
        let name = object.name().to_owned();
        let labels = object.meta_mut().entry("labels").or_insert_with(|| json!({}));
        if let Value::Object(labels) = labels {
            labels.insert("kubernetes.io/metadata.name".into(), name.into());
        }
    }
    object.0.entry("spec").or_insert_with(|| json!({}));
    object.0.entry("status").or_insert_with(|| json!({}));
}

pub fn namespace_create(object: &mut Object) {
    object.0.insert("status".into(), json!({"phase": "Active"}));
    let spec = object.0.entry("spec").or_insert_with(|| json!({}));
    let finalizers = spec.as_object_mut().map(|spec| spec.entry("finalizers").or_insert_with(|| json!([])));
    if let Some(Value::Array(list)) = finalizers
        && !list.iter().any(|f| f == NAMESPACE_FINALIZER)
    {
        list.push(NAMESPACE_FINALIZER.into());
    }
}

/// Only the finalize subresource changes a namespace's finalizers.
pub fn namespace_update(object: &mut Object, old: &Object) {
    if let Some(spec) = old.0.get("spec") {
        object.0.insert("spec".into(), spec.clone());
    }
}

pub fn namespace(object: &Object) -> FieldErrors {
    let list = map(object, "spec").and_then(|s| s.get("finalizers")).and_then(Value::as_array);
    let names = list.into_iter().flatten().filter_map(Value::as_str);
    names.flat_map(|name| super::metadata::finalizer("spec.finalizers", name)).collect()
}

/// References to secrets are names only: they live in the account's own namespace.
pub fn service_account_prepare(object: &mut Object) {
    if let Some(Value::Array(list)) = object.0.get_mut("secrets") {
        for reference in list.iter_mut().filter_map(Value::as_object_mut) {
            reference.retain(|key, _| key == "name");
        }
    }
}

pub fn config_map(object: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let mut size = 0;
    let binary = map(object, "binaryData");
    for (key, value) in map(object, "data").into_iter().flatten() {
        config_key("data", key, &mut errors);
        if binary.is_some_and(|b| b.contains_key(key)) {
            errors.push(FieldError::invalid(
                format!("data[{key}]"),
                key.as_str(),
                "duplicate of key present in binaryData",
            ));
        }
        size += value.as_str().map_or(0, str::len);
    }
    for (key, value) in binary.into_iter().flatten() {
        config_key("binaryData", key, &mut errors);
        size += decoded_len(value);
    }
    if size > MAX_DATA {
        errors.push(FieldError::too_long("", MAX_DATA));
    }
    errors
}

fn config_key(field: &str, key: &str, errors: &mut FieldErrors) {
    let wrong = name::config_key(key);
    errors.extend(wrong.into_iter().map(|m| FieldError::invalid(format!("{field}[{key}]"), key, m)));
}

/// An object marked immutable keeps its data, and stays so.
pub fn immutable_data(new: &Object, old: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    if old.0.get("immutable") == Some(&Value::Bool(true)) {
        let detail = "field is immutable when `immutable` is set";
        if new.0.get("immutable") != Some(&Value::Bool(true)) {
            errors.push(FieldError::forbidden("immutable", detail));
        }
        for key in ["data", "binaryData"] {
            let empty = |v: Option<&Value>| v.and_then(Value::as_object).is_none_or(Map::is_empty);
            let (was, is) = (old.0.get(key), new.0.get(key));
            if was != is && !(empty(was) && empty(is)) {
                errors.push(FieldError::forbidden(key, detail));
            }
        }
    }
    errors
}

pub fn secret_default(object: &mut Object) {
    if text(object, "type").is_empty() {
        object.0.insert("type".into(), "Opaque".into());
    }
    if let Some(Value::Object(plain)) = object.0.remove("stringData") {
        let data = object.0.entry("data").or_insert_with(|| json!({}));
        if let Value::Object(data) = data {
            for (key, value) in plain {
                let encoded = STANDARD.encode(value.as_str().unwrap_or_default());
                data.insert(key, encoded.into());
            }
        }
    }
}

pub fn secret(object: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let data = map(object, "data");
    let mut size = 0;
    for (key, value) in data.into_iter().flatten() {
        config_key("data", key, &mut errors);
        size += decoded_len(value);
    }
    if size > MAX_DATA {
        errors.push(FieldError::too_long("data", MAX_DATA));
    }
    let has = |key: &str| data.is_some_and(|d| d.contains_key(key));
    let mut require = |key: &str| {
        if !has(key) {
            errors.push(FieldError::required(format!("data[{key}]"), ""));
        }
    };
    match text(object, "type") {
        "kubernetes.io/service-account-token" => {
            let annotations = object.meta().get("annotations").and_then(Value::as_object);
            let key = "kubernetes.io/service-account.name";
            let named = annotations.and_then(|a| a.get(key)).and_then(Value::as_str).is_some_and(|v| !v.is_empty());
            if !named {
                errors.push(FieldError::required(format!("metadata.annotations[{key}]"), ""));
            }
        }
        "kubernetes.io/dockercfg" => json_document(data, ".dockercfg", &mut errors),
        "kubernetes.io/dockerconfigjson" => json_document(data, ".dockerconfigjson", &mut errors),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            errors.push(FieldError::required("data[username]", ""));
            errors.push(FieldError::required("data[password]", ""));
        }
        "kubernetes.io/ssh-auth" => {
            let key = "ssh-privatekey";
            if data.and_then(|d| d.get(key)).is_none_or(|v| decoded_len(v) == 0) {
                errors.push(FieldError::required(format!("data[{key}]"), ""));
            }
        }
        "kubernetes.io/tls" => {
            require("tls.crt");
            require("tls.key");
        }
        _ => {}
    }
    errors
}

/// The key must be there and hold JSON; the value itself is never repeated in the error.
fn json_document(data: Option<&Map<String, Value>>, key: &str, errors: &mut FieldErrors) {
    let field = format!("data[{key}]");
    let Some(value) = data.and_then(|d| d.get(key)).and_then(Value::as_str) else {
        errors.push(FieldError::required(field, ""));
        return;
    };
    let bytes = STANDARD.decode(value).unwrap_or_default();
    if let Err(e) = meta::json::parse(&bytes) {
        errors.push(FieldError::invalid(field, "<secret contents redacted>", e.to_string()));
    }
}

pub fn secret_update(new: &Object, old: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    if new.0.get("type") != old.0.get("type") {
        errors.push(FieldError::invalid("type", text(new, "type"), "field is immutable"));
    }
    errors.extend(immutable_data(new, old));
    errors
}

/// Coordinated leader election is off, so what belongs to it is not kept.
pub fn lease_prepare(object: &mut Object) {
    if let Some(Value::Object(spec)) = object.0.get_mut("spec") {
        spec.remove("strategy");
        spec.remove("preferredHolder");
    }
}

pub fn lease(object: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let number = |key: &str| map(object, "spec").and_then(|s| s.get(key)).and_then(Value::as_i64);
    if let Some(n) = number("leaseDurationSeconds").filter(|n| *n <= 0) {
        errors.push(FieldError::invalid("spec.leaseDurationSeconds", n, "must be greater than 0"));
    }
    if let Some(n) = number("leaseTransitions").filter(|n| *n < 0) {
        errors.push(FieldError::invalid("spec.leaseTransitions", n, "must be greater than or equal to 0"));
    }
    errors
}

/// An event is about something in its own namespace; cluster-scoped subjects live in `default`. Events with an eventTime are of the new
/// style and must say who reports what.
pub fn event(object: &Object) -> FieldErrors {
    described_event(object, "involvedObject", "reportingComponent", "message")
}

/// events.k8s.io/v1 takes only the new style.
pub fn new_event(object: &Object) -> FieldErrors {
    let mut errors = described_event(object, "regarding", "reportingController", "note");
    if text(object, "eventTime").is_empty() {
        errors.push(FieldError::required("eventTime", ""));
    }
    let kind = text(object, "type");
    if !["Normal", "Warning"].contains(&kind) {
        errors.push(FieldError::invalid("type", "", format!("has invalid value: {kind}")));
    }
    let old = [
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("deprecatedSource", "source"),
    ];
    for (served, stored) in old {
        let set = match object.0.get(served) {
            None | Some(Value::Null) => false,
            Some(Value::Object(map)) => !map.is_empty(),
            Some(value) => value != &Value::from(0),
        };
        if set {
            errors.push(FieldError::invalid(stored, "", "needs to be unset"));
        }
    }
    errors
}

/// A series is of two events or more.
pub fn event_series(object: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let Some(series) = map(object, "series") else { return errors };
    if series.get("count").and_then(Value::as_i64).unwrap_or_default() < 2 {
        errors.push(FieldError::invalid("series.count", "", "should be at least 2"));
    }
    if series.get("lastObservedTime").is_none_or(Value::is_null) {
        errors.push(FieldError::required("series.lastObservedTime", ""));
    }
    errors
}

/// A new-style event only grows its series.
pub fn new_event_update(new: &Object, old: &Object) -> FieldErrors {
    let fields = [
        ("regarding", "involvedObject"),
        ("reason", "reason"),
        ("note", "message"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ];
    let changed = fields.iter().filter(|(served, _)| new.0.get(*served) != old.0.get(*served));
    let fixed = changed.map(|(served, stored)| {
        let value = new.0.get(*served).cloned().unwrap_or(Value::Null);
        FieldError::invalid(*stored, value, "field is immutable")
    });
    let grown = new.0.get("series") != old.0.get("series");
    let mut errors = if grown { event_series(new) } else { Vec::new() };
    errors.extend(fixed);
    errors
}

fn described_event(object: &Object, subject: &str, controller: &str, message: &str) -> FieldErrors {
    let mut errors = Vec::new();
    let namespace = map(object, subject).and_then(|m| m.get("namespace")).and_then(Value::as_str).unwrap_or_default();
    let is_new = !text(object, "eventTime").is_empty();
    let fits = match (namespace, object.namespace()) {
        ("", "default") => true,
        ("", "kube-system") => is_new,
        ("", _) => false,
        (namespace, home) => is_new || namespace == home,
    };
    if !fits {
        errors.push(FieldError::invalid("involvedObject.namespace", namespace, "does not match event.namespace"));
    }
    if !is_new {
        return errors;
    }
    let reporter = text(object, controller);
    if reporter.is_empty() {
        errors.push(FieldError::required(controller, ""));
    }
    let wrong = name::qualified_name(reporter);
    errors.extend(wrong.into_iter().map(|m| FieldError::invalid(controller, reporter, m)));
    for key in ["reportingInstance", "action", "reason"] {
        match text(object, key) {
            "" => errors.push(FieldError::required(key, "")),
            value if value.len() > 128 => {
                errors.push(FieldError::invalid(key, "", "can have at most 128 characters"));
            }
            _ => {}
        }
    }
    if text(object, message).len() > 1024 {
        errors.push(FieldError::invalid("message", "", "can have at most 1024 characters"));
    }
    errors
}
