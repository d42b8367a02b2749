//! Cron schedules: when the next time is.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// A schedule that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// A star in one of the day fields: then the other alone decides, else either does.
    any_day: bool,
    any_weekday: bool,
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// A schedule that has no time within five years has none.
const HORIZON_DAYS: usize = 5 * 366;

impl Schedule {
    /// Five fields or `@hourly` and the like; none when it cannot be read (the API server refuses such).
    pub fn parse(text: &str) -> Option<Self> {
        let text = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            text => text,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else { return None };
        let star = |field: &str| field.starts_with('*') || field.starts_with('?');
        let mut week = field(weekdays, 0, 7, &WEEKDAYS, 0)?;
        // Sunday is 0 and 7.
        week |= week >> 7 & 1;
        Some(Self {
            minutes: field(minutes, 0, 59, &[], 0)?,
            hours: field(hours, 0, 23, &[], 0)?,
            days: field(days, 1, 31, &[], 0)?,
            months: field(months, 1, 12, &MONTHS, 1)?,
            weekdays: week,
            any_day: star(days),
            any_weekday: star(weekdays),
        })
    }

    fn on(&self, day: DateTime) -> bool {
        let month = self.months >> day.month() & 1 == 1;
        let date = self.days >> day.day() & 1 == 1;
        let week = self.weekdays >> day.weekday().to_sunday_zero_offset() & 1 == 1;
        month && if self.any_day || self.any_weekday { date && week } else { date || week }
    }

    /// The first time after the given one.
    pub fn after(&self, time: Timestamp) -> Option<Timestamp> {
        let zone = TimeZone::UTC;
        let mut at = time.to_zoned(zone.clone()).datetime().with().second(0).subsec_nanosecond(0).build().ok()?;
        at = at.checked_add(1.minute()).ok()?;
        for _ in 0..HORIZON_DAYS {
            if self.on(at) {
                let today = at.date();
                while at.date() == today {
                    if self.hours >> at.hour() & 1 == 1 && self.minutes >> at.minute() & 1 == 1 {
                        return Some(at.to_zoned(zone).ok()?.timestamp());
                    }
                    at = at.checked_add(1.minute()).ok()?;
                }
            } else {
                at = at.date().tomorrow().ok()?.to_datetime(jiff::civil::Time::midnight());
            }
        }
        None
    }
}

/// One field as a set of bits.
fn field(text: &str, low: u32, high: u32, names: &[&str], first: u32) -> Option<u64> {
    let number = |text: &str| {
        let named = names.iter().position(|name| text.eq_ignore_ascii_case(name)).and_then(|i| u32::try_from(i).ok());
        named.map(|i| i + first).or_else(|| text.parse().ok()).filter(|n| (low..=high).contains(n))
    };
    text.split(',').try_fold(0u64, |bits, part| {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse().ok().filter(|step| *step > 0)?),
            None => (part, 1),
        };
        let (from, to) = match range.split_once('-') {
            _ if matches!(range, "*" | "?") => (low, high),
            Some((from, to)) => (number(from)?, number(to)?),
            None if part.contains('/') => (number(range)?, high),
            None => (number(range)?, number(range)?),
        };
        Some((from..=to).step_by(step).fold(bits, |bits, n| bits | 1 << n))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_time_is_found() {
        for (schedule, after, next) in [
            ("* * * * *", "2026-01-01T00:00:30Z", "2026-01-01T00:01:00Z"),
            ("*/15 * * * *", "2026-01-01T00:16:00Z", "2026-01-01T00:30:00Z"),
            ("0 3 * * mon-fri", "2026-01-02T03:00:00Z", "2026-01-05T03:00:00Z"),
            ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 1 * 0", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
            ("@daily", "2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z"),
            ("5,10-12/2 1 * jan 7", "2026-01-01T00:00:00Z", "2026-01-04T01:05:00Z"),
        ] {
            let schedule = Schedule::parse(schedule).unwrap();
            assert_eq!(schedule.after(after.parse().unwrap()).unwrap(), next.parse().unwrap(), "{schedule:?}");
        }
        for wrong in ["", "* * * *", "60 * * * *", "*/0 * * * *", "x * * * *", "0 0 31 2 * *"] {
            assert_eq!(Schedule::parse(wrong), None, "{wrong}");
        }
        let never = Schedule::parse("0 0 31 2 *").unwrap();
        assert_eq!(never.after("2026-01-01T00:00:00Z".parse().unwrap()), None);
    }
}
