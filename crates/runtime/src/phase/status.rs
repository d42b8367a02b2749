//! Everything the machine knows about an object, as it stands in the object's status.

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::Next;

/// How many transitions are kept.
pub(crate) const HISTORY: usize = 32;
/// How many bytes of progress an object may carry; API servers refuse objects over about 1.5 MB.
pub(crate) const STATE_BYTES: usize = 512 * 1024;

/// The journal of the phase machine. A kind's status is this, or flattens it: `#[serde(flatten)] phases: PhaseStatus`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PhaseStatus {
    /// The phase the object is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// What is going on, in a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The generation of the spec that was last acted on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the phase began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase_started_at: Option<Time>,
    /// When the phase fails if it is not over by then; moved on by the time spent paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// Since when the work is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_since: Option<Time>,
    /// How many times in a row the phase was tried in vain.
    #[serde(skip_serializing_if = "is_zero")]
    pub attempts: u32,
    /// Not tried before this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Time>,
    /// The last wish to try again that was heeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retried_at: Option<Time>,
    /// Progress: from the name of a phase to the state of its handler, nested for composed handlers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "any_object")]
    pub state: BTreeMap<String, StepState>,
    /// The last transitions, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Visit>,
    /// Succeeded, Paused, Stalled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Why the stored status could not be read. Such a status is never overwritten, only marked.
    #[serde(skip)]
    #[schemars(skip)]
    pub(crate) unreadable: Option<String>,
}

/// How far one handler has come.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepState {
    /// It has ended well and never runs again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub done: bool,
    /// When it first began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// What it last said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Its checkpoint, in a shape of its own.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
    /// Its sub-handlers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub steps: BTreeMap<String, StepState>,
}

/// One transition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Visit {
    /// The phase that was entered.
    pub phase: String,
    /// When.
    pub at: Time,
    /// Why, in one word.
    pub reason: String,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Recursion cannot be written in the schema of a CRD, so the state is any object there.
fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// The same fields, read strictly.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Stored {
    phase: Option<String>,
    message: Option<String>,
    observed_generation: Option<i64>,
    phase_started_at: Option<Time>,
    deadline: Option<Time>,
    paused_since: Option<Time>,
    attempts: u32,
    next_attempt_at: Option<Time>,
    retried_at: Option<Time>,
    state: BTreeMap<String, StepState>,
    history: Vec<Visit>,
    conditions: Vec<Condition>,
}

impl<'de> Deserialize<'de> for PhaseStatus {
    /// Never fails on a wrong shape: an object whose status somebody broke must still be seen, to be told about.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if value.is_null() {
            return Ok(Self::default());
        }
        Ok(match Stored::deserialize(&value) {
            Ok(stored) => Self {
                phase: stored.phase,
                message: stored.message,
                observed_generation: stored.observed_generation,
                phase_started_at: stored.phase_started_at,
                deadline: stored.deadline,
                paused_since: stored.paused_since,
                attempts: stored.attempts,
                next_attempt_at: stored.next_attempt_at,
                retried_at: stored.retried_at,
                state: stored.state,
                history: stored.history,
                conditions: stored.conditions,
                unreadable: None,
            },
            Err(why) => Self {
                conditions: value
                    .get("conditions")
                    .and_then(|conditions| Vec::deserialize(conditions).ok())
                    .unwrap_or_default(),
                unreadable: Some(why.to_string()),
                ..Self::default()
            },
        })
    }
}

impl PhaseStatus {
    /// Whether a condition stands at `status` for `reason`.
    pub(crate) fn has_condition(&self, type_: &str, status: &str, reason: &str) -> bool {
        self.conditions.iter().any(|c| c.type_ == type_ && c.status == status && c.reason == reason)
    }

    /// Sets a condition; the time of its last transition moves only when its status does.
    pub(crate) fn set_condition(&mut self, now: Timestamp, type_: &str, status: &str, reason: &str, message: &str) {
        let now = whole_seconds(now);
        let observed_generation = self.observed_generation;
        match self.conditions.iter_mut().find(|condition| condition.type_ == type_) {
            Some(condition) => {
                if condition.status != status {
                    condition.last_transition_time = now;
                }
                status.clone_into(&mut condition.status);
                reason.clone_into(&mut condition.reason);
                message.clone_into(&mut condition.message);
                condition.observed_generation = observed_generation;
            }
            None => self.conditions.push(Condition {
                type_: type_.to_owned(),
                status: status.to_owned(),
                reason: reason.to_owned(),
                message: message.to_owned(),
                last_transition_time: now,
                observed_generation,
            }),
        }
    }

    /// Takes a condition away.
    pub(crate) fn clear_condition(&mut self, type_: &str) {
        self.conditions.retain(|condition| condition.type_ != type_);
    }

    /// The state at a path of names: a phase, then its sub-handlers.
    pub(crate) fn step(&self, path: &[Cow<'static, str>]) -> Option<&StepState> {
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(self.state.get(first.as_ref())?, |state, name| state.steps.get(name.as_ref()))
    }

    /// The same, to be changed; made where it is missing.
    pub(crate) fn step_mut(&mut self, path: &[Cow<'static, str>]) -> Option<&mut StepState> {
        let (first, rest) = path.split_first()?;
        let root = self.state.entry(first.to_string()).or_default();
        Some(rest.iter().fold(root, |state, name| state.steps.entry(name.to_string()).or_default()))
    }

    /// When to look again: after `wait`, but not later than the deadline.
    pub(crate) fn next(&self, now: Timestamp, wait: Duration) -> Next {
        Next::After(self.deadline.as_ref().map_or(wait, |end| wait.min(until(now, end))))
    }

    /// Appends to the history and forgets its oldest end.
    pub(crate) fn record(&mut self, visit: Visit) {
        self.history.push(visit);
        let surplus = self.history.len().saturating_sub(HISTORY);
        self.history.drain(..surplus);
    }
}

/// The API keeps whole seconds; what is compared later must be what was stored.
pub(crate) fn whole_seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

/// `after` from now, rounded up to a whole second so that a short wait does not vanish.
pub(crate) fn seconds_from(now: Timestamp, after: Duration) -> Time {
    let at = jiff::SignedDuration::try_from(after).ok().and_then(|after| now.checked_add(after).ok());
    let at = at.unwrap_or(Timestamp::MAX);
    let up = i64::from(at.subsec_nanosecond() > 0);
    Time(Timestamp::from_second(at.as_second().saturating_add(up)).unwrap_or(Timestamp::MAX))
}

/// How long from `now` until `at`; zero when it has passed.
pub(crate) fn until(now: Timestamp, at: &Time) -> Duration {
    Duration::try_from(at.0.duration_since(now)).unwrap_or_default()
}

/// What changes `old` into `new` as a JSON merge patch; `None` when nothing does. Nulls within values cannot be said in a merge
/// patch and are read as absent.
pub(crate) fn merge_patch(old: &Value, new: &Value) -> Option<Value> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let mut patch = serde_json::Map::new();
            for (name, value) in new {
                if value.is_null() {
                    continue;
                }
                let change = match old.get(name) {
                    Some(before) => merge_patch(before, value),
                    None => Some(value.clone()),
                };
                patch.extend(change.map(|change| (name.clone(), change)));
            }
            for name in old.keys().filter(|name| new.get(*name).is_none_or(Value::is_null)) {
                patch.insert(name.clone(), Value::Null);
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (old, new) => (old != new).then(|| new.clone()),
    }
}
