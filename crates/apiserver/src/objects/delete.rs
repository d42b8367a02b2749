//! Deletions: at once, or marked while finalizers or grace hold the object.

use super::{RETRIES, Stored, storage};
use crate::kinds::{Kind, metadata};
use crate::{Inner, definitions, namespaces};
use meta::options::{DeleteOptions, Propagation};
use meta::{Object, Status, time};
use serde_json::Value;
use store::{Change, Expect, Write};

pub(crate) enum Deleted {
    Gone(Stored),
    /// Finalizers hold it; it is marked.
    Marked(Stored),
}

impl Inner {
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
pub(super) fn is_released(kind: &Kind, object: &Object) -> bool {
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

/// An earlier delete has already said what becomes of the dependents.
fn is_settled(object: &Object) -> bool {
    object.has_finalizer(metadata::FOREGROUND) || object.has_finalizer(metadata::ORPHAN)
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
