//! What a volume may come from: the rules of each source, in a pod or in a persistent volume.

use super::env::{field_reference, resource_reference};
use crate::kinds::check::{At, descending, local, named, no_backsteps};
use meta::{FieldError, FieldErrors, name};
use serde_json::Value;
use std::collections::HashSet;

/// What a source cannot do without.
const REQUIRED: &[(&str, &[&str])] = &[
    ("gitRepo", &["repository"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("secret", &["secretName"]),
    ("nfs", &["server", "path"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("storageos", &["volumeName"]),
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
    ("ephemeral", &["volumeClaimTemplate"]),
    ("image", &["reference"]),
];

const VOLUME_FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// The longest `<volume>:<portal>` that an initiator can be named after.
pub const MAX_INITIATOR: usize = 64;
pub const TOO_LONG: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
const BYTE: &str = "must be between 0 and 255, inclusive";
const MAX_DRIVER: usize = 63;

/// The rules of one source, `source`, of the kind that its field's name says; `volume` is the persistent volume's name, where it is
/// one's.
pub fn check_source(kind: &str, source: &At<'_>, volume: Option<&str>, errors: &mut FieldErrors) {
    // Told under another name: so does Kubernetes.
    let path = source.path().replace("gcePersistentDisk", "persistentDisk");
    let source = &At::root(&path, source.map);
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
        "gcePersistentDisk" | "awsElasticBlockStore"
            if source.int("partition").is_some_and(|number| !(0..=255).contains(&number)) =>
        {
            source.invalid("partition", "must be between 1 and 255, inclusive", errors);
        }
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
        "iscsi" => iscsi(source, volume, errors),
        "fc" => fibre_channel(source, errors),
        "flocker" => flocker(source, errors),
        "quobyte" => quobyte(source, errors),
        "flexVolume" => flex(source, errors),
        "azureDisk" => azure_disk(source, errors),
        "azureFile" if volume.is_some() && source.has("secretNamespace") => {
            source.required("secretNamespace", errors);
        }
        "glusterfs" if source.has("endpointsNamespace") => match source.text("endpointsNamespace") {
            "" => {
                let why = "if the endpointnamespace is set, it must be a valid namespace name";
                source.invalid("endpointsNamespace", why, errors);
            }
            _ => source.named("endpointsNamespace", name::dns1123_label, errors),
        },
        "cinder" | "storageos" => {
            if kind == "storageos" {
                source.named("volumeName", name::dns1123_label, errors);
                source.named("volumeNamespace", name::dns1123_label, errors);
            }
            if let Some(secret) = source.child("secretRef") {
                secret.required("name", errors);
                if volume.is_some() {
                    secret.required("namespace", errors);
                }
            }
        }
        "csi" => csi(source, volume, errors),
        "ephemeral" => {
            if let Some(template) = source.child("volumeClaimTemplate") {
                let metadata = template.part("metadata");
                for (key, _) in metadata.entries("annotations") {
                    named(&metadata.field("annotations"), &key.to_lowercase(), name::qualified_name, errors);
                }
                metadata.labels("labels", errors);
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

/// What is wrong with an iSCSI name: its beginning, or what follows it.
fn iscsi_name(value: &str) -> Option<&'static str> {
    const FORMAT: &str = "must be valid format";
    let fits = match value.get(..3) {
        Some("iqn") => is_qualified(value),
        Some("eui") => is_number(value, 16),
        Some("naa") => is_number(value, 32),
        _ => return Some("must be valid format starting with iqn, eui, or naa"),
    };
    (!fits).then_some(FORMAT)
}

/// `eui.` or `naa.` (any one character for the point) and so many letters and digits.
fn is_number(value: &str, length: usize) -> bool {
    let mut rest = value.chars().skip(3);
    let point = rest.next().is_some_and(|c| c != '\n');
    let digits: Vec<char> = rest.collect();
    point && digits.len() == length && digits.iter().all(char::is_ascii_alphanumeric)
}

/// `iqn.2001-04.com.example:storage`, wherever in the text it begins.
fn is_qualified(value: &str) -> bool {
    let name = |text: &str| -> Option<bool> {
        let (date, rest) = text.strip_prefix("iqn.")?.split_at_checked(7)?;
        let digits = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
        let date = date.as_bytes();
        if !digits(&date[..4]) || date[4] != b'-' || !digits(&date[5..]) {
            return None;
        }
        let (authority, own) = rest.strip_prefix('.')?.split_once(':')?;
        let named = !authority.is_empty() && authority.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b));
        let free = |c: char| !",;*&$|".contains(c) && !c.is_ascii_whitespace();
        Some(named && !own.is_empty() && own.chars().all(free))
    };
    value.match_indices("iqn.").any(|(at, _)| name(&value[at..]).unwrap_or_default())
}

/// The rules of an iSCSI name in a field; a persistent volume is told less of it.
fn initiator(field: String, value: &str, volume: Option<&str>, errors: &mut FieldErrors) {
    if let Some(why) = iscsi_name(value) {
        let why = if volume.is_some() { "must be valid format" } else { why };
        errors.push(FieldError::invalid(field, value, why));
    }
}

fn iscsi(at: &At<'_>, volume: Option<&str>, errors: &mut FieldErrors) {
    at.required("targetPortal", errors);
    if let Some(volume) = volume
        && at.has("initiatorName")
        && volume.len() + 1 + at.text("targetPortal").len() > MAX_INITIATOR
    {
        errors.push(FieldError::invalid(at.field("targetportal"), at.text("targetPortal"), TOO_LONG));
    }
    if at.required("iqn", errors) {
        initiator(at.field("iqn"), at.text("iqn"), volume, errors);
    }
    if at.int("lun").is_some_and(|lun| !(0..=255).contains(&lun)) {
        at.invalid("lun", BYTE, errors);
    }
    if (at.flag("chapAuthDiscovery") || at.flag("chapAuthSession")) && !at.has("secretRef") {
        errors.push(FieldError::required(at.field("secretRef"), ""));
    }
    if let Some(secret) = at.child("secretRef").filter(|_| volume.is_some()) {
        secret.required("name", errors);
    }
    if at.has("initiatorName") {
        initiator(at.field("initiatorname"), at.text("initiatorName"), volume, errors);
    }
}

fn fibre_channel(at: &At<'_>, errors: &mut FieldErrors) {
    let (names, ids) = (!at.list("targetWWNs").is_empty(), !at.list("wwids").is_empty());
    match (names, ids) {
        (false, false) => {
            let why = "must specify either targetWWNs or wwids, but not both";
            errors.push(FieldError::required(at.field("targetWWNs"), why));
        }
        (true, true) => {
            at.invalid("targetWWNs", "targetWWNs and wwids can not be specified simultaneously", errors);
        }
        _ => {}
    }
    match at.int("lun") {
        _ if !names => {}
        None => errors.push(FieldError::required(at.field("lun"), "lun is required if targetWWNs is specified")),
        Some(0..=255) => {}
        Some(_) => at.invalid("lun", BYTE, errors),
    }
}

fn flocker(at: &At<'_>, errors: &mut FieldErrors) {
    match (at.has("datasetName"), at.has("datasetUUID")) {
        (false, false) => {
            errors.push(FieldError::required(at.path(), "one of datasetName and datasetUUID is required"));
        }
        (true, true) => {
            let why = "datasetName and datasetUUID can not be specified simultaneously";
            errors.push(FieldError::invalid(at.path(), "resource", why));
        }
        _ => {}
    }
    if at.text("datasetName").contains('/') {
        at.invalid("datasetName", "must not contain '/'", errors);
    }
}

fn quobyte(at: &At<'_>, errors: &mut FieldErrors) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = at.text("registry");
    if registry.is_empty() {
        errors.push(FieldError::required(at.field("registry"), PAIRS));
    } else if at.text("tenant").len() >= 65 {
        let why = "must be a UUID and may not exceed a length of 64 characters";
        errors.push(FieldError::required(at.field("tenant"), why));
    } else {
        registry.split(',').filter(|pair| !is_host_port(pair)).for_each(|_| at.invalid("registry", PAIRS, errors));
    }
    at.required("volume", errors);
}

/// `host:port`; a host with colons stands in brackets.
fn is_host_port(pair: &str) -> bool {
    let Some((host, port)) = pair.rsplit_once(':') else { return false };
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let plain = inner.unwrap_or(host);
    !plain.contains(['[', ']']) && !port.contains(['[', ']']) && (inner.is_some() || !plain.contains(':'))
}

fn flex(at: &At<'_>, errors: &mut FieldErrors) {
    for (key, _) in at.entries("options") {
        let domain = format!(".{}", key.split_once('/').map_or(key, |(domain, _)| domain).to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            let why = "kubernetes.io and k8s.io namespaces are reserved";
            errors.push(FieldError::invalid(format!("{}[{key}]", at.field("options")), key, why));
        }
    }
}

fn azure_disk(at: &At<'_>, errors: &mut FieldErrors) {
    at.one_of("cachingMode", &["None", "ReadOnly", "ReadWrite"], errors);
    at.one_of("kind", &["Dedicated", "Managed", "Shared"], errors);
    let (begins, form) = match at.text("kind") {
        "" => return,
        "Managed" => (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        ),
        _ => ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"),
    };
    if !at.text("diskURI").starts_with(begins) {
        errors.push(FieldError::not_supported(at.field("diskURI"), at.text("diskURI"), &[form]));
    }
}

/// The name of a CSI driver.
fn driver_name(at: &At<'_>, field: &str, errors: &mut FieldErrors) {
    at.required(field, errors);
    let driver = at.text(field);
    if driver.len() > MAX_DRIVER {
        errors.push(FieldError::too_long(at.field(field), MAX_DRIVER));
    }
    let wrong = name::dns1123_subdomain(&driver.to_lowercase());
    errors.extend(wrong.into_iter().map(|why| FieldError::invalid(at.field(field), driver, why)));
}

fn csi(at: &At<'_>, volume: Option<&str>, errors: &mut FieldErrors) {
    driver_name(at, "driver", errors);
    if volume.is_none() {
        if let Some(secret) = at.child("nodePublishSecretRef")
            && secret.required("name", errors)
        {
            // Told at the source, not at the reference: so does Kubernetes.
            named(&at.field("name"), secret.text("name"), name::dns1123_subdomain, errors);
        }
        return;
    }
    at.required("volumeHandle", errors);
    let references =
        ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"];
    for secret in references.into_iter().filter_map(|reference| at.child(reference)) {
        if secret.required("name", errors) {
            secret.named("name", name::dns1123_subdomain, errors);
        }
        if secret.required("namespace", errors) {
            secret.named("namespace", name::dns1123_label, errors);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn findings(kind: &str, source: Value, volume: Option<&str>) -> Vec<String> {
        let mut errors = Vec::new();
        check_source(kind, &At::root(kind, source.as_object().unwrap()), volume, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_initiator_has_one_of_three_names() {
        for good in
            ["iqn.2001-04.com.example:storage.disk1", "eui.0123456789ABCDEF", "naa.62004567BA64678D0123456789ABCDEF"]
        {
            assert_eq!(iscsi_name(good), None, "{good}");
        }
        for bad in ["", "x", "iqn.2001-04.com.example", "iqn.1-4.a:b", "eui.0123", "naa.zz", "iqn.2001-04.a:b c"] {
            assert!(iscsi_name(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn a_persistent_volume_names_the_namespace_of_its_secrets() {
        let source = json!({"volumeID": "v", "secretRef": {"name": "s"}});
        assert!(findings("cinder", source.clone(), None).is_empty());
        assert_eq!(findings("cinder", source, Some("pv")), ["cinder.secretRef.namespace: Required value"]);
    }

    #[test]
    fn every_old_source_has_rules() {
        for (kind, source, field) in [
            ("gcePersistentDisk", json!({"pdName": "p", "partition": 300}), "persistentDisk.partition"),
            ("fc", json!({"targetWWNs": ["a"]}), "fc.lun"),
            ("flocker", json!({}), "flocker"),
            ("quobyte", json!({"registry": "host", "volume": "v"}), "quobyte.registry"),
            ("flexVolume", json!({"driver": "d", "options": {"a.k8s.io/x": "y"}}), "flexVolume.options[a.k8s.io/x]"),
            ("azureDisk", json!({"diskName": "d", "diskURI": "x", "kind": "Managed"}), "azureDisk.diskURI"),
            ("csi", json!({"driver": "A_b"}), "csi.driver"),
            ("storageos", json!({"volumeName": "A"}), "storageos.volumeName"),
        ] {
            let found = findings(kind, source, None);
            assert!(found.len() == 1 && found[0].starts_with(&format!("{field}: ")), "{kind}: {found:?}");
        }
        for good in ["a:1", "[::1]:80", ":7"] {
            assert!(is_host_port(good), "{good}");
        }
        for bad in ["a", "a:b:c", "[a:1", "::1"] {
            assert!(!is_host_port(bad), "{bad}");
        }
    }
}
