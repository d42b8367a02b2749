//! Takes fields out of an object.

use serde_json::Value;

use super::element::Element;
use super::list::identify;
use super::schema::{Form, Items, Node, Schema};
use super::set::FieldSet;

/// Without the fields and items of the set. A container that loses all it held becomes null.
pub(super) fn remove<'t, T: Schema<'t>>(
    object: &mut serde_json::Map<String, Value>,
    gone: &FieldSet<'_>,
    node: Node<T>,
) {
    if gone.is_empty() {
        return;
    }
    let Some(map) = node.atom().map else { return };
    let names: Vec<String> = object.keys().cloned().collect();
    for name in names {
        let Some(branch) = gone.find(&Element::field(&name)) else { continue };
        if branch.member {
            object.remove(&name);
        } else if let Some(value) = object.get_mut(&name) {
            place(value, &branch.children, node.child(&map, &name));
        }
    }
}

fn place<'t, T: Schema<'t>>(value: &mut Value, gone: &FieldSet<'_>, node: Node<T>) {
    let kept = match (node.form(Some(&*value)), &mut *value) {
        (Some(Form::Scalar(_)), _) => true,
        (Some(Form::Map(map)), Value::Object(object)) if !map.atomic => {
            remove(object, gone, node);
            !object.is_empty()
        }
        (Some(Form::List(list)), Value::Array(items)) if list.items != Items::Atomic => {
            let taken = std::mem::take(items);
            for mut item in taken {
                let branch = identify(node, &list, &item).ok();
                let branch = branch.as_ref().and_then(|element| gone.find(element));
                let (member, below) = branch.map_or((false, None), |b| (b.member, Some(&b.children)));
                if member {
                    continue;
                }
                if let Some(below) = below {
                    place(&mut item, below, list.element);
                }
                items.push(item);
            }
            !items.is_empty()
        }
        _ => false,
    };
    if !kept {
        *value = Value::Null;
    }
}
