//! What changed from one object to another: one walk over both.

use std::cmp::Ordering;
use std::iter::Peekable;

use serde_json::Value;

use super::element::Element;
use super::list::{group, index};
use super::schema::{Form, Items, List, Map, Node, Schema};
use super::set::FieldSet;
use super::validate::Misfit;
use super::value::equal;

type Fields = serde_json::Map<String, Value>;

/// No field is in two of the sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison<'a> {
    pub added: FieldSet<'a>,
    pub modified: FieldSet<'a>,
    pub removed: FieldSet<'a>,
}

impl<'a> Comparison<'a> {
    pub fn is_same(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// Without the given fields and all below them.
    pub fn without(self, ignored: &FieldSet<'_>) -> Self {
        Self {
            added: self.added.recursive_difference(ignored),
            modified: self.modified.recursive_difference(ignored),
            removed: self.removed.recursive_difference(ignored),
        }
    }
}

/// Compares two objects of a type. It fails when a list item cannot be told from others.
pub fn compare<'a, 't: 'a, T: Schema<'t>>(
    old: &'a Fields,
    new: &'a Fields,
    node: Node<T>,
) -> Result<Comparison<'a>, Misfit> {
    let mut out = Comparison::default();
    match node.atom().map {
        Some(map) => fields(Some(old), Some(new), node, &map, &mut out)?,
        None => return Err(Misfit::new("the type of an object is not a map")),
    }
    Ok(out)
}

/// What happened at one place: to the value itself, and below it.
#[derive(Default)]
struct Change<'a> {
    itself: Option<What>,
    below: Comparison<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Added,
    Modified,
    Removed,
}

/// A value on either side or on both.
type Sides<'a> = (Option<&'a Value>, Option<&'a Value>);

fn place<'a, 't: 'a, T: Schema<'t>>(sides: Sides<'a>, node: Node<T>) -> Result<Change<'a>, Misfit> {
    let (old, new) = sides;
    let forms = (node.form(old), node.form(new));
    let mut change = Change::default();
    let mut leaf = false;
    match (old, new, forms) {
        (Some(_), Some(_), (Some(left), Some(right))) if !left.same(&right) => {
            // Another form: what stood there is gone with all below it, and what stands there now is new.
            leaf |= formed(sides, node, &left, &mut change)?;
            leaf |= formed(sides, node, &right, &mut change)?;
        }
        (_, None, (Some(form), _)) | (_, Some(_), (_, Some(form))) => leaf = formed(sides, node, &form, &mut change)?,
        _ => return Err(Misfit::new("schema error: invalid atom: inlined")),
    }
    if !leaf {
        change.itself = match sides {
            (None, _) => Some(What::Added),
            (_, None) => Some(What::Removed),
            _ => change.itself,
        };
    }
    Ok(change)
}

/// Compares two values as one form has it; answers whether that is a leaf.
fn formed<'a, 't: 'a, T: Schema<'t>>(
    sides: Sides<'a>,
    node: Node<T>,
    form: &Form<T>,
    change: &mut Change<'a>,
) -> Result<bool, Misfit> {
    match form {
        Form::Map(map) => {
            let maps = (sides.0.and_then(Value::as_object), sides.1.and_then(Value::as_object));
            let filled = |map: Option<&Fields>| map.is_some_and(|map| !map.is_empty());
            if !map.atomic && (filled(maps.0) || filled(maps.1)) {
                fields(maps.0, maps.1, node, map, &mut change.below)?;
                return Ok(false);
            }
        }
        Form::List(list) => {
            let lists = (items(sides.0), items(sides.1));
            if list.items != Items::Atomic && (!lists.0.is_empty() || !lists.1.is_empty()) {
                elements(lists.0, lists.1, node, list, &mut change.below)?;
                return Ok(false);
            }
        }
        Form::Scalar(_) => {}
    }
    change.itself = match sides {
        (None, _) => Some(What::Added),
        (_, None) => Some(What::Removed),
        (Some(old), Some(new)) if !equal(old, new) => Some(What::Modified),
        _ => change.itself,
    };
    Ok(true)
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn fields<'a, 't: 'a, T: Schema<'t>>(
    old: Option<&'a Fields>,
    new: Option<&'a Fields>,
    node: Node<T>,
    map: &Map<T>,
    out: &mut Comparison<'a>,
) -> Result<(), Misfit> {
    let mut old = old.into_iter().flatten().peekable();
    let mut new = new.into_iter().flatten().peekable();
    while let Some((name, sides)) = zip(&mut old, &mut new) {
        // Most of two objects is the same.
        if let (Some(a), Some(b)) = sides
            && a == b
        {
            continue;
        }
        let element = Element::field(name);
        let change = place(sides, node.child(map, name)).map_err(|e| e.below(&element))?;
        record(&element, change, out);
    }
    Ok(())
}

/// The next name of two sorted maps, with its value in either.
pub(super) fn zip<'a, I: Iterator<Item = (&'a String, &'a Value)>>(
    old: &mut Peekable<I>,
    new: &mut Peekable<I>,
) -> Option<(&'a str, Sides<'a>)> {
    let order = match (old.peek(), new.peek()) {
        (None, None) => return None,
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (Some((a, _)), Some((b, _))) => a.cmp(b),
    };
    let left = if order.is_le() { old.next() } else { None };
    let right = if order.is_ge() { new.next() } else { None };
    let name = left.or(right).map(|(name, _)| name.as_str())?;
    Some((name, (left.map(|(_, v)| v), right.map(|(_, v)| v))))
}

fn elements<'a, 't: 'a, T: Schema<'t>>(
    old: &'a [Value],
    new: &'a [Value],
    node: Node<T>,
    list: &List<T>,
    out: &mut Comparison<'a>,
) -> Result<(), Misfit> {
    let old = index(node, list, old).map_err(Misfit::new)?;
    let new = index(node, list, new).map_err(Misfit::new)?;
    let (mut old, mut new) = (old.as_slice(), new.as_slice());
    loop {
        let order = match (old.first(), new.first()) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((a, _)), Some((b, _))) => a.cmp(b),
        };
        let left = if order.is_le() { group(&mut old) } else { None };
        let right = if order.is_ge() { group(&mut new) } else { None };
        let Some((element, _)) = left.or(right) else { return Ok(()) };
        let (left, right) = (left.map_or(&[][..], |(_, g)| g), right.map_or(&[][..], |(_, g)| g));
        item(element, left, right, list, out)?;
    }
}

/// The items with one element, before and after. Several of them are owned as one thing.
fn item<'a, 't: 'a, T: Schema<'t>>(
    element: &Element<'a>,
    old: &[(Element<'a>, &'a Value)],
    new: &[(Element<'a>, &'a Value)],
    list: &List<T>,
    out: &mut Comparison<'a>,
) -> Result<(), Misfit> {
    let mut sides = (old.first().map(|(_, v)| *v), new.first().map(|(_, v)| *v));
    let several = match (old.len() > 1, new.len() > 1) {
        (false, false) => None,
        (true, true) => {
            let same = old.len() == new.len() && old.iter().zip(new).all(|((_, a), (_, b))| equal(a, b));
            if !same {
                record(element, Change { itself: Some(What::Modified), ..Change::default() }, out);
            }
            return Ok(());
        }
        (true, false) => {
            sides.0 = None;
            Some(What::Removed)
        }
        (false, true) => {
            sides.1 = None;
            Some(What::Added)
        }
    };
    let single = if sides == (None, None) {
        Change::default()
    } else {
        place(sides, list.element).map_err(|e| e.below(element))?
    };
    // The marker of the many and the fields of the one are of different sets.
    record(element, single, out);
    match several {
        Some(What::Removed) => out.removed.push(element, true, FieldSet::default()),
        Some(_) => out.added.push(element, true, FieldSet::default()),
        None => {}
    }
    Ok(())
}

fn record<'a>(element: &Element<'a>, change: Change<'a>, out: &mut Comparison<'a>) {
    let Change { itself, below } = change;
    out.added.push(element, itself == Some(What::Added), below.added);
    out.modified.push(element, itself == Some(What::Modified), below.modified);
    out.removed.push(element, itself == Some(What::Removed), below.removed);
}
