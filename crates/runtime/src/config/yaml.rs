//! YAML as a tree that remembers its lines, so that a mistake is named where it was made.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::Spanned;

/// A value and the line it begins on.
#[derive(Debug, Clone)]
pub struct Node {
    pub line: u64,
    pub value: Value,
}

#[derive(Debug, Clone)]
pub enum Value {
    Null,
    /// A scalar as text, and what it is in JSON.
    Scalar(String, serde_json::Value),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug, Clone)]
pub struct Entry {
    pub key: String,
    pub line: u64,
    pub node: Node,
}

impl Node {
    /// Reads one document. An empty one is an empty map.
    pub fn read(text: &str) -> Result<Node, String> {
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Ok(Node { line: 1, value: Value::Map(Vec::new()) });
        }
        let read: Spanned<Value> = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        Ok(Node::from(read))
    }

    /// As JSON, for whoever reads it with serde.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Scalar(_, json) => json.clone(),
            Value::List(items) => items.iter().map(Node::to_json).collect(),
            Value::Map(entries) => entries
                .iter()
                .map(|entry| (entry.key.clone(), entry.node.to_json()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }

    /// What it is, for a message.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "nothing",
            Value::Scalar(..) => "a single value",
            Value::List(_) => "a list",
            Value::Map(_) => "a section",
        }
    }
}

impl From<Spanned<Value>> for Node {
    fn from(read: Spanned<Value>) -> Node {
        Node { line: read.referenced.line(), value: read.value }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_unit<E>(self) -> Result<Value, E> {
                Ok(Value::Null)
            }
            fn visit_none<E>(self) -> Result<Value, E> {
                Ok(Value::Null)
            }
            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
                Value::deserialize(deserializer)
            }
            fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
                Ok(Value::Scalar(value.to_string(), value.into()))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
                Ok(Value::Scalar(value.to_string(), value.into()))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
                Ok(Value::Scalar(value.to_string(), value.into()))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
                Ok(Value::Scalar(value.to_string(), value.into()))
            }
            fn visit_str<E>(self, value: &str) -> Result<Value, E> {
                Ok(Value::Scalar(value.to_owned(), value.into()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element::<Spanned<Value>>()? {
                    list.push(Node::from(item));
                }
                Ok(Value::List(list))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
                let mut map = Vec::new();
                while let Some(key) = entries.next_key::<Spanned<String>>()? {
                    let node = Node::from(entries.next_value::<Spanned<Value>>()?);
                    map.push(Entry { key: key.value, line: key.referenced.line(), node });
                }
                Ok(Value::Map(map))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_knows_its_line() {
        let node = Node::read("# top\na: 1\nb:\n  c: [x, 2]\n  d: null\n  e: 1m30s\n").unwrap();
        let Value::Map(entries) = &node.value else { panic!("{node:?}") };
        assert_eq!((entries[0].key.as_str(), entries[0].line), ("a", 2));
        let Value::Map(inner) = &entries[1].node.value else { panic!("{node:?}") };
        let lines: Vec<(&str, u64)> = inner.iter().map(|entry| (entry.key.as_str(), entry.line)).collect();
        assert_eq!(lines, [("c", 4), ("d", 5), ("e", 6)]);
        assert_eq!(node.to_json(), serde_json::json!({"a": 1, "b": {"c": ["x", 2], "d": null, "e": "1m30s"}}));
        assert!(matches!(Node::read("# only\n\n").unwrap().value, Value::Map(entries) if entries.is_empty()));
    }

    #[test]
    fn what_is_no_yaml_or_says_a_key_twice_is_refused() {
        for wrong in ["a: [1", "a: 1\na: 2\n", "a: b: c", "a: *nobody"] {
            assert!(Node::read(wrong).is_err(), "{wrong}");
        }
    }
}
