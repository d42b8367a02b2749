//! Values as ownership compares them: numbers by what they are worth, everything in one total order.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Like `==`, but 1 is 1.0.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => number(a, b).is_eq(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => equal_objects(a, b),
        (a, b) => a == b,
    }
}

pub(super) fn equal_objects(a: &serde_json::Map<String, Value>, b: &serde_json::Map<String, Value>) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|((k, a), (l, b))| k == l && equal(a, b))
}

/// Numbers before strings before booleans before lists before objects before null.
pub(super) fn order(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => number(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => sequence(a.iter(), b.iter(), order),
        (Value::Object(a), Value::Object(b)) => {
            sequence(a.iter(), b.iter(), |(k, a), (l, b)| k.cmp(l).then_with(|| order(a, b)))
        }
        (a, b) => rank(a).cmp(&rank(b)),
    }
}

pub(super) fn sequence<T>(
    mut a: impl Iterator<Item = T>,
    mut b: impl Iterator<Item = T>,
    order: impl Fn(T, T) -> Ordering,
) -> Ordering {
    loop {
        match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(a), Some(b)) => match order(a, b) {
                Ordering::Equal => {}
                decided => return decided,
            },
        }
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

/// Exact, so that it is one order even where an integer is no float.
fn number(a: &Number, b: &Number) -> Ordering {
    match (integer(a), integer(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(a), None) => against(a, float(b)),
        (None, Some(b)) => against(b, float(a)).reverse(),
        (None, None) => float(a).total_cmp(&float(b)),
    }
}

fn integer(n: &Number) -> Option<i128> {
    n.as_i64().map(i128::from).or_else(|| n.as_u64().map(i128::from))
}

fn float(n: &Number) -> f64 {
    // Every JSON number that is no integer is a finite float.
    let value = n.as_f64().unwrap_or_default();
    if value == 0.0 { 0.0 } else { value }
}

fn against(integer: i128, float: f64) -> Ordering {
    // The cast saturates, which keeps the order: no integer here is beyond 65 bits.
    let whole = float.trunc();
    integer.cmp(&(whole as i128)).then_with(|| 0.0_f64.total_cmp(&(float - whole + 0.0)))
}
