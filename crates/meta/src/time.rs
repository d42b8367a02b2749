//! Time as Kubernetes writes it, and the clock that tests replace.

use jiff::Timestamp;
use std::time::Duration;

/// Where "now" comes from; tests set it.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}

pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// `2026-01-02T03:04:05Z`: metadata times have second precision.
pub fn seconds(t: Timestamp) -> String {
    t.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Reads any RFC 3339 time.
pub fn parse(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// How long ago, as tables show it: `5m`, `3h12m`, `2d`.
pub fn age(since: &str, now: Timestamp) -> String {
    let Some(then) = parse(since) else { return "<unknown>".into() };
    let elapsed = now.duration_since(then).as_secs();
    if elapsed < -1 {
        return "<invalid>".into();
    }
    human(Duration::from_secs(elapsed.max(0).unsigned_abs()))
}

/// Two significant units at most, fewer the longer it is.
pub fn human(d: Duration) -> String {
    let s = d.as_secs();
    let (m, h, days) = (s / 60, s / 3600, s / 86400);
    let pair = |big: u64, unit: char, small: u64, small_unit: char| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{small_unit}") }
    };
    match s {
        0..120 => format!("{s}s"),
        120..600 => pair(m, 'm', s % 60, 's'),
        600..10_800 => format!("{m}m"),
        10_800..28_800 => pair(h, 'h', m % 60, 'm'),
        28_800..172_800 => format!("{h}h"),
        172_800..691_200 => pair(days, 'd', h % 24, 'h'),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => pair(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_like_kubectl() {
        let table = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (10_740, "179m"),
            (10_800, "3h"),
            (11_520, "3h12m"),
            (28_800, "8h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
        ];
        for (secs, want) in table {
            assert_eq!(human(Duration::from_secs(secs)), want, "{secs}");
        }
    }

    #[test]
    fn a_time_in_the_future_is_named_so() {
        let now = parse("2026-01-01T00:00:00Z").unwrap();
        assert_eq!(age("2026-01-01T00:01:00Z", now), "<invalid>");
        assert_eq!(age("nonsense", now), "<unknown>");
        assert_eq!(seconds(now), "2026-01-01T00:00:00Z");
    }
}
