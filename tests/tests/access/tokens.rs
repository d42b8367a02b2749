//! Tokens of service accounts and of people, from the first to the last request made with them.
use std::process::Command;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use muster_tests::peer::{Settings, muster_binary};
use muster_tests::runner::Case;
use muster_tests::{Kind, Peer, cases, eventually};
use serde_json::{Value, json};

use crate::{bind, namespace};

pub fn cases() -> Vec<Case> {
    [
        cases![tokens: a_token_is_its_account, forged_tokens_are_nobodys],
        cases![muster tokens: a_token_ends_with_its_account_and_its_object, protobuf_bodies_are_read,
            namespaces_get_an_account_and_the_authority, secrets_are_filled_and_emptied,
            without_credentials_only_health_answers, kubectl_takes_ephemeral_tokens_only, signing_keys_rotate],
    ]
    .concat()
}

const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

async fn account(peer: &Peer, ns: &str, name: &str) {
    peer.post(&format!("/api/v1/namespaces/{ns}/serviceaccounts"), json!({"metadata": {"name": name}})).await.ok(201);
}

async fn token(peer: &Peer, ns: &str, name: &str, spec: Value) -> String {
    let path = format!("/api/v1/namespaces/{ns}/serviceaccounts/{name}/token");
    let made = peer.post(&path, json!({"spec": spec})).await.ok(201);
    made["status"]["token"].as_str().unwrap().to_owned()
}

async fn status_with(peer: &Peer, token: &str) -> u16 {
    peer.call("POST", WHO).body(json!({})).token(Some(token)).fresh().send().await.status
}

fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

async fn a_token_is_its_account(peer: &Peer) {
    namespace(peer, "tk-a").await;
    account(peer, "tk-a", "bot").await;
    let token = token(peer, "tk-a", "bot", json!({"expirationSeconds": 900})).await;
    let stated = claims(&token);
    assert_eq!(stated["exp"].as_i64().unwrap() - stated["iat"].as_i64().unwrap(), 900);
    assert_eq!((&stated["nbf"], &stated["sub"]), (&stated["iat"], &json!("system:serviceaccount:tk-a:bot")));
    assert_eq!(stated["aud"], json!([stated["iss"]]));
    assert_eq!(stated["kubernetes.io"]["serviceaccount"]["name"], "bot");
    let me = peer.call("POST", WHO).body(json!({})).token(Some(&token)).send().await.ok(201);
    let info = &me["status"]["userInfo"];
    assert_eq!(info["username"], "system:serviceaccount:tk-a:bot");
    assert_eq!(
        info["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:tk-a", "system:authenticated"])
    );
    let id = format!("JTI={}", stated["jti"].as_str().unwrap());
    assert_eq!(info["extra"]["authentication.kubernetes.io/credential-id"], json!([id]));
    // Its rights are those of its bindings, here and nowhere else.
    let list = "/api/v1/namespaces/tk-a/configmaps";
    assert_eq!(peer.call("GET", list).token(Some(&token)).send().await.status, 403);
    bind(
        peer,
        "tk-a",
        "bot",
        "system:aggregate-to-view",
        json!({"kind": "ServiceAccount", "name": "bot", "namespace": "tk-a"}),
    )
    .await;
    eventually("the account may list", || async {
        peer.call("GET", list).token(Some(&token)).send().await.status == 200
    })
    .await;
    assert_eq!(peer.call("GET", "/api/v1/namespaces/default/configmaps").token(Some(&token)).send().await.status, 403);
    // Accounts may learn by which keys tokens are verified.
    let keys = peer.call("GET", "/openid/v1/jwks").token(Some(&token)).send().await;
    assert_eq!((keys.status, keys.header("content-type")), (200, "application/jwk-set+json"));
    let head: Value =
        serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap()).unwrap();
    assert!(keys.json()["keys"].as_array().unwrap().iter().any(|key| key["kid"] == head["kid"]));
}

async fn forged_tokens_are_nobodys(peer: &Peer) {
    namespace(peer, "tk-f").await;
    account(peer, "tk-f", "bot").await;
    let good = token(peer, "tk-f", "bot", json!({})).await;
    assert_eq!(status_with(peer, &good).await, 201);
    let parts: Vec<&str> = good.split('.').collect();
    let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let mut raised = claims(&good);
    raised["sub"] = json!("system:serviceaccount:kube-system:default");
    let none = encode(&json!({"alg": "none"}));
    for forged in [
        format!("{none}.{}.", parts[1]),
        format!("{none}.{}.{}", parts[1], parts[2]),
        format!("{}.{}.{}", parts[0], encode(&raised), parts[2]),
        format!("{}.{}.", parts[0], parts[1]),
        format!("{}.{}.{}", parts[0], parts[1], parts[2].chars().rev().collect::<String>()),
        format!("{}.{}.{}", encode(&json!({"alg": "HS256", "kid": "x"})), parts[1], parts[2]),
        format!("{}.{}.{}", encode(&json!({"alg": "ES256", "kid": "../../etc/passwd"})), parts[1], parts[2]),
        format!("{good}.{good}"),
        "a".repeat(9000),
        "..".to_owned(),
    ] {
        assert_eq!(status_with(peer, &forged).await, 401, "{forged}");
    }
    // For somebody else.
    let other = token(peer, "tk-f", "bot", json!({"audiences": ["vault"]})).await;
    assert_eq!(status_with(peer, &other).await, 401);
    let review = json!({"spec": {"token": other, "audiences": ["vault", "x"]}});
    let review = peer.post("/apis/authentication.k8s.io/v1/tokenreviews", review).await.ok(201);
    assert_eq!((&review["status"]["authenticated"], &review["status"]["audiences"]), (&json!(true), &json!(["vault"])));
}

/// Kubernetes remembers a token for ten seconds; we look every time.
async fn a_token_ends_with_its_account_and_its_object(peer: &Peer) {
    namespace(peer, "tk-e").await;
    account(peer, "tk-e", "bot").await;
    let secrets = "/api/v1/namespaces/tk-e/secrets";
    peer.post(secrets, json!({"metadata": {"name": "s"}})).await.ok(201);
    let free = token(peer, "tk-e", "bot", json!({})).await;
    let bound = json!({"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "s"}});
    let bound = token(peer, "tk-e", "bot", bound).await;
    assert_eq!((status_with(peer, &free).await, status_with(peer, &bound).await), (201, 201));
    // The same name again is another object.
    peer.delete(&format!("{secrets}/s")).await.ok(200);
    assert_eq!((status_with(peer, &free).await, status_with(peer, &bound).await), (201, 401));
    peer.post(secrets, json!({"metadata": {"name": "s"}})).await.ok(201);
    assert_eq!(status_with(peer, &bound).await, 401);
    peer.delete("/api/v1/namespaces/tk-e/serviceaccounts/bot").await.ok(200);
    assert_eq!(status_with(peer, &free).await, 401);
    account(peer, "tk-e", "bot").await;
    assert_eq!(status_with(peer, &free).await, 401);
}

async fn protobuf_bodies_are_read(peer: &Peer) {
    use muster_tests::proto::{Message, envelope};
    let media = "application/vnd.kubernetes.protobuf";
    let attributes = Message::new().text(2, "get").text(5, "pods");
    let spec = Message::new().message(1, attributes).text(3, "nobody");
    let body = envelope("authorization.k8s.io/v1", "SubjectAccessReview", Message::new().message(2, spec));
    let call = peer.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews").body(body).media(media);
    let review = call.send().await.ok(201);
    assert_eq!(review["spec"], json!({"resourceAttributes": {"verb": "get", "resource": "pods"}, "user": "nobody"}));
    assert_eq!(review["status"]["allowed"], false);

    namespace(peer, "tk-p").await;
    account(peer, "tk-p", "bot").await;
    let spec = Message::new().text(1, "vault").number(4, 700);
    let body = envelope("authentication.k8s.io/v1", "TokenRequest", Message::new().message(2, spec));
    let made = peer.call("POST", "/api/v1/namespaces/tk-p/serviceaccounts/bot/token").body(body).media(media);
    let made = made.send().await.ok(201);
    let stated = claims(made["status"]["token"].as_str().unwrap());
    assert_eq!(stated["aud"], json!(["vault"]));
    assert_eq!(stated["exp"].as_i64().unwrap() - stated["iat"].as_i64().unwrap(), 700);
}

async fn own(arguments: &[&str]) -> Peer {
    let arguments = arguments.iter().map(|a| (*a).to_owned()).collect();
    Peer::start_with(Kind::Muster, Settings { arguments, ..Settings::default() }).await.unwrap()
}

async fn namespaces_get_an_account_and_the_authority(_: &Peer) {
    let peer = &own(&["--controllers=*"]).await;
    namespace(peer, "tk-n").await;
    let (account, map) =
        ("/api/v1/namespaces/tk-n/serviceaccounts/default", "/api/v1/namespaces/tk-n/configmaps/kube-root-ca.crt");
    eventually("the default account", || async { peer.get(account).await.status == 200 }).await;
    eventually("the authority", || async { peer.get(map).await.status == 200 }).await;
    let pem = std::fs::read_to_string(peer.ca_file()).unwrap();
    assert_eq!(peer.get(map).await.ok(200)["data"]["ca.crt"], pem);
    // What is taken away or changed comes back.
    peer.patch(map, "merge", json!({"data": {"ca.crt": "other"}})).await.ok(200);
    eventually("the authority again", || async { peer.get(map).await.ok(200)["data"]["ca.crt"] == pem }).await;
    peer.delete(account).await.ok(200);
    eventually("the default account again", || async { peer.get(account).await.status == 200 }).await;
    // And does not hold up the end of a namespace.
    peer.delete("/api/v1/namespaces/tk-n").await;
    eventually("the namespace is gone", || async { peer.get("/api/v1/namespaces/tk-n").await.status == 404 }).await;
}

async fn secrets_are_filled_and_emptied(_: &Peer) {
    let peer = &own(&["--controllers=*"]).await;
    namespace(peer, "tk-s").await;
    account(peer, "tk-s", "bot").await;
    let secrets = "/api/v1/namespaces/tk-s/secrets";
    let of = |name: &str, account: &str| {
        let annotations = json!({"kubernetes.io/service-account.name": account});
        json!({"metadata": {"name": name, "annotations": annotations}, "type": "kubernetes.io/service-account-token"})
    };
    peer.post(secrets, of("s", "bot")).await.ok(201);
    let path = format!("{secrets}/s");
    eventually("a token", || async { peer.get(&path).await.ok(200)["data"]["token"].is_string() }).await;
    let secret = peer.get(&path).await.ok(200);
    let read =
        |key: &str| String::from_utf8(BASE64_STANDARD.decode(secret["data"][key].as_str().unwrap()).unwrap()).unwrap();
    assert_eq!(read("namespace"), "tk-s");
    assert_eq!(read("ca.crt"), std::fs::read_to_string(peer.ca_file()).unwrap());
    let token = read("token");
    assert_eq!(status_with(peer, &token).await, 201);
    // Another token in the Secret ends the first one.
    peer.patch(&path, "merge", json!({"data": {"token": BASE64_STANDARD.encode("x")}})).await.ok(200);
    assert_eq!(status_with(peer, &token).await, 401);
    // Secrets of accounts that are not there go.
    peer.post(secrets, of("lost", "nobody")).await.ok(201);
    eventually("the lost secret is gone", || async { peer.get(&format!("{secrets}/lost")).await.status == 404 }).await;
    peer.delete("/api/v1/namespaces/tk-s/serviceaccounts/bot").await.ok(200);
    eventually("the secret is gone", || async { peer.get(&path).await.status == 404 }).await;
}

async fn without_credentials_only_health_answers(_: &Peer) {
    let peer = &own(&["--anonymous-auth=false"]).await;
    let ask = |path: &'static str| peer.call("GET", path).token(None).fresh().send();
    for path in ["/healthz", "/livez", "/readyz", "/version", "/version/"] {
        assert_eq!(ask(path).await.status, 200, "{path}");
    }
    for path in ["/", "/api", "/apis", "/api/v1/namespaces", "/metrics", "/openapi/v2", "/livez/ping", "/nothing"] {
        ask(path).await.fails(401, "Unauthorized");
    }
}

/// The token that `muster token create` prints for this server.
pub fn printed(peer: &Peer, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(muster_binary().unwrap())
        .args(["token"])
        .args(arguments)
        .arg(format!("--data-dir={}", peer.dir.join("data").display()))
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

async fn kubectl_takes_ephemeral_tokens_only(_: &Peer) {
    let peer = &own(&["--kubectl-ephemeral-token"]).await;
    let kubectl = |token: String| {
        let call = peer.call("POST", WHO).body(json!({})).header("user-agent", "kubectl/v1.34.4 (linux/amd64)");
        call.token(Some(&token)).fresh().send()
    };
    let refused = kubectl(muster_tests::peer::TOKEN.to_owned()).await.fails(401, "Unauthorized");
    assert!(refused["message"].as_str().unwrap().contains("`muster token create`"), "what to do instead: {refused}");
    // Who does not know a token learns nothing of it.
    let wrong = kubectl("wrong".to_owned()).await.fails(401, "Unauthorized");
    assert_eq!(wrong["message"], "Unauthorized");
    let form = peer.call("GET", "/api").token(None).header("authorization", "Basic c2VjcmV0").fresh().send().await;
    let form = form.fails(401, "Unauthorized");
    assert_eq!(
        form["message"],
        "Unauthorized: the Authorization header must be there once and read \"Bearer <token>\""
    );
    let admin = printed(peer, &["create"]).unwrap();
    assert_eq!(
        kubectl(admin.clone()).await.ok(201)["status"]["userInfo"]["groups"],
        json!(["system:masters", "system:authenticated"])
    );
    assert_eq!(peer.call("GET", "/api/v1/secrets").token(Some(&admin)).send().await.status, 200);
    let ann = printed(peer, &["create", "--user=ann", "--group=dev,ops", "--ttl=10m"]).unwrap();
    let info = &kubectl(ann.clone()).await.ok(201)["status"]["userInfo"];
    assert_eq!((&info["username"], &info["groups"]), (&json!("ann"), &json!(["dev", "ops", "system:authenticated"])));
    assert_eq!(peer.call("GET", "/api/v1/secrets").token(Some(&ann)).send().await.status, 403);
    let stated = claims(&ann);
    assert_eq!(stated["exp"].as_i64().unwrap() - stated["iat"].as_i64().unwrap(), 600);
    assert!(printed(peer, &["create", "--ttl=48h"]).unwrap_err().contains("24 hours"));
    assert!(printed(peer, &["create", "--user=system:serviceaccount:default:x"]).is_err());
}

async fn signing_keys_rotate(_: &Peer) {
    let peer = &own(&[]).await;
    account(peer, "default", "tk-rotate").await;
    let old = token(peer, "default", "tk-rotate", json!({})).await;
    let keys = || async { peer.get("/openid/v1/jwks").await.ok(200)["keys"].as_array().unwrap().len() };
    assert_eq!(keys().await, 1);
    printed(peer, &["rotate"]).unwrap();
    eventually("two keys", || async { keys().await == 2 }).await;
    let new = token(peer, "default", "tk-rotate", json!({})).await;
    assert_ne!(old.split('.').next(), new.split('.').next());
    assert_eq!((status_with(peer, &old).await, status_with(peer, &new).await), (201, 201));
    assert_eq!(printed(peer, &["keys"]).unwrap().lines().count(), 2);
    printed(peer, &["prune"]).unwrap();
    eventually("one key", || async { keys().await == 1 }).await;
    assert_eq!((status_with(peer, &old).await, status_with(peer, &new).await), (401, 201));
}
