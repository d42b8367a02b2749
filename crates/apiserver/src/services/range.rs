//! The addresses services may have, and how a free number is found.

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use thiserror::Error;

/// The addresses services get, as a CIDR: `10.96.0.0/12`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceRange {
    base: u32,
    bits: u32,
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum RangeError {
    #[error("is not an IPv4 CIDR such as 10.96.0.0/12")]
    Format,
    #[error("must leave between 4 and 2^20 addresses: a prefix length from 12 to 30")]
    Size,
}

impl Default for ServiceRange {
    fn default() -> Self {
        Self { base: u32::from(Ipv4Addr::new(10, 96, 0, 0)), bits: 12 }
    }
}

impl FromStr for ServiceRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let (address, bits) = text.split_once('/').ok_or(RangeError::Format)?;
        let address: Ipv4Addr = address.parse().map_err(|_| RangeError::Format)?;
        let bits: u32 = bits.parse().map_err(|_| RangeError::Format)?;
        if !(12..=30).contains(&bits) {
            return Err(RangeError::Size);
        }
        Ok(Self { base: u32::from(address) & (u32::MAX << (32 - bits)), bits })
    }
}

impl std::fmt::Display for ServiceRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.base), self.bits)
    }
}

impl ServiceRange {
    fn size(self) -> u32 {
        1 << (32 - self.bits)
    }

    /// The address of the API's own service.
    pub(super) fn first(self) -> Ipv4Addr {
        Ipv4Addr::from(self.base + 1)
    }

    /// Neither the network itself nor its broadcast address.
    pub(super) fn contains(self, address: Ipv4Addr) -> bool {
        let offset = u32::from(address).wrapping_sub(self.base);
        offset > 0 && offset < self.size() - 1
    }

    /// A free address. The lower part of the range is left to those who ask for one, as long as there are others.
    pub(super) fn choose(self, random: u64, taken: impl Fn(Ipv4Addr) -> bool) -> Option<Ipv4Addr> {
        let last = self.size() - 2;
        let kept = (self.size() / 16).clamp(16, 256).min(last);
        let free = |offset| !taken(Ipv4Addr::from(self.base + offset));
        let chosen = free_from(kept + 1..=last, random, free).or_else(|| free_from(2..=kept, random, free));
        chosen.map(|offset| Ipv4Addr::from(self.base + offset))
    }
}

/// The first free number at or after a random place, round the end.
pub(super) fn free_from(range: RangeInclusive<u32>, random: u64, free: impl Fn(u32) -> bool) -> Option<u32> {
    if range.is_empty() {
        return None;
    }
    let (start, end) = (*range.start(), *range.end());
    let from = start + u32::try_from(random % u64::from(end - start + 1)).unwrap_or(0);
    (from..=end).chain(start..from).find(|number| free(*number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn a_range_is_a_cidr_of_sensible_size() {
        let range: ServiceRange = "10.96.3.4/24".parse().unwrap();
        assert_eq!(range.to_string(), "10.96.3.0/24");
        assert_eq!(range.first(), Ipv4Addr::new(10, 96, 3, 1));
        for (text, wrong) in
            [("10.96.0.0", RangeError::Format), ("x/24", RangeError::Format), ("10.0.0.0/8", RangeError::Size)]
        {
            assert_eq!(text.parse::<ServiceRange>(), Err(wrong), "{text}");
        }
    }

    #[test]
    fn every_address_is_given_once_until_none_is_left() {
        let range: ServiceRange = "10.0.0.0/27".parse().unwrap();
        let mut taken = HashSet::from([range.first()]);
        for random in 0..29 {
            let chosen = range.choose(random * 7, |address| taken.contains(&address)).unwrap();
            assert!(range.contains(chosen) && taken.insert(chosen), "{chosen}");
        }
        assert_eq!(range.choose(3, |address| taken.contains(&address)), None);
    }

    proptest! {
        #[test]
        fn a_free_number_is_found_if_there_is_one(start in 0u32..50, len in 0u32..50, random: u64, taken in proptest::collection::hash_set(0u32..100, 0..60)) {
            let range = start..=start + len;
            let found = free_from(range.clone(), random, |n| !taken.contains(&n));
            match found {
                Some(n) => prop_assert!(range.contains(&n) && !taken.contains(&n)),
                None => prop_assert!(range.clone().all(|n| taken.contains(&n))),
            }
        }
    }
}
