//! Addresses: of machines, of mailboxes, of documents.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

use super::{constant, hex};

/// Letters and symbols of any script; the last of several labels has letters only.
static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
    let edge = r"[a-zA-Z0-9\p{S}\p{L}]";
    constant(&format!(
        r"^({edge}((-?{edge}{{0,62}})?)|({edge}(([a-zA-Z0-9\-\p{{S}}\p{{L}}]{{0,61}}{edge})?)(\.))+([a-zA-Z\p{{L}}]){{2,63}})$"
    ))
});

pub(super) fn hostname(text: &str) -> bool {
    text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && HOSTNAME.is_match(text)
}

/// Leading zeros in IPv4 are allowed, as they were in the Go versions these formats were written with.
pub(super) fn address(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    let mut octets = [0u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let digits = part.trim_start_matches('0');
        *octet = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    }
    parts.next().is_none().then(|| IpAddr::V4(Ipv4Addr::from(octets)))
}

pub(super) fn cidr(text: &str) -> bool {
    let Some((host, length)) = text.split_once('/') else { return false };
    let most = match address(host) {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
        None => return false,
    };
    !length.is_empty()
        && length.bytes().all(|b| b.is_ascii_digit())
        && length.parse::<u32>().is_ok_and(|length| length <= most)
}

/// 6, 8 or 20 octets: `00:00:5e:00:53:01`, with dashes, or in groups of four digits between dots.
pub(super) fn mac(text: &str) -> bool {
    let groups = |separator: char, digits: usize| {
        let mut count = 0;
        let fit = text.split(separator).all(|group| {
            count += 1;
            group.len() == digits && hex(group)
        });
        fit && matches!(count * digits, 12 | 16 | 40)
    };
    text.len() >= 14 && (groups(':', 2) || groups('-', 2) || groups('.', 4))
}

/// As Go's `url.ParseRequestURI`: absolute, or a path from the root.
pub(super) fn uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|b| b < b' ' || b == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let path_of = |text| str::split(text, '?').next().unwrap_or_default();
    match scheme(text) {
        Err(()) => false,
        Ok(None) => text.starts_with('/') && percent_encoded(path_of(text)),
        Ok(Some(rest)) => match path_of(rest).strip_prefix("//") {
            Some(after) => {
                let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
                authority_fits(authority) && percent_encoded(path)
            }
            None => !rest.starts_with('/') || percent_encoded(path_of(rest)),
        },
    }
}

/// What follows `scheme:`, nothing when there is no scheme, an error when it begins with a colon.
fn scheme(text: &str) -> Result<Option<&str>, ()> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err(()),
            ':' => return Ok(Some(&text[at + 1..])),
            _ => return Ok(None),
        }
    }
    Ok(None)
}

fn percent_encoded(text: &str) -> bool {
    text.split('%').skip(1).all(|part| part.get(..2).is_some_and(hex))
}

fn authority_fits(authority: &str) -> bool {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let port_fits = |port: &str| port.bytes().all(|b| b.is_ascii_digit());
    if let Some(inner) = host.strip_prefix('[') {
        let Some((address, after)) = inner.split_once(']') else { return false };
        let address = address.split_once("%25").map_or(address, |(address, _)| address);
        return address.parse::<Ipv6Addr>().is_ok()
            && (after.is_empty() || after.strip_prefix(':').is_some_and(port_fits));
    }
    let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
    let fits = |c: char| c.is_ascii_alphanumeric() || !c.is_ascii() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c);
    name.chars().all(fits) && percent_encoded(name) && port_fits(port)
}

/// `a@b.c` or `Name <a@b.c>`, as Go's mail package reads the common forms.
pub(super) fn email(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    let address = match text.strip_suffix('>') {
        Some(named) => match named.rsplit_once('<') {
            Some((name, address)) if display_name(name.trim()) => address,
            _ => return false,
        },
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let quoted = local.len() >= 2 && local.starts_with('"') && local.ends_with('"');
    (quoted || dot_atom(local)) && (dot_atom(domain) || domain_literal(domain))
}

fn dot_atom(text: &str) -> bool {
    let atom = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii();
    text.split('.').all(|part| !part.is_empty() && part.chars().all(atom))
}

fn domain_literal(text: &str) -> bool {
    text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).is_some_and(|inner| address(inner).is_some())
}

fn display_name(name: &str) -> bool {
    let quoted = name.len() >= 2 && name.starts_with('"') && name.ends_with('"');
    quoted || name.split([' ', '\t']).filter(|word| !word.is_empty()).all(|word| dot_atom(word.trim_end_matches('.')))
}
