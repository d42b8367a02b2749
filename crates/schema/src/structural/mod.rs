//! Structural schemas of custom resources: one version's schema, compiled once, then asked for every object.

mod check;
mod compile;
mod correlate;
mod default;
pub(crate) mod defaults;
mod embedded;
pub(crate) mod evaluate;
mod format;
mod lists;
mod node;
mod number;
mod openapi;
pub(crate) mod path;
pub(crate) mod pattern;
pub(crate) mod props;
mod prune;
pub(crate) mod rules;
mod view;

use meta::field::Wrong;
use meta::{FieldError, FieldErrors};
pub use node::{Additional, Kind, ListType, Node};
use path::{NOWHERE, Path};
use serde_json::{Map, Value, json};

use crate::openapi::Style;

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
        let root = compile::Compiler::new().node(compile::object(props)?, 0)?;
        Ok(Self { root, props: props.clone() })
    }

    /// Keeps everything and asks for nothing: x-kubernetes-preserve-unknown-fields at the root.
    pub fn preserve_all() -> Self {
        let props = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        Self { root: Node::keeping_all(Kind::Object), props }
    }

    /// An embedded resource that cannot be read at all: the request is bad, not just invalid
    /// (400, "… cannot be handled as a …: {error}").
    pub fn malformed(&self, object: &Map<String, Value>) -> Option<FieldError> {
        embedded::malformed(object, &self.root, &Path::Root)
    }

    /// Drops what the schema does not know and returns the paths of it, sorted: `spec.foo`, `spec.list[0].bar`.
    /// `apiVersion`, `kind` and `metadata` of the object stay as they are; in embedded resources, metadata loses
    /// what ObjectMeta does not have.
    pub fn prune(&self, object: &mut Map<String, Value>) -> Vec<String> {
        prune::prune(&self.root, object)
    }

    /// Fills in defaults; nulls that mean nothing are dropped first.
    /// False when defaults would blow the object up beyond reason: it is left half filled then, to be refused.
    pub fn default(&self, object: &mut Map<String, Value>) -> bool {
        default::fill(object, &self.root)
    }

    /// Everything that is wrong with an object; `old` is the stored one on update.
    pub fn validate(&self, object: &Map<String, Value>, old: Option<&Map<String, Value>>) -> FieldErrors {
        let mut errors = match old {
            None => check::check(&self.root, object.into(), ""),
            Some(old) => check::check_update(&self.root, object.into(), old.into(), ""),
        };
        embedded::fields(object, &self.root, &Path::Root, &mut errors);
        self.finish(object, old, errors)
    }

    /// As `validate`, for an update of the status alone: the rest of the object stands as it was.
    pub fn validate_status(&self, object: &Map<String, Value>, old: &Map<String, Value>) -> FieldErrors {
        let mut errors = Vec::new();
        if let (Some(node), Some(status)) = (self.root.property("status"), object.get("status")) {
            errors = match old.get("status") {
                None => check::check(node, status.into(), "status"),
                Some(old) => check::check_update(node, status.into(), old.into(), "status"),
            };
        }
        self.finish(object, Some(old), errors)
    }

    /// What holds between values: lists without repetitions, and rules.
    fn finish(
        &self,
        object: &Map<String, Value>,
        old: Option<&Map<String, Value>>,
        mut errors: FieldErrors,
    ) -> FieldErrors {
        let repeats = |object| {
            let mut errors = Vec::new();
            lists::object(object, &self.root, &Path::Root, &mut errors);
            errors
        };
        let repeated = repeats(object);
        // Lists that held repetitions before may go on doing so.
        if !repeated.is_empty() && old.is_none_or(|old| repeats(old).is_empty()) {
            errors.extend(repeated);
        }
        if self.root.below.rules {
            if errors.iter().any(blocks_rules) {
                let why = "some validation rules were not checked because the object was invalid; \
                           correct the existing errors to complete validation";
                errors.push(FieldError::invalid(NOWHERE, Value::Null, why));
            } else {
                evaluate::object(&self.root, object, old, &mut errors);
            }
        }
        errors
    }

    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The schema as OpenAPI v3 publishes it, without `x-kubernetes-group-version-kind`, which only the server knows.
    pub fn openapi_v3(&self) -> Value {
        openapi::kind(&self.props, Style::V3)
    }

    /// The schema as OpenAPI v2 publishes it, without `x-kubernetes-group-version-kind`.
    pub fn openapi_v2(&self) -> Value {
        openapi::kind(&self.props, Style::V2)
    }
}

/// Rules are written for values of their type and within their limits.
fn blocks_rules(error: &FieldError) -> bool {
    use Wrong::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
    matches!(error.wrong, NotSupported | Required | TooLong | TooMany | TypeInvalid)
}

/// Whether values of a string format are checked.
pub(crate) fn is_checked(format: &str) -> bool {
    format::Format::named(format).is_some()
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod rule_tests;
#[cfg(test)]
mod tests;
