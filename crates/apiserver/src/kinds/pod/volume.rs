//! The rules of a pod's volumes.

use super::container::{field_reference, resource_reference};
use crate::kinds::check::{At, descending, local, no_backsteps};
use meta::{FieldError, FieldErrors, name};
use serde_json::Value;
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

/// What a source cannot do without.
const REQUIRED: &[(&str, &[&str])] = &[
    ("gitRepo", &["repository"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("secret", &["secretName"]),
    ("nfs", &["server", "path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("glusterfs", &["endpoints", "path"]),
    ("persistentVolumeClaim", &["claimName"]),
    ("rbd", &["monitors", "image"]),
    ("cinder", &["volumeID"]),
    ("cephfs", &["monitors"]),
    ("flexVolume", &["driver"]),
    ("configMap", &["name"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("csi", &["driver"]),
    ("ephemeral", &["volumeClaimTemplate"]),
    ("image", &["reference"]),
];

const VOLUME_FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// Checks the volumes of `spec`; answers those that containers may mount. `pod_name` is empty in templates.
pub fn volumes<'a>(spec: &'a At<'a>, pod_name: &str, errors: &mut FieldErrors) -> HashMap<&'a str, At<'a>> {
    let mut good = HashMap::new();
    let ephemeral = spec.items("volumes").filter(|volume| !pod_name.is_empty() && volume.has("ephemeral"));
    let made: HashSet<String> = ephemeral.map(|volume| format!("{pod_name}-{}", volume.text("name"))).collect();
    for at in spec.items("volumes") {
        let before = errors.len();
        let name = at.text("name");
        source(&at, errors);
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

fn source(at: &At<'_>, errors: &mut FieldErrors) {
    let mut set = SOURCES.iter().copied().filter_map(|kind| Some((kind, at.child(kind)?)));
    let Some((kind, source)) = set.next() else {
        errors.push(FieldError::required(at.path(), "must specify a volume type"));
        return;
    };
    check_source(kind, &source, errors);
    for (kind, _) in set {
        at.forbidden(kind, "may not specify more than 1 volume type", errors);
    }
}

/// The rules of one source, `source`, of the kind that its field's name says.
pub fn check_source(kind: &str, source: &At<'_>, errors: &mut FieldErrors) {
    for (_, fields) in REQUIRED.iter().filter(|(of, _)| *of == kind) {
        for field in *fields {
            source.required(field, errors);
        }
    }
    match kind {
        "emptyDir" if schema::quantity::nanos(source.text("sizeLimit")).is_some_and(|size| size < 0) => {
            source.forbidden("sizeLimit", "SizeLimit field must be a valid resource quantity", errors);
        }
        "hostPath" => host_path(source, errors),
        "gitRepo" => descending(source.field("directory"), source.text("directory"), errors),
        "nfs" if !source.text("path").starts_with('/') => {
            errors.push(FieldError::invalid(source.field("path"), source.text("path"), "must be an absolute path"));
        }
        "secret" | "configMap" => {
            source.mode("defaultMode", errors);
            source.items("items").for_each(|item| key_to_path(&item, errors));
        }
        "downwardAPI" => {
            source.mode("defaultMode", errors);
            // Told at the source, not at the item: so does Kubernetes.
            source.items("items").for_each(|item| downward_file(&item, source, errors));
        }
        "projected" => projected(source, errors),
        "ephemeral" => {
            if let Some(template) = source.child("volumeClaimTemplate") {
                let metadata = template.part("metadata");
                for field in metadata
                    .map
                    .keys()
                    .filter(|key| !["labels", "annotations", "creationTimestamp"].contains(&key.as_str()))
                {
                    metadata.forbidden(field, "cannot be set", errors);
                }
                crate::kinds::volumes::claim_spec(&template.part("spec"), errors);
            }
        }
        "image" => source.one_of("pullPolicy", &["Always", "IfNotPresent", "Never"], errors),
        _ => {}
    }
}

fn host_path(at: &At<'_>, errors: &mut FieldErrors) {
    const TYPES: &[&str] =
        &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    if !at.required("path", errors) {
        return;
    }
    if let Some(why) = no_backsteps(at.text("path")) {
        at.invalid("path", why, errors);
    }
    at.one_of("type", TYPES, errors);
}

fn key_to_path(at: &At<'_>, errors: &mut FieldErrors) {
    at.required("key", errors);
    at.required("path", errors);
    local(at.field("path"), at.text("path"), errors);
    at.mode("mode", errors);
}

fn downward_file(item: &At<'_>, at: &At<'_>, errors: &mut FieldErrors) {
    // Paths are told below `at`: an item is looked at as if it stood there.
    let path = at.path();
    let item = At::root(&path, item.map);
    item.required("path", errors);
    local(item.field("path"), item.text("path"), errors);
    if let Some(reference) = item.child("fieldRef") {
        field_reference(&reference, VOLUME_FIELDS, errors);
        if item.has("resourceFieldRef") {
            let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
            errors.push(FieldError::invalid(item.path(), "resource", why));
        }
    } else if let Some(reference) = item.child("resourceFieldRef") {
        resource_reference(&reference, true, errors);
    } else {
        errors.push(FieldError::required(item.path(), "one of fieldRef and resourceFieldRef is required"));
    }
    item.mode("mode", errors);
}

fn projected(at: &At<'_>, errors: &mut FieldErrors) {
    at.mode("defaultMode", errors);
    let mut paths = HashSet::new();
    let mut conflict = |path: &str, told: &str, errors: &mut FieldErrors| {
        if !path.is_empty() && !paths.insert(path.to_owned()) {
            errors.push(FieldError::invalid(at.path(), told, "conflicting duplicate paths"));
        }
    };
    for source in at.items("sources") {
        for kind in ["secret", "configMap"] {
            let Some(reference) = source.child(kind) else { continue };
            reference.required("name", errors);
            for item in reference.items("items") {
                key_to_path(&item, errors);
                conflict(item.text("path"), reference.text("name"), errors);
            }
        }
        if let Some(downward) = source.child("downwardAPI") {
            for item in downward.items("items") {
                downward_file(&item, &downward, errors);
                conflict(item.text("path"), item.text("path"), errors);
            }
        }
        if let Some(token) = source.child("serviceAccountToken") {
            let seconds = token.int("expirationSeconds").unwrap_or_default();
            if seconds < 600 {
                token.invalid("expirationSeconds", "may not specify a duration less than 10 minutes", errors);
            }
            if seconds > 1 << 32 {
                token.invalid("expirationSeconds", "may not specify a duration larger than 2^32 seconds", errors);
            }
            match token.text("path") {
                "" => errors.push(FieldError::required(at.field("path"), "")),
                path => local(at.field("path"), path, errors),
            }
        }
        if source.map.values().filter(|value| !matches!(value, Value::Null)).count() > 1 {
            errors.push(FieldError::forbidden(source.path(), "may not specify more than 1 volume type per source"));
        }
    }
}
