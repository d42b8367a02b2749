//! How long the suites wait for what must happen, and how.
use std::future::Future;
use std::panic::Location;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Peer;

/// Only a failure takes so long: long enough for a machine that stood still for a while.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Asks again and again until it is so.
#[track_caller]
pub fn eventually<F: Future<Output = bool>>(what: &str, check: impl FnMut() -> F) -> impl Future<Output = ()> {
    until(PATIENCE, Location::caller(), what, check)
}

async fn until<F: Future<Output = bool>>(
    limit: Duration,
    caller: &Location<'_>,
    what: &str,
    mut check: impl FnMut() -> F,
) {
    let begun = Instant::now();
    while !check().await {
        assert!(begun.elapsed() < limit, "{caller}: it did not happen that {what}");
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

impl Peer {
    /// As `eventually` on Kubernetes, which decides some things by what its informers have told it so far. We must know at once.
    #[track_caller]
    pub fn knows<F: Future<Output = bool>>(&self, what: &str, check: impl FnMut() -> F) -> impl Future<Output = ()> {
        until(if self.is_muster() { Duration::ZERO } else { PATIENCE }, Location::caller(), what, check)
    }

    /// Somebody's rights count: the attributes are those of a SubjectAccessReview.
    pub async fn allows(&self, who: &str, attributes: Value) {
        let review =
            json!({"spec": {"user": who, "groups": ["system:authenticated"], "resourceAttributes": attributes}});
        self.knows(&format!("{who} is allowed {attributes}"), || async {
            let answer = self.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await.ok(201);
            answer["status"]["allowed"] == true
        })
        .await;
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
