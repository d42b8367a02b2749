//! Numbers: arithmetic that reports overflow, and doubles as Go writes them.

use super::{Evaluated, Val, fail};

pub(crate) const INT_OVERFLOW: &str = "integer overflow";
pub(crate) const UINT_OVERFLOW: &str = "unsigned integer overflow";

pub(crate) fn int<'a>(value: Option<i64>) -> Evaluated<Val<'a>> {
    value.map_or_else(|| fail(INT_OVERFLOW), |value| Ok(Val::Int(value)))
}

pub(crate) fn uint<'a>(value: Option<u64>) -> Evaluated<Val<'a>> {
    value.map_or_else(|| fail(UINT_OVERFLOW), |value| Ok(Val::Uint(value)))
}

/// A double cut to an integer, if it is within (not at) the bounds of one.
pub(crate) fn double_to_int(value: f64) -> Option<i64> {
    let bound = 9_223_372_036_854_775_808.0;
    (value > -bound && value < bound).then_some(value as i64)
}

pub(crate) fn double_to_uint(value: f64) -> Option<u64> {
    (0.0..18_446_744_073_709_551_616.0).contains(&value).then_some(value as u64)
}

/// The shortest digits that read back as the same double; an exponent if more than six digits stand before the point or
/// four zeros after it (Go's `%g`).
pub(crate) fn format_double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf".into() } else { "-Inf".into() };
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) || value == 0.0 {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_as_go_writes_them() {
        let cases = [
            (1.0, "1"),
            (1.5, "1.5"),
            (0.1, "0.1"),
            (-0.0, "-0"),
            (123_456.0, "123456"),
            (1_234_567.0, "1.234567e+06"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e100, "1e+100"),
            (f64::INFINITY, "+Inf"),
        ];
        for (value, text) in cases {
            assert_eq!(format_double(value), text);
        }
    }

    #[test]
    fn the_bounds_of_integers_are_no_integers() {
        assert_eq!(double_to_int(9.3e18), None);
        assert_eq!(double_to_int(-5.9), Some(-5));
        assert_eq!(double_to_uint(-0.5), None);
        assert_eq!(double_to_uint(5.5), Some(5));
    }
}
