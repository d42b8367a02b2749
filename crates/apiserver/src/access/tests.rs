use super::{RBAC, aggregate, bootstrap};
use crate::objects::Part;
use crate::ownership::By;
use crate::{Api, Inner, Options, describe, namespaces};
use auth::{Authenticator, Authorizer, Issuer, IssuerOptions, Peer, SigningKeys, User};
use http::Request;
use http_body_util::{BodyExt, Full};
use meta::Object;
use serde_json::{Value, json};
use std::sync::Arc;
use store::Store;

async fn api() -> Api {
    let keys = SigningKeys::parse(SigningKeys::generate().unwrap().as_bytes(), &[]).unwrap();
    let issuer = Issuer::new(IssuerOptions { issuer: "https://test".into(), audiences: Vec::new(), keys });
    let options = auth::Options { issuer: Some(Arc::new(issuer)), ..auth::Options::default() };
    let store = Store::memory(store::Options { describe: describe(), tick: None, ..store::Options::default() });
    let api = Api::new(store, Options::new(Authenticator::new(options).unwrap(), Authorizer::new()));
    namespaces::ensure_system(&api.inner).await.unwrap();
    bootstrap::reconcile(&api.inner).await.unwrap();
    api
}

async fn ask(api: &Api, who: &str, method: &str, path: &str, body: Value) -> (u16, Value) {
    let user = if who == "root" { User::admin() } else { User::authenticated(who, "", []) };
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let mut request = request.body(Full::<bytes::Bytes>::from(body)).unwrap();
    request.extensions_mut().insert(Peer::in_process(user));
    let response = api.handle(request).await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

fn stored(api: &Inner, plural: &str, name: &str) -> Object {
    let kind = api.kind(RBAC, "v1", plural).unwrap();
    let entry = api.store.get(&kind.key("", name)).unwrap();
    api.decode_stored(&kind, &entry.value, entry.revision).unwrap()
}

async fn change(api: &Inner, plural: &str, name: &str, with: impl Fn(&mut Object)) {
    let kind = api.kind(RBAC, "v1", plural).unwrap().clone();
    let changed = api.update(&kind, "", name, Part::Main, &By::SERVER, |current| {
        let mut desired = current.clone();
        with(&mut desired);
        Ok(desired)
    });
    changed.await.unwrap();
}

const VIEWERS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

fn viewer(name: &str) -> Value {
    let role = json!({"kind": "ClusterRole", "name": "system:aggregate-to-view"});
    json!({"metadata": {"name": name}, "roleRef": role, "subjects": [{"kind": "User", "name": name}]})
}

#[tokio::test]
async fn the_policy_survives_a_history_that_was_forgotten() {
    let api = api().await;
    let lists = async |who: &str| ask(&api, who, "GET", "/api/v1/configmaps", Value::Null).await.0 == 200;
    assert!(!lists("ann").await);
    assert_eq!(ask(&api, "root", "POST", VIEWERS, viewer("ann")).await.0, 201);
    assert_eq!(ask(&api, "root", "POST", VIEWERS, viewer("bob")).await.0, 201);
    assert_eq!(ask(&api, "root", "DELETE", &format!("{VIEWERS}/bob"), Value::Null).await.0, 200);
    // The follower's cursors fall off: it must not go on with what it knew.
    api.inner.store.compact(api.inner.store.revision()).await.unwrap();
    assert!(lists("ann").await);
    assert!(!lists("bob").await);
    assert_eq!(ask(&api, "root", "DELETE", &format!("{VIEWERS}/ann"), Value::Null).await.0, 200);
    assert!(!lists("ann").await);
}

#[tokio::test]
async fn another_servers_start_changes_nothing_that_is_right() {
    let api = api().await;
    let before = api.inner.store.revision();
    bootstrap::reconcile(&api.inner).await.unwrap();
    aggregate::settle(&api.inner).await.unwrap();
    assert_eq!(api.inner.store.revision(), before);
    // Who starts finds the gathered roles filled, the longest chain included.
    let rules = |name: &str| stored(&api.inner, "clusterroles", name).0["rules"].as_array().unwrap().clone();
    let viewed = rules("system:aggregate-to-view");
    assert!(!viewed.is_empty() && viewed.iter().all(|rule| rules("admin").contains(rule)));
}

#[tokio::test]
async fn defaults_get_back_what_was_taken_and_keep_what_was_added() {
    let api = api().await;
    let inner = &api.inner;
    let extra = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["extra"]});
    change(inner, "clusterroles", "system:basic-user", |role| {
        role.0.insert("rules".into(), json!([extra]));
    })
    .await;
    let own = json!({"kind": "User", "apiGroup": RBAC, "name": "ann"});
    change(inner, "clusterrolebindings", "system:discovery", |binding| {
        binding.0.insert("subjects".into(), json!([own]));
        binding.meta_mut().remove("labels");
    })
    .await;
    change(inner, "clusterroles", "system:auth-delegator", |role| {
        role.0.insert("rules".into(), json!([]));
        role.meta_mut().insert("annotations".into(), json!({"rbac.authorization.kubernetes.io/autoupdate": "false"}));
    })
    .await;
    // A binding whose role was changed (delete and create) is made anew.
    let path = format!("{VIEWERS}/system:basic-user");
    assert_eq!(ask(&api, "root", "DELETE", &path, Value::Null).await.0, 200);
    assert_eq!(ask(&api, "root", "POST", VIEWERS, viewer("system:basic-user")).await.0, 201);

    bootstrap::reconcile(inner).await.unwrap();
    let rules = stored(inner, "clusterroles", "system:basic-user").0["rules"].as_array().unwrap().clone();
    assert_eq!(rules.len(), 3);
    assert_eq!(rules[0], extra);
    let binding = stored(inner, "clusterrolebindings", "system:discovery");
    let subjects = binding.0["subjects"].as_array().unwrap();
    assert_eq!((subjects.len(), &subjects[0]), (2, &own));
    assert!(binding.labels().any(|(key, _)| key == "kubernetes.io/bootstrapping"));
    assert!(stored(inner, "clusterroles", "system:auth-delegator").0["rules"].is_null());
    let binding = stored(inner, "clusterrolebindings", "system:basic-user");
    assert_eq!(binding.0["roleRef"]["name"], "system:basic-user");
}

#[tokio::test]
async fn an_update_that_creates_takes_the_right_to_create() {
    let api = api().await;
    let rules = json!([{"verbs": ["update"], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}]);
    let path = format!("/apis/{RBAC}/v1/clusterroles");
    assert_eq!(ask(&api, "root", "POST", &path, json!({"metadata": {"name": "up"}, "rules": rules})).await.0, 201);
    let role = json!({"kind": "ClusterRole", "name": "up"});
    let binding = json!({"metadata": {"name": "up"}, "roleRef": role, "subjects": [{"kind": "User", "name": "ann"}]});
    assert_eq!(ask(&api, "root", "POST", VIEWERS, binding).await.0, 201);
    let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let body = json!({"metadata": {"name": "l"}});
    let (code, status) = ask(&api, "ann", "PUT", lease, body.clone()).await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        "leases.coordination.k8s.io \"l\" is forbidden: User \"ann\" cannot create resource \"leases\" in API group \
         \"coordination.k8s.io\" in the namespace \"default\""
    );
    let (_, made) = ask(&api, "root", "PUT", lease, body).await;
    assert_eq!(ask(&api, "ann", "PUT", lease, made).await.0, 200);
}

#[tokio::test]
async fn paths_are_judged_as_they_are_served() {
    // B-5: an escaped letter neither hides a path from the rules nor opens another one.
    let api = api().await;
    assert_eq!(ask(&api, "ann", "GET", "/ap%69", Value::Null).await.0, 200);
    assert_eq!(ask(&api, "ann", "GET", "/m%65trics", Value::Null).await.0, 403);
    assert_eq!(ask(&api, "ann", "GET", "/api/%2e%2e/metrics", Value::Null).await.0, 400);
    let (code, _) = ask(&api, "ann", "GET", "/api/v1/namespaces/default/%73ecrets", Value::Null).await;
    assert_eq!(code, 403);
}

/// A token of an account `bot` that may read everything, good for so many more seconds.
async fn token_for(api: &Api, seconds: i64) -> String {
    let account = json!({"metadata": {"name": "bot"}});
    let path = "/api/v1/namespaces/default/serviceaccounts";
    let (code, account) = ask(api, "root", "POST", path, account).await;
    assert_eq!(code, 201);
    let mut binding = viewer("bots");
    binding["subjects"] = json!([{"kind": "ServiceAccount", "name": "bot", "namespace": "default"}]);
    assert_eq!(ask(api, "root", "POST", VIEWERS, binding).await.0, 201);
    let now = i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap();
    // The clocks of others may differ by a minute, for which a token is good beyond its end.
    let ticket = auth::Ticket {
        id: "1",
        namespace: "default",
        account: "bot",
        uid: account["metadata"]["uid"].as_str().unwrap(),
        audiences: &["https://test".to_owned()],
        bound: &[],
        now: now - 600,
        seconds: 600 - 60 + seconds,
    };
    api.inner.options.authenticator.issuer().unwrap().issue(&ticket).unwrap()
}

async fn watch_as(api: &Api, token: &str) -> http::Response<crate::body::Body> {
    let path = "/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=0&allowWatchBookmarks=true";
    let request = Request::builder().uri(path).header("authorization", format!("Bearer {token}"));
    let mut request = request.body(Full::<bytes::Bytes>::default()).unwrap();
    request.extensions_mut().insert(Peer::plain(([192, 0, 2, 1], 4000).into()));
    api.handle(request).await
}

#[tokio::test]
async fn a_watch_ends_when_its_token_does() {
    let api = api().await;
    // The token's time is the real one: enough of it to be let in on a slow machine.
    let token = token_for(&api, 30).await;
    let response = watch_as(&api, &token).await;
    assert_eq!(response.status(), 200);
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    response.into_body().collect().await.unwrap();
    assert!(began.elapsed() <= std::time::Duration::from_secs(33), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_watch_hears_nothing_more_when_its_account_is_gone() {
    let api = api().await;
    let token = token_for(&api, 3600).await;
    let response = watch_as(&api, &token).await;
    let gone = ask(&api, "root", "DELETE", "/api/v1/namespaces/default/serviceaccounts/bot", Value::Null).await;
    assert_eq!(gone.0, 200);
    tokio::time::pause();
    // Not even the bookmark that is due after a minute.
    let began = tokio::time::Instant::now();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(body.is_empty(), "{body:?}");
    assert!(began.elapsed() <= std::time::Duration::from_secs(90), "{:?}", began.elapsed());
}
