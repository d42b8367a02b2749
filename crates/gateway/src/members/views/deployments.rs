//! Deployments: how many replicas there are and should be.

use std::sync::Arc;

use fleet::{Bytes, Key};
use serde::{Deserialize, Serialize};

use super::object::{Meta, Object};
use super::pods::PodSpec;
use super::{Labels, Made, Sum, app_of, apps_of};
use crate::apiext::row::{Row, Shape};

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeploymentSpec<'a> {
    #[serde(default)]
    replicas: Option<i64>,
    #[serde(default)]
    paused: Option<bool>,
    #[serde(borrow, default)]
    template: Option<Template<'a>>,
}

#[derive(Default, Deserialize)]
struct Template<'a> {
    #[serde(borrow, default)]
    metadata: Option<Meta<'a>>,
    #[serde(borrow, default)]
    spec: Option<PodSpec<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DeploymentStatus {
    updated_replicas: Option<i64>,
    ready_replicas: Option<i64>,
    available_replicas: Option<i64>,
    unavailable_replicas: Option<i64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeploymentRow<'a> {
    cluster: &'a str,
    namespace: &'a str,
    name: &'a str,
    app: &'a str,
    phase: &'a str,
    desired_replicas: i64,
    updated_replicas: i64,
    ready_replicas: i64,
    available_replicas: i64,
    unavailable_replicas: i64,
    paused: bool,
    created: &'a str,
    image: &'a str,
    labels: &'a Labels<'a>,
}

pub(super) fn deployment(cluster: &Arc<str>, key: &Key, object: &Bytes) -> Option<Made> {
    let text = object.json();
    let Object { metadata, spec, status } =
        serde_json::from_slice::<Object<'_, DeploymentSpec<'_>, DeploymentStatus>>(&text).ok()?;
    let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
    let namespace = key.namespace.clone().unwrap_or_default();
    let labels = metadata.labels.unwrap_or_default();
    let template = spec.template.unwrap_or_default();
    let of_pods = template.metadata.and_then(|metadata| metadata.labels).unwrap_or_default();
    let desired = spec.replicas.unwrap_or(1);
    let available = status.available_replicas.unwrap_or(0);
    let paused = spec.paused.unwrap_or(false);
    let phase = match () {
        () if metadata.deletion_timestamp.is_some() => "Terminating",
        () if paused => "Paused",
        () if status.updated_replicas.unwrap_or(0) < desired => "Progressing",
        () if available < desired => "Unavailable",
        () => "Available",
    };
    let created = metadata.creation_timestamp.as_deref().unwrap_or_default();
    let containers = template.spec.unwrap_or_default().containers;
    let image = containers.first().and_then(|container| container.image.as_deref()).unwrap_or_default();
    let row = DeploymentRow {
        cluster,
        namespace: &namespace,
        name: &key.name,
        app: if app_of(&labels).is_empty() { app_of(&of_pods) } else { app_of(&labels) },
        phase,
        desired_replicas: desired,
        updated_replicas: status.updated_replicas.unwrap_or(0),
        ready_replicas: status.ready_replicas.unwrap_or(0),
        available_replicas: available,
        unavailable_replicas: status.unavailable_replicas.unwrap_or((desired - available).max(0)),
        paused,
        created,
        image,
        labels: &labels,
    };
    let json = serde_json::to_vec(&row).ok()?;
    let mut index = apps_of(&labels);
    index.extend(apps_of(&of_pods));
    index.sort();
    index.dedup();
    let shape = Shape { created, phase, words: &[image], json, ..Shape::of(cluster, &namespace, &key.name, &labels) };
    let sum = Sum { count: 1, ready: (available >= desired).into(), ..Sum::default() };
    Some(Made { row: Row::shaped(shape), index, sum })
}
