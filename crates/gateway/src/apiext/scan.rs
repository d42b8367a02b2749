//! Finds the values at a path in rendered JSON without building the document: what is not on the way is skipped.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::field::{Cell, FieldPath, MOST_CELLS};

/// The same as [`FieldPath::cell`] of the parsed document; `Missing` if it is not JSON.
pub(crate) fn cell(path: &FieldPath, json: &[u8]) -> Cell {
    let mut found = Vec::new();
    let seek = Seek { path: path.segments(), leaf: false, found: &mut found };
    match seek.deserialize(&mut serde_json::Deserializer::from_slice(json)) {
        Ok(through_list) => Cell::found(found, through_list),
        Err(_) => Cell::Missing,
    }
}

/// Collects what is at the end of the path and says whether it went through a list.
struct Seek<'a> {
    path: &'a [String],
    /// An element of a list at the end of the path: a list within it is not looked into.
    leaf: bool,
    found: &'a mut Vec<Cell>,
}

impl Seek<'_> {
    fn scalar<E>(self, cell: Cell) -> Result<bool, E> {
        if self.path.is_empty() && self.found.len() < MOST_CELLS {
            self.found.push(cell);
        }
        Ok(false)
    }
}

impl<'de> DeserializeSeed<'de> for Seek<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seek<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<bool, E> {
        self.scalar(Cell::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<bool, E> {
        self.scalar(Cell::Number(value as f64))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<bool, E> {
        self.scalar(Cell::Number(value as f64))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<bool, E> {
        self.scalar(Cell::Number(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<bool, E> {
        // Only what is wanted is copied.
        if self.path.is_empty() { self.scalar(Cell::text(value)) } else { Ok(false) }
    }

    fn visit_unit<E: Error>(self) -> Result<bool, E> {
        self.scalar(Cell::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<bool, A::Error> {
        if self.leaf {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            return self.scalar(Cell::Object);
        }
        let index = self.path.first().and_then(|key| key.parse::<usize>().ok());
        let (rest, leaf) = match index {
            Some(_) => (&self.path[1..], false),
            None => (self.path, self.path.is_empty()),
        };
        let (mut at, mut through) = (0, index.is_none());
        loop {
            let more = if index.is_none_or(|index| index == at) {
                let item = items.next_element_seed(Seek { path: rest, leaf, found: self.found })?;
                through |= item.unwrap_or(false);
                item.is_some()
            } else {
                items.next_element::<IgnoredAny>()?.is_some()
            };
            if !more {
                return Ok(through);
            }
            at += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<bool, A::Error> {
        let Some((key, rest)) = self.path.split_first() else {
            while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return self.scalar(Cell::Object);
        };
        let mut through = false;
        while let Some(here) = fields.next_key_seed(Is(key))? {
            if here {
                through = fields.next_value_seed(Seek { path: rest, leaf: false, found: self.found })?;
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(through)
    }
}

/// Compares a key without copying it.
struct Is<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<bool, E> {
        Ok(key == self.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn document() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-c\"\\\\é]{0,3}".prop_map(Value::from)
        ];
        scalar.prop_recursive(4, 40, 4, |inner| {
            let keys = prop::sample::select(vec!["a", "b", "0", "1"]).prop_map(str::to_owned);
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(keys, inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    #[test]
    fn lists_in_lists_and_strange_numbers_are_seen_alike() {
        let document = json!({"a": [[1, 2], {"b": 3}, 4], "b": [{"a": [5, [6]]}, {"a": {"b": 7}}, 8], "n": -0.5, "big": u64::MAX, "e": []});
        for path in [
            "a", "a.b", "a.0", "a.0.1", "a.1.b", "a.9", "b.a", "b.a.b", "b.0.a.1", "n", "big", "e", "e.x", "e.0",
            "gone",
        ] {
            let path = FieldPath::parse(path).unwrap();
            assert_eq!(cell(&path, document.to_string().as_bytes()), path.cell(&document), "{path:?}");
        }
    }

    proptest! {
        #[test]
        fn scanning_finds_what_parsing_finds(document in document(), path in prop::collection::vec(prop::sample::select(vec!["a", "b", "0", "1"]), 1..4)) {
            let path = FieldPath::parse(&path.join(".")).unwrap();
            prop_assert_eq!(cell(&path, document.to_string().as_bytes()), path.cell(&document));
        }

        #[test]
        fn bytes_that_are_not_json_find_nothing_and_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = cell(&FieldPath::parse("a.b").unwrap(), &bytes);
        }
    }
}
