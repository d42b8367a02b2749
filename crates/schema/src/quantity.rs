//! Resource quantities in their canonical form: `1000m` is `1`, `0.5Gi` is `512Mi`.

use thiserror::Error;

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum QuantityError {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Decimal,
    Exponent,
    Binary,
}

/// Digits that Go parses the short way; only such numbers keep the spelling the user gave them.
const SHORT_DIGITS: usize = 18;
/// No quantity is finer than nano units.
const FINEST: i64 = -9;
const CAP: i128 = i64::MAX as i128;
const NANO: i128 = 1_000_000_000;

/// The form the API writes for a quantity the user wrote.
pub fn canonical(text: &str) -> Result<String, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    let (sign, whole, decimals, suffix) = split(text)?;
    let (style, exponent) = style_of(suffix)?;
    if keeps_spelling(whole, decimals, style, exponent) {
        return Ok(text.to_owned());
    }
    let digits = format!("{whole}{decimals}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Ok("0".into());
    }
    let places = decimals.len() as i64;
    Ok(match style {
        Style::Binary => binary(sign, digits, places, exponent),
        Style::Decimal | Style::Exponent => decimal(sign, digits, i64::from(exponent) - places, style),
    })
}

/// The amount in nano units, for comparing and adding; what is too large to count is the largest there is.
pub fn nanos(text: &str) -> Option<i128> {
    let (sign, whole, decimals, suffix) = split(text).ok()?;
    let (style, exponent) = style_of(suffix).ok()?;
    let digits = format!("{whole}{decimals}");
    let places = decimals.len() as i64;
    let amount = match style {
        Style::Binary => binary_nanos(&digits, places, exponent),
        Style::Decimal | Style::Exponent => decimal_nanos(&digits, i64::from(exponent) - places),
    };
    Some(if sign == "-" { -amount } else { amount })
}

/// Two amounts together, in the style of the first that is not zero.
pub fn sum(one: &str, other: &str) -> Option<String> {
    let (a, b) = (nanos(one)?, nanos(other)?);
    let (_, _, _, suffix) = split(if a == 0 { other } else { one }).ok()?;
    let total = a.saturating_add(b);
    let (sign, digits) = (if total < 0 { "-" } else { "" }, total.unsigned_abs().to_string());
    Some(match style_of(suffix).ok()?.0 {
        _ if total == 0 => "0".into(),
        Style::Binary => binary(sign, &digits, -FINEST, 0),
        style => decimal(sign, &digits, FINEST, style),
    })
}

/// `digits * 10^scale` in nano units, rounded up.
fn decimal_nanos(digits: &str, scale: i64) -> i128 {
    let digits = digits.trim_start_matches('0');
    let shift = scale - FINEST;
    if digits.is_empty() {
        return 0;
    }
    if digits.len() as i64 + shift > 36 {
        return CAP * NANO;
    }
    if digits.len() as i64 + shift < 0 {
        return 1;
    }
    if shift >= 0 {
        let zeros = "0".repeat(usize::try_from(shift).unwrap_or(0));
        return format!("{digits}{zeros}").parse().unwrap_or(CAP * NANO);
    }
    let (kept, cut) = digits.split_at(digits.len().saturating_sub(usize::try_from(-shift).unwrap_or(usize::MAX)));
    kept.parse::<i128>().unwrap_or(0) + i128::from(cut.bytes().any(|b| b != b'0'))
}

/// Sign, digits before and after the point, suffix. Either side of the point, or both, may be missing.
fn split(text: &str) -> Result<(&'static str, &str, &str, &str), QuantityError> {
    let (sign, unsigned) = match text.as_bytes().first() {
        Some(b'-') => ("-", &text[1..]),
        Some(b'+') => ("", &text[1..]),
        _ => ("", text),
    };
    let digits_end = |text: &str| text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    let (whole, rest) = unsigned.split_at(digits_end(unsigned));
    let (decimals, suffix) = match rest.strip_prefix('.') {
        Some(after) => after.split_at(digits_end(after)),
        None => ("", rest),
    };
    let exponent = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    if exponent.bytes().any(|b| !b.is_ascii_digit()) {
        return Err(QuantityError::Format);
    }
    Ok((sign, whole.trim_start_matches('0'), decimals, suffix))
}

/// Go does not rewrite a number that it can see to be canonical, nor some that are nearly so (`1.`, `1.500`).
fn keeps_spelling(whole: &str, decimals: &str, style: Style, exponent: i32) -> bool {
    match style {
        Style::Binary => {
            let room = 14 - whole.len() as i64 - i64::from(exponent) * 3 / 10;
            decimals.is_empty() && room >= 0 && whole.parse::<i64>().is_ok_and(|value| value & 7 != 0)
        }
        Style::Decimal | Style::Exponent => {
            let scale = i64::from(exponent) - decimals.len() as i64;
            let last_three = decimals.len() >= 3 && decimals.ends_with("000")
                || decimals.len() < 3 && format!("{whole}{decimals}").ends_with("000");
            !whole.is_empty()
                && whole.len() + decimals.len() <= SHORT_DIGITS
                && scale >= FINEST
                && scale % 3 == 0
                && !last_three
        }
    }
}

fn style_of(suffix: &str) -> Result<(Style, i32), QuantityError> {
    Ok(match suffix {
        "" => (Style::Decimal, 0),
        "n" => (Style::Decimal, -9),
        "u" => (Style::Decimal, -6),
        "m" => (Style::Decimal, -3),
        "k" => (Style::Decimal, 3),
        "M" => (Style::Decimal, 6),
        "G" => (Style::Decimal, 9),
        "T" => (Style::Decimal, 12),
        "P" => (Style::Decimal, 15),
        "E" => (Style::Decimal, 18),
        "Ki" => (Style::Binary, 10),
        "Mi" => (Style::Binary, 20),
        "Gi" => (Style::Binary, 30),
        "Ti" => (Style::Binary, 40),
        "Pi" => (Style::Binary, 50),
        "Ei" => (Style::Binary, 60),
        _ => {
            let digits = suffix.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
            (Style::Exponent, digits.parse().map_err(|_| QuantityError::Suffix)?)
        }
    })
}

/// `digits * 10^scale`, rounded up to nano units; as many digits as there are, no cap.
fn decimal(sign: &str, digits: &str, mut scale: i64, style: Style) -> String {
    let mut digits = digits.to_owned();
    if scale < FINEST {
        let drop = usize::try_from(FINEST - scale).unwrap_or(usize::MAX);
        let dropped = digits.split_off(digits.len().saturating_sub(drop));
        if dropped.bytes().any(|b| b != b'0') {
            digits = increment(&digits);
        }
        scale = FINEST;
    }
    let kept = digits.trim_end_matches('0').len();
    scale += (digits.len() - kept) as i64;
    digits.truncate(kept);
    while scale % 3 != 0 {
        digits.push('0');
        scale -= 1;
    }
    let suffix = match (style, scale) {
        (_, 0) => "",
        (Style::Exponent, _) => return format!("{sign}{digits}e{scale}"),
        (_, -9) => "n",
        (_, -6) => "u",
        (_, -3) => "m",
        (_, 3) => "k",
        (_, 6) => "M",
        (_, 9) => "G",
        (_, 12) => "T",
        (_, 15) => "P",
        (_, 18) => "E",
        _ => return format!("{sign}{digits}e{scale}"),
    };
    format!("{sign}{digits}{suffix}")
}

fn increment(digits: &str) -> String {
    let nines = digits.len() - digits.trim_end_matches('9').len();
    let (head, _) = digits.split_at(digits.len() - nines);
    let head = match head.as_bytes().split_last() {
        Some((last, rest)) => format!("{}{}", String::from_utf8_lossy(rest), char::from(last + 1)),
        None => "1".into(),
    };
    format!("{head}{}", "0".repeat(nines))
}

/// `digits * 10^-places * 2^exponent`, capped; in binary units when that loses nothing.
fn binary(sign: &str, digits: &str, places: i64, exponent: i32) -> String {
    let nanos = binary_nanos(digits, places, exponent);
    let whole = nanos / NANO;
    if nanos % NANO != 0 || whole < 1024 {
        return decimal(sign, &nanos.to_string(), FINEST, Style::Decimal);
    }
    let units = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let unit = usize::try_from(whole.trailing_zeros() / 10).unwrap_or(0).min(units.len() - 1);
    format!("{sign}{}{}", whole >> (10 * unit), units[unit])
}

fn binary_nanos(digits: &str, places: i64, exponent: i32) -> i128 {
    let places = usize::try_from(places).unwrap_or(usize::MAX);
    let (whole, decimals) = digits.split_at(digits.len().saturating_sub(places));
    // The fraction to 19 places, rounded up, so that times 2^60 it still fits; finer fractions of large units mean nothing.
    let leading = places - decimals.len();
    let keep = decimals.len().min(19usize.saturating_sub(leading));
    let cut = decimals.as_bytes()[keep..].iter().any(|b| *b != b'0');
    let mut fraction: i128 = decimals[..keep].parse().unwrap_or(0);
    for _ in leading + keep..19 {
        fraction *= 10;
    }
    let fraction = (fraction + i128::from(cut || (leading > 19 && !decimals.is_empty()))).checked_mul(1 << exponent);
    // 19 places to 9: divide by ten digits, rounding up.
    let fraction = fraction.map(|f| f / 10_000_000_000 + i128::from(f % 10_000_000_000 != 0));
    let whole = if whole.len() > 19 { None } else { whole.parse().or_else(|_| "0".parse::<i128>()).ok() };
    whole
        .and_then(|w| w.checked_mul(1 << exponent)?.checked_mul(NANO))
        .zip(fraction)
        .and_then(|(w, f)| w.checked_add(f))
        .filter(|nanos| *nanos <= CAP * NANO)
        .unwrap_or(CAP * NANO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_keep_the_style_of_the_first() {
        for (one, other, whole) in [
            ("1", "250m", "1250m"),
            ("500m", "500m", "1"),
            ("1Gi", "1Gi", "2Gi"),
            ("1Gi", "512Mi", "1536Mi"),
            ("1Gi", "1", "1073741825"),
            ("0", "1Ki", "1Ki"),
            ("1k", "1Ki", "2024"),
            ("2", "-2", "0"),
        ] {
            assert_eq!(sum(one, other).as_deref(), Some(whole), "{one} + {other}");
        }
        assert_eq!(sum("x", "1"), None);
    }
    use proptest::prelude::*;

    #[test]
    fn quantities_take_their_canonical_form() {
        for (text, out) in [
            ("1000m", "1"),
            ("0.5Gi", "512Mi"),
            ("1024Mi", "1Gi"),
            ("100m", "100m"),
            ("0.1", "100m"),
            ("0", "0"),
            ("0Mi", "0"),
            ("1.1Ki", "1126400m"),
            ("0.5Ki", "512"),
            ("2000", "2k"),
            ("1e3", "1e3"),
            ("1E3", "1E3"),
            ("12e4", "120e3"),
            ("1E", "1E"),
            ("-1500m", "-1500m"),
            ("+1.50", "1500m"),
            (".5", "500m"),
            ("1.", "1."),
            ("1.500", "1.500"),
            ("2.000", "2"),
            ("0.0000000001", "1n"),
            ("99999999999999999999", "99999999999999999999"),
            ("1.00000000000000000000000000000000000000000001", "1000000001n"),
            ("0.9999999999", "1"),
            ("100E", "100E"),
            ("e3", "0"),
            ("-", "0"),
            ("10Ei", "9223372036854775807"),
            ("1.5Ei", "1536Pi"),
            ("0.1Ki", "102400m"),
            ("0.00000000000000000001Gi", "1n"),
        ] {
            assert_eq!(canonical(text).as_deref(), Ok(out), "{text}");
        }
    }

    #[test]
    fn quantities_are_counted_in_nano_units() {
        for (text, nanos) in [
            ("1", 1_000_000_000),
            ("100m", 100_000_000),
            ("1.5", 1_500_000_000),
            ("-1Ki", -1_024_000_000_000),
            ("0.1n", 1),
            ("1e3", 1_000_000_000_000),
            ("0", 0),
            ("1e-30", 1),
        ] {
            assert_eq!(super::nanos(text), Some(nanos), "{text}");
        }
        assert_eq!(super::nanos("1e400"), Some(CAP * NANO));
        assert_eq!(super::nanos("x"), None);
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "1.2.3", "1 Gi", "1x", "1Gii", "0x10", "1e", "é"] {
            assert!(canonical(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn canonical_form_is_stable(text in "[+-]?[0-9]{0,40}[.]?[0-9]{0,40}(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e[-+]?[0-9]{1,9})?") {
            if let Ok(once) = canonical(&text) {
                prop_assert_eq!(canonical(&once), Ok(once.clone()));
            }
        }

        #[test]
        fn never_panics(text in "\\PC*") {
            let _ = canonical(&text);
        }
    }
}
