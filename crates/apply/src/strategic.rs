//! Strategic merge patch: a merge patch that knows which lists merge, and by which key.
//!
//! What it must know of a kind comes through [`Facts`]. A patch can also carry directives: `$patch: replace|delete` in an object,
//! or in an element of a merging list; `$retainKeys`; `$setElementOrder/<list>`; `$deleteFromPrimitiveList/<list>`.
//! Directives never reach the result, and neither do null members of what a patch brings in.

mod list;

use serde_json::{Map, Value};

use crate::{Error, MAX_DEPTH};

/// What is known of a type's fields. Cheap to copy: usually a reference into a table that lives for `'t`.
pub trait Facts<'t>: Copy {
    /// `None` when nothing is known of the field: then objects merge and lists are replaced. For a type that is a map, every
    /// name is a field.
    fn field(self, name: &str) -> Option<Field<'t, Self>>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'t, F> {
    /// The type of the field, or of its elements if it is a list.
    pub facts: Option<F>,
    pub strategy: MergeStrategy<'t>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MergeStrategy<'t> {
    /// Objects merge, lists are replaced.
    #[default]
    Default,
    /// Objects are replaced too.
    Replace,
    /// A list of scalars, merged as a set.
    MergeSet,
    /// A list of objects, merged by the value of this key.
    MergeBy(&'t str),
}

/// The absence of facts: every object merges, every list is replaced.
impl Facts<'_> for () {
    fn field(self, _: &str) -> Option<Field<'static, Self>> {
        None
    }
}

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";

/// Applies a patch to an object of the type `facts` describe.
pub fn apply<'t>(document: Value, patch: Value, facts: impl Facts<'t>) -> Result<Value, Error> {
    match (document, patch) {
        (Value::Object(document), Value::Object(patch)) => {
            merge_objects(document, patch, Some(facts), 1).map(Value::Object)
        }
        _ => Err(Error::Malformed("a strategic merge patch must be an object".into())),
    }
}

/// `depth` counts the containers from the root to these objects, themselves included.
fn merge_objects<'t, F: Facts<'t>>(
    mut document: Map<String, Value>,
    mut patch: Map<String, Value>,
    facts: Option<F>,
    depth: usize,
) -> Result<Map<String, Value>, Error> {
    if depth > MAX_DEPTH {
        return Err(Error::TooDeep);
    }
    if patch.contains_key(PATCH) {
        return obey(patch, depth);
    }
    retain_keys(&mut document, &mut patch)?;
    set_element_orders(&mut document, &mut patch, facts, depth)?;

    // Sorted keys: deletions from a list ("$…") come before additions to it.
    for (key, change) in patch {
        if key.starts_with(DELETE_FROM_PRIMITIVE_LIST) {
            let list = directive_field(&key, DELETE_FROM_PRIMITIVE_LIST).ok_or(Error::BadDeleteFromPrimitiveList)?;
            let Value::Array(gone) = change else { return Err(Error::BadDeleteFromPrimitiveList) };
            if let Some(Value::Array(items)) = document.get_mut(list) {
                list::delete_scalars(items, &gone)?;
            }
            continue;
        }
        let field = facts.and_then(|facts| facts.field(&key));
        let old = document.remove(&key);
        if let Some(merged) = merge_field(old, change, field, &key, depth + 1)? {
            document.insert(key, merged);
        }
    }
    Ok(document)
}

/// What becomes of an object whose patch is a `$patch` directive.
fn obey(mut patch: Map<String, Value>, depth: usize) -> Result<Map<String, Value>, Error> {
    match patch.get(PATCH).and_then(Value::as_str) {
        Some("replace") => {
            patch.remove(PATCH);
            clean_members(patch, depth)
        }
        Some("delete") => Ok(Map::new()),
        _ => Err(unknown_directive(&Value::Object(patch))),
    }
}

/// The new value of a field, if it is to have one. `depth` counts the value, should it be a container.
fn merge_field<'t, F: Facts<'t>>(
    old: Option<Value>,
    change: Value,
    field: Option<Field<'t, F>>,
    key: &str,
    depth: usize,
) -> Result<Option<Value>, Error> {
    let (inner, strategy) = field.map_or((None, MergeStrategy::Default), |field| (field.facts, field.strategy));
    let by = match strategy {
        MergeStrategy::MergeBy(by) => Some(by),
        _ => None,
    };
    match (old, change) {
        (_, Value::Null) => Ok(None),
        (Some(Value::Object(old)), Value::Object(change)) if strategy != MergeStrategy::Replace => {
            merge_objects(old, change, inner, depth).map(|merged| Some(Value::Object(merged)))
        }
        (Some(Value::Array(old)), Value::Array(change)) if by.is_some() || strategy == MergeStrategy::MergeSet => {
            list::merge(old, change, by, inner, key, depth).map(|merged| Some(Value::Array(merged)))
        }
        (_, change) => clean(change, depth),
    }
}

/// `$retainKeys` lists all the keys an object may keep; the patch itself must not bring others.
fn retain_keys(document: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), Error> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(retained) = retained else { return Err(Error::BadRetainKeys) };
    let retained: std::collections::HashSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let stranger = |(key, value): (&String, &Value)| {
        !value.is_null()
            && !key.starts_with(DELETE_FROM_PRIMITIVE_LIST)
            && !key.starts_with(SET_ELEMENT_ORDER)
            && !retained.contains(key.as_str())
    };
    if patch.iter().any(stranger) {
        return Err(Error::BadRetainKeys);
    }
    document.retain(|key, _| retained.contains(key.as_str()));
    Ok(())
}

/// Merges every list the patch gives an order for, and takes both out of the patch.
fn set_element_orders<'t, F: Facts<'t>>(
    document: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    facts: Option<F>,
    depth: usize,
) -> Result<(), Error> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let order = patch.remove(&directive);
        let key = directive_field(&directive, SET_ELEMENT_ORDER).ok_or(Error::BadSetElementOrder)?;
        let Some(Value::Array(order)) = order else { return Err(Error::BadSetElementOrder) };
        let field = facts.and_then(|facts| facts.field(key));
        let (inner, by) = match field.map(|field| (field.facts, field.strategy)) {
            Some((inner, MergeStrategy::MergeSet)) => (inner, None),
            Some((inner, MergeStrategy::MergeBy(by))) => (inner, Some(by)),
            // The list is replaced as a whole, so the patch already has it in the wanted order.
            _ => continue,
        };
        let list = |value: Option<Value>| match value {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(_) => Err(Error::BadSetElementOrder),
        };
        let old = list(document.remove(key).filter(|old| !old.is_null()))?;
        let change = list(patch.remove(key))?;
        if old.is_none() && change.is_none() {
            continue;
        }
        let merged = list::merge_ordered(old, change.unwrap_or_default(), order, by, inner, key, depth + 1)?;
        document.insert(key.to_owned(), Value::Array(merged));
    }
    Ok(())
}

/// The list a directive like `$setElementOrder/containers` is about.
fn directive_field<'k>(key: &'k str, prefix: &str) -> Option<&'k str> {
    key.strip_prefix(prefix)?.strip_prefix('/')
}

/// What a patch brings in, less directives and null members. `None` if it was nothing but a directive.
fn clean(value: Value, depth: usize) -> Result<Option<Value>, Error> {
    match value {
        Value::Object(members) if members.contains_key(PATCH) => Ok(None),
        Value::Object(members) => Ok(Some(Value::Object(clean_members(members, depth)?))),
        Value::Array(items) => Ok(Some(Value::Array(clean_items(items, depth)?))),
        scalar => Ok(Some(scalar)),
    }
}

fn clean_items(items: Vec<Value>, depth: usize) -> Result<Vec<Value>, Error> {
    if depth > MAX_DEPTH {
        return Err(Error::TooDeep);
    }
    items.into_iter().map(|item| clean(item, depth + 1)).filter_map(Result::transpose).collect()
}

fn clean_members(members: Map<String, Value>, depth: usize) -> Result<Map<String, Value>, Error> {
    if depth > MAX_DEPTH {
        return Err(Error::TooDeep);
    }
    let mut cleaned = Map::new();
    for (key, member) in members {
        let directive = key == RETAIN_KEYS
            || directive_field(&key, SET_ELEMENT_ORDER).is_some()
            || directive_field(&key, DELETE_FROM_PRIMITIVE_LIST).is_some();
        if member.is_null() || directive {
            continue;
        }
        if let Some(member) = clean(member, depth + 1)? {
            cleaned.insert(key, member);
        }
    }
    Ok(cleaned)
}

fn unknown_directive(map: &Value) -> Error {
    let directive = map[PATCH].as_str().map_or_else(|| map[PATCH].to_string(), str::to_owned);
    Error::UnknownDirective { directive: short(&directive), map: short(&map.to_string()) }
}

/// Enough of a value to recognise it in a message.
fn short(text: &str) -> String {
    let mut cut: String = text.chars().take(500).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
pub(crate) mod tests;
