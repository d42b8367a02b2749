//! apps: Deployment, ReplicaSet, StatefulSet, DaemonSet and the revisions they keep.

mod columns;
mod rules;
mod status;

pub use rules::{
    int_or_percent, name_warning, named_warnings, not_more_than_all, selects_template, template_mismatch,
    template_warnings_at,
};

use super::builtin::{PLAIN, Row};
use super::defaults::{self, set};
use super::{Behaviour, ScalePaths, ScaleSelector, Subresource, metadata, spec_changes};
use meta::Object;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

const SCALE: Subresource = Subresource::scale(ScalePaths {
    replicas: Cow::Borrowed("spec.replicas"),
    current: Cow::Borrowed("status.replicas"),
    selector: ScaleSelector::Spec,
});

/// What runs pods from a template has in common.
const WORKLOAD: Behaviour = Behaviour { generation: true, status: true, categories: &["all"], ..PLAIN };

static DEPLOYMENT: Behaviour = Behaviour {
    resets: &[("status", "metadata.labels")],
    subresources: &[SCALE],
    changes: |new, old| spec_changes(new, old) || new.meta().get("annotations") != old.meta().get("annotations"),
    columns: columns::DEPLOYMENT,
    cells: columns::deployment,
    default: |object| defaults::apply("apps/v1.Deployment", &mut object.0),
    prepare_part: |_, new, old| keep_meta(new, old, "labels"),
    validate: rules::deployment,
    validate_update: rules::same_selector,
    validate_part: |_, new, old| status::deployment(new, old),
    warnings: Some(rules::named_warnings),
    ..WORKLOAD
};

static REPLICA_SET: Behaviour = Behaviour {
    subresources: &[SCALE],
    columns: columns::REPLICA_SET,
    cells: columns::replica_set,
    default: |object| defaults::apply("apps/v1.ReplicaSet", &mut object.0),
    validate: rules::replica_set,
    validate_update: rules::same_selector,
    validate_part: |_, new, old| status::replica_set(new, old),
    warnings: Some(rules::named_warnings),
    ..WORKLOAD
};

static STATEFUL_SET: Behaviour = Behaviour {
    name: metadata::label,
    subresources: &[SCALE],
    columns: columns::STATEFUL_SET,
    cells: columns::stateful_set,
    default: |object| defaults::apply("apps/v1.StatefulSet", &mut object.0),
    prepare_create: |object| drop_max_unavailable(object),
    prepare_update: |object, _| drop_max_unavailable(object),
    validate: rules::stateful_set,
    validate_update: rules::stateful_set_update,
    validate_part: |_, new, old| status::stateful_set(new, old),
    warnings: Some(rules::stateful_set_warnings),
    ..WORKLOAD
};

static DAEMON_SET: Behaviour = Behaviour {
    columns: columns::DAEMON_SET,
    cells: columns::daemon_set,
    default: |object| {
        defaults::apply("apps/v1.DaemonSet", &mut object.0);
        set_template_generation(object, template_generation(object));
    },
    prepare_create: |object| set_template_generation(object, template_generation(object).max(1)),
    prepare_update: next_template_generation,
    prepare_part: |_, new, old| set_template_generation(new, template_generation(old)),
    validate: rules::daemon_set,
    validate_update: rules::same_selector,
    validate_part: |_, new, old| status::daemon_set(new, old),
    warnings: Some(rules::template_warnings),
    ..WORKLOAD
};

static CONTROLLER_REVISION: Behaviour = Behaviour {
    columns: columns::CONTROLLER_REVISION,
    cells: columns::controller_revision,
    validate: rules::controller_revision,
    validate_update: rules::controller_revision_update,
    ..PLAIN
};

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    Row { group: "apps", version: "v1", kind: "ControllerRevision", plural: "controllerrevisions", singular: "controllerrevision", short: &[], namespaced: true, collection: "apps/controllerrevisions", stored_as: None, behaviour: &CONTROLLER_REVISION },
    Row { group: "apps", version: "v1", kind: "DaemonSet", plural: "daemonsets", singular: "daemonset", short: &["ds"], namespaced: true, collection: "apps/daemonsets", stored_as: None, behaviour: &DAEMON_SET },
    Row { group: "apps", version: "v1", kind: "Deployment", plural: "deployments", singular: "deployment", short: &["deploy"], namespaced: true, collection: "apps/deployments", stored_as: None, behaviour: &DEPLOYMENT },
    Row { group: "apps", version: "v1", kind: "ReplicaSet", plural: "replicasets", singular: "replicaset", short: &["rs"], namespaced: true, collection: "apps/replicasets", stored_as: None, behaviour: &REPLICA_SET },
    Row { group: "apps", version: "v1", kind: "StatefulSet", plural: "statefulsets", singular: "statefulset", short: &["sts"], namespaced: true, collection: "apps/statefulsets", stored_as: None, behaviour: &STATEFUL_SET },
];

#[rustfmt::skip]
pub const DEFAULTS: &[defaults::Row] = &[
    ("apps/v1.DaemonSetSpec", r#"{"revisionHistoryLimit":10}"#, defaults::nothing),
    ("apps/v1.DaemonSetUpdateStrategy", r#"{"type":"RollingUpdate"}"#, rolling),
    ("apps/v1.DeploymentSpec", r#"{"progressDeadlineSeconds":600,"replicas":1,"revisionHistoryLimit":10}"#, defaults::nothing),
    ("apps/v1.DeploymentStrategy", r#"{"type":"RollingUpdate"}"#, rolling),
    ("apps/v1.ReplicaSetSpec", r#"{"replicas":1}"#, defaults::nothing),
    ("apps/v1.RollingUpdateDaemonSet", r#"{"maxSurge":0,"maxUnavailable":1}"#, defaults::nothing),
    ("apps/v1.RollingUpdateDeployment", r#"{"maxSurge":"25%","maxUnavailable":"25%"}"#, defaults::nothing),
    ("apps/v1.RollingUpdateStatefulSetStrategy", r#"{"partition":0}"#, defaults::nothing),
    ("apps/v1.StatefulSetPersistentVolumeClaimRetentionPolicy", r#"{"whenDeleted":"Retain","whenScaled":"Retain"}"#, defaults::nothing),
    ("apps/v1.StatefulSetSpec", r#"{"persistentVolumeClaimRetentionPolicy":{},"podManagementPolicy":"OrderedReady","replicas":1,"revisionHistoryLimit":10}"#, claim_types),
    ("apps/v1.StatefulSetUpdateStrategy", "{}", rolling_by_default),
];

fn rolling(strategy: &mut Map<String, Value>) {
    if strategy.get("type").is_some_and(|t| t == "RollingUpdate") {
        set(strategy, "rollingUpdate", json!({}));
    }
}

/// Whoever names the type of a StatefulSet's strategy gets no parameters unasked.
fn rolling_by_default(strategy: &mut Map<String, Value>) {
    if !strategy.contains_key("type") {
        strategy.insert("type".into(), "RollingUpdate".into());
        set(strategy, "rollingUpdate", json!({}));
    }
}

/// The claims in a StatefulSet say what they are, whatever their author wrote.
fn claim_types(spec: &mut Map<String, Value>) {
    let claims = spec.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut);
    for claim in claims.into_iter().flatten().filter_map(Value::as_object_mut) {
        claim.insert("apiVersion".into(), "v1".into());
        claim.insert("kind".into(), "PersistentVolumeClaim".into());
    }
}

/// More than one pod at a time is a feature that is off.
fn drop_max_unavailable(object: &mut Object) {
    let rolling = object.0.get_mut("spec").and_then(|spec| spec.pointer_mut("/updateStrategy/rollingUpdate"));
    if let Some(Value::Object(rolling)) = rolling {
        rolling.remove("maxUnavailable");
    }
}

fn keep_meta(new: &mut Object, old: &Object, key: &str) {
    match old.meta().get(key).cloned() {
        Some(value) => new.meta_mut().insert(key.into(), value),
        None => new.meta_mut().remove(key),
    };
}

/// DaemonSets count the versions of their template in an annotation.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn template_generation(object: &Object) -> i64 {
    let text = object.meta().get("annotations").and_then(|a| a.get(TEMPLATE_GENERATION)).and_then(Value::as_str);
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn set_template_generation(object: &mut Object, generation: i64) {
    let annotations = object.meta_mut().entry("annotations").or_insert_with(|| json!({}));
    if let Value::Object(annotations) = annotations {
        annotations.insert(TEMPLATE_GENERATION.into(), generation.to_string().into());
    }
}

fn next_template_generation(new: &mut Object, old: &Object) {
    // Compared as both will be stored.
    defaults::apply("apps/v1.DaemonSet", &mut new.0);
    let template = |object: &Object| object.0.get("spec").and_then(|spec| spec.get("template")).cloned();
    let changed = template(new) != template(old);
    set_template_generation(new, template_generation(old) + i64::from(changed));
}
