//! What time it is, and waiting: behind a trait, so that tests run hours in milliseconds.

use std::{future::Future, pin::Pin, time::Duration};

use jiff::Timestamp;

/// The wall clock and a sleep. Tests hand in their own; durations between events are measured with `tokio::time`, which tests can pause.
pub trait Clock: Send + Sync + 'static {
    /// The time of day, as it is written into objects.
    fn now(&self) -> Timestamp;
    /// Returns after `duration`.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// The machine's clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}
