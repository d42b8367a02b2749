//! The account that muster describes for a cluster: with its token everything that is offered works, and nothing else does.
use muster_tests::runner::Case;
use muster_tests::{Peer, cases, eventually};
use muster_tests_gateway::{Face, refused};
use serde_json::{Value, json};

use crate::imported::following;
use crate::stage::{silent, until, until_known};

pub fn all() -> Vec<Case> {
    cases![account: a_reader_sees_all_but_secrets_and_changes_nothing, an_operator_does_what_is_offered_and_no_more]
}

const READ: &[&str] = &[
    "core/v1/namespaces",
    "core/v1/nodes",
    "core/v1/pods",
    "core/v1/services",
    "core/v1/endpoints",
    "core/v1/events",
    "core/v1/configmaps",
    "core/v1/persistentvolumeclaims",
    "core/v1/persistentvolumes",
    "core/v1/replicationcontrollers",
    "core/v1/serviceaccounts",
    "core/v1/resourcequotas",
    "core/v1/limitranges",
    "apps/v1/deployments",
    "apps/v1/replicasets",
    "apps/v1/statefulsets",
    "apps/v1/daemonsets",
    "apps/v1/controllerrevisions",
    "batch/v1/jobs",
    "batch/v1/cronjobs",
    "autoscaling/v2/horizontalpodautoscalers",
    "discovery.k8s.io/v1/endpointslices",
    "networking.k8s.io/v1/ingresses",
    "networking.k8s.io/v1/ingressclasses",
    "networking.k8s.io/v1/networkpolicies",
    "policy/v1/poddisruptionbudgets",
    "apiextensions.k8s.io/v1/customresourcedefinitions",
    "storage.k8s.io/v1/storageclasses",
];

/// What decides about rights and what runs for everybody is nobody's business.
const NEVER: &[&str] = &[
    "rbac.authorization.k8s.io/v1/clusterroles",
    "rbac.authorization.k8s.io/v1/clusterrolebindings",
    "rbac.authorization.k8s.io/v1/roles",
    "coordination.k8s.io/v1/leases",
];

struct Imported {
    name: String,
    space: String,
    token: String,
}

/// Makes the account as the manifest says, in a namespace of its own.
async fn describe(face: &Face, peer: &Peer, space: &str, access: &str) {
    let manifest = face.get(&format!("/wapi/v1/member-role?access={access}&namespace={space}")).await;
    assert_eq!((manifest.status, manifest.header("content-type")), (200, "application/yaml"));
    let manifest = manifest.text();
    let cluster = format!("muster-{space}");
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    for document in manifest.split("---\n") {
        let kind = document.lines().find_map(|line| line.strip_prefix("kind: ")).unwrap();
        let name = document.split("name: ").nth(1).unwrap().split([',', '}', '\n']).next().unwrap();
        let within = format!("/api/v1/namespaces/{space}");
        let path = match kind {
            "Namespace" => within,
            "ServiceAccount" => format!("{within}/serviceaccounts/{name}"),
            "Secret" => format!("{within}/secrets/{name}"),
            "ClusterRole" => format!("{rbac}/clusterroles/{cluster}"),
            "ClusterRoleBinding" => format!("{rbac}/clusterrolebindings/{cluster}"),
            "Role" => format!("{rbac}/namespaces/{space}/roles/{name}"),
            "RoleBinding" => format!("{rbac}/namespaces/{space}/rolebindings/{name}"),
            other => panic!("{other}"),
        };
        let call = peer.call("PATCH", &format!("{path}?fieldManager=suite&force=true"));
        let answer = call.body(document.to_owned()).media("application/apply-patch+yaml").send().await;
        assert!(matches!(answer.status, 200 | 201), "{kind}: {}", answer.text());
    }
    let who = |account: &str| format!("system:serviceaccount:{space}:{account}");
    let lend = json!({"verb": "create", "resource": "serviceaccounts", "subresource": "token", "name": "muster-kubeconfig", "namespace": space});
    peer.allows(&who("muster"), lend).await;
    for account in ["muster", "muster-kubeconfig"] {
        peer.allows(&who(account), json!({"verb": "list", "resource": "pods"})).await;
    }
}

/// Imports the peer by the token of the account alone.
async fn import(face: &Face, peer: &Peer, access: &str) -> Imported {
    let space = peer.namespace().await;
    describe(face, peer, &space, access).await;
    let accounts = format!("/api/v1/namespaces/{space}/serviceaccounts/muster/token");
    let token = peer.post(&accounts, json!({})).await.ok(201)["status"]["token"].as_str().unwrap().to_owned();
    let ca = std::fs::read_to_string(peer.ca_file()).unwrap();
    let name = format!("least-{access}");
    let body = json!({"name": name, "server": format!("https://127.0.0.1:{}", peer.port), "ca": ca, "token": token});
    face.post("/apis/zcloud.cn/v1/clusters?action=import", body).await.ok(201);
    until(face, &format!("/api/cluster/{name}"), |page| page["items"][0]["state"] == "Running").await;
    until_known(face, &name).await;
    Imported { name, space, token }
}

/// Whether a list came from the cluster, and was not refused by it.
fn answered(page: &Value) -> bool {
    page["unanswered"] == json!([])
}

async fn lists(face: &Face, name: &str) {
    for kind in READ {
        until(face, &format!("/api/cluster/{name}/resources/{kind}"), answered).await;
    }
    for path in ["appPod/all", "endpoints/all", "deployments/stat"] {
        until(face, &format!("/api/cluster/{name}/{path}"), answered).await;
    }
    until(face, &format!("/wapi/v1/events?cluster={name}"), answered).await;
    for kind in NEVER {
        let path = format!("/api/cluster/{name}/resources/{kind}");
        until(face, &path, |page| silent(page).iter().any(|(_, why)| why.contains("forbidden"))).await;
    }
}

/// What is lent to people is another account's, which has the same rights, cannot renew itself and ends with its account.
async fn lends(face: &Face, peer: &Peer, one: &Imported, secrets: u16) {
    let Imported { name, space, token } = one;
    let path = format!("/apis/zcloud.cn/v1/clusters/{name}?action=getkubeconfig");
    let given = face.call("POST", &format!("{path}&ttlSeconds=1200")).send().await.ok(200);
    let account = format!("system:serviceaccount:{space}:muster-kubeconfig");
    assert_eq!((&given["account"], &given["longLived"]), (&json!(account), &json!(false)), "{given}");
    let kubeconfig: Value = serde_json::from_str(given["kubeconfig"].as_str().unwrap()).unwrap();
    let lent = kubeconfig["users"][0]["user"]["token"].as_str().unwrap();
    assert!(!kubeconfig.to_string().contains(token.as_str()), "our own token is not given out");
    let code = async |method, path: &str| {
        let call = peer.call(method, path).token(Some(lent));
        let call = if method == "POST" { call.body(json!({})) } else { call };
        call.send().await.status
    };
    assert_eq!((code("GET", "/api/v1/pods").await, code("GET", "/api/v1/secrets").await), (200, secrets));
    for account in ["muster", "muster-kubeconfig"] {
        let renew = format!("/api/v1/namespaces/{space}/serviceaccounts/{account}/token");
        assert_eq!(code("POST", &renew).await, 403, "{account}");
    }
    let kept = face.call("POST", &format!("{path}&longLived=true")).send().await.ok(200);
    assert!(kept["longLived"] == true && kept["kubeconfig"].as_str().unwrap().contains(token.as_str()));
    // Without its account it is nobody, and there is no other, which is told.
    peer.delete(&format!("/api/v1/namespaces/{space}/serviceaccounts/muster-kubeconfig")).await.ok(200);
    // kube-apiserver believes a token for ten seconds.
    eventually("the token has ended", || async { code("GET", "/api/v1/pods").await == 401 }).await;
    let problem = refused(&face.call("POST", &path).send().await, 409);
    assert_eq!(problem["reason"], "NoAccount", "{problem}");
    assert!(problem["message"].as_str().unwrap().contains(&format!("{space}/muster-kubeconfig")), "{problem}");
    // Our account there has no right to make it anew: whoever looks after the cluster does.
    forbidden(&face.call("POST", &format!("{path}&createAccount=read")).send().await);
    refused(&face.call("POST", &path).send().await, 409);
}

/// It is muster's account there that may not, and the caller is told so.
fn forbidden(answer: &muster_tests::Answer) {
    let problem = refused(answer, 502);
    assert_eq!(problem["reason"], "ClusterRefused", "{problem}");
    assert!(problem["message"].as_str().unwrap().contains("member-role"), "{problem}");
}

// MAE-7, SC-10
async fn a_reader_sees_all_but_secrets_and_changes_nothing(peer: &Peer) {
    let (face, _fleet, stop) = following(peer).await;
    let imported = import(&face, peer, "read").await;
    lends(&face, peer, &imported, 403).await;
    let Imported { name, space, token } = imported;
    lists(&face, &name).await;
    let objects = format!("/api/cluster/{name}/resources/core/v1/namespaces/{space}");
    assert_eq!(face.get(&format!("{objects}/serviceaccounts/muster")).await.ok(200)["cluster"], json!(name));
    refused(&face.get(&format!("/api/cluster/{name}/namespace/{space}/pods/nobody/logs")).await, 404);
    // Secrets, and with them what Helm keeps.
    for path in ["resources/core/v1/secrets", "appPod/all/helm"] {
        let refused = |page: &Value| silent(page).iter().any(|(_, why)| why.contains("forbidden"));
        until(&face, &format!("/api/cluster/{name}/{path}"), refused).await;
    }
    forbidden(&face.get(&format!("{objects}/secrets/muster-token")).await);
    let put = face.call("PUT", &format!("{objects}/configmaps/settings")).json(json!({"data": {"a": "b"}}));
    forbidden(&put.send().await);
    forbidden(&face.call("DELETE", &format!("{objects}/serviceaccounts/muster")).send().await);
    let exec = format!("/api/cluster/{name}/exec?namespace={space}&pod=nobody&command=id");
    forbidden(&face.call("POST", &exec).send().await);
    // Nor does whoever steals the token become somebody else.
    let posing = peer.call("GET", "/api/v1/secrets").token(Some(&token)).header("impersonate-user", "admin");
    assert_eq!(posing.send().await.status, 403);
    face.call("DELETE", &format!("/apis/zcloud.cn/v1/clusters/{name}")).send().await.ok(200);
    stop.cancel();
}

// MAE-7, SYM-13
async fn an_operator_does_what_is_offered_and_no_more(peer: &Peer) {
    let (face, _fleet, stop) = following(peer).await;
    let imported = import(&face, peer, "operate").await;
    lends(&face, peer, &imported, 200).await;
    let Imported { name, space, token } = imported;
    lists(&face, &name).await;
    for path in ["resources/core/v1/secrets", "appPod/all/helm"] {
        until(&face, &format!("/api/cluster/{name}/{path}"), answered).await;
    }
    // Every kind an application is made of, made and taken away.
    let objects = format!("/api/cluster/{name}/resources");
    let labels = json!({"app": "web"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    let workload = json!({"selector": {"matchLabels": labels}, "template": template});
    let mut stateful = workload.clone();
    stateful["serviceName"] = "web".into();
    let once = json!({"metadata": {}, "spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}});
    let scaled =
        json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 2});
    let made = [
        ("core/v1", "configmaps", json!({"data": {"a": "b"}})),
        ("core/v1", "secrets", json!({"stringData": {"a": "b"}})),
        ("core/v1", "serviceaccounts", json!({})),
        ("core/v1", "services", json!({"spec": {"selector": labels, "ports": [{"port": 80}]}})),
        (
            "core/v1",
            "persistentvolumeclaims",
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
        ),
        ("apps/v1", "deployments", json!({"metadata": {"labels": labels}, "spec": workload})),
        ("apps/v1", "statefulsets", json!({"spec": stateful})),
        ("apps/v1", "daemonsets", json!({"spec": workload})),
        ("batch/v1", "jobs", json!({"spec": {"template": once}})),
        (
            "batch/v1",
            "cronjobs",
            json!({"spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": once}}}}),
        ),
        ("autoscaling/v2", "horizontalpodautoscalers", json!({"spec": scaled})),
        ("networking.k8s.io/v1", "networkpolicies", json!({"spec": {"podSelector": {}}})),
        (
            "policy/v1",
            "poddisruptionbudgets",
            json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}}),
        ),
    ];
    for (api, plural, body) in &made {
        let path = format!("{objects}/{api}/namespaces/{space}/{plural}/web");
        face.call("PUT", &path).json(body.clone()).send().await.ok(200);
    }
    for plural in ["deployments", "statefulsets"] {
        let root = format!("{objects}/apps/v1/namespaces/{space}/{plural}/web");
        let scaled = face.post(&format!("{root}/scale"), json!({"replicas": 2})).await.ok(200);
        assert_eq!(scaled["spec"]["replicas"], 2, "{scaled}");
        face.call("POST", &format!("{root}/restart")).send().await.ok(200);
    }
    let pods = format!("/api/v1/namespaces/{space}/pods");
    let pod = json!({"metadata": {"name": "lone"}, "spec": {"containers": [{"name": "c", "image": "x"}], "automountServiceAccountToken": false}});
    // A bare apiserver makes no default account, and wants one for pods.
    let _ = peer
        .post(&format!("/api/v1/namespaces/{space}/serviceaccounts"), json!({"metadata": {"name": "default"}}))
        .await;
    peer.post(&pods, pod).await.ok(201);
    for path in [format!("exec?namespace={space}&pod=lone&command=id"), format!("namespace/{space}/pods/lone/logs")] {
        // There is no node to run it: that is said, and not that we may not.
        let answer = face.get(&format!("/api/cluster/{name}/{path}")).await;
        assert!(!answer.text().contains("ClusterRefused"), "{}", answer.text());
    }
    face.call("DELETE", &format!("{objects}/core/v1/namespaces/{space}/pods/lone")).send().await.ok(200);
    until(&face, &format!("/api/cluster/{name}/deployments/stat?namespace={space}"), |page| page["count"] == 1).await;
    let restart = format!("/api/cluster/{name}/namespace/{space}/app/web/restart");
    let done = face.call("POST", &restart).send().await.ok(200);
    assert!(done["failed"] == json!([]) && !done["restarted"].as_array().unwrap().is_empty(), "{done}");
    for (api, plural, _) in made.iter().rev() {
        face.call("DELETE", &format!("{objects}/{api}/namespaces/{space}/{plural}/web")).send().await.ok(200);
    }
    // Rights, nodes and what watches over everything stay the cluster's own.
    for (path, body) in [
        ("core/v1/nodes/worker".to_owned(), json!({"spec": {"unschedulable": true}})),
        ("rbac.authorization.k8s.io/v1/clusterroles/muster".to_owned(), json!({"rules": []})),
        (format!("rbac.authorization.k8s.io/v1/namespaces/{space}/roles/muster"), json!({"rules": []})),
        (format!("core/v1/namespaces/{space}/resourcequotas/web"), json!({"spec": {"hard": {"pods": "1"}}})),
    ] {
        forbidden(&face.call("PUT", &format!("{objects}/{path}")).json(body).send().await);
    }
    let posing = peer.call("GET", "/api/v1/nodes").token(Some(&token)).header("impersonate-user", "admin");
    assert_eq!(posing.send().await.status, 403);
    face.call("DELETE", &format!("/apis/zcloud.cn/v1/clusters/{name}")).send().await.ok(200);
    stop.cancel();
}
