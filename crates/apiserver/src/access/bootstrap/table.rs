//! How the default roles and bindings are written down, and the objects they stand for.

use crate::access::RBAC;
use meta::Object;
use serde_json::{Value, json};

pub(super) const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// Verbs, API groups (`core` is the empty one, `url` means the rest are paths), resources or paths; after `@` the names it is about.
pub(super) type Line = (&'static str, &'static str, &'static str);

pub(super) const READ: &str = "get list watch";
pub(super) const WRITE: &str = "create delete deletecollection patch update";
pub(super) const ALL: &str = "create delete deletecollection get list patch update watch";
pub(super) const EVENTS: Line = ("create patch update", "core events.k8s.io", "events");

/// Where the accounts of the system's components are.
const ACCOUNTS: &str = "kube-system";
const CONTROLLER: &str = "system:controller:";

pub(super) struct Role {
    /// Of a Role; a ClusterRole has none.
    namespace: &'static str,
    name: &'static str,
    /// Its rules go into the role of this name.
    feeds: &'static str,
    /// Its rules come from the roles that feed it.
    gathers: bool,
    lines: &'static [Line],
}

pub(super) const fn role(name: &'static str, lines: &'static [Line]) -> Role {
    Role { namespace: "", name, feeds: "", gathers: false, lines }
}

impl Role {
    pub const fn within(self, namespace: &'static str) -> Self {
        Self { namespace, ..self }
    }

    pub const fn feeding(self, feeds: &'static str) -> Self {
        Self { feeds, ..self }
    }

    pub const fn gathering(self) -> Self {
        Self { gathers: true, ..self }
    }

    pub fn object(&self) -> Object {
        let kind = if self.namespace.is_empty() { "ClusterRole" } else { "Role" };
        let mut object = object(kind, self.namespace, self.name, self.feeds);
        if self.gathers {
            let selector = json!({"matchLabels": {aggregation_label(self.name): "true"}});
            object.0.insert("aggregationRule".into(), json!({"clusterRoleSelectors": [selector]}));
        }
        object.0.insert("rules".into(), policy_rules(self.lines));
        object
    }
}

pub(super) struct Binding {
    namespace: &'static str,
    name: &'static str,
    role: &'static str,
    /// `group=`, `user=` or `account=` and a name, any number of them.
    subjects: &'static str,
}

/// To the role of the same name, in the same place.
pub(super) const fn binding(name: &'static str, subjects: &'static str) -> Binding {
    Binding { namespace: "", name, role: name, subjects }
}

impl Binding {
    pub const fn within(self, namespace: &'static str) -> Self {
        Self { namespace, ..self }
    }

    pub const fn to(self, role: &'static str) -> Self {
        Self { role, ..self }
    }

    pub fn object(&self) -> Object {
        let subjects =
            self.subjects.split(' ').filter_map(|text| text.split_once('=')).map(|(kind, name)| match kind {
                "account" => json!({"kind": "ServiceAccount", "name": name, "namespace": ACCOUNTS}),
                "user" => json!({"kind": "User", "apiGroup": RBAC, "name": name}),
                _ => json!({"kind": "Group", "apiGroup": RBAC, "name": name}),
            });
        binding_object(self.namespace, self.name, self.role, subjects.collect())
    }
}

/// What a controller may.
pub(super) fn controller_role(name: &str, lines: &[Line]) -> Object {
    let mut object = object("ClusterRole", "", &format!("{CONTROLLER}{name}"), "");
    object.0.insert("rules".into(), policy_rules(lines));
    object
}

/// A controller's role for the account of its name.
pub(super) fn controller_binding(name: &str) -> Object {
    let role = format!("{CONTROLLER}{name}");
    binding_object("", &role, &role, vec![json!({"kind": "ServiceAccount", "name": name, "namespace": ACCOUNTS})])
}

fn binding_object(namespace: &str, name: &str, role: &str, subjects: Vec<Value>) -> Object {
    let prefix = if namespace.is_empty() { "Cluster" } else { "" };
    let mut binding = object(&format!("{prefix}RoleBinding"), namespace, name, "");
    if !subjects.is_empty() {
        binding.0.insert("subjects".into(), subjects.into());
    }
    binding.0.insert("roleRef".into(), json!({"apiGroup": RBAC, "kind": format!("{prefix}Role"), "name": role}));
    binding
}

fn object(kind: &str, namespace: &str, name: &str, feeds: &str) -> Object {
    let mut labels = json!({"kubernetes.io/bootstrapping": "rbac-defaults"});
    if !feeds.is_empty() {
        labels[aggregation_label(feeds)] = "true".into();
    }
    let mut metadata = json!({"name": name, "labels": labels, "annotations": {AUTO_UPDATE: "true"}});
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    let value = json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata});
    Object::from_value(value).unwrap_or_default()
}

fn aggregation_label(role: &str) -> String {
    format!("{RBAC}/aggregate-to-{role}")
}

fn policy_rules(lines: &[Line]) -> Value {
    lines.iter().map(policy_rule).collect::<Vec<Value>>().into()
}

fn policy_rule((verbs, groups, resources): &Line) -> Value {
    let words = |text: &str| -> Vec<String> {
        text.split(' ').map(|word| if word == "core" { String::new() } else { word.to_owned() }).collect()
    };
    if *groups == "url" {
        return json!({"verbs": words(verbs), "nonResourceURLs": words(resources)});
    }
    let (resources, names) = resources.split_once(" @ ").unwrap_or((resources, ""));
    let mut rule = json!({"verbs": words(verbs), "apiGroups": words(groups), "resources": words(resources)});
    if !names.is_empty() {
        rule["resourceNames"] = words(names).into();
    }
    rule
}
