//! The life of namespaces: what may be made in them, how they end, and the controller that empties them.

use crate::kinds::Kind;
use crate::objects::Part;
use crate::ownership::By;
use crate::{Api, Inner};
use meta::options::DeleteOptions;
use meta::{GroupResource, Object, Status};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use store::Range;
use tokio_util::sync::CancellationToken;

const FINALIZER: &str = "kubernetes";
/// Made at start, and those of them that cannot be deleted.
const SYSTEM: &[&str] = &["default", "kube-system", "kube-public", "kube-node-lease"];
const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];
/// How soon a namespace that could not be emptied is tried again.
const RETRY: Duration = Duration::from_millis(500);

pub(crate) fn is_namespace(kind: &Kind) -> bool {
    kind.group.is_empty() && kind.kind == "Namespace"
}

fn phase(object: &Object) -> &str {
    object.0.get("status").and_then(|s| s.get("phase")).and_then(Value::as_str).unwrap_or_default()
}

/// Nothing is created in a namespace that does not exist or is going away.
pub(crate) fn admit(api: &Inner, kind: &Kind, namespace: &str, name: &str) -> Result<(), Status> {
    let namespaces = api.namespace_kind();
    let missing = || Status::not_found(GroupResource { group: "", resource: "namespaces" }, namespace);
    let entry = api.store.get(&namespaces.key("", namespace)).ok_or_else(missing)?;
    // The phase is a selectable field, so it is known without parsing the object.
    let terminating = entry.attrs.fields.iter().any(|(k, v)| &**k == "status.phase" && &**v == "Terminating");
    if terminating { Err(Status::namespace_terminating(kind.resource(), name, namespace)) } else { Ok(()) }
}

/// Namespaces the system lives in stay.
pub(crate) fn admit_delete(kind: &Kind, current: &Object) -> Result<(), Status> {
    if !is_namespace(kind) {
        return Ok(());
    }
    if IMMORTAL.contains(&current.name()) {
        return Err(Status::forbidden(kind.resource(), current.name(), "this namespace may not be deleted"));
    }
    Ok(())
}

/// A deleted namespace is Terminating while anything holds it.
pub(crate) fn mark(kind: &Kind, object: &mut Object) {
    if is_namespace(kind) {
        object.0.insert("status".into(), json!({"phase": "Terminating"}));
    }
}

/// A namespace is held by its spec's finalizers, too.
pub(crate) fn is_held(kind: &Kind, object: &Object) -> bool {
    let list = object.0.get("spec").and_then(|s| s.get("finalizers")).and_then(Value::as_array);
    is_namespace(kind) && list.is_some_and(|l| !l.is_empty())
}

/// Makes the system's namespaces.
pub(crate) async fn ensure_system(api: &Inner) -> Result<(), Status> {
    let kind = api.namespace_kind();
    for name in SYSTEM {
        if api.store.get(&kind.key("", name)).is_some() {
            continue;
        }
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let made = api.create(&kind, "", Object::from_value(object).unwrap_or_default(), &By::SERVER).await;
        match made {
            Err(s) if s.reason != meta::Reason::AlreadyExists => return Err(s),
            _ => {}
        }
    }
    Ok(())
}

/// Empties terminating namespaces and lets them go, until told to stop.
pub(crate) async fn run(api: Api, stop: CancellationToken) {
    let kind = api.inner.namespace_kind();
    // From before the first look, so that nothing falls between looking and waiting.
    let mut since = api.inner.store.revision();
    while !stop.is_cancelled() {
        let mut waiting = false;
        for name in terminating(&api.inner, &kind) {
            match empty(&api.inner, &kind, &name).await {
                Ok(true) => {}
                Ok(false) => waiting = true,
                Err(e) => {
                    tracing::warn!(namespace = %name, error = %e, "namespace could not be emptied yet");
                    waiting = true;
                }
            }
        }
        let pause = if waiting { RETRY } else { Duration::from_secs(30) };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
            () = api.inner.changed(&kind.collection, &mut since) => {}
        }
    }
}

fn terminating(api: &Inner, kind: &Kind) -> Vec<String> {
    let range = Range { collection: &kind.collection, prefix: "", after: None, limit: 0, at: None };
    let is =
        |_: &str, e: &store::Entry| e.attrs.fields.iter().any(|(k, v)| &**k == "status.phase" && &**v == "Terminating");
    let page = api.store.range(&range, is).map(|p| p.items).unwrap_or_default();
    page.into_iter().map(|(item, _)| item.to_string()).collect()
}

/// Deletes what is in the namespace; when nothing is left, drops our finalizer. Tells whether that happened.
async fn empty(api: &Inner, kind: &Arc<Kind>, namespace: &str) -> Result<bool, Status> {
    let mut left = Vec::new();
    for content in api.served.get().registry.stored().filter(|k| k.namespaced) {
        let prefix = content.prefix(namespace);
        let range = Range { collection: &content.collection, prefix: &prefix, after: None, limit: 0, at: None };
        let page = api.store.range(&range, |_, _| true).map_err(crate::objects::storage)?;
        for (item, _) in &page.items {
            let name = item.strip_prefix(&*prefix).unwrap_or(item);
            match api.delete(content, namespace, name, &DeleteOptions::default()).await {
                Err(s) if s.reason != meta::Reason::NotFound => return Err(s),
                _ => {}
            }
        }
        let remaining = api.store.count(&content.collection, &prefix);
        if remaining > 0 {
            left.push(format!("{} has {remaining} resource instances", content.resource()));
        }
    }
    if !left.is_empty() {
        let message = format!("Some resources are remaining: {}", left.join(", "));
        report(api, kind, namespace, &message).await?;
        return Ok(false);
    }
    let by = By::SERVER.through("finalize");
    let freed = api.update(kind, "", namespace, Part::Finalize, &by, |current| {
        let mut desired = current.clone();
        if let Some(Value::Array(list)) = desired.0.get_mut("spec").and_then(|s| s.get_mut("finalizers")) {
            list.retain(|f| f != FINALIZER);
        }
        Ok(desired)
    });
    match freed.await {
        Err(s) if s.reason != meta::Reason::NotFound => Err(s),
        _ => Ok(true),
    }
}

/// Says on the namespace why it is still there.
async fn report(api: &Inner, kind: &Kind, namespace: &str, message: &str) -> Result<(), Status> {
    let now = meta::time::seconds(api.clock.now());
    let by = By::SERVER.through("status");
    let reported = api.update(kind, "", namespace, Part::Status, &by, |current| {
        let mut desired = current.clone();
        let same = |c: &Value| c["type"] == "NamespaceContentRemaining" && c["message"] == message;
        let conditions = desired.0.get("status").and_then(|s| s.get("conditions")).and_then(Value::as_array);
        if !conditions.is_some_and(|list| list.iter().any(same)) {
            desired.0.insert(
                "status".into(),
                json!({"phase": phase(current), "conditions": [{
                    "type": "NamespaceContentRemaining", "status": "True", "lastTransitionTime": now,
                    "reason": "SomeResourcesRemain", "message": message,
                }]}),
            );
        }
        Ok(desired)
    });
    match reported.await {
        Err(s) if s.reason != meta::Reason::NotFound => Err(s),
        _ => Ok(()),
    }
}
