//! The rule of `--authn-allow-localhost`: is this request made by a program on this machine, and not by a web page or through a proxy?
//!
//! The peer address alone proves little: a browser or a reverse proxy on this machine has a loopback address too. So everything that
//! smells of either (an `Origin`, a cross-site fetch, a foreign `Host` as after DNS rebinding, forwarding headers) ends the trust.

use http::{HeaderMap, HeaderValue, header};

use crate::Peer;

/// Headers that say the request passed through somebody else.
const FORWARDED: [&str; 6] =
    ["forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "x-original-forwarded-for"];

/// `headers` must carry the authority the client addressed as its `Host`: the listener sees to it for HTTP/2 and absolute targets.
pub(crate) fn is_local(peer: &Peer, headers: &HeaderMap) -> bool {
    peer.addr().is_some_and(|addr| addr.ip().to_canonical().is_loopback())
        && !headers.contains_key(header::ORIGIN)
        && host_is_local(headers)
        && not_from_another_site(headers)
        && not_forwarded(headers)
        && only_plain_connection_options(headers)
}

fn host_is_local(headers: &HeaderMap) -> bool {
    let Some(host) = only(headers, header::HOST) else { return false };
    let Ok(host) = host.to_str() else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) if is_port(port) => return address == "::1",
            _ => return false,
        },
        None => match host.split_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
            Some(_) => return false,
            None => host,
        },
    };
    name == "127.0.0.1" || name.eq_ignore_ascii_case("localhost")
}

fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()))
}

/// Browsers say where a fetch comes from; programs say nothing.
fn not_from_another_site(headers: &HeaderMap) -> bool {
    headers.get_all("sec-fetch-site").iter().all(|site| site == "none" || site == "same-origin")
}

fn not_forwarded(headers: &HeaderMap) -> bool {
    !headers.keys().any(|name| name.as_str().starts_with("x-forwarded-") || FORWARDED.contains(&name.as_str()))
}

/// `Connection: X-Forwarded-For` asks a proxy to strip the very header that would betray it: no honest program sends such an option.
fn only_plain_connection_options(headers: &HeaderMap) -> bool {
    headers.get_all(header::CONNECTION).iter().all(|value| {
        value.to_str().is_ok_and(|options| {
            options.split(',').map(str::trim).all(|option| {
                option.is_empty()
                    || ["keep-alive", "close", "upgrade", "te", "http2-settings"]
                        .iter()
                        .any(|known| option.eq_ignore_ascii_case(known))
            })
        })
    })
}

/// The header's value when it is there exactly once.
fn only(headers: &HeaderMap, name: header::HeaderName) -> Option<&HeaderValue> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    values.next().is_none().then_some(first)
}
