//! Whether what is open may stay open: streams, logs and terminals end when their caller loses the right to them.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::caller::Caller;
use crate::problem::Problem;

/// With the few seconds for which an answer of the API is believed, a right that was taken away ends what it opened within thirty.
pub(crate) const AGAIN: Duration = Duration::from_secs(20);
/// How often an API that cannot decide is asked again, and for how long.
const RETRY: Duration = Duration::from_secs(5);
const UNDECIDED: Duration = Duration::from_secs(30);

/// Returns, with the reason, when what was opened with a right must be closed: the session ended, or the API says no when it is
/// asked again. To be raced against the work itself.
pub(crate) async fn lost<F>(caller: &Caller, mut ask: impl FnMut() -> F) -> Problem
where
    F: Future<Output = Result<(), Problem>>,
{
    let mut decided = Instant::now();
    let mut pause = AGAIN;
    loop {
        tokio::select! {
            () = caller.ended() => return Problem::unauthorized("the session ended"),
            () = sleep(pause) => {}
        }
        let answer = tokio::select! {
            () = caller.ended() => return Problem::unauthorized("the session ended"),
            answer = ask() => answer,
        };
        match answer {
            Ok(()) => (decided, pause) = (Instant::now(), AGAIN),
            // Whoever cannot be asked has not said yes.
            Err(problem) if problem.code >= 500 || problem.code == 429 => {
                if decided.elapsed() >= AGAIN + UNDECIDED {
                    return problem;
                }
                pause = RETRY;
            }
            Err(problem) => return problem,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_right_that_is_taken_away_ends_what_it_opened() {
        // B-20
        let caller = Caller::for_tests("t");
        let begun = Instant::now();
        let revoked = begun + Duration::from_secs(45);
        let why = lost(&caller, || async move {
            if Instant::now() < revoked { Ok(()) } else { Err(Problem::forbidden("no longer")) }
        })
        .await;
        assert_eq!(why.code, 403);
        assert!(begun.elapsed() <= Duration::from_secs(45) + AGAIN);
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_that_cannot_decide_is_believed_for_a_while_only() {
        let caller = Caller::for_tests("t");
        let begun = Instant::now();
        let why = lost(&caller, || async { Err(Problem::unavailable("down")) }).await;
        assert_eq!(why.code, 503);
        assert!(begun.elapsed() <= AGAIN + UNDECIDED + RETRY);
        // One failure between two answers is none.
        let mut asked = 0;
        let revoked = Instant::now() + Duration::from_secs(300);
        let why = lost(&caller, || {
            asked += 1;
            let answer = match asked % 2 {
                0 => Err(Problem::unavailable("down")),
                _ if Instant::now() < revoked => Ok(()),
                _ => Err(Problem::forbidden("no longer")),
            };
            async { answer }
        })
        .await;
        assert_eq!(why.code, 403);
    }
}
