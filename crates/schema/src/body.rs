//! Reads a JSON body once and tells which fields it names twice, which `serde_json::Value` alone would hide.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

const MAX_DUPLICATES: usize = 100;

#[derive(Debug)]
pub struct Body {
    pub value: Value,
    /// Paths of fields named more than once, as Kubernetes prints them; the last one won.
    pub duplicates: Vec<String>,
}

/// Reads one JSON document. Depth is bounded by serde_json (128).
pub fn parse(bytes: &[u8]) -> Result<Body, serde_json::Error> {
    let duplicates = RefCell::new(Vec::new());
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Node { parent: None, step: Step::Root, duplicates: &duplicates }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(Body { value, duplicates: duplicates.into_inner() })
}

enum Step<'a> {
    Root,
    Key(&'a str),
    Index(usize),
}

struct Node<'a> {
    parent: Option<&'a Node<'a>>,
    step: Step<'a>,
    duplicates: &'a RefCell<Vec<String>>,
}

impl Node<'_> {
    fn path(&self) -> String {
        let mut path = self.parent.map(Node::path).unwrap_or_default();
        match self.step {
            Step::Root => {}
            Step::Key(key) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
            }
            Step::Index(at) => path.push_str(&format!("[{at}]")),
        }
        path
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = access.next_element_seed(Node {
            parent: Some(&self),
            step: Step::Index(list.len()),
            duplicates: self.duplicates,
        })? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let node = Node { parent: Some(&self), step: Step::Key(&key), duplicates: self.duplicates };
            if map.contains_key(&key) {
                let mut duplicates = self.duplicates.borrow_mut();
                if duplicates.len() < MAX_DUPLICATES {
                    let path = node.path();
                    if !duplicates.contains(&path) {
                        duplicates.push(path);
                    }
                }
            }
            let value = access.next_value_seed(node)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn duplicates_are_told_by_path_and_the_last_wins() {
        let body = parse(br#"{"a":1,"a":2,"b":[{"c":1},{"c":1,"c":3}]}"#).unwrap();
        assert_eq!(body.duplicates, ["a", "b[1].c"]);
        assert_eq!(body.value, serde_json::json!({"a":2,"b":[{"c":1},{"c":3}]}));
        assert!(parse(b"{} x").is_err());
        assert!(parse("[".repeat(100_000).as_bytes()).is_err(), "depth is bounded");
    }

    proptest! {
        #[test]
        fn reads_what_serde_json_reads(text in r#"[\[\]{}:,"a-c0-9.eE\-\\ntrufals ]{0,40}"#) {
            prop_assert_eq!(parse(text.as_bytes()).ok().map(|b| b.value), serde_json::from_str::<Value>(&text).ok());
        }
    }
}
