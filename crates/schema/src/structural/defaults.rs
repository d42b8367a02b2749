//! Defaults must be values their own schema accepts whole.

use cel::Budget;
use meta::{FieldError, FieldErrors};

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
            judge.node(&root, true, false, path);
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
    /// `in_meta`: what stands in apiVersion, kind or metadata of a resource is not pruned.
    fn node(&mut self, node: &Node, root: bool, in_meta: bool, path: &Path<'_>) {
        let resource = root || node.embedded;
        let in_meta = in_meta && !resource;
        self.default(node, in_meta, path);
        // Behind additionalProperties there are no defaults to speak of.
        if let Some(items) = &node.items {
            self.node(items, false, in_meta, &path.field("items"));
        }
        let properties = path.field("properties");
        for (name, property) in &node.properties {
            if self.spent {
                return;
            }
            let meta = resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata");
            self.node(property, false, in_meta || meta, &properties.key(name));
        }
    }

    fn default(&mut self, node: &Node, in_meta: bool, path: &Path<'_>) {
        let Some(default) = &node.default else { return };
        let place = path.field("default");
        let before = self.errors.len();
        if !in_meta {
            let mut pruned = default.clone();
            prune::value(node, &mut pruned, false);
            if pruned != *default {
                let why = "must not have unknown fields";
                self.errors.push(FieldError::invalid(place.to_string(), default.clone(), why));
            }
            embedded::value(default, node, &place, &mut self.errors);
            if self.errors.len() > before + 1 {
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
