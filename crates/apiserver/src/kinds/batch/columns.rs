//! What `kubectl get` prints for jobs.

use crate::kinds::cells::{
    AGE, CONTAINERS, IMAGES, SELECTOR, age, at, containers, len, number, selector, text, text_or,
};
use jiff::Timestamp;
use meta::table::Column;
use meta::{Object, time};
use serde_json::Value;
use std::time::Duration;

pub const JOB: &[Column] = &[
    Column::name(),
    Column::new("Status", "string"),
    Column::new("Completions", "string"),
    Column::new("Duration", "string"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub fn job(object: &Object, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(at(object, "spec.template.spec"));
    vec![
        object.name().into(),
        status(object).into(),
        completions(object).into(),
        duration(object, now).into(),
        age(object, now),
        names,
        images,
        selector(at(object, "spec.selector")),
    ]
}

fn status(object: &Object) -> &'static str {
    let conditions = at(object, "status.conditions").as_array().map(Vec::as_slice).unwrap_or_default();
    let is = |kind: &&str| conditions.iter().find(|c| c["type"] == **kind).is_some_and(|c| c["status"] == "True");
    let ended = ["Complete", "Failed"].into_iter().find(is);
    let under_way = || ["Suspended", "FailureTarget", "SuccessCriteriaMet"].into_iter().find(is);
    match ended {
        Some(ended) => ended,
        None if object.is_deleting() => "Terminating",
        None => under_way().unwrap_or("Running"),
    }
}

fn completions(object: &Object) -> String {
    let done = number(object, "status.succeeded");
    match (at(object, "spec.completions").as_i64(), number(object, "spec.parallelism")) {
        (Some(wanted), _) => format!("{done}/{wanted}"),
        (None, parallelism) if parallelism > 1 => format!("{done}/1 of {parallelism}"),
        (None, _) => format!("{done}/1"),
    }
}

fn duration(object: &Object, now: Timestamp) -> String {
    let Some(start) = time::parse(text(object, "status.startTime")) else { return String::new() };
    let end = time::parse(text(object, "status.completionTime")).unwrap_or(now);
    let seconds = end.duration_since(start).as_secs();
    if seconds < -1 { "<invalid>".into() } else { time::human(Duration::from_secs(seconds.max(0).unsigned_abs())) }
}

pub const CRON_JOB: &[Column] = &[
    Column::name(),
    Column::new("Schedule", "string"),
    Column::new("Timezone", "string"),
    Column::new("Suspend", "boolean"),
    Column::new("Active", "integer"),
    Column::new("Last Schedule", "string"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub fn cron_job(object: &Object, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(at(object, "spec.jobTemplate.spec.template.spec"));
    let last = match text(object, "status.lastScheduleTime") {
        "" => "<none>".to_owned(),
        last => time::age(last, now),
    };
    let suspend = match at(object, "spec.suspend").as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    vec![
        object.name().into(),
        text(object, "spec.schedule").into(),
        text_or(object, "spec.timeZone", "<none>"),
        suspend.into(),
        len(object, "status.active"),
        last.into(),
        age(object, now),
        names,
        images,
        selector(at(object, "spec.jobTemplate.spec.selector")),
    ]
}
