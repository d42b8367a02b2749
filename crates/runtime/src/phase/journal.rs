//! Where the status is kept, and the one writer of it while a handler runs.

use std::{future::Future, sync::OnceLock, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    PhaseStatus, Trouble,
    progress::Entry,
    status::{STATE_BYTES, whole_seconds},
};
use crate::Clock;

/// What the user asks of the work beside the spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Controls {
    /// Stop for now, in phases that honour it.
    pub paused: bool,
    /// Stop for good: the cancel transition of the phase, if it has one.
    pub cancelled: bool,
    /// When somebody last asked to try again: at once instead of after a pause, or from the beginning after a failure.
    pub retry: Option<Timestamp>,
    /// The object is being deleted: nothing new is begun.
    pub deleted: bool,
    /// The generation of the spec.
    pub generation: i64,
}

impl Controls {
    /// A wish to try again that `status` does not know of yet. Wishes of one second are one.
    pub(super) fn retry_of(&self, status: &PhaseStatus) -> Option<Time> {
        let asked = whole_seconds(self.retry?);
        status.retried_at.as_ref().is_none_or(|heeded| heeded.0 < asked.0).then_some(asked)
    }
}

/// What is known of an object.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// Its journal.
    pub status: PhaseStatus,
    /// What its user asks for.
    pub controls: Controls,
}

/// Why the journal could not be read or written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum JournalError {
    /// Somebody else has written the status: look again before doing anything.
    #[error("somebody else has written the status of this object; it is read again")]
    Conflict,
    /// The object is no more.
    #[error("the object is no more")]
    Gone,
    /// The API did not answer, or not well.
    #[error("the status cannot be kept: {0}")]
    Unavailable(String),
}

/// Keeps the status of one object. A save is durable when it returns, and refused when the status is not the one last seen.
pub trait Journal: Send {
    /// Reads the object as it is now.
    fn load(&mut self) -> impl Future<Output = Result<Loaded, JournalError>> + Send;
    /// Makes `new` of `old`, which is what was last loaded or saved; says what the user asks for by now.
    fn save(
        &mut self,
        old: &PhaseStatus,
        new: &PhaseStatus,
    ) -> impl Future<Output = Result<Controls, JournalError>> + Send;
}

/// Why a run was stopped. The first reason stays.
#[derive(Debug, Clone)]
pub(super) enum Cause {
    Cancelled,
    Paused,
    Deadline,
    Deleted,
    /// The program stops; another one will go on.
    Halted,
    Journal(JournalError),
}

#[derive(Default)]
pub(super) struct Stop {
    pub token: CancellationToken,
    cause: OnceLock<Cause>,
}

impl Stop {
    pub fn because(&self, cause: Cause) {
        let _ = self.cause.set(cause);
        self.token.cancel();
    }

    pub fn cause(&self) -> Option<&Cause> {
        self.cause.get()
    }
}

/// The journal with the status as last saved.
pub(super) struct Ledger<'j, J> {
    journal: &'j mut J,
    pub status: PhaseStatus,
    pub controls: Controls,
}

impl<'j, J: Journal> Ledger<'j, J> {
    pub fn new(journal: &'j mut J, Loaded { status, controls }: Loaded) -> Self {
        Self { journal, status, controls }
    }

    /// Changes the status and saves it, if it is any different.
    pub async fn commit(&mut self, change: impl FnOnce(&mut PhaseStatus)) -> Result<(), JournalError> {
        let mut new = self.status.clone();
        change(&mut new);
        if new != self.status {
            self.controls = self.journal.save(&self.status, &new).await?;
            self.status = new;
        }
        Ok(())
    }

    /// Writes what the handlers send until the last of them is gone: everything that waits goes into one write. Between writes
    /// it looks every `poll` whether the user wants something else; `heed` says which wish counts in this phase.
    pub async fn serve(
        mut self,
        mut entries: mpsc::Receiver<Entry>,
        stop: &Stop,
        heed: impl Fn(&Controls) -> Option<Cause> + Send,
        clock: &dyn Clock,
        poll: Duration,
    ) -> Self {
        let mut group = Vec::new();
        loop {
            tokio::select! {
                biased;
                count = entries.recv_many(&mut group, 64) => {
                    if count == 0 {
                        return self;
                    }
                    self.write(&mut group, stop).await;
                }
                () = clock.sleep(poll), if stop.cause().is_none() => self.look(stop).await,
            }
            if let Some(cause) = heed(&self.controls) {
                stop.because(cause);
            }
        }
    }

    async fn write(&mut self, group: &mut Vec<Entry>, stop: &Stop) {
        let (group, oversized): (Vec<_>, Vec<_>) = group.drain(..).partition(fits);
        let outcome = if matches!(stop.cause(), Some(Cause::Journal(_))) {
            Err(Trouble::Stopped)
        } else {
            let saved = self.commit(|status| group.iter().for_each(|entry| enter(status, entry))).await;
            saved.map_err(|error| {
                stop.because(Cause::Journal(error));
                Trouble::Stopped
            })
        };
        // A handler that was dropped no longer asks.
        for entry in group {
            let _ = entry.saved.send(outcome.clone());
        }
        for entry in oversized {
            let _ = entry.saved.send(Err(too_large()));
        }
    }

    /// The object as it is now. An API that does not answer is no reason to stop the work: the next write will tell.
    async fn look(&mut self, stop: &Stop) {
        match self.journal.load().await {
            Ok(Loaded { status, controls }) if status == self.status => self.controls = controls,
            Ok(_) => stop.because(Cause::Journal(JournalError::Conflict)),
            Err(JournalError::Unavailable(why)) => tracing::debug!(why, "cannot look whether the work is still wanted"),
            Err(error) => stop.because(Cause::Journal(error)),
        }
    }
}

fn enter(status: &mut PhaseStatus, entry: &Entry) {
    if let Some(message) = &entry.state.message {
        status.message = Some(message.clone());
    }
    if let Some(step) = status.step_mut(&entry.path) {
        let steps = std::mem::take(&mut step.steps);
        *step = entry.state.clone();
        step.steps = steps;
    }
}

/// Whether a step's own state is small enough to live in an object.
fn fits(entry: &Entry) -> bool {
    entry.state.data.is_null() || serde_json::to_vec(&entry.state.data).is_ok_and(|bytes| bytes.len() <= STATE_BYTES)
}

fn too_large() -> Trouble {
    Trouble::fatal(
        "CheckpointTooLarge",
        format!("a checkpoint is larger than {} KiB; keep a cursor in the status, not the data", STATE_BYTES / 1024),
    )
}
