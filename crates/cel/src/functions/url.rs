//! URLs as Go's net/url reads them in a request: absolute, or a path from the root.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::eval::Context;
use crate::value::{Evaluated, Key, Mapping, Text, Val, fail, no_such_overload};

#[derive(Debug, PartialEq)]
pub(crate) struct Url {
    scheme: String,
    /// What follows the scheme if that is neither a host nor a path from the root.
    opaque: String,
    user: String,
    host: String,
    /// Escaped, as it is written again.
    path: String,
    query: String,
    fragment: String,
}

impl Url {
    pub fn parse(text: &str) -> Result<Url, String> {
        parse(text).map_err(|why| format!("parse {text:?}: {why}"))
    }
}

fn parse(text: &str) -> Result<Url, String> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".into());
    }
    if text.is_empty() {
        return Err("empty url".into());
    }
    let mut url = Url {
        scheme: String::new(),
        opaque: String::new(),
        user: String::new(),
        host: String::new(),
        path: String::new(),
        query: String::new(),
        fragment: String::new(),
    };
    if text == "*" {
        url.path = "*".into();
        return Ok(url);
    }
    let (mut rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    url.fragment = fragment.into();
    if let Some((scheme, after)) = scheme(rest)? {
        url.scheme = scheme.to_ascii_lowercase();
        rest = after;
    }
    if let Some((before, query)) = rest.split_once('?') {
        rest = before;
        url.query = query.into();
    }
    if !rest.starts_with('/') {
        return match url.scheme.is_empty() {
            true => Err("invalid URI for request".into()),
            false => {
                url.opaque = rest.into();
                Ok(url)
            }
        };
    }
    // Three slashes are an empty host only behind a scheme.
    if let Some(after) = rest.strip_prefix("//")
        && (!url.scheme.is_empty() || !after.starts_with('/'))
    {
        let end = after.find('/').unwrap_or(after.len());
        let authority = &after[..end];
        rest = &after[end..];
        let (user, host) = authority.rsplit_once('@').map_or(("", authority), |(user, host)| (user, host));
        if !user.is_empty() {
            if user.contains(|c: char| !c.is_ascii_alphanumeric() && !"-._:~!$&'()*+,;=%@".contains(c)) {
                return Err("net/url: invalid userinfo".into());
            }
            check_escapes(user)?;
        }
        url.user = user.into();
        url.host = check_host(host)?;
    }
    check_escapes(rest)?;
    url.path = escape_path(rest);
    Ok(url)
}

/// The scheme and what follows it, if there is one.
fn scheme(text: &str) -> Result<Option<(&str, &str)>, String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".into()),
            b':' => return Ok(Some((&text[..at], &text[at + 1..]))),
            _ => return Ok(None),
        }
    }
    Ok(None)
}

fn check_escapes(text: &str) -> Result<(), String> {
    for (at, _) in text.match_indices('%') {
        let escape: String = text[at..].chars().take(3).collect();
        if escape.len() < 3 || !escape[1..].bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!("invalid URL escape {escape:?}"));
        }
    }
    Ok(())
}

fn check_host(host: &str) -> Result<String, String> {
    let port_of = |after: &str| -> Result<(), String> {
        let digits = after.strip_prefix(':').unwrap_or(after);
        match after.is_empty() || after.starts_with(':') && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => Ok(()),
            false => Err(format!("invalid port {after:?} after host")),
        }
    };
    if host.starts_with('[') {
        let Some(end) = host.rfind(']') else { return Err("missing ']' in host".into()) };
        port_of(&host[end + 1..])?;
        check_escapes(host)?;
        return Ok(unescape(host, false).unwrap_or_default());
    }
    if let Some(colon) = host.rfind(':') {
        port_of(&host[colon..])?;
    }
    for (at, c) in host.char_indices() {
        let plain = c.is_ascii_alphanumeric() || !c.is_ascii() || "-._~!$&'()*+,;=:[]<>\"%".contains(c);
        if !plain {
            return Err(format!("invalid character {:?} in host name", c.to_string()));
        }
        let escape = host.get(at..at + 3).unwrap_or(&host[at..]);
        // Only what is not ASCII may be written as an escape there.
        if c == '%' && !escape[1..].starts_with(['8', '9', 'a', 'b', 'c', 'd', 'e', 'f', 'A', 'B', 'C', 'D', 'E', 'F'])
        {
            return Err(format!("invalid URL escape {escape:?}"));
        }
    }
    check_escapes(host)?;
    unescape(host, false).ok_or_else(|| "invalid URL escape".into())
}

fn unescape(text: &str, plus: bool) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return None;
                }
                out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
            }
            b'+' if plus => out.push(b' '),
            other => out.push(other),
        }
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

/// As it was written, if that is a valid way to write it; else escaped anew.
fn escape_path(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte);
    let allowed = |byte: u8| plain(byte) || b"!'()*[]%".contains(&byte);
    if path.bytes().all(allowed) {
        return path.into();
    }
    let mut out = String::with_capacity(path.len());
    for byte in unescape(path, false).unwrap_or_default().bytes() {
        if plain(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn of<'v>(value: &'v Val) -> Evaluated<&'v Url> {
    match value {
        Val::Url(url) => Ok(url),
        _ => no_such_overload(),
    }
}

pub(super) fn url<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let Val::String(text) = &args[0] else { return no_such_overload() };
    match Url::parse(text) {
        Ok(url) => Ok(Val::Url(Rc::new(url))),
        Err(why) => fail(format!("URL parse error during conversion from string: {why}")),
    }
}

pub(super) fn is_url<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    match &args[0] {
        Val::String(text) => Ok(Val::Bool(Url::parse(text).is_ok())),
        _ => no_such_overload(),
    }
}

pub(super) fn scheme_of<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::from(of(&args[0])?.scheme.clone()))
}

pub(super) fn host<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::from(of(&args[0])?.host.clone()))
}

/// Host and port; brackets belong to neither.
fn split_host(host: &str) -> (&str, &str) {
    let (name, port) = match host.rfind(':') {
        Some(colon) if host[colon + 1..].bytes().all(|byte| byte.is_ascii_digit()) => {
            (&host[..colon], &host[colon + 1..])
        }
        _ => (host, ""),
    };
    match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(inner) => (inner, port),
        None => (name, port),
    }
}

pub(super) fn hostname<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::from(split_host(&of(&args[0])?.host).0.to_string()))
}

pub(super) fn port<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::from(split_host(&of(&args[0])?.host).1.to_string()))
}

pub(super) fn escaped_path<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::from(of(&args[0])?.path.clone()))
}

/// Every key with all its values; what cannot be read is left out.
pub(super) fn query<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let query = &of(&args[0])?.query;
    context.meter.allocate(query.len() * 4)?;
    let mut values: BTreeMap<String, Vec<Val>> = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let (Some(key), Some(value)) = (unescape(key, true), unescape(value, true)) {
            values.entry(key).or_default().push(Val::from(value));
        }
    }
    let entry = |(key, values): (String, Vec<Val<'a>>)| {
        let key = Text::Owned(key.into());
        (Key::String(key.clone()), (Val::String(key), Val::list(values)))
    };
    Ok(Val::Map(Mapping::Owned(Rc::new(values.into_iter().map(entry).collect()))))
}
