//! Lists that are sets or maps hold no two items alike.

use std::collections::HashMap;
use std::hash::Hash;

use meta::{FieldError, FieldErrors};
use serde_json::{Map, Value};

use super::node::{Additional, ListType, Node};
use super::path::Path;

pub(super) fn object(map: &Map<String, Value>, node: &Node, path: &Path<'_>, errors: &mut FieldErrors) {
    if !node.below.keyed {
        return;
    }
    let mut at = 0;
    for (name, value) in map {
        if let Some(property) = node.seek(name, &mut at) {
            self::value(value, property, &path.field(name), errors);
        }
        if let Some(Additional::Typed(inner)) = &node.additional {
            self::value(value, inner, &path.key(name), errors);
        }
    }
}

fn value(value: &Value, node: &Node, path: &Path<'_>, errors: &mut FieldErrors) {
    if !node.below.keyed {
        return;
    }
    match value {
        Value::Object(map) => object(map, node, path, errors),
        Value::Array(list) => {
            match &node.list_type {
                ListType::Atomic => {}
                ListType::Set => {
                    for at in repeated(list.iter()) {
                        errors.push(FieldError::duplicate(path.index(at).to_string(), list[at].clone()));
                    }
                }
                ListType::Map(keys) => keyed(list, keys, path, errors),
            }
            if let Some(items) = &node.items {
                for (at, item) in list.iter().enumerate() {
                    self::value(item, items, &path.index(at), errors);
                }
            }
        }
        _ => {}
    }
}

fn keyed(list: &[Value], keys: &[String], path: &Path<'_>, errors: &mut FieldErrors) {
    if let Some((at, item)) = list.iter().enumerate().find(|(_, item)| !item.is_object() && !item.is_null()) {
        let why = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(path.index(at).to_string(), item.clone(), why));
        return;
    }
    let repeats = match keys {
        [key] => repeated(list.iter().map(|item| item.get(key))),
        _ => repeated(list.iter().map(|item| keys.iter().map(|key| item.get(key)).collect::<Vec<_>>())),
    };
    for at in repeats {
        let key = keys.iter().filter_map(|key| Some((key.clone(), list[at].get(key)?.clone())));
        errors.push(FieldError::duplicate(path.index(at).to_string(), Value::Object(key.collect())));
    }
}

/// Where something comes for the second time; a third time is not told again.
fn repeated<K: Hash + Eq>(keys: impl ExactSizeIterator<Item = K> + Clone) -> Vec<usize> {
    // Most lists are short and fine: compared in place.
    let fresh = |(at, key): (usize, K)| keys.clone().take(at).all(|earlier| earlier != key);
    if keys.len() <= 8 && keys.clone().enumerate().all(fresh) {
        return Vec::new();
    }
    let mut seen: HashMap<K, bool> = HashMap::with_capacity(keys.len());
    let mut repeats = Vec::new();
    for (at, key) in keys.enumerate() {
        let told = seen.get_mut(&key);
        match told {
            None => _ = seen.insert(key, false),
            Some(told) if !*told => {
                *told = true;
                repeats.push(at);
            }
            Some(_) => {}
        }
    }
    repeats
}
