//! What storage classes, drivers and attachments must keep.

use crate::kinds::check::{At, IMMUTABLE, named};
use crate::kinds::pod;
use meta::{FieldError, FieldErrors, Object, name};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

const MAX_PARAMETERS: usize = 512;
const MAX_PARAMETERS_SIZE: usize = 256 * 1024;
const MAX_NODE_ID: usize = 256;
const MAX_ERROR: usize = 1024;
const MAX_METADATA: usize = 256 * 1024;

pub fn storage_class(object: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &object.0), Vec::new());
    if root.required("provisioner", &mut errors) {
        named("provisioner", &root.text("provisioner").to_lowercase(), name::qualified_name, &mut errors);
    }
    parameters(&root, &mut errors);
    if !root.text("reclaimPolicy").is_empty() {
        root.one_of("reclaimPolicy", &["Delete", "Retain"], &mut errors);
    }
    root.one_of("volumeBindingMode", &["Immediate", "WaitForFirstConsumer"], &mut errors);
    let mut terms = HashSet::new();
    for term in root.items("allowedTopologies") {
        let mut keys = HashSet::new();
        if !terms.insert(topology(&term)) || term.list("matchLabelExpressions").is_empty() {
            errors.push(FieldError::duplicate(term.field("matchLabelExpressions"), ""));
        }
        for requirement in term.items("matchLabelExpressions") {
            requirement.required("values", &mut errors);
            unique(&requirement, "values", &mut errors);
            named(&requirement.field("key"), requirement.text("key"), name::qualified_name, &mut errors);
            if !keys.insert(requirement.text("key")) {
                errors.push(FieldError::duplicate(requirement.field("key"), requirement.text("key")));
            }
        }
    }
    errors
}

/// What a term asks for, whatever the order of its words.
fn topology(term: &At<'_>) -> BTreeMap<String, BTreeSet<String>> {
    let of = |requirement: At<'_>| {
        let values = requirement.texts("values").map(str::to_owned).collect();
        (requirement.text("key").to_owned(), values)
    };
    term.items("matchLabelExpressions").map(of).collect()
}

pub fn storage_class_warnings(object: &Object) -> Vec<String> {
    let root = At::root("", &object.0);
    let mut warnings = Vec::new();
    for term in root.items("allowedTopologies") {
        for requirement in term.items("matchLabelExpressions") {
            let old = pod::old_node_label(requirement.text("key"));
            warnings.extend(old.map(|why| format!("{}: {why}", requirement.field("key"))));
        }
    }
    warnings
}

fn unique(at: &At<'_>, list: &str, errors: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for (i, value) in at.texts(list).enumerate().filter(|(_, value)| !seen.insert(*value)) {
        errors.push(FieldError::duplicate(format!("{}[{i}]", at.field(list)), value));
    }
}

fn parameters(root: &At<'_>, errors: &mut FieldErrors) {
    if root.entries("parameters").count() > MAX_PARAMETERS {
        errors.push(FieldError::too_long("parameters", MAX_PARAMETERS));
        return;
    }
    let mut size = 0;
    for (key, value) in root.entries("parameters") {
        if key.is_empty() {
            errors.push(FieldError::invalid("parameters", key, "field can not be empty."));
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > MAX_PARAMETERS_SIZE {
        errors.push(FieldError::too_long("parameters", MAX_PARAMETERS_SIZE));
    }
}

pub fn storage_class_update(new: &Object, old: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &new.0), Vec::new());
    let differs = |field: &str| new.0.get(field) != old.0.get(field);
    for field in ["parameters", "provisioner", "reclaimPolicy"].into_iter().filter(|field| differs(field)) {
        root.forbidden(field, &format!("updates to {field} are forbidden."), &mut errors);
    }
    if differs("volumeBindingMode") {
        root.invalid("volumeBindingMode", IMMUTABLE, &mut errors);
    }
    errors
}

pub fn csi_driver(object: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &object.0), Vec::new());
    let spec = root.part("spec");
    spec.one_of("fsGroupPolicy", &["File", "None", "ReadWriteOnceWithFSType"], &mut errors);
    let mut audiences = HashSet::new();
    for request in spec.items("tokenRequests") {
        if !audiences.insert(request.text("audience")) {
            errors.push(FieldError::duplicate(request.field("audience"), request.text("audience")));
            continue;
        }
        match request.int("expirationSeconds") {
            Some(..600) => {
                request.invalid("expirationSeconds", "may not specify a duration less than 10 minutes", &mut errors);
            }
            Some(seconds) if seconds > 1 << 32 => {
                let why = "may not specify a duration larger than 2^32 seconds";
                request.invalid("expirationSeconds", why, &mut errors);
            }
            _ => {}
        }
    }
    let modes = ["Persistent", "Ephemeral"];
    for mode in spec.texts("volumeLifecycleModes").filter(|mode| !modes.contains(mode)) {
        errors.push(FieldError::not_supported(spec.field("volumeLifecycleModes"), mode, &modes));
    }
    errors
}

pub fn csi_driver_update(new: &Object, old: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &new.0), Vec::new());
    let old = At::root("", &old.0);
    // Kubernetes calls the first field by a name it does not have.
    for (field, told) in [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")] {
        let value = root.part("spec").value(field);
        if value != old.part("spec").value(field) {
            errors.push(FieldError::invalid(format!("spec.{told}"), value.clone(), IMMUTABLE));
        }
    }
    errors
}

/// The name of a driver.
fn driver_name(field: &str, value: &str, errors: &mut FieldErrors) {
    if value.is_empty() {
        errors.push(FieldError::required(field, ""));
    }
    if value.len() > 63 {
        errors.push(FieldError::too_long(field, 63));
    }
    let wrong = name::dns1123_subdomain(&value.to_lowercase());
    errors.extend(wrong.into_iter().map(|why| FieldError::invalid(field, value, why)));
}

pub fn csi_node(object: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &object.0), Vec::new());
    let spec = root.part("spec");
    let mut names = HashSet::new();
    for driver in spec.items("drivers") {
        driver_name(&driver.field("name"), driver.text("name"), &mut errors);
        driver.required("nodeID", &mut errors);
        if driver.text("nodeID").len() > MAX_NODE_ID {
            driver.invalid("nodeID", format!("must be {MAX_NODE_ID} characters or less"), &mut errors);
        }
        driver.part("allocatable").non_negative("count", &mut errors);
        if !names.insert(driver.text("name")) {
            errors.push(FieldError::duplicate(driver.field("name"), driver.text("name")));
        }
        let mut keys = HashSet::new();
        for key in driver.texts("topologyKeys") {
            if key.is_empty() {
                errors.push(FieldError::required(driver.path(), ""));
            }
            if !keys.insert(key) {
                errors.push(FieldError::duplicate(driver.path(), key));
            }
            named(&driver.path(), key, name::qualified_name, &mut errors);
        }
    }
    errors
}

/// A driver on a node can be taken away and brought back, not changed.
pub fn csi_node_update(new: &Object, old: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let (root, old) = (At::root("", &new.0), At::root("", &old.0));
    let old_spec = old.part("spec");
    let old_drivers: HashMap<&str, &Value> =
        old_spec.list("drivers").iter().map(|was| (was["name"].as_str().unwrap_or_default(), was)).collect();
    for driver in root.part("spec").list("drivers") {
        let was = old_drivers.get(driver["name"].as_str().unwrap_or_default());
        if was.is_some_and(|was| *was != driver) {
            errors.push(FieldError::invalid("spec.drivers", driver.clone(), IMMUTABLE));
        }
    }
    errors
}

pub fn volume_attachment(object: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &object.0), Vec::new());
    let spec = root.part("spec");
    spec.required("attacher", &mut errors);
    let source = spec.part("source");
    let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (source.has("inlineVolumeSpec"), source.has("persistentVolumeName")) {
        (false, false) => errors.push(FieldError::required(source.path(), why)),
        (true, true) => errors.push(FieldError::forbidden(source.path(), why)),
        (false, true) if source.text("persistentVolumeName").is_empty() => errors.push(FieldError::required(
            source.field("persistentVolumeName"),
            "must specify non empty persistentVolumeName",
        )),
        _ => {}
    }
    named(&spec.field("nodeName"), spec.text("nodeName"), name::dns1123_subdomain, &mut errors);
    let status = root.part("status");
    let size: usize =
        status.entries("attachmentMetadata").map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > MAX_METADATA {
        errors.push(FieldError::too_long(status.field("attachmentMetadata"), MAX_METADATA));
    }
    for error in ["attachError", "detachError"].into_iter().filter_map(|field| status.child(field)) {
        if error.text("message").len() > MAX_ERROR {
            errors.push(FieldError::too_long(error.field("message"), MAX_METADATA));
        }
    }
    errors
}

pub fn volume_attachment_create(object: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &object.0), Vec::new());
    let spec = root.part("spec");
    driver_name("spec.attacher", spec.text("attacher"), &mut errors);
    let source = spec.part("source");
    if source.has("persistentVolumeName") {
        let field = source.field("persistentVolumeName");
        named(&field, source.text("persistentVolumeName"), name::dns1123_subdomain, &mut errors);
    }
    errors
}

pub fn volume_attachment_update(new: &Object, old: &Object) -> FieldErrors {
    let spec = |object: &Object| object.0.get("spec").cloned().unwrap_or(Value::Null);
    if spec(new) == spec(old) {
        return Vec::new();
    }
    vec![FieldError::invalid("spec", spec(new), IMMUTABLE)]
}
