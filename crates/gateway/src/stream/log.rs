//! One log on a tab's socket: its text piece by piece, and never more of it under way than the tab has room for.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use tokio::sync::{mpsc, watch};

use super::event::{Event, Word};
use crate::caller::Caller;
use crate::problem::Problem;
use crate::visit::{BoxError, Room, Text};

/// How much of a log the tab may not have taken yet. More is not read from the member, which then waits as well.
pub(crate) const WINDOW: usize = 256 << 10;
/// The largest piece: the others of the tab come in between.
const PIECE: usize = 32 << 10;

pub(crate) struct Log {
    pub(crate) room: Arc<dyn Room>,
    pub(crate) caller: Caller,
    pub(crate) id: String,
    pub(crate) number: u64,
    pub(crate) path: String,
    pub(crate) query: String,
    /// How many bytes the tab has taken, as it says.
    pub(crate) taken: watch::Receiver<u64>,
    pub(crate) events: mpsc::Sender<Event>,
}

impl Log {
    /// Until the log ends, the right to it does, or nobody listens; gives back its number.
    pub(crate) async fn run(mut self) -> u64 {
        let opened = self.room.clone().text(self.caller.clone(), self.path.clone(), self.query.clone()).await;
        let last = match opened {
            Ok(Text { pieces, until }) => tokio::select! {
                biased;
                why = until => Word::Failed(why),
                how = self.pass_on(pieces) => how,
            },
            Err(problem) => Word::Failed(problem),
        };
        let _ = self.say(last).await;
        self.number
    }

    async fn pass_on(&mut self, mut pieces: BoxStream<'static, Result<Bytes, BoxError>>) -> Word {
        if self.say(Word::Open).await.is_err() {
            return Word::Ended;
        }
        let mut sent: u64 = 0;
        while let Some(piece) = pieces.next().await {
            let Ok(mut piece) = piece else {
                return Word::Failed(Problem::new(502, "ClusterFailed", "the cluster broke the connection"));
            };
            while !piece.is_empty() {
                let Some(room) = self.room_after(sent).await else { return Word::Ended };
                let part = piece.split_to(piece.len().min(PIECE).min(room));
                sent += part.len() as u64;
                if self.say(Word::Text(part)).await.is_err() {
                    return Word::Ended;
                }
            }
        }
        Word::Ended
    }

    /// Waits until the tab has room; nothing when it is gone.
    async fn room_after(&mut self, sent: u64) -> Option<usize> {
        let under_way = |taken: u64| usize::try_from(sent.saturating_sub(taken)).unwrap_or(usize::MAX);
        let taken = *self.taken.wait_for(|taken| under_way(*taken) < WINDOW).await.ok()?;
        Some(WINDOW.saturating_sub(under_way(taken)))
    }

    async fn say(&self, word: Word) -> Result<(), mpsc::error::SendError<Event>> {
        self.events.send(Event { id: self.id.clone(), number: self.number, word }).await
    }
}
