//! How many connections one address may have open, so that whoever takes all it can get leaves room for the others.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError},
};

/// Counts open connections by where they come from.
#[derive(Debug)]
pub(super) struct Shares {
    /// What one address may have.
    each: usize,
    /// Addresses with no connection are not in it, so it is never larger than the number of connections.
    open: Mutex<HashMap<IpAddr, usize>>,
}

impl Shares {
    /// A quarter of all connections is out of reach for any single address, loopback included: behind it may stand a proxy that
    /// forwards strangers.
    pub fn of(connections: usize) -> Arc<Shares> {
        Arc::new(Shares { each: connections - connections / 4, open: Mutex::default() })
    }

    /// A share of one connection; none when the address has all it may have.
    pub fn take(self: &Arc<Self>, from: IpAddr) -> Option<Share> {
        let from = household(from);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(from).or_default();
        // Who is refused has connections open, so the entry stays right.
        if *count >= self.each {
            return None;
        }
        *count += 1;
        Some(Share { shares: Arc::clone(self), from })
    }
}

/// Everybody on one IPv6 network is one: a single machine has as many addresses there as it wants.
fn household(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 => v4,
    }
}

/// One connection of an address; dropped when it ends.
#[derive(Debug)]
pub(super) struct Share {
    shares: Arc<Shares>,
    from: IpAddr,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut open = self.shares.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.from) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_address_gets_three_quarters_and_gives_them_back() {
        let shares = Shares::of(8);
        let held: Vec<Share> = (0..6).map(|_| shares.take(ip("192.0.2.1")).unwrap()).collect();
        assert!(shares.take(ip("192.0.2.1")).is_none());
        assert!(shares.take(ip("::ffff:192.0.2.1")).is_none(), "the same address in another form");
        let other = shares.take(ip("192.0.2.2"));
        assert!(other.is_some());
        drop(held);
        assert!(shares.take(ip("192.0.2.1")).is_some());
        drop(other);
        assert!(shares.open.lock().unwrap().is_empty());
    }

    #[test]
    fn an_ipv6_network_is_one_address() {
        let shares = Shares::of(1);
        let _held = shares.take(ip("2001:db8::1")).unwrap();
        assert!(shares.take(ip("2001:db8::2")).is_none());
        assert!(shares.take(ip("2001:db8:0:1::1")).is_some());
    }
}
