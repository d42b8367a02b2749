//! When a Job has failed, when it has succeeded, and when its pods are replaced.

use crate::kinds::check::{At, named};
use meta::{FieldError, FieldErrors, name};
use serde_json::Value;
use std::collections::HashSet;

const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const MAX_PATTERNS: usize = 20;
const MAX_INDEXES: usize = 64 * 1024;
const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: &[&str] = &["In", "NotIn"];
const STATUSES: &[&str] = &["False", "True", "Unknown"];

fn quoted(values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    format!("valid values: [{}]", quoted.join(" "))
}

pub fn failure(spec: &At<'_>, errors: &mut FieldErrors) {
    let Some(policy) = spec.child("podFailurePolicy") else { return };
    let count = policy.list("rules").len();
    if count > MAX_RULES {
        errors.push(FieldError::too_many(policy.field("rules"), count, MAX_RULES));
    }
    let template = spec.part("template");
    let pods = template.part("spec");
    let lists = ["containers", "initContainers"].into_iter().flat_map(|list| pods.list(list));
    let containers: HashSet<&str> = lists.filter_map(|c| c.get("name").and_then(Value::as_str)).collect();
    for rule in policy.items("rules") {
        match rule.text("action") {
            "" => errors.push(FieldError::required(rule.field("action"), quoted(ACTIONS))),
            "FailIndex" if !spec.has("backoffLimitPerIndex") => {
                rule.invalid("action", "requires the backoffLimitPerIndex to be set", errors);
            }
            _ => rule.one_of("action", ACTIONS, errors),
        }
        if let Some(codes) = rule.child("onExitCodes") {
            exit_codes(&codes, &containers, errors);
        }
        pod_conditions(&rule, errors);
        let both = match (rule.has("onExitCodes"), !rule.list("onPodConditions").is_empty()) {
            (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
            (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
            _ => continue,
        };
        errors.push(FieldError::invalid_as_a_whole(rule.path(), both));
    }
}

fn exit_codes(codes: &At<'_>, containers: &HashSet<&str>, errors: &mut FieldErrors) {
    match codes.text("operator") {
        "" => errors.push(FieldError::required(codes.field("operator"), quoted(OPERATORS))),
        _ => codes.one_of("operator", OPERATORS, errors),
    }
    if codes.has("containerName") && !containers.contains(codes.text("containerName")) {
        let why = "must be one of the container or initContainer names in the pod template";
        codes.invalid("containerName", why, errors);
    }
    let values: Vec<i64> = codes.list("values").iter().map(|value| value.as_i64().unwrap_or_default()).collect();
    if values.is_empty() {
        codes.invalid("values", "at least one value is required", errors);
    } else if values.len() > MAX_EXIT_CODES {
        errors.push(FieldError::too_many(codes.field("values"), values.len(), MAX_EXIT_CODES));
    }
    let mut seen = HashSet::new();
    for (i, code) in values.iter().enumerate() {
        let field = format!("{}[{i}]", codes.field("values"));
        if *code == 0 && codes.text("operator") == "In" {
            errors.push(FieldError::invalid(field.clone(), 0, "must not be 0 for the In operator"));
        }
        if !seen.insert(code) {
            errors.push(FieldError::duplicate(field, *code));
        }
    }
    if !values.is_sorted() {
        codes.invalid("values", "must be ordered", errors);
    }
}

fn pod_conditions(rule: &At<'_>, errors: &mut FieldErrors) {
    let count = rule.list("onPodConditions").len();
    if count > MAX_PATTERNS {
        errors.push(FieldError::too_many(rule.field("onPodConditions"), count, MAX_PATTERNS));
    }
    for pattern in rule.items("onPodConditions") {
        named(&pattern.field("type"), pattern.text("type"), name::qualified_name, errors);
        match pattern.text("status") {
            "" => errors.push(FieldError::required(pattern.field("status"), quoted(STATUSES))),
            _ => pattern.one_of("status", STATUSES, errors),
        }
    }
}

pub fn success(spec: &At<'_>, errors: &mut FieldErrors) {
    let Some(policy) = spec.child("successPolicy") else { return };
    if spec.text("completionMode") != "Indexed" {
        spec.invalid("successPolicy", "requires indexed completion mode", errors);
        return;
    }
    let count = policy.list("rules").len();
    if count == 0 {
        let why = "at least one rules must be specified when the successPolicy is specified";
        errors.push(FieldError::required(policy.field("rules"), why));
    }
    if count > MAX_RULES {
        errors.push(FieldError::too_many(policy.field("rules"), count, MAX_RULES));
    }
    let completions = spec.int("completions").unwrap_or_default();
    for rule in policy.items("rules") {
        success_rule(&rule, completions, errors);
    }
}

fn success_rule(rule: &At<'_>, completions: i64, errors: &mut FieldErrors) {
    if !rule.has("succeededCount") && !rule.has("succeededIndexes") {
        let why = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(FieldError::required(rule.path(), why));
    }
    let mut total = 0;
    if rule.has("succeededIndexes") {
        let text = rule.text("succeededIndexes");
        if text.len() > MAX_INDEXES {
            errors.push(FieldError::too_long(rule.field("succeededIndexes"), MAX_INDEXES));
        }
        match indexes(text, completions) {
            Ok(count) => total = count,
            Err(why) => rule.invalid("succeededIndexes", format!("error parsing succeededIndexes: {why}"), errors),
        }
    }
    let Some(wanted) = rule.int("succeededCount") else { return };
    rule.non_negative("succeededCount", errors);
    if wanted > completions {
        let why = format!("must be less than or equal to {completions} (the number of specified completions)");
        rule.invalid("succeededCount", why, errors);
    }
    if rule.has("succeededIndexes") && wanted > total {
        let why = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        rule.invalid("succeededCount", why, errors);
    }
}

/// How many indexes a text such as `0-2,5` names.
pub fn indexes(text: &str, completions: i64) -> Result<i64, String> {
    let mut total = 0;
    let mut last = None;
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, end) = interval(part, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

pub fn interval(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let limits: Vec<&str> = text.split('-').collect();
    if limits.len() > 2 {
        return Err(format!(
            "the fragment {text:?} violates the requirement that an index interval can have at most two parts separated by '-'"
        ));
    }
    let number = |text: &str| -> Result<i64, String> {
        let number: i64 = text.parse().map_err(|_| format!("cannot convert string to integer for index: {text:?}"))?;
        if number >= completions { Err(format!("too large index: {text:?}")) } else { Ok(number) }
    };
    let first = number(limits[0])?;
    let Some(end) = limits.get(1) else { return Ok((first, first)) };
    let end = number(end)?;
    if first >= end {
        return Err(format!("non-increasing order, previous: {first}, current: {end}"));
    }
    Ok((first, end))
}

pub fn replacement(spec: &At<'_>, errors: &mut FieldErrors) {
    let supported: &[&str] =
        if spec.has("podFailurePolicy") { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    spec.one_of("podReplacementPolicy", supported, errors);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_counted_and_ordered() {
        assert_eq!(indexes("", 5), Ok(0));
        assert_eq!(indexes("0-2,4", 5), Ok(4));
        assert_eq!(indexes("0,7", 5), Err("too large index: \"7\"".into()));
        assert_eq!(indexes("2,1", 5), Err("non-increasing order, previous: 2, current: 1".into()));
        assert_eq!(indexes("a", 5), Err("cannot convert string to integer for index: \"a\"".into()));
        assert!(indexes("1-2-3", 5).unwrap_err().starts_with("the fragment \"1-2-3\" violates"));
    }
}
