//! Dropping what the schema does not know.

use serde_json::{Map, Value};

use super::embedded;
use super::node::{Additional, Node};
use super::path::Path;

/// More dropped fields than this are dropped without being told.
const MAX_TOLD: usize = 100;

pub(super) fn prune(root: &Node, object: &mut Map<String, Value>) -> Vec<String> {
    let mut pruner = Pruner { told: Vec::new(), metadata: Vec::new(), coerce: true };
    pruner.object(object, Some(root), true, root.preserve_unknown, &Path::Root);
    pruner.told.sort_unstable();
    pruner.metadata.sort_unstable();
    pruner.told.append(&mut pruner.metadata);
    pruner.told
}

/// Prunes a value inside an object, and perhaps the metadata of resources in it.
pub(super) fn value(node: &Node, value: &mut Value, coerce: bool) {
    let here = Path::Root.field("");
    Pruner { told: Vec::new(), metadata: Vec::new(), coerce }.value(value, Some(node), false, &here);
}

struct Pruner {
    told: Vec<String>,
    /// What metadata of resources within lost: told last.
    metadata: Vec<String>,
    coerce: bool,
}

impl Pruner {
    /// Below a part that keeps everything, only what is declared again is pruned.
    fn value(&mut self, value: &mut Value, node: Option<&Node>, keep: bool, path: &Path<'_>) {
        let keep = keep || node.is_some_and(|node| node.preserve_unknown);
        if keep && node.is_none() {
            return;
        }
        match value {
            Value::Object(map) => self.object(map, node, node.is_some_and(|node| node.embedded), keep, path),
            Value::Array(list) => {
                let items = node.and_then(|node| node.items.as_deref());
                for (at, item) in list.iter_mut().enumerate() {
                    self.value(item, items, keep, &path.index(at));
                }
            }
            _ => {}
        }
    }

    fn object(
        &mut self,
        map: &mut Map<String, Value>,
        node: Option<&Node>,
        resource: bool,
        keep: bool,
        path: &Path<'_>,
    ) {
        if resource && self.coerce && !path.is_root() {
            embedded::coerce(map, path, &mut self.metadata);
        }
        let mut at = 0;
        map.retain(|name, value| {
            if resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                return true;
            }
            let here = path.field(name);
            if let Some(property) = node.and_then(|node| node.seek(name, &mut at)) {
                self.value(value, Some(property), false, &here);
                return true;
            }
            match node.and_then(|node| node.additional.as_ref()) {
                Some(Additional::Typed(inner)) => self.value(value, Some(inner), false, &here),
                Some(Additional::Untyped { .. }) => self.value(value, None, false, &here),
                None if keep => {}
                None => {
                    if self.told.len() < MAX_TOLD {
                        self.told.push(here.dotted());
                    }
                    return false;
                }
            }
            true
        });
    }
}
