//! What is done to pods besides writing them: binding to a node, eviction.

use crate::body::Body;
use crate::kinds::{GroupVersionKind, Kind};
use crate::objects::preconditions;
use crate::verbs::Call;
use crate::{decode, negotiate};
use http::Response;
use meta::options::{DeleteOptions, WriteOptions};
use meta::selector::LabelSelector;
use meta::status::Cause;
use meta::{FieldError, GroupResource, Object, Status, time};
use serde_json::{Value, json};
use std::sync::Arc;
use store::Range;

pub const BINDING: GroupVersionKind = GroupVersionKind { group: "", version: "v1", kind: "Binding" };
pub const EVICTION: GroupVersionKind = GroupVersionKind { group: "policy", version: "v1", kind: "Eviction" };
/// So many evictions may wait for the disruption controller to see them.
const MAX_DISRUPTED: usize = 2000;
/// When to try again to evict a pod whose budget is not known yet.
const RETRY_SECONDS: u32 = 10;

const BUDGET: GroupResource<'static> = GroupResource { group: "policy", resource: "poddisruptionbudget" };

impl Call<'_> {
    fn pod_kind(&self) -> Result<Arc<Kind>, Status> {
        self.api.kind("", "v1", "pods").ok_or_else(Status::no_such_resource)
    }

    /// The body of an action on a pod, and the pod's name.
    fn about_pod(&self, kind: GroupVersionKind, body: &[u8]) -> Result<(Object, WriteOptions), Status> {
        let options = WriteOptions::parse(&self.query, "CreateOptions")?;
        let content = negotiate::content(self.headers)?;
        let decoded = decode::object(&Kind::of_body(kind), content, body, options.field_validation)?;
        self.warn(decoded.warnings);
        if !self.name.is_empty() && decoded.object.name() != self.name {
            let why = format!("name in URL does not match name in {} object", kind.kind);
            return Err(Status::bad_request(why));
        }
        Ok((decoded.object, options))
    }

    fn done(&self) -> Response<Body> {
        let success = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
        self.plain(201, &success)
    }

    /// Assigns a pod to a node, once.
    pub async fn bind(&self, body: &[u8]) -> Result<Response<Body>, Status> {
        let (binding, options) = self.about_pod(BINDING, body)?;
        let target = |key: &str| {
            binding.0.get("target").and_then(|target| target.get(key)).and_then(Value::as_str).unwrap_or_default()
        };
        let mut errors = Vec::new();
        if !matches!(target("kind"), "" | "Node") {
            errors.push(FieldError::not_supported("target.kind", target("kind"), &["Node", "<empty>"]));
        }
        if target("name").is_empty() {
            errors.push(FieldError::required("target.name", ""));
        }
        if !errors.is_empty() {
            return Err(Status::invalid(BINDING.group, BINDING.kind, binding.name(), &errors));
        }
        let (kind, name) = (self.pod_kind()?, binding.name());
        let now = time::seconds(self.api.clock.now());
        let expected = DeleteOptions {
            uid: Some(binding.uid().to_owned()).filter(|uid| !uid.is_empty()),
            resource_version: Some(binding.resource_version().to_owned()).filter(|version| !version.is_empty()),
            ..DeleteOptions::default()
        };
        self.api
            .modify(&kind, self.namespace, name, options.dry_run, |pod| {
                preconditions(&kind, pod, &expected)?;
                bindable(pod).map_err(|why| {
                    Status::conflict(GroupResource { group: "", resource: "pods/binding" }, name, &why)
                })?;
                if let Some(Value::Object(spec)) = pod.0.get_mut("spec") {
                    spec.insert("nodeName".into(), target("name").into());
                }
                for entries in ["annotations", "labels"] {
                    merge(pod, &binding, entries);
                }
                if let Some(Value::Object(status)) = pod.0.get_mut("status") {
                    status.remove("nominatedNodeName");
                }
                set_condition(pod, json!({"type": "PodScheduled", "status": "True"}), &now);
                Ok(())
            })
            .await?;
        Ok(self.done())
    }

    /// Deletes a pod if its disruption budget lets it go.
    pub async fn evict(&self, body: &[u8]) -> Result<Response<Body>, Status> {
        let (eviction, write) = self.about_pod(EVICTION, body)?;
        let nothing = Object::default();
        let asked = eviction.0.get("deleteOptions").cloned().and_then(Object::from_value);
        let mut options = DeleteOptions::parse(&self.query, Some(asked.as_ref().unwrap_or(&nothing)))?;
        options.dry_run |= write.dry_run;
        let kind = self.pod_kind()?;
        let key = kind.key(self.namespace, eviction.name());
        let entry = self.api.store.get(&key).ok_or_else(|| Status::not_found(kind.resource(), eviction.name()))?;
        let pod = self.api.decode_stored(&kind, &entry.value, entry.revision)?;
        let phase = pod.0.get("status").and_then(|s| s.get("phase")).and_then(Value::as_str).unwrap_or_default();
        let ended = matches!(phase, "Succeeded" | "Failed") || pod.is_deleting();
        if !ended && phase != "Pending" {
            self.spend_budget(&pod, &mut options).await?;
        } else if !ended && options.resource_version.is_none() {
            // A pending pod counts for no budget: only as long as it stays so.
            options.resource_version = Some(pod.resource_version().to_owned());
        }
        if !options.dry_run {
            let now = time::seconds(self.api.clock.now());
            let marked = self
                .api
                .modify(&kind, self.namespace, pod.name(), false, |pod| {
                    preconditions(&kind, pod, &options)?;
                    let target = json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                        "message": "Eviction API: evicting"});
                    set_condition(pod, target, &now);
                    Ok(())
                })
                .await?;
            if options.resource_version.is_some() {
                options.resource_version = Some(marked.revision.to_string());
            }
        }
        self.api.delete(&kind, self.namespace, pod.name(), &options).await?;
        Ok(self.done())
    }

    /// Takes one disruption out of the pod's budget, or says why not.
    async fn spend_budget(&self, pod: &Object, options: &mut DeleteOptions) -> Result<(), Status> {
        let Some(kind) = self.api.kind("policy", "v1", "poddisruptionbudgets") else { return Ok(()) };
        let budgets = self.budgets(&kind, pod)?;
        let budget = match budgets.as_slice() {
            [] => return Ok(()),
            [budget] => budget,
            _ => {
                let why =
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                return Err(Status::new(500, meta::Reason::Unknown, why));
            }
        };
        let number = |budget: &Object, key: &str| {
            budget.0.get("status").and_then(|s| s.get(key)).and_then(Value::as_i64).unwrap_or_default()
        };
        if !is_ready(pod) {
            let always = budget.0.get("spec").and_then(|s| s.get("unhealthyPodEvictionPolicy"));
            let (healthy, wanted) = (number(budget, "currentHealthy"), number(budget, "desiredHealthy"));
            if always == Some(&Value::from("AlwaysAllow")) || (healthy >= wanted && wanted > 0) {
                // It disrupts nothing, as long as it does not become ready meanwhile.
                options.resource_version.get_or_insert_with(|| pod.resource_version().to_owned());
                return Ok(());
            }
        }
        let now = time::seconds(self.api.clock.now());
        self.api
            .modify(&kind, self.namespace, budget.name(), options.dry_run, |budget| {
                let name = budget.name().to_owned();
                let (allowed, wanted) = (number(budget, "disruptionsAllowed"), number(budget, "desiredHealthy"));
                let healthy = number(budget, "currentHealthy");
                let disrupted = budget.0.get("status").and_then(|s| s.get("disruptedPods")).and_then(Value::as_object);
                if number(budget, "observedGeneration") < budget.generation() {
                    let cause = format!("The disruption budget {name} is still being processed by the server.");
                    return Err(refused(cause, RETRY_SECONDS));
                }
                if allowed < 0 {
                    return Err(Status::forbidden(BUDGET, &name, "pdb disruptions allowed is negative"));
                }
                if disrupted.is_some_and(|pods| pods.len() > MAX_DISRUPTED) {
                    let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
                    return Err(Status::forbidden(BUDGET, &name, why));
                }
                if allowed == 0 {
                    let cause =
                        format!("The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently");
                    return Err(refused(cause, 0));
                }
                let generation = budget.generation();
                if let Value::Object(status) = budget.0.entry("status").or_insert_with(|| json!({})) {
                    status.insert("disruptionsAllowed".into(), (allowed - 1).into());
                    let pods = status.entry("disruptedPods").or_insert_with(|| json!({}));
                    pods[pod.name()] = now.as_str().into();
                }
                if allowed == 1 {
                    let condition = json!({"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods",
                        "message": "", "observedGeneration": generation});
                    upsert(budget, condition, &now);
                }
                Ok(())
            })
            .await
            .map(drop)
    }

    fn budgets(&self, kind: &Kind, pod: &Object) -> Result<Vec<Object>, Status> {
        let prefix = kind.prefix(self.namespace);
        let range = Range { collection: &kind.collection, prefix: &prefix, after: None, limit: 0, at: None };
        let page = self.api.store.range(&range, |_, _| true).map_err(crate::objects::storage)?;
        let mut found = Vec::new();
        for (_, entry) in page.items {
            let budget = self.api.decode_stored(kind, &entry.value, entry.revision)?;
            let selector = budget.0.get("spec").and_then(|s| s.get("selector"));
            if selector
                .and_then(|s| LabelSelector::from_object(s).ok())
                .is_some_and(|s| s.matches_with(|key| pod.labels().find(|(k, _)| *k == key).map(|(_, v)| v)))
            {
                found.push(budget);
            }
        }
        Ok(found)
    }
}

fn refused(cause: String, retry_after: u32) -> Status {
    let why = "Cannot evict pod as it would violate the pod's disruption budget.";
    let mut status = Status::too_many_requests(why, retry_after);
    let details = status.details.get_or_insert_with(Box::default);
    details.causes.push(Cause { reason: "DisruptionBudget".into(), message: cause, field: String::new() });
    status
}

/// Why a pod cannot be assigned to a node.
fn bindable(pod: &Object) -> Result<(), String> {
    let spec = |key: &str| pod.0.get("spec").and_then(|spec| spec.get(key)).unwrap_or(&Value::Null);
    let name = pod.name();
    if pod.is_deleting() {
        return Err(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if let Some(node) = spec("nodeName").as_str() {
        return Err(format!("pod {name} is already assigned to node {node:?}"));
    }
    if spec("schedulingGates").as_array().is_some_and(|gates| !gates.is_empty()) {
        return Err(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    Ok(())
}

fn merge(pod: &mut Object, binding: &Object, entries: &str) {
    let Some(Value::Object(added)) = binding.meta().get(entries) else { return };
    if let Value::Object(into) = pod.meta_mut().entry(entries).or_insert_with(|| json!({})) {
        into.extend(added.clone());
    }
}

fn is_ready(pod: &Object) -> bool {
    let conditions = pod.0.get("status").and_then(|s| s.get("conditions")).and_then(Value::as_array);
    conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// Sets a pod's condition; when its status stays, so does the time of its last change.
fn set_condition(pod: &mut Object, mut condition: Value, now: &str) {
    condition["lastProbeTime"] = Value::Null;
    upsert(pod, condition, now);
}

fn upsert(object: &mut Object, mut condition: Value, now: &str) {
    let Value::Object(status) = object.0.entry("status").or_insert_with(|| json!({})) else { return };
    let Value::Array(list) = status.entry("conditions").or_insert_with(|| json!([])) else { return };
    condition["lastTransitionTime"] = now.into();
    match list.iter_mut().find(|old| old["type"] == condition["type"]) {
        Some(old) => {
            if old["status"] == condition["status"] {
                condition["lastTransitionTime"] = old["lastTransitionTime"].take();
            }
            *old = condition;
        }
        None => list.push(condition),
    }
}
