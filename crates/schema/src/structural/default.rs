//! Filling in defaults.

use serde_json::{Map, Value};

use super::node::Node;

/// How many values defaults may add to one object. Real objects gain dozens; a body of empty items could gain gigabytes.
const MOST: usize = 1_000_000;

/// False when defaults would blow the object up; it is left half filled then.
pub(super) fn fill(object: &mut Map<String, Value>, root: &Node) -> bool {
    let mut filler = Filler { left: Some(MOST) };
    filler.object(object, root);
    filler.left.is_some()
}

struct Filler {
    left: Option<usize>,
}

impl Filler {
    /// Nulls where the schema allows none mean "not set": they go, or make way for the default.
    fn object(&mut self, map: &mut Map<String, Value>, node: &Node) {
        map.retain(|name, value| {
            !value.is_null() || node.field(name).is_none_or(|field| field.nullable || field.default.is_some())
        });
        for (name, property) in &node.properties {
            if property.default.is_some() && !map.contains_key(name) {
                match self.copy(property) {
                    Some(default) => _ = map.insert(name.clone(), default),
                    None => return,
                }
            }
        }
        let mut at = 0;
        for (name, value) in map {
            if let Some(field) = node.seek_field(name, &mut at) {
                self.value(value, field);
            }
        }
    }

    fn value(&mut self, value: &mut Value, node: &Node) {
        if value.is_null() && !node.nullable {
            match self.copy(node) {
                Some(default) => *value = default,
                None => return,
            }
        }
        match value {
            Value::Object(map) => self.object(map, node),
            Value::Array(list) => {
                if let Some(items) = &node.items {
                    list.iter_mut().for_each(|item| self.value(item, items));
                }
            }
            _ => {}
        }
    }

    fn copy(&mut self, node: &Node) -> Option<Value> {
        let default = node.default.as_ref()?;
        self.left = self.left?.checked_sub(size(default));
        self.left.map(|_| default.clone())
    }
}

fn size(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(size).sum(),
        Value::Object(map) => map.values().map(size).sum(),
        Value::String(text) => text.len() / 64,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structural::Schema;
    use serde_json::json;

    #[test]
    fn a_small_body_does_not_become_a_large_object() {
        let property = |_| json!({"type": "string", "default": "x".repeat(64)});
        let properties: Map<String, Value> = (0..100).map(|at| (format!("p{at}"), property(at))).collect();
        let list = json!({"type": "array", "items": {"type": "object", "properties": properties}});
        let schema = Schema::compile(&json!({"type": "object", "properties": {"list": list}})).unwrap();
        let object = |items: usize| Map::from_iter([("list".to_owned(), Value::Array(vec![json!({}); items]))]);
        assert!(schema.default(&mut object(1_000)));
        assert!(!schema.default(&mut object(100_000)));
    }
}
