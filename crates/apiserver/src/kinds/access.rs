//! The kinds of access control: Roles and bindings, reviews, and the token subresource of service accounts.

use super::builtin::PLAIN;
use super::columns::{AGE, age};
use super::{Action, Behaviour, Kind, Subresource, metadata};
use crate::access::{RBAC, TOKEN_REQUEST};
use jiff::Timestamp;
use meta::selector::LabelSelector;
use meta::table::Column;
use meta::{FieldError, FieldErrors, Object, name};
use serde_json::{Value, json};
use store::Collection;

pub const TOKEN: Subresource = Subresource::action("token", Action::RequestToken, TOKEN_REQUEST);

static CLUSTER_ROLE: Behaviour = Behaviour {
    name: metadata::segment,
    create_on_update: true,
    default: role_default,
    validate: cluster_role,
    ..PLAIN
};

static ROLE: Behaviour = Behaviour { validate: role, ..CLUSTER_ROLE };

static CLUSTER_ROLE_BINDING: Behaviour = Behaviour {
    name: metadata::segment,
    create_on_update: true,
    columns: BINDING_COLUMNS,
    cells: binding_cells,
    default: binding_default,
    validate: |binding| self::binding(binding, false),
    validate_update: same_role,
    ..PLAIN
};

static ROLE_BINDING: Behaviour = Behaviour { validate: |binding| self::binding(binding, true), ..CLUSTER_ROLE_BINDING };

pub fn kinds() -> impl Iterator<Item = Kind> {
    const AUTHENTICATION: &str = "authentication.k8s.io";
    const AUTHORIZATION: &str = "authorization.k8s.io";
    let reviews = [
        (AUTHENTICATION, "SelfSubjectReview", false, Action::ReviewMyself),
        (AUTHENTICATION, "TokenReview", false, Action::ReviewToken),
        (AUTHORIZATION, "LocalSubjectAccessReview", true, Action::ReviewAccessHere),
        (AUTHORIZATION, "SelfSubjectAccessReview", false, Action::ReviewMyAccess),
        (AUTHORIZATION, "SelfSubjectRulesReview", false, Action::ReviewMyRules),
        (AUTHORIZATION, "SubjectAccessReview", false, Action::ReviewAccess),
    ];
    let stored = [
        ("ClusterRoleBinding", false, &CLUSTER_ROLE_BINDING),
        ("ClusterRole", false, &CLUSTER_ROLE),
        ("RoleBinding", true, &ROLE_BINDING),
        ("Role", true, &ROLE),
    ];
    let reviews = reviews
        .into_iter()
        .map(|(group, kind, namespaced, action)| Kind { action: Some(action), ..row(group, kind, namespaced, &PLAIN) });
    reviews.chain(stored.into_iter().map(|(kind, namespaced, behaviour)| row(RBAC, kind, namespaced, behaviour)))
}

fn row(group: &str, kind: &str, namespaced: bool, behaviour: &'static Behaviour) -> Kind {
    let singular = kind.to_lowercase();
    let plural = format!("{singular}s");
    Kind {
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        collection: Collection::new(&format!("{group}/{plural}")),
        plural,
        singular,
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced,
        stored_as: None,
        behaviour,
        subresources: Vec::new(),
        action: None,
        custom: None,
        ordinal: 0,
    }
}

/// Anything that can stand in a path: `system:node` is a name.
fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn field<'a>(object: &'a Object, key: &str) -> &'a [Value] {
    object.0.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// No rules are written as Go writes a list that was never made.
fn role_default(role: &mut Object) {
    role.0.entry("rules").or_insert(Value::Null);
}

fn role(role: &Object) -> FieldErrors {
    policy_rules(role, true)
}

fn cluster_role(role: &Object) -> FieldErrors {
    let mut errors = policy_rules(role, false);
    let Some(aggregation) = role.0.get("aggregationRule").filter(|rule| !rule.is_null()) else { return errors };
    let at = "aggregationRule.clusterRoleSelectors";
    let selectors = list(aggregation, "clusterRoleSelectors");
    if selectors.is_empty() {
        let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(FieldError::required(at, why));
    }
    for (i, selector) in selectors.iter().enumerate() {
        let at = format!("{at}[{i}]");
        label_selector(&at, selector, &mut errors);
        if LabelSelector::from_object(selector).is_err() {
            errors.push(FieldError::invalid(at, Value::Null, "invalid label selector."));
        }
    }
    errors
}

fn label_selector(at: &str, selector: &Value, errors: &mut FieldErrors) {
    for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        let wrong = name::qualified_name(key).into_iter().map(|m| (key.as_str(), m));
        let wrong = wrong.chain(name::label_value(value).into_iter().map(|m| (value, m)));
        errors.extend(wrong.map(|(what, m)| FieldError::invalid(format!("{at}.matchLabels"), what, m)));
    }
    for (i, expression) in list(selector, "matchExpressions").iter().enumerate() {
        let at = |key: &str| format!("{at}.matchExpressions[{i}].{key}");
        let values = list(expression, "values");
        match text(expression, "operator") {
            "In" | "NotIn" if values.is_empty() => {
                errors.push(FieldError::required(at("values"), "must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(at("values"), why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.push(FieldError::invalid(at("operator"), other, "not a valid selector operator")),
        }
        let wrong = name::qualified_name(text(expression, "key"));
        errors.extend(wrong.into_iter().map(|m| FieldError::invalid(at("key"), text(expression, "key"), m)));
    }
}

fn policy_rules(role: &Object, namespaced: bool) -> FieldErrors {
    let mut errors = Vec::new();
    for (i, rule) in field(role, "rules").iter().enumerate() {
        let at = |key: &str| format!("rules[{i}].{key}");
        let lacks = |key: &str| list(rule, key).is_empty();
        if lacks("verbs") {
            errors.push(FieldError::required(at("verbs"), "verbs must contain at least one value"));
        }
        if !lacks("nonResourceURLs") {
            let mut wrong = |why: &str| {
                errors.push(FieldError::invalid(at("nonResourceURLs"), rule["nonResourceURLs"].clone(), why));
            };
            if namespaced {
                wrong("namespaced rules cannot apply to non-resource URLs");
            }
            if !(lacks("apiGroups") && lacks("resources") && lacks("resourceNames")) {
                wrong("rules cannot apply to both regular resources and non-resource URLs");
            }
            continue;
        }
        if lacks("apiGroups") {
            errors.push(FieldError::required(at("apiGroups"), "resource rules must supply at least one api group"));
        }
        if lacks("resources") {
            errors.push(FieldError::required(at("resources"), "resource rules must supply at least one resource"));
        }
    }
    errors
}

fn binding_default(binding: &mut Object) {
    if let Some(Value::Object(role)) = binding.0.get_mut("roleRef")
        && role.get("apiGroup").and_then(Value::as_str).unwrap_or_default().is_empty()
    {
        role.insert("apiGroup".into(), RBAC.into());
    }
    let Some(Value::Array(subjects)) = binding.0.get_mut("subjects") else { return };
    for subject in subjects.iter_mut().filter_map(Value::as_object_mut) {
        let group = subject.get("apiGroup").and_then(Value::as_str).unwrap_or_default();
        let person = matches!(subject.get("kind").and_then(Value::as_str), Some("User" | "Group"));
        if group.is_empty() && person {
            subject.insert("apiGroup".into(), RBAC.into());
        }
    }
}

fn binding(binding: &Object, namespaced: bool) -> FieldErrors {
    let mut errors = Vec::new();
    let missing = json!({});
    let role = binding.0.get("roleRef").unwrap_or(&missing);
    if text(role, "apiGroup") != RBAC {
        errors.push(FieldError::not_supported("roleRef.apiGroup", text(role, "apiGroup"), &[RBAC]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&text(role, "kind")) {
        errors.push(FieldError::not_supported("roleRef.kind", text(role, "kind"), kinds));
    }
    match text(role, "name") {
        "" => errors.push(FieldError::required("roleRef.name", "")),
        value => {
            let wrong = name::path_segment(value);
            errors.extend(wrong.into_iter().map(|m| FieldError::invalid("roleRef.name", value, m)));
        }
    }
    for (i, subject) in field(binding, "subjects").iter().enumerate() {
        self::subject(subject, namespaced, &format!("subjects[{i}]"), &mut errors);
    }
    errors
}

fn subject(subject: &Value, namespaced: bool, at: &str, errors: &mut FieldErrors) {
    let (kind, group, called) = (text(subject, "kind"), text(subject, "apiGroup"), text(subject, "name"));
    if called.is_empty() {
        errors.push(FieldError::required(format!("{at}.name"), ""));
    }
    match kind {
        "ServiceAccount" => {
            if !called.is_empty() {
                let wrong = metadata::subdomain(called, false);
                errors.extend(wrong.into_iter().map(|m| FieldError::invalid(format!("{at}.name"), called, m)));
            }
            if !group.is_empty() {
                errors.push(FieldError::not_supported(format!("{at}.apiGroup"), group, &[""]));
            }
            if !namespaced && text(subject, "namespace").is_empty() {
                errors.push(FieldError::required(format!("{at}.namespace"), ""));
            }
        }
        "User" | "Group" if group != RBAC => {
            errors.push(FieldError::not_supported(format!("{at}.apiGroup"), group, &[RBAC]));
        }
        "User" | "Group" => {}
        other => {
            let supported = ["ServiceAccount", "User", "Group"];
            errors.push(FieldError::not_supported(format!("{at}.kind"), other, &supported));
        }
    }
}

/// Another role is another binding: whoever could change it could be surprised by what the subjects were told.
fn same_role(new: &Object, old: &Object) -> FieldErrors {
    if new.0.get("roleRef") == old.0.get("roleRef") {
        return Vec::new();
    }
    let missing = json!({});
    let role = new.0.get("roleRef").unwrap_or(&missing);
    let shown = json!({"APIGroup": text(role, "apiGroup"), "Kind": text(role, "kind"), "Name": text(role, "name")});
    vec![FieldError::invalid("roleRef", shown, "cannot change roleRef")]
}

const BINDING_COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Role", "string"),
    AGE,
    Column::new("Users", "string").wide(),
    Column::new("Groups", "string").wide(),
    Column::new("ServiceAccounts", "string").wide(),
];

fn binding_cells(binding: &Object, now: Timestamp) -> Vec<Value> {
    let missing = json!({});
    let role = binding.0.get("roleRef").unwrap_or(&missing);
    let of = |kind: &str| {
        let subjects = field(binding, "subjects").iter().filter(|s| text(s, "kind") == kind);
        let shown = subjects.map(|s| match (kind, text(s, "namespace")) {
            ("ServiceAccount", namespace) => format!("{namespace}/{}", text(s, "name")),
            _ => text(s, "name").to_owned(),
        });
        Value::from(shown.collect::<Vec<_>>().join(", "))
    };
    let role = format!("{}/{}", text(role, "kind"), text(role, "name"));
    vec![binding.name().into(), role.into(), age(binding, now), of("User"), of("Group"), of("ServiceAccount")]
}
