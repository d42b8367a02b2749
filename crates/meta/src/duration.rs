//! Durations as Go writes them: `300ms`, `1m30s`, `-1.5h`.

use jiff::SignedDuration;

/// Units with their length in nanoseconds.
const UNITS: [(&str, f64); 8] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 6e10), ("h", 3.6e12)];

/// In Go's words, which clients know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("time: invalid duration {0:?}")]
    Invalid(String),
    #[error("time: missing unit in duration {0:?}")]
    MissingUnit(String),
    #[error("time: unknown unit {0:?} in duration {1:?}")]
    UnknownUnit(String, String),
}

pub fn parse(text: &str) -> Result<SignedDuration, Error> {
    let invalid = || Error::Invalid(text.to_owned());
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let mut nanos = 0.0;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c| !is_number(c)).unwrap_or(rest.len()));
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let (unit, after) = after.split_at(after.find(is_number).unwrap_or(after.len()));
        if unit.is_empty() {
            return Err(Error::MissingUnit(text.to_owned()));
        }
        let known = UNITS.iter().find(|(name, _)| *name == unit);
        let (_, length) = known.ok_or_else(|| Error::UnknownUnit(unit.to_owned(), text.to_owned()))?;
        nanos += number * length;
        rest = after;
    }
    // Go's own limit: about 292 years.
    if nanos >= i64::MAX as f64 {
        return Err(invalid());
    }
    let nanos = nanos.round() as i64;
    Ok(SignedDuration::from_nanos(if negative { -nanos } else { nanos }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, millis) in [
            ("0", 0),
            ("-0", 0),
            ("0s", 0),
            ("60m", 3_600_000),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            ("300ms", 300),
            ("+1s", 1000),
            ("-1s", -1000),
            (".5s", 500),
            ("1h0m1s", 3_601_000),
            ("1000000ns", 1),
            ("1000µs", 1),
        ] {
            assert_eq!(parse(text), Ok(SignedDuration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_in_the_words_of_go() {
        for (text, words) in [
            ("", "time: invalid duration \"\""),
            ("-", "time: invalid duration \"-\""),
            ("s", "time: invalid duration \"s\""),
            (".", "time: invalid duration \".\""),
            ("1.2.3s", "time: invalid duration \"1.2.3s\""),
            ("99999999h", "time: invalid duration \"99999999h\""),
            ("5", "time: missing unit in duration \"5\""),
            ("1s2", "time: missing unit in duration \"1s2\""),
            ("1x", "time: unknown unit \"x\" in duration \"1x\""),
            ("1 s", "time: unknown unit \" s\" in duration \"1 s\""),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), words);
        }
    }
}
