//! The fields an object names.

use serde_json::Value;

use super::element::Element;
use super::list::{group, index};
use super::schema::{Form, Items, List, Map, Node, Schema};
use super::set::FieldSet;
use super::validate::Misfit;

/// Every leaf of an object, every item of its lists and maps.
pub fn fields_of<'a, 't: 'a, T: Schema<'t>>(
    object: &'a serde_json::Map<String, Value>,
    node: Node<T>,
) -> Result<FieldSet<'a>, Misfit> {
    match node.atom().map {
        Some(map) => fields(object, node, &map),
        None => Err(Misfit::new("the type of an object is not a map")),
    }
}

/// Whether the value itself is owned, and the set below it.
fn place<'a, 't: 'a, T: Schema<'t>>(value: &'a Value, node: Node<T>) -> Result<(bool, FieldSet<'a>), Misfit> {
    let below = match (node.form(Some(value)), value) {
        (Some(Form::Map(map)), value) if !map.atomic => match value {
            Value::Object(object) => fields(object, node, &map)?,
            _ => FieldSet::default(),
        },
        (Some(Form::List(list)), value) if list.items != Items::Atomic => match value {
            Value::Array(items) => elements(items, node, &list)?,
            _ => FieldSet::default(),
        },
        _ => return Ok((true, FieldSet::default())),
    };
    Ok((false, below))
}

fn fields<'a, 't: 'a, T: Schema<'t>>(
    object: &'a serde_json::Map<String, Value>,
    node: Node<T>,
    map: &Map<T>,
) -> Result<FieldSet<'a>, Misfit> {
    let mut out = FieldSet::default();
    for (name, value) in object {
        let element = Element::field(name);
        let declared = node.declared(name);
        let child = declared.or(map.element).unwrap_or(Node::Deduced);
        let (leaf, below) = place(value, child).map_err(|e| e.below(&element))?;
        // An empty value has nothing below it to own; an item of a map is owned besides what it holds.
        let empty = value.is_null() || value.as_object().is_some_and(|o| o.is_empty());
        out.push(&element, leaf || empty || declared.is_none(), below);
    }
    Ok(out)
}

fn elements<'a, 't: 'a, T: Schema<'t>>(
    items: &'a [Value],
    node: Node<T>,
    list: &List<T>,
) -> Result<FieldSet<'a>, Misfit> {
    let items = index(node, list, items).map_err(Misfit::new)?;
    let mut rest = items.as_slice();
    let mut out = FieldSet::default();
    while let Some((element, group)) = group(&mut rest) {
        let below = match group {
            [(_, item)] => place(item, list.element).map_err(|e| e.below(element))?.1,
            _ => FieldSet::default(),
        };
        out.push(element, true, below);
    }
    Ok(out)
}
