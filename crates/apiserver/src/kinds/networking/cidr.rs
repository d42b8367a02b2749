//! Ranges of addresses, read as generously as Kubernetes reads them in fields that always took any spelling.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address and how many of its bits name the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    pub address: IpAddr,
    pub bits: u32,
}

/// An address; the octets of IPv4 may have leading zeros.
pub fn address(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    let octet = |part: &str| {
        let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        digits
            .then(|| part.trim_start_matches('0'))
            .and_then(|part| if part.is_empty() { Some(0) } else { part.parse().ok() })
    };
    let octets: Option<Vec<u8>> = text.split('.').map(octet).collect();
    octets.and_then(|octets| <[u8; 4]>::try_from(octets).ok()).map(|octets| Ipv4Addr::from(octets).into())
}

impl Cidr {
    pub fn parse(text: &str) -> Option<Self> {
        let (host, bits) = text.split_once('/')?;
        let address = address(host)?;
        let digits = !bits.is_empty() && bits.len() <= 4 && bits.bytes().all(|b| b.is_ascii_digit());
        let bits = digits.then(|| bits.parse::<u32>().ok()).flatten()?;
        (bits <= width(address)).then_some(Self { address, bits })
    }

    /// The same range, written with its first address.
    pub fn masked(self) -> Self {
        Self { address: first(self.address, self.bits), ..self }
    }

    /// Whether the other range lies within this one and is smaller.
    pub fn strictly_contains(self, other: Self) -> bool {
        width(self.address) == width(other.address)
            && first(other.masked().address, self.bits) == first(self.address, self.bits)
            && self.bits < other.bits
    }
}

impl std::fmt::Display for Cidr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

pub fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn first(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(a) => Ipv4Addr::from_bits(a.to_bits() & u32::MAX.checked_shl(32 - bits).unwrap_or(0)).into(),
        IpAddr::V6(a) => Ipv6Addr::from_bits(a.to_bits() & u128::MAX.checked_shl(128 - bits).unwrap_or(0)).into(),
    }
}

/// What is odd about an accepted address.
pub fn address_warning(field: &str, text: &str) -> Option<String> {
    let read = address(text)?;
    let mapped = match read {
        IpAddr::V6(six) => six.to_ipv4_mapped(),
        IpAddr::V4(_) => None,
    };
    let canonical = mapped.map_or(read, IpAddr::V4).to_string();
    if canonical == text {
        return None;
    }
    Some(if read.is_ipv4() || mapped.is_some() {
        format!(
            "{field}: non-standard IP address {text:?} will be considered invalid in a future Kubernetes release: use \"{canonical}\""
        )
    } else {
        format!("{field}: IPv6 address {text:?} should be in RFC 5952 canonical format (\"{canonical}\")")
    })
}

/// What is odd about an accepted range.
pub fn warning(field: &str, text: &str) -> Option<String> {
    let cidr = Cidr::parse(text)?;
    let masked = cidr.masked();
    if cidr != masked {
        let single = Cidr { bits: width(cidr.address), ..cidr };
        return Some(format!(
            "{field}: CIDR value {text:?} is ambiguous in this context (should be \"{masked}\" or \"{single}\"?)"
        ));
    }
    let canonical = masked.to_string();
    if canonical == text {
        return None;
    }
    Some(if cidr.address.is_ipv4() {
        format!(
            "{field}: non-standard CIDR value {text:?} will be considered invalid in a future Kubernetes release: use \"{canonical}\""
        )
    } else {
        format!("{field}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format (\"{canonical}\")")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_compared() {
        let cidr = |text: &str| Cidr::parse(text).unwrap();
        assert!(cidr("10.0.0.0/8").strictly_contains(cidr("10.1.0.0/16")));
        assert!(!cidr("10.0.0.0/8").strictly_contains(cidr("10.0.0.0/8")));
        assert!(!cidr("10.0.0.0/8").strictly_contains(cidr("11.0.0.0/16")));
        assert!(cidr("0.0.0.0/0").strictly_contains(cidr("10.0.0.0/32")));
        assert!(cidr("::/0").strictly_contains(cidr("2001:db8::/32")));
        assert!(!cidr("::/0").strictly_contains(cidr("10.0.0.0/8")));
        for wrong in
            ["", "x", "10.0.0.0", "10.0.0.0/33", "10.0.0/8", "10.0.0.0/-1", "10.0.0.256/8", "::/129", "1.2.3.4/"]
        {
            assert_eq!(Cidr::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn odd_spellings_are_told() {
        assert_eq!(warning("f", "10.0.0.0/8"), None);
        assert_eq!(
            warning("f", "10.1.2.3/8").unwrap(),
            "f: CIDR value \"10.1.2.3/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.1.2.3/32\"?)"
        );
        assert!(warning("f", "010.0.0.0/8").unwrap().contains("use \"10.0.0.0/8\""));
    }

    #[test]
    fn an_address_is_best_written_in_its_one_spelling() {
        assert_eq!(address_warning("f", "10.0.0.1"), None);
        assert_eq!(address_warning("f", "fd00::1"), None);
        assert!(address_warning("f", "010.0.0.1").unwrap().ends_with("use \"10.0.0.1\""));
        assert!(address_warning("f", "::ffff:10.0.0.1").unwrap().ends_with("use \"10.0.0.1\""));
        assert!(address_warning("f", "FD00:0::1").unwrap().ends_with("(\"fd00::1\")"));
    }
}
