//! CronJobs: a Job at each time of a schedule. Time zones are not simulated: schedules are in UTC.

use std::time::Duration;

use jiff::Timestamp;
use meta::options::{DeleteOptions, Propagation};
use meta::{Object, Status, time};
use serde_json::{Value, json};

use super::cron::Schedule;
use super::job::is_finished;
use crate::cluster::{Cluster, Happening, is_race};
use crate::look::{at, is_true, owned, owner_reference, part, text};
use crate::todo::{Todo, Work};

const CONTROLLER: &str = "cronjob-controller";
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// Times that were missed in a row are made up for by the last of them; looking for it ends here.
const MISSED: usize = 10_000;

pub(crate) async fn sync(cluster: &Cluster, work: &Work, todo: &mut Todo) -> Result<(), Status> {
    let Some(cron) = cluster.kinds.cron_jobs.get(&work.namespace, &work.name) else { return Ok(()) };
    let mut jobs = cluster.kinds.jobs.list(&work.namespace, |entry| owned(entry, cron.uid()));
    jobs.sort_by(|a, b| a.meta_text("creationTimestamp").cmp(b.meta_text("creationTimestamp")));
    tidy(cluster, &cron, &jobs).await?;
    let mut started = None;
    if !cron.is_deleting()
        && *at(&cron, "/spec/suspend") != true
        && let Some(schedule) = Schedule::parse(text(&cron, "/spec/schedule"))
    {
        let now = cluster.settings.clock.now();
        let last = time::parse(text(&cron, "/status/lastScheduleTime"));
        let begun = last.or_else(|| time::parse(cron.meta_text("creationTimestamp"))).unwrap_or(now);
        if let Some(due) = missed(&schedule, begun, now)
            && start(cluster, &cron, &jobs, due).await?
        {
            started = Some(due);
        }
        if let Some(next) = schedule.after(now) {
            let wait = Duration::try_from(next.duration_since(now)).unwrap_or_default();
            todo.after(wait + Duration::from_millis(100), work.clone());
        }
    }
    status(cluster, &cron, started, work).await
}

/// The last time that was due and not served.
fn missed(schedule: &Schedule, begun: Timestamp, now: Timestamp) -> Option<Timestamp> {
    std::iter::successors(schedule.after(begun), |time| schedule.after(*time))
        .take(MISSED)
        .take_while(|time| *time <= now)
        .last()
}

/// Starts the job of a time; false when the policy forbids it.
async fn start(cluster: &Cluster, cron: &Object, jobs: &[Object], due: Timestamp) -> Result<bool, Status> {
    let active: Vec<&Object> = jobs.iter().filter(|job| !is_finished(job)).collect();
    match text(cron, "/spec/concurrencyPolicy") {
        "Forbid" if !active.is_empty() => {
            let why = "Not starting job because prior execution is running and concurrency policy is Forbid";
            cluster.tell(cron, Happening::normal(CONTROLLER, "JobAlreadyActive", why)).await;
            return Ok(false);
        }
        "Replace" => {
            for job in active {
                remove(cluster, job).await?;
            }
        }
        _ => {}
    }
    let template = at(cron, "/spec/jobTemplate");
    let mut meta = template.get("metadata").cloned().filter(Value::is_object).unwrap_or_else(|| json!({}));
    let name = format!("{}-{}", cron.name(), due.as_second() / 60);
    meta["name"] = name.as_str().into();
    meta["ownerReferences"] = owner_reference("batch/v1", "CronJob", cron);
    meta["annotations"][SCHEDULED] = time::seconds(due).into();
    let job = json!({"metadata": meta, "spec": template["spec"]});
    match cluster.kinds.jobs.create(cron.namespace(), Object::from_value(job).unwrap_or_default()).await {
        Err(error) if !is_race(&error) => {
            let why = format!("Error creating job: {}", error.message);
            cluster.tell(cron, Happening::warning(CONTROLLER, "FailedCreate", why)).await;
            Err(error)
        }
        Err(_) => Ok(true),
        Ok(_) => {
            cluster.tell(cron, Happening::normal(CONTROLLER, "SuccessfulCreate", format!("Created job {name}"))).await;
            Ok(true)
        }
    }
}

async fn remove(cluster: &Cluster, job: &Object) -> Result<(), Status> {
    let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
    let gone = cluster.kinds.jobs.delete(job.namespace(), job.name(), &options).await;
    gone.or_else(|error| if is_race(&error) { Ok(()) } else { Err(error) })
}

/// Finished jobs beyond the limits go, the oldest first.
async fn tidy(cluster: &Cluster, cron: &Object, jobs: &[Object]) -> Result<(), Status> {
    for (kind, limit, usual) in
        [("Complete", "/spec/successfulJobsHistoryLimit", 3), ("Failed", "/spec/failedJobsHistoryLimit", 1)]
    {
        let limit = at(cron, limit).as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(usual);
        let ended: Vec<&Object> = jobs.iter().filter(|job| is_true(job, kind) && !job.is_deleting()).collect();
        for job in &ended[..ended.len().saturating_sub(limit)] {
            remove(cluster, job).await?;
        }
    }
    Ok(())
}

async fn status(cluster: &Cluster, cron: &Object, started: Option<Timestamp>, work: &Work) -> Result<(), Status> {
    let jobs = cluster.kinds.jobs.list(&work.namespace, |entry| owned(entry, cron.uid()));
    let active: Vec<Value> = jobs
        .iter()
        .filter(|job| !is_finished(job))
        .map(|job| {
            json!({"apiVersion": "batch/v1", "kind": "Job", "namespace": job.namespace(), "name": job.name(), "uid": job.uid(),
                "resourceVersion": job.resource_version()})
        })
        .collect();
    // Which they are counts, not which version they have: that would be a write for each of theirs.
    let uids = |list: &[Value]| list.iter().map(|job| job["uid"].clone()).collect::<Vec<_>>();
    let last_success = jobs.iter().map(|job| text(job, "/status/completionTime")).max().unwrap_or_default().to_owned();
    let written = cluster.kinds.cron_jobs.set(&work.namespace, &work.name, |current| {
        let status = part(current, "status");
        let before = status.get("active").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if uids(before) != uids(&active) {
            match active.is_empty() {
                true => status.remove("active"),
                false => status.insert("active".into(), active.clone().into()),
            };
        }
        if let Some(started) = started {
            status.insert("lastScheduleTime".into(), time::seconds(started).into());
        }
        if !last_success.is_empty() {
            status.insert("lastSuccessfulTime".into(), last_success.as_str().into());
        }
    });
    written.await.or_else(|error| if is_race(&error) { Ok(()) } else { Err(error) })
}
