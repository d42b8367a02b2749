//! Linearizable reads: one cheap question to etcd for how far it is, shared by all who ask meanwhile, then waiting for the tree.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use super::client::Again;
use super::core::Core;
use super::wire::{self, RangeResponse};
use crate::error::{Error, Result};
use crate::model::Revision;

/// Callers that may wait for the next round.
const WAITING: usize = 4096;

type Answer = oneshot::Sender<Result<Revision, String>>;

pub(super) struct Syncs(mpsc::Sender<Answer>);

impl Syncs {
    pub(super) fn start(core: &Arc<Core>, tasks: &mut JoinSet<()>) -> Syncs {
        let (asks, asked) = mpsc::channel(WAITING);
        tasks.spawn(rounds(core.clone(), asked));
        Syncs(asks)
    }

    pub(super) async fn sync(&self, core: &Core) -> Result<Revision> {
        let deadline = core.deadline();
        let asking = async {
            let (answer, answered) = oneshot::channel();
            self.0.send(answer).await.map_err(|_| Error::Closed)?;
            answered.await.map_err(|_| Error::Closed)?.map_err(Error::Unavailable)
        };
        let late = |_| Error::Unavailable(format!("etcd did not answer within {:?}", core.config.deadline));
        let revision = timeout_at(deadline, asking).await.map_err(late)??;
        if core.reached(revision, deadline).await {
            return Ok(core.tree.revision());
        }
        Err(Error::Unavailable(format!("etcd is at revision {revision}, whose events have not come")))
    }
}

/// Who asks while a round is under way gets the next: the answer under way may already be older than the question.
async fn rounds(core: Arc<Core>, mut asked: mpsc::Receiver<Answer>) {
    let ask = core.layout.probe();
    let mut waiting = Vec::new();
    while asked.recv_many(&mut waiting, WAITING).await > 0 {
        let answer = core.client.call::<_, RangeResponse>(wire::RANGE, &ask, core.deadline(), Again::Safe).await;
        let revision = match answer {
            Ok(answer) => Ok(wire::revision(answer.header.as_ref())),
            Err(failure) => Err(match failure.into_error(0, 0) {
                Error::Unavailable(why) => why,
                other => other.to_string(),
            }),
        };
        for answer in waiting.drain(..) {
            let _ = answer.send(revision.clone());
        }
    }
}
