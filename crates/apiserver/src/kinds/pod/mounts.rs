//! Where volumes stand in a container: directories and block devices.

use super::container::Pod;
use crate::kinds::check::{At, descending, no_backsteps};
use meta::{FieldError, FieldErrors};
use std::collections::HashSet;

pub fn mounts(at: &At<'_>, pod: &Pod<'_>, errors: &mut FieldErrors) {
    let mut paths = HashSet::new();
    let devices = |key: &'static str| -> HashSet<&str> { at.items("volumeDevices").map(|d| d.text(key)).collect() };
    let (device_names, device_paths) = (devices("name"), devices("devicePath"));
    let list = at.field("volumeMounts");
    for mount in at.items("volumeMounts") {
        let (name, path) = (mount.text("name"), mount.text("mountPath"));
        mount.required("name", errors);
        if !pod.volumes.contains_key(name) {
            errors.push(FieldError::not_found(mount.field("name"), name));
        }
        mount.required("mountPath", errors);
        if !paths.insert(path) {
            errors.push(FieldError::invalid(mount.field("mountPath"), path, "must be unique"));
        }
        if device_names.contains(name) {
            mount.invalid("name", "must not already exist in volumeDevices", errors);
        }
        if device_paths.contains(path) {
            mount.invalid("mountPath", "must not already exist as a path in volumeDevices", errors);
        }
        for field in ["subPath", "subPathExpr"] {
            if field == "subPathExpr" && mount.has("subPath") && mount.has(field) {
                mount.invalid(field, "subPathExpr and subPath are mutually exclusive", errors);
            }
            descending(format!("{list}.{field}"), mount.text(field), errors);
        }
        let propagation = mount.text("mountPropagation");
        if mount.has("mountPropagation") {
            const MODES: &[&str] = &["Bidirectional", "HostToContainer", "None"];
            let field = format!("{list}.mountPropagation");
            if !MODES.contains(&propagation) {
                errors.push(FieldError::not_supported(field.clone(), propagation, MODES));
            }
            if propagation == "Bidirectional" && !at.part("securityContext").flag("privileged") {
                let why = "Bidirectional mount propagation is available only to privileged containers";
                errors.push(FieldError::forbidden(field, why));
            }
        }
        recursive_read_only(&mount, &format!("{list}.recursiveReadOnly"), errors);
    }
}

fn recursive_read_only(mount: &At<'_>, field: &str, errors: &mut FieldErrors) {
    match mount.text("recursiveReadOnly") {
        "" | "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.flag("readOnly") {
                errors.push(FieldError::forbidden(field, "may only be specified when readOnly is true"));
            }
            if !matches!(mount.text("mountPropagation"), "" | "None") {
                let why = "may only be specified when mountPropagation is None or not specified";
                errors.push(FieldError::forbidden(field, why));
            }
        }
        other => errors.push(FieldError::not_supported(field, other, &["Disabled", "Enabled", "IfPossible"])),
    }
}

pub fn devices(at: &At<'_>, pod: &Pod<'_>, errors: &mut FieldErrors) {
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    let mounts = |key: &'static str| -> HashSet<&str> { at.items("volumeMounts").map(|m| m.text(key)).collect() };
    let (mount_names, mount_paths) = (mounts("name"), mounts("mountPath"));
    for device in at.items("volumeDevices") {
        let (name, path) = (device.text("name"), device.text("devicePath"));
        device.required("name", errors);
        if !name.is_empty() && !names.insert(name) {
            device.invalid("name", "must be unique", errors);
        }
        match pod.volumes.get(name) {
            Some(volume) if !volume.has("persistentVolumeClaim") && !volume.has("ephemeral") => {
                let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                device.invalid("name", why, errors);
            }
            Some(_) => {}
            None => errors.push(FieldError::not_found(device.field("name"), name)),
        }
        device.required("devicePath", errors);
        if !paths.insert(path) {
            device.invalid("devicePath", "must be unique", errors);
        }
        if no_backsteps(path).is_some() {
            device.invalid("devicePath", "can not contain backsteps ('..')", errors);
        }
        if mount_names.contains(name) {
            device.invalid("name", "must not already exist in volumeMounts", errors);
        }
        if mount_paths.contains(path) {
            device.invalid("devicePath", "must not already exist as a path in volumeMounts", errors);
        }
    }
}
