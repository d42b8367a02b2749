//! The account a member needs for us, as a manifest: no more rights than what is used.

use std::fmt::Write;

use serde_json::{Value, json};

use super::Refused;

/// Where the account is, if nobody says another place.
pub const ACCOUNT_NAMESPACE: &str = "muster-system";
/// Our own account on a member.
pub(crate) const ACCOUNT: &str = "muster";
/// The account whose tokens are lent to people. It is not ours: the member's audit log tells people and muster apart, and deleting it
/// ends every token that was lent, and nothing else. It may ask for no tokens itself, so a token cannot renew itself.
pub(crate) const LENDING: &str = "muster-kubeconfig";

/// What we are to be able to do on a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// See everything but the contents of secrets: lists, logs, events.
    Read,
    /// Also restart, run commands in pods, and deliver applications into namespaces.
    Operate,
}

/// Rights to read. Secrets are left out on purpose; Helm's releases, which are secrets, need [`Access::Operate`].
const READ: &[(&str, &str, &str)] = &[
    (
        "\"\"",
        "namespaces, nodes, pods, pods/log, services, endpoints, events, configmaps, persistentvolumeclaims, persistentvolumes, replicationcontrollers, serviceaccounts, resourcequotas, limitranges",
        "get, list, watch",
    ),
    ("apps", "deployments, replicasets, statefulsets, daemonsets, controllerrevisions", "get, list, watch"),
    ("batch", "jobs, cronjobs", "get, list, watch"),
    ("autoscaling", "horizontalpodautoscalers", "get, list, watch"),
    ("discovery.k8s.io", "endpointslices", "get, list, watch"),
    ("events.k8s.io", "events", "get, list, watch"),
    ("networking.k8s.io", "ingresses, ingressclasses, networkpolicies", "get, list, watch"),
    ("policy", "poddisruptionbudgets", "get, list, watch"),
    ("apiextensions.k8s.io", "customresourcedefinitions", "get, list, watch"),
    ("storage.k8s.io", "storageclasses", "get, list, watch"),
    ("metrics.k8s.io", "pods, nodes", "get, list"),
    ("workload.dmall.com", "appsets, advdeployments", "get, list, watch"),
];

const OPERATE: &[(&str, &str, &str)] = &[
    ("\"\"", "pods/exec, pods/attach, pods/portforward", "create, get"),
    ("\"\"", "pods", "delete"),
    ("\"\"", "pods/eviction", "create"),
    ("\"\"", "secrets", "get, list, watch, create, update, patch, delete"),
    (
        "\"\"",
        "namespaces, services, configmaps, serviceaccounts, persistentvolumeclaims",
        "create, update, patch, delete",
    ),
    ("apps", "deployments, statefulsets, daemonsets", "create, update, patch, delete"),
    ("\"\"", "replicationcontrollers/scale", "get, update, patch"),
    ("apps", "deployments/scale, statefulsets/scale, replicasets/scale", "get, update, patch"),
    ("batch", "jobs, cronjobs", "create, update, patch, delete"),
    ("autoscaling", "horizontalpodautoscalers", "create, update, patch, delete"),
    ("networking.k8s.io", "ingresses, networkpolicies", "create, update, patch, delete"),
    ("policy", "poddisruptionbudgets", "create, update, patch, delete"),
    ("apiextensions.k8s.io", "customresourcedefinitions", "create, update, patch"),
    ("workload.dmall.com", "advdeployments, advdeployments/status", "create, update, patch, delete"),
];

/// The manifest for `kubectl apply -f -` on the member: an account in a namespace, its role, the binding, and a token that stays; and
/// a second account with the same role, of which the first may have tokens that end, for kubeconfigs that are given out.
pub fn account_manifest(access: Access, namespace: &str) -> Result<String, Refused> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_name = (1..=63).contains(&namespace.len())
        && namespace.chars().all(|c| plain(c) || c == '-')
        && namespace.starts_with(plain)
        && namespace.ends_with(plain);
    if !is_name {
        let remedy = "give at most 63 lower-case letters, digits and dashes, with a letter or digit at both ends";
        return Err(Refused::new("namespace", "is no name of a namespace", remedy));
    }
    let (name, lending) = (ACCOUNT, LENDING);
    // Of the cluster's own objects there is one for each account: two fleets may share a cluster.
    let role = if namespace == ACCOUNT_NAMESPACE { name.to_owned() } else { format!("{name}-{namespace}") };
    let mut text = format!(
        "# Apply this on the cluster (kubectl apply -f -), take the token and the authority, and import it with them:\n\
         #   kubectl -n {namespace} get secret {name}-token -o jsonpath='{{.data.token}}' | base64 -d > token\n\
         #   kubectl -n {namespace} get secret {name}-token -o jsonpath='{{.data.ca\\.crt}}' | base64 -d > ca.crt\n\
         #   muster cluster import NAME --server-url URL --ca ca.crt --service-account-token token\n\
         apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n---\n\
         apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: {name}, namespace: {namespace}}}\n---\n\
         apiVersion: v1\nkind: Secret\ntype: kubernetes.io/service-account-token\nmetadata:\n  name: {name}-token\n  namespace: {namespace}\n  \
         annotations: {{kubernetes.io/service-account.name: {name}}}\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: {role}}}\nrules:\n"
    );
    let more: &[_] = if access == Access::Operate { OPERATE } else { &[] };
    for (group, resources, verbs) in READ.iter().chain(more) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "- {{apiGroups: [{group}], resources: [{resources}], verbs: [{verbs}]}}");
    }
    let _ = write!(
        text,
        "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {{name: {role}}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {role}}}\n\
         subjects:\n- {{kind: ServiceAccount, name: {name}, namespace: {namespace}}}\n\
         - {{kind: ServiceAccount, name: {lending}, namespace: {namespace}}}\n---\n\
         # Whose tokens are lent to people, for an hour or so: muster cluster kubeconfig\n\
         apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: {lending}, namespace: {namespace}}}\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: {lending}, namespace: {namespace}}}\nrules:\n\
         - {{apiGroups: [\"\"], resources: [serviceaccounts/token], verbs: [create], resourceNames: [{lending}]}}\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {{name: {lending}, namespace: {namespace}}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {lending}}}\n\
         subjects: [{{kind: ServiceAccount, name: {name}, namespace: {namespace}}}]\n"
    );
    Ok(text)
}

/// The account whose tokens are lent, with a role of its own, for a member on which we are somebody else: each object with its path.
/// What decides about rights comes first: whoever may not make it leaves nothing behind.
pub(crate) fn lending_account(access: Access, namespace: &str) -> Vec<(String, Value)> {
    let name = LENDING;
    let role = if namespace == ACCOUNT_NAMESPACE { name.to_owned() } else { format!("{name}-{namespace}") };
    let words = |list: &str| list.split(", ").map(str::to_owned).collect::<Vec<_>>();
    let more: &[_] = if access == Access::Operate { OPERATE } else { &[] };
    let rules = READ.iter().chain(more).map(|(group, resources, verbs)| {
        json!({"apiGroups": [group.trim_matches('"')], "resources": words(resources), "verbs": words(verbs)})
    });
    let rules: Vec<Value> = rules.collect();
    let (rbac, within) = ("/apis/rbac.authorization.k8s.io/v1", format!("/api/v1/namespaces/{namespace}"));
    vec![
        (
            format!("{rbac}/clusterroles/{role}"),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": role},
                "rules": rules}),
        ),
        (
            format!("{rbac}/clusterrolebindings/{role}"),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": role},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]}),
        ),
        (within.clone(), json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})),
        (
            format!("{within}/serviceaccounts/{name}"),
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents(access: Access) -> Vec<Value> {
        let text = account_manifest(access, ACCOUNT_NAMESPACE).unwrap();
        text.split("---\n").map(|text| serde_saphyr::from_str(text).unwrap()).collect()
    }

    #[test]
    fn the_manifest_is_an_account_with_a_role_and_a_token() {
        // MAE-7
        let kinds: Vec<String> =
            documents(Access::Read).iter().map(|d| d["kind"].as_str().unwrap().to_owned()).collect();
        let ours = ["Namespace", "ServiceAccount", "Secret", "ClusterRole", "ClusterRoleBinding"];
        assert_eq!(kinds, [&ours[..], &["ServiceAccount", "Role", "RoleBinding"]].concat());
    }

    #[test]
    fn nobody_gets_everything_and_a_reader_changes_nothing_and_sees_no_secret() {
        // MAE-7
        for access in [Access::Read, Access::Operate] {
            let text = account_manifest(access, ACCOUNT_NAMESPACE).unwrap();
            assert!(!text.contains('*') && !text.contains("cluster-admin") && !text.contains("impersonate"), "{text}");
        }
        let role = &documents(Access::Read)[3];
        for rule in role["rules"].as_array().unwrap() {
            let verbs: Vec<&str> = rule["verbs"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            assert!(verbs.iter().all(|verb| ["get", "list", "watch"].contains(verb)), "{rule}");
            assert!(!rule["resources"].as_array().unwrap().iter().any(|resource| resource == "secrets"), "{rule}");
        }
    }

    #[test]
    fn what_is_lent_has_the_same_rights_and_cannot_renew_itself() {
        // B-20
        for access in [Access::Read, Access::Operate] {
            let (all, made) = (documents(access), lending_account(access, ACCOUNT_NAMESPACE));
            let subjects = all[4]["subjects"].as_array().unwrap();
            assert_eq!((subjects.len(), &subjects[1]["name"]), (2, &LENDING.into()));
            assert_eq!(made[0].1["rules"], all[3]["rules"]);
            // Only our own account may have its tokens.
            assert_eq!(all[6]["rules"][0]["resourceNames"], json!([LENDING]));
            assert_eq!(
                all[7]["subjects"],
                json!([{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": ACCOUNT_NAMESPACE}])
            );
            assert!(!made[0].1["rules"].to_string().contains("serviceaccounts/token"));
            for (path, object) in &made {
                assert!(path.ends_with(object["metadata"]["name"].as_str().unwrap()), "{path}");
            }
            // Two fleets may share a cluster.
            assert!(lending_account(access, "ops")[0].0.ends_with("/clusterroles/muster-kubeconfig-ops"));
        }
    }

    #[test]
    fn the_account_of_another_namespace_has_a_role_of_its_own() {
        // MAE-7
        let text = account_manifest(Access::Read, "ops").unwrap();
        assert!(text.contains("namespace: ops") && !text.contains(ACCOUNT_NAMESPACE), "{text}");
        assert!(text.contains("kind: ClusterRole, name: muster-ops"), "{text}");
        for bad in ["", "a}", "a\nb", "Ops", "-a", "a.b", &"x".repeat(64)] {
            assert_eq!(account_manifest(Access::Read, bad).unwrap_err().field, "namespace", "{bad}");
        }
    }
}
