//! How single values are written.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use jiff::SignedDuration;

/// `ADDRESS:PORT`; `:PORT` is every address, `PORT` alone this machine; `0` is off.
pub fn address(text: &str) -> Result<Option<SocketAddr>, &'static str> {
    let wrong =
        "it must be an address such as 127.0.0.1:18001, :18001 for every address of this machine, or 0 for none";
    if text.is_empty() || text == "0" {
        return Ok(None);
    }
    if let Ok(port) = text.parse::<u16>() {
        return Ok(Some(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)));
    }
    if let Ok(addr) = text.parse() {
        return Ok(Some(addr));
    }
    let (host, port) = text.rsplit_once(':').ok_or(wrong)?;
    let port = port.parse().map_err(|_| wrong)?;
    let host: IpAddr = match host {
        "" => Ipv6Addr::UNSPECIFIED.into(),
        "localhost" => Ipv4Addr::LOCALHOST.into(),
        _ => return Err(wrong),
    };
    Ok(Some(SocketAddr::new(host, port)))
}

/// As Go's flags take them.
pub fn boolean(text: &str) -> Result<bool, &'static str> {
    match text {
        "true" | "True" | "TRUE" | "t" | "T" | "1" => Ok(true),
        "false" | "False" | "FALSE" | "f" | "F" | "0" => Ok(false),
        _ => Err("it must be true or false"),
    }
}

/// At least one.
pub fn count(text: &str) -> Result<usize, &'static str> {
    match text.parse() {
        Ok(count @ 1..=10_000) => Ok(count),
        _ => Err("it must be a number from 1 to 10000"),
    }
}

/// `15s`, `1m30s`, `1.5h`.
pub fn duration(text: &str) -> Result<Duration, &'static str> {
    let parsed: Option<SignedDuration> = text.parse().ok();
    let parsed = parsed.and_then(|duration| Duration::try_from(duration).ok()).filter(|duration| !duration.is_zero());
    parsed.ok_or("it must be a duration such as 500ms, 15s or 1m30s")
}

/// A file.
pub fn path(text: &str) -> Result<PathBuf, &'static str> {
    let home = || std::env::var_os("HOME").map(PathBuf::from).ok_or("~ cannot be used: HOME is not set");
    match text.strip_prefix("~/") {
        _ if text.is_empty() => Err("it must name a file"),
        Some(rest) => Ok(home()?.join(rest)),
        None => Ok(PathBuf::from(text)),
    }
}

/// Anything.
pub fn text(text: &str) -> Result<String, &'static str> {
    Ok(text.to_owned())
}

/// Anything but nothing.
pub fn word(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() { Err("it must not be empty") } else { Ok(text.trim().to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_this_machines_unless_they_say_more() {
        // KC-2
        let shown = |text: &str| address(text).map(|addr| addr.map(|addr| addr.to_string()));
        for (text, meant) in [
            ("127.0.0.1:18001", "127.0.0.1:18001"),
            ("18001", "127.0.0.1:18001"),
            ("localhost:1", "127.0.0.1:1"),
            (":18001", "[::]:18001"),
            ("[::1]:5", "[::1]:5"),
            ("0.0.0.0:5", "0.0.0.0:5"),
        ] {
            assert_eq!(shown(text), Ok(Some(meant.to_owned())), "{text}");
        }
        assert_eq!((shown("0"), shown("")), (Ok(None), Ok(None)));
        for wrong in ["example.org:80", "127.0.0.1", ":x", "70000", ":70000"] {
            assert!(shown(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_have_units_and_last() {
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5h"), Ok(Duration::from_secs(5400)));
        for wrong in ["", "15", "-1s", "0s", "soon"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
