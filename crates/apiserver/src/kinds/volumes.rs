//! Persistent volumes and the claims for them.

use super::check::{At, IMMUTABLE, label_selector, no_backsteps};
use super::columns::{AGE, age};
use super::pod::{check_source, node_selector};
use crate::Inner;
use crate::objects::Part;
use jiff::Timestamp;
use meta::table::Column;
use meta::{FieldError, FieldErrors, Object, Status, name, time};
use schema::quantity::nanos;
use serde_json::{Map, Value, json};

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// What keeps a volume or claim while it is in use; whoever watches over that takes it away.
const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";
const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
/// The fields of a volume's spec that are not its source.
const NOT_SOURCES: &[&str] = &[
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

pub fn volume_default(object: &mut Object) {
    super::defaults::apply("core/v1.PersistentVolume", &mut object.0);
}

/// A new volume is pending, from now on.
pub fn volume_admit(api: &Inner, object: &mut Object, old: Option<&Object>) -> Result<(), Status> {
    if old.is_none() {
        object.add_finalizer(VOLUME_FINALIZER);
        let now = time::seconds(api.clock.now());
        object.0.insert("status".into(), json!({"phase": "Pending", "lastPhaseTransitionTime": now}));
    }
    Ok(())
}

/// The time of the last change of phase is kept, or made when the writer did not.
pub fn volume_prepare_part(_: Part, new: &mut Object, old: &Object) {
    let Some(Value::Object(status)) = new.0.get_mut("status") else { return };
    let old = old.0.get("status").unwrap_or(&Value::Null);
    let (before, said) = (old.get("lastPhaseTransitionTime").cloned(), status.get("lastPhaseTransitionTime").cloned());
    if old.get("phase") == status.get("phase") {
        if let (None, Some(before)) = (said, before) {
            status.insert("lastPhaseTransitionTime".into(), before);
        }
    } else if said.is_none() || said == before {
        let now = time::seconds(Timestamp::now());
        status.insert("lastPhaseTransitionTime".into(), now.into());
    }
}

pub fn volume_validate(object: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let root = At::root("", &object.0);
    let spec = root.part("spec");
    spec.required("accessModes", &mut errors);
    access_modes(&spec, &mut errors);
    spec.required("capacity", &mut errors);
    let capacity = spec.part("capacity");
    if !capacity.has("storage") || capacity.map.len() > 1 {
        let whole = if capacity.map.is_empty() { Value::Null } else { Value::Object(capacity.map.clone()) };
        errors.push(FieldError::not_supported("spec.capacity", whole, &["storage"]));
    }
    for (resource, value) in spec.entries("capacity") {
        positive(&format!("spec.capacity[{resource}]"), value, &mut errors);
    }
    spec.one_of("persistentVolumeReclaimPolicy", &["Delete", "Recycle", "Retain"], &mut errors);
    if let Some(affinity) = spec.child("nodeAffinity") {
        match affinity.child("required") {
            Some(required) => node_selector(&required, &mut errors),
            None => {
                errors.push(FieldError::required(affinity.field("required"), "must specify required node constraints"))
            }
        }
    }
    source(&spec, object.name(), &mut errors);
    spec.named("storageClassName", name::dns1123_subdomain, &mut errors);
    spec.one_of("volumeMode", VOLUME_MODES, &mut errors);
    errors
}

/// `name` is the volume's.
fn source(spec: &At<'_>, name: &str, errors: &mut FieldErrors) {
    let mut sources = spec.map.keys().map(String::as_str).filter(|key| !NOT_SOURCES.contains(key));
    let Some(kind) = sources.next() else {
        errors.push(FieldError::required("spec", "must specify a volume type"));
        return;
    };
    if let Some(source) = spec.child(kind) {
        match kind {
            "local" => {
                if source.required("path", errors)
                    && let Some(why) = no_backsteps(source.text("path"))
                {
                    source.invalid("path", why, errors);
                }
                if !spec.has("nodeAffinity") {
                    let why = "Local volume requires node affinity";
                    errors.push(FieldError::required("spec.nodeAffinity", why));
                }
            }
            _ => check_source(kind, &source, Some(name), errors),
        }
    }
    for kind in sources {
        spec.forbidden(kind, "may not specify more than 1 volume type", errors);
    }
    let host = spec.part("hostPath");
    if !host.text("path").is_empty()
        && host.text("path").trim_matches('/').is_empty()
        && spec.text("persistentVolumeReclaimPolicy") == "Recycle"
    {
        let why = "may not be 'recycle' for a hostPath mount of '/'";
        spec.forbidden("persistentVolumeReclaimPolicy", why, errors);
    }
}

fn access_modes(spec: &At<'_>, errors: &mut FieldErrors) {
    let modes: Vec<&str> = spec.texts("accessModes").collect();
    for mode in modes.iter().filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.push(FieldError::not_supported(spec.field("accessModes"), *mode, ACCESS_MODES));
    }
    let others = modes.iter().any(|mode| *mode != "ReadWriteOncePod" && ACCESS_MODES.contains(mode));
    if modes.contains(&"ReadWriteOncePod") && others {
        spec.forbidden("accessModes", "may not use ReadWriteOncePod with other access modes", errors);
    }
}

fn positive(field: &str, value: &Value, errors: &mut FieldErrors) {
    if value.as_str().and_then(nanos).is_some_and(|amount| amount <= 0) {
        errors.push(FieldError::invalid(field, value.clone(), "must be greater than zero"));
    }
}

pub fn volume_validate_update(new: &Object, old: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let (root, old_root) = (At::root("", &new.0), At::root("", &old.0));
    let (spec, was) = (root.part("spec"), old_root.part("spec"));
    let sources = |at: &At<'_>| -> Map<String, Value> {
        let kept = at.map.iter().filter(|(key, _)| !NOT_SOURCES.contains(&key.as_str()));
        kept.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    if sources(&spec) != sources(&was) {
        let why = "spec.persistentvolumesource is immutable after creation";
        errors.push(FieldError::forbidden("spec.persistentvolumesource", why));
    }
    volume_mode(&spec, &was, &mut errors);
    if was.has("nodeAffinity") && was.value("nodeAffinity") != spec.value("nodeAffinity") {
        errors.push(FieldError::invalid("nodeAffinity", spec.value("nodeAffinity").clone(), IMMUTABLE));
    }
    errors
}

/// Told without `spec`: so does Kubernetes.
fn volume_mode(spec: &At<'_>, was: &At<'_>, errors: &mut FieldErrors) {
    if spec.value("volumeMode") != was.value("volumeMode") {
        errors.push(FieldError::invalid("volumeMode", spec.value("volumeMode").clone(), IMMUTABLE));
    }
}

pub fn claim_default(object: &mut Object) {
    super::defaults::apply("core/v1.PersistentVolumeClaim", &mut object.0);
}

/// A new claim is held while it is used; without a storage class it gets the default one.
pub fn claim_admit(api: &Inner, object: &mut Object, old: Option<&Object>) -> Result<(), Status> {
    if let Some(old) = old {
        return growth(api, object, old);
    }
    object.add_finalizer(CLAIM_FINALIZER);
    let annotated = object.meta().get("annotations").is_some_and(|a| a.get(OLD_CLASS).is_some());
    let Some(Value::Object(spec)) = object.0.get_mut("spec") else { return Ok(()) };
    if !spec.contains_key("storageClassName")
        && !annotated
        && let Some(class) = default_class(api)?
    {
        spec.insert("storageClassName".into(), class.into());
    }
    Ok(())
}

/// A bound claim grows if its class lets volumes grow.
fn growth(api: &Inner, new: &Object, old: &Object) -> Result<(), Status> {
    let size = |object: &Object| {
        let spec = object.0.get("spec")?;
        nanos(spec.get("resources")?.get("requests")?.get("storage")?.as_str()?)
    };
    let bound = old.0.get("status").and_then(|s| s.get("phase")).is_some_and(|phase| phase == "Bound");
    if !bound || size(new) <= size(old) {
        return Ok(());
    }
    let class = new.0.get("spec").and_then(|s| s.get("storageClassName")).and_then(Value::as_str).unwrap_or_default();
    let kind = api.kind("storage.k8s.io", "v1", "storageclasses");
    if let Some(kind) = kind
        && let Some(entry) = api.store.get(&kind.key("", class))
        && api.decode_stored(&kind, &entry.value, entry.revision)?.0.get("allowVolumeExpansion")
            == Some(&Value::Bool(true))
    {
        return Ok(());
    }
    let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
    Err(Status::forbidden(meta::GroupResource { group: "", resource: "persistentvolumeclaims" }, new.name(), why))
}

/// The newest of the classes that are marked as default.
fn default_class(api: &Inner) -> Result<Option<String>, Status> {
    let Some(kind) = api.kind("storage.k8s.io", "v1", "storageclasses") else { return Ok(None) };
    let range = store::Range { collection: &kind.collection, prefix: "", after: None, limit: 0, at: None };
    let page = api.store.range(&range, |_, _| true).map_err(crate::objects::storage)?;
    let mut newest: Option<(String, String)> = None;
    for (_, entry) in page.items {
        let class = api.decode_stored(&kind, &entry.value, entry.revision)?;
        let marked = |key: &str| class.meta().get("annotations").and_then(|a| a.get(key)).is_some_and(|v| v == "true");
        let made = class.meta_text("creationTimestamp").to_owned();
        let is_default = marked("storageclass.kubernetes.io/is-default-class")
            || marked("storageclass.beta.kubernetes.io/is-default-class");
        if is_default && newest.as_ref().is_none_or(|(when, _)| *when < made) {
            newest = Some((made, class.name().to_owned()));
        }
    }
    Ok(newest.map(|(_, name)| name))
}

pub fn claim_create(object: &mut Object) {
    object.0.insert("status".into(), json!({"phase": "Pending"}));
    drop_odd_source(object);
    data_sources(object);
}

pub fn claim_update(object: &mut Object, old: &Object) {
    let spec = old.0.get("spec").and_then(Value::as_object);
    if !spec.is_some_and(|spec| spec.contains_key("dataSource") || spec.contains_key("dataSourceRef")) {
        drop_odd_source(object);
    }
    data_sources(object);
}

/// The older field takes claims and snapshots alone; anything else in it was always dropped without a word.
fn drop_odd_source(object: &mut Object) {
    let Some(Value::Object(spec)) = object.0.get_mut("spec") else { return };
    let Some(source) = spec.get("dataSource").filter(|_| !spec.contains_key("dataSourceRef")) else { return };
    let text = |key: &str| source.get(key).and_then(Value::as_str).unwrap_or_default();
    let known = [("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")];
    if !known.contains(&(text("apiGroup"), text("kind"))) {
        spec.remove("dataSource");
    }
}

/// The two fields for a data source say the same, unless the newer one reaches into another namespace.
fn data_sources(object: &mut Object) {
    let Some(Value::Object(spec)) = object.0.get_mut("spec") else { return };
    if let (None, Some(source)) = (spec.get("dataSourceRef"), spec.get("dataSource").cloned()) {
        spec.insert("dataSourceRef".into(), source);
    } else if let (Some(reference), None) = (spec.get("dataSourceRef").cloned(), spec.get("dataSource")) {
        let here = reference.get("namespace").and_then(Value::as_str).unwrap_or_default().is_empty();
        if here {
            spec.insert("dataSource".into(), reference);
        }
    }
}

/// The rules of a PersistentVolumeClaimSpec.
pub fn claim_spec(at: &At<'_>, errors: &mut FieldErrors) {
    if at.list("accessModes").is_empty() {
        errors.push(FieldError::required(at.field("accessModes"), "at least 1 access mode is required"));
    }
    if let Some(selector) = at.child("selector") {
        label_selector(&selector, errors);
    }
    access_modes(at, errors);
    let field = format!("{}[storage]", at.field("resources"));
    let resources = at.part("resources");
    let requests = resources.part("requests");
    match requests.map.get("storage") {
        Some(value) => positive(&field, value, errors),
        None => errors.push(FieldError::required(field, "")),
    }
    at.named("storageClassName", name::dns1123_subdomain, errors);
    at.one_of("volumeMode", VOLUME_MODES, errors);
    for source in ["dataSource", "dataSourceRef"] {
        if let Some(source) = at.child(source) {
            source.required("name", errors);
            source.required("kind", errors);
            if source.text("apiGroup").is_empty() && source.text("kind") != "PersistentVolumeClaim" {
                let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
                errors.push(FieldError::invalid(source.path(), source.text("kind"), why));
            }
            source.named("apiGroup", name::dns1123_subdomain, errors);
        }
    }
}

pub fn claim_validate(object: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let root = At::root("", &object.0);
    claim_spec(&root.part("spec"), &mut errors);
    errors
}

/// A claim is what it was; when it is bound it may ask for more, and its volume is named once.
pub fn claim_validate_update(new: &Object, old: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    let (root, old_root) = (At::root("", &new.0), At::root("", &old.0));
    let (spec, was) = (root.part("spec"), old_root.part("spec"));
    let (mut munged, mut before) = (spec.map.clone(), was.map.clone());
    if !was.has("volumeName") {
        munged.remove("volumeName");
        before.remove("volumeName");
    }
    if !was.has("storageClassName") && spec.has("storageClassName") {
        munged.remove("storageClassName");
    }
    let size = |at: &At<'_>| at.value("resources").get("requests").and_then(|r| r.get("storage")).cloned();
    let (old_size, new_size) = (size(&was), size(&spec));
    if root.part("status").text("phase") == "Bound" {
        for map in [&mut munged, &mut before] {
            map.remove("volumeAttributesClassName");
        }
        if let (Some(size), Some(requests)) =
            (&old_size, munged.get_mut("resources").and_then(|r| r.get_mut("requests")).and_then(Value::as_object_mut))
        {
            requests.insert("storage".into(), size.clone());
        }
    }
    if munged != before {
        let why =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.push(FieldError::forbidden("spec", why));
    }
    let amount = |value: &Option<Value>| value.as_ref().and_then(Value::as_str).and_then(nanos).unwrap_or_default();
    let has = old_root.part("status").value("capacity").get("storage").cloned();
    if amount(&new_size) < amount(&old_size) && amount(&new_size) <= amount(&has) {
        let why = "field can not be less than status.capacity";
        errors.push(FieldError::forbidden("spec.resources.requests.storage", why));
    }
    volume_mode(&spec, &was, &mut errors);
    errors
}

pub const VOLUME_COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Capacity", "string"),
    Column::new("Access Modes", "string"),
    Column::new("Reclaim Policy", "string"),
    Column::new("Status", "string"),
    Column::new("Claim", "string"),
    Column::new("StorageClass", "string"),
    Column::new("VolumeAttributesClass", "string"),
    Column::new("Reason", "string"),
    AGE,
    Column::new("VolumeMode", "string").wide(),
];

pub fn volume_cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let root = At::root("", &object.0);
    let (spec, status) = (root.part("spec"), root.part("status"));
    let claim = spec.child("claimRef").map(|claim| format!("{}/{}", claim.text("namespace"), claim.text("name")));
    vec![
        object.name().into(),
        storage(&spec.part("capacity")),
        modes(&spec).into(),
        spec.text("persistentVolumeReclaimPolicy").into(),
        phase(object, &status),
        claim.unwrap_or_default().into(),
        class(object, &spec),
        or_unset(&spec, "volumeAttributesClassName"),
        status.text("reason").into(),
        age(object, now),
        or_unset(&spec, "volumeMode"),
    ]
}

pub const CLAIM_COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Status", "string"),
    Column::new("Volume", "string"),
    Column::new("Capacity", "string"),
    Column::new("Access Modes", "string"),
    Column::new("StorageClass", "string"),
    Column::new("VolumeAttributesClass", "string"),
    AGE,
    Column::new("VolumeMode", "string").wide(),
];

pub fn claim_cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let root = At::root("", &object.0);
    let (spec, status) = (root.part("spec"), root.part("status"));
    let bound = spec.has("volumeName");
    vec![
        object.name().into(),
        phase(object, &status),
        spec.text("volumeName").into(),
        if bound { storage(&status.part("capacity")) } else { "".into() },
        if bound { modes(&status).into() } else { "".into() },
        class(object, &spec),
        or_unset(&spec, "volumeAttributesClassName"),
        age(object, now),
        or_unset(&spec, "volumeMode"),
    ]
}

fn storage(amounts: &At<'_>) -> Value {
    let amount = amounts.text("storage");
    if amount.is_empty() { "0".into() } else { amount.into() }
}

fn phase(object: &Object, status: &At<'_>) -> Value {
    if object.is_deleting() { "Terminating".into() } else { status.text("phase").into() }
}

fn class(object: &Object, spec: &At<'_>) -> Value {
    let annotated = object.meta().get("annotations").and_then(|a| a.get(OLD_CLASS)).and_then(Value::as_str);
    annotated.unwrap_or(spec.text("storageClassName")).into()
}

fn or_unset(at: &At<'_>, key: &str) -> Value {
    if at.has(key) { at.text(key).into() } else { "<unset>".into() }
}

fn modes(at: &At<'_>) -> String {
    let short =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let has = |mode: &str| at.texts("accessModes").any(|m| m == mode);
    short.into_iter().filter(|(mode, _)| has(mode)).map(|(_, short)| short).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(spec: Value, phase: &str) -> Object {
        Object::from_value(json!({"metadata": {"name": "c"}, "spec": spec, "status": {"phase": phase}})).unwrap()
    }

    #[test]
    fn a_claim_stays_what_it_was() {
        let spec = |size: &str, class: &str| {
            json!({"accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": size}}})
        };
        let told = |new: Value, old: Value, phase: &str| -> Vec<String> {
            claim_validate_update(&claim(new, phase), &claim(old, phase)).iter().map(|e| e.field.clone()).collect()
        };
        assert!(told(spec("1Gi", "a"), spec("1Gi", "a"), "Pending").is_empty());
        assert_eq!(told(spec("2Gi", "a"), spec("1Gi", "a"), "Pending"), ["spec"]);
        assert!(told(spec("2Gi", "a"), spec("1Gi", "a"), "Bound").is_empty());
        assert_eq!(told(spec("1Gi", "b"), spec("1Gi", "a"), "Bound"), ["spec"]);
        let mut named = spec("1Gi", "a");
        named["volumeName"] = "v".into();
        assert!(told(named, spec("1Gi", "a"), "Pending").is_empty());
    }

    #[test]
    fn the_two_data_sources_follow_each_other() {
        let mut one = claim(json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "x"}}), "");
        claim_create(&mut one);
        assert_eq!(one.0["spec"]["dataSourceRef"], one.0["spec"]["dataSource"]);
    }
}
