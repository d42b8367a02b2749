//! Which values are equal, and which comes first.

use std::cmp::Ordering;

use super::{Evaluated, List, Mapping, Val, fail, no_such_overload};
use crate::eval::Meter;

/// Equality of any two values: numbers across types, everything else only within its own.
pub(crate) fn equal<'a>(one: &Val<'a>, two: &Val<'a>, meter: &mut Meter) -> Evaluated<bool> {
    meter.step(1)?;
    Ok(match (one, two) {
        (Val::Null, two) => matches!(two, Val::Null),
        (_, Val::Null) => false,
        (Val::Bool(one), Val::Bool(two)) => one == two,
        (Val::String(one), Val::String(two)) => {
            meter.step(one.len().min(two.len()) / 32)?;
            one == two
        }
        (Val::Bytes(one), Val::Bytes(two)) => {
            meter.step(one.len().min(two.len()) / 32)?;
            one == two
        }
        (Val::Timestamp(one), Val::Timestamp(two)) => one.instant() == two.instant(),
        (Val::Duration(one), Val::Duration(two)) => one == two,
        (Val::Type(one), Val::Type(two)) => one == two,
        (Val::List(one), Val::List(two)) => one.equal(two, meter)?,
        (Val::Map(one), Val::Map(two)) => one.equal(two, meter)?,
        (Val::Optional(None), Val::Optional(None)) => true,
        (Val::Optional(Some(one)), Val::Optional(Some(two))) => equal(one, two, meter)?,
        (Val::Quantity(one), Val::Quantity(two)) => one == two,
        (Val::Url(one), Val::Url(two)) => one == two,
        (Val::Ip(one), Val::Ip(two)) => one == two,
        (Val::Cidr(one), Val::Cidr(two)) => one == two,
        (Val::Format(one), Val::Format(two)) => one.name == two.name,
        (Val::Semver(one), Val::Semver(two)) => one.precedence(two) == Ordering::Equal,
        // What comes from the object, or from a library of Kubernetes, compares only with its like.
        (Val::List(List::Json { .. }) | Val::Map(Mapping::Json { .. } | Mapping::Object { .. }), _)
        | (Val::Quantity(_) | Val::Url(_) | Val::Ip(_) | Val::Cidr(_) | Val::Format(_) | Val::Semver(_), _) => {
            return no_such_overload();
        }
        (one, two) => numeric(one, two) == Some(Some(Ordering::Equal)),
    })
}

pub(crate) fn compare(one: &Val, two: &Val, meter: &mut Meter) -> Evaluated<Ordering> {
    meter.step(1)?;
    Ok(match (one, two) {
        (Val::Bool(one), Val::Bool(two)) => one.cmp(two),
        (Val::String(one), Val::String(two)) => one.cmp(two),
        (Val::Bytes(one), Val::Bytes(two)) => one.cmp(two),
        (Val::Timestamp(one), Val::Timestamp(two)) => one.instant().cmp(&two.instant()),
        (Val::Duration(one), Val::Duration(two)) => one.cmp(two),
        (one, two) => match numeric(one, two) {
            Some(Some(order)) => order,
            Some(None) => return fail("NaN values cannot be ordered"),
            None => return no_such_overload(),
        },
    })
}

/// Nothing if the values are not both numbers; nothing inside if one is not a number at all.
fn numeric(one: &Val, two: &Val) -> Option<Option<Ordering>> {
    Some(match (one, two) {
        (Val::Double(one), Val::Double(two)) => one.partial_cmp(two),
        (Val::Double(one), two) => two_sided(*one, integer(two)?).map(Ordering::reverse),
        (one, Val::Double(two)) => two_sided(*two, integer(one)?),
        (one, two) => Some(integer(one)?.cmp(&integer(two)?)),
    })
}

fn integer(value: &Val) -> Option<i128> {
    match value {
        Val::Int(value) => Some((*value).into()),
        Val::Uint(value) => Some((*value).into()),
        _ => None,
    }
}

/// How an integer compares to a double: by value as doubles, as the reference does.
fn two_sided(double: f64, integer: i128) -> Option<Ordering> {
    (integer as f64).partial_cmp(&double)
}
