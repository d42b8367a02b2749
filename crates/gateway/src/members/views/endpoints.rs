//! Endpoints: where a service leads.

use std::borrow::Cow;
use std::sync::Arc;

use fleet::{Bytes, Key};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::object::Meta;
use super::{Labels, Made, Sum, app_of, apps_of};
use crate::apiext::row::{Row, Shape};

#[derive(Deserialize)]
struct EndpointsObject<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow, default)]
    subsets: Option<Vec<Subset<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Subset<'a> {
    #[serde(borrow, default)]
    addresses: Option<Vec<Address<'a>>>,
    #[serde(borrow, default)]
    not_ready_addresses: Option<Vec<Address<'a>>>,
    #[serde(default)]
    ports: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Address<'a> {
    #[serde(borrow, default)]
    ip: Cow<'a, str>,
    #[serde(borrow, default)]
    node_name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    target_ref: Option<TargetRef<'a>>,
}

#[derive(Deserialize)]
pub(super) struct TargetRef<'a> {
    #[serde(borrow, default)]
    pub(super) kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) name: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct AddressRow<'a> {
    ip: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<&'a str>,
    ready: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EndpointsRow<'a> {
    cluster: &'a str,
    namespace: &'a str,
    name: &'a str,
    app: &'a str,
    ready: usize,
    not_ready: usize,
    addresses: Vec<AddressRow<'a>>,
    ports: Vec<&'a Value>,
    created: &'a str,
    labels: &'a Labels<'a>,
}

pub(super) fn endpoints(cluster: &Arc<str>, key: &Key, object: &Bytes) -> Option<Made> {
    let text = object.json();
    let EndpointsObject { metadata, subsets } = serde_json::from_slice(&text).ok()?;
    let subsets = subsets.unwrap_or_default();
    let namespace = key.namespace.clone().unwrap_or_default();
    let labels = metadata.labels.unwrap_or_default();
    let mut addresses = Vec::new();
    for subset in &subsets {
        for (ready, list) in [(true, &subset.addresses), (false, &subset.not_ready_addresses)] {
            for address in list.iter().flatten() {
                let pod = address.target_ref.as_ref().filter(|target| target.kind.as_deref() == Some("Pod"));
                let pod = pod.and_then(|target| target.name.as_deref());
                addresses.push(AddressRow { ip: &address.ip, node: address.node_name.as_deref(), pod, ready });
            }
        }
    }
    let ready = addresses.iter().filter(|address| address.ready).count();
    let created = metadata.creation_timestamp.as_deref().unwrap_or_default();
    let row = EndpointsRow {
        cluster,
        namespace: &namespace,
        name: &key.name,
        app: app_of(&labels),
        ready,
        not_ready: addresses.len() - ready,
        addresses,
        ports: subsets.iter().filter_map(|subset| subset.ports.as_ref()?.as_array()).flatten().collect(),
        created,
        labels: &labels,
    };
    let json = serde_json::to_vec(&row).ok()?;
    let mut index = apps_of(&labels);
    // A service is often named as its application, and nothing more said.
    if !index.iter().any(|app| **app == *key.name) {
        index.push((*key.name).into());
    }
    let shape = Shape { created, json, ..Shape::of(cluster, &namespace, &key.name, &labels) };
    Some(Made { row: Row::shaped(shape), index, sum: Sum { count: 1, ..Sum::default() } })
}
