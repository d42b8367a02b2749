//! The objects a cluster has from its first moment.

use crate::Inner;
use crate::kinds::{Kind, SYSTEM_PRIORITIES};
use crate::ownership::By;
use meta::{Object, Reason, Status};
use serde_json::{Value, json};

/// Makes the priority classes of the system's own pods.
pub(crate) async fn priority_classes(api: &Inner) -> Result<(), Status> {
    let Some(kind) = api.kind("scheduling.k8s.io", "v1", "priorityclasses") else { return Ok(()) };
    for (name, value, description) in SYSTEM_PRIORITIES {
        ensure(api, &kind, name, json!({"metadata": {"name": name}, "value": value, "description": description}))
            .await?;
    }
    Ok(())
}

async fn ensure(api: &Inner, kind: &Kind, name: &str, object: Value) -> Result<(), Status> {
    if api.store.get(&kind.key("", name)).is_some() {
        return Ok(());
    }
    match api.create(kind, "", Object::from_value(object).unwrap_or_default(), &By::SERVER).await {
        Err(status) if status.reason != Reason::AlreadyExists => Err(status),
        _ => Ok(()),
    }
}
