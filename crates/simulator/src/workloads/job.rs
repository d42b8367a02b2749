//! Jobs: pods that end, until enough have ended well.

use std::collections::BTreeSet;
use std::time::Duration;

use meta::options::{DeleteOptions, Propagation};
use meta::{Object, Status};
use serde_json::{Value, json};

use super::{make, pods_of, unmake};
use crate::cluster::{Cluster, Happening, is_race, pod_from};
use crate::look::{annotation, at, condition, is_active, is_true, list, owner_reference, part, phase, text};
use crate::pod::restarts;
use crate::todo::{Todo, Work};

const CONTROLLER: &str = "job-controller";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// How a job ended.
struct End {
    complete: bool,
    reason: &'static str,
    message: &'static str,
}

pub(crate) fn is_finished(job: &Object) -> bool {
    is_true(job, "Complete") || is_true(job, "Failed")
}

pub(crate) async fn sync(cluster: &Cluster, work: &Work, todo: &mut Todo) -> Result<(), Status> {
    let Some(job) = cluster.kinds.jobs.get(&work.namespace, &work.name) else { return Ok(()) };
    if is_finished(&job) {
        return expire(cluster, &job, work, todo).await;
    }
    let pods = pods_of(cluster, &job);
    let suspended = *at(&job, "/spec/suspend") == true;
    let end = verdict(cluster, &job, &pods);
    if !job.is_deleting() {
        if end.is_some() || suspended {
            for pod in pods.iter().filter(|pod| is_active(pod)) {
                unmake(cluster, &job, CONTROLLER, pod).await?;
            }
        } else {
            act(cluster, &job, &pods, work, todo).await?;
        }
    }
    if let Some(seconds) = at(&job, "/spec/activeDeadlineSeconds").as_u64().filter(|_| end.is_none()) {
        let since = cluster.since(text(&job, "/status/startTime")).unwrap_or_default().max(0).unsigned_abs();
        todo.after(Duration::from_secs(seconds.saturating_sub(since).max(1)), work.clone());
    }
    status(cluster, &job, suspended, end, work).await
}

fn succeeded(pods: &[Object]) -> i64 {
    i64::try_from(pods.iter().filter(|pod| phase(pod) == "Succeeded").count()).unwrap_or(i64::MAX)
}

fn failed(pods: &[Object]) -> i64 {
    i64::try_from(pods.iter().filter(|pod| phase(pod) == "Failed").count()).unwrap_or(i64::MAX)
}

fn indexed(job: &Object) -> bool {
    text(job, "/spec/completionMode") == "Indexed"
}

/// The indexes whose pods ended well.
fn done_indexes(pods: &[Object]) -> BTreeSet<i64> {
    let ended = pods.iter().filter(|pod| phase(pod) == "Succeeded");
    ended.filter_map(|pod| annotation(pod, INDEX)?.parse().ok()).collect()
}

/// Whether it is over, and how.
fn verdict(cluster: &Cluster, job: &Object, pods: &[Object]) -> Option<End> {
    let limit = at(job, "/spec/backoffLimit").as_i64().unwrap_or(6);
    let again: i64 = pods.iter().filter(|pod| is_active(pod)).map(|pod| i64::from(restarts(pod))).sum();
    if failed(pods) + again > limit {
        let message = "Job has reached the specified backoff limit";
        return Some(End { complete: false, reason: "BackoffLimitExceeded", message });
    }
    let since = cluster.since(text(job, "/status/startTime"));
    if at(job, "/spec/activeDeadlineSeconds").as_i64().zip(since).is_some_and(|(limit, since)| since >= limit) {
        let message = "Job was active longer than specified deadline";
        return Some(End { complete: false, reason: "DeadlineExceeded", message });
    }
    let active = pods.iter().any(is_active);
    let complete = match at(job, "/spec/completions").as_i64() {
        Some(wanted) if indexed(job) => done_indexes(pods).len() >= usize::try_from(wanted).unwrap_or_default(),
        Some(wanted) => succeeded(pods) >= wanted,
        // A queue of work is empty when the first found it so and the others are done.
        None => succeeded(pods) > 0 && !active,
    };
    complete.then_some(End {
        complete: true,
        reason: "CompletionsReached",
        message: "Reached expected number of succeeded pods",
    })
}

async fn act(cluster: &Cluster, job: &Object, pods: &[Object], work: &Work, todo: &mut Todo) -> Result<(), Status> {
    let active: Vec<&Object> = pods.iter().filter(|pod| is_active(pod)).collect();
    let parallel = at(job, "/spec/parallelism").as_i64().unwrap_or(1);
    let left = match at(job, "/spec/completions").as_i64() {
        Some(wanted) => wanted - succeeded(pods),
        None if succeeded(pods) > 0 => 0,
        None => parallel,
    };
    let wanted = usize::try_from(parallel.min(left)).unwrap_or_default();
    for pod in active.iter().skip(wanted) {
        unmake(cluster, job, CONTROLLER, pod).await?;
    }
    if active.len() >= wanted {
        return Ok(());
    }
    if let Some(wait) = patience(cluster, pods) {
        todo.after(wait, work.clone());
        return Ok(());
    }
    let mut free = (0..).filter({
        let mut taken = done_indexes(pods);
        taken.extend(active.iter().filter_map(|pod| annotation(pod, INDEX)?.parse::<i64>().ok()));
        move |index| !taken.contains(index)
    });
    let owner = owner_reference("batch/v1", "Job", job);
    for _ in active.len()..wanted {
        let mut prefix = format!("{}-", job.name());
        let index = free.next().filter(|_| indexed(job)).map(|index| index.to_string());
        if let Some(index) = &index {
            prefix.push_str(&format!("{index}-"));
        }
        let mut pod = pod_from(at(job, "/spec/template"), owner.clone(), None, &prefix);
        if let Some(index) = index {
            part(&mut pod, "spec").insert("hostname".into(), prefix.trim_end_matches('-').into());
            for entries in ["annotations", "labels"] {
                crate::look::entries(&mut pod, entries).insert(INDEX.into(), index.as_str().into());
            }
        }
        make(cluster, job, CONTROLLER, pod).await?;
    }
    Ok(())
}

/// How long to wait after failures before the next try.
fn patience(cluster: &Cluster, pods: &[Object]) -> Option<Duration> {
    let failures = u32::try_from(failed(pods)).unwrap_or(u32::MAX);
    if failures == 0 {
        return None;
    }
    let ended = pods.iter().filter(|pod| phase(pod) == "Failed").filter_map(|pod| {
        list(pod, "/status/containerStatuses")
            .iter()
            .filter_map(|s| s["state"]["terminated"]["finishedAt"].as_str())
            .max()
    });
    let since = cluster.since(ended.max()?)?.max(0).unsigned_abs();
    let wait = cluster.settings.timing.back_off.saturating_mul(2u32.saturating_pow((failures - 1).min(10)));
    let left = wait.min(Duration::from_secs(360)).saturating_sub(Duration::from_secs(since));
    (!left.is_zero()).then_some(left)
}

async fn status(cluster: &Cluster, job: &Object, suspended: bool, end: Option<End>, work: &Work) -> Result<(), Status> {
    let pods = pods_of(cluster, job);
    let active: Vec<&Object> = pods.iter().filter(|pod| is_active(pod)).collect();
    let ready = active.iter().filter(|pod| is_true(pod, "Ready")).count();
    let (well, badly, now) = (succeeded(&pods), failed(&pods), cluster.stamp());
    let written = cluster.kinds.jobs.set(&work.namespace, &work.name, |current| {
        let was_suspended = is_true(current, "Suspended");
        let status = part(current, "status");
        for (key, count) in
            [("active", i64::try_from(active.len()).unwrap_or_default()), ("succeeded", well), ("failed", badly)]
        {
            match count {
                0 => status.remove(key),
                count => status.insert(key.into(), count.into()),
            };
        }
        status.insert("ready".into(), ready.into());
        status.insert("terminating".into(), pods.iter().filter(|pod| pod.is_deleting()).count().into());
        status.insert("uncountedTerminatedPods".into(), json!({}));
        if indexed(job) {
            let done: Vec<String> = done_indexes(&pods).iter().map(i64::to_string).collect();
            status.insert("completedIndexes".into(), done.join(",").into());
        }
        if suspended {
            status.remove("startTime");
        } else {
            status.entry("startTime").or_insert_with(|| now.as_str().into());
        }
        if suspended != was_suspended {
            let (flag, reason, message) = match suspended {
                true => ("True", "JobSuspended", "Job suspended"),
                false => ("False", "JobResumed", "Job resumed"),
            };
            set(status, "Suspended", flag, reason, message, &now);
        }
        if let Some(End { complete, reason, message }) = &end {
            let kinds = if *complete { ["SuccessCriteriaMet", "Complete"] } else { ["FailureTarget", "Failed"] };
            for kind in kinds {
                set(status, kind, "True", reason, message, &now);
            }
            if *complete {
                status.insert("completionTime".into(), now.as_str().into());
            }
        }
    });
    match written.await {
        Err(error) if is_race(&error) => return Ok(()),
        outcome => outcome?,
    }
    match end {
        Some(End { complete: true, .. }) => {
            cluster.tell(job, Happening::normal(CONTROLLER, "Completed", "Job completed")).await
        }
        Some(End { reason, message, .. }) => cluster.tell(job, Happening::warning(CONTROLLER, reason, message)).await,
        None => {}
    }
    Ok(())
}

fn set(status: &mut serde_json::Map<String, Value>, kind: &str, flag: &str, reason: &str, message: &str, now: &str) {
    let condition = json!({"type": kind, "status": flag, "reason": reason, "message": message, "lastProbeTime": now});
    crate::look::set_condition(status, condition, now);
}

/// A finished job goes when its time is up.
async fn expire(cluster: &Cluster, job: &Object, work: &Work, todo: &mut Todo) -> Result<(), Status> {
    let Some(ttl) = at(job, "/spec/ttlSecondsAfterFinished").as_i64().filter(|_| !job.is_deleting()) else {
        return Ok(());
    };
    let ended =
        ["Complete", "Failed"].map(|kind| condition(job, kind)["lastTransitionTime"].as_str().unwrap_or_default());
    let since = ended.iter().find_map(|stamp| cluster.since(stamp)).unwrap_or_default();
    if since < ttl {
        let left = u64::try_from(ttl - since).unwrap_or(1);
        todo.after(Duration::from_secs(left), work.clone());
        return Ok(());
    }
    let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
    let gone = cluster.kinds.jobs.delete(&work.namespace, &work.name, &options).await;
    gone.or_else(|error| if is_race(&error) { Ok(()) } else { Err(error) })
}
