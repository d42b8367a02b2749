//! Dates, times and durations.

pub(super) fn date(text: &str) -> bool {
    let digits = |range: std::ops::Range<usize>| {
        let part = text.get(range)?;
        part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse::<u32>().ok())?
    };
    if text.len() != 10 || text.as_bytes()[4] != b'-' || text.as_bytes()[7] != b'-' {
        return false;
    }
    let (Some(year), Some(month), Some(day)) = (digits(0..4), digits(5..7), digits(8..10)) else { return false };
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// A date, a `t` in either case, `hh:mm:ss`, perhaps a fraction, and a zone. The character before the fraction may be any.
pub(super) fn date_time(text: &str) -> bool {
    let mut parts = text.split(['t', 'T']);
    let (Some(day), Some(time)) = (parts.next(), parts.next()) else { return false };
    let bytes = time.as_bytes();
    let two = |at: usize, most: &[u8]| {
        bytes.get(at..at + 2).is_some_and(|part| part.iter().all(u8::is_ascii_digit) && part <= most)
    };
    let clock = two(0, b"23") && two(3, b"59") && two(6, b"59");
    if !date(day) || !clock || bytes[2] != b':' || bytes[5] != b':' {
        return false;
    }
    let Some(rest) = time.get(8..) else { return false };
    let clock = match rest.strip_suffix(['z', 'Z']) {
        Some(clock) => clock,
        None => match rest.len().checked_sub(6).filter(|at| rest.is_char_boundary(*at)) {
            Some(at) => {
                let (clock, zone) = rest.split_at(at);
                let zone = zone.as_bytes();
                let digit = |at: usize| zone[at].is_ascii_digit();
                if !(b"+-".contains(&zone[0]) && zone[3] == b':' && digit(1) && digit(2) && digit(4) && digit(5)) {
                    return false;
                }
                clock
            }
            None => return false,
        },
    };
    let mut fraction = clock.chars();
    match fraction.next() {
        None => true,
        Some(_) => !fraction.as_str().is_empty() && fraction.all(|c| c.is_ascii_digit()),
    }
}

/// Go's durations, and words as Scala writes them: `22 ns`, `3 days`. Anything around such a pair is passed over.
pub(super) fn duration(text: &str) -> bool {
    go_duration(text) || worded_duration(text)
}

fn go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    let mut total = 0f64;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        let (digits, after) = rest.split_at(number);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_end);
        let scale = match unit {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            _ => return false,
        };
        if digits.matches('.').count() > 1 || !digits.bytes().any(|b| b.is_ascii_digit()) {
            return false;
        }
        total += digits.parse::<f64>().unwrap_or_default() * scale;
        rest = next;
    }
    total <= 9_223_372_036_854_775_807.0
}

fn worded_duration(text: &str) -> bool {
    const UNITS: [(&[&str], &str); 8] = [
        (&["ns"], "nano"),
        (&["us", "µs"], "micro"),
        (&["ms"], "milli"),
        (&["s"], "sec"),
        (&["m"], "min"),
        (&["h", "hr"], "hour"),
        (&["d"], "day"),
        (&["w", "wk"], "week"),
    ];
    let mut known = false;
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        rest = &rest[start..];
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
        let spaced = after.trim_start_matches(|c: char| c.is_ascii_whitespace());
        let letters = |c: char| c.is_ascii_alphabetic() || c == 'µ';
        let (unit, next) = spaced.split_at(spaced.find(|c| !letters(c)).unwrap_or(spaced.len()));
        rest = if unit.is_empty() { after } else { next };
        if unit.is_empty() {
            continue;
        }
        if number.parse::<i64>().is_err() {
            return false;
        }
        let unit = unit.to_lowercase();
        known |= UNITS.iter().any(|(exact, stem)| exact.contains(&unit.as_str()) || unit.starts_with(stem));
    }
    known
}
