//! How the items of a list are told apart.

use std::borrow::Cow;

use serde_json::Value;

use super::element::Element;
use super::schema::{Items, List, Node, Schema};

/// The path element of a list item; the error says why it has none.
pub(super) fn identify<'a, 't: 'a, T: Schema<'t>>(
    node: Node<T>,
    list: &List<T>,
    item: &'a Value,
) -> Result<Element<'a>, String> {
    match list.items {
        Items::Atomic => Err("invalid indexing of non-associative list".into()),
        Items::Keyed => by_keys(node, list, item),
        Items::Set => match item {
            Value::Object(_) => Err("associative list without keys has an element that's a map type".into()),
            Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
            Value::Null => Err("associative list without keys has an element that's an explicit null".into()),
            scalar => Ok(Element::Value(Cow::Borrowed(scalar))),
        },
    }
}

fn by_keys<'a, 't: 'a, T: Schema<'t>>(node: Node<T>, list: &List<T>, item: &'a Value) -> Result<Element<'a>, String> {
    let fields = match item {
        Value::Object(fields) => fields,
        Value::Null => return Err("associative list with keys may not have a null element".into()),
        _ => return Err("associative list with keys may not have non-map elements".into()),
    };
    let Node::Known(schema) = node else { return Err("invalid indexing of non-associative list".into()) };
    let names = || (0..).map_while(|at| schema.key(at));
    let mut keys = Vec::with_capacity(2);
    for name in names() {
        if let Some(value) = fields.get(name) {
            keys.push((Cow::Borrowed(name), Cow::Borrowed(value)));
        } else if let Node::Known(element) = list.element
            && let Some(value) = element.default(name)
        {
            keys.push((Cow::Borrowed(name), Cow::Owned(value)));
        }
    }
    if keys.is_empty() {
        let names: Vec<String> = names().map(|name| format!("{name:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            names.join(" ")
        ));
    }
    keys.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(Element::Key(keys))
}

/// All items with their elements, in the order of the elements; items that are equal keep theirs.
pub(super) fn index<'a, 't: 'a, T: Schema<'t>>(
    node: Node<T>,
    list: &List<T>,
    items: &'a [Value],
) -> Result<Vec<(Element<'a>, &'a Value)>, String> {
    let mut out = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let element = identify(node, list, item).map_err(|why| format!("element {i}: {why}"))?;
        out.push((element, item));
    }
    if !out.is_sorted_by(|(a, _), (b, _)| a <= b) {
        out.sort_by(|(a, _), (b, _)| a.cmp(b));
    }
    Ok(out)
}

/// The items that share an element, from the head of a sorted index.
pub(super) fn group<'s, 'a>(
    index: &mut &'s [(Element<'a>, &'a Value)],
) -> Option<(&'s Element<'a>, &'s [(Element<'a>, &'a Value)])> {
    let (element, _) = index.first()?;
    let end = index.iter().position(|(e, _)| e != element).unwrap_or(index.len());
    let (group, rest) = index.split_at(end);
    *index = rest;
    Some((element, group))
}
