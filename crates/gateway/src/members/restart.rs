//! Restarts what runs an application: its workloads by their own strategy, and pods whose controller starts them again (SYM-13: 5).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fleet::{Bytes, Key};
use futures_util::{StreamExt, stream};
use http::Method;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Members;
use super::listing::{Parameters, Parts, scope};
use super::reach::{Ask, PATIENCE, Reach, Reached, What};
use super::route::Places;
use super::views::{APP, KNOWN};
use crate::access::{Delete, List, Patch, Verb};
use crate::apiext::catalog::Kind;
use crate::caller::Caller;
use crate::problem::Problem;
use crate::trail::{Changed, Touched};
use crate::visit::{Answered, json as json_answer};

const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
/// Members worked on at once, and how long all of it may take.
const AT_ONCE: usize = 32;
const DEADLINE: Duration = Duration::from_secs(20);
/// Controllers whose workload is restarted itself, and those whose pods are not started again by restarting.
const WORKLOADS: [&str; 4] = ["ReplicaSet", "StatefulSet", "DaemonSet", "Deployment"];
const ONCE: [&str; 2] = ["Job", "CronJob"];

#[derive(Deserialize)]
struct Object {
    metadata: Meta,
    #[serde(default)]
    spec: Option<Spec>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    owner_references: Option<Vec<Owner>>,
}

#[derive(Deserialize)]
struct Owner {
    kind: String,
    #[serde(default)]
    controller: Option<bool>,
}

#[derive(Deserialize)]
struct Spec {
    #[serde(default)]
    paused: Option<bool>,
    #[serde(default)]
    template: Option<Template>,
}

#[derive(Deserialize)]
struct Template {
    #[serde(default)]
    metadata: Option<Meta>,
}

/// What restarting an object means.
#[derive(Debug, PartialEq)]
enum Plan {
    /// A new template, and so new pods.
    Restart,
    /// It goes, and its controller makes another.
    Delete,
    /// It cannot be done, for this reason.
    Cannot(&'static str),
    /// It is not of the application, or somebody else restarts it.
    Leave,
}

/// Decides for a workload: the labels of the pods it makes say what they belong to.
fn of_workload(object: &[u8], app: &str, parts: &Parts) -> Plan {
    let Ok(Object { metadata, spec }) = serde_json::from_slice(object) else { return Plan::Leave };
    let of_pods = spec.as_ref().and_then(|spec| spec.template.as_ref()).and_then(|template| template.metadata.as_ref());
    let labels = [of_pods.and_then(|meta| meta.labels.as_ref()), metadata.labels.as_ref()];
    match () {
        () if !belongs(labels, app, parts) => Plan::Leave,
        () if spec.as_ref().and_then(|spec| spec.paused) == Some(true) => {
            Plan::Cannot("it is paused: resume it first, or nothing would happen")
        }
        () => Plan::Restart,
    }
}

/// Decides for a pod.
fn of_pod(object: &[u8], app: &str, parts: &Parts) -> Plan {
    let Ok(Object { metadata, .. }) = serde_json::from_slice(object) else { return Plan::Leave };
    if !belongs([metadata.labels.as_ref(), None], app, parts) {
        return Plan::Leave;
    }
    let owners = metadata.owner_references.unwrap_or_default();
    match owners.iter().find(|owner| owner.controller == Some(true)) {
        None => Plan::Cannot("nothing would start this pod again: it belongs to no workload"),
        Some(owner) if WORKLOADS.contains(&owner.kind.as_str()) || ONCE.contains(&owner.kind.as_str()) => Plan::Leave,
        Some(_) => Plan::Delete,
    }
}

fn belongs(labels: [Option<&BTreeMap<String, String>>; 2], app: &str, parts: &Parts) -> bool {
    let value = |label: &str| labels.iter().flatten().find_map(|labels| labels.get(label)).map(String::as_str);
    APP.iter().any(|label| value(label) == Some(app)) && parts.fit_labels(value)
}

/// What was done to one object.
struct Done {
    cluster: Arc<str>,
    kind: Arc<Kind>,
    key: Key,
    failed: Option<String>,
}

impl Done {
    fn to_json(&self) -> Value {
        let mut shown = json!({"cluster": &*self.cluster, "namespace": self.key.namespace.as_deref().unwrap_or_default(),
            "kind": self.kind.kind, "name": &*self.key.name});
        if let Some(why) = &self.failed {
            shown["message"] = why.as_str().into();
        }
        shown
    }

    /// For the audit log.
    fn touched(&self) -> Touched {
        Touched {
            cluster: self.cluster.to_string(),
            group: self.kind.group.clone(),
            resource: self.kind.plural.clone(),
            namespace: self.key.namespace.as_deref().unwrap_or_default().to_owned(),
            name: self.key.name.to_string(),
            failed: self.failed.is_some(),
        }
    }
}

impl Members {
    pub(super) async fn restart(&self, caller: &Caller, places: &Places, query: &str) -> Answered {
        let parameters = Parameters::only(query, &["cluster", "group", "unit", "ldc"], &[])?;
        let scope = scope(places.get("name"), parameters.get("cluster"))?;
        let (namespace, app) = (places.get("namespace"), places.get("app"));
        let parts = Parts::exact(&parameters);
        let within = |kind: &Arc<Kind>| What::within(kind, Some(namespace));
        let mut done: Vec<Done> = Vec::new();
        let mut unanswered: Vec<Value> = Vec::new();
        let mut refused: Option<Problem> = None;
        let mut allowed = false;
        let now = Timestamp::now();
        let begun = tokio::time::Instant::now();
        for kind in [&KNOWN.deployments, &KNOWN.stateful_sets, &KNOWN.daemon_sets, &KNOWN.pods] {
            let is_pod = Arc::ptr_eq(kind, &KNOWN.pods);
            // To restart is to change the workload; a pod is deleted.
            let looked = if is_pod {
                self.look_and::<Delete>(caller, within(kind), &scope).await
            } else {
                self.look_and::<Patch>(caller, within(kind), &scope).await
            };
            let seen = match looked {
                Ok(seen) => seen,
                Err(problem) if problem.code == 403 => {
                    refused = Some(problem);
                    continue;
                }
                Err(problem) => return Err(problem),
            };
            allowed = true;
            let (parts, left) = (&parts, DEADLINE.saturating_sub(begun.elapsed()));
            let work = seen.list.each().map(|reached| {
                let act = &seen.act;
                async move {
                    let plan = |object: &[u8]| {
                        if is_pod { of_pod(object, app, parts) } else { of_workload(object, app, parts) }
                    };
                    match timeout(left, act.on(&reached, plan, now)).await {
                        Ok(done) => done,
                        Err(_) => Err((reached.name().clone(), "it did not answer in time".to_owned())),
                    }
                }
            });
            let work: Vec<_> = work.collect();
            let answers: Vec<_> = stream::iter(work).buffered(AT_ONCE).collect().await;
            for answer in answers {
                match answer {
                    Ok(some) => done.extend(some),
                    Err((cluster, why)) => {
                        if !unanswered.iter().any(|known| known["cluster"] == *cluster) {
                            unanswered.push(json!({"cluster": &*cluster, "reason": "Failed", "message": why}));
                        }
                    }
                }
            }
        }
        if let (false, Some(problem)) = (allowed, refused) {
            return Err(problem);
        }
        let user = caller.name().unwrap_or("(token)");
        tracing::info!(user, namespace, app, objects = done.len(), "restarted an application");
        // Of one that did not answer in time it is not known what was done.
        let unknown = unanswered.iter().map(|one| Touched {
            cluster: one["cluster"].as_str().unwrap_or_default().to_owned(),
            group: String::new(),
            resource: "applications".to_owned(),
            namespace: namespace.to_owned(),
            name: app.to_owned(),
            failed: true,
        });
        let changed = Changed(done.iter().map(Done::touched).chain(unknown).collect());
        let (failed, restarted): (Vec<Done>, Vec<Done>) = done.into_iter().partition(|done| done.failed.is_some());
        let shown = |list: &[Done]| list.iter().map(Done::to_json).collect::<Value>();
        let mut answer = json_answer(
            200,
            &json!({"restarted": shown(&restarted), "failed": shown(&failed), "unanswered": unanswered}),
        );
        answer.extensions_mut().insert(Arc::new(changed));
        Ok(answer)
    }

    /// The proof to see objects of a kind, and to do something to them, on the same members.
    async fn look_and<V: Verb>(&self, caller: &Caller, what: What, scope: &super::reach::Scope) -> Result<Seen, Problem>
    where
        Act: From<Reach<V>>,
    {
        let act: Reach<V> = self.reaching.reach(caller, what, scope).await?;
        let list: Reach<List> = act.also().await?;
        Ok(Seen { list, act: act.into() })
    }
}

struct Seen {
    list: Reach<List>,
    act: Act,
}

/// The right to do it.
enum Act {
    Change(Reach<Patch>),
    Remove(Reach<Delete>),
}

impl From<Reach<Patch>> for Act {
    fn from(reach: Reach<Patch>) -> Self {
        Act::Change(reach)
    }
}

impl From<Reach<Delete>> for Act {
    fn from(reach: Reach<Delete>) -> Self {
        Act::Remove(reach)
    }
}

impl Act {
    /// Does to a member's objects what is planned for each.
    async fn on(
        &self,
        seen: &Reached<'_, List>,
        plan: impl Fn(&[u8]) -> Plan,
        now: Timestamp,
    ) -> Result<Vec<Done>, (Arc<str>, String)> {
        let objects = objects(seen).await?;
        let mut all = Vec::new();
        for (key, object) in objects {
            let failed = match plan(&object.json()) {
                Plan::Leave => continue,
                Plan::Cannot(why) => Some(why.to_owned()),
                Plan::Restart | Plan::Delete => {
                    self.one(seen, &key.name, now).await.err().map(|problem| problem.message)
                }
            };
            all.push(Done { cluster: seen.name().clone(), kind: self.kind().clone(), key, failed });
        }
        Ok(all)
    }

    fn kind(&self) -> &Arc<Kind> {
        match self {
            Act::Change(reach) => reach.kind(),
            Act::Remove(reach) => reach.kind(),
        }
    }

    async fn one(&self, seen: &Reached<'_, List>, name: &str, now: Timestamp) -> Result<(), Problem> {
        match self {
            Act::Change(reach) => {
                let patch =
                    json!({"spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: now.to_string()}}}}});
                let reached = same(reach, seen)?;
                reached.send(Ask::patch(name, STRATEGIC, &patch)).await.map(drop)
            }
            Act::Remove(reach) => {
                let (query, body) = (String::new(), b"{}".to_vec());
                let ask = Ask { method: Method::DELETE, object: Some(name), query, media: "application/json", body };
                same(reach, seen)?.send(ask).await.map(drop)
            }
        }
    }
}

/// The same member in another proof.
fn same<'a, V: Verb>(reach: &'a Reach<V>, seen: &Reached<'_, List>) -> Result<Reached<'a, V>, Problem> {
    let found = reach.each().find(|reached| reached.name() == seen.name());
    found.ok_or_else(|| Problem::forbidden("you may see this, but not change it"))
}

/// The objects of the proof's namespace: from memory while that is up to date, from the member otherwise.
async fn objects(seen: &Reached<'_, List>) -> Result<Vec<(Key, Bytes)>, (Arc<str>, String)> {
    let cache = seen.cache();
    let namespace = seen.namespace().map(str::to_owned);
    let selection = fleet::Selection { namespace, ..fleet::Selection::default() };
    if cache.ready(PATIENCE).await.is_ok()
        && cache.is_fresh()
        && let Ok(objects) = cache.select(&selection)
    {
        return Ok(objects);
    }
    let listed = seen.list().await.map_err(|error| (seen.name().clone(), fleet::words(&error)))?;
    Ok(listed.objects)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parts(query: &str) -> Parts {
        Parts::exact(&Parameters::only(query, &["group", "unit", "ldc"], &[]).unwrap())
    }

    #[test]
    fn a_workload_is_restarted_when_its_pods_are_of_the_application_and_the_part() {
        // SYM-13
        let workload = |labels: Value, of_pods: Value, paused: bool| {
            json!({"metadata": {"labels": labels}, "spec": {"paused": paused, "template": {"metadata": {"labels": of_pods}}}})
                .to_string()
                .into_bytes()
        };
        let blue = workload(json!({}), json!({"app": "web", "sym-group": "blue"}), false);
        assert_eq!(of_workload(&blue, "web", &parts("")), Plan::Restart);
        assert_eq!(of_workload(&blue, "web", &parts("group=blue")), Plan::Restart);
        assert_eq!(of_workload(&blue, "web", &parts("group=green")), Plan::Leave);
        assert_eq!(of_workload(&blue, "db", &parts("")), Plan::Leave);
        let by_own = workload(json!({"app.kubernetes.io/name": "web"}), json!({}), false);
        assert_eq!(of_workload(&by_own, "web", &parts("")), Plan::Restart);
        let paused = workload(json!({"app": "web"}), json!({}), true);
        assert!(matches!(of_workload(&paused, "web", &parts("")), Plan::Cannot(_)));
        assert_eq!(of_workload(b"[]", "web", &parts("")), Plan::Leave);
    }

    #[test]
    fn a_pod_is_deleted_only_when_something_unknown_to_us_starts_it_again() {
        // SYM-13
        let pod = |owner: Option<&str>| {
            let owners: Vec<Value> = owner.iter().map(|kind| json!({"kind": kind, "controller": true})).collect();
            json!({"metadata": {"labels": {"app": "web"}, "ownerReferences": owners}}).to_string().into_bytes()
        };
        for (owner, expected) in [
            (Some("ReplicaSet"), Plan::Leave),
            (Some("StatefulSet"), Plan::Leave),
            (Some("Job"), Plan::Leave),
            (Some("InPlaceSet"), Plan::Delete),
        ] {
            assert_eq!(of_pod(&pod(owner), "web", &parts("")), expected, "{owner:?}");
        }
        assert!(matches!(of_pod(&pod(None), "web", &parts("")), Plan::Cannot(_)));
        assert_eq!(of_pod(&pod(None), "db", &parts("")), Plan::Leave);
    }
}
