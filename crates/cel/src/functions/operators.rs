//! Operators.

use std::cmp::Ordering;

use crate::error::EvalError;
use crate::eval::Context;
use crate::value::number::{int, uint};
use crate::value::{Evaluated, Val, compare, equal, fail, no_such_overload};

/// An operand that does not know the operator at all; the others only do not know it with each other.
fn unknown<'a>(name: &str) -> Evaluated<Val<'a>> {
    fail(format!("no such overload: {name}"))
}

pub(super) fn equals<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    equal(&args[0], &args[1], &mut context.meter).map(Val::Bool)
}

pub(super) fn differs<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    // What cannot be compared is different.
    match equal(&args[0], &args[1], &mut context.meter) {
        Err(EvalError::Failed(_)) => Ok(Val::Bool(true)),
        equal => equal.map(|equal| Val::Bool(!equal)),
    }
}

fn ordered<'a>(
    context: &mut Context<'a>,
    args: &[Val<'a>],
    name: &str,
    wanted: fn(Ordering) -> bool,
) -> Evaluated<Val<'a>> {
    if let Val::Null | Val::List(_) | Val::Map(_) = &args[0] {
        return unknown(name);
    }
    compare(&args[0], &args[1], &mut context.meter).map(|order| Val::Bool(wanted(order)))
}

pub(super) fn less<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    ordered(context, args, "_<_", Ordering::is_lt)
}

pub(super) fn less_or_equal<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    ordered(context, args, "_<=_", Ordering::is_le)
}

pub(super) fn greater<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    ordered(context, args, "_>_", Ordering::is_gt)
}

pub(super) fn greater_or_equal<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    ordered(context, args, "_>=_", Ordering::is_ge)
}

pub(super) fn add<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let overflow = || fail("timestamp overflow");
    match (&args[0], &args[1]) {
        (Val::Int(one), Val::Int(two)) => int(one.checked_add(*two)),
        (Val::Uint(one), Val::Uint(two)) => uint(one.checked_add(*two)),
        (Val::Double(one), Val::Double(two)) => Ok(Val::Double(one + two)),
        (Val::String(one), Val::String(two)) => {
            context.meter.allocate(one.len() + two.len())?;
            Ok(Val::from(format!("{}{}", &**one, &**two)))
        }
        (Val::Bytes(one), Val::Bytes(two)) => {
            context.meter.allocate(one.len() + two.len())?;
            Ok(Val::Bytes([&**one, &**two].concat().into()))
        }
        (Val::List(one), Val::List(two)) => one.add(two, &mut context.meter),
        (Val::Duration(one), Val::Duration(two)) => {
            one.checked_add(*two).map_or_else(|| int(None), |nanos| Ok(Val::Duration(nanos)))
        }
        (Val::Timestamp(time), Val::Duration(nanos)) | (Val::Duration(nanos), Val::Timestamp(time)) => {
            time.add(*nanos).map_or_else(overflow, |time| Ok(Val::Timestamp(time)))
        }
        (Val::Null | Val::Bool(_) | Val::Map(_) | Val::Optional(_) | Val::Type(_), _) => unknown("_+_"),
        _ => no_such_overload(),
    }
}

pub(super) fn subtract<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let duration = |nanos: Option<i64>| nanos.map_or_else(|| int(None), |nanos| Ok(Val::Duration(nanos)));
    match (&args[0], &args[1]) {
        (Val::Int(one), Val::Int(two)) => int(one.checked_sub(*two)),
        (Val::Uint(one), Val::Uint(two)) => uint(one.checked_sub(*two)),
        (Val::Double(one), Val::Double(two)) => Ok(Val::Double(one - two)),
        (Val::Duration(one), Val::Duration(two)) => duration(one.checked_sub(*two)),
        (Val::Timestamp(one), Val::Timestamp(two)) => duration(one.since(two)),
        (Val::Timestamp(time), Val::Duration(nanos)) => nanos
            .checked_neg()
            .and_then(|nanos| time.add(nanos))
            .map_or_else(|| fail("timestamp overflow"), |time| Ok(Val::Timestamp(time))),
        _ => no_such_overload(),
    }
}

pub(super) fn multiply<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    match (&args[0], &args[1]) {
        (Val::Int(one), Val::Int(two)) => int(one.checked_mul(*two)),
        (Val::Uint(one), Val::Uint(two)) => uint(one.checked_mul(*two)),
        (Val::Double(one), Val::Double(two)) => Ok(Val::Double(one * two)),
        _ => no_such_overload(),
    }
}

pub(super) fn divide<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    match (&args[0], &args[1]) {
        (Val::Int(_), Val::Int(0)) | (Val::Uint(_), Val::Uint(0)) => fail("division by zero"),
        (Val::Int(one), Val::Int(two)) => int(one.checked_div(*two)),
        (Val::Uint(one), Val::Uint(two)) => uint(one.checked_div(*two)),
        (Val::Double(one), Val::Double(two)) => Ok(Val::Double(one / two)),
        _ => no_such_overload(),
    }
}

pub(super) fn modulo<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    match (&args[0], &args[1]) {
        (Val::Int(_), Val::Int(0)) | (Val::Uint(_), Val::Uint(0)) => fail("modulus by zero"),
        (Val::Int(one), Val::Int(two)) => int(one.checked_rem(*two)),
        (Val::Uint(one), Val::Uint(two)) => uint(one.checked_rem(*two)),
        _ => no_such_overload(),
    }
}

pub(super) fn negate<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    match &args[0] {
        Val::Int(value) => int(value.checked_neg()),
        Val::Double(value) => Ok(Val::Double(-value)),
        Val::Duration(nanos) => nanos.checked_neg().map_or_else(|| int(None), |nanos| Ok(Val::Duration(nanos))),
        Val::Null => unknown("-_"),
        _ => no_such_overload(),
    }
}

pub(super) fn not<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    match &args[0] {
        Val::Bool(value) => Ok(Val::Bool(!value)),
        _ => no_such_overload(),
    }
}

pub(super) fn member_of<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    match (&args[0], &args[1]) {
        (wanted, Val::List(list)) => list.contains(wanted, &mut context.meter).map(Val::Bool),
        // No key is equal to what is not equal to itself.
        (Val::Double(wanted), Val::Map(_)) if wanted.is_nan() => Ok(Val::Bool(false)),
        (wanted, Val::Map(map)) => map.find(wanted).map(|found| Val::Bool(found.is_some())),
        _ => no_such_overload(),
    }
}

pub(super) fn size<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    match &args[0] {
        value @ (Val::String(_) | Val::Bytes(_) | Val::List(_) | Val::Map(_)) => {
            Ok(Val::Int(super::measure(value, &mut context.meter)? as i64))
        }
        _ => unknown("size"),
    }
}
