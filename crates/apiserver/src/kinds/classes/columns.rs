//! What `kubectl get` prints for classes and storage drivers.

use crate::kinds::cells::{AGE, age, at, flag, len, number, text};
use jiff::Timestamp;
use meta::Object;
use meta::table::Column;
use serde_json::Value;

pub const PRIORITY_CLASS: &[Column] = &[
    Column::name(),
    Column::new("Value", "integer"),
    Column::new("Global-Default", "boolean"),
    AGE,
    Column::new("PreemptionPolicy", "string"),
];

pub fn priority_class(object: &Object, now: Timestamp) -> Vec<Value> {
    vec![
        object.name().into(),
        number(object, "value").into(),
        flag(object, "globalDefault"),
        age(object, now),
        text(object, "preemptionPolicy").into(),
    ]
}

pub const RUNTIME_CLASS: &[Column] = &[Column::name(), Column::new("Handler", "string"), AGE];

pub fn runtime_class(object: &Object, now: Timestamp) -> Vec<Value> {
    vec![object.name().into(), text(object, "handler").into(), age(object, now)]
}

pub const STORAGE_CLASS: &[Column] = &[
    Column::name(),
    Column::new("Provisioner", "string"),
    Column::new("ReclaimPolicy", "string"),
    Column::new("VolumeBindingMode", "string"),
    Column::new("AllowVolumeExpansion", "string"),
    AGE,
];

pub fn storage_class(object: &Object, now: Timestamp) -> Vec<Value> {
    let annotations = object.meta().get("annotations");
    let keys = ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    let default = keys.iter().any(|key| annotations.and_then(|a| a.get(*key)).is_some_and(|value| value == "true"));
    let name = if default { format!("{} (default)", object.name()) } else { object.name().to_owned() };
    vec![
        name.into(),
        text(object, "provisioner").into(),
        text(object, "reclaimPolicy").into(),
        text(object, "volumeBindingMode").into(),
        flag(object, "allowVolumeExpansion"),
        age(object, now),
    ]
}

pub const CSI_DRIVER: &[Column] = &[
    Column::name(),
    Column::new("AttachRequired", "boolean"),
    Column::new("PodInfoOnMount", "boolean"),
    Column::new("StorageCapacity", "boolean"),
    Column::new("TokenRequests", "string"),
    Column::new("RequiresRepublish", "boolean"),
    Column::new("Modes", "string"),
    AGE,
];

pub fn csi_driver(object: &Object, now: Timestamp) -> Vec<Value> {
    let requests = match at(object, "spec.tokenRequests").as_array() {
        None => "<unset>".to_owned(),
        Some(list) => {
            list.iter().map(|request| request["audience"].as_str().unwrap_or_default()).collect::<Vec<_>>().join(",")
        }
    };
    let modes = at(object, "spec.volumeLifecycleModes").as_array().map(Vec::as_slice).unwrap_or_default();
    let modes: Vec<&str> = modes.iter().filter_map(Value::as_str).collect();
    vec![
        object.name().into(),
        flag(object, "spec.attachRequired"),
        flag(object, "spec.podInfoOnMount"),
        flag(object, "spec.storageCapacity"),
        requests.into(),
        flag(object, "spec.requiresRepublish"),
        if modes.is_empty() { "<none>".into() } else { modes.join(",").into() },
        age(object, now),
    ]
}

pub const CSI_NODE: &[Column] = &[Column::name(), Column::new("Drivers", "integer"), AGE];

pub fn csi_node(object: &Object, now: Timestamp) -> Vec<Value> {
    vec![object.name().into(), len(object, "spec.drivers"), age(object, now)]
}

pub const VOLUME_ATTACHMENT: &[Column] = &[
    Column::name(),
    Column { name: "Attacher", ..Column::name() },
    Column::new("PV", "string"),
    Column::new("Node", "string"),
    Column::new("Attached", "boolean"),
    AGE,
];

pub fn volume_attachment(object: &Object, now: Timestamp) -> Vec<Value> {
    vec![
        object.name().into(),
        text(object, "spec.attacher").into(),
        text(object, "spec.source.persistentVolumeName").into(),
        text(object, "spec.nodeName").into(),
        flag(object, "status.attached"),
        age(object, now),
    ]
}
