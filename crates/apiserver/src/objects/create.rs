//! New objects: stamped, defaulted, owned, admitted, judged, stored if there is none of the name.

use super::{Part, RETRIES, Stored, storage};
use crate::kinds::Kind;
use crate::ownership::By;
use crate::router::wrote;
use crate::{Inner, access, definitions, namespaces};
use meta::{Object, Status, time};
use store::{Change, Entry, Expect, Write};

const NAME_TRIES: usize = 8;
const MAX_NAME: usize = 63;

impl Inner {
    /// Stores a new object. `object` is in served form, its fields already checked against the kind's schema.
    pub async fn create(&self, kind: &Kind, namespace: &str, object: Object, by: &By<'_>) -> Result<Stored, Status> {
        let claimed = object.meta().get("managedFields").cloned();
        self.check_claimed(kind, &object, claimed.as_ref())?;
        let owned =
            |object: &Object| self.write(kind, by, |write| write.created(&kind.authored(object), claimed.as_ref()));
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
                if kind.behaviour.runs_as_account {
                    access::assigned::assign(self, namespace, &mut object).await?;
                }
                (kind.behaviour.admit)(self, &mut object, None)?;
                (kind.behaviour.prepare_create)(&mut object);
                self.validate(kind, Part::Main, &object, None)?;
                kind.drop_empty_lists(&mut object);
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
                    wrote(written.revision);
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
}
