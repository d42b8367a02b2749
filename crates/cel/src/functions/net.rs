//! Addresses and networks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::strings::text;
use crate::eval::Context;
use crate::value::{Evaluated, Val, fail, no_such_overload};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cidr {
    pub address: IpAddr,
    pub bits: u8,
}

impl std::fmt::Display for Cidr {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Cidr {
    fn masked(&self) -> Cidr {
        let bits = u32::from(self.bits);
        let address = match self.address {
            IpAddr::V4(address) => {
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & u32::MAX.checked_shl(32 - bits).unwrap_or(0)))
            }
            IpAddr::V6(address) => {
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & u128::MAX.checked_shl(128 - bits).unwrap_or(0)))
            }
        };
        Cidr { address, bits: self.bits }
    }

    fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4() && Cidr { address, ..*self }.masked() == self.masked()
    }
}

/// An address alone: no zone, and not one of IPv4 in the clothes of IPv6.
fn parse_ip(text: &str) -> Result<IpAddr, String> {
    if let Some((address, zone)) = text.split_once('%')
        && !zone.is_empty()
        && address.parse::<Ipv6Addr>().is_ok()
    {
        return Err(format!("IP address {text:?} with zone value is not allowed"));
    }
    match text.parse() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"))
        }
        Ok(address) => Ok(address),
        Err(_) => {
            let why = why_not_ip(text);
            Err(format!("IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): {why}"))
        }
    }
}

fn why_not_ip(text: &str) -> &'static str {
    let first = text.find(['.', ':', '%']).map(|at| text.as_bytes()[at]);
    if first != Some(b'.') {
        return "unable to parse IP";
    }
    let fields: Vec<&str> = text.split('.').collect();
    for field in &fields {
        if field.is_empty() {
            return "IPv4 field must have at least one digit";
        }
        if !field.bytes().all(|byte| byte.is_ascii_digit()) {
            return "unexpected character";
        }
        if field.len() > 1 && field.starts_with('0') {
            return "IPv4 field has octet with leading zero";
        }
        if field.parse::<u8>().is_err() {
            return "IPv4 field has value >255";
        }
    }
    if fields.len() < 4 { "IPv4 address too short" } else { "IPv4 address too long" }
}

fn parse_cidr(text: &str) -> Result<Cidr, String> {
    const WHAT: &str = "network address parse error during conversion from string";
    let why = |why: String| format!("{WHAT}: netip.ParsePrefix({text:?}): {why}");
    let Some((address, bits)) = text.rsplit_once('/') else { return Err(why("no '/'".into())) };
    if address.contains('%') {
        return Err(why("IPv6 zones cannot be present in a prefix".into()));
    }
    let Ok(address) = address.parse::<IpAddr>() else {
        return Err(why(format!("ParseAddr({address:?}): {}", why_not_ip(address))));
    };
    if bits.is_empty() || !bits.bytes().all(|byte| byte.is_ascii_digit()) || bits.len() > 1 && bits.starts_with('0') {
        return Err(why(format!("bad bits after slash: {bits:?}")));
    }
    let most = if address.is_ipv4() { 32 } else { 128 };
    match bits.parse::<u8>() {
        Ok(bits) if bits <= most => match address {
            IpAddr::V6(mapped) if mapped.to_ipv4_mapped().is_some() => {
                Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"))
            }
            _ => Ok(Cidr { address, bits }),
        },
        _ => Err(why("prefix length out of range".into())),
    }
}

fn address(value: &Val) -> Evaluated<IpAddr> {
    match value {
        Val::Ip(address) => Ok(*address),
        _ => no_such_overload(),
    }
}

fn network(value: &Val) -> Evaluated<Cidr> {
    match value {
        Val::Cidr(cidr) => Ok(*cidr),
        _ => no_such_overload(),
    }
}

pub(super) fn ip<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    match &args[0] {
        Val::Cidr(cidr) => Ok(Val::Ip(cidr.address)),
        value => parse_ip(text(value)?).or_else(fail).map(Val::Ip),
    }
}

pub(super) fn is_ip<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::Bool(parse_ip(text(&args[0])?).is_ok()))
}

pub(super) fn is_canonical<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let text = text(&args[0])?;
    parse_ip(text).or_else(fail).map(|address| Val::Bool(address.to_string() == text))
}

pub(super) fn family<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::Int(if address(&args[0])?.is_ipv4() { 4 } else { 6 }))
}

pub(super) fn is_unspecified<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::Bool(address(&args[0])?.is_unspecified()))
}

pub(super) fn is_loopback<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::Bool(address(&args[0])?.is_loopback()))
}

fn link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

pub(super) fn is_link_local_multicast<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::Bool(match address(&args[0])? {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }))
}

pub(super) fn is_link_local_unicast<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::Bool(link_local(address(&args[0])?)))
}

pub(super) fn is_global_unicast<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let address = address(&args[0])?;
    let special = address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || link_local(address)
        || address == IpAddr::V4(Ipv4Addr::BROADCAST);
    Ok(Val::Bool(!special))
}

pub(super) fn cidr<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let parsed = parse_cidr(text(&args[0])?);
    parsed
        .or_else(|why| fail(format!("network address parse error during conversion from string: {why}")))
        .map(Val::Cidr)
}

pub(super) fn is_cidr<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::Bool(parse_cidr(text(&args[0])?).is_ok()))
}

pub(super) fn contains_ip<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let address = match &args[1] {
        Val::String(text) => parse_ip(text).or_else(|_| no_such_overload())?,
        value => address(value)?,
    };
    Ok(Val::Bool(network(&args[0])?.contains(address)))
}

pub(super) fn contains_cidr<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let other = match &args[1] {
        text @ Val::String(_) => network(&cidr(context, std::slice::from_ref(text))?)?,
        value => network(value)?,
    };
    let network = network(&args[0])?;
    Ok(Val::Bool(network.bits <= other.bits && network.contains(other.address)))
}

pub(super) fn prefix_length<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::Int(network(&args[0])?.bits.into()))
}

pub(super) fn masked<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::Cidr(network(&args[0])?.masked()))
}
