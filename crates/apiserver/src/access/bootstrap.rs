//! The roles and bindings a server starts with, as Kubernetes' own, and the repair of those at every start.
//!
//! Roles of components that do not run here (nodes, scheduler, controller manager and its controllers, DNS, CSR approvers) are left out.

use super::policy::{rule, rules};
use super::{RBAC, aggregate};
use crate::Inner;
use crate::objects::Part;
use crate::ownership::By;
use auth::Rule;
use futures_util::future::{try_join, try_join_all};
use meta::options::DeleteOptions;
use meta::{Object, Reason, Status};
use serde_json::{Value, json};

const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// Verbs, API groups (`core` is the empty one, `url` means the rest are paths), resources or paths.
type Line = (&'static str, &'static str, &'static str);

struct Role {
    name: &'static str,
    /// Its rules go into the role of this name.
    feeds: &'static str,
    /// Its rules come from the roles that feed it.
    gathers: bool,
    lines: &'static [Line],
}

const fn role(name: &'static str, lines: &'static [Line]) -> Role {
    Role { name, feeds: "", gathers: false, lines }
}

const READ: &str = "get list watch";
const WRITE: &str = "create delete deletecollection patch update";
const ALL: &str = "create delete deletecollection get list patch update watch";

#[rustfmt::skip]
const ROLES: &[Role] = &[
    role("cluster-admin", &[("*", "*", "*"), ("*", "url", "*")]),
    role("system:discovery", &[("get", "url", "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/")]),
    role("system:monitoring", &[
        ("get", "url", "/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*"),
        ("get", "core", "nodes/metrics"),
    ]),
    role("system:basic-user", &[
        ("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
        ("create", "authentication.k8s.io", "selfsubjectreviews"),
    ]),
    role("system:public-info-viewer", &[("get", "url", "/healthz /livez /readyz /version /version/")]),
    role("system:auth-delegator", &[
        ("create", "authentication.k8s.io", "tokenreviews"),
        ("create", "authorization.k8s.io", "subjectaccessreviews"),
    ]),
    role("system:service-account-issuer-discovery", &[
        ("get", "url", "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/"),
    ]),
    Role { name: "admin", feeds: "", gathers: true, lines: &[] },
    Role { name: "edit", feeds: "admin", gathers: true, lines: &[] },
    Role { name: "view", feeds: "edit", gathers: true, lines: &[] },
    Role { name: "system:aggregate-to-admin", feeds: "admin", gathers: false, lines: &[
        ("create", "authorization.k8s.io", "localsubjectaccessreviews"),
        (ALL, RBAC, "rolebindings roles"),
    ] },
    Role { name: "system:aggregate-to-edit", feeds: "edit", gathers: false, lines: &[
        (READ, "core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
        ("impersonate", "core", "serviceaccounts"),
        (WRITE, "core", "pods pods/attach pods/exec pods/portforward pods/proxy"),
        ("create", "core", "pods/eviction"),
        (WRITE, "core", "configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets serviceaccounts services services/proxy"),
        ("create", "core", "serviceaccounts/token"),
        (WRITE, "apps", "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale"),
        (WRITE, "autoscaling", "horizontalpodautoscalers"),
        (WRITE, "batch", "cronjobs jobs"),
        (WRITE, "extensions", "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets replicasets/scale replicationcontrollers/scale"),
        (WRITE, "policy", "poddisruptionbudgets"),
        (WRITE, "networking.k8s.io", "ingresses networkpolicies"),
        (ALL, "coordination.k8s.io", "leases"),
        (WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
    ] },
    Role { name: "system:aggregate-to-view", feeds: "view", gathers: false, lines: &[
        (READ, "core", "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status"),
        (READ, "core", "bindings events limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas resourcequotas/status"),
        (READ, "core", "namespaces"),
        (READ, "discovery.k8s.io", "endpointslices"),
        (READ, "apps", "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status"),
        (READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
        (READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
        (READ, "extensions", "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale"),
        (READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
        (READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
        (READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
    ] },
];

/// A role, under its own name, to groups.
const BINDINGS: &[(&str, &[&str])] = &[
    ("cluster-admin", &[auth::MASTERS]),
    ("system:monitoring", &["system:monitoring"]),
    ("system:discovery", &[auth::AUTHENTICATED]),
    ("system:basic-user", &[auth::AUTHENTICATED]),
    ("system:public-info-viewer", &[auth::AUTHENTICATED, auth::UNAUTHENTICATED]),
    ("system:service-account-issuer-discovery", &[auth::SERVICE_ACCOUNTS]),
];

/// Makes what is missing and gives back what was taken from the defaults, unless they are marked to be left alone.
pub(crate) async fn reconcile(api: &Inner) -> Result<(), Status> {
    // All at once: the store commits them as one group.
    let roles = ROLES.iter().map(|role| settle(api, "clusterroles", role.object(), repair_role));
    let bindings =
        BINDINGS.iter().map(|(name, groups)| settle(api, "clusterrolebindings", binding(name, groups), repair_binding));
    try_join(try_join_all(roles), try_join_all(bindings)).await?;
    aggregate::settle(api).await
}

fn binding(name: &str, groups: &[&str]) -> Object {
    let subjects: Vec<Value> =
        groups.iter().map(|group| json!({"kind": "Group", "apiGroup": RBAC, "name": group})).collect();
    let mut binding = object("ClusterRoleBinding", name, "");
    binding.0.insert("subjects".into(), subjects.into());
    binding.0.insert("roleRef".into(), json!({"apiGroup": RBAC, "kind": "ClusterRole", "name": name}));
    binding
}

async fn settle(api: &Inner, plural: &str, wanted: Object, repair: fn(&mut Object, &Object)) -> Result<(), Status> {
    let Some(kind) = api.kind(RBAC, "v1", plural) else { return Ok(()) };
    let name = wanted.name().to_owned();
    let current = api.store.get(&kind.key("", &name));
    if let Some(entry) = current {
        let current = api.decode_stored(&kind, &entry.value, entry.revision)?;
        if annotation(&current, AUTO_UPDATE) == Some("false") {
            return Ok(());
        }
        if current.0.get("roleRef") == wanted.0.get("roleRef") {
            let repaired = api.update(&kind, "", &name, Part::Main, &By::SERVER, |current| {
                let mut desired = current.clone();
                repair_metadata(&mut desired, &wanted);
                repair(&mut desired, &wanted);
                Ok(desired)
            });
            return match repaired.await {
                Err(s) if s.reason != Reason::NotFound => Err(s),
                _ => Ok(()),
            };
        }
        // A binding to another role cannot be changed back, only made anew.
        match api.delete(&kind, "", &name, &DeleteOptions::default()).await {
            Err(s) if s.reason != Reason::NotFound => return Err(s),
            _ => {}
        }
    }
    match api.create(&kind, "", wanted, &By::SERVER).await {
        Err(s) if s.reason != Reason::AlreadyExists => Err(s),
        _ => Ok(()),
    }
}

fn annotation<'a>(object: &'a Object, key: &str) -> Option<&'a str> {
    object.meta().get("annotations")?.get(key)?.as_str()
}

fn repair_metadata(desired: &mut Object, wanted: &Object) {
    for part in ["labels", "annotations"] {
        let Some(Value::Object(defaults)) = wanted.meta().get(part).cloned() else { continue };
        let own = desired.meta_mut().entry(part).or_insert_with(|| json!({}));
        if let Value::Object(own) = own {
            for (key, value) in defaults {
                own.entry(key).or_insert(value);
            }
        }
    }
}

/// Rights that were taken away come back; rights that were added stay.
fn repair_role(desired: &mut Object, wanted: &Object) {
    if let Some(aggregation) = wanted.0.get("aggregationRule") {
        desired.0.entry("aggregationRule").or_insert_with(|| aggregation.clone());
        return;
    }
    let held = rules(desired);
    let defaults = wanted.0.get("rules").and_then(Value::as_array).cloned().unwrap_or_default();
    let lost: Vec<Value> =
        defaults.into_iter().filter(|value| !Rule::all_covered(&held, std::slice::from_ref(&rule(value)))).collect();
    if lost.is_empty() {
        return;
    }
    match desired.0.get_mut("rules") {
        Some(Value::Array(own)) => own.extend(lost),
        _ => drop(desired.0.insert("rules".into(), lost.into())),
    }
}

fn repair_binding(desired: &mut Object, wanted: &Object) {
    let defaults = wanted.0.get("subjects").and_then(Value::as_array).cloned().unwrap_or_default();
    let own = desired.0.entry("subjects").or_insert_with(|| json!([]));
    if let Value::Array(own) = own {
        let lost: Vec<Value> = defaults.into_iter().filter(|subject| !own.contains(subject)).collect();
        own.extend(lost);
    }
}

fn object(kind: &str, name: &str, feeds: &str) -> Object {
    let mut labels = json!({"kubernetes.io/bootstrapping": "rbac-defaults"});
    if !feeds.is_empty() {
        labels[aggregation_label(feeds)] = "true".into();
    }
    let value = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": kind,
        "metadata": {"name": name, "labels": labels, "annotations": {AUTO_UPDATE: "true"}},
    });
    Object::from_value(value).unwrap_or_default()
}

fn aggregation_label(role: &str) -> String {
    format!("{RBAC}/aggregate-to-{role}")
}

impl Role {
    fn object(&self) -> Object {
        let mut object = object("ClusterRole", self.name, self.feeds);
        if self.gathers {
            let selector = json!({"matchLabels": {aggregation_label(self.name): "true"}});
            object.0.insert("aggregationRule".into(), json!({"clusterRoleSelectors": [selector]}));
        }
        let rules: Vec<Value> = self.lines.iter().map(policy_rule).collect();
        object.0.insert("rules".into(), rules.into());
        object
    }
}

fn policy_rule((verbs, groups, resources): &Line) -> Value {
    let words = |text: &str| -> Vec<String> {
        text.split(' ').map(|word| if word == "core" { String::new() } else { word.to_owned() }).collect()
    };
    match *groups {
        "url" => json!({"verbs": words(verbs), "nonResourceURLs": words(resources)}),
        groups => json!({"verbs": words(verbs), "apiGroups": words(groups), "resources": words(resources)}),
    }
}
