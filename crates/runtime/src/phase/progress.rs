//! A handler's hold on the journal: its own checkpoint, and the word to stop.

use std::borrow::Cow;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{StepState, Trouble, errors::shortened};

/// Names from a phase down to one handler.
pub(crate) type Path = Vec<Cow<'static, str>>;

/// A step's new state on its way into the journal.
pub(crate) struct Entry {
    pub path: Path,
    /// Replaces the step's own fields; the steps below it are kept.
    pub state: StepState,
    pub saved: oneshot::Sender<Result<(), Trouble>>,
}

/// What a handler knows of itself and may leave behind.
pub struct Progress {
    pub(super) path: Path,
    pub(super) state: StepState,
    pub(super) journal: mpsc::Sender<Entry>,
    pub(super) stop: CancellationToken,
}

impl Progress {
    /// The checkpoint of this handler; the default when it has none yet. A checkpoint of another shape is fatal: guessing
    /// where the work stood could do it twice.
    pub fn checkpoint<T: DeserializeOwned + Default>(&self) -> Result<T, Trouble> {
        if self.state.data.is_null() {
            return Ok(T::default());
        }
        T::deserialize(&self.state.data).map_err(|why| {
            let path = self.path.join("/");
            Trouble::fatal("CheckpointUnreadable", format!("status.state of {path} cannot be read: {why}"))
        })
    }

    /// Saves a checkpoint; it is durable when this returns. Ends with [`Trouble::Stopped`] when the step is to stop: the checkpoint
    /// was saved all the same, unless the journal itself was lost.
    pub async fn save<T: Serialize>(&mut self, checkpoint: &T) -> Result<(), Trouble> {
        self.state.data =
            without_nulls(serde_json::to_value(checkpoint).map_err(|why| Trouble::fatal("CheckpointUnwritable", why))?);
        self.write().await?;
        if self.stop.is_cancelled() { Err(Trouble::Stopped) } else { Ok(()) }
    }

    /// Says in a line what is going on; shown as `status.message`, saved with the next checkpoint or the step's end.
    pub fn note(&mut self, message: impl Into<String>) {
        self.state.message = Some(shortened(&message.into(), 1024));
    }

    /// Cancelled when the step is to stop: save what is worth saving and return [`Trouble::Stopped`] soon.
    pub fn stopping(&self) -> &CancellationToken {
        &self.stop
    }

    pub(super) async fn write(&mut self) -> Result<(), Trouble> {
        let (saved, answer) = oneshot::channel();
        let entry = Entry { path: self.path.clone(), state: self.state.clone(), saved };
        self.journal.send(entry).await.map_err(|_| Trouble::Stopped)?;
        answer.await.map_err(|_| Trouble::Stopped)?
    }
}

/// A merge patch cannot carry a null, so a checkpoint does not have any.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, without_nulls(v))).collect(),
        ),
        other => other,
    }
}
