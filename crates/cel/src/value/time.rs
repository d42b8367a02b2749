//! Points in time and spans of it, read and written as Go does.

use jiff::tz::TimeZone;

/// The first and last second of the years 1 to 9999.
const RANGE: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Timestamp {
    pub seconds: i64,
    pub nanos: i32,
    /// Seconds east of UTC it was written in; only matters when it is written again.
    offset: i32,
}

impl Timestamp {
    /// What two timestamps are compared by.
    pub fn instant(&self) -> (i64, i32) {
        (self.seconds, self.nanos)
    }

    pub fn add(&self, nanos: i64) -> Option<Timestamp> {
        let total = i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanos) + i128::from(nanos);
        let seconds = i64::try_from(total.div_euclid(1_000_000_000)).ok()?;
        let nanos = total.rem_euclid(1_000_000_000) as i32;
        RANGE.contains(&seconds).then_some(Timestamp { seconds, nanos, offset: self.offset })
    }

    pub fn since(&self, earlier: &Timestamp) -> Option<i64> {
        let seconds = i128::from(self.seconds) - i128::from(earlier.seconds);
        i64::try_from(seconds * 1_000_000_000 + i128::from(self.nanos - earlier.nanos)).ok()
    }

    /// Date and time of day in a time zone: a name, or hours and minutes from UTC.
    pub fn civil(&self, zone: Option<&str>) -> Result<Civil, String> {
        let offset = match zone {
            None => 0,
            Some(zone) => match parse_offset(zone) {
                Some(seconds) => seconds,
                None => {
                    let zone = TimeZone::get(zone).map_err(|_| format!("unknown time zone {zone}"))?;
                    // The last day of the year 9999 is beyond jiff, and of no zone's rules.
                    let at = jiff::Timestamp::from_second(self.seconds).unwrap_or(jiff::Timestamp::MAX);
                    zone.to_offset(at).seconds()
                }
            },
        };
        Ok(Civil::new(self.seconds + i64::from(offset), self.nanos))
    }
}

/// A date and a time of day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Civil {
    pub year: i64,
    /// From 1, as are the days.
    pub month: i64,
    pub day: i64,
    pub day_of_year: i64,
    /// From 0, which is Sunday.
    pub weekday: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub millisecond: i64,
}

impl Civil {
    fn new(seconds: i64, nanos: i32) -> Civil {
        let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        // Counted from a first of March, so that the odd day is the last of a year: 146097 days are 400 years.
        let shifted = days + 719_468;
        let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * of_year + 2) / 153;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Civil {
            year,
            month,
            day: of_year - (153 * shifted_month + 2) / 5 + 1,
            day_of_year: days - days_before(year, 1, 1) + 1,
            weekday: (days + 4).rem_euclid(7),
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
            millisecond: i64::from(nanos) / 1_000_000,
        }
    }
}

/// Days from 1970 to a date.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn days_in(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Civil { year, month, day, hour, minute, second, .. } =
            Civil::new(self.seconds + i64::from(self.offset), self.nanos);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if self.nanos != 0 {
            write!(f, ".{}", format!("{:09}", self.nanos).trim_end_matches('0'))?;
        }
        if self.offset == 0 {
            return f.write_str("Z");
        }
        let sign = if self.offset < 0 { '-' } else { '+' };
        write!(f, "{sign}{:02}:{:02}", self.offset.abs() / 3600, self.offset.abs() / 60 % 60)
    }
}

/// `+01:30`, `-8:00`, `02:00`: with a colon it is no name.
fn parse_offset(text: &str) -> Option<i32> {
    let (hours, minutes) = text.split_once(':')?;
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let minutes = if text.starts_with('-') { -minutes } else { minutes };
    hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)
}

pub(crate) fn timestamp_from_seconds(seconds: i64) -> Option<Timestamp> {
    RANGE.contains(&seconds).then_some(Timestamp { seconds, nanos: 0, offset: 0 })
}

/// RFC 3339, with any number of fractional digits.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = bytes.get(from..to)?;
        digits.iter().all(u8::is_ascii_digit).then(|| digits.iter().fold(0, |n, d| n * 10 + i64::from(d - b'0')))
    };
    let at = |index: usize, wanted: u8| bytes.get(index) == Some(&wanted);
    if !(at(4, b'-') && at(7, b'-') && at(10, b'T') && at(13, b':') && at(16, b':')) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let valid = (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
    if !valid || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut rest = &text[19..];
    let mut nanos = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if length == 0 {
            return None;
        }
        nanos = fraction.bytes().take(length.min(9)).fold(0, |n, d| n * 10 + i32::from(d - b'0'));
        nanos *= 10i32.pow(9 - length.min(9) as u32);
        rest = &fraction[length..];
    }
    let offset = match rest.as_bytes() {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] if [h1, h2, m1, m2].iter().all(|d| d.is_ascii_digit()) => {
            let two = |tens: &u8, ones: &u8| i32::from(tens - b'0') * 10 + i32::from(ones - b'0');
            let (hours, minutes) = (two(h1, h2), two(m1, m2));
            if hours > 23 || minutes > 59 {
                return None;
            }
            (hours * 3600 + minutes * 60) * if *sign == b'-' { -1 } else { 1 }
        }
        _ => return None,
    };
    let seconds = days_before(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - i64::from(offset);
    RANGE.contains(&seconds).then_some(Timestamp { seconds, nanos, offset })
}

/// Go's duration syntax: `1h30m`, `-1.5s`, `0`.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let whole: i128 = if digits == 0 { 0 } else { rest[..digits].parse().ok()? };
        rest = &rest[digits..];
        let mut fraction = "";
        if let Some(after) = rest.strip_prefix('.') {
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            fraction = &after[..digits];
            rest = &after[digits..];
        }
        if digits == 0 && fraction.is_empty() {
            return None;
        }
        let length = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
        let unit: i128 = match &rest[..length] {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        rest = &rest[length..];
        total = total.checked_add(whole.checked_mul(unit)?)?;
        if !fraction.is_empty() {
            // More digits than these are below a nanosecond of an hour.
            let kept = &fraction[..fraction.len().min(18)];
            total += kept.parse::<i128>().ok()? * unit / 10i128.pow(kept.len() as u32);
        }
        if total > 1 << 64 {
            return None;
        }
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// What format `duration` allows beyond Go's syntax: one number and a spelt-out unit (`3 days`, `2 weeks`).
pub(crate) fn parse_lenient_duration(text: &str) -> Option<i64> {
    if let Some(nanos) = parse_duration(text) {
        return Some(nanos);
    }
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let count: i64 = text[..digits].parse().ok()?;
    let unit: i64 = match text[digits..].trim_start().to_ascii_lowercase().trim_end_matches('s') {
        "n" | "nano" | "nanosecond" => 1,
        "u" | "micro" | "microsecond" => 1_000,
        "m" if text.to_ascii_lowercase().ends_with("ms") => 1_000_000,
        "milli" | "millisecond" => 1_000_000,
        "" | "sec" | "second" => 1_000_000_000,
        "m" | "min" | "minute" => 60_000_000_000,
        "h" | "hr" | "hour" => 3_600_000_000_000,
        "d" | "day" => 86_400_000_000_000,
        "w" | "wk" | "week" => 604_800_000_000_000,
        _ => return None,
    };
    count.checked_mul(unit)
}

/// Seconds, with as many decimals as needed.
pub(crate) fn format_duration(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let (seconds, rest) = (nanos.unsigned_abs() / 1_000_000_000, nanos.unsigned_abs() % 1_000_000_000);
    if rest == 0 {
        return format!("{sign}{seconds}s");
    }
    let fraction = format!("{rest:09}");
    format!("{sign}{seconds}.{}s", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        let cases = [
            ("1h30m", "5400s"),
            ("-1.5s", "-1.5s"),
            (".5s", "0.5s"),
            ("0", "0s"),
            ("1ns", "0.000000001s"),
            ("+2m", "120s"),
        ];
        for (text, shown) in cases {
            assert_eq!(format_duration(parse_duration(text).unwrap()), shown);
        }
        for bad in ["", "1", "1d", "1 h", "-", ".s", "1.2.3s", "99999999999999999999h", "s", "é"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
        assert_eq!(parse_lenient_duration("3 days"), Some(259_200_000_000_000));
    }

    #[test]
    fn timestamps_keep_how_they_were_written() {
        let same = [
            "9999-12-31T23:59:59.999999999Z",
            "2000-02-29T23:00:00-11:30",
            "2024-01-01T00:00:00+02:00",
            "2024-02-29T12:30:45.12Z",
            "0001-01-01T00:00:00Z",
            "1969-12-31T23:59:59.5Z",
        ];
        for text in same {
            assert_eq!(parse_timestamp(text).unwrap().to_string(), text);
        }
        for bad in [
            "",
            "2024-01-01",
            "2023-02-29T00:00:00Z",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:00:00",
            "10000-01-01T00:00:00Z",
            "2024-01-01T00:00:00.Z",
        ] {
            assert!(parse_timestamp(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn zones_are_names_or_offsets() {
        let summer = parse_timestamp("2024-07-01T00:00:00Z").unwrap();
        assert_eq!(summer.civil(Some("Europe/Berlin")).unwrap().hour, 2);
        assert_eq!(summer.civil(Some("-02:00")).unwrap().hour, 22);
        assert_eq!(summer.civil(Some("+01:30")).unwrap().minute, 30);
        assert!(summer.civil(Some("Nowhere")).is_err());
    }
}
