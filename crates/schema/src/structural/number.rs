//! Numbers as Go holds and compares them.

use meta::field::float as go_float;
use serde_json::Number;

/// Numbers as Go holds them after reading JSON: integers that fit 64 bits, or floats.
#[derive(Clone, Copy)]
pub(super) enum Num {
    Int(i64),
    Float(f64),
}

pub(super) fn num(number: &Number) -> Num {
    match number.as_i64() {
        Some(int) => Num::Int(int),
        None => Num::Float(number.as_f64().unwrap_or(f64::NAN)),
    }
}

/// Whether a float is an integer that JSON keeps exactly; rounding of the last digits is forgiven.
pub(super) fn integral(float: f64) -> bool {
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    if !float.is_finite() || float.abs() > LARGEST {
        return false;
    }
    let whole = float.trunc();
    float == whole || (float - whole).abs() < 1e-9 * (float.abs() + whole.abs()).min(f64::MAX)
}

/// A limit in the type of the number it limits.
pub(super) fn bound(number: Num, limit: f64) -> String {
    match number {
        Num::Int(_) => (limit as i64).to_string(),
        Num::Float(_) => go_float(limit),
    }
}
