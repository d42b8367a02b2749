//! Changes of objects: what the part may not touch stays, the rules are checked, compare-and-set decides.

use super::delete::is_released;
use super::{Part, RETRIES, Stored, keep, storage};
use crate::Inner;
use crate::kinds::{Kind, spec_changes};
use crate::ownership::{self, By};
use crate::router::wrote;
use bytes::Bytes;
use meta::{FieldError, Object, Status};
use serde_json::Value;
use std::sync::Arc;
use store::{Attrs, Change, Entry, Expect, Write};

/// An object on its way into the store.
struct Prepared {
    value: Bytes,
    attrs: Arc<Attrs>,
    /// It was being deleted, and nothing holds it any more.
    released: bool,
}

impl Inner {
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
        Ok(self.write(kind, by, |write| write.updated(current, &kind.authored(desired), held, claimed.as_ref())))
    }

    pub(super) fn check_claimed(&self, kind: &Kind, object: &Object, claimed: Option<&Value>) -> Result<(), Status> {
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
        let may_change_all = part == Part::Main || (part == Part::Status && self.writes_whole(kind));
        let mut turn = if may_change_all { self.turn(kind).await? } else { None };
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
                Ok(written) => {
                    wrote(written.revision);
                    return Ok(Stored { value, revision: written.revision });
                }
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
                Ok(written) => {
                    wrote(written.revision);
                    return Ok(Stored { value, revision: written.revision });
                }
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
        let whole = self.writes_whole(kind);
        let part = if whole { judged_as(kind, part, desired, current) } else { part };
        match part {
            Part::Main => {
                if whole {
                    prepare_status(kind, desired, current);
                } else if kind.behaviour.status {
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
        self.validate(kind, part, desired, Some(current))?;
        kind.drop_empty_lists(desired);
        let counts = kind.behaviour.generation && !matches!(part, Part::Status | Part::Finalize);
        if counts && kind.is_new_generation(desired, current) {
            let next = current.generation() + 1;
            desired.meta_mut().insert("generation".into(), next.into());
        }
        Ok(())
    }
}

/// Where one write may change an object and its status together, one through the status that changes more is a change of the object.
fn judged_as(kind: &Kind, part: Part, desired: &mut Object, current: &Object) -> Part {
    if part != Part::Status {
        return part;
    }
    kind.default(desired);
    if spec_changes(desired, current) { Part::Main } else { Part::Status }
}

/// What the server knows of a status is not forgotten by those who write it along with the rest.
fn prepare_status(kind: &Kind, desired: &mut Object, current: &Object) {
    if desired.0.get("status") == current.0.get("status") {
        return;
    }
    // Which metadata a status may touch is not the question here.
    let metadata = desired.0.get("metadata").cloned();
    (kind.behaviour.prepare_part)(Part::Status, desired, current);
    if let Some(metadata) = metadata {
        desired.0.insert("metadata".into(), metadata);
    }
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
