//! What a workload must keep, in the words its users know.

use crate::kinds::check::{At, IMMUTABLE, NON_NEGATIVE, label_selector};
use crate::kinds::{pod, volumes};
use meta::selector::LabelSelector;
use meta::{FieldError, FieldErrors, Object, name};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

pub fn deployment(object: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &object.0), Vec::new());
    let spec = root.part("spec");
    spec.non_negative("replicas", &mut errors);
    replicated(&spec, "deployment", &mut errors);
    deployment_strategy(&spec, &mut errors);
    spec.non_negative("minReadySeconds", &mut errors);
    spec.non_negative("revisionHistoryLimit", &mut errors);
    spec.non_negative("progressDeadlineSeconds", &mut errors);
    let deadline = spec.int("progressDeadlineSeconds");
    if deadline.is_some_and(|deadline| deadline <= spec.int("minReadySeconds").unwrap_or_default()) {
        spec.invalid("progressDeadlineSeconds", "must be greater than minReadySeconds", &mut errors);
    }
    errors
}

pub fn replica_set(object: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &object.0), Vec::new());
    let spec = root.part("spec");
    spec.non_negative("replicas", &mut errors);
    spec.non_negative("minReadySeconds", &mut errors);
    // Kubernetes, too, speaks of a deployment here.
    replicated(&spec, "deployment", &mut errors);
    errors
}

/// Selector and template of what keeps a number of equal pods.
fn replicated(spec: &At<'_>, kind: &str, errors: &mut FieldErrors) {
    required_selector(spec, kind, errors);
    match LabelSelector::from_object(spec.value("selector")) {
        Err(_) => spec.invalid("selector", "invalid label selector", errors),
        Ok(selector) => {
            matches_template(spec, &selector, errors);
            errors.extend(pod::validate_template(&spec.field("template"), spec.part("template").map));
            runs_forever(spec, "ReplicaSet", errors);
        }
    }
}

fn required_selector(spec: &At<'_>, kind: &str, errors: &mut FieldErrors) {
    match spec.child("selector") {
        None => errors.push(FieldError::required(spec.field("selector"), "")),
        Some(selector) => {
            label_selector(&selector, errors);
            empty_selector(spec, kind, errors);
        }
    }
}

fn empty_selector(spec: &At<'_>, kind: &str, errors: &mut FieldErrors) {
    if spec.child("selector").is_some_and(|s| s.entries("matchLabels").count() + s.list("matchExpressions").len() == 0)
    {
        spec.invalid("selector", format!("empty selector is invalid for {kind}"), errors);
    }
}

fn matches_template(spec: &At<'_>, selector: &LabelSelector, errors: &mut FieldErrors) {
    if !selector.is_everything() && !selects_template(spec, selector) {
        template_mismatch(spec, errors);
    }
}

pub fn selects_template(spec: &At<'_>, selector: &LabelSelector) -> bool {
    let template = spec.part("template");
    let labels = template.part("metadata").value("labels");
    selector.matches_with(|key| labels.get(key).and_then(Value::as_str))
}

pub fn template_mismatch(spec: &At<'_>, errors: &mut FieldErrors) {
    let template = spec.part("template");
    let metadata = template.part("metadata");
    metadata.invalid("labels", "`selector` does not match template `labels`", errors);
}

/// Pods of a workload are started again whenever they end.
fn runs_forever(spec: &At<'_>, kind: &str, errors: &mut FieldErrors) {
    let template = spec.part("template");
    let pods = template.part("spec");
    let policy = pods.text("restartPolicy");
    if policy != "Always" {
        errors.push(FieldError::not_supported(pods.field("restartPolicy"), policy, &["Always"]));
    }
    if pods.has("activeDeadlineSeconds") {
        let why = format!("activeDeadlineSeconds in {kind} is not Supported");
        pods.forbidden("activeDeadlineSeconds", &why, errors);
    }
}

fn deployment_strategy(spec: &At<'_>, errors: &mut FieldErrors) {
    let strategy = spec.part("strategy");
    match (strategy.text("type"), strategy.child("rollingUpdate")) {
        ("Recreate", None) => {}
        ("Recreate", Some(_)) => {
            strategy.forbidden("rollingUpdate", "may not be specified when strategy `type` is 'Recreate'", errors);
        }
        ("RollingUpdate", None) => {
            let why = "this should be defaulted and never be nil";
            errors.push(FieldError::required(strategy.field("rollingUpdate"), why));
        }
        ("RollingUpdate", Some(rolling)) => {
            int_or_percent(&rolling, "maxUnavailable", errors);
            int_or_percent(&rolling, "maxSurge", errors);
            if amount(rolling.value("maxUnavailable")) == 0 && amount(rolling.value("maxSurge")) == 0 {
                rolling.invalid("maxUnavailable", "may not be 0 when `maxSurge` is 0", errors);
            }
            not_more_than_all(&rolling, "maxUnavailable", errors);
        }
        _ => unknown_strategy(&strategy, &["Recreate", "RollingUpdate"], errors),
    }
}

fn unknown_strategy(strategy: &At<'_>, supported: &[&str], errors: &mut FieldErrors) {
    errors.push(FieldError::not_supported(strategy.path(), Value::Object(strategy.map.clone()), supported));
}

/// A number or a percentage of at least nothing.
pub fn int_or_percent(at: &At<'_>, field: &str, errors: &mut FieldErrors) {
    match at.value(field) {
        Value::String(text) if percent(text).is_none() => at.invalid(
            field,
            "a valid percent string must be a numeric string followed by an ending '%' \
             (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
            errors,
        ),
        Value::Number(n) if n.as_i64().unwrap_or_default() < 0 => at.invalid(field, NON_NEGATIVE, errors),
        _ => {}
    }
}

pub fn not_more_than_all(at: &At<'_>, field: &str, errors: &mut FieldErrors) {
    if at.value(field).as_str().and_then(percent).is_some_and(|p| p > 100) {
        at.invalid(field, "must not be greater than 100%", errors);
    }
}

fn percent(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('%')?;
    let numeric = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    numeric.then(|| digits.parse().unwrap_or(u64::MAX))
}

/// The number in a count or a percentage; other text counts nothing.
fn amount(value: &Value) -> i64 {
    match value {
        Value::String(text) => percent(text).map_or(0, |p| i64::try_from(p).unwrap_or(i64::MAX)),
        other => other.as_i64().unwrap_or_default(),
    }
}

pub fn stateful_set(object: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &object.0), Vec::new());
    let spec = root.part("spec");
    if !["OrderedReady", "Parallel"].contains(&spec.text("podManagementPolicy")) {
        spec.invalid("podManagementPolicy", "must be 'OrderedReady' or 'Parallel'", &mut errors);
    }
    stateful_set_strategy(&spec, &mut errors);
    let retention = spec.part("persistentVolumeClaimRetentionPolicy");
    retention.one_of("whenDeleted", &["Retain", "Delete"], &mut errors);
    retention.one_of("whenScaled", &["Retain", "Delete"], &mut errors);
    for claim in spec.items("volumeClaimTemplates") {
        volumes::claim_spec(&claim.part("spec"), &mut errors);
    }
    spec.non_negative("replicas", &mut errors);
    spec.non_negative("minReadySeconds", &mut errors);
    if spec.part("ordinals").int("start").is_some_and(|start| start < 0) {
        spec.part("ordinals").invalid("start", NON_NEGATIVE, &mut errors);
    }
    spec.named("serviceName", name::dns1123_label, &mut errors);
    required_selector(&spec, "statefulset", &mut errors);
    match LabelSelector::from_object(spec.value("selector")) {
        Err(_) => spec.invalid("selector", "", &mut errors),
        Ok(selector) => {
            matches_template(&spec, &selector, &mut errors);
            let template = identified(&spec);
            errors.extend(pod::validate_template(&spec.field("template"), &template));
        }
    }
    runs_forever(&spec, "StatefulSet", &mut errors);
    errors
}

/// The template as its pods will be: named by the controller, with a volume for each claim.
fn identified(spec: &At<'_>) -> Map<String, Value> {
    let mut template = spec.part("template").map.clone();
    let Some(Value::Object(pods)) = template.get_mut("spec") else { return template };
    pods.remove("hostname");
    pods.remove("subdomain");
    let claimed: BTreeSet<String> =
        spec.items("volumeClaimTemplates").map(|claim| claim.part("metadata").text("name").to_owned()).collect();
    if !claimed.is_empty() {
        let mut volumes: Vec<Value> =
            claimed.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}})).collect();
        let own = pods.get("volumes").and_then(Value::as_array).into_iter().flatten();
        volumes.extend(own.filter(|v| !v["name"].as_str().is_some_and(|name| claimed.contains(name))).cloned());
        pods.insert("volumes".into(), volumes.into());
    }
    template
}

fn stateful_set_strategy(spec: &At<'_>, errors: &mut FieldErrors) {
    let strategy = spec.part("updateStrategy");
    match (strategy.text("type"), strategy.child("rollingUpdate")) {
        ("OnDelete", Some(_)) => {
            strategy.invalid("rollingUpdate", "only allowed for updateStrategy 'RollingUpdate'", errors);
        }
        ("RollingUpdate", Some(rolling)) => rolling.non_negative("partition", errors),
        ("OnDelete" | "RollingUpdate", None) => {}
        _ => spec.invalid("updateStrategy", "must be 'RollingUpdate' or 'OnDelete'", errors),
    }
}

pub fn daemon_set(object: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &object.0), Vec::new());
    let spec = root.part("spec");
    if let Some(selector) = spec.child("selector") {
        label_selector(&selector, &mut errors);
    }
    let selector = LabelSelector::from_object(spec.value("selector"));
    if selector.is_ok_and(|selector| !selects_template(&spec, &selector)) {
        template_mismatch(&spec, &mut errors);
    }
    empty_selector(&spec, "daemonset", &mut errors);
    errors.extend(pod::validate_template(&spec.field("template"), spec.part("template").map));
    runs_forever(&spec, "DaemonSet", &mut errors);
    spec.non_negative("minReadySeconds", &mut errors);
    daemon_set_strategy(&spec, &mut errors);
    spec.non_negative("revisionHistoryLimit", &mut errors);
    errors
}

fn daemon_set_strategy(spec: &At<'_>, errors: &mut FieldErrors) {
    let strategy = spec.part("updateStrategy");
    match (strategy.text("type"), strategy.child("rollingUpdate")) {
        ("OnDelete", _) => {}
        ("RollingUpdate", None) => errors.push(FieldError::required(strategy.field("rollingUpdate"), "")),
        ("RollingUpdate", Some(rolling)) => {
            int_or_percent(&rolling, "maxUnavailable", errors);
            int_or_percent(&rolling, "maxSurge", errors);
            not_more_than_all(&rolling, "maxUnavailable", errors);
            not_more_than_all(&rolling, "maxSurge", errors);
            let (unavailable, surge) = (amount(rolling.value("maxUnavailable")), amount(rolling.value("maxSurge")));
            if unavailable != 0 && surge != 0 {
                rolling.invalid("maxSurge", "may not be set when maxUnavailable is non-zero", errors);
            } else if unavailable == 0 && surge == 0 {
                let why = "cannot be 0 when maxSurge is 0";
                errors.push(FieldError::required(rolling.field("maxUnavailable"), why));
            }
        }
        _ => unknown_strategy(&strategy, &["RollingUpdate", "OnDelete"], errors),
    }
}

/// What a workload selects cannot change: its pods would be left behind.
pub fn same_selector(new: &Object, old: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &new.0), Vec::new());
    let spec = root.part("spec");
    if old.0.get("spec").and_then(|s| s.get("selector")).unwrap_or(&Value::Null) != spec.value("selector") {
        spec.invalid("selector", IMMUTABLE, &mut errors);
    }
    errors
}

const STATEFUL_SET_MUTABLE: &[&str] = &[
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
];

pub fn stateful_set_update(new: &Object, old: &Object) -> FieldErrors {
    let fixed = |object: &Object| {
        let mut spec = object.0.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
        STATEFUL_SET_MUTABLE.iter().for_each(|field| drop(spec.remove(*field)));
        spec
    };
    if fixed(new) == fixed(old) {
        return Vec::new();
    }
    let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
               'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
    vec![FieldError::forbidden("spec", why)]
}

pub fn controller_revision(object: &Object) -> FieldErrors {
    let (root, mut errors) = (At::root("", &object.0), Vec::new());
    root.non_negative("revision", &mut errors);
    match root.value("data") {
        Value::Object(_) => {}
        Value::Null => errors.push(FieldError::required("data", "data is mandatory")),
        _ => errors.push(FieldError::required("data", "data must be a valid JSON object")),
    }
    errors
}

pub fn controller_revision_update(new: &Object, old: &Object) -> FieldErrors {
    let mut errors = Vec::new();
    if new.0.get("data") != old.0.get("data") {
        At::root("", &new.0).invalid("data", IMMUTABLE, &mut errors);
    }
    errors
}

/// Names that do not fit a host name, on top of what the template gives reason to warn of.
pub fn named_warnings(new: &Object, old: Option<&Object>) -> Vec<String> {
    let mut warnings = if old.is_none() { name_warning(new) } else { Vec::new() };
    warnings.extend(generation_warnings(new, old));
    warnings
}

pub fn name_warning(object: &Object) -> Vec<String> {
    let wrong = name::dns1123_label(object.name());
    if wrong.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; \
         a DNS label is recommended: [{}]",
        wrong.join(" ")
    )]
}

/// What there is to say of the template, whenever anything counts as changed.
fn generation_warnings(new: &Object, old: Option<&Object>) -> Vec<String> {
    if old.is_some_and(|old| old.generation() == new.generation()) {
        return Vec::new();
    }
    template_warnings_at(&At::root("", &new.0).part("spec"))
}

/// The same, only when the template changed.
pub fn template_warnings(new: &Object, old: Option<&Object>) -> Vec<String> {
    let template = |object: &Object| object.0.get("spec").and_then(|spec| spec.get("template")).cloned();
    if old.is_some_and(|old| template(old) == template(new)) {
        return Vec::new();
    }
    template_warnings_at(&At::root("", &new.0).part("spec"))
}

/// `spec` is what holds the template.
pub fn template_warnings_at(spec: &At<'_>) -> Vec<String> {
    pod::warnings(&spec.part("template"))
}

pub fn stateful_set_warnings(new: &Object, old: Option<&Object>) -> Vec<String> {
    let mut warnings = generation_warnings(new, old);
    if At::root("", &new.0).part("spec").int("revisionHistoryLimit").is_some_and(|limit| limit < 0) {
        let what = "a negative value retains all historical revisions; a value >= 0 is recommended";
        warnings.push(format!("spec.revisionHistoryLimit: {what}"));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(spec: Value) -> Object {
        Object::from_value(json!({"metadata": {"name": "a"}, "spec": spec})).unwrap()
    }

    fn template(labels: Value) -> Value {
        let container =
            json!({"name": "c", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"});
        json!({"metadata": {"labels": labels}, "spec": {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "containers": [container]}})
    }

    fn set(more: Value) -> Object {
        let mut spec = json!({"replicas": 1, "podManagementPolicy": "OrderedReady", "updateStrategy": {"type": "OnDelete"},
            "strategy": {"type": "Recreate"}, "selector": {"matchLabels": {"app": "a"}}, "template": template(json!({"app": "a"}))});
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        object(spec)
    }

    fn told(errors: FieldErrors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_plain_workload_is_fine() {
        for rule in [deployment, replica_set, stateful_set, daemon_set] {
            assert_eq!(told(rule(&set(json!({})))), Vec::<String>::new());
        }
    }

    #[test]
    fn a_selector_selects_the_template() {
        let wrong = set(json!({"selector": {"matchLabels": {"app": "b"}}}));
        let why = "spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` does not match template `labels`";
        for rule in [deployment, replica_set, stateful_set, daemon_set] {
            assert_eq!(told(rule(&wrong)), [why]);
        }
        assert_eq!(
            told(deployment(&set(json!({"selector": {}})))),
            ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"]
        );
        assert_eq!(told(deployment(&set(json!({"selector": null}))))[0], "spec.selector: Required value");
    }

    #[test]
    fn a_rolling_update_makes_progress() {
        let rolling = |surge: Value, unavailable: Value| {
            let rolling = json!({"maxSurge": surge, "maxUnavailable": unavailable});
            json!({"type": "RollingUpdate", "rollingUpdate": rolling})
        };
        let deploy = |surge, unavailable| told(deployment(&set(json!({"strategy": rolling(surge, unavailable)}))));
        let daemon =
            |surge, unavailable| told(daemon_set(&set(json!({"updateStrategy": rolling(surge, unavailable)}))));
        assert!(deploy(json!("25%"), json!(0)).is_empty() && daemon(json!(0), json!("10%")).is_empty());
        assert!(deploy(json!(0), json!("0%"))[0].ends_with("may not be 0 when `maxSurge` is 0"));
        assert!(deploy(json!(1), json!("101%"))[0].ends_with("must not be greater than 100%"));
        assert!(deploy(json!("x"), json!(1))[0].contains("a valid percent string"));
        assert!(daemon(json!(1), json!(1))[0].ends_with("may not be set when maxUnavailable is non-zero"));
        assert!(daemon(json!(0), json!(0))[0].ends_with("cannot be 0 when maxSurge is 0"));
    }

    #[test]
    fn claims_are_volumes_of_a_stateful_sets_pods() {
        let mut pods = template(json!({"app": "a"}));
        pods["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/d"}]);
        let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": "1Gi"}}}});
        assert!(!told(stateful_set(&set(json!({"template": pods})))).is_empty());
        let with_claim = set(json!({"template": pods, "volumeClaimTemplates": [claim]}));
        assert_eq!(told(stateful_set(&with_claim)), Vec::<String>::new());
    }

    #[test]
    fn most_of_a_stateful_set_is_fixed() {
        let old = set(json!({"serviceName": "db"}));
        assert!(
            stateful_set_update(&set(json!({"serviceName": "db", "replicas": 9, "ordinals": {"start": 1}})), &old)
                .is_empty()
        );
        assert_eq!(stateful_set_update(&set(json!({"serviceName": "other"})), &old).len(), 1);
    }

    #[test]
    fn a_name_with_dots_is_worth_a_warning() {
        let mut object = set(json!({}));
        assert!(named_warnings(&object, None).is_empty());
        object.set_meta("name", "a.b");
        assert_eq!(named_warnings(&object, None).len(), 1);
        assert!(named_warnings(&object, Some(&object)).is_empty(), "said once");
    }
}
