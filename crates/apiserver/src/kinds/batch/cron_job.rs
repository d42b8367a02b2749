//! What a CronJob must keep: a schedule that can be read, and a job that can be made.

use super::{cron, job};
use crate::kinds::check::At;
use meta::{FieldError, FieldErrors, Object};

/// Jobs are named after their CronJob, with a time behind it.
const MAX_NAME: usize = 52;
const POLICIES: &[&str] = &["Allow", "Forbid", "Replace"];

pub fn validate(object: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &object.0), Vec::new());
    let spec = root.part("spec");
    if spec.required("schedule", &mut errors)
        && let Err(why) = cron::check(spec.text("schedule"))
    {
        spec.invalid("schedule", why, &mut errors);
    }
    if spec.text("schedule").contains("TZ") {
        let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        spec.invalid("schedule", why, &mut errors);
    }
    spec.non_negative("startingDeadlineSeconds", &mut errors);
    time_zone(&spec, &mut errors);
    spec.one_of("concurrencyPolicy", POLICIES, &mut errors);
    job_template(&spec, &mut errors);
    spec.non_negative("successfulJobsHistoryLimit", &mut errors);
    spec.non_negative("failedJobsHistoryLimit", &mut errors);
    errors
}

pub fn validate_create(object: &Object) -> FieldErrors {
    if object.name().len() <= MAX_NAME {
        return Vec::new();
    }
    let why = format!("must be no more than {MAX_NAME} characters");
    vec![FieldError::invalid("metadata.name", object.name(), why)]
}

fn time_zone(spec: &At<'_>, errors: &mut FieldErrors) {
    if !spec.has("timeZone") {
        return;
    }
    let zone = spec.text("timeZone");
    if zone.is_empty() {
        spec.invalid("timeZone", "timeZone must be nil or non-empty string", errors);
        return;
    }
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"._-+".contains(&b);
    let wrong = |part: &str| {
        [".", ".."].contains(&part)
            || part.starts_with('-')
            || !(1..=14).contains(&part.len())
            || !part.bytes().all(fits)
    };
    if zone.split('/').any(wrong) {
        spec.invalid("timeZone", format!("unknown time zone {zone}"), errors);
        return;
    }
    if zone.eq_ignore_ascii_case("Local") {
        let why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        spec.invalid("timeZone", why, errors);
    }
    if !cron::is_zone(zone) {
        spec.invalid("timeZone", format!("unknown time zone {zone}"), errors);
    }
}

fn job_template(spec: &At<'_>, errors: &mut FieldErrors) {
    let template = spec.part("jobTemplate");
    let jobs = template.part("spec");
    job::validate_spec(&jobs, errors);
    if jobs.has("selector") {
        jobs.invalid("selector", "`selector` will be auto-generated", errors);
    }
    if jobs.flag("manualSelector") {
        errors.push(FieldError::not_supported(jobs.field("manualSelector"), true, &["nil", "false"]));
    }
}
