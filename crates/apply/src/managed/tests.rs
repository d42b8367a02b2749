//! Ownership over a small type that has every kind of place, written as a structural schema.

mod laws;
mod rules;

use std::sync::OnceLock;

use serde_json::{Value, json};

use super::*;

pub(super) type Fields = serde_json::Map<String, Value>;

/// An OpenAPI schema as a source of types.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open(&'static Value);

impl Open {
    fn node(self) -> Node<Self> {
        if self.0.as_object().is_some_and(|o| o.is_empty()) { Node::Deduced } else { Node::Known(self) }
    }
}

impl Schema<'static> for Open {
    fn atom(self) -> Atom<Self> {
        let text = |name: &str| self.0.get(name).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "object" => {
                let element = self.0.get("additionalProperties").map(|s| Open(s).node());
                Atom::map(text("x-kubernetes-map-type") == "atomic", element)
            }
            "array" => {
                let items = match text("x-kubernetes-list-type") {
                    "set" => Items::Set,
                    "map" => Items::Keyed,
                    _ => Items::Atomic,
                };
                Atom::list(items, self.0.get("items").map_or(Node::Untyped, |s| Open(s).node()))
            }
            "integer" => Atom::scalar(Scalar::Number),
            "boolean" => Atom::scalar(Scalar::Boolean),
            "string" => Atom::scalar(Scalar::String),
            _ => Atom::scalar(Scalar::Any),
        }
    }

    fn field(self, name: &str) -> Option<Node<Self>> {
        self.0.get("properties")?.get(name).map(|s| Open(s).node())
    }

    fn key(self, at: usize) -> Option<&'static str> {
        self.0.get("x-kubernetes-list-map-keys")?.get(at)?.as_str()
    }

    fn default(self, name: &str) -> Option<Value> {
        self.0.get("properties")?.get(name)?.get("default").cloned()
    }
}

pub(super) fn node() -> Node<Open> {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    Node::Known(Open(SCHEMA.get_or_init(|| {
        let port = json!({"type": "object", "properties": {
            "number": {"type": "integer"},
            "protocol": {"type": "string", "default": "TCP"},
            "note": {"type": "string"},
        }});
        json!({"type": "object", "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object", "properties": {
                "name": {"type": "string"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
                "finalizers": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            }},
            "spec": {"type": "object", "properties": {
                "replicas": {"type": "integer"},
                "paused": {"type": "boolean"},
                "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
                "command": {"type": "array", "items": {"type": "string"}},
                "ports": {"type": "array", "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["number", "protocol"], "items": port},
                "free": {},
            }},
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        }})
    })))
}

pub(super) fn fields(value: Value) -> Fields {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other} is not an object"),
    }
}

/// An object with its owners, written by one client after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Store {
    pub object: Fields,
    pub managers: Value,
    pub now: usize,
}

impl Store {
    pub fn new(value: Value) -> Self {
        let mut store = Self { managers: json!([]), ..Self::default() };
        store.update("creator", value);
        store
    }

    fn with<R>(&self, now: &str, act: impl FnOnce(Scope<'_, Open>) -> R) -> R {
        let mut ignored = FieldSet::default();
        ignored.insert(&[Element::field("status")]);
        let blank = Fields::new();
        let versions = |version: &str| (version == "v1").then(node);
        let (api_version, subresource) = ("v1", "");
        let scope = Scope {
            api_version,
            subresource,
            node: node(),
            blank: &blank,
            ignored: &ignored,
            versions: &versions,
            convert: &|_, _, _| None,
            now,
        };
        act(scope)
    }

    fn tick(&mut self) -> String {
        self.now += 1;
        format!("2026-01-01T00:00:{:02}Z", self.now)
    }

    pub fn update(&mut self, manager: &str, value: Value) {
        let (new, now) = (fields(value), self.tick());
        let managers = self.with(&now, |scope| {
            let managers = Managers::decode(Some(&self.managers)).unwrap();
            let changes = scope.changes(&self.object, &new).unwrap();
            encoded(scope.update(managers, changes, (&self.object, &new), manager).unwrap())
        });
        (self.object, self.managers) = (new, managers);
    }

    pub fn apply(&mut self, manager: &str, value: &Value) -> Result<(), Refused> {
        self.apply_with(manager, value, false)
    }

    pub fn force(&mut self, manager: &str, value: &Value) {
        self.apply_with(manager, value, true).unwrap();
    }

    fn apply_with(&mut self, manager: &str, value: &Value, force: bool) -> Result<(), Refused> {
        let (configuration, now) = (fields(value.clone()), self.tick());
        let (object, managers) = self.with(&now, |scope| {
            let managers = Managers::decode(Some(&self.managers)).unwrap();
            let applied = scope.apply(managers, &self.object, &configuration, manager, force)?;
            Ok::<_, Refused>((applied.object, encoded(applied.managers)))
        })?;
        if let Some(object) = object {
            self.object = object;
        }
        self.managers = managers;
        Ok(())
    }

    pub fn value(&self) -> Value {
        Value::Object(self.object.clone())
    }

    /// The FieldsV1 of a manager.
    pub fn owned(&self, manager: &str) -> Value {
        let entries = self.managers.as_array().unwrap();
        entries.iter().find(|e| e["manager"] == manager).map_or(Value::Null, |e| e["fieldsV1"].clone())
    }

    pub fn set_of(&self, manager: &str) -> FieldSet<'static> {
        let owned: &'static Value = Box::leak(Box::new(self.owned(manager)));
        if owned.is_null() { FieldSet::default() } else { FieldSet::decode(owned).unwrap() }
    }
}

pub(super) fn encoded(mut managers: Managers<'_>) -> Value {
    let mut text = Vec::new();
    managers.encode(&mut text);
    serde_json::from_slice(&text).unwrap()
}
