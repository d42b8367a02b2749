//! CustomResourceDefinitions at work: what they define is served, who got which name is told, and what they leave behind is removed.
//!
//! One task owns all of it. It looks at what is stored, decides, serves, and only then writes down that it serves; whoever wrote a
//! definition waits for it, so that a resource can be used as soon as its definition was answered.

mod cleanup;

use crate::kinds::definition::{CLEANUP, Condition, ESTABLISHED, NAMES_ACCEPTED, TERMINATING, Taken};
use crate::kinds::{Definition, Kind, Registry, custom, definition};
use crate::objects::Part;
use crate::ownership::By;
use crate::served::Served;
use crate::{Api, Inner};
use cleanup::Cleaning;
use meta::{Object, Reason, Status, time};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use store::{Change, Entry, Expect, Range, Revision, Store, Write};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// How long a writer waits for the task at most; what is stored takes effect anyway.
const PATIENCE: Duration = Duration::from_secs(10);
/// How soon what could not be done is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// Deciding and writing it down needs two looks; more are only needed when others write meanwhile.
const LOOKS: usize = 8;
const QUEUE: usize = 256;

pub(crate) fn is_definition(kind: &Kind) -> bool {
    kind.kind == "CustomResourceDefinition" && kind.group == "apiextensions.k8s.io"
}

/// Nothing new is made while the definition is going away.
pub(crate) fn admit(kind: &Kind, name: &str) -> Result<(), Status> {
    match &kind.custom {
        Some(custom) if custom.terminating => Err(going(kind, name)),
        _ => Ok(()),
    }
}

fn going(kind: &Kind, name: &str) -> Status {
    let why = "create not allowed while custom resource definition is terminating";
    Status::forbidden(kind.resource(), name, why)
}

/// Takes an instance back that was made while its definition began to go: the clean-up may not have seen it.
/// Either it was made before the clean-up looked, or the definition's end is visible here.
pub(crate) async fn confirm(
    api: &Inner,
    kind: &Kind,
    namespace: &str,
    name: &str,
    revision: Revision,
) -> Result<(), Status> {
    if kind.custom.is_none() {
        return Ok(());
    }
    let served = api.served.get();
    if served.registry.stored_in(&kind.collection).is_some_and(|now| admit(now, name).is_ok()) {
        return Ok(());
    }
    let write = Write::new(kind.key(namespace, name), Expect::At(revision), Change::Delete);
    // Whoever was faster has removed or changed it: then it is not ours to take back.
    let _ = api.store.write(write).await;
    Err(going(kind, name))
}

/// A deleted definition stays until its instances are gone.
pub(crate) fn mark(kind: &Kind, object: &mut Object, now: &str) {
    if is_definition(kind) && !object.is_deleting() {
        object.add_finalizer(CLEANUP);
        let why = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
        definition::set_condition(object, &Condition::new(TERMINATING, true, "InstanceDeletionPending", why), now);
    }
}

type Waiter = oneshot::Sender<()>;

/// The way to the task.
pub(crate) struct Definitions {
    ask: mpsc::Sender<Waiter>,
    /// What the task starts with; taken once.
    start: Mutex<Option<(mpsc::Receiver<Waiter>, Known)>>,
}

impl Definitions {
    /// Serves what is stored from the first request on.
    pub fn new(store: &Store, stop: &CancellationToken) -> (Self, Arc<Served>) {
        let (ask, asked) = mpsc::channel(QUEUE);
        let builtin = Served::builtin();
        let mut known = Known::default();
        known.look(store, &builtin.registry, stop, "");
        let all = known.all();
        let served = if all.is_empty() { builtin } else { Arc::new(builtin.with(&all)) };
        (Self { ask, start: Mutex::new(Some((asked, known))) }, served)
    }

    /// Returns when everything written before the call is served.
    pub async fn settled(&self) {
        let (tell, told) = oneshot::channel();
        let settled = async {
            if self.ask.send(tell).await.is_ok() {
                let _ = told.await;
            }
        };
        if tokio::time::timeout(PATIENCE, settled).await.is_err() {
            tracing::warn!("a definition takes long to take effect");
        }
    }
}

/// The task: follows definitions until told to stop.
pub(crate) async fn run(api: Api, stop: CancellationToken) {
    let start = api.inner.definitions.start.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some((mut asked, mut known)) = start else { return };
    let Some(kind) = definition_kind(&api.inner.served.get().registry) else { return };
    let mut since = api.inner.store.revision();
    let mut waiting: Vec<Waiter> = Vec::new();
    let mut cleaning = Cleaning::default();
    loop {
        let done = known.settle(&api.inner, &kind).await;
        if let Err(error) = &done {
            tracing::warn!(%error, "the status of definitions could not be written; trying again");
        }
        for waiter in waiting.drain(..) {
            let _ = waiter.send(());
        }
        cleaning.start(&api, &kind, &known);
        let pause = if done.is_err() { RETRY } else { Duration::from_secs(60) };
        tokio::select! {
            () = stop.cancelled() => return,
            Some(waiter) = asked.recv() => {
                waiting.push(waiter);
                while let Ok(more) = asked.try_recv() {
                    waiting.push(more);
                }
            }
            () = api.inner.changed(&kind.collection, &mut since) => {}
            Some(()) = cleaning.ended() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

fn definition_kind(registry: &Registry) -> Option<Arc<Kind>> {
    registry.kinds().iter().find(|kind| is_definition(kind)).cloned()
}

/// The definitions as they were last seen.
#[derive(Default)]
struct Known {
    by_name: BTreeMap<String, Arc<Definition>>,
}

/// A definition with the status it should have, to be written down if nobody changed it meanwhile.
struct Decided {
    name: String,
    version: String,
    object: Object,
}

/// What a look at the store found.
#[derive(Default)]
struct Seen {
    changed: bool,
    decided: Vec<Decided>,
}

impl Known {
    fn all(&self) -> Vec<Arc<Definition>> {
        self.by_name.values().cloned().collect()
    }

    /// Serves what is stored and writes down what was decided.
    async fn settle(&mut self, api: &Inner, kind: &Kind) -> Result<(), Status> {
        for _ in 0..LOOKS {
            let before = self.by_name.clone();
            let now = time::seconds(api.clock.now());
            let served = api.served.get();
            let seen = self.look(&api.store, &served.registry, &api.stop, &now);
            if seen.changed {
                // Served first: nobody reads of a resource that is not there.
                api.served.set(served.with(&self.all()));
                for (name, old) in before {
                    old.retire(self.by_name.get(&name).map(|d| &**d));
                }
            }
            if seen.decided.is_empty() {
                return Ok(());
            }
            for Decided { name, version, object } in seen.decided {
                let by = By::SERVER.through("status");
                let written = api.update(kind, "", &name, Part::Status, &by, |current| {
                    match current.resource_version() == version {
                        true => Ok(object.clone()),
                        false => Err(Status::modified(kind.resource(), &name)),
                    }
                });
                match written.await {
                    // Changed or gone meanwhile: the next look sees it.
                    Err(s) if !matches!(s.reason, Reason::Conflict | Reason::NotFound) => return Err(s),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Brings the known definitions up to date. What did not change costs a comparison of revisions.
    fn look(&mut self, store: &Store, registry: &Registry, stop: &CancellationToken, now: &str) -> Seen {
        let mut seen = Seen::default();
        let Some(kind) = definition_kind(registry) else { return seen };
        let range = Range { collection: &kind.collection, prefix: "", after: None, limit: 0, at: None };
        let mut entries = store.range(&range, |_, _| true).map(|page| page.items).unwrap_or_default();
        let present: HashSet<&str> = entries.iter().map(|(item, _)| &**item).collect();
        let count = self.by_name.len();
        self.by_name.retain(|name, _| present.contains(name.as_str()));
        seen.changed = self.by_name.len() != count;
        // Who came first is served first.
        entries.sort_by_key(|(_, entry)| entry.revision);
        for (name, entry) in &entries {
            let known = self.by_name.get(&**name).cloned();
            if known.as_ref().is_some_and(|k| k.revision == entry.revision && k.is_settled()) {
                continue;
            }
            let Some(mut object) = parse(entry) else { continue };
            let decided = !now.is_empty() && self.decide(&mut object, registry, now);
            if !decided && known.as_ref().is_some_and(|k| k.revision == entry.revision) {
                continue;
            }
            let mut definition = Definition::new(&object, &entry.value, entry.revision, known.as_deref(), stop);
            seen.changed |= match (&known, &definition) {
                (Some(old), Some(new)) => !new.serves_like(old),
                (old, new) => old.is_some() || new.is_some(),
            };
            if let Some(definition) = definition.as_mut().filter(|_| decided) {
                // Not known for good before it is written down: the next look must see it again.
                definition.revision = 0;
            }
            match definition {
                Some(definition) => self.by_name.insert(name.to_string(), Arc::new(definition)),
                None => self.by_name.remove(&**name),
            };
            if decided {
                seen.decided.push(Decided { name: name.to_string(), version: entry.revision.to_string(), object });
            }
        }
        seen
    }

    /// Gives an object the status it should have; tells whether it had another.
    fn decide(&self, object: &mut Object, registry: &Registry, now: &str) -> bool {
        if object.is_deleting() {
            return false;
        }
        let at = |object: &Object, part: &str, names: &str| {
            let value = object.0.get(part).and_then(|p| p.get(names)).cloned().unwrap_or_default();
            custom::Names::parse(&value)
        };
        let (wanted, has) = (at(object, "spec", "names"), at(object, "status", "acceptedNames"));
        let established = custom::condition(object, ESTABLISHED) == "True";
        let mut changed = false;
        if wanted != has || !established || custom::condition(object, NAMES_ACCEPTED) != "True" {
            let group = object.0.get("spec").and_then(|s| s.get("group")).and_then(|g| g.as_str()).unwrap_or_default();
            let taken = self.taken(group, object.name(), registry);
            let (gets, conditions) = definition::grant(&wanted, &has, &taken, established);
            if gets != has {
                let status = object.0.entry("status").or_insert_with(|| serde_json::json!({}));
                status["acceptedNames"] = gets.to_value();
                changed = true;
            }
            for condition in &conditions {
                changed |= definition::set_condition(object, condition, now);
            }
        }
        if let Some(condition) = definition::approval(object) {
            changed |= definition::set_condition(object, &condition, now);
        }
        changed
    }

    fn taken(&self, group: &str, name: &str, registry: &Registry) -> Taken {
        let mut taken = Taken::default();
        for other in self.by_name.values().filter(|d| d.stored.group == group && d.name != name) {
            taken.add(&other.names);
        }
        for kind in registry.builtin_of(group) {
            taken.add(&custom::Names {
                plural: kind.plural.clone(),
                singular: kind.singular.clone(),
                short: kind.short_names.clone(),
                kind: kind.kind.clone(),
                list_kind: kind.list_kind().into_owned(),
                categories: Vec::new(),
            });
        }
        // No name is nobody's.
        taken.resources.remove("");
        taken.kinds.remove("");
        taken
    }
}

fn parse(entry: &Entry) -> Option<Object> {
    let mut object = Object::from_value(meta::json::parse(&entry.value).ok()?.value)?;
    object.set_revision(entry.revision);
    Some(object)
}

#[cfg(test)]
mod tests;
