//! ControllerRevisions: the templates a StatefulSet or DaemonSet had, by number, so that they can be returned to.

use meta::options::DeleteOptions;
use meta::{Object, Reason, Status};
use serde_json::{Value, json};

use crate::cluster::{Cluster, is_race};
use crate::look::{at, hash, label, number, owned, owner_reference, short_hash};

/// The label that says of which revision a pod is.
pub(crate) const HASH: &str = "controller-revision-hash";

/// All revisions of an owner, the oldest first.
pub(crate) fn all(cluster: &Cluster, owner: &Object) -> Vec<Object> {
    let mut all = cluster.kinds.revisions.list(owner.namespace(), |entry| owned(entry, owner.uid()));
    all.sort_by_key(|revision| number(revision, "/revision"));
    all
}

/// The template as a patch that brings it back.
fn data(owner: &Object) -> Value {
    let mut template = at(owner, "/spec/template").clone();
    template["$patch"] = "replace".into();
    json!({"spec": {"template": template}})
}

/// The template a revision keeps.
pub(crate) fn template(revision: &Object) -> Value {
    let mut template = at(revision, "/data/spec/template").clone();
    if let Some(map) = template.as_object_mut() {
        map.remove("$patch");
    }
    template
}

/// The revision of the owner's template now; made, or made the newest again, if need be.
pub(crate) async fn current(cluster: &Cluster, owner: &Object) -> Result<Object, Status> {
    let all = all(cluster, owner);
    let data = data(owner);
    let newest = all.last().map(|revision| number(revision, "/revision")).unwrap_or_default();
    if let Some(same) = all.iter().find(|revision| revision.0.get("data") == Some(&data)) {
        if number(same, "/revision") < newest {
            let raised = cluster.kinds.revisions.update(owner.namespace(), same.name(), |revision| {
                revision.0.insert("revision".into(), (newest + 1).into());
            });
            return raised.await;
        }
        return Ok(same.clone());
    }
    for salt in 0..8 {
        let hash = short_hash(hash(&[&data.to_string(), &salt.to_string()]));
        let mut labels = at(owner, "/spec/template").pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({}));
        labels[HASH] = hash.as_str().into();
        let name = format!("{}-{hash}", owner.name());
        let revision = json!({"metadata": {"name": name, "labels": labels,
                "ownerReferences": owner_reference(owner.api_version(), owner.kind(), owner)},
            "data": data, "revision": newest + 1});
        match cluster.kinds.revisions.create(owner.namespace(), Object::from_value(revision).unwrap_or_default()).await
        {
            Err(error) if error.reason == Reason::AlreadyExists => continue,
            outcome => return outcome,
        }
    }
    Err(Status::internal(format!("no free name for a revision of {}", owner.name())))
}

pub(crate) fn hash_of(revision: &Object) -> &str {
    label(revision, HASH).unwrap_or_default()
}

/// Revisions beyond the limit that nobody uses go, the oldest first.
pub(crate) async fn forget(cluster: &Cluster, owner: &Object, used: &[&str]) -> Result<(), Status> {
    let limit = at(owner, "/spec/revisionHistoryLimit").as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(10);
    let idle: Vec<Object> =
        all(cluster, owner).into_iter().filter(|r| !used.contains(&hash_of(r)) && !used.contains(&r.name())).collect();
    for revision in &idle[..idle.len().saturating_sub(limit)] {
        let gone = cluster.kinds.revisions.delete(owner.namespace(), revision.name(), &DeleteOptions::default()).await;
        gone.or_else(|error| if is_race(&error) { Ok(()) } else { Err(error) })?;
    }
    Ok(())
}
