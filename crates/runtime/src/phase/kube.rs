//! The machine on Kubernetes: the journal is the object's status, the observer writes Events.

use std::{future::Future, sync::Arc, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
    core::{ApiResource, DynamicObject},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Change, Controls, Graph, Journal, JournalError, Loaded, Machine, Observer, Phase, PhaseKind, PhaseStatus,
    errors::{said, shortened},
    machine::STALLED,
    status::merge_patch,
};
use crate::{Context, Failure, Key, Next, Object, Reconciler, Recorder};

/// Set to `true` on an object, it cancels its work.
pub const CANCEL: &str = "muster.dev/cancel";
/// Set to `true` on an object, it pauses its work.
pub const PAUSE: &str = "muster.dev/pause";

/// A time on an object: its work is tried again at once, or from the beginning if it had failed.
pub const RETRY: &str = "muster.dev/retry";

/// One request may take this long.
const REQUEST: Duration = Duration::from_secs(30);
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

/// What the annotations [`PAUSE`], [`CANCEL`] and [`RETRY`] ask for.
pub fn annotated_controls<K: Object>(object: &K) -> Controls {
    let set = |name: &str| object.annotations().get(name).is_some_and(|value| value == "true");
    Controls {
        paused: set(PAUSE),
        cancelled: set(CANCEL),
        retry: object.annotations().get(RETRY).and_then(|time| time.parse().ok()),
        deleted: object.meta().deletion_timestamp.is_some(),
        generation: object.meta().generation.unwrap_or_default(),
    }
}

/// A reconciler made of a phase machine.
pub struct Phased<T: Phases> {
    machine: Machine<T::Phase, T::Env>,
    phases: T,
}

impl<T: Phases> Phased<T> {
    /// Runs `machine` for the objects of `phases`.
    pub fn new(phases: T, machine: Machine<T::Phase, T::Env>) -> Self {
        Self { machine, phases }
    }

    /// The machine as a picture.
    pub fn graph(&self) -> &Graph {
        self.machine.graph()
    }
}

impl<T: Phases> Reconciler for Phased<T> {
    type Object = T::Object;

    async fn reconcile(&self, object: Arc<T::Object>, context: &Context) -> Result<Next, Failure> {
        if T::status(&object).is_some_and(|status| self.machine.is_over(status, &T::controls(&object))) {
            return Ok(Next::Wait);
        }
        // The cache may be behind; what is done next depends on where the work really stands.
        let mut journal = ObjectJournal::<T>::new(context.client.clone(), object);
        let loaded = match journal.load().await {
            Ok(loaded) => loaded,
            Err(JournalError::Gone) => return Ok(Next::Wait),
            Err(error) => return Err(Failure::Retry(Box::new(error))),
        };
        let teller = Teller { events: &context.events, object: journal.object.clone() };
        let env = self.phases.env(journal.object.clone(), context);
        self.machine.run(&env, loaded, &mut journal, &teller, &context.clock, context.stopping()).await
    }

    /// Marks an object that is not what its kind says, so that its user sees why nothing happens.
    async fn unreadable(&self, key: &Key, why: &str, context: &Context) -> Result<Next, Failure> {
        let api = dynamic::<T::Object>(context.client.clone(), key.namespace.as_deref());
        let Some(object) = tokio::time::timeout(REQUEST, api.get_opt(&key.name)).await.map_err(Failure::retry)?? else {
            return Ok(Next::Wait);
        };
        let stored = object.data.get("status").unwrap_or(&Value::Null);
        let mut status = PhaseStatus::deserialize(stored).unwrap_or_default();
        let message = format!("this {} cannot be read ({why}); mend it, the work then goes on", self.machine.kind());
        let message = shortened(&message, 1024);
        let known = |c: &Condition| c.type_ == STALLED && c.reason == "ObjectUnreadable" && c.message == message;
        if !status.conditions.iter().any(known) {
            status.set_condition(context.clock.now(), STALLED, "True", "ObjectUnreadable", &message);
            let version = object.metadata.resource_version.clone();
            let patch = json!({"metadata": {"resourceVersion": version}, "status": {"conditions": status.conditions}});
            within(api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(&patch)))
                .await
                .map_err(Failure::retry)?;
        }
        Ok(Next::Wait)
    }
}

/// The status of one object, guarded by its resourceVersion.
struct ObjectJournal<T: Phases> {
    api: Api<DynamicObject>,
    object: Arc<T::Object>,
}

impl<T: Phases> ObjectJournal<T> {
    fn new(client: Client, object: Arc<T::Object>) -> Self {
        Self { api: dynamic::<T::Object>(client, object.namespace().as_deref()), object }
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
                Ok(answer) => {
                    let Loaded { status, controls } = self.take(answer)?;
                    return if status == *new { Ok(controls) } else { Err(not_kept::<T::Object>()) };
                }
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

/// An older definition of the kind cuts off what it does not know.
fn not_kept<K: Object>() -> JournalError {
    JournalError::Unavailable(format!(
        "the API did not keep the status as it was written; is the definition of {} older than this program? \
         `muster crds apply` brings it up to date",
        K::plural(&())
    ))
}

/// The kind as plain JSON, in a namespace or in the cluster.
fn dynamic<K: Object>(client: Client, namespace: Option<&str>) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<K>(&());
    match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    }
}

async fn within(
    request: impl Future<Output = Result<DynamicObject, kube::Error>>,
) -> Result<DynamicObject, JournalError> {
    match tokio::time::timeout(REQUEST, request).await {
        Ok(Ok(object)) => Ok(object),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Err(JournalError::Gone),
        Ok(Err(kube::Error::Api(status))) if status.code == 409 => Err(JournalError::Conflict),
        Ok(Err(error)) => Err(JournalError::Unavailable(said(&error))),
        Err(_) => Err(JournalError::Unavailable(format!("the API did not answer within {REQUEST:?}"))),
    }
}

/// Tells about one object by Events and in the log.
struct Teller<'a, K> {
    events: &'a Recorder,
    object: Arc<K>,
}

impl<K: Object> Observer for Teller<'_, K> {
    async fn changed(&self, change: &Change) {
        let (events, object) = (self.events, self.object.as_ref());
        let name = object.name_any();
        match change {
            Change::Entered { to, kind, why, .. } => {
                let note = if why.message.is_empty() { format!("entered {to}") } else { why.message.clone() };
                tracing::info!(name, phase = to, reason = why.reason, "{note}");
                match kind {
                    PhaseKind::Failed => events.warning(object, &why.reason, to, note),
                    _ => events.normal(object, to, &why.reason, note),
                }
            }
            Change::Paused(phase) => events.normal(object, "Paused", "Pause", format!("paused in {phase}")),
            Change::Resumed(phase) => events.normal(object, "Resumed", "Resume", format!("{phase} goes on")),
            Change::Retrying { phase, attempts, why } => {
                let note = format!("{phase} is tried again (attempt {attempts} failed): {why}");
                tracing::debug!(name, "{note}");
                events.warning(object, &why.reason, "Retry", note);
            }
            Change::Unreadable(why) => {
                tracing::error!(name, "{why}");
                events.warning(object, &why.reason, "Read", why.message.clone());
            }
        }
    }
}
