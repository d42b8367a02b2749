//! What can be done to stored objects, whoever asks: the rules of create, update and delete over compare-and-set.

use crate::kinds::{Kind, metadata};
use crate::ownership::{self, By};
use crate::{Inner, definitions, namespaces};
use bytes::Bytes;
use meta::options::{DeleteOptions, Propagation};
use meta::{FieldError, Object, Status, time};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;
use store::{Attrs, Change, Entry, Expect, Key, Write};

/// How often a write is tried again when somebody else was faster; more means a live-lock worth telling.
const RETRIES: usize = 64;
const NAME_TRIES: usize = 8;
const MAX_NAME: usize = 63;

/// An object in stored form with its revision.
#[derive(Clone)]
pub(crate) struct Stored {
    pub value: Bytes,
    pub revision: u64,
}

impl From<Entry> for Stored {
    fn from(entry: Entry) -> Self {
        Self { value: entry.value, revision: entry.revision }
    }
}

/// Which part of an object a write is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    Status,
    Finalize,
    /// The containers that look into a running pod.
    EphemeralContainers,
    /// The resources of a pod's containers.
    Resize,
}

impl Part {
    /// The subresource it is written through.
    pub fn subresource(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Finalize => "finalize",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Resize => "resize",
        }
    }
}

/// An object on its way into the store.
struct Prepared {
    value: Bytes,
    attrs: Arc<Attrs>,
    /// It was being deleted, and nothing holds it any more.
    released: bool,
}

pub(crate) enum Deleted {
    Gone(Stored),
    /// Finalizers hold it; it is marked.
    Marked(Stored),
}

impl Inner {
    /// Decodes a stored value into the form `kind` serves, with its resourceVersion.
    pub fn decode_stored(&self, kind: &Kind, value: &[u8], revision: u64) -> Result<Object, Status> {
        let parsed =
            meta::json::parse(value).map_err(|e| Status::internal(format!("stored object is damaged: {e}")))?;
        let mut object = Object::from_value(parsed.value).unwrap_or_default();
        kind.to_served(&mut object, revision);
        object.set_revision(revision);
        Ok(object)
    }

    /// The same for somebody who changes the object: its owners stay JSON, and are not part of it.
    fn decode_owned<'e>(&self, kind: &Kind, entry: &'e Entry) -> Result<(Object, Cow<'e, [u8]>), Status> {
        let Some((owners, field)) = meta::object::managed_fields(&entry.value) else {
            let mut object = self.decode_stored(kind, &entry.value, entry.revision)?;
            let owners = object.meta_mut().remove("managedFields").map(|owners| owners.to_string().into_bytes());
            return Ok((object, Cow::Owned(owners.unwrap_or_default())));
        };
        let mut rest = Vec::with_capacity(entry.value.len() - field.len());
        rest.extend_from_slice(&entry.value[..field.start]);
        rest.extend_from_slice(&entry.value[field.end..]);
        Ok((self.decode_stored(kind, &rest, entry.revision)?, Cow::Borrowed(&entry.value[owners])))
    }

    fn encode(&self, kind: &Kind, object: &Object, owners: &[u8]) -> (Bytes, Arc<Attrs>) {
        let mut converted = None;
        let stored = if kind.converts() {
            let converted = converted.insert(object.clone());
            kind.to_stored(converted);
            converted
        } else {
            object
        };
        // Boxed first: spare capacity would be kept for as long as the object lives.
        (stored.encode_with(owners).into_boxed_slice().into(), Arc::new(kind.describe(stored)))
    }

    /// Stores a new object. `object` is in served form, its fields already checked against the kind's schema.
    pub async fn create(&self, kind: &Kind, namespace: &str, object: Object, by: &By<'_>) -> Result<Stored, Status> {
        let claimed = object.meta().get("managedFields").cloned();
        self.check_claimed(kind, &object, claimed.as_ref())?;
        let owned = |object: &Object| self.write(kind, by, |write| write.created(object, claimed.as_ref()));
        self.insert(kind, namespace, object, by.dry_run, owned).await
    }

    /// Stores a new object with the owners that `owned` gives it. What creation itself sets is nobody's.
    pub async fn insert(
        &self,
        kind: &Kind,
        namespace: &str,
        mut object: Object,
        dry_run: bool,
        owned: impl FnOnce(&Object) -> Vec<u8>,
    ) -> Result<Stored, Status> {
        let generated = object.name().is_empty() && !object.meta_text("generateName").is_empty();
        let prefix = object.meta_text("generateName").to_owned();
        self.stamp(kind, namespace, &mut object);
        let mut turn = self.turn(kind).await?;
        // As it is before anything is chosen for it, in case that must be chosen again.
        let asked = turn.as_ref().map(|_| object.clone());
        let (mut owned, mut owners) = (Some(owned), Vec::new());
        let (mut admitted, mut names) = (false, 0);
        for _ in 0..RETRIES {
            if generated {
                names += 1;
                object.set_meta("name", &meta::name::generated(&prefix, MAX_NAME, self.random()));
            }
            if let Some(turn) = turn.as_mut().filter(|_| !dry_run) {
                turn.take_pen().await?;
            }
            if !admitted {
                definitions::admit(kind, object.name())?;
                if kind.namespaced {
                    self.enter(kind, namespace, object.name()).await?;
                }
                kind.default(&mut object);
                // What was asked for is owned, not what is added to it from here on.
                if let Some(owned) = owned.take() {
                    owners = owned(&object);
                }
                if kind.behaviour.status && !kind.behaviour.born_with_status {
                    kind.clear_status(&mut object);
                }
                (kind.behaviour.admit)(self, &mut object, None)?;
                (kind.behaviour.prepare_create)(&mut object);
                self.validate(kind, Part::Main, &object, None)?;
                admitted = true;
            } else {
                kind.default(&mut object);
            }
            let (value, attrs) = self.encode(kind, &object, &owners);
            let key = kind.key(namespace, object.name());
            if dry_run {
                return match self.store.get(&key) {
                    Some(entry) => Err(self.exists(kind, object.name(), Some(entry))),
                    None => Ok(Stored { value, revision: 0 }),
                };
            }
            let write = Write::new(key, Expect::Absent, Change::Put { value: value.clone(), attrs });
            let outcome = match turn.as_mut() {
                Some(turn) => turn.write(write).await,
                None => self.store.write(write).await,
            };
            match outcome {
                Ok(written) => {
                    definitions::confirm(self, kind, namespace, object.name(), written.revision).await?;
                    return Ok(Stored { value, revision: written.revision });
                }
                Err(store::Error::Overtaken) => {
                    object = asked.clone().unwrap_or(object);
                    admitted = false;
                }
                Err(store::Error::Conflict { .. }) if generated && names < NAME_TRIES => continue,
                Err(store::Error::Conflict { .. }) if generated => {
                    return Err(Status::generate_name_exhausted(kind.resource(), object.name()));
                }
                Err(store::Error::Conflict { current }) => {
                    return Err(self.exists(kind, object.name(), current));
                }
                Err(e) => return Err(storage(e)),
            }
        }
        Err(Status::unavailable(format!("other servers keep writing {}; try again", kind.plural)))
    }

    /// Whether an object may be made in the namespace, which another server may have made a moment ago.
    async fn enter(&self, kind: &Kind, namespace: &str, name: &str) -> Result<(), Status> {
        if namespaces::admit(self, kind, namespace, name).is_ok() {
            return Ok(());
        }
        self.store.sync().await.map_err(storage)?;
        namespaces::admit(self, kind, namespace, name)
    }

    /// Whether an object is no longer what it was when it was seen (with that revision, or not at all): another server wrote it, and we
    /// learn of it only now.
    pub async fn is_outdated(&self, key: &Key, seen: Option<u64>) -> Result<bool, Status> {
        self.store.sync().await.map_err(storage)?;
        Ok(self.store.get(key).map(|entry| entry.revision) != seen)
    }

    /// A refusal stands if what it rests on is still so.
    async fn judge_again(&self, key: &Key, seen: Option<u64>, refused: Status) -> Result<(), Status> {
        if self.is_outdated(key, seen).await? { Ok(()) } else { Err(refused) }
    }

    fn exists(&self, kind: &Kind, name: &str, current: Option<Entry>) -> Status {
        let mut status = Status::already_exists(kind.resource(), name);
        let current = current.and_then(|e| self.decode_stored(kind, &e.value, e.revision).ok());
        if current.is_some_and(|o| o.is_deleting()) {
            status.message = format!("object is being deleted: {}", status.message);
        }
        status
    }

    /// System metadata of a new object; what the client sent for it is dropped.
    fn stamp(&self, kind: &Kind, namespace: &str, object: &mut Object) {
        object.set_type(&kind.api_version(), &kind.kind);
        let meta = object.meta_mut();
        for key in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion", "managedFields"] {
            meta.remove(key);
        }
        if kind.behaviour.generation {
            meta.insert("generation".into(), 1.into());
        }
        meta.insert("creationTimestamp".into(), time::seconds(self.clock.now()).into());
        meta.insert("uid".into(), self.uid().into());
        if kind.namespaced {
            object.set_meta("namespace", namespace);
        }
    }

    fn validate(&self, kind: &Kind, part: Part, object: &Object, old: Option<&Object>) -> Result<(), Status> {
        // Who may change everything through the status is judged for everything.
        let whole = self.options.unrestricted_update && kind.custom.is_some();
        let part = if whole { Part::Main } else { part };
        let mut errors = metadata::validate(kind, object);
        if let Some(old) = old {
            errors.extend(metadata::validate_update(object, old));
        }
        errors.extend(kind.validate(part, object, old));
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Status::invalid(kind.error_group(), &kind.kind, object.name(), &errors))
        }
    }

    /// Who owns an object that is answered but not stored: its author, all of it.
    pub fn owners_of_new(&self, kind: &Kind, by: &By<'_>, object: &Object) -> Option<Value> {
        let owners = self.write(kind, by, |write| write.created(object, None));
        meta::json::parse(&owners).ok().map(|parsed| parsed.value)
    }

    fn write<R>(&self, kind: &Kind, by: &By<'_>, act: impl FnOnce(ownership::Write<'_>) -> R) -> R {
        let now = time::seconds(self.clock.now());
        let (served, unrestricted) = (self.served.get(), self.options.unrestricted_update);
        act(ownership::Write { kind, registry: &served.registry, by, now: &now, unrestricted })
    }

    /// Changes an object: `change` gets the current one (served form) and returns the desired one; it runs again when somebody else was faster.
    /// A resourceVersion in the desired object must be the current one.
    pub async fn update(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        part: Part,
        by: &By<'_>,
        mut change: impl FnMut(&Object) -> Result<Object, Status>,
    ) -> Result<Stored, Status> {
        let change = |current: &Object, held: &[u8]| {
            let mut desired = change(current)?;
            let owners = self.owners_after(kind, part, by, current, &mut desired, held)?;
            Ok((desired, owners))
        };
        self.rewrite(kind, namespace, name, part, by.dry_run, change).await
    }

    /// Who owns an object after an update; nothing when they stay the same. Takes what the client says of it out of the object.
    pub fn owners_after(
        &self,
        kind: &Kind,
        part: Part,
        by: &By<'_>,
        current: &Object,
        desired: &mut Object,
        held: &[u8],
    ) -> Result<Option<Vec<u8>>, Status> {
        let claimed = desired.meta_mut().remove("managedFields");
        self.check_claimed(kind, desired, claimed.as_ref())?;
        kind.default(desired);
        // These reach so little that it is told by what they leave.
        if matches!(part, Part::EphemeralContainers | Part::Resize) {
            (kind.behaviour.prepare_part)(part, desired, current);
        }
        Ok(self.write(kind, by, |write| write.updated(current, desired, held, claimed.as_ref())))
    }

    fn check_claimed(&self, kind: &Kind, object: &Object, claimed: Option<&Value>) -> Result<(), Status> {
        match ownership::check_claimed(claimed) {
            errors if errors.is_empty() => Ok(()),
            errors => Err(Status::invalid(kind.error_group(), &kind.kind, object.name(), &errors)),
        }
    }

    /// Lays a configuration over an object: the desired object, and its owners.
    pub fn apply(
        &self,
        kind: &Kind,
        by: &By<'_>,
        live: Option<(&Object, &[u8])>,
        configuration: &Object,
        force: bool,
    ) -> Result<(Object, Vec<u8>), Status> {
        self.write(kind, by, |write| {
            let blank;
            let (live, held) = match live {
                Some(live) => live,
                None => {
                    blank = write.blank();
                    (&blank, &[][..])
                }
            };
            let (object, owners) = write.applied(live, held, configuration, force)?;
            Ok((object.unwrap_or_else(|| live.clone()), owners))
        })
    }

    /// The same as `update` for whoever knows the owners: `change` also gets the current ones, and returns them if they change.
    pub async fn rewrite(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        part: Part,
        dry_run: bool,
        mut change: impl FnMut(&Object, &[u8]) -> Result<(Object, Option<Vec<u8>>), Status>,
    ) -> Result<Stored, Status> {
        let key = kind.key(namespace, name);
        let mut turn = if part == Part::Main { self.turn(kind).await? } else { None };
        for _ in 0..RETRIES {
            if let Some(turn) = turn.as_mut().filter(|_| !dry_run) {
                turn.take_pen().await?;
            }
            let entry = self.store.get(&key);
            let seen = entry.as_ref().map(|entry| entry.revision);
            let prepared = entry.ok_or_else(|| Status::not_found(kind.resource(), name)).and_then(|entry| {
                let prepared = self.prepare(kind, part, &entry, &mut change)?;
                Ok((entry, prepared))
            });
            let (entry, Prepared { value, attrs, released }) = match prepared {
                Ok(prepared) => prepared,
                Err(refused) => {
                    self.judge_again(&key, seen, refused).await?;
                    continue;
                }
            };
            if value == entry.value {
                if self.is_outdated(&key, seen).await? {
                    continue;
                }
                return Ok(entry.into());
            }
            if dry_run {
                return Ok(Stored { value, revision: entry.revision });
            }
            let change = if released { Change::Delete } else { Change::Put { value: value.clone(), attrs } };
            let write = Write::new(key.clone(), Expect::At(entry.revision), change);
            let outcome = match turn.as_mut() {
                Some(turn) => turn.write(write).await,
                None => self.store.write(write).await,
            };
            match outcome {
                Ok(written) => return Ok(Stored { value, revision: written.revision }),
                // Whoever pinned a version is refused in the next round, when it is no longer the current one.
                Err(store::Error::Conflict { .. } | store::Error::Overtaken) => continue,
                Err(e) => return Err(storage(e)),
            }
        }
        Err(Status::modified(kind.resource(), name))
    }

    /// What a change makes of the current object, if it may.
    fn prepare(
        &self,
        kind: &Kind,
        part: Part,
        entry: &Entry,
        change: &mut impl FnMut(&Object, &[u8]) -> Result<(Object, Option<Vec<u8>>), Status>,
    ) -> Result<Prepared, Status> {
        let (current, held) = self.decode_owned(kind, entry)?;
        let (mut desired, owners) = change(&current, &held)?;
        self.check_version(kind, &current, &desired)?;
        self.settle(kind, part, &mut desired, &current)?;
        // When somebody last wrote is not worth a write.
        let owners = owners.filter(|new| !is_same(&desired, &current) || !ownership::only_times_differ(&held, new));
        let (value, attrs) = self.encode(kind, &desired, owners.as_deref().unwrap_or(&held));
        Ok(Prepared { value, attrs, released: current.is_deleting() && is_released(kind, &desired) })
    }

    /// Changes an object as the server itself decides: no rules, nothing kept, and nobody owns it. `change` runs again when somebody else was faster.
    pub async fn modify(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        dry_run: bool,
        change: impl Fn(&mut Object) -> Result<(), Status>,
    ) -> Result<Stored, Status> {
        let key = kind.key(namespace, name);
        for _ in 0..RETRIES {
            let entry = self.store.get(&key);
            let seen = entry.as_ref().map(|entry| entry.revision);
            let prepared = entry.ok_or_else(|| Status::not_found(kind.resource(), name)).and_then(|entry| {
                let (mut object, owners) = self.decode_owned(kind, &entry)?;
                change(&mut object)?;
                let (value, attrs) = self.encode(kind, &object, &owners);
                Ok((entry, value, attrs))
            });
            let (entry, value, attrs) = match prepared {
                Ok(prepared) => prepared,
                Err(refused) => {
                    self.judge_again(&key, seen, refused).await?;
                    continue;
                }
            };
            if dry_run || value == entry.value {
                return Ok(Stored { value, revision: entry.revision });
            }
            let change = Change::Put { value: value.clone(), attrs };
            match self.store.write(Write::new(key.clone(), Expect::At(entry.revision), change)).await {
                Ok(written) => return Ok(Stored { value, revision: written.revision }),
                Err(store::Error::Conflict { .. }) => continue,
                Err(e) => return Err(storage(e)),
            }
        }
        Err(Status::modified(kind.resource(), name))
    }

    /// A version in the desired object must be the current one.
    fn check_version(&self, kind: &Kind, current: &Object, desired: &Object) -> Result<(), Status> {
        let asked = desired.resource_version();
        if asked.is_empty() || asked == "0" {
            if kind.behaviour.unconditional_update {
                return Ok(());
            }
            let e = FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
            return Err(Status::invalid(&kind.group, &kind.plural, current.name(), &[e]));
        }
        if asked != current.resource_version() {
            return Err(Status::modified(kind.resource(), current.name()));
        }
        Ok(())
    }

    /// Makes a desired object storable: what the part may not touch comes from the current one, then the rules are checked.
    fn settle(&self, kind: &Kind, part: Part, desired: &mut Object, current: &Object) -> Result<(), Status> {
        desired.set_type(&kind.api_version(), &kind.kind);
        let meta = desired.meta_mut();
        meta.remove("selfLink");
        for key in ["namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
            if !meta.contains_key(key)
                && let Some(value) = current.meta().get(key)
            {
                meta.insert(key.into(), value.clone());
            }
        }
        keep(meta, current.meta(), "creationTimestamp");
        if kind.behaviour.generation {
            keep(meta, current.meta(), "generation");
        }
        let whole = self.options.unrestricted_update;
        match part {
            Part::Main => {
                if kind.behaviour.status && !whole {
                    keep(&mut desired.0, &current.0, "status");
                }
                (kind.behaviour.prepare_update)(desired, current);
            }
            Part::Status => {
                if !whole {
                    let status = desired.0.remove("status");
                    let meta = desired.0.remove("metadata");
                    *desired = current.clone();
                    match status {
                        Some(status) => desired.0.insert("status".into(), status),
                        None => desired.0.remove("status"),
                    };
                    if let Some(Value::Object(meta)) = meta.filter(|_| kind.behaviour.status_metadata) {
                        desired.0.insert("metadata".into(), Value::Object(meta));
                    }
                }
                (kind.behaviour.prepare_part)(part, desired, current);
            }
            Part::EphemeralContainers | Part::Resize => (kind.behaviour.prepare_part)(part, desired, current),
            Part::Finalize => keep(&mut desired.0, &current.0, "status"),
        }
        kind.default(desired);
        if part == Part::Main {
            (kind.behaviour.admit)(self, desired, Some(current))?;
        }
        let counts = kind.behaviour.generation && !matches!(part, Part::Status | Part::Finalize);
        if counts && kind.is_new_generation(desired, current) {
            let next = current.generation() + 1;
            desired.meta_mut().insert("generation".into(), next.into());
        }
        self.validate(kind, part, desired, Some(current))
    }

    /// Marks an object whose end somebody must bring about: it is gone when they say so, or when the time is up.
    fn mark_graceful(&self, object: &mut Object, seconds: i64) {
        let started = match grace_left(object).filter(|_| object.is_deleting()) {
            Some(left) => time::parse(object.meta_text("deletionTimestamp"))
                .and_then(|at| at.checked_sub(jiff::SignedDuration::from_secs(left)).ok()),
            None => {
                let generation = object.generation();
                if generation > 0 {
                    object.meta_mut().insert("generation".into(), (generation + 1).into());
                }
                None
            }
        };
        let started = started.unwrap_or_else(|| self.clock.now());
        let ends = started.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(started);
        let meta = object.meta_mut();
        meta.insert("deletionTimestamp".into(), time::seconds(ends).into());
        meta.insert("deletionGracePeriodSeconds".into(), seconds.into());
    }

    /// Deletes an object, or marks it when finalizers (its own or those the propagation asks for) hold it.
    pub async fn delete(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        let key = kind.key(namespace, name);
        for _ in 0..RETRIES {
            let entry = self.store.get(&key);
            let seen = entry.as_ref().map(|entry| entry.revision);
            let judged = entry.ok_or_else(|| Status::not_found(kind.resource(), name)).and_then(|entry| {
                let (current, owners) = self.decode_owned(kind, &entry)?;
                preconditions(kind, &current, options)?;
                namespaces::admit_delete(kind, &current)?;
                let owners = owners.into_owned();
                Ok((entry, current, owners))
            });
            let (entry, current, owners) = match judged {
                Ok(judged) => judged,
                Err(refused) => {
                    self.judge_again(&key, seen, refused).await?;
                    continue;
                }
            };
            let mut marked = current.clone();
            let graceful = match (kind.behaviour.grace)(&current, options.grace_seconds) {
                Some(_) if !shortens(&current, options.grace_seconds) => return Ok(Deleted::Marked(entry.into())),
                Some(seconds) => {
                    self.mark_graceful(&mut marked, seconds);
                    true
                }
                None => false,
            };
            let unasked = (kind.behaviour.orphans && !is_settled(&current)).then_some(Propagation::Orphan);
            propagate(&mut marked, options.propagation.or(unasked));
            namespaces::mark(kind, &mut marked);
            let now = time::seconds(self.clock.now());
            definitions::mark(kind, &mut marked, &now);
            let held = !is_released(kind, &marked);
            if held && !marked.is_deleting() {
                let meta = marked.meta_mut();
                meta.insert("deletionTimestamp".into(), now.into());
                if !namespaces::is_namespace(kind) && !definitions::is_definition(kind) {
                    meta.insert("deletionGracePeriodSeconds".into(), 0.into());
                }
                let counts = !definitions::is_definition(kind);
                if let Some(generation) = meta.get("generation").and_then(Value::as_i64).filter(|g| counts && *g > 0) {
                    meta.insert("generation".into(), (generation + 1).into());
                }
            }
            if held && marked == current {
                return Ok(Deleted::Marked(entry.into()));
            }
            let (value, attrs) = self.encode(kind, &marked, &owners);
            // Who watches learns of a graceful deletion before the object is gone, however short the grace.
            let announced = graceful && !held && !options.dry_run;
            let change = if held || announced { Change::Put { value: value.clone(), attrs } } else { Change::Delete };
            if options.dry_run {
                let revision = entry.revision;
                return Ok(if held {
                    Deleted::Marked(Stored { value, revision })
                } else {
                    Deleted::Gone(Stored { value: if graceful { value } else { entry.value }, revision })
                });
            }
            match self.store.write(Write::new(key.clone(), Expect::At(entry.revision), change)).await {
                Ok(written) if held => return Ok(Deleted::Marked(Stored { value, revision: written.revision })),
                Ok(written) if announced => {
                    let expect = Expect::At(written.revision);
                    match self.store.write(Write::new(key.clone(), expect, Change::Delete)).await {
                        Ok(gone) => return Ok(Deleted::Gone(Stored { value, revision: gone.revision })),
                        Err(store::Error::Conflict { .. }) => continue,
                        Err(e) => return Err(storage(e)),
                    }
                }
                Ok(written) => return Ok(Deleted::Gone(Stored { value: entry.value, revision: written.revision })),
                Err(store::Error::Conflict { .. }) => continue,
                Err(e) => return Err(storage(e)),
            }
        }
        Err(Status::modified(kind.resource(), name))
    }
}

/// Nothing holds the object any more: no finalizer, and nobody who is given time to end it.
fn is_released(kind: &Kind, object: &Object) -> bool {
    let waits = kind.behaviour.waits && grace_left(object).is_some_and(|seconds| seconds > 0);
    object.finalizers().next().is_none() && !namespaces::is_held(kind, object) && !waits
}

/// The grace a deletion was given.
fn grace_left(object: &Object) -> Option<i64> {
    object.meta().get("deletionGracePeriodSeconds").and_then(Value::as_i64)
}

/// A deletion that is under way can only be made shorter; one without grace is over when nothing holds it.
fn shortens(current: &Object, asked: Option<i64>) -> bool {
    match grace_left(current).filter(|_| current.is_deleting()) {
        None => true,
        Some(0) => current.finalizers().next().is_none(),
        Some(left) => asked.is_some_and(|asked| asked < left),
    }
}

fn keep(into: &mut serde_json::Map<String, Value>, from: &serde_json::Map<String, Value>, key: &str) {
    match from.get(key) {
        Some(value) => into.insert(key.into(), value.clone()),
        None => into.remove(key),
    };
}

/// An earlier delete has already said what becomes of the dependents.
fn is_settled(object: &Object) -> bool {
    object.has_finalizer(metadata::FOREGROUND) || object.has_finalizer(metadata::ORPHAN)
}

/// The same but for the version it was read at.
fn is_same(a: &Object, b: &Object) -> bool {
    fn meta(o: &Object) -> impl Iterator<Item = (&String, &Value)> {
        o.meta().iter().filter(|(key, _)| *key != "resourceVersion")
    }
    fn rest(o: &Object) -> impl Iterator<Item = (&String, &Value)> {
        o.0.iter().filter(|(key, _)| *key != "metadata")
    }
    meta(a).eq(meta(b)) && rest(a).eq(rest(b))
}

fn propagate(object: &mut Object, propagation: Option<Propagation>) {
    let (keep, drop) = match propagation {
        None => return,
        Some(Propagation::Background) => {
            object.remove_finalizer(metadata::FOREGROUND);
            (None, metadata::ORPHAN)
        }
        Some(Propagation::Foreground) => (Some(metadata::FOREGROUND), metadata::ORPHAN),
        Some(Propagation::Orphan) => (Some(metadata::ORPHAN), metadata::FOREGROUND),
    };
    object.remove_finalizer(drop);
    if let Some(finalizer) = keep {
        object.add_finalizer(finalizer);
    }
}

pub(crate) fn preconditions(kind: &Kind, current: &Object, options: &DeleteOptions) -> Result<(), Status> {
    let check = |what: &str, asked: &Option<String>, is: &str, then: &str| match asked {
        Some(asked) if asked != is => {
            let why = format!(
                "the {what} in the precondition ({asked}) does not match the {what} in record ({is}). The object might have been {then}"
            );
            let named = meta::GroupResource { group: &kind.group, resource: &kind.kind };
            Err(Status::conflict(named, current.name(), &why))
        }
        _ => Ok(()),
    };
    check("UID", &options.uid, current.uid(), "deleted and then recreated")?;
    check("ResourceVersion", &options.resource_version, current.resource_version(), "modified")
}

/// A storage failure as clients should see it.
pub(crate) fn storage(e: store::Error) -> Status {
    match e {
        store::Error::Compacted { .. } => Status::expired("The resourceVersion for the provided list is too old."),
        store::Error::Full(why) => Status::storage_full(format!(
            "the disk that holds the data is full, nothing was written: {why}; free some space, writing resumes by itself"
        )),
        store::Error::TooLarge { limit, .. } => Status::too_large(limit),
        e @ store::Error::Unknown(_) => Status::timeout(format!(
            "request did not complete within requested timeout - {e}; read before trying again"
        )),
        e @ (store::Error::Unavailable(_) | store::Error::Closed) => Status::unavailable(e.to_string()),
        e => Status::internal(e),
    }
}

#[cfg(test)]
mod late;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_of_unknown_outcome_is_a_timeout_and_not_a_failure() {
        let status = storage(store::Error::Unknown("the connection broke".into()));
        assert_eq!((status.code, status.reason), (504, meta::Reason::Timeout));
        assert!(
            status.message.starts_with("Timeout: request did not complete within requested timeout - "),
            "{status}"
        );
        assert_eq!(storage(store::Error::Closed).code, 503);
        assert_eq!(storage(store::Error::Full("x".into())).code, 507);
    }
}
