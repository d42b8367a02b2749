//! Whether the client of one HTTP/2 stream takes what it is offered.
//!
//! A client that opens no window for a stream keeps its answer, and its place, as long as it likes: the connection lives, pings are
//! answered. The task of a stream therefore knows whether its body waits for more to send or for somebody to take it.

use std::{
    cell::Cell,
    future::poll_fn,
    pin::pin,
    task::{Poll, ready},
    time::Duration,
};

use tokio::time::{Instant, sleep};

tokio::task_local! {
    static OFFER: Cell<Offer>;
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Offer {
    /// Counts the changes.
    turn: u64,
    /// There is something to take. If not, the answer is being made, or a watch is quiet.
    waits: bool,
}

/// The body has something. It is asked for more only when this has been taken.
pub(super) fn offer() {
    turn(true);
}

/// The body has nothing more yet.
pub(super) fn dry() {
    turn(false);
}

/// HTTP/1.1 has no streams: there the watchdog sees all.
fn turn(waits: bool) {
    let _ = OFFER.try_with(|offer| offer.set(Offer { turn: offer.get().turn.wrapping_add(1), waits }));
}

/// Runs a stream to its end, or gives it up (None) when what it offers is not taken within `limit`. Only a stream that is stuck costs a timer.
pub(super) async fn taken<F: Future>(stream: F, limit: Duration) -> Option<F::Output> {
    let watched = async move {
        let mut stream = pin!(stream);
        let mut alarm = pin!(None);
        let mut last = Offer::default();
        poll_fn(move |cx| {
            if let Poll::Ready(output) = stream.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            let now = OFFER.with(Cell::get);
            if !now.waits {
                return Poll::Pending;
            }
            if alarm.is_none() {
                alarm.set(Some(sleep(limit)));
            }
            let Some(mut alarm) = alarm.as_mut().as_pin_mut() else { return Poll::Pending };
            if now != last {
                alarm.as_mut().reset(Instant::now() + limit);
                last = now;
            }
            ready!(alarm.poll(cx));
            Poll::Ready(None)
        })
        .await
    };
    OFFER.scope(Cell::default(), watched).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn only_what_is_offered_and_not_taken_is_given_up() {
        assert_eq!(taken(async { 7 }, LIMIT).await, Some(7));
        // Waiting for something to send, however long.
        let quiet = async {
            offer();
            dry();
            sleep(10 * LIMIT).await;
        };
        assert!(taken(quiet, LIMIT).await.is_some());
        // Taken piece by piece, each in time; and offered again after a quiet time.
        let slow = async {
            for _ in 0..5 {
                offer();
                sleep(LIMIT - Duration::from_secs(1)).await;
            }
            dry();
            sleep(2 * LIMIT).await;
            offer();
            sleep(LIMIT - Duration::from_secs(1)).await;
        };
        assert!(taken(slow, LIMIT).await.is_some());
        let start = Instant::now();
        let stuck = async {
            offer();
            pending::<()>().await;
        };
        assert!(taken(stuck, LIMIT).await.is_none());
        assert_eq!(start.elapsed().as_secs(), LIMIT.as_secs());
        // Outside a stream nothing is counted.
        offer();
        dry();
    }
}
