//! The door: which hosts and web origins are spoken to. Keeps a browser on a stranger's page from calling with its user's cookie or certificate.

use std::net::IpAddr;

use http::header::{HOST, HeaderName, HeaderValue, ORIGIN};
use http::{HeaderMap, Uri};

use crate::options::Options;
use crate::problem::Problem;
use crate::public::PublicUrl;

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Proof that Host, Origin and Sec-Fetch-Site of a request were looked at. Nobody is recognised without one.
pub(crate) struct Entered {
    /// Whether nothing says that another page than ours makes the browser call. Only then do cookies count.
    own: bool,
    /// Whether the browser's own connection is TLS, to us or to the proxy before us.
    pub(crate) sealed: bool,
}

impl Entered {
    /// Whether a cookie may say who it is.
    pub(crate) fn is_own(&self) -> bool {
        self.own
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        Self { own: true, sealed: true }
    }
}

/// Lets the request through or says why not.
pub(crate) fn check(options: &Options, tls: bool, uri: &Uri, headers: &HeaderMap) -> Result<Entered, Problem> {
    let host = known_host(options, tls, uri, headers)?;
    let own = origin(options, tls, &host, headers)?;
    let site = headers.get(SITE).map(HeaderValue::as_bytes);
    // Other ports of this host are the same site to a browser, but not ours.
    let own = own && site.is_none_or(|site| matches!(site, b"same-origin" | b"none"));
    Ok(Entered { own, sealed: tls || options.is_sealed() })
}

/// The host, if it is one that is meant: a stranger's name that leads here (DNS rebinding) is not.
pub(crate) fn known_host(options: &Options, tls: bool, uri: &Uri, headers: &HeaderMap) -> Result<String, Problem> {
    let host = host(uri, headers)?;
    let name = name_of(&host);
    let public = options.public.as_ref().map(PublicUrl::host);
    let listed = options.hosts.iter().map(String::as_str).chain(public).any(|known| known.eq_ignore_ascii_case(name));
    let itself = name.eq_ignore_ascii_case("localhost") || name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    // Over TLS a browser has compared the name with the certificate already.
    if !(listed || itself || (tls && options.hosts.is_empty() && public.is_none())) {
        return Err(Problem::new(
            421,
            "MisdirectedRequest",
            "this server does not answer for that host name; add it to the configured hosts",
        ));
    }
    Ok(host)
}

fn host(uri: &Uri, headers: &HeaderMap) -> Result<String, Problem> {
    let mut hosts = headers.get_all(HOST).iter();
    let (first, second) = (hosts.next(), hosts.next());
    let wrong = || Problem::bad_request("the request needs exactly one Host");
    if second.is_some() {
        return Err(wrong());
    }
    let header = first.map(|host| host.to_str().map_err(|_| wrong())).transpose()?;
    // On HTTP/2 the authority stands in the request line.
    match (uri.authority(), header) {
        (Some(authority), Some(host)) if !authority.as_str().eq_ignore_ascii_case(host) => Err(wrong()),
        (Some(authority), _) => Ok(authority.as_str().to_owned()),
        (None, Some(host)) if !host.is_empty() => Ok(host.to_owned()),
        _ => Err(wrong()),
    }
}

fn name_of(host: &str) -> &str {
    if host.starts_with('[') {
        return host.split_once(']').map_or(host, |(name, _)| &host[..name.len() + 1]);
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

/// Whether the page that calls, if there is one, is ours; an error if it is one that may not call at all.
fn origin(options: &Options, tls: bool, host: &str, headers: &HeaderMap) -> Result<bool, Problem> {
    let refused = || {
        Problem::new(
            403,
            "CrossOrigin",
            "a page of another origin may not call this server; add its origin to the configured origins",
        )
    };
    let mut origins = headers.get_all(ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (Some(_), Some(_)) => Err(refused()),
        (Some(origin), None) => {
            if origin.to_str().is_ok_and(|origin| is_own(options, tls, host, origin)) {
                return Ok(true);
            }
            if allowed_origin(options, headers).is_some() { Ok(false) } else { Err(refused()) }
        }
        (None, _) if headers.get(SITE).is_some_and(|site| site == "cross-site") => Err(refused()),
        (None, _) => Ok(true),
    }
}

/// Whether an origin is ours: the public one, or, for who comes past the proxy, the one of the host that was called.
fn is_own(options: &Options, tls: bool, host: &str, origin: &str) -> bool {
    let direct = format!("{}://{host}", if tls { "https" } else { "http" });
    match &options.public {
        Some(public) if public.is_origin(origin) => true,
        // Under the public name there is TLS, or somebody has taken it away.
        Some(public) if !tls && name_of(host).eq_ignore_ascii_case(public.host()) => false,
        _ => origin.eq_ignore_ascii_case(&direct),
    }
}

/// The origin of the request, if it is a configured one: only then are there CORS headers in the answer.
pub(crate) fn allowed_origin(options: &Options, headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(ORIGIN)?;
    options.origins.iter().any(|known| known.as_bytes() == origin.as_bytes()).then(|| origin.clone())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn enters(options: &Options, tls: bool, pairs: &[(&str, &str)]) -> Result<(), u16> {
        let headers = pairs
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap()))
            .collect();
        check(options, tls, &Uri::from_static("/apiext/v1"), &headers).map(drop).map_err(|problem| problem.code)
    }

    #[test]
    fn cookies_count_only_when_no_other_page_can_be_behind_the_request() {
        // B-9
        let mut options = Options::new(([127, 0, 0, 1], 0).into());
        options.origins = vec!["http://console.example".to_owned()];
        let own = |pairs: &[(&str, &str)]| {
            let mut headers: HeaderMap = pairs
                .iter()
                .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap()))
                .collect();
            headers.insert(HOST, HeaderValue::from_static("localhost:80"));
            check(&options, false, &Uri::from_static("/wapi/v1/session"), &headers).unwrap().is_own()
        };
        assert!(own(&[]));
        assert!(own(&[("origin", "http://localhost:80"), ("sec-fetch-site", "same-origin")]));
        assert!(own(&[("sec-fetch-site", "none")]));
        assert!(!own(&[("sec-fetch-site", "same-site")]));
        assert!(!own(&[("origin", "http://localhost:80"), ("sec-fetch-site", "same-site")]));
        assert!(!own(&[("origin", "http://console.example")]));
    }

    #[test]
    fn only_hosts_that_are_meant_are_answered() {
        let mut options = Options::new(([127, 0, 0, 1], 0).into());
        for host in ["127.0.0.1:80", "localhost", "localhost:18003", "[::1]:8080", "10.1.2.3"] {
            assert_eq!(enters(&options, false, &[("host", host)]), Ok(()), "{host}");
        }
        assert_eq!(enters(&options, false, &[("host", "evil.example:80")]), Err(421));
        assert_eq!(enters(&options, true, &[("host", "any.example")]), Ok(()));
        assert_eq!(enters(&options, false, &[]), Err(400));
        assert_eq!(enters(&options, false, &[("host", "a"), ("host", "b")]), Err(400));
        options.hosts = vec!["muster.example".to_owned()];
        assert_eq!(enters(&options, false, &[("host", "muster.example:80")]), Ok(()));
        assert_eq!(enters(&options, true, &[("host", "any.example")]), Err(421));
    }

    #[test]
    fn pages_of_other_origins_are_refused_unless_configured() {
        let mut options = Options::new(([127, 0, 0, 1], 0).into());
        let from =
            |options: &Options, origin: &str| enters(options, false, &[("host", "localhost:80"), ("origin", origin)]);
        assert_eq!(from(&options, "http://localhost:80"), Ok(()));
        for origin in ["https://localhost:80", "http://evil.example", "null", "http://localhost:81"] {
            assert_eq!(from(&options, origin), Err(403), "{origin}");
        }
        assert_eq!(enters(&options, false, &[("host", "localhost"), ("sec-fetch-site", "cross-site")]), Err(403));
        options.origins = vec!["http://evil.example".to_owned()];
        assert_eq!(from(&options, "http://evil.example"), Ok(()));
    }

    #[test]
    fn behind_a_proxy_the_public_address_is_ours_and_only_with_tls() {
        // B-9
        let mut options = Options::new(([127, 0, 0, 1], 0).into());
        options.public = Some("https://muster.example".parse().unwrap());
        let enters = |host: &str, origin: &str| enters(&options, false, &[("host", host), ("origin", origin)]);
        assert_eq!(enters("muster.example", "https://muster.example"), Ok(()));
        // A proxy that names us by our own address, and the machine's own browser.
        assert_eq!(enters("127.0.0.1:8088", "https://muster.example"), Ok(()));
        assert_eq!(enters("127.0.0.1:8088", "http://127.0.0.1:8088"), Ok(()));
        for origin in ["http://muster.example", "https://muster.example:444", "https://evil.example", "null"] {
            assert_eq!(enters("muster.example", origin), Err(403), "{origin}");
        }
        assert_eq!(enters("evil.example", "https://muster.example"), Err(421));
        let headers: HeaderMap = [(HOST, HeaderValue::from_static("muster.example"))].into_iter().collect();
        let entered = check(&options, false, &Uri::from_static("/wapi/v1/session"), &headers).unwrap();
        assert!(entered.sealed && entered.is_own());
        // Who speaks TLS itself answers under the public name, and no longer under any.
        assert!(known_host(&options, true, &Uri::from_static("/"), &headers).is_ok());
        let other: HeaderMap = [(HOST, HeaderValue::from_static("any.example"))].into_iter().collect();
        assert!(known_host(&options, true, &Uri::from_static("/"), &other).is_err());
    }
}
