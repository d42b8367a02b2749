//! How long the suites wait for what must happen, and how.
use std::future::Future;
use std::time::{Duration, Instant};

/// Only a failure takes so long: long enough for a machine that stood still for a while.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Asks again and again until it is so.
#[track_caller]
pub fn eventually<F: Future<Output = bool>>(what: &str, mut check: impl FnMut() -> F) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let begun = Instant::now();
        while !check().await {
            assert!(begun.elapsed() < PATIENCE, "{caller}: it did not happen that {what}");
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }
}

/// What comes within the limit, if it does. The limit is counted in short sleeps: while the whole machine stands still, it does not run.
pub async fn within<T>(limit: Duration, what: impl Future<Output = T>) -> Option<T> {
    const TICK: Duration = Duration::from_millis(100);
    let mut what = std::pin::pin!(what);
    let mut left = limit;
    loop {
        if let Ok(done) = tokio::time::timeout(TICK.min(left), &mut what).await {
            return Some(done);
        }
        left = left.saturating_sub(TICK);
        if left.is_zero() {
            return None;
        }
    }
}
