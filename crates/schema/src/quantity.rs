//! Resource quantities in their canonical form: `1000m` is `1`, `0.5Gi` is `512Mi`.

use thiserror::Error;

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum QuantityError {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    #[error("unable to parse quantity's suffix")]
    Suffix,
    #[error("unable to parse numeric part of quantity")]
    Numeric,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Decimal,
    Exponent,
    Binary,
}

/// Digits (trailing zeros apart) kept as they are whatever the exponent; longer numbers are rounded up to nano units and capped.
/// Two fewer than a 64-bit mantissa holds, because the canonical exponent is a multiple of three.
const EXACT_DIGITS: usize = 16;
const CAP: i128 = i64::MAX as i128;
const NANO: i128 = 1_000_000_000;

/// The form the API writes for a quantity the user wrote.
pub fn canonical(text: &str) -> Result<String, QuantityError> {
    let (negative, digits, decimals, suffix) = split(text)?;
    let (style, exponent) = style_of(suffix)?;
    let (value, scale) = measure(&digits, decimals, style, exponent);
    Ok(render(if negative { -value } else { value }, scale, style))
}

/// Sign, all digits without leading zeros, how many of them are decimals, and the suffix.
fn split(text: &str) -> Result<(bool, String, usize, &str), QuantityError> {
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    if decimals.contains('.') || (whole.is_empty() && decimals.is_empty()) {
        return Err(QuantityError::Format);
    }
    let shape = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
    let shape = shape.strip_prefix(['-', '+']).unwrap_or(shape);
    if shape.bytes().any(|b| !b.is_ascii_digit()) {
        return Err(QuantityError::Format);
    }
    let digits = format!("{}{}", whole, decimals);
    Ok((negative, digits.trim_start_matches('0').to_owned(), decimals.len(), suffix))
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

/// The amount as `value * 10^scale`.
fn measure(digits: &str, decimals: usize, style: Style, exponent: i32) -> (i128, i32) {
    if digits.is_empty() {
        return (0, 0);
    }
    let places = i32::try_from(decimals).unwrap_or(i32::MAX);
    let (two, ten) = match style {
        Style::Binary => (exponent, places.saturating_neg()),
        Style::Decimal | Style::Exponent => (0, exponent.saturating_sub(places)),
    };
    let short = digits.trim_end_matches('0');
    let zeros = i32::try_from(digits.len() - short.len()).unwrap_or(i32::MAX);
    if short.len() <= EXACT_DIGITS && two == 0 && ten.saturating_add(zeros) >= -9 {
        return (short.parse().unwrap_or(CAP), ten.saturating_add(zeros));
    }
    // In nano units, rounded up; what does not fit the widest integer is far above the cap.
    let mut nanos = match digits.len() {
        ..=37 => digits.parse::<i128>().ok().and_then(|v| v.checked_mul(1 << two)),
        _ => None,
    };
    let mut shift = ten.saturating_add(9);
    while shift > 0 && nanos.is_some() {
        nanos = nanos.and_then(|v| v.checked_mul(10));
        shift -= 1;
    }
    let mut inexact = false;
    while shift < 0 {
        match nanos {
            Some(0) => break,
            Some(v) => {
                inexact |= v % 10 != 0;
                nanos = Some(v / 10);
            }
            // More digits than fit: drop them from the text instead.
            None => return long(digits, two, shift),
        }
        shift += 1;
    }
    let nanos = nanos.map(|v| v + i128::from(inexact)).filter(|v| *v <= CAP * NANO).unwrap_or(CAP * NANO);
    (nanos, -9)
}

/// A number with a tail of decimals too long to hold: only whole nano units are left of it.
fn long(digits: &str, two: i32, shift: i32) -> (i128, i32) {
    let drop = usize::try_from(shift.unsigned_abs()).unwrap_or(usize::MAX);
    // Keep ten digits more than needed so that the binary factor still multiplies an exact enough number.
    let keep = digits.len().saturating_sub(drop.saturating_sub(20));
    let kept = &digits[..keep.min(digits.len())];
    let left = i32::try_from(drop - (digits.len() - kept.len())).unwrap_or(i32::MAX);
    let value = if kept.len() > 37 { None } else { kept.parse::<i128>().ok().and_then(|v| v.checked_mul(1 << two)) };
    match value {
        None if kept.is_empty() => (1, -9),
        None => (CAP * NANO, -9),
        Some(mut v) => {
            for _ in 0..left.min(40) {
                v /= 10;
            }
            ((v + 1).min(CAP * NANO), -9)
        }
    }
}

fn render(value: i128, scale: i32, style: Style) -> String {
    if value == 0 {
        return "0".into();
    }
    if style == Style::Binary {
        let whole = (scale..0).try_fold(value, |v, _| (v % 10 == 0).then_some(v / 10));
        if let Some(mut whole) = whole.filter(|w| !(-1023..=1023).contains(w)) {
            let mut unit = 0;
            while whole % 1024 == 0 && unit < 6 {
                whole /= 1024;
                unit += 1;
            }
            return format!("{whole}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][unit]);
        }
    }
    let (mut value, mut scale) = (value, scale);
    while value % 10 == 0 {
        value /= 10;
        scale = scale.saturating_add(1);
    }
    while scale.rem_euclid(3) != 0 {
        value *= 10;
        scale -= 1;
    }
    let style = if style == Style::Binary { Style::Decimal } else { style };
    let suffix = match (style, scale) {
        (_, 0) => "",
        (Style::Decimal, -9) => "n",
        (Style::Decimal, -6) => "u",
        (Style::Decimal, -3) => "m",
        (Style::Decimal, 3) => "k",
        (Style::Decimal, 6) => "M",
        (Style::Decimal, 9) => "G",
        (Style::Decimal, 12) => "T",
        (Style::Decimal, 15) => "P",
        (Style::Decimal, 18) => "E",
        _ => return format!("{value}e{scale}"),
    };
    format!("{value}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;
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
            ("1E3", "1e3"),
            ("12e4", "120e3"),
            ("1E", "1E"),
            ("-1500m", "-1500m"),
            ("+1.50", "1500m"),
            (".5", "500m"),
            ("1.", "1"),
            ("0.0000000001", "1n"),
            ("99999999999999999999", "9223372036854775807"),
            ("1.00000000000000000000000000000000000000000001", "1000000001n"),
        ] {
            assert_eq!(canonical(text).as_deref(), Ok(out), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", ".", "-", "1.2.3", "1 Gi", "Gi", "1x", "1Gii", "0x10"] {
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
