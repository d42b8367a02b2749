//! Defaults must be values their own schema accepts whole.

use cel::Budget;
use meta::field::aggregate;
use meta::{FieldError, FieldErrors};
use serde_json::{Value, json};

use super::compile::Compiler;
use super::node::Node;
use super::path::Path;
use super::props::Props;
use super::{check, embedded, evaluate, prune};

/// Judges every default in a structural schema.
pub(crate) fn validate(props: Props<'_>, path: &Path<'_>) -> FieldErrors {
    match Compiler::lenient().node(props, 0) {
        Err(errors) => errors,
        Ok(root) => {
            let mut judge = Judge { budget: evaluate::new_budget(), spent: false, errors: Vec::new() };
            judge.node(&root, true, None, path);
            judge.errors
        }
    }
}

struct Judge {
    budget: Budget,
    spent: bool,
    errors: FieldErrors,
}

impl Judge {
    /// `meta`: the way here from the resource above, when it leads through its apiVersion, kind or metadata.
    fn node(&mut self, node: &Node, root: bool, meta: Option<&Path<'_>>, path: &Path<'_>) {
        let resource = root || node.embedded;
        let meta = meta.filter(|_| !resource);
        self.default(node, root, meta, path);
        // Behind additionalProperties there are no defaults to speak of.
        if let Some(items) = &node.items {
            let within = meta.map(|meta| meta.index(0));
            self.node(items, false, within.as_ref(), &path.field("items"));
        }
        let properties = path.field("properties");
        for (name, property) in &node.properties {
            if self.spent {
                return;
            }
            let enters = resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata");
            let within = meta.or(enters.then_some(&Path::Root)).map(|meta| meta.field(name));
            self.node(property, false, within.as_ref(), &properties.key(name));
        }
    }

    fn default(&mut self, node: &Node, root: bool, meta: Option<&Path<'_>>, path: &Path<'_>) {
        let Some(default) = &node.default else { return };
        let place = path.field("default");
        let mut invalid = |why: String| self.errors.push(FieldError::invalid(place.to_string(), default.clone(), why));
        if let Some(meta) = meta {
            let wrong = surrounded(default, meta);
            if !wrong.is_empty() {
                return invalid(format!("must result in valid metadata: {}", aggregate(&wrong)));
            }
        } else {
            let mut pruned = default.clone();
            prune::value(node, &mut pruned, false);
            if pruned != *default {
                invalid("must not have unknown fields".into());
            }
            let before = self.errors.len();
            if let Some(resource) = default.as_object().filter(|_| root) {
                embedded::resource(resource, &place, &mut self.errors);
            }
            embedded::value(default, node, &place, &mut self.errors);
            if self.errors.len() > before {
                return;
            }
        }
        let wrong = check::check(node, default.into(), &place.to_string());
        if wrong.is_empty() {
            self.spent = !evaluate::default(node, default, &place, &mut self.budget, &mut self.errors);
        }
        self.errors.extend(wrong);
    }
}

/// What is wrong with a resource whose metadata holds nothing but this default.
fn surrounded(default: &Value, way: &Path<'_>) -> FieldErrors {
    fn wrap(value: Value, way: &Path<'_>) -> Value {
        match way {
            Path::Root => value,
            Path::Field(above, name) | Path::Key(above, name) => wrap(json!({ *name: value }), above),
            Path::Index(above, _) => wrap(json!([value]), above),
        }
    }
    let mut errors = Vec::new();
    if let Value::Object(mut resource) = wrap(default.clone(), way) {
        resource.entry("apiVersion").or_insert_with(|| "validation/v1".into());
        resource.entry("kind").or_insert_with(|| "Validation".into());
        embedded::resource(&resource, &Path::Root, &mut errors);
    }
    errors
}
