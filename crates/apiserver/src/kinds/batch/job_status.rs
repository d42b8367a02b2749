//! What the status of a Job must keep: it ends once, in one way, and its counters do not go back.

use super::job_policy::{indexes, interval};
use crate::kinds::check::At;
use meta::{FieldError, FieldErrors, Object, time};
use std::collections::HashSet;

/// The facts about one version of a job that the rules compare.
struct Job<'a> {
    spec: At<'a>,
    status: At<'a>,
}

impl Job<'_> {
    fn is(&self, condition: &str) -> bool {
        let conditions = self.status.list("conditions");
        conditions.iter().any(|c| c["type"] == condition && c["status"] == "True")
    }

    fn is_resumed(&self) -> bool {
        let conditions = self.status.list("conditions");
        conditions.iter().any(|c| c["type"] == "Suspended" && c["status"] == "False")
    }

    fn is_finished(&self) -> bool {
        self.is("Complete") || self.is("Failed")
    }

    fn count(&self, name: &str) -> i64 {
        self.status.int(name).unwrap_or_default()
    }
}

pub fn validate(new: &Object, old: &Object) -> FieldErrors {
    let (new_root, old_root) = (At::root("", &new.0), At::root("", &old.0));
    let new = Job { spec: new_root.part("spec"), status: new_root.part("status") };
    let old = Job { spec: old_root.part("spec"), status: old_root.part("status") };
    let mut errors = Vec::new();
    for count in ["active", "succeeded", "failed", "ready", "terminating"] {
        new.status.non_negative(count, &mut errors);
    }
    uncounted(&new.status, &mut errors);
    end(&new, &old, &mut errors);
    finished(&new, &old, &mut errors);
    tracked_indexes(&new, &old, &mut errors);
    criteria(&new, &mut errors);
    transitions(&new, &old, &mut errors);
    errors
}

fn conditions(why: &str, errors: &mut FieldErrors) {
    errors.push(FieldError::invalid_as_a_whole("status.conditions", why));
}

fn uncounted(status: &At<'_>, errors: &mut FieldErrors) {
    let Some(pods) = status.child("uncountedTerminatedPods") else { return };
    let mut seen = HashSet::new();
    for list in ["succeeded", "failed"] {
        for (i, uid) in pods.texts(list).enumerate() {
            let field = format!("{}[{i}]", pods.field(list));
            if uid.is_empty() {
                errors.push(FieldError::invalid(field, uid, "must not be empty"));
            } else if !seen.insert(uid) {
                errors.push(FieldError::duplicate(field, uid));
            }
        }
    }
}

/// What was unchanged was accepted before, and is not held against this update.
fn changed(new: &Job<'_>, old: &Job<'_>, fields: &[&str], conditions: &[&str]) -> bool {
    fields.iter().any(|field| new.status.value(field) != old.status.value(field))
        || conditions.iter().any(|condition| new.is(condition) != old.is(condition))
}

fn end(new: &Job<'_>, old: &Job<'_>, errors: &mut FieldErrors) {
    let changed = |fields: &[&str], conditions: &[&str]| changed(new, old, fields, conditions);
    let (complete, failed) = (new.is("Complete"), new.is("Failed"));
    if complete && failed && changed(&[], &["Complete", "Failed"]) {
        conditions("cannot set Complete=True and Failed=true conditions", errors);
    }
    if complete && new.is("FailureTarget") && changed(&[], &["Complete", "FailureTarget"]) {
        conditions("cannot set Complete=True and FailureTarget=true conditions", errors);
    }
    let ended = changed(&["completionTime"], &["Complete"]);
    let has_end = new.status.has("completionTime");
    if ended && has_end && !complete {
        let why = "cannot set completionTime when there is no Complete=True condition";
        new.status.invalid("completionTime", why, errors);
    }
    if ended && !has_end && complete {
        let why = "completionTime is required for Complete jobs";
        errors.push(FieldError::required("status.completionTime", why));
    }
    let moment = |field: &str| time::parse(new.status.text(field));
    let backwards = moment("startTime").zip(moment("completionTime")).is_some_and(|(start, end)| end < start);
    if backwards && changed(&["startTime", "completionTime"], &[]) {
        new.status.invalid("completionTime", "must be equal to or after `startTime`", errors);
    }
    if failed && !new.is("FailureTarget") && changed(&["failedIndexes"], &["Failed"]) {
        conditions("cannot set Failed=True condition without the FailureTarget=true condition", errors);
    }
    if complete && !new.is("SuccessCriteriaMet") && changed(&[], &["Complete", "SuccessCriteriaMet"]) {
        conditions("cannot set Complete=True condition without the SuccessCriteriaMet=true condition", errors);
    }
}

fn finished(new: &Job<'_>, old: &Job<'_>, errors: &mut FieldErrors) {
    let finished = new.is_finished();
    let ended = finished != old.is_finished();
    let changed = |field: &str| changed(new, old, &[field], &[]);
    if finished && new.count("active") > 0 && (ended || changed("active")) {
        new.status.invalid("active", "active>0 is invalid for finished job", errors);
    }
    let nothing_to_do = new.spec.flag("suspend") && new.spec.int("completions") == Some(0);
    if finished && !new.status.has("startTime") && (ended || changed("startTime")) && !nothing_to_do {
        errors.push(FieldError::required("status.startTime", "startTime is required for finished job"));
    }
    let pods = new.status.part("uncountedTerminatedPods");
    let left = pods.list("failed").len() + pods.list("succeeded").len();
    if finished && left > 0 && (ended || changed("uncountedTerminatedPods")) {
        new.status.invalid("uncountedTerminatedPods", "must be empty for finished job", errors);
    }
}

fn tracked_indexes(new: &Job<'_>, old: &Job<'_>, errors: &mut FieldErrors) {
    let (done, failed) = ("completedIndexes", "failedIndexes");
    let done_changed = changed(new, old, &[done], &[]);
    let failed_changed = changed(new, old, &[failed], &[]);
    let per_index = new.spec.has("backoffLimitPerIndex");
    let completions = new.spec.int("completions");
    let (done_text, failed_text) = (new.status.text(done), new.status.text(failed));
    if let Some(completions) = completions {
        if done_changed && let Err(why) = indexes(done_text, completions) {
            new.status.invalid(done, format!("error parsing completedIndexes: {why}"), errors);
        }
        if failed_changed
            && per_index
            && let Err(why) = indexes(failed_text, completions)
        {
            new.status.invalid(failed, format!("error parsing failedIndexes: {why}"), errors);
        }
    }
    if done_changed && !done_text.is_empty() && new.spec.text("completionMode") != "Indexed" {
        let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
        new.status.invalid(done, why, errors);
    }
    if failed_changed && !per_index && new.status.has(failed) {
        let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        new.status.invalid(failed, why, errors);
    }
    if (done_changed || failed_changed)
        && new.status.has(failed)
        && let Some(at) = completions.and_then(|completions| overlap(done_text, failed_text, completions))
    {
        new.status.invalid(failed, format!("failedIndexes and completedIndexes overlap at index: {at}"), errors);
    }
    let finished = new.is_finished();
    let ended = finished != old.is_finished();
    if finished && new.count("terminating") > 0 && (ended || changed(new, old, &["terminating"], &[])) {
        new.status.invalid("terminating", "terminating>0 is invalid for finished job", errors);
    }
    if new.count("ready") > new.count("active") && changed(new, old, &["ready", "active"], &[]) {
        new.status.invalid("ready", "cannot set more ready pods than active", errors);
    }
}

/// The first index in both texts; what cannot be read is told elsewhere.
fn overlap(done: &str, failed: &str, completions: i64) -> Option<i64> {
    let read = |text: &str| -> Vec<(i64, i64)> {
        text.split(',').filter_map(|part| interval(part, completions).ok()).collect()
    };
    let (done, failed) = (read(done), read(failed));
    let (mut d, mut f) = (0, 0);
    while let (Some(a), Some(b)) = (done.get(d), failed.get(f)) {
        if a.0 <= b.1 && b.0 <= a.1 {
            return Some(a.0.max(b.0));
        }
        if a.0 <= b.0 { d += 1 } else { f += 1 }
    }
    None
}

fn criteria(new: &Job<'_>, errors: &mut FieldErrors) {
    let met = new.is("SuccessCriteriaMet");
    if met && new.is("Failed") {
        conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions", errors);
    }
    if met && new.is("FailureTarget") {
        conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions", errors);
    }
    if new.spec.has("successPolicy") && !met && new.is("Complete") {
        let why = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        conditions(why, errors);
    }
}

fn transitions(new: &Job<'_>, old: &Job<'_>, errors: &mut FieldErrors) {
    for condition in ["Failed", "Complete", "FailureTarget"] {
        if old.is(condition) && !new.is(condition) {
            conditions(&format!("cannot disable the terminal {condition}=True condition"), errors);
        }
    }
    let decreased = |name: &str| new.count(name) < old.count(name);
    if decreased("failed") {
        let why = "cannot decrease the failed counter";
        errors.push(FieldError::invalid("status.failed", new.count("failed"), why));
    }
    let elastic =
        new.spec.text("completionMode") == "Indexed" && new.spec.value("completions") == new.spec.value("parallelism");
    if decreased("succeeded") && !elastic {
        let why = "cannot decrease the succeeded counter";
        errors.push(FieldError::invalid("status.succeeded", new.count("succeeded"), why));
    }
    let both = |field: &str| new.status.has(field) && old.status.has(field);
    let differs = |field: &str| new.status.value(field) != old.status.value(field);
    if both("completionTime") && differs("completionTime") {
        new.status.invalid("completionTime", "field is immutable", errors);
    }
    let resumes = old.is("Suspended") && new.is_resumed();
    if old.status.has("startTime") && differs("startTime") && !new.spec.flag("suspend") && !resumes {
        let why = "startTime cannot be removed for unsuspended job";
        errors.push(FieldError::required("status.startTime", why));
    }
    let met = "SuccessCriteriaMet";
    if old.is(met) && !new.is(met) {
        conditions("cannot disable the SuccessCriteriaMet=True condition", errors);
    }
    if old.is("Complete") && !old.is(met) && new.is(met) {
        conditions("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions", errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn told(new: Value, old: Value) -> Vec<String> {
        let object = |status: Value| Object::from_value(json!({"spec": {"completions": 3}, "status": status})).unwrap();
        validate(&object(new), &object(old)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_job_ends_in_order() {
        let met = json!({"type": "SuccessCriteriaMet", "status": "True"});
        let complete = json!({"type": "Complete", "status": "True"});
        let times = |conditions: Value| json!({"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:01Z", "conditions": conditions});
        let running = json!({"startTime": "2026-01-01T00:00:00Z"});
        assert_eq!(told(times(json!([met, complete])), running.clone()), Vec::<String>::new());
        assert_eq!(
            told(times(json!([complete])), running),
            [
                "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
            ]
        );
        let undone = told(json!({"startTime": "2026-01-01T00:00:00Z"}), times(json!([met, complete])));
        assert!(undone.iter().any(|e| e.contains("cannot disable the terminal Complete=True condition")), "{undone:?}");
    }

    #[test]
    fn counters_do_not_go_back() {
        assert_eq!(
            told(json!({}), json!({"failed": 2})),
            ["status.failed: Invalid value: 0: cannot decrease the failed counter"]
        );
    }

    #[test]
    fn an_index_is_done_or_failed() {
        assert_eq!(overlap("0-2,7", "5,7-8", 10), Some(7));
        assert_eq!(overlap("0-2", "3", 10), None);
        assert_eq!(overlap("x", "3", 10), None);
    }
}
