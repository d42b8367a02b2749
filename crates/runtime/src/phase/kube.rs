//! The machine on Kubernetes: the journal is the object's status, the observer writes Events.

use std::{
    future::Future,
    sync::{Arc, OnceLock},
    time::Duration,
};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
    core::{ApiResource, DynamicObject},
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use serde_json::json;

use super::{
    Change, Controls, Graph, Journal, JournalError, Loaded, Machine, Observer, Phase, PhaseKind, PhaseStatus,
    status::merge_patch,
};
use crate::{Context, Failure, Next, Object, Reconciler};

/// Set to `true` on an object, it cancels its work.
pub const CANCEL: &str = "muster.dev/cancel";
/// Set to `true` on an object, it pauses its work.
pub const PAUSE: &str = "muster.dev/pause";

/// One request may take this long.
const REQUEST: Duration = Duration::from_secs(30);
/// An Event is worth this much waiting.
const TELLING: Duration = Duration::from_secs(5);
/// How often a write is repeated because others change the rest of the object.
const CONFLICTS: usize = 8;

/// A kind that is run by a phase machine.
pub trait Phases: Send + Sync + 'static {
    /// The kind; its status is a [`PhaseStatus`] or flattens one.
    type Object: Object;
    /// Its phases.
    type Phase: Phase;
    /// What the handlers work with: the object and the way to the world.
    type Env: Send + Sync + 'static;

    /// The journal within the object.
    fn status(object: &Self::Object) -> Option<&PhaseStatus>;

    /// Makes what the handlers work with, once per run.
    fn env(&self, object: Arc<Self::Object>, context: &Context) -> Self::Env;

    /// Whether the user wants a pause or a cancel. Annotations say so, unless the kind has fields for it.
    fn controls(object: &Self::Object) -> Controls {
        annotated_controls(object)
    }
}

/// What the annotations [`PAUSE`] and [`CANCEL`] ask for.
pub fn annotated_controls<K: Object>(object: &K) -> Controls {
    let set = |name: &str| object.annotations().get(name).is_some_and(|value| value == "true");
    Controls {
        paused: set(PAUSE),
        cancelled: set(CANCEL),
        deleted: object.meta().deletion_timestamp.is_some(),
        generation: object.meta().generation.unwrap_or_default(),
    }
}

/// A reconciler made of a phase machine.
pub struct Phased<T: Phases> {
    machine: Machine<T::Phase, T::Env>,
    phases: T,
    recorder: OnceLock<Recorder>,
}

impl<T: Phases> Phased<T> {
    /// Runs `machine` for the objects of `phases`.
    pub fn new(phases: T, machine: Machine<T::Phase, T::Env>) -> Self {
        Self { machine, phases, recorder: OnceLock::new() }
    }

    /// The machine as a picture.
    pub fn graph(&self) -> &Graph {
        self.machine.graph()
    }
}

impl<T: Phases> Reconciler for Phased<T> {
    type Object = T::Object;

    async fn reconcile(&self, object: Arc<T::Object>, context: &Context) -> Result<Next, Failure> {
        if T::status(&object).is_some_and(|status| self.machine.is_over(status)) {
            return Ok(Next::Wait);
        }
        // The cache may be behind; what is done next depends on where the work really stands.
        let mut journal = ObjectJournal::<T>::new(context.client.clone(), object);
        let loaded = match journal.load().await {
            Ok(loaded) => loaded,
            Err(JournalError::Gone) => return Ok(Next::Wait),
            Err(error) => return Err(Failure::Retry(Box::new(error))),
        };
        let teller = Teller {
            recorder: self.recorder.get_or_init(|| {
                let reporter =
                    Reporter { controller: format!("muster-{}", self.machine.kind().to_lowercase()), instance: None };
                Recorder::new(context.client.clone(), reporter)
            }),
            regarding: journal.object.object_ref(&()),
        };
        let env = self.phases.env(journal.object.clone(), context);
        self.machine.run(&env, loaded, &mut journal, &teller, &context.clock).await
    }
}

/// The status of one object, guarded by its resourceVersion.
struct ObjectJournal<T: Phases> {
    api: Api<DynamicObject>,
    object: Arc<T::Object>,
}

impl<T: Phases> ObjectJournal<T> {
    fn new(client: Client, object: Arc<T::Object>) -> Self {
        let resource = ApiResource::erase::<T::Object>(&());
        let api = match object.namespace() {
            Some(namespace) => Api::namespaced_with(client, &namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        Self { api, object }
    }

    /// Keeps what the API answered, if it still is the object the work began for.
    fn take(&mut self, answer: DynamicObject) -> Result<Loaded, JournalError> {
        let object: T::Object =
            answer.try_parse().map_err(|why| JournalError::Unavailable(format!("the object cannot be read: {why}")))?;
        if object.meta().uid != self.object.meta().uid {
            return Err(JournalError::Gone); // another one of the same name
        }
        let status = T::status(&object).cloned().unwrap_or_default();
        let controls = T::controls(&object);
        self.object = Arc::new(object);
        Ok(Loaded { status, controls })
    }
}

impl<T: Phases> Journal for ObjectJournal<T> {
    async fn load(&mut self) -> Result<Loaded, JournalError> {
        let answer = within(self.api.get(&self.object.name_any())).await?;
        self.take(answer)
    }

    async fn save(&mut self, old: &PhaseStatus, new: &PhaseStatus) -> Result<Controls, JournalError> {
        let as_value = |status| serde_json::to_value(status).map_err(|why| JournalError::Unavailable(why.to_string()));
        let Some(change) = merge_patch(&as_value(old)?, &as_value(new)?) else {
            return Ok(T::controls(&self.object));
        };
        for _ in 0..CONFLICTS {
            let meta = self.object.meta();
            let patch =
                json!({"metadata": {"resourceVersion": meta.resource_version, "uid": meta.uid}, "status": change});
            let name = self.object.name_any();
            match within(self.api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch))).await {
                Ok(answer) => return self.take(answer).map(|loaded| loaded.controls),
                // Somebody changed the object: its spec or a label does not matter here, its status does.
                Err(JournalError::Conflict) => {
                    if self.load().await?.status != *old {
                        return Err(JournalError::Conflict);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(JournalError::Conflict)
    }
}

async fn within(
    request: impl Future<Output = Result<DynamicObject, kube::Error>>,
) -> Result<DynamicObject, JournalError> {
    match tokio::time::timeout(REQUEST, request).await {
        Ok(Ok(object)) => Ok(object),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Err(JournalError::Gone),
        Ok(Err(kube::Error::Api(status))) if status.code == 409 => Err(JournalError::Conflict),
        Ok(Err(error)) => Err(JournalError::Unavailable(error.to_string())),
        Err(_) => Err(JournalError::Unavailable(format!("the API did not answer within {REQUEST:?}"))),
    }
}

/// Writes Events about one object.
struct Teller<'a> {
    recorder: &'a Recorder,
    regarding: ObjectReference,
}

impl Observer for Teller<'_> {
    async fn changed(&self, change: &Change) {
        let told = tokio::time::timeout(TELLING, self.recorder.publish(&event(change), &self.regarding)).await;
        let name = self.regarding.name.as_deref().unwrap_or_default();
        match told {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(name, %error, "an Event could not be written"),
            Err(_) => tracing::debug!(name, "an Event was not taken within {TELLING:?}"),
        }
    }
}

fn event(change: &Change) -> Event {
    let (type_, reason, note, action) = match change {
        Change::Entered { to, kind, why, .. } => {
            let type_ = if *kind == PhaseKind::Failed { EventType::Warning } else { EventType::Normal };
            let note = if why.message.is_empty() { format!("entered {to}") } else { why.message.clone() };
            (type_, (*to).to_owned(), note, why.reason.clone())
        }
        Change::Paused(phase) => {
            (EventType::Normal, "Paused".to_owned(), format!("paused in {phase}"), "Pause".to_owned())
        }
        Change::Resumed(phase) => {
            (EventType::Normal, "Resumed".to_owned(), format!("{phase} goes on"), "Resume".to_owned())
        }
        Change::Retrying { phase, attempts, why } => {
            let note = format!("{phase} will be tried again (attempt {attempts} failed): {why}");
            (EventType::Warning, why.reason.clone(), note, "Retry".to_owned())
        }
        Change::Unreadable(why) => (EventType::Warning, why.reason.clone(), why.message.clone(), "Read".to_owned()),
    };
    // The API takes at most 1 KiB of note.
    Event { type_, reason, note: Some(super::errors::shortened(&note, 1000)), action, secondary: None }
}
