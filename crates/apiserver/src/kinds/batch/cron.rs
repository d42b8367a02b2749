//! Schedules of CronJobs: five cron fields or a descriptor, refused in the words of the parser Kubernetes uses.

struct Bounds {
    min: u64,
    max: u64,
    /// Names that stand for `min`, `min + 1`, …
    names: &'static [&'static str],
}

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Minute, hour, day of month, month, day of week.
const FIELDS: [Bounds; 5] = [
    Bounds { min: 0, max: 59, names: &[] },
    Bounds { min: 0, max: 23, names: &[] },
    Bounds { min: 1, max: 31, names: &[] },
    Bounds { min: 1, max: 12, names: MONTHS },
    Bounds { min: 0, max: 6, names: DAYS },
];

const DESCRIPTORS: &[&str] = &["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// The time zones of the IANA database, one to a line, sorted.
const ZONES: &str = include_str!("timezones.txt");

/// Why a schedule is not one.
pub fn check(spec: &str) -> Result<(), String> {
    let spec = match spec.strip_prefix("TZ=").or_else(|| spec.strip_prefix("CRON_TZ=")) {
        Some(rest) => {
            let (zone, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            if !is_zone(zone) {
                return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
            }
            rest.trim()
        }
        None => spec,
    };
    if spec.starts_with('@') {
        return descriptor(spec);
    }
    let fields: Vec<&str> = spec.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    let ranges = fields.iter().zip(&FIELDS);
    let mut ranges = ranges.flat_map(|(field, bounds)| field.split(',').map(move |expr| (expr, bounds)));
    ranges.try_for_each(|(expr, bounds)| if expr.is_empty() { Ok(()) } else { range(expr, bounds) })
}

/// Whether the IANA database knows the zone.
pub fn is_zone(name: &str) -> bool {
    matches!(name, "" | "UTC" | "Local") || ZONES.lines().any(|zone| zone == name)
}

/// `number`, `number-number`, `*` or `?`, each with an optional `/step`.
fn range(expr: &str, bounds: &Bounds) -> Result<(), String> {
    let mut parts = expr.split('/');
    let span = parts.next().unwrap_or_default();
    let limits: Vec<&str> = span.split('-').collect();
    let (start, mut end) = match limits.as_slice() {
        ["*" | "?", ..] => (bounds.min, bounds.max),
        [one] => number_or_name(one, bounds).map(|n| (n, n))?,
        [low, high] => (number_or_name(low, bounds)?, number_or_name(high, bounds)?),
        [low, ..] => {
            number_or_name(low, bounds)?;
            return Err(format!("too many hyphens: {expr}"));
        }
        [] => return Ok(()),
    };
    let step = match (parts.next(), parts.next()) {
        (None, _) => 1,
        (Some(step), None) => {
            let step = number(step)?;
            // `N/step` goes on to the last value.
            end = if limits.len() == 1 { bounds.max } else { end };
            step
        }
        (Some(_), Some(_)) => return Err(format!("too many slashes: {expr}")),
    };
    if start < bounds.min {
        return Err(format!("beginning of range ({start}) below minimum ({}): {expr}", bounds.min));
    }
    if end > bounds.max {
        return Err(format!("end of range ({end}) above maximum ({}): {expr}", bounds.max));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {expr}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {expr}"));
    }
    Ok(())
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u64, String> {
    match bounds.names.iter().position(|name| text.eq_ignore_ascii_case(name)) {
        Some(at) => Ok(bounds.min + at as u64),
        None => number(text),
    }
}

/// As Go's Atoi reads and refuses.
fn number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"));
    }
    match text.parse::<i64>() {
        Err(_) => Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: value out of range")),
        Ok(n) => u64::try_from(n).map_err(|_| format!("negative number ({n}) not allowed: {text}")),
    }
}

fn descriptor(spec: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&spec) {
        return Ok(());
    }
    match spec.strip_prefix("@every ") {
        Some(text) => duration(text).map_err(|why| format!("failed to parse duration {spec}: {why}")),
        None => Err(format!("unrecognized descriptor: {spec}")),
    }
}

/// A Go duration such as `1h30m`.
fn duration(text: &str) -> Result<(), String> {
    let invalid = || format!("time: invalid duration {text:?}");
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Ok(());
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    while !rest.is_empty() {
        let amount = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (digits, after) = rest.split_at(amount);
        if !digits.bytes().any(|b| b.is_ascii_digit()) || digits.matches('.').count() > 1 {
            return Err(invalid());
        }
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        match unit {
            "" => return Err(format!("time: missing unit in duration {text:?}")),
            "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h" => rest = after,
            _ => return Err(format!("time: unknown unit {unit:?} in duration {text:?}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn schedules_people_write_are_accepted() {
        for spec in [
            "* * * * *",
            "*/5 * * * *",
            "0 0 1 1 ?",
            "0,30 9-17 * jan-mar MON-fri",
            "5/10 * * * *",
            "@hourly",
            "@every 1h30m",
            "@every 1.5s",
            "TZ=Europe/Berlin 0 0 * * *",
            "  0 0 * * *  ",
            "*-7 * * * *",
            ", * * * *",
        ] {
            assert_eq!(check(spec), Ok(()), "{spec}");
        }
    }

    #[test]
    fn refusals_are_in_the_parsers_words() {
        for (spec, why) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("30-10 * * * *", "beginning of range (30) beyond end of range (10): 30-10"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("*/-1 * * * *", "negative number (-1) not allowed: -1"),
            ("a * * * *", "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("@often", "unrecognized descriptor: @often"),
            ("@every day", "failed to parse duration @every day: time: invalid duration \"day\""),
            ("@every 5", "failed to parse duration @every 5: time: missing unit in duration \"5\""),
            ("@every 5x", "failed to parse duration @every 5x: time: unknown unit \"x\" in duration \"5x\""),
            ("TZ=Mars/Base 0 0 * * *", "provided bad location Mars/Base: unknown time zone Mars/Base"),
        ] {
            assert_eq!(check(spec), Err(why.to_owned()), "{spec}");
        }
    }

    #[test]
    fn zones_are_those_of_the_database() {
        assert!(is_zone("Europe/Berlin") && is_zone("UTC") && is_zone("Etc/GMT+1"));
        assert!(!is_zone("Mars/Base") && !is_zone("europe/berlin"));
    }

    proptest! {
        #[test]
        fn no_schedule_breaks_the_parser(spec in "[-*?/,@0-9a-zA-Z =µ.]{0,40}") {
            let _ = check(&spec);
        }
    }
}
