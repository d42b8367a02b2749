//! How the values of an object become cells of a table.

use jiff::Timestamp;
use meta::selector::LabelSelector;
use meta::table::Column;
use meta::{Object, time};
use serde_json::Value;

pub const AGE: Column = Column::new("Age", "string");
pub const CONTAINERS: Column = Column::new("Containers", "string").wide();
pub const IMAGES: Column = Column::new("Images", "string").wide();
pub const SELECTOR: Column = Column::new("Selector", "string").wide();

pub fn age(object: &Object, now: Timestamp) -> Value {
    time::age(object.meta_text("creationTimestamp"), now).into()
}

/// The value at a dotted path.
pub fn at<'a>(object: &'a Object, path: &str) -> &'a Value {
    let mut steps = path.split('.');
    let first = steps.next().and_then(|step| object.0.get(step)).unwrap_or(&Value::Null);
    steps.fold(first, |value, step| value.get(step).unwrap_or(&Value::Null))
}

pub fn number(object: &Object, path: &str) -> i64 {
    at(object, path).as_i64().unwrap_or_default()
}

pub fn flag(object: &Object, path: &str) -> Value {
    at(object, path).as_bool().unwrap_or_default().into()
}

pub fn text<'a>(object: &'a Object, path: &str) -> &'a str {
    at(object, path).as_str().unwrap_or_default()
}

/// The text, or what stands for none.
pub fn text_or(object: &Object, path: &str, none: &str) -> Value {
    at(object, path).as_str().unwrap_or(none).into()
}

pub fn len(object: &Object, path: &str) -> Value {
    at(object, path).as_array().map_or(0, Vec::len).into()
}

/// Names and images of the containers of a PodSpec.
pub fn containers(spec: &Value) -> [Value; 2] {
    let list = spec.get("containers").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    ["name", "image"].map(|key| {
        let texts: Vec<&str> = list.iter().map(|c| c.get(key).and_then(Value::as_str).unwrap_or_default()).collect();
        texts.join(",").into()
    })
}

/// A LabelSelector in its query form.
pub fn selector(value: &Value) -> Value {
    match LabelSelector::from_object(value).map(|selector| selector.to_string()) {
        Err(_) => "<error>".into(),
        Ok(text) if text.is_empty() => "<none>".into(),
        Ok(text) => text.into(),
    }
}
