//! The object all tests look at, and its declaration.
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};

use cel::{Decl, Identity};
use serde_json::{Value, json};

pub fn fields(fields: impl IntoIterator<Item = (&'static str, Decl)>, required: &[&str]) -> Decl {
    let fields: BTreeMap<String, Decl> = fields.into_iter().map(|(name, decl)| (name.to_string(), decl)).collect();
    Decl::Object { fields, required: required.iter().map(ToString::to_string).collect::<BTreeSet<_>>() }
}

pub fn list(element: Decl, max: Option<u64>, identity: Identity) -> Decl {
    Decl::List { element: Box::new(element), max, identity }
}

pub fn text(max: Option<u64>) -> Decl {
    Decl::String { max }
}

pub fn decl() -> Decl {
    let keyed = fields([("k", text(None)), ("v", Decl::Int)], &["k"]);
    let inner = fields(
        [
            ("a", text(None)),
            ("z", Decl::Int),
            ("namespace", text(None)),
            ("x-y", Decl::Int),
            ("q", fields([("r", Decl::Int)], &[])),
        ],
        &[],
    );
    fields(
        [
            ("i", Decl::Int),
            ("n", Decl::Double),
            ("s", text(None)),
            ("t", text(Some(10))),
            ("b", Decl::Bool),
            ("l", list(Decl::Int, None, Identity::Atomic)),
            ("ls", list(text(Some(5)), Some(7), Identity::Atomic)),
            ("set", list(text(None), None, Identity::Set)),
            ("ml", list(keyed, None, Identity::Map(vec!["k".into()]))),
            ("m", Decl::Map { value: Box::new(text(None)), max: None }),
            ("mi", Decl::Map { value: Box::new(Decl::Int), max: Some(5) }),
            ("o", inner),
            ("ts", Decl::Timestamp),
            ("d", Decl::Duration),
            ("by", Decl::Bytes { max: None }),
            ("date", Decl::Date),
            ("ios", Decl::IntOrString { max: None }),
            ("e", Decl::Enum { longest: 3 }),
            ("p", fields([], &[])),
            ("nul", text(None)),
        ],
        &[],
    )
}

pub fn object() -> Value {
    json!({
        "i": 5, "n": 2.5, "s": "hello", "t": "ab", "b": true,
        "l": [1, 2, 3], "ls": ["a", "b", "c"], "set": ["x", "y"],
        "ml": [{"k": "a", "v": 1}, {"k": "b", "v": 2}],
        "m": {"a": "1", "b": "2"}, "mi": {"x": 1, "y": 2},
        "o": {"a": "A", "z": 7, "namespace": "ns", "x-y": 3, "q": {"r": 1}},
        "ts": "2024-01-02T03:04:05Z", "d": "1h30m", "by": "aGVsbG8=", "date": "2024-02-03",
        "ios": "10%", "e": "a", "p": {"u": 1}, "nul": null,
    })
}

/// The declaration of a structural schema.
pub fn declare(schema: &Value) -> Decl {
    let number = |name: &str| schema[name].as_u64();
    if schema["x-kubernetes-int-or-string"] == true {
        return Decl::IntOrString { max: number("maxLength") };
    }
    match (schema["type"].as_str().unwrap(), schema["format"].as_str()) {
        ("boolean", _) => Decl::Bool,
        ("integer", _) => Decl::Int,
        ("number", _) => Decl::Double,
        ("string", Some("byte")) => Decl::Bytes { max: number("maxLength") },
        ("string", Some("duration")) => Decl::Duration,
        ("string", Some("date")) => Decl::Date,
        ("string", Some("date-time")) => Decl::Timestamp,
        ("string", _) => text(number("maxLength")),
        ("array", _) => list(declare(&schema["items"]), number("maxItems"), Identity::Atomic),
        _ if schema["additionalProperties"].is_object() => {
            Decl::Map { value: Box::new(declare(&schema["additionalProperties"])), max: number("maxProperties") }
        }
        _ => {
            let properties = schema["properties"].as_object().unwrap();
            let required = schema["required"].as_array().into_iter().flatten();
            Decl::Object {
                fields: properties.iter().map(|(name, schema)| (name.clone(), declare(schema))).collect(),
                required: required.map(|name| name.as_str().unwrap().to_string()).collect(),
            }
        }
    }
}
