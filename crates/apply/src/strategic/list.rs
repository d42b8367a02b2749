//! Lists that merge: sets of scalars, and objects told apart by a key.
//!
//! Order of the result: what the patch names keeps the order of the patch (or of `$setElementOrder`), what only the server has
//! keeps the server's order, and of the two the server's element goes first only if it stood before the other on the server.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{Facts, PATCH, clean, clean_items, merge_objects, short, unknown_directive};
use crate::Error;

/// What tells elements apart, rendered so that it can be hashed: lists may be long, and comparing all with all is not an option.
type Identity = String;

/// `depth` counts the containers from the root to these lists, themselves included.
pub(super) fn merge<'t, F: Facts<'t>>(
    old: Vec<Value>,
    patch: Vec<Value>,
    by: Option<&str>,
    facts: Option<F>,
    field: &str,
    depth: usize,
) -> Result<Vec<Value>, Error> {
    let Merged { items, server_order, patch_order } = merge_contents(old, patch, by, facts, field, depth)?;
    arrange(items, &patch_order, &server_order, by)
}

/// As `merge`, with the order `$setElementOrder` asks for. A list that is new has nothing to delete or replace.
pub(super) fn merge_ordered<'t, F: Facts<'t>>(
    old: Option<Vec<Value>>,
    patch: Vec<Value>,
    order: Vec<Value>,
    by: Option<&str>,
    facts: Option<F>,
    field: &str,
    depth: usize,
) -> Result<Vec<Value>, Error> {
    check_order(&patch, &order, by)?;
    let server_order = identities(old.as_deref().unwrap_or_default(), by)?;
    let order = identities(&order, by)?;
    let items = match old {
        Some(old) => merge_contents(old, patch, by, facts, field, depth)?.items,
        None => clean_items(patch, depth)?,
    };
    arrange(items, &order, &server_order, by)
}

struct Merged {
    items: Vec<Value>,
    /// Of the elements the server had, less the deleted ones.
    server_order: Vec<Identity>,
    /// Of the elements the patch brings or changes.
    patch_order: Vec<Identity>,
}

fn merge_contents<'t, F: Facts<'t>>(
    old: Vec<Value>,
    patch: Vec<Value>,
    by: Option<&str>,
    facts: Option<F>,
    field: &str,
    depth: usize,
) -> Result<Merged, Error> {
    match (element_kind(&old, &patch)?, by) {
        (None, _) => Ok(Merged { items: old, server_order: Vec::new(), patch_order: Vec::new() }),
        (Some(Kind::Object), Some(by)) => merge_objects_by(old, patch, by, facts, depth),
        (Some(Kind::Object), None) => Err(Error::ListWithoutMergeKey(field.to_owned())),
        (Some(_), Some(by)) => {
            let scalar = old.first().or(patch.first()).cloned().unwrap_or_default();
            Err(Error::NoMergeKey { map: short(&scalar.to_string()), key: by.to_owned() })
        }
        (Some(_), None) => {
            let (server_order, patch_order) = (identities(&old, None)?, identities(&patch, None)?);
            let mut seen = HashSet::new();
            let items = old.into_iter().chain(patch).filter(|item| seen.insert(item.to_string())).collect();
            Ok(Merged { items, server_order, patch_order })
        }
    }
}

fn merge_objects_by<'t, F: Facts<'t>>(
    items: Vec<Value>,
    patch: Vec<Value>,
    by: &str,
    facts: Option<F>,
    depth: usize,
) -> Result<Merged, Error> {
    let (mut merged, changes) = plan(items, patch, by, depth)?;
    for (place, change) in changes {
        let (Value::Object(old), Value::Object(change)) = (merged.items[place].take(), change) else { continue };
        merged.items[place] = Value::Object(merge_objects(old, change, facts, depth + 1)?);
    }
    Ok(merged)
}

/// Everything but the merging of elements itself, which recurses and needs the stack: deletions and additions are done, and
/// each remaining change is told the place of the element it changes.
fn plan(
    mut items: Vec<Value>,
    patch: Vec<Value>,
    by: &str,
    depth: usize,
) -> Result<(Merged, Vec<(usize, Value)>), Error> {
    let mut changes = Vec::with_capacity(patch.len());
    let mut gone = HashSet::new();
    let mut replace = false;
    for change in patch {
        match change.get(PATCH) {
            None => changes.push(change),
            Some(directive) => match directive.as_str() {
                Some("delete") => {
                    gone.insert(identity(&change, Some(by))?);
                }
                Some("replace") => replace = true,
                Some("merge") => return Err(Error::MergeDirectiveInList),
                _ => return Err(unknown_directive(&change)),
            },
        }
    }
    if replace {
        let server_order = identities(&changes, Some(by))?;
        let items = clean_items(changes, depth)?;
        return Ok((Merged { items, server_order, patch_order: Vec::new() }, Vec::new()));
    }

    let mut server_order = identities(&items, Some(by))?;
    if !gone.is_empty() {
        let mut keep = server_order.iter().map(|identity| !gone.contains(identity));
        items.retain(|_| keep.next().unwrap_or(true));
        server_order.retain(|identity| !gone.contains(identity));
    }
    let patch_order = identities(&changes, Some(by))?;
    // Of several elements with one key the first is meant.
    let mut places = HashMap::new();
    for (place, identity) in server_order.iter().enumerate() {
        places.entry(identity.as_str()).or_insert(place);
    }
    let mut remaining = Vec::new();
    for (change, identity) in changes.into_iter().zip(&patch_order) {
        match places.get(identity.as_str()) {
            Some(place) => remaining.push((*place, change)),
            None => {
                if let Some(change) = clean(change, depth + 1)? {
                    places.insert(identity, items.len());
                    items.push(change);
                }
            }
        }
    }
    Ok((Merged { items, server_order, patch_order }, remaining))
}

/// Takes scalars out of a list.
pub(super) fn delete_scalars(items: &mut Vec<Value>, gone: &[Value]) -> Result<(), Error> {
    match element_kind(items, gone)? {
        Some(Kind::Object) => Err(Error::BadDeleteFromPrimitiveList),
        _ => {
            let gone: HashSet<Identity> = gone.iter().map(Value::to_string).collect();
            items.retain(|item| !gone.contains(&item.to_string()));
            Ok(())
        }
    }
}

/// The elements of the patch must be among those of the order, and stand in the same order. Deletions are free.
fn check_order(patch: &[Value], order: &[Value], by: Option<&str>) -> Result<(), Error> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut ordered = order.iter();
    for change in patch.iter().filter(|change| change.get(PATCH).is_none()) {
        let wanted = identity(change, by)?;
        loop {
            match ordered.next() {
                Some(element) if identity(element, by)? == wanted => break,
                Some(_) => {}
                None => {
                    let shown = |items: &[Value]| short(&Value::from(items).to_string());
                    return Err(Error::OrderMismatch { patch: shown(patch), order: shown(order) });
                }
            }
        }
    }
    Ok(())
}

/// Puts elements in their final order (see the top of this file).
fn arrange(
    items: Vec<Value>,
    patch_order: &[Identity],
    server_order: &[Identity],
    by: Option<&str>,
) -> Result<Vec<Value>, Error> {
    let rank = |order: &[Identity]| {
        let mut ranks = HashMap::with_capacity(order.len());
        for (rank, identity) in order.iter().enumerate() {
            ranks.entry(identity.clone()).or_insert(rank);
        }
        ranks
    };
    let (patch_rank, server_rank) = (rank(patch_order), rank(server_order));
    let mut patched = Vec::new();
    let mut server_only = Vec::new();
    for item in items {
        let identity = identity(&item, by)?;
        let on_server = server_rank.get(&identity).copied();
        match patch_rank.get(&identity) {
            Some(rank) => patched.push((*rank, on_server, item)),
            None => server_only.push((on_server.unwrap_or(usize::MAX), on_server, item)),
        }
    }
    patched.sort_by_key(|(rank, ..)| *rank);
    server_only.sort_by_key(|(rank, ..)| *rank);

    let mut arranged = Vec::with_capacity(patched.len() + server_only.len());
    let mut patched = patched.into_iter().peekable();
    for (_, left, item) in server_only {
        while let Some((_, right, _)) = patched.peek() {
            if matches!((left, right), (Some(left), Some(right)) if left < *right) {
                break;
            }
            arranged.extend(patched.next().map(|(.., item)| item));
        }
        arranged.push(item);
    }
    arranged.extend(patched.map(|(.., item)| item));
    Ok(arranged)
}

fn identities(items: &[Value], by: Option<&str>) -> Result<Vec<Identity>, Error> {
    items.iter().map(|item| identity(item, by)).collect()
}

fn identity(item: &Value, by: Option<&str>) -> Result<Identity, Error> {
    let Some(by) = by else { return Ok(item.to_string()) };
    match item.get(by) {
        Some(value) => Ok(value.to_string()),
        None => Err(Error::NoMergeKey { map: short(&item.to_string()), key: by.to_owned() }),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Object,
    Text,
    Integer,
    Float,
    Bool,
    Null,
}

/// The one kind all elements of both lists have; `None` when both are empty.
fn element_kind(old: &[Value], patch: &[Value]) -> Result<Option<Kind>, Error> {
    let mut kind = None;
    for item in old.iter().chain(patch) {
        let this = match item {
            Value::Array(_) => return Err(Error::ListOfLists),
            Value::Object(_) => Kind::Object,
            Value::String(_) => Kind::Text,
            Value::Number(number) if number.is_f64() => Kind::Float,
            Value::Number(_) => Kind::Integer,
            Value::Bool(_) => Kind::Bool,
            Value::Null => Kind::Null,
        };
        if kind.is_some_and(|kind| kind != this) {
            let shown = |items: &[Value]| short(&Value::from(items).to_string());
            return Err(Error::MixedList(format!("[{} {}]", shown(old), shown(patch))));
        }
        kind = Some(this);
    }
    Ok(kind)
}
