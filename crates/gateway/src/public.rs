//! The address under which browsers know us when a proxy speaks TLS for us: `https://muster.example.com`.

use std::fmt;
use std::str::FromStr;

use http::Uri;

/// An `https` address without a path. What stands in browsers' `Origin`, and in the links that are printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl {
    /// As browsers write it: in small letters, without the usual port.
    origin: String,
    host: String,
}

impl PublicUrl {
    /// The host without its port.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn is_origin(&self, origin: &str) -> bool {
        self.origin.eq_ignore_ascii_case(origin)
    }
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)
    }
}

impl FromStr for PublicUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let like = "write it like https://muster.example.com";
        let uri: Uri = text.parse().map_err(|_| format!("is no address; {like}"))?;
        let Some(authority) = uri.authority() else { return Err(format!("names no host; {like}")) };
        if uri.scheme_str() != Some("https") {
            return Err(format!("is not https: people's sessions would be open to everybody on the way; {like}"));
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() || text.contains('#') {
            return Err(format!("has a path: the console needs a host of its own; {like}"));
        }
        if authority.as_str().contains('@') || authority.host().is_empty() {
            return Err(format!("is more or less than a host; {like}"));
        }
        let host = authority.host().to_ascii_lowercase();
        let origin = match authority.port_u16() {
            None | Some(443) => format!("https://{host}"),
            Some(port) => format!("https://{host}:{port}"),
        };
        Ok(Self { origin, host })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn it_is_written_as_browsers_write_origins() {
        for (text, origin) in [
            ("https://Muster.example.com", "https://muster.example.com"),
            ("https://muster.example.com/", "https://muster.example.com"),
            ("https://muster.example.com:443", "https://muster.example.com"),
            ("https://muster.example.com:8443", "https://muster.example.com:8443"),
            ("https://10.0.0.7", "https://10.0.0.7"),
        ] {
            assert_eq!(text.parse::<PublicUrl>().unwrap().to_string(), origin);
        }
        let url: PublicUrl = "https://muster.example.com:8443".parse().unwrap();
        assert_eq!(url.host(), "muster.example.com");
        assert!(url.is_origin("https://muster.example.com:8443") && !url.is_origin("https://muster.example.com"));
    }

    #[test]
    fn what_is_not_a_whole_host_under_tls_is_refused() {
        for bad in [
            "",
            "muster.example.com",
            "http://muster.example.com",
            "https://",
            "https://h/console",
            "https://h?x=1",
            "https://h/#x",
            "https://u:p@h",
            "ftp://h",
            "https://a b",
        ] {
            assert!(bad.parse::<PublicUrl>().is_err(), "{bad}");
        }
    }
}
