//! batch: Job and CronJob.

mod columns;
mod cron;
mod cron_job;
mod job;
mod job_policy;
mod job_status;

use super::Behaviour;
use super::apps::{name_warning, template_warnings_at};
use super::builtin::{PLAIN, Row};
use super::check::At;
use super::defaults::{self, set};
use meta::Object;
use serde_json::{Map, Value, json};

static JOB: Behaviour = Behaviour {
    generation: true,
    status: true,
    categories: &["all"],
    selectable: &[("status.successful", "status.succeeded?0")],
    orphans: true,
    columns: columns::JOB,
    cells: columns::job,
    default: |object| defaults::apply("batch/v1.Job", &mut object.0),
    authored: Some(inherit_labels),
    prepare_create: job::generate_selector,
    prepare_update: |object, _| inherit_labels(object),
    prepare_part: |_, object, _| inherit_labels(object),
    validate: job::validate,
    validate_update: job::validate_update,
    validate_part: |_, new, old| job_status::validate(new, old),
    warnings: Some(|new, old| warnings(new, old, &["spec"])),
    ..PLAIN
};

static CRON_JOB: Behaviour = Behaviour {
    generation: true,
    status: true,
    categories: &["all"],
    columns: columns::CRON_JOB,
    cells: columns::cron_job,
    default: |object| defaults::apply("batch/v1.CronJob", &mut object.0),
    validate: cron_job::validate,
    validate_create: cron_job::validate_create,
    warnings: Some(|new, old| warnings(new, old, &["spec", "jobTemplate", "spec"])),
    ..PLAIN
};

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    Row { group: "batch", version: "v1", kind: "CronJob", plural: "cronjobs", singular: "cronjob", short: &["cj"], namespaced: true, collection: "batch/cronjobs", stored_as: None, behaviour: &CRON_JOB },
    Row { group: "batch", version: "v1", kind: "Job", plural: "jobs", singular: "job", short: &[], namespaced: true, collection: "batch/jobs", stored_as: None, behaviour: &JOB },
];

#[rustfmt::skip]
pub const DEFAULTS: &[defaults::Row] = &[
    ("batch/v1.CronJobSpec", r#"{"concurrencyPolicy":"Allow","failedJobsHistoryLimit":1,"successfulJobsHistoryLimit":3,"suspend":false}"#, defaults::nothing),
    // A job's own spec only: what a CronJob holds for its jobs gets these when they are made.
    ("batch/v1.Job", "{}", job_defaults),
    ("batch/v1.PodFailurePolicyOnPodConditionsPattern", "{}", condition_holds),
];

fn job_defaults(object: &mut Map<String, Value>) {
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    let has = |spec: &Map<String, Value>, name: &str| spec.get(name).is_some_and(|value| !value.is_null());
    if !has(spec, "completions") && !has(spec, "parallelism") {
        spec.insert("completions".into(), 1.into());
    }
    let backoff = if has(spec, "backoffLimitPerIndex") { i32::MAX } else { 6 };
    let replacement = if has(spec, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    set(spec, "parallelism", 1);
    set(spec, "backoffLimit", backoff);
    set(spec, "completionMode", "NonIndexed");
    set(spec, "suspend", false);
    set(spec, "podReplacementPolicy", replacement);
    set(spec, "manualSelector", false);
}

/// The status of a pattern is always written, so it is not missing but empty.
fn condition_holds(pattern: &mut Map<String, Value>) {
    if pattern.get("status").is_none_or(|status| status == "") {
        pattern.insert("status".into(), "True".into());
    }
}

/// A job without labels has those of its pods.
fn inherit_labels(object: &mut Object) {
    let labels = object.0.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels")).cloned();
    if object.labels().next().is_none()
        && let Some(labels) = labels
    {
        object.meta_mut().insert("labels".into(), labels);
    }
}

/// `path` leads to the JobSpec.
fn warnings(new: &Object, old: Option<&Object>, path: &[&str]) -> Vec<String> {
    let mut warnings = if old.is_none() { name_warning(new) } else { Vec::new() };
    let spec = |object: &Object| {
        let first = object.0.get("spec").cloned().unwrap_or_default();
        path[1..].iter().fold(first, |value, step| value.get(*step).cloned().unwrap_or_default())
    };
    let new = spec(new);
    let large = |name: &str, limit: i64| new[name].as_i64().is_some_and(|n| n > limit);
    let changed = old.is_none_or(|old| spec(old) != new);
    if changed && new["completionMode"] == "Indexed" && large("completions", 100_000) && large("parallelism", 10_000) {
        warnings.push(format!(
            "{}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
             Kubernetes might not be able to track completedIndexes when a big number of indexes fail",
            path.join(".")
        ));
    }
    if changed && let Some(spec) = new.as_object() {
        let path = path.join(".");
        let at = At::root(&path, spec);
        warnings.extend(template_warnings_at(&at));
    }
    warnings
}

/// Values that name a job and its pods.
fn generated_labels(object: &Object) -> [(&'static str, Value); 4] {
    let (name, uid) = (object.name(), object.uid());
    [
        ("controller-uid", json!(uid)),
        ("job-name", json!(name)),
        ("batch.kubernetes.io/controller-uid", json!(uid)),
        ("batch.kubernetes.io/job-name", json!(name)),
    ]
}
