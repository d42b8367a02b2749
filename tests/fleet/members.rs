//! Members come, change and go as the meta cluster's objects do.
use std::collections::BTreeMap;
use std::sync::Arc;

use fleet::{Access, Allow, Credentials, Fleet, MEMBER, Origin, account_manifest, member_secret};
use futures_util::FutureExt;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{DynamicObject, GroupVersionKind};
use muster_tests::runner::Case;
use muster_tests::{Peer, eventually};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::kit::{authority, care, client, credentials, kubeconfig, object, running};

pub fn cases() -> Vec<Case> {
    muster_tests::cases![members: a_secret_is_a_member_for_as_long_as_it_is_there, a_config_map_as_in_the_seed_is_a_member,
        what_cannot_be_used_is_named_and_harms_nobody, a_service_account_sees_what_its_role_says]
}

/// A fleet that follows one namespace of the peer.
async fn following(peer: &Peer) -> (Fleet, String, tokio_util::sync::DropGuard) {
    let (fleet, namespace, stop) = (Fleet::new(care()), peer.namespace().await, CancellationToken::new());
    let (followed, meta, of, token) = (fleet.clone(), client(peer), namespace.clone(), stop.clone());
    tokio::spawn(async move { followed.follow(meta, Some(&of), token).await });
    fleet.read().await;
    (fleet, namespace, stop.drop_guard())
}

fn secret(name: &str, kubeconfig: &str) -> Secret {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {MEMBER: "true", "zone": "a"}},
        "stringData": {"kubeconfig": kubeconfig}}))
    .unwrap()
}

async fn a_secret_is_a_member_for_as_long_as_it_is_there(peer: &Peer) {
    // SYM-9, SC-10
    let (fleet, namespace, _stop) = following(peer).await;
    let secrets: Api<Secret> = Api::namespaced(client(peer), &namespace);
    let labels = BTreeMap::from([("zone".to_owned(), "a".to_owned())]);
    let imported = member_secret("prod", &credentials(peer, peer.port), Allow::default(), labels);
    secrets.create(&PostParams::default(), &imported).await.unwrap();
    let member = running(&fleet, "prod").await;
    assert!(member.status().version.unwrap().starts_with("v1."), "{:?}", member.status());
    assert!(member.status().latency.is_some());

    let relabel = json!({"metadata": {"labels": {"zone": "b"}}});
    secrets.patch("prod", &PatchParams::default(), &Patch::Merge(&relabel)).await.unwrap();
    eventually("the label is new", || async { member.labels().get("zone").is_some_and(|zone| zone == "b") }).await;
    assert!(Arc::ptr_eq(&member, &fleet.member("prod").unwrap()), "labels are no reason to connect anew");

    secrets.delete("prod", &DeleteParams::default()).await.unwrap();
    eventually("the member is gone", || async { fleet.member("prod").is_none() }).await;
}

async fn a_config_map_as_in_the_seed_is_a_member(peer: &Peer) {
    // SYM-9
    let (fleet, namespace, _stop) = following(peer).await;
    let maps: Api<ConfigMap> = Api::namespaced(client(peer), &namespace);
    let map = json!({"metadata": {"name": "bj5", "labels": {"ClusterOwner": "sym-admin"}},
        "data": {"kubeconfig.yaml": kubeconfig(peer, peer.port), "status": "true"}});
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    running(&fleet, "bj5").await;
    maps.delete("bj5", &DeleteParams::default()).await.unwrap();
    eventually("the member is gone", || async { fleet.member("bj5").is_none() }).await;
}

async fn what_cannot_be_used_is_named_and_harms_nobody(peer: &Peer) {
    // B-13
    let (fleet, namespace, _stop) = following(peer).await;
    let secrets: Api<Secret> = Api::namespaced(client(peer), &namespace);
    secrets.create(&PostParams::default(), &secret("good", &kubeconfig(peer, peer.port))).await.unwrap();
    // The suite's own file names the authority by its path.
    let files = std::fs::read_to_string(peer.kubeconfig()).unwrap();
    secrets.create(&PostParams::default(), &secret("files", &files)).await.unwrap();
    let wrong = kubeconfig(peer, peer.port).replace("suite-admin-token", "wrong-token");
    secrets.create(&PostParams::default(), &secret("stranger", &wrong)).await.unwrap();
    running(&fleet, "good").await;
    eventually("the refusal is known", || async { !fleet.refusals().is_empty() }).await;
    let (origin, refused) = fleet.refusals().remove(0);
    assert_eq!(origin, Origin::Secret(namespace, "files".to_owned()));
    assert_eq!(refused.first().field, "data[kubeconfig].clusters[0].cluster.certificate-authority");
    assert!(fleet.member("files").is_none());
    eventually("the stranger is told why", || async {
        fleet.member("stranger").and_then(|member| member.status().error).is_some_and(|why| why.contains("401"))
    })
    .await;
}

async fn a_service_account_sees_what_its_role_says(peer: &Peer) {
    // MAE-7
    let admin = client(peer);
    for text in account_manifest(Access::Read, "muster-system").unwrap().split("---\n") {
        let object = object(serde_saphyr::from_str(text).unwrap());
        let gvk = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
        let (resource, capabilities) = kube::discovery::pinned_kind(&admin, &gvk).await.unwrap();
        let api: Api<DynamicObject> = match capabilities.scope {
            kube::discovery::Scope::Namespaced => Api::namespaced_with(admin.clone(), "muster-system", &resource),
            kube::discovery::Scope::Cluster => Api::all_with(admin.clone(), &resource),
        };
        let name = object.metadata.name.clone().unwrap();
        let parameters = PatchParams::apply("suite").force();
        api.patch(&name, &parameters, &Patch::Apply(&object)).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "muster-system");
    let request: TokenRequest = serde_json::from_value(json!({"spec": {"audiences": []}})).unwrap();
    let token = accounts.create_token_request("muster", &PostParams::default(), &request).await.unwrap();
    let token = token.status.unwrap().token;
    let server = format!("https://127.0.0.1:{}", peer.port);
    let credentials = Credentials::from_token(&server, &authority(peer), &token, Allow::default()).unwrap();
    let fleet = Fleet::new(care());
    fleet.declare("by-token", Default::default(), fleet::Connection::Credentials(Box::new(credentials)));
    let member = running(&fleet, "by-token").await;
    let pods: Api<Pod> = Api::all(member.client());
    // kube-apiserver takes a moment until the rights count.
    eventually("it may list pods", || async { pods.list(&ListParams::default()).await.is_ok() }).await;
    let secrets: Api<Secret> = Api::all(member.client());
    let refused = secrets.list(&ListParams::default()).map(|listed| listed.unwrap_err()).await;
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 403), "{refused}");
}
