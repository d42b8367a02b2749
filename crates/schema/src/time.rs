//! Times as Kubernetes reads and writes them: RFC 3339 in, UTC out, whole seconds (`Time`) or six digits (`MicroTime`).

const SECONDS_LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
const MICRO_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";
/// Year 1, the zero time of Go: written as null.
const ZERO: i64 = -62_135_596_800;
/// The end of year 9999: what lies beyond has no RFC 3339 form.
const END: i64 = 253_402_300_800;
/// The begin of year 0.
const BEGIN: i64 = -62_167_219_200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    Seconds,
    Micros,
}

/// A moment: seconds since 1970 and nanoseconds within the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub seconds: i64,
    pub nanos: u32,
}

impl Moment {
    pub fn is_zero(self) -> bool {
        self.seconds == ZERO && self.nanos == 0
    }

    /// `None` when the year has no four digits.
    pub fn format(self, precision: Precision) -> Option<String> {
        if !(BEGIN..END).contains(&self.seconds) {
            return None;
        }
        let (days, rest) = (self.seconds.div_euclid(86_400), self.seconds.rem_euclid(86_400));
        let (year, month, day) = date_of(days);
        let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
        let micros = match precision {
            Precision::Seconds => String::new(),
            Precision::Micros => format!(".{:06}", self.nanos / 1000),
        };
        Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{micros}Z"))
    }
}

/// Reads a time; the error is worded as the Go client expects it.
pub fn parse(text: &str, precision: Precision) -> Result<Moment, String> {
    let layout = match precision {
        Precision::Seconds => SECONDS_LAYOUT,
        Precision::Micros => MICRO_LAYOUT,
    };
    let mut reader = Reader { text, rest: text, layout };
    let year = reader.digits(4, "2006")?;
    reader.literal("-")?;
    let month = reader.digits(2, "01")?;
    if !(1..=12).contains(&month) {
        return Err(reader.out_of_range("month"));
    }
    reader.literal("-")?;
    let day = reader.digits(2, "02")?;
    reader.literal("T")?;
    let hour = reader.below(24, "15", "hour")?;
    reader.literal(":")?;
    let minute = reader.below(60, "04", "minute")?;
    reader.literal(":")?;
    let second = reader.below(60, "05", "second")?;
    let nanos = match precision {
        Precision::Seconds => reader.fraction(),
        Precision::Micros => reader.micros()?,
    };
    let offset = reader.offset()?;
    if !reader.rest.is_empty() {
        return Err(format!("parsing time {:?}: extra text: {:?}", text, reader.rest));
    }
    if day < 1 || day > days_in(year, month) {
        return Err(reader.out_of_range("day"));
    }
    let seconds = day_number(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    if !(BEGIN..END).contains(&seconds) {
        return Err(reader.out_of_range("year"));
    }
    Ok(Moment { seconds, nanos })
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl Reader<'_> {
    fn bad(&self, element: &str) -> String {
        format!("parsing time {:?} as {:?}: cannot parse {:?} as {:?}", self.text, self.layout, self.rest, element)
    }

    fn out_of_range(&self, what: &str) -> String {
        format!("parsing time {:?}: {what} out of range", self.text)
    }

    fn number(&self, count: usize) -> Option<i64> {
        let digits = self.rest.get(..count)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
    }

    fn digits(&mut self, count: usize, element: &str) -> Result<i64, String> {
        let number = self.number(count).ok_or_else(|| self.bad(element))?;
        self.rest = &self.rest[count..];
        Ok(number)
    }

    fn below(&mut self, limit: i64, element: &str, what: &str) -> Result<i64, String> {
        let number = self.digits(2, element)?;
        if number < limit { Ok(number) } else { Err(self.out_of_range(what)) }
    }

    fn literal(&mut self, text: &str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(text).ok_or_else(|| self.bad(text))?;
        Ok(())
    }

    /// Any number of digits after a dot, to the nanosecond.
    fn fraction(&mut self) -> u32 {
        let Some(after) = self.rest.strip_prefix(['.', ',']).filter(|a| a.starts_with(|c: char| c.is_ascii_digit()))
        else {
            return 0;
        };
        let count = after.bytes().take_while(u8::is_ascii_digit).count();
        let nanos = after
            .bytes()
            .chain(std::iter::repeat(b'0'))
            .enumerate()
            .take(9)
            .fold(0u32, |sum, (at, digit)| sum * 10 + if at < count { u32::from(digit - b'0') } else { 0 });
        self.rest = &after[count..];
        nanos
    }

    fn micros(&mut self) -> Result<u32, String> {
        let bad = self.bad(".000000");
        self.rest = self.rest.strip_prefix('.').ok_or_else(|| bad.clone())?;
        let micros = self.number(6).ok_or(bad)?;
        self.rest = &self.rest[6..];
        Ok(u32::try_from(micros).unwrap_or(0) * 1000)
    }

    fn offset(&mut self) -> Result<i64, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let bad = self.bad("Z07:00");
        let sign = match self.rest.as_bytes().first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Err(bad),
        };
        self.rest = &self.rest[1..];
        let hours = self.digits(2, "").map_err(|_| bad.clone())?;
        self.literal(":").map_err(|_| bad.clone())?;
        let minutes = self.digits(2, "").map_err(|_| bad)?;
        if hours > 24 {
            return Err(self.out_of_range("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(self.out_of_range("time zone offset minute"));
        }
        Ok(sign * (hours * 3600 + minutes * 60))
    }
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar; years are counted from March so that the leap day is last.
fn day_number(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_come_out_in_utc_seconds() {
        for (text, out) in [
            ("2024-02-29T23:59:59Z", "2024-02-29T23:59:59Z"),
            ("2024-03-01T01:30:00+02:00", "2024-02-29T23:30:00Z"),
            ("1969-12-31T23:59:59.987654321Z", "1969-12-31T23:59:59Z"),
            ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z"),
        ] {
            assert_eq!(parse(text, Precision::Seconds).unwrap().format(Precision::Seconds).unwrap(), out);
        }
        let micro = parse("2024-01-02T03:04:05.000120-01:00", Precision::Micros).unwrap();
        assert_eq!(micro.format(Precision::Micros).unwrap(), "2024-01-02T04:04:05.000120Z");
    }

    #[test]
    fn bad_times_are_told_in_the_words_of_go() {
        let error = |text, precision| parse(text, precision).unwrap_err();
        assert_eq!(
            error("yesterday", Precision::Seconds),
            r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#
        );
        assert_eq!(
            error("2024-13-01T00:00:00Z", Precision::Seconds),
            r#"parsing time "2024-13-01T00:00:00Z": month out of range"#
        );
        assert_eq!(
            error("2023-02-29T00:00:00Z", Precision::Seconds),
            r#"parsing time "2023-02-29T00:00:00Z": day out of range"#
        );
        assert_eq!(
            error("2024-01-01T00:00:00Z", Precision::Micros),
            r#"parsing time "2024-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#
        );
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(seconds in BEGIN..END, micros in 0u32..1_000_000) {
            let moment = Moment { seconds, nanos: micros * 1000 };
            prop_assert_eq!(parse(&moment.format(Precision::Micros).unwrap(), Precision::Micros), Ok(moment));
        }

        #[test]
        fn never_panics(text in "\\PC*", prefix in 0usize..26) {
            let mixed: String = "2024-01-02T03:04:05.000+01:00".chars().take(prefix).chain(text.chars()).collect();
            let _ = parse(&mixed, Precision::Seconds);
            let _ = parse(&mixed, Precision::Micros);
        }
    }
}
