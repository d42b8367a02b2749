//! Filling in defaults.

use serde_json::{Map, Value};

use super::node::Node;

/// Nulls where the schema allows none mean "not set": they go, or make way for the default.
pub(super) fn object(map: &mut Map<String, Value>, node: &Node) {
    map.retain(|name, value| {
        !value.is_null() || node.field(name).is_none_or(|field| field.nullable || field.default.is_some())
    });
    for (name, property) in &node.properties {
        let Some(default) = &property.default else { continue };
        match map.get_mut(name) {
            None => {
                map.insert(name.clone(), default.clone());
            }
            Some(value) if value.is_null() && !property.nullable => *value = default.clone(),
            Some(_) => {}
        }
    }
    for (name, value) in map {
        if let Some(field) = node.field(name) {
            self::value(value, field);
        }
    }
}

fn value(value: &mut Value, node: &Node) {
    if value.is_null() {
        if let Some(default) = node.default.as_ref().filter(|_| !node.nullable) {
            *value = default.clone();
        } else {
            return;
        }
    }
    match value {
        Value::Object(map) => object(map, node),
        Value::Array(list) => {
            if let Some(items) = &node.items {
                for item in list {
                    self::value(item, items);
                }
            }
        }
        _ => {}
    }
}
