//! Lists, sets and optionals.

use std::cmp::Ordering;

use super::{operators, strings};
use crate::eval::Context;
use crate::value::{Evaluated, List, Val, compare, equal, fail, no_such_overload};

fn list<'v, 'a>(value: &'v Val<'a>) -> Evaluated<&'v List<'a>> {
    match value {
        Val::List(list) => Ok(list),
        _ => no_such_overload(),
    }
}

pub(super) fn optional_of<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::some(args[0].clone()))
}

pub(super) fn optional_of_non_zero<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(if args[0].is_zero() { Val::Optional(None) } else { Val::some(args[0].clone()) })
}

pub(super) fn optional_none<'a>(_: &mut Context<'a>, _: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::Optional(None))
}

pub(super) fn optional_value<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    match &args[0] {
        Val::Optional(Some(value)) => Ok((**value).clone()),
        Val::Optional(None) => fail("optional.none() dereference"),
        _ => no_such_overload(),
    }
}

pub(super) fn has_value<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    match &args[0] {
        Val::Optional(value) => Ok(Val::Bool(value.is_some())),
        _ => no_such_overload(),
    }
}

fn at<'a>(list: &List<'a>, index: Option<usize>) -> Evaluated<Val<'a>> {
    match index.and_then(|index| list.get(index)) {
        Some(value) => value.map(Val::some),
        None => Ok(Val::Optional(None)),
    }
}

pub(super) fn first<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    at(list(&args[0])?, Some(0))
}

pub(super) fn last<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let list = list(&args[0])?;
    at(list, list.len().checked_sub(1))
}

pub(super) fn unwrap<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let list = list(&args[0])?;
    context.meter.allocate(list.len() * size_of::<Val>())?;
    let mut items = Vec::new();
    for item in list.iter() {
        match item? {
            Val::Optional(Some(value)) => items.push((*value).clone()),
            Val::Optional(None) => {}
            _ => return no_such_overload(),
        }
    }
    Ok(Val::list(items))
}

pub(super) fn is_sorted<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let mut previous: Option<Val> = None;
    for item in list(&args[0])?.iter() {
        let item = item?;
        if let Some(previous) = &previous
            && compare(previous, &item, &mut context.meter)? == Ordering::Greater
        {
            return Ok(Val::Bool(false));
        }
        previous = Some(item);
    }
    Ok(Val::Bool(true))
}

pub(super) fn sum<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    // The plan adds what to begin with: the zero of the list's type.
    let mut total = args[1].clone();
    for item in list(&args[0])?.iter() {
        total = operators::add(context, &[total, item?])?;
    }
    Ok(total)
}

fn extreme<'a>(context: &mut Context<'a>, value: &Val<'a>, name: &str, better: Ordering) -> Evaluated<Val<'a>> {
    let mut best: Option<Val> = None;
    for item in list(value)?.iter() {
        let item = item?;
        match &best {
            Some(best) if compare(&item, best, &mut context.meter)? != better => {}
            _ => best = Some(item),
        }
    }
    best.map_or_else(|| fail(format!("{name} called on empty list")), Ok)
}

pub(super) fn min<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    extreme(context, &args[0], "min", Ordering::Less)
}

pub(super) fn max<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    extreme(context, &args[0], "max", Ordering::Greater)
}

pub(super) fn index_of<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let Val::List(list) = &args[0] else { return strings::index_of(context, args) };
    for (place, item) in list.iter().enumerate() {
        if equal(&item?, &args[1], &mut context.meter)? {
            return Ok(Val::Int(place as i64));
        }
    }
    Ok(Val::Int(-1))
}

pub(super) fn last_index_of<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let Val::List(list) = &args[0] else { return strings::last_index_of(context, args) };
    for place in (0..list.len()).rev() {
        let item = list.get(place).unwrap_or_else(no_such_overload)?;
        if equal(&item, &args[1], &mut context.meter)? {
            return Ok(Val::Int(place as i64));
        }
    }
    Ok(Val::Int(-1))
}

fn contains_all<'a>(context: &mut Context<'a>, whole: &Val<'a>, part: &Val<'a>) -> Evaluated<bool> {
    let whole = list(whole)?;
    for item in list(part)?.iter() {
        if !whole.contains(&item?, &mut context.meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(super) fn set_contains<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    contains_all(context, &args[0], &args[1]).map(Val::Bool)
}

pub(super) fn set_equivalent<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let both = contains_all(context, &args[0], &args[1])? && contains_all(context, &args[1], &args[0])?;
    Ok(Val::Bool(both))
}

pub(super) fn set_intersects<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let other = list(&args[1])?;
    for item in list(&args[0])?.iter() {
        if other.contains(&item?, &mut context.meter)? {
            return Ok(Val::Bool(true));
        }
    }
    Ok(Val::Bool(false))
}
