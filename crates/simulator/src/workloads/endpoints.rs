//! The addresses behind a service: Endpoints, and EndpointSlices of a hundred each.

use std::collections::BTreeMap;

use meta::options::DeleteOptions;
use meta::{Object, Reason, Status};
use serde_json::{Map, Value, json};

use crate::cluster::{Cluster, is_race};
use crate::look::{at, hash, is_true, list, owned, owner_reference, short_hash, text};
use crate::todo::Work;

const SLICE: usize = 100;
/// Endpoints say no more than this; slices do.
const MOST: usize = 1000;
const MANAGER: &str = "endpointslice-controller.k8s.io";

pub(crate) async fn sync(cluster: &Cluster, work: &Work) -> Result<(), Status> {
    let Some(service) = cluster.kinds.services.get(&work.namespace, &work.name) else {
        // Slices are owned by the service, Endpoints only bear its name.
        let gone = cluster.kinds.endpoints.delete(&work.namespace, &work.name, &DeleteOptions::default()).await;
        return gone.or_else(|error| if is_race(&error) { Ok(()) } else { Err(error) });
    };
    let Some(selector) = at(&service, "/spec/selector").as_object().filter(|selector| !selector.is_empty()) else {
        return Ok(());
    };
    if service.is_deleting() || text(&service, "/spec/type") == "ExternalName" {
        return Ok(());
    }
    let pods = cluster.kinds.pods.list(&work.namespace, |entry| {
        let label = |key: &str| entry.attrs.labels.iter().find(|(k, _)| **k == *key).map(|(_, v)| &**v);
        crate::look::fits(selector, label)
    });
    let mut groups: BTreeMap<String, (Value, Vec<&Object>)> = BTreeMap::new();
    let counts = |pod: &&Object| {
        !text(pod, "/status/podIP").is_empty() && !matches!(crate::look::phase(pod), "Succeeded" | "Failed")
    };
    for pod in pods.iter().filter(counts) {
        let ports = ports(&service, pod);
        groups.entry(ports.to_string()).or_insert_with(|| (ports, Vec::new())).1.push(pod);
    }
    endpoints(cluster, &service, &groups).await?;
    slices(cluster, &service, &groups).await
}

/// The service's ports as they are at a pod.
fn ports(service: &Object, pod: &Object) -> Value {
    let port = |port: &Value| {
        let number = match &port["targetPort"] {
            Value::String(name) => named(pod, name)?,
            Value::Null => port["port"].clone(),
            number => number.clone(),
        };
        let mut out = json!({"port": number, "protocol": port.get("protocol").cloned().unwrap_or("TCP".into())});
        if let Some(name) = port.get("name").filter(|name| !name.is_null()) {
            out["name"] = name.clone();
        }
        if let Some(protocol) = port.get("appProtocol").filter(|p| !p.is_null()) {
            out["appProtocol"] = protocol.clone();
        }
        Some(out)
    };
    list(service, "/spec/ports").iter().filter_map(port).collect()
}

fn named(pod: &Object, name: &str) -> Option<Value> {
    let containers = list(pod, "/spec/containers").iter();
    let mut ports = containers.flat_map(|c| c["ports"].as_array().into_iter().flatten());
    ports.find(|port| port["name"] == name).map(|port| port["containerPort"].clone())
}

fn target(pod: &Object) -> Value {
    json!({"kind": "Pod", "namespace": pod.namespace(), "name": pod.name(), "uid": pod.uid()})
}

/// Traffic goes there: ready, or wanted before it is.
fn serves(service: &Object, pod: &Object) -> bool {
    (is_true(pod, "Ready") && !pod.is_deleting()) || *at(service, "/spec/publishNotReadyAddresses") == true
}

type Groups<'a> = BTreeMap<String, (Value, Vec<&'a Object>)>;

async fn endpoints(cluster: &Cluster, service: &Object, groups: &Groups<'_>) -> Result<(), Status> {
    let mut subsets = Vec::new();
    for (ports, pods) in groups.values() {
        let (mut ready, mut unready) = (Vec::new(), Vec::new());
        for pod in pods.iter().filter(|pod| !pod.is_deleting()).take(MOST) {
            let mut address = json!({"ip": text(pod, "/status/podIP"), "nodeName": text(pod, "/spec/nodeName"), "targetRef": target(pod)});
            let hostname = text(pod, "/spec/hostname");
            if !hostname.is_empty() && text(pod, "/spec/subdomain") == service.name() {
                address["hostname"] = hostname.into();
            }
            if serves(service, pod) { ready.push(address) } else { unready.push(address) }
        }
        let mut subset = Map::new();
        for (key, addresses) in [("addresses", ready), ("notReadyAddresses", unready)] {
            if !addresses.is_empty() {
                subset.insert(key.into(), addresses.into());
            }
        }
        if !subset.is_empty() {
            subset.insert("ports".into(), ports.clone());
            subsets.push(Value::Object(subset));
        }
    }
    let labels = labels(service);
    let make = |object: &mut Object| {
        object.meta_mut().insert("labels".into(), labels.clone());
        match subsets.is_empty() {
            true => object.0.remove("subsets"),
            false => object.0.insert("subsets".into(), subsets.clone().into()),
        };
    };
    match cluster.kinds.endpoints.update(service.namespace(), service.name(), make).await {
        Err(error) if error.reason == Reason::NotFound => {
            let mut object = Object::default();
            object.set_meta("name", service.name());
            make(&mut object);
            let made = cluster.kinds.endpoints.create(service.namespace(), object).await.map(drop);
            made.or_else(|error| if is_race(&error) { Ok(()) } else { Err(error) })
        }
        outcome => outcome.map(drop),
    }
}

fn labels(service: &Object) -> Value {
    let mut labels = service.meta().get("labels").cloned().filter(Value::is_object).unwrap_or_else(|| json!({}));
    labels["endpoints.kubernetes.io/managed-by"] = "endpoint-controller".into();
    labels
}

async fn slices(cluster: &Cluster, service: &Object, groups: &Groups<'_>) -> Result<(), Status> {
    let mut wanted: BTreeMap<String, Value> = BTreeMap::new();
    let none = (json!([]), Vec::new());
    // A service with nobody behind it has one empty slice.
    let all: Vec<&(Value, Vec<&Object>)> = if groups.is_empty() { vec![&none] } else { groups.values().collect() };
    for (ports, pods) in all {
        let chunks: Vec<&[&Object]> = if pods.is_empty() { vec![&[]] } else { pods.chunks(SLICE).collect() };
        for chunk in chunks {
            let name =
                format!("{}-{}", service.name(), &short_hash(hash(&[service.uid(), &wanted.len().to_string()]))[..5]);
            let ends: Vec<Value> = chunk.iter().map(|pod| endpoint(service, pod)).collect();
            wanted.insert(name, json!({"endpoints": ends, "ports": ports}));
        }
    }
    let mut labels = service.meta().get("labels").cloned().filter(Value::is_object).unwrap_or_else(|| json!({}));
    labels["kubernetes.io/service-name"] = service.name().into();
    labels["endpointslice.kubernetes.io/managed-by"] = MANAGER.into();
    let old = cluster.kinds.slices.list(service.namespace(), |entry| owned(entry, service.uid()));
    for slice in old.iter().filter(|slice| !wanted.contains_key(slice.name())) {
        let gone = cluster.kinds.slices.delete(service.namespace(), slice.name(), &DeleteOptions::default()).await;
        gone.or_else(|error| if is_race(&error) { Ok(()) } else { Err(error) })?;
    }
    for (name, body) in wanted {
        let make = |slice: &mut Object| {
            slice.meta_mut().insert("labels".into(), labels.clone());
            for key in ["endpoints", "ports"] {
                slice.0.insert(key.into(), body[key].clone());
            }
        };
        match cluster.kinds.slices.update(service.namespace(), &name, make).await {
            Err(error) if error.reason == Reason::NotFound => {
                let mut slice = Object::default();
                slice.set_meta("name", &name);
                slice.meta_mut().insert("ownerReferences".into(), owner_reference("v1", "Service", service));
                slice.0.insert("addressType".into(), "IPv4".into());
                make(&mut slice);
                let made = cluster.kinds.slices.create(service.namespace(), slice).await.map(drop);
                made.or_else(|error| if is_race(&error) { Ok(()) } else { Err(error) })?;
            }
            outcome => drop(outcome?),
        }
    }
    Ok(())
}

fn endpoint(service: &Object, pod: &Object) -> Value {
    let ready = is_true(pod, "Ready");
    let mut out = json!({"addresses": [text(pod, "/status/podIP")], "nodeName": text(pod, "/spec/nodeName"), "targetRef": target(pod),
        "conditions": {"ready": serves(service, pod), "serving": ready, "terminating": pod.is_deleting()}});
    let hostname = text(pod, "/spec/hostname");
    if !hostname.is_empty() && text(pod, "/spec/subdomain") == service.name() {
        out["hostname"] = hostname.into();
    }
    out
}
