//! A JSONSchemaProps value, or any other part of a CRD, read field by field.
//! Values of the wrong type count as absent: the CRD was decoded before.

use serde_json::{Map, Value};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Props<'a>(pub &'a Map<String, Value>);

/// `items`: one schema, or the list of schemas that is not supported.
pub(crate) enum Items<'a> {
    One(Props<'a>),
    Many(Vec<Props<'a>>),
}

/// `additionalProperties`: a yes or no, or a schema.
#[derive(Clone, Copy)]
pub(crate) enum AdditionalProps<'a> {
    Allowed(bool),
    Schema(Props<'a>),
}

impl<'a> Props<'a> {
    pub fn of(value: &'a Value) -> Option<Self> {
        value.as_object().map(Self)
    }

    pub fn get(self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub fn text(self, name: &str) -> &'a str {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The schema's `type`, "" when there is none.
    pub fn kind(self) -> &'a str {
        self.text("type")
    }

    pub fn flag(self, name: &str) -> bool {
        self.get(name).and_then(Value::as_bool).unwrap_or_default()
    }

    pub fn number(self, name: &str) -> Option<f64> {
        self.get(name).and_then(Value::as_f64)
    }

    pub fn integer(self, name: &str) -> Option<i64> {
        self.get(name).and_then(Value::as_i64)
    }

    pub fn values(self, name: &str) -> &'a [Value] {
        self.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    pub fn texts(self, name: &str) -> Vec<&'a str> {
        self.values(name).iter().filter_map(Value::as_str).collect()
    }

    /// The objects in a list: the schemas of `allOf`, the versions of a CRD.
    pub fn parts(self, name: &str) -> Vec<Self> {
        self.values(name).iter().filter_map(Self::of).collect()
    }

    pub fn part(self, name: &str) -> Option<Self> {
        self.get(name).and_then(Self::of)
    }

    /// Named schemas: `properties`, `definitions`, …
    pub fn named(self, name: &str) -> impl Iterator<Item = (&'a str, Self)> {
        let map = self.get(name).and_then(Value::as_object);
        map.into_iter().flatten().filter_map(|(name, value)| Some((name.as_str(), Self::of(value)?)))
    }

    pub fn property(self, name: &str) -> Option<Self> {
        self.part("properties")?.part(name)
    }

    pub fn items(self) -> Option<Items<'a>> {
        match self.get("items")? {
            Value::Object(map) => Some(Items::One(Self(map))),
            Value::Array(list) => Some(Items::Many(list.iter().filter_map(Self::of).collect())),
            _ => None,
        }
    }

    pub fn item(self) -> Option<Self> {
        match self.items()? {
            Items::One(props) => Some(props),
            Items::Many(_) => None,
        }
    }

    pub fn additional(self) -> Option<AdditionalProps<'a>> {
        match self.get("additionalProperties")? {
            Value::Bool(allowed) => Some(AdditionalProps::Allowed(*allowed)),
            Value::Object(map) => Some(AdditionalProps::Schema(Self(map))),
            _ => None,
        }
    }

    pub fn additional_schema(self) -> Option<Self> {
        match self.additional()? {
            AdditionalProps::Schema(props) => Some(props),
            AdditionalProps::Allowed(_) => None,
        }
    }

    pub fn list_type(self) -> Option<&'a str> {
        self.get("x-kubernetes-list-type").and_then(Value::as_str)
    }

    pub fn map_type(self) -> Option<&'a str> {
        self.get("x-kubernetes-map-type").and_then(Value::as_str)
    }

    pub fn embedded(self) -> bool {
        self.flag("x-kubernetes-embedded-resource")
    }

    pub fn int_or_string(self) -> bool {
        self.flag("x-kubernetes-int-or-string")
    }

    pub fn preserves_unknown(self) -> bool {
        self.flag("x-kubernetes-preserve-unknown-fields")
    }

    /// Visits this schema and every schema in it, until `found` says yes.
    pub fn any(self, found: &mut dyn FnMut(Self) -> bool) -> bool {
        found(self) || self.children().into_iter().any(|child| child.any(found))
    }

    fn children(self) -> Vec<Self> {
        let mut out = Vec::new();
        match self.items() {
            Some(Items::One(one)) => out.push(one),
            Some(Items::Many(many)) => out.extend(many),
            None => {}
        }
        for name in ["allOf", "anyOf", "oneOf"] {
            out.extend(self.parts(name));
        }
        for name in ["not", "additionalProperties", "additionalItems"] {
            out.extend(self.part(name));
        }
        for name in ["properties", "patternProperties", "definitions", "dependencies"] {
            out.extend(self.named(name).map(|(_, props)| props));
        }
        out
    }
}
