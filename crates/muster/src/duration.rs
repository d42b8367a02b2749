//! Durations as Go writes them: `300ms`, `1m30s`, `1.5h`.

use std::time::Duration;

/// Units with their length in nanoseconds, longer names first where one begins another.
const UNITS: [(&str, f64); 8] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 6e10), ("h", 3.6e12)];

pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration; write it like 300ms, 90s, 1m30s or 1.5h");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut nanos = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, after) = rest.split_at(digits);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let (_, length) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        nanos += number * length;
        rest = after;
    }
    // Go's own limit: about 292 years.
    if nanos > i64::MAX as f64 {
        return Err(format!("{text:?} is too long"));
    }
    Ok(Duration::from_nanos(nanos.round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, millis) in [
            ("0", 0),
            ("60m", 3_600_000),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            ("300ms", 300),
            ("+1s", 1000),
            (".5s", 500),
            ("1h0m1s", 3_601_000),
            ("1000000ns", 1),
            ("1000µs", 1),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for wrong in ["", "5", "s", "-1s", "1x", "1s2", "1.2.3s", "1 s", "1d", "99999999h", "."] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
