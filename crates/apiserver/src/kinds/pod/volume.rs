//! The rules of a pod's volumes.

use super::sources::{MAX_INITIATOR, TOO_LONG, check_source};
use crate::kinds::check::At;
use meta::{FieldError, FieldErrors, name};
use std::collections::{HashMap, HashSet};

/// The sources there are, in the order in which a second one is found to be one too many.
const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Checks the volumes of `spec`; answers those that containers may mount. `pod_name` is empty in templates.
pub fn volumes<'a>(spec: &'a At<'a>, pod_name: &str, errors: &mut FieldErrors) -> HashMap<&'a str, At<'a>> {
    let mut good = HashMap::new();
    let ephemeral = spec.items("volumes").filter(|volume| !pod_name.is_empty() && volume.has("ephemeral"));
    let made: HashSet<String> = ephemeral.map(|volume| format!("{pod_name}-{}", volume.text("name"))).collect();
    for at in spec.items("volumes") {
        let before = errors.len();
        let name = at.text("name");
        source(&at, pod_name, errors);
        if at.required("name", errors) {
            at.named("name", name::dns1123_label, errors);
        }
        if good.contains_key(name) {
            errors.push(FieldError::duplicate(at.field("name"), name));
        }
        if errors.len() == before {
            good.insert(name, at);
        }
        let claim = at.part("persistentVolumeClaim").text("claimName");
        if made.contains(claim) {
            let why = "must not reference a PVC that gets created for an ephemeral volume";
            errors.push(FieldError::invalid(at.part("persistentVolumeClaim").field("claimName"), claim, why));
        }
    }
    good
}

/// Sources whose second one is told under another name: so does Kubernetes.
const TOLD: &[(&str, &str)] = &[("cephfs", "cephFS"), ("downwardAPI", "downwarAPI")];

fn source(at: &At<'_>, pod_name: &str, errors: &mut FieldErrors) {
    let mut set = SOURCES.iter().copied().filter_map(|kind| Some((kind, at.child(kind)?)));
    let Some((kind, source)) = set.next() else {
        errors.push(FieldError::required(at.path(), "must specify a volume type"));
        return;
    };
    check_source(kind, &source, None, errors);
    let name = at.text("name");
    if kind == "ephemeral" && !pod_name.is_empty() && !name.is_empty() {
        let claim = format!("{pod_name}-{name}");
        for why in name::dns1123_subdomain(&claim) {
            at.invalid("name", format!("PVC name {claim:?}: {why}"), errors);
        }
    }
    let iscsi = at.part("iscsi");
    if iscsi.has("initiatorName") && name.len() + 1 + iscsi.text("targetPortal").len() > MAX_INITIATOR {
        at.invalid("name", TOO_LONG, errors);
    }
    for (kind, _) in set {
        let kind = TOLD.iter().find(|(source, _)| *source == kind).map_or(kind, |(_, told)| *told);
        at.forbidden(kind, "may not specify more than 1 volume type", errors);
    }
}
