//! What must still be removed from members that could not be asked: written down in the meta cluster, done when the member is back,
//! given up only by a person, and that is written down too.

use std::{collections::BTreeSet, time::Duration};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{AppliedError, AppliedSet, Owner, Policy, hex};
use crate::{Fleet, State};

/// `pending` or `abandoned`.
const LABEL: &str = "muster.dev/cleanup";
/// How long a removal may take before it is put off.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often what is put off is looked at.
const EVERY: Duration = Duration::from_secs(5);
/// The API takes notes of events up to here.
const LONGEST_NOTE: usize = 1_000;
/// Removals at once.
const AT_ONCE: usize = 64;

/// How a removal ended. Either way the owner's finalizer may go: nothing is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Everything is gone.
    Done,
    /// Written down: it is done when the member can be asked.
    PutOff,
}

/// A removal that is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleanup {
    /// On which member.
    pub member: String,
    /// Whose objects.
    pub owner: Owner,
    /// Whether namespaces and definitions go too.
    pub delete_containers: bool,
    /// Since when.
    pub since: Option<Timestamp>,
    /// Why it was given up and by whom, if it was.
    pub abandoned: Option<String>,
}

/// The removals that are not done, kept as ConfigMaps in the meta cluster.
#[derive(Clone)]
pub struct Cleanups {
    meta: Client,
    namespace: String,
    api: Api<ConfigMap>,
}

impl Cleanups {
    /// Kept in `namespace` of the meta cluster.
    pub fn new(meta: Client, namespace: &str) -> Self {
        Cleanups { api: Api::namespaced(meta.clone(), namespace), namespace: namespace.to_owned(), meta }
    }

    /// Removes an owner's objects from a member, now if it can be asked, otherwise later. An error means that nothing was written
    /// down either: keep the finalizer and try again.
    pub async fn remove(
        &self,
        fleet: &Fleet,
        member: &str,
        owner: &Owner,
        policy: Policy,
    ) -> Result<Removal, AppliedError> {
        if let Some(found) = fleet.member(member)
            && found.status().state == State::Running
        {
            let set = AppliedSet::new(found.client(), owner.clone(), policy);
            match timeout(PATIENCE, until_gone(&set)).await {
                Ok(Ok(())) => {
                    self.forget(member, owner).await?;
                    return Ok(Removal::Done);
                }
                Ok(Err(error)) => {
                    tracing::warn!(member, %owner, %error, "the objects cannot be removed now; it is written down and tried again");
                }
                Err(_) => {
                    tracing::warn!(member, %owner, "the objects are not gone yet; it is written down and tried again");
                }
            }
        }
        self.remember(member, owner, policy).await?;
        Ok(Removal::PutOff)
    }

    /// Everything put off or given up.
    pub async fn list(&self) -> Result<Vec<Cleanup>, kube::Error> {
        let found = self.api.list(&ListParams::default().labels(LABEL)).await?;
        Ok(found.iter().filter_map(read).collect())
    }

    /// Gives a removal up: the objects stay where they are. The record says who and why, and stays; so does an event.
    pub async fn abandon(&self, member: &str, owner: &Owner, by: &str, why: &str) -> Result<(), kube::Error> {
        let said = format!("{} by {by}: {why}", Timestamp::now());
        let patch = json!({"metadata": {"labels": {LABEL: "abandoned"}}, "data": {"abandoned": said}});
        let record = self.api.patch(&name(member, owner), &PatchParams::default(), &Patch::Merge(&patch)).await?;
        tracing::warn!(member, %owner, by, why, "a clean-up was given up; the objects stay on the member");
        let note = format!("{by} gave up removing the objects of {owner} from {member}: {why}");
        // The record stands; that its event cannot be written is no reason to say that it was not given up.
        match timeout(EVERY, self.tell(&record, note)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(member, %error, "the event of a clean-up given up cannot be written"),
            Err(_) => tracing::warn!(member, "the event of a clean-up given up cannot be written in time"),
        }
        Ok(())
    }

    async fn tell(&self, record: &ConfigMap, mut note: String) -> Result<(), kube::Error> {
        note.truncate(note.floor_char_boundary(LONGEST_NOTE));
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("ConfigMap".to_owned()),
            namespace: Some(self.namespace.clone()),
            name: record.metadata.name.clone(),
            uid: record.metadata.uid.clone(),
            ..ObjectReference::default()
        };
        let event = Event {
            type_: EventType::Warning,
            reason: "CleanupAbandoned".to_owned(),
            note: Some(note),
            action: "Abandon".to_owned(),
            secondary: None,
        };
        let reporter = Reporter { controller: "muster-fleet".to_owned(), instance: None };
        Recorder::new(self.meta.clone(), reporter).publish(&event, &about).await
    }

    /// Does what was put off as members come back, until stopped. Members do not wait for each other.
    pub async fn run(&self, fleet: Fleet, stop: CancellationToken) {
        let work = async {
            // The removals under way, by member and owner; one that hangs holds up no other.
            let mut under_way = BTreeSet::new();
            let mut tries = FuturesUnordered::new();
            let mut tick = interval(EVERY);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    done = tries.next(), if !tries.is_empty() => {
                        if let Some(done) = done {
                            under_way.remove(&done);
                        }
                    }
                    _ = tick.tick() => {
                        for cleanup in self.due(&fleet).await {
                            let id = (cleanup.member.clone(), cleanup.owner.clone());
                            if under_way.len() < AT_ONCE && under_way.insert(id.clone()) {
                                tries.push(self.one(&fleet, cleanup).map(|()| id));
                            }
                        }
                    }
                }
            }
        };
        stop.run_until_cancelled(work).await;
    }

    /// What was put off and whose member can be asked.
    async fn due(&self, fleet: &Fleet) -> Vec<Cleanup> {
        let all = match timeout(EVERY, self.list()).await {
            Ok(Ok(all)) => all,
            Ok(Err(error)) => {
                tracing::debug!(%error, "the clean-ups cannot be read; trying again");
                return Vec::new();
            }
            Err(_) => {
                tracing::debug!("the clean-ups cannot be read in time; trying again");
                return Vec::new();
            }
        };
        let here = |cleanup: &Cleanup| {
            let member = fleet.member(&cleanup.member);
            cleanup.abandoned.is_none() && member.is_some_and(|member| member.status().state == State::Running)
        };
        all.into_iter().filter(here).collect()
    }

    async fn one(&self, fleet: &Fleet, cleanup: Cleanup) {
        let Some(member) = fleet.member(&cleanup.member) else { return };
        let policy = Policy { delete_containers: cleanup.delete_containers, ..Policy::default() };
        let set = AppliedSet::new(member.client(), cleanup.owner.clone(), policy);
        match timeout(PATIENCE, until_gone(&set)).await {
            Ok(Ok(())) => {
                // If it cannot be forgotten, it is done again, which harms nobody.
                if timeout(EVERY, self.forget(&cleanup.member, &cleanup.owner)).await.is_ok_and(|done| done.is_ok()) {
                    tracing::info!(member = cleanup.member, owner = %cleanup.owner, "what was put off is cleaned up");
                }
            }
            Ok(Err(error)) => {
                tracing::debug!(member = cleanup.member, owner = %cleanup.owner, %error, "cannot be cleaned up yet");
            }
            Err(_) => tracing::debug!(member = cleanup.member, owner = %cleanup.owner, "not gone yet"),
        }
    }

    async fn remember(&self, member: &str, owner: &Owner, policy: Policy) -> Result<(), AppliedError> {
        let containers = policy.delete_containers.to_string();
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name(member, owner), "labels": {LABEL: "pending"}},
            "data": {"member": member, "kind": owner.kind, "namespace": owner.namespace, "name": owner.name, "uid": owner.uid,
                "deleteContainers": containers, "since": Timestamp::now().to_string()}});
        let map: ConfigMap = serde_json::from_value(map).map_err(kube::Error::SerdeError)?;
        match self.api.create(&PostParams::default(), &map).await {
            Ok(_) => Ok(()),
            // Already written down, or given up already: both stand.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn forget(&self, member: &str, owner: &Owner) -> Result<(), kube::Error> {
        match self.api.delete(&name(member, owner), &DeleteParams::default()).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Tells the objects to go and waits until they are gone.
async fn until_gone(set: &AppliedSet) -> Result<(), AppliedError> {
    let mut pause = Duration::from_millis(100);
    while !set.remove().await?.is_done() {
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(5));
    }
    Ok(())
}

fn name(member: &str, owner: &Owner) -> String {
    format!("muster-cleanup-{}-{}", hex(member, 6), owner.label())
}

fn read(map: &ConfigMap) -> Option<Cleanup> {
    let data = map.data.as_ref()?;
    let text = |key: &str| data.get(key).cloned();
    let given_up = map.labels().get(LABEL).is_some_and(|label| label == "abandoned");
    Some(Cleanup {
        member: text("member")?,
        owner: Owner { kind: text("kind")?, namespace: text("namespace")?, name: text("name")?, uid: text("uid")? },
        delete_containers: text("deleteContainers").as_deref() == Some("true"),
        since: text("since").and_then(|since| since.parse().ok()),
        abandoned: given_up.then(|| text("abandoned").unwrap_or_default()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_up_is_read_as_it_was_written() {
        let data = json!({"metadata": {"labels": {LABEL: "abandoned"}}, "data": {"member": "m", "kind": "AppSet", "namespace": "n",
            "name": "a", "uid": "u", "deleteContainers": "true", "since": "2026-01-01T00:00:00Z", "abandoned": "by me: gone"}});
        let cleanup = read(&serde_json::from_value(data).unwrap()).unwrap();
        assert_eq!(cleanup.owner.to_string(), "AppSet n/a");
        assert_eq!((cleanup.delete_containers, cleanup.abandoned.as_deref()), (true, Some("by me: gone")));
        assert!(cleanup.since.is_some());
        assert_eq!(read(&ConfigMap::default()), None);
    }

    #[test]
    fn an_owner_made_again_under_the_same_name_is_another() {
        let owner =
            |uid: &str| Owner { kind: "AppSet".into(), namespace: "n".into(), name: "a".into(), uid: uid.into() };
        assert_ne!(owner("1").label(), owner("2").label());
        assert_ne!(name("m", &owner("1")), name("m2", &owner("1")));
        assert!(owner("1").label().len() <= 63);
    }
}
