//! How long to wait before trying again: longer after every failure of a key, and never more retries in all than the bucket gives.

use std::time::Duration;

use tokio::time::Instant;

/// The pauses between the tries of one key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    /// Before the first retry.
    pub first: Duration,
    /// Never longer than this.
    pub longest: Duration,
    /// Up to this part of the pause is added at random, so that keys which failed together do not come back together.
    pub jitter: f64,
}

impl Default for Backoff {
    /// Operators know these from client-go.
    fn default() -> Self {
        Backoff { first: Duration::from_millis(5), longest: Duration::from_secs(1000), jitter: 0.1 }
    }
}

impl Backoff {
    /// The pause after the `failures`-th failure in a row; `random` is in 0..1.
    pub(crate) fn pause(&self, failures: u32, random: f64) -> Duration {
        let doubled = self.first.as_secs_f64() * 2f64.powi(failures.saturating_sub(1).min(60) as i32);
        let pause = doubled.min(self.longest.as_secs_f64());
        Duration::from_secs_f64((pause * (1.0 + self.jitter * random)).min(self.longest.as_secs_f64()))
    }
}

/// How many retries a queue grants in all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Per second, in the long run; must be more than zero.
    pub per_second: f64,
    /// At once.
    pub burst: u32,
}

impl Default for Rate {
    fn default() -> Self {
        Rate { per_second: 10.0, burst: 100 }
    }
}

/// A token bucket that grants turns in advance: a turn beyond the burst lies in the future.
#[derive(Debug)]
pub(crate) struct Bucket {
    rate: Rate,
    /// When the bucket will be full again if nobody takes anything.
    full_at: Option<Instant>,
}

impl Bucket {
    pub(crate) fn new(rate: Rate) -> Self {
        Bucket { rate: Rate { per_second: rate.per_second.max(0.001), burst: rate.burst.max(1) }, full_at: None }
    }

    /// Takes one turn and says how far off it is.
    pub(crate) fn take(&mut self, now: Instant) -> Duration {
        let one = Duration::from_secs_f64(1.0 / self.rate.per_second);
        let full_at = self.full_at.unwrap_or(now).max(now) + one;
        self.full_at = Some(full_at);
        (full_at - now).saturating_sub(one * self.rate.burst)
    }

    /// Takes one turn if there is one now.
    pub(crate) fn try_take(&mut self, now: Instant) -> bool {
        let before = self.full_at;
        let granted = self.take(now).is_zero();
        if !granted {
            self.full_at = before;
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let backoff = Backoff { jitter: 0.0, ..Backoff::default() };
        let pauses: Vec<u128> = [1, 2, 3, 18, 19, 4_000_000].map(|n| backoff.pause(n, 0.5).as_millis()).to_vec();
        assert_eq!(pauses, [5, 10, 20, 655_360, 1_000_000, 1_000_000]);
    }

    #[test]
    fn jitter_adds_at_most_its_part_and_never_passes_the_longest() {
        let backoff = Backoff::default();
        assert_eq!(backoff.pause(1, 0.0), Duration::from_millis(5));
        assert_eq!(backoff.pause(1, 1.0), Duration::from_micros(5500));
        assert_eq!(backoff.pause(40, 1.0), Duration::from_secs(1000));
    }

    #[test]
    fn the_bucket_gives_its_burst_at_once_and_then_its_rate() {
        let mut bucket = Bucket::new(Rate { per_second: 10.0, burst: 3 });
        let now = Instant::now();
        let waits: Vec<u128> = (0..5).map(|_| bucket.take(now).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200]);
        assert_eq!(bucket.take(now + Duration::from_secs(10)), Duration::ZERO);
    }
}
