//! One subscription: follows a path, says at most four times a second that it changed, and asks for the right again and again.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::event::{Event, Word};
use crate::caller::Caller;
use crate::problem::Problem;
use crate::standing::AGAIN;
use crate::visit::{Notice, Notices, Room};

/// The shortest time between two notices.
const QUIET: Duration = Duration::from_millis(250);
/// How soon a path is followed anew after it ended or failed.
const SOON: Duration = Duration::from_secs(1);
/// How long the right may stay undecided.
const UNDECIDED: Duration = Duration::from_secs(50);

pub(crate) struct Follow {
    pub(crate) room: Arc<dyn Room>,
    pub(crate) caller: Caller,
    pub(crate) id: String,
    pub(crate) number: u64,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) events: mpsc::Sender<Event>,
}

impl Follow {
    /// Until the right is gone or nobody listens; gives back its number.
    pub(crate) async fn run(self) -> u64 {
        let mut notices: Option<Notices> = None;
        // When the right was last proved, when it is asked for next, when the last notice went.
        let (mut proved, mut again) = (Instant::now(), Instant::now());
        let mut said: Option<Instant> = None;
        loop {
            let heard = tokio::select! {
                () = sleep_until(again) => None,
                notice = next(&mut notices) => Some(notice),
            };
            let news = match heard {
                Some(Some(Notice::Changed)) => true,
                // It ended or is another: followed anew, and whatever was missed meanwhile is worth a look.
                Some(Some(Notice::Moved) | None) => {
                    notices = None;
                    again = (proved + SOON).max(Instant::now());
                    true
                }
                None => match self.ask().await {
                    Ok(new) => {
                        let gap = notices.is_none() && said.is_some();
                        (notices, proved) = (Some(new), Instant::now());
                        again = proved + AGAIN;
                        gap
                    }
                    Err(problem) if undecided(&problem) && proved.elapsed() < UNDECIDED => {
                        again = Instant::now() + SOON;
                        false
                    }
                    Err(problem) => {
                        let word = if matches!(problem.code, 404 | 410) { Word::Gone } else { Word::Denied };
                        let _ = self.say(word(problem.message)).await;
                        return self.number;
                    }
                },
            };
            if !news {
                continue;
            }
            if let Some(said) = said {
                sleep_until(said + QUIET).await;
            }
            // What came meanwhile is the same news.
            drain(&mut notices);
            said = Some(Instant::now());
            if self.say(Word::Changed).await.is_err() {
                return self.number;
            }
        }
    }

    async fn say(&self, word: Word) -> Result<(), mpsc::error::SendError<Event>> {
        self.events.send(Event { id: self.id.clone(), number: self.number, word }).await
    }

    async fn ask(&self) -> Result<Notices, Problem> {
        self.room.clone().follow(self.caller.clone(), self.path.clone(), self.query.clone()).await
    }
}

fn undecided(problem: &Problem) -> bool {
    problem.code >= 500 || problem.code == 429
}

async fn next(notices: &mut Option<Notices>) -> Option<Notice> {
    match notices {
        Some(notices) => notices.next().await,
        None => std::future::pending().await,
    }
}

/// Takes what is there already. What is not merely a change stays to be heard: it ends the draining and is heard as an end.
fn drain(notices: &mut Option<Notices>) {
    let Some(stream) = notices else { return };
    // Bounded: a source that is always ready is heard again after the pause.
    for _ in 0..1_000 {
        match stream.next().now_or_never() {
            Some(Some(Notice::Changed)) => {}
            Some(Some(Notice::Moved) | None) => {
                *notices = Some(futures_util::stream::empty().boxed());
                return;
            }
            None => return,
        }
    }
}
