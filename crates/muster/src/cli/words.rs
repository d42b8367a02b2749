//! Text that comes from clusters, made fit for a terminal: harmless, short, in the units people read.

use jiff::Timestamp;

/// One line without control characters and without marks that turn text around, at most `longest` characters.
pub fn readable(text: &str, longest: usize) -> String {
    let line: String = text.chars().map(|c| if is_harmless(c) { c } else { ' ' }).collect();
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(longest) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

fn is_harmless(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Output of containers for a terminal: lines stay lines, and nothing in them steers it. What is no text is replaced.
pub fn harmless(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars()
        .filter(|c| *c != '\r')
        .map(|c| if matches!(c, '\n' | '\t') || is_harmless(c) { c } else { '\u{fffd}' })
        .collect()
}

/// How long ago, as kubectl says it: `45s`, `12m`, `3h`, `9d`.
pub fn age(stamp: &str, now: Timestamp) -> String {
    let Ok(then) = stamp.parse::<Timestamp>() else { return "-".to_owned() };
    let seconds = now.as_second().saturating_sub(then.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{minutes}m"),
        7200..172_800 => format!("{hours}h"),
        _ => format!("{days}d"),
    }
}

/// Bytes in binary units: `512Mi`, `1.5Gi`.
pub fn bytes(count: f64) -> String {
    let units = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
    let (mut value, mut unit) = (count.max(0.0), 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{}{}", short(value), units[unit])
}

/// Cores: `250m`, `1.5`, `16`.
pub fn cores(count: f64) -> String {
    if count > 0.0 && count < 1.0 { format!("{}m", (count * 1000.0).round()) } else { short(count) }
}

fn short(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0;
    if rounded.fract() == 0.0 || rounded >= 100.0 { format!("{:.0}", rounded) } else { format!("{rounded:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clusters_say_does_not_steer_the_terminal() {
        // B-14
        assert_eq!(readable("a\u{1b}[31m\n\u{202e}b\tc", 80), "a [31m b c");
        assert_eq!(readable("abcdef", 3), "abc…");
        assert_eq!(harmless(b"one\r\n\x1b]0;title\x07two\t\xff\n"), "one\n\u{fffd}]0;title\u{fffd}two\t\u{fffd}\n");
    }

    #[test]
    fn figures_are_short() {
        let now: Timestamp = "2026-01-10T00:00:00Z".parse().unwrap();
        for (stamp, said) in [
            ("2026-01-09T23:59:15Z", "45s"),
            ("2026-01-09T23:48:00Z", "12m"),
            ("2026-01-09T21:00:00Z", "3h"),
            ("2026-01-01T00:00:00Z", "9d"),
            ("2026-02-01T00:00:00Z", "0s"),
            ("soon", "-"),
        ] {
            assert_eq!(age(stamp, now), said, "{stamp}");
        }
        assert_eq!(
            (bytes(0.0), bytes(1536.0), bytes(64.0 * 1024.0 * 1024.0 * 1024.0)),
            ("0".into(), "1.5Ki".into(), "64Gi".into())
        );
        assert_eq!(
            (cores(0.25), cores(1.5), cores(16.0), cores(0.0)),
            ("250m".into(), "1.5".into(), "16".into(), "0".into())
        );
    }
}
