//! Parts of timestamps and durations.

use crate::eval::Context;
use crate::value::time::Civil;
use crate::value::{Evaluated, Val, fail, no_such_overload};

/// A part of the timestamp in the zone of the second argument; UTC without one.
fn civil<'a>(args: &[Val<'a>], part: fn(Civil) -> i64) -> Evaluated<Val<'a>> {
    let zone = match args.get(1) {
        None => None,
        Some(Val::String(zone)) => Some(&**zone),
        Some(_) => return no_such_overload(),
    };
    match &args[0] {
        Val::Timestamp(time) => time.civil(zone).or_else(fail).map(|time| Val::Int(part(time))),
        _ => no_such_overload(),
    }
}

/// A part of a timestamp, or the whole of a duration in a unit.
fn either<'a>(args: &[Val<'a>], unit: i64, part: fn(Civil) -> i64) -> Evaluated<Val<'a>> {
    match &args[0] {
        Val::Duration(nanos) => Ok(Val::Int(nanos / unit)),
        _ => civil(args, part),
    }
}

pub(super) fn full_year<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    civil(args, |time| time.year)
}

pub(super) fn month<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    civil(args, |time| time.month - 1)
}

pub(super) fn day_of_year<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    civil(args, |time| time.day_of_year - 1)
}

pub(super) fn day_of_month<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    civil(args, |time| time.day - 1)
}

pub(super) fn date<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    civil(args, |time| time.day)
}

pub(super) fn day_of_week<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    civil(args, |time| time.weekday)
}

pub(super) fn hours<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    either(args, 3_600_000_000_000, |time| time.hour)
}

pub(super) fn minutes<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    either(args, 60_000_000_000, |time| time.minute)
}

pub(super) fn seconds<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    either(args, 1_000_000_000, |time| time.second)
}

pub(super) fn milliseconds<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    either(args, 1_000_000, |time| time.millisecond)
}
