//! Pacing of logins: guessing gets slower for whoever guesses, and nobody can lock somebody else out for long.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::problem::Problem;

/// Whose failures are counted together.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Who {
    /// One user from one address: the usual guesser, and the usual forgetful user.
    Pair(IpAddr, String),
    /// One address over all users: tries a common password on everybody.
    Address(IpAddr),
    /// One user over all addresses: guesses from many places. Waits stay short, for its owner is among those who wait.
    User(String),
}

impl Who {
    /// Failures that cost nothing, and the longest pause after more.
    fn patience(&self) -> (u32, Duration) {
        match self {
            Who::Pair(..) => (5, Duration::from_secs(300)),
            Who::Address(_) => (30, Duration::from_secs(60)),
            Who::User(_) => (50, Duration::from_secs(10)),
        }
    }
}

#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    last: Instant,
}

impl Failures {
    /// Until when the next try is refused.
    fn until(&self, who: &Who) -> Instant {
        let (free, most) = who.patience();
        let Some(over) = self.count.checked_sub(free) else { return self.last };
        let pause = Duration::from_secs(1).saturating_mul(2u32.saturating_pow(over.min(20)));
        self.last + pause.min(most)
    }
}

#[derive(Default)]
pub(crate) struct Attempts {
    failures: Mutex<HashMap<Who, Failures>>,
}

/// Failures are forgotten after this long without another.
const FORGET: Duration = Duration::from_secs(3600);
const MOST: usize = 20_000;

impl Attempts {
    /// Counts a try as failed before it is made, so that many at once are no way around; `succeeded` takes it back.
    pub(crate) fn begin(&self, address: IpAddr, user: &str) -> Result<(), Problem> {
        let now = Instant::now();
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let all = whose(address, user);
        let wait = all
            .iter()
            .filter_map(|who| Some(failures.get(who)?.until(who).saturating_duration_since(now)))
            .max()
            .unwrap_or_default();
        if !wait.is_zero() {
            let seconds = wait.as_secs() + 1;
            let why = format!("too many failed logins; try again in {seconds} seconds");
            return Err(Problem::new(429, "TooManyRequests", why).with("retryAfterSeconds", seconds));
        }
        if failures.len() + all.len() > MOST {
            failures.retain(|_, failures| now.duration_since(failures.last) < FORGET);
        }
        if failures.len() + all.len() > MOST {
            return Err(Problem::too_many("too many failed logins on this server; try again in a moment"));
        }
        for who in all {
            let entry = failures.entry(who).or_insert(Failures { count: 0, last: now });
            if now.duration_since(entry.last) >= FORGET {
                entry.count = 0;
            }
            (entry.count, entry.last) = (entry.count.saturating_add(1), now);
        }
        Ok(())
    }

    /// The password was right.
    pub(crate) fn succeeded(&self, address: IpAddr, user: &str) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        for who in whose(address, user) {
            match who {
                Who::Pair(..) => {
                    failures.remove(&who);
                }
                // One right password does not excuse the wrong ones for other users, or from other places.
                _ => {
                    if let Some(entry) = failures.get_mut(&who) {
                        entry.count = entry.count.saturating_sub(1);
                    }
                }
            }
        }
    }
}

fn whose(address: IpAddr, user: &str) -> [Who; 3] {
    // The key of an unknown user is as bounded as that of a known one.
    let user: String = user.chars().take(64).collect();
    [Who::Pair(address, user.clone()), Who::Address(address), Who::User(user)]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tokio::time::advance;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    #[tokio::test(start_paused = true)]
    async fn guessing_gets_slower_and_slower() {
        let attempts = Attempts::default();
        let (begun, mut tries) = (Instant::now(), 0);
        while begun.elapsed() < Duration::from_secs(3600) {
            match attempts.begin(HERE, "ann") {
                Ok(()) => tries += 1,
                Err(why) => {
                    assert_eq!(why.code, 429);
                    advance(Duration::from_secs(why.details["retryAfterSeconds"].as_u64().unwrap())).await;
                }
            }
        }
        assert!((10..=25).contains(&tries), "{tries} guesses in an hour");
    }

    #[tokio::test(start_paused = true)]
    async fn the_guesser_does_not_lock_the_owner_out() {
        let attempts = Attempts::default();
        for _ in 0..6 {
            let _ = attempts.begin(HERE, "ann");
        }
        assert!(attempts.begin(HERE, "ann").is_err());
        assert!(attempts.begin(THERE, "ann").is_ok());
        attempts.succeeded(THERE, "ann");
        assert!(attempts.begin(HERE, "ann").is_err(), "the owner's success does not help the guesser");
    }

    #[tokio::test(start_paused = true)]
    async fn one_password_on_many_users_is_paced_too() {
        let attempts = Attempts::default();
        let refused = (0..100).filter(|user| attempts.begin(HERE, &format!("user{user}")).is_err()).count();
        assert!(refused >= 60, "{refused}");
        assert!(attempts.begin(THERE, "user1").is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_right_password_clears_the_pair() {
        let attempts = Attempts::default();
        for _ in 0..40 {
            attempts.begin(HERE, "ann").unwrap();
            attempts.succeeded(HERE, "ann");
        }
    }
}
