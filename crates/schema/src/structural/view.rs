//! A JSON value, borrowed: so that an object can be looked at like any value inside it.

use serde_json::{Map, Number, Value};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum View<'a> {
    Null,
    Bool(bool),
    Number(&'a Number),
    Text(&'a str),
    List(&'a [Value]),
    Object(&'a Map<String, Value>),
}

impl View<'_> {
    pub fn to_value(self) -> Value {
        match self {
            View::Null => Value::Null,
            View::Bool(flag) => flag.into(),
            View::Number(number) => Value::Number(number.clone()),
            View::Text(text) => text.into(),
            View::List(list) => list.into(),
            View::Object(map) => Value::Object(map.clone()),
        }
    }
}

impl<'a> From<&'a Value> for View<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Null => View::Null,
            Value::Bool(flag) => View::Bool(*flag),
            Value::Number(number) => View::Number(number),
            Value::String(text) => View::Text(text),
            Value::Array(list) => View::List(list),
            Value::Object(map) => View::Object(map),
        }
    }
}

impl<'a> From<&'a Map<String, Value>> for View<'a> {
    fn from(map: &'a Map<String, Value>) -> Self {
        View::Object(map)
    }
}
