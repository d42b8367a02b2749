//! Lays an applied configuration over an object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::element::Element;
use super::list::identify;
use super::schema::{Form, Items, List, Node, Schema};
use super::validate::Misfit;

type Fields = serde_json::Map<String, Value>;

/// The object with everything the configuration names set to what it says. Nothing is removed. List items that both have stand
/// in the configuration's order, the others stay where they were.
pub fn merge<'t, T: Schema<'t>>(object: &mut Fields, configuration: &Fields, node: Node<T>) -> Result<(), Misfit> {
    let Some(map) = node.atom().map else { return Err(Misfit::new("the type of an object is not a map")) };
    for (name, value) in configuration {
        let child = node.child(&map, name);
        let merged = place(object.remove(name), value, child).map_err(|e| e.below(&Element::field(name)))?;
        object.insert(name.clone(), merged);
    }
    Ok(())
}

fn place<'t, T: Schema<'t>>(old: Option<Value>, new: &Value, node: Node<T>) -> Result<Value, Misfit> {
    match node.form(Some(new)) {
        Some(Form::Map(map)) if !map.atomic => match (old, new) {
            (Some(Value::Object(mut fields)), Value::Object(configuration)) => {
                merge(&mut fields, configuration, node)?;
                return Ok(Value::Object(fields));
            }
            // Null leaves what is there alone, unless that is nothing.
            (Some(Value::Object(fields)), Value::Null) if !fields.is_empty() => return Ok(Value::Object(fields)),
            (_, Value::Object(configuration)) if !configuration.is_empty() => {
                let mut fields = Fields::new();
                merge(&mut fields, configuration, node)?;
                return Ok(Value::Object(fields));
            }
            _ => {}
        },
        Some(Form::List(list)) if list.items != Items::Atomic => {
            let old = match &old {
                Some(Value::Array(items)) => items.as_slice(),
                _ => &[],
            };
            let new = match new {
                Value::Array(items) => items.as_slice(),
                _ => &[],
            };
            if !(old.is_empty() && new.is_empty()) {
                return elements(old, new, node, &list).map(Value::Array);
            }
        }
        _ => {}
    }
    Ok(new.clone())
}

fn elements<'t, T: Schema<'t>>(
    old: &[Value],
    new: &[Value],
    node: Node<T>,
    list: &List<T>,
) -> Result<Vec<Value>, Misfit> {
    let (left, right) = (elements_of(old, node, list)?, elements_of(new, node, list)?);
    let mut in_new: BTreeMap<&Element<'_>, &Value> = BTreeMap::new();
    for (element, item) in right.iter().zip(new) {
        if in_new.insert(element, item).is_some() {
            return Err(Misfit::new(format!("duplicate entries for key {element}")));
        }
    }
    // An item that stands there several times is replaced, not merged.
    let mut in_old: BTreeMap<&Element<'_>, Option<&Value>> = BTreeMap::new();
    for (element, item) in left.iter().zip(old) {
        in_old.entry(element).and_modify(|item| *item = None).or_insert(Some(item));
    }
    let merged = |element: &Element<'_>, item: &Value| {
        let old = in_old.get(element).copied().flatten().cloned();
        place(old, item, list.element).map_err(|e| e.below(element))
    };

    let mut shared = right.iter().filter(|element| in_old.contains_key(element));
    let mut awaited = shared.next();
    let mut done: BTreeSet<&Element<'_>> = BTreeSet::new();
    let mut out = Vec::with_capacity(old.len().max(new.len()));
    let (mut l, mut r) = (0, 0);
    while l < left.len() || r < right.len() {
        if let (Some(a), Some(b)) = (left.get(l), right.get(r)) {
            if a == b {
                out.push(merged(b, &new[r])?);
                done.insert(b);
                (l, r) = (l + 1, r + 1);
                awaited = shared.next();
                continue;
            }
            if in_new.contains_key(a) && awaited.is_some_and(|awaited| awaited != a) {
                // Both have it, but it is not its turn.
                l += 1;
                continue;
            }
        }
        if let Some(a) = left.get(l) {
            if !in_new.contains_key(a) {
                out.push(old[l].clone());
                l += 1;
                continue;
            }
            if done.contains(a) {
                l += 1;
            }
        }
        if let Some(b) = right.get(r) {
            out.push(merged(b, &new[r])?);
            done.insert(b);
            r += 1;
            if awaited == Some(b) {
                awaited = shared.next();
            }
        }
    }
    Ok(out)
}

fn elements_of<'a, 't: 'a, T: Schema<'t>>(
    items: &'a [Value],
    node: Node<T>,
    list: &List<T>,
) -> Result<Vec<Element<'a>>, Misfit> {
    let element = |(i, item)| identify(node, list, item).map_err(|why| Misfit::new(format!("element {i}: {why}")));
    items.iter().enumerate().map(element).collect()
}
