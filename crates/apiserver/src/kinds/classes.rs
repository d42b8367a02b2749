//! Classes and what belongs to them: PriorityClass, RuntimeClass, StorageClass, and the kinds storage drivers keep.

mod columns;
mod rules;
mod storage;

pub use rules::SYSTEM_PRIORITIES;

use super::builtin::{PLAIN, Row};
use super::{Behaviour, defaults, spec_changes};
use meta::Object;

static PRIORITY_CLASS: Behaviour = Behaviour {
    generation: true,
    changes: |_, _| false,
    columns: columns::PRIORITY_CLASS,
    cells: columns::priority_class,
    one_by_one: true,
    default: |object| defaults::apply("scheduling/v1.PriorityClass", &mut object.0),
    admit: rules::single_default,
    validate: rules::priority_class,
    validate_update: rules::priority_class_update,
    ..PLAIN
};

static RUNTIME_CLASS: Behaviour = Behaviour {
    create_on_update: true,
    unconditional_update: false,
    columns: columns::RUNTIME_CLASS,
    cells: columns::runtime_class,
    default: |object| defaults::apply("node/v1.RuntimeClass", &mut object.0),
    validate: rules::runtime_class,
    validate_update: rules::runtime_class_update,
    warnings: Some(|new, _| rules::runtime_class_warnings(new)),
    ..PLAIN
};

static STORAGE_CLASS: Behaviour = Behaviour {
    returns_deleted: true,
    columns: columns::STORAGE_CLASS,
    cells: columns::storage_class,
    default: |object| defaults::apply("storage/v1.StorageClass", &mut object.0),
    validate: storage::storage_class,
    validate_update: storage::storage_class_update,
    warnings: Some(|new, _| storage::storage_class_warnings(new)),
    ..PLAIN
};

static CSI_DRIVER: Behaviour = Behaviour {
    returns_deleted: true,
    unconditional_update: false,
    columns: columns::CSI_DRIVER,
    cells: columns::csi_driver,
    default: |object| defaults::apply("storage/v1.CSIDriver", &mut object.0),
    prepare_create: drop_disabled,
    prepare_update: count_changes,
    validate: storage::csi_driver,
    validate_update: storage::csi_driver_update,
    ..PLAIN
};

static CSI_NODE: Behaviour = Behaviour {
    returns_deleted: true,
    unconditional_update: false,
    columns: columns::CSI_NODE,
    cells: columns::csi_node,
    validate: storage::csi_node,
    validate_update: storage::csi_node_update,
    ..PLAIN
};

static VOLUME_ATTACHMENT: Behaviour = Behaviour {
    resets: &[("status", "metadata")],
    status: true,
    returns_deleted: true,
    unconditional_update: false,
    columns: columns::VOLUME_ATTACHMENT,
    cells: columns::volume_attachment,
    prepare_part: |_, new, old| {
        if let Some(metadata) = old.0.get("metadata").cloned() {
            new.0.insert("metadata".into(), metadata);
        }
    },
    validate: storage::volume_attachment,
    validate_create: storage::volume_attachment_create,
    validate_update: storage::volume_attachment_update,
    validate_part: |_, new, _| storage::volume_attachment(new),
    ..PLAIN
};

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    Row { group: "node.k8s.io", version: "v1", kind: "RuntimeClass", plural: "runtimeclasses", singular: "runtimeclass", short: &[], namespaced: false, collection: "node.k8s.io/runtimeclasses", stored_as: None, behaviour: &RUNTIME_CLASS },
    Row { group: "scheduling.k8s.io", version: "v1", kind: "PriorityClass", plural: "priorityclasses", singular: "priorityclass", short: &["pc"], namespaced: false, collection: "scheduling.k8s.io/priorityclasses", stored_as: None, behaviour: &PRIORITY_CLASS },
    Row { group: "storage.k8s.io", version: "v1", kind: "CSIDriver", plural: "csidrivers", singular: "csidriver", short: &[], namespaced: false, collection: "storage.k8s.io/csidrivers", stored_as: None, behaviour: &CSI_DRIVER },
    Row { group: "storage.k8s.io", version: "v1", kind: "CSINode", plural: "csinodes", singular: "csinode", short: &[], namespaced: false, collection: "storage.k8s.io/csinodes", stored_as: None, behaviour: &CSI_NODE },
    Row { group: "storage.k8s.io", version: "v1", kind: "StorageClass", plural: "storageclasses", singular: "storageclass", short: &["sc"], namespaced: false, collection: "storage.k8s.io/storageclasses", stored_as: None, behaviour: &STORAGE_CLASS },
    Row { group: "storage.k8s.io", version: "v1", kind: "VolumeAttachment", plural: "volumeattachments", singular: "volumeattachment", short: &[], namespaced: false, collection: "storage.k8s.io/volumeattachments", stored_as: None, behaviour: &VOLUME_ATTACHMENT },
];

#[rustfmt::skip]
pub const DEFAULTS: &[defaults::Row] = &[
    ("scheduling/v1.PriorityClass", r#"{"preemptionPolicy":"PreemptLowerPriority"}"#, defaults::nothing),
    ("storage/v1.CSIDriverSpec", r#"{"attachRequired":true,"fsGroupPolicy":"ReadWriteOnceWithFSType","podInfoOnMount":false,"requiresRepublish":false,"seLinuxMount":false,"storageCapacity":false,"volumeLifecycleModes":["Persistent"]}"#, defaults::nothing),
    ("storage/v1.StorageClass", r#"{"reclaimPolicy":"Delete","volumeBindingMode":"Immediate"}"#, defaults::nothing),
];

/// Limits of nodes that drivers report anew are a feature that is off.
fn drop_disabled(driver: &mut Object) {
    if let Some(serde_json::Value::Object(spec)) = driver.0.get_mut("spec") {
        spec.remove("nodeAllocatableUpdatePeriodSeconds");
    }
}

/// The changes of a driver are counted, though it is made without a count.
fn count_changes(new: &mut Object, old: &Object) {
    drop_disabled(new);
    // Compared as both will be stored.
    defaults::apply("storage/v1.CSIDriver", &mut new.0);
    let generation = old.generation() + i64::from(spec_changes(new, old));
    if generation > 0 {
        new.meta_mut().insert("generation".into(), generation.into());
    } else {
        new.meta_mut().remove("generation");
    }
}
