//! Durations of the command line, as Go writes them: `300ms`, `1m30s`, `1.5h`.

use std::time::Duration;

pub fn parse(text: &str) -> Result<Duration, String> {
    let parsed = meta::duration::parse(text).ok().and_then(|duration| Duration::try_from(duration).ok());
    parsed.ok_or_else(|| format!("{text:?} is not a duration; write it like 300ms, 90s, 1m30s or 1.5h"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_units_and_does_not_go_back_in_time() {
        assert_eq!(parse("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("0"), Ok(Duration::ZERO));
        for wrong in ["", "5", "-1s", "1d", "99999999h"] {
            assert!(parse(wrong).is_err_and(|why| why.contains("write it like")), "{wrong}");
        }
    }
}
