//! To ask a running manager what it does, and to switch reconcilers on and off.

use std::time::Duration;

use serde::Serialize;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::{Key, QueueStatus};

/// The manager answers between two other things it does, none of which takes long.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks and steers a running [`crate::Manager`]. Cheap to clone.
#[derive(Clone)]
pub struct Handle(mpsc::Sender<Command>);

pub(crate) enum Command {
    List(oneshot::Sender<Vec<ControllerStatus>>),
    Leading(oneshot::Sender<bool>),
    Enable(String, oneshot::Sender<Result<(), HandleError>>),
    Disable(String, oneshot::Sender<Result<(), HandleError>>),
    Requeue(String, Option<Key>, oneshot::Sender<Result<usize, HandleError>>),
}

/// One reconciler at this moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerStatus {
    /// Its name in the registry.
    pub name: String,
    /// The group of its kind; empty for the core group.
    pub group: String,
    /// The version of its kind.
    pub version: String,
    /// Its kind.
    pub kind: String,
    /// Whether it runs.
    pub enabled: bool,
    /// Whether its caches have read everything.
    pub synced: bool,
    /// Reconciles at once.
    pub concurrency: usize,
    /// What waits and what runs.
    pub queue: QueueStatus,
    /// Reconciles that failed since this process began; 0 while it does not run.
    pub errors: u64,
    /// How often an object was put back after a failure, since this process began.
    pub retries: u64,
    /// Objects whose last reconcile failed.
    pub failing: usize,
    /// What went wrong last, until that object is well again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
}

/// A failure, in the words that the log has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastError {
    /// The object, as NAMESPACE/NAME.
    pub key: String,
    /// What went wrong.
    pub message: String,
    /// When, as RFC 3339.
    pub at: String,
}

/// Why a request could not be met.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandleError {
    /// No reconciler has that name.
    #[error("there is no reconciler {name}; there are: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// Those there are.
        known: String,
    },
    /// It is disabled.
    #[error("the reconciler {0} is disabled; enable it first")]
    Disabled(String),
    /// It could not be set up.
    #[error("{0}")]
    Setup(String),
    /// There is no manager to ask any more.
    #[error("the manager is not running")]
    Stopped,
}

impl Handle {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Command>) {
        let (sender, receiver) = mpsc::channel(16);
        (Handle(sender), receiver)
    }

    /// Every reconciler of the registry.
    pub async fn list(&self) -> Result<Vec<ControllerStatus>, HandleError> {
        self.ask(Command::List).await
    }

    /// Whether this process leads.
    pub async fn leading(&self) -> Result<bool, HandleError> {
        self.ask(Command::Leading).await
    }

    /// Starts a reconciler.
    pub async fn enable(&self, name: &str) -> Result<(), HandleError> {
        self.ask(|answer| Command::Enable(name.to_owned(), answer)).await?
    }

    /// Stops a reconciler; its running work may finish.
    pub async fn disable(&self, name: &str) -> Result<(), HandleError> {
        self.ask(|answer| Command::Disable(name.to_owned(), answer)).await?
    }

    /// Has one object, or all, looked at again. Says how many.
    pub async fn requeue(&self, name: &str, key: Option<Key>) -> Result<usize, HandleError> {
        self.ask(|answer| Command::Requeue(name.to_owned(), key, answer)).await?
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, HandleError> {
        let (sender, receiver) = oneshot::channel();
        let answer = async {
            self.0.send(command(sender)).await.map_err(|_| HandleError::Stopped)?;
            receiver.await.map_err(|_| HandleError::Stopped)
        };
        timeout(PATIENCE, answer).await.unwrap_or(Err(HandleError::Stopped))
    }
}
