//! The controllers of workloads: each looks at one object and does the next thing towards what it asks for.

pub(crate) mod budget;
pub(crate) mod cron;
pub(crate) mod cron_job;
pub(crate) mod daemon_set;
pub(crate) mod deployment;
pub(crate) mod endpoints;
pub(crate) mod job;
pub(crate) mod replica_set;
pub(crate) mod revision;
pub(crate) mod stateful_set;

use meta::options::DeleteOptions;
use meta::{Object, Status};

use crate::cluster::{Cluster, Happening, is_race};
use crate::look::{condition, is_true, owned};

/// The pods an object owns, whatever state they are in.
pub(crate) fn pods_of(cluster: &Cluster, owner: &Object) -> Vec<Object> {
    cluster.kinds.pods.list(owner.namespace(), |entry| owned(entry, owner.uid()))
}

/// Ready for long enough. If not yet: in how many seconds.
pub(crate) fn available(cluster: &Cluster, pod: &Object, seconds: i64) -> Result<(), Option<u64>> {
    if !is_true(pod, "Ready") {
        return Err(None);
    }
    let since = condition(pod, "Ready")["lastTransitionTime"].as_str().unwrap_or_default();
    let left = seconds - cluster.since(since).unwrap_or(seconds);
    if seconds == 0 || left <= 0 { Ok(()) } else { Err(u64::try_from(left).ok()) }
}

/// Makes a pod for an owner, and tells of it.
pub(crate) async fn make(
    cluster: &Cluster,
    owner: &Object,
    component: &'static str,
    pod: Object,
) -> Result<(), Status> {
    match cluster.kinds.pods.create(owner.namespace(), pod).await {
        Ok(pod) => {
            let why = format!("Created pod: {}", pod.name());
            cluster.tell(owner, Happening::normal(component, "SuccessfulCreate", why)).await;
            Ok(())
        }
        Err(error) if is_race(&error) => Ok(()),
        Err(error) => {
            let why = format!("Error creating: {}", error.message);
            cluster.tell(owner, Happening::warning(component, "FailedCreate", why)).await;
            Err(error)
        }
    }
}

/// Deletes a pod of an owner, and tells of it.
pub(crate) async fn unmake(
    cluster: &Cluster,
    owner: &Object,
    component: &'static str,
    pod: &Object,
) -> Result<(), Status> {
    let options = DeleteOptions { uid: Some(pod.uid().to_owned()), ..DeleteOptions::default() };
    match cluster.kinds.pods.delete(pod.namespace(), pod.name(), &options).await {
        Ok(()) => {
            let why = format!("Deleted pod: {}", pod.name());
            cluster.tell(owner, Happening::normal(component, "SuccessfulDelete", why)).await;
            Ok(())
        }
        Err(error) if is_race(&error) => Ok(()),
        Err(error) => Err(error),
    }
}
