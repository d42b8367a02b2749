//! Finding the old self of a list item: by its keys, in lists of type map.

use std::collections::HashMap;

use serde_json::Value;

use super::node::{ListType, Node};
use super::view::View;

/// The items of an old list, by key. Empty where items cannot be told apart.
pub(super) struct Items<'a> {
    keys: &'a [String],
    items: HashMap<Vec<&'a Value>, &'a Value>,
}

impl<'a> Items<'a> {
    pub fn of(node: &'a Node, old: View<'a>) -> Self {
        let (ListType::Map(keys), View::List(list)) = (&node.list_type, old) else {
            return Self { keys: &[], items: HashMap::new() };
        };
        let mut items = HashMap::with_capacity(list.len());
        for item in list {
            if let Some(key) = key(keys, item) {
                items.entry(key).or_insert(item);
            }
        }
        Self { keys, items }
    }

    pub fn get(&self, item: &Value) -> Option<&'a Value> {
        if self.items.is_empty() {
            return None;
        }
        self.items.get(&key(self.keys, item)?).copied()
    }
}

/// The values of all keys; there is no key unless all are there and plain.
fn key<'v>(keys: &[String], item: &'v Value) -> Option<Vec<&'v Value>> {
    if keys.is_empty() {
        return None;
    }
    let plain = |value: &&Value| matches!(value, Value::Bool(_) | Value::Number(_) | Value::String(_));
    keys.iter().map(|key| item.get(key).filter(plain)).collect()
}
