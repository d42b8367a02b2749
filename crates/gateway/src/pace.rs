//! How fast and how much at once: a bucket per caller, one per address for strangers, and places for requests under way.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use crate::caller::CallerKey;
use crate::options::{Limits, Rate};
use crate::problem::Problem;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Who {
    Caller(CallerKey),
    Address(IpAddr),
}

pub(crate) struct Pace {
    in_flight: usize,
    per_caller: Rate,
    per_stranger: Rate,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    buckets: HashMap<Who, Bucket>,
    /// Callers whom the API recognised, until when that is believed.
    recognised: HashMap<CallerKey, Instant>,
    under_way: HashMap<Who, usize>,
    all: usize,
}

struct Bucket {
    left: f64,
    at: Instant,
}

/// Entries of the maps; beyond, full buckets and old recognitions are forgotten.
const MOST: usize = 20_000;
const RECOGNISED_FOR: std::time::Duration = std::time::Duration::from_secs(60);

impl Pace {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            in_flight: limits.in_flight,
            per_caller: limits.per_caller,
            per_stranger: limits.per_stranger,
            state: Mutex::default(),
        })
    }

    /// A place for one request, to be held until it is answered.
    pub(crate) fn enter(self: &Arc<Self>, caller: CallerKey, address: IpAddr) -> Result<Place, Problem> {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let known = state.recognised.get(&caller).is_some_and(|until| *until > now);
        // Who tries out tokens must not get a bucket for each.
        let (who, rate) =
            if known { (Who::Caller(caller), self.per_caller) } else { (Who::Address(address), self.per_stranger) };
        if state.buckets.len() >= MOST {
            state.buckets.retain(|_, bucket| now.duration_since(bucket.at).as_secs_f64() < 60.0);
        }
        if state.buckets.len() >= MOST && !state.buckets.contains_key(&who) {
            return Err(Problem::too_many("too many different clients at once; try again in a moment"));
        }
        let bucket = state.buckets.entry(who).or_insert(Bucket { left: rate.burst, at: now });
        bucket.left = (bucket.left + now.duration_since(bucket.at).as_secs_f64() * rate.per_second).min(rate.burst);
        bucket.at = now;
        if bucket.left < 1.0 {
            return Err(Problem::too_many(format!("more than {} requests a second; slow down", rate.per_second)));
        }
        bucket.left -= 1.0;
        let own = state.under_way.get(&who).copied().unwrap_or(0);
        if state.all >= self.in_flight || own >= (self.in_flight * 3 / 4).max(1) {
            return Err(Problem::too_many("too many requests are under way; try again in a moment"));
        }
        state.all += 1;
        *state.under_way.entry(who).or_default() += 1;
        Ok(Place { pace: self.clone(), who })
    }

    /// The API has answered this caller with something else than 401.
    pub(crate) fn recognise(&self, caller: CallerKey) {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.recognised.len() >= MOST {
            state.recognised.retain(|_, until| *until > now);
        }
        if state.recognised.len() < MOST {
            state.recognised.insert(caller, now + RECOGNISED_FOR);
        }
    }

    /// The API does not know this caller (any more).
    pub(crate) fn forget(&self, caller: CallerKey) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).recognised.remove(&caller);
    }
}

/// A request under way; given back when dropped, however the request ended.
pub(crate) struct Place {
    pace: Arc<Pace>,
    who: Who,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.pace.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.all -= 1;
        if let Some(count) = state.under_way.get_mut(&self.who) {
            *count -= 1;
            if *count == 0 {
                state.under_way.remove(&self.who);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::Duration;

    const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn pace(in_flight: usize, burst: f64) -> Arc<Pace> {
        let rate = Rate { per_second: 1.0, burst };
        Pace::new(&Limits { in_flight, per_caller: rate, per_stranger: rate, ..Limits::default() })
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_empties_and_fills_again() {
        let pace = pace(100, 3.0);
        pace.recognise([1; 32]);
        for _ in 0..3 {
            assert!(pace.enter([1; 32], HOME).is_ok());
        }
        assert_eq!(pace.enter([1; 32], HOME).err().unwrap().code, 429);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(pace.enter([1; 32], HOME).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_share_the_bucket_of_their_address() {
        let pace = pace(100, 3.0);
        for token in 0..3 {
            assert!(pace.enter([token; 32], HOME).is_ok());
        }
        assert!(pace.enter([9; 32], HOME).is_err());
        assert!(pace.enter([9; 32], IpAddr::from([10, 0, 0, 1])).is_ok());
        pace.recognise([7; 32]);
        assert!(pace.enter([7; 32], HOME).is_ok());
        pace.forget([7; 32]);
        assert!(pace.enter([7; 32], HOME).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_cannot_take_every_place() {
        let pace = pace(4, 100.0);
        pace.recognise([1; 32]);
        pace.recognise([2; 32]);
        let mut held: Vec<Place> = (0..3).map(|_| pace.enter([1; 32], HOME).unwrap()).collect();
        assert!(pace.enter([1; 32], HOME).is_err());
        held.push(pace.enter([2; 32], HOME).unwrap());
        assert!(pace.enter([2; 32], HOME).is_err(), "all places are taken");
        drop(held);
        let state = pace.state.lock().unwrap();
        assert_eq!((state.all, state.under_way.len()), (0, 0));
    }
}
