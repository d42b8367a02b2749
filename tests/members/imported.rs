//! Real clusters: imported by kubeconfig and by token, their objects read, applied, acted on and deleted, and taken out again.
use std::time::Duration;

use base64::{Engine, prelude::BASE64_STANDARD};
use fleet::Fleet;
use kube::Client;
use muster_tests::peer::TOKEN;
use muster_tests::runner::Case;
use muster_tests::{Peer, cases};
use muster_tests_gateway::{Face, refused};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::stage::{care, until, until_known};

pub fn all() -> Vec<Case> {
    cases![imported: a_cluster_is_imported_used_and_taken_out, what_would_run_a_program_is_not_imported, the_meta_api_is_a_cluster_too]
}

fn kubeconfig(peer: &Peer) -> String {
    let ca = BASE64_STANDARD.encode(std::fs::read(peer.ca_file()).unwrap());
    format!(
        "clusters: [{{name: c, cluster: {{server: \"https://127.0.0.1:{}\", certificate-authority-data: {ca}}}}}]\n\
         users: [{{name: u, user: {{token: {TOKEN}}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n",
        peer.port
    )
}

/// A face whose fleet follows the Secrets of its namespace. The peer is meta API and member at once.
pub async fn following(peer: &Peer) -> (Face, Fleet, CancellationToken) {
    let fleet = Fleet::new(care());
    let face = Face::console(peer, |face| face.fleet(fleet.clone())).await;
    let credentials = fleet::Credentials::from_kubeconfig(&kubeconfig(peer), None, fleet::Allow::default()).unwrap();
    let client: Client = credentials.connect().unwrap();
    let stop = CancellationToken::new();
    let (follower, namespace, ended) = (fleet.clone(), face.namespace.clone(), stop.clone());
    tokio::spawn(async move { follower.follow(client, Some(&namespace), ended).await });
    (face, fleet, stop)
}

// SYM-13, SC-9, SC-10, MAE-7
async fn a_cluster_is_imported_used_and_taken_out(peer: &Peer) {
    let (face, _fleet, stop) = following(peer).await;
    let import = json!({"name": "prod", "kubeconfig": kubeconfig(peer), "labels": {"zone": "z1"}});
    let mut asked = import.clone();
    asked["dryRun"] = true.into();
    let path = "/apis/zcloud.cn/v1/clusters?action=import";
    let parsed = face.post(path, asked).await.ok(200);
    assert_eq!(
        (&parsed["user"], &parsed["trust"], &parsed["refused"]),
        (&json!("token"), &json!("authority"), &json!([])),
        "{parsed}"
    );
    assert!(
        parsed["fingerprints"][0].as_str().unwrap().len() == 95
            && parsed["server"].as_str().unwrap().contains("127.0.0.1"),
        "{parsed}"
    );
    assert_eq!(face.get("/api/cluster/all").await.ok(200)["count"], 0);
    let done = face.post(path, import.clone()).await.ok(201);
    assert!(done["imported"] == true && !done.to_string().contains(TOKEN), "{done}");
    peer.knows("it is a member", || async { face.get("/api/cluster/prod").await.status == 200 }).await;
    let page = until(&face, "/api/cluster/prod", |page| page["items"][0]["state"] == "Running").await;
    until_known(&face, "prod").await;
    let prod = &page["items"][0];
    assert!(prod["version"].is_string() && prod["simulated"] == false && prod["labels"]["zone"] == "z1", "{prod}");
    assert_eq!(prod["origin"], format!("Secret {}/prod", face.namespace));
    refused(&face.post(path, import).await, 409);
    lends(&face, peer).await;
    // Its objects.
    let space = peer.namespace().await;
    let root = format!("/api/cluster/prod/resources/core/v1/namespaces/{space}/configmaps");
    let put = async |query: &str, media: &str, body: String| {
        face.call("PUT", &format!("{root}/settings{query}")).raw(media, body).send().await
    };
    let shown = put("?dryRun=true", "application/yaml", "data: {color: blue}\n".to_owned()).await.ok(200);
    assert_eq!((&shown["kind"], &shown["data"]["color"]), (&json!("ConfigMap"), &json!("blue")), "{shown}");
    refused(&face.get(&format!("{root}/settings")).await, 404);
    let made = put("", "application/yaml", "data: {color: blue}\n".to_owned()).await.ok(200);
    assert!(made["metadata"].get("managedFields").is_none() && made["metadata"]["uid"].is_string(), "{made}");
    let flat = face.get(&format!("{root}/settings")).await.ok(200);
    assert_eq!(
        (&flat["cluster"], &flat["name"], &flat["data"]["color"]),
        (&json!("prod"), &json!("settings"), &json!("blue"))
    );
    let raw = face.get(&format!("{root}/settings?raw=true")).await.ok(200);
    assert_eq!((&raw["apiVersion"], &raw["metadata"]["name"]), (&json!("v1"), &json!("settings")));
    until(&face, &root, |page| {
        page["items"].as_array().is_some_and(|rows| rows.iter().any(|row| row["name"] == "settings"))
    })
    .await;
    // Somebody else's field is not taken without being asked.
    let own =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"color": "green"}});
    let theirs = format!("/api/v1/namespaces/{space}/configmaps/settings?fieldManager=gardener&force=true");
    let call = peer.call("PATCH", &theirs).body(own).media("application/apply-patch+yaml");
    call.send().await.ok(200);
    let problem = refused(&put("", "application/json", json!({"data": {"color": "red"}}).to_string()).await, 409);
    assert_eq!(problem["details"]["conflicts"], json!([{"field": ".data.color", "manager": "gardener"}]), "{problem}");
    assert_eq!(
        put("?force=true", "application/json", json!({"data": {"color": "red"}}).to_string()).await.ok(200)["data"]["color"],
        "red"
    );
    let stale =
        json!({"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"color": "pink"}});
    refused(&put("?force=true", "application/json", stale.to_string()).await, 409);
    refused(&put("", "application/json", json!({"kind": "Pod"}).to_string()).await, 400);
    refused(&put("", "text/plain", "x".to_owned()).await, 415);
    assert_eq!(face.call("DELETE", &format!("{root}/settings")).send().await.ok(200)["deleted"], true);
    refused(&face.get(&format!("{root}/settings")).await, 404);
    actions(&face, peer, &space).await;
    // And out.
    assert_eq!(face.call("DELETE", "/apis/zcloud.cn/v1/clusters/prod").send().await.ok(200)["deleted"], true);
    peer.knows("it is out", || async { face.get("/api/cluster/prod").await.status == 404 }).await;
    assert_eq!(face.get("/api/cluster/all").await.ok(200)["count"], 0);
    stop.cancel();
}

/// A cluster that was imported with somebody's own kubeconfig has no account for others: it is made when that is asked for.
async fn lends(face: &Face, peer: &Peer) {
    let path = "/apis/zcloud.cn/v1/clusters/prod?action=getkubeconfig";
    let ask = async |more: &str| face.call("POST", &format!("{path}{more}")).send().await;
    let problem = refused(&ask("").await, 409);
    assert_eq!(problem["reason"], "NoAccount", "{problem}");
    assert!(problem["message"].as_str().unwrap().contains("createAccount=read"), "{problem}");
    let kept = ask("&longLived=true").await.ok(200);
    assert!(kept["kubeconfig"].as_str().unwrap().contains(TOKEN) && kept.get("expires").is_none());
    for wrong in ["&ttlSeconds=60", "&ttlSeconds=100000", "&createAccount=all", "&longLived=true&ttlSeconds=600"] {
        refused(&ask(wrong).await, 400);
    }
    let lent = ask("&createAccount=read").await.ok(200);
    let again = ask("&ttlSeconds=600").await.ok(200);
    for given in [&lent, &again] {
        let kubeconfig: Value = serde_json::from_str(given["kubeconfig"].as_str().unwrap()).unwrap();
        assert!(!kubeconfig.to_string().contains(TOKEN), "nothing of what was imported is given out");
        let token = kubeconfig["users"][0]["user"]["token"].as_str().unwrap();
        let code = async |path| peer.call("GET", path).token(Some(token)).send().await.status;
        peer.knows("pods may be listed", || async { code("/api/v1/pods").await == 200 }).await;
        assert_eq!(code("/api/v1/secrets").await, 403);
    }
    let ends = |given: &Value| given["expires"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_second();
    let now = jiff::Timestamp::now().as_second();
    assert!((now + 3_000..now + 3_700).contains(&ends(&lent)), "{lent}");
    assert!((now + 500..now + 700).contains(&ends(&again)), "{again}");
}

async fn actions(face: &Face, peer: &Peer, space: &str) {
    let root = format!("/api/cluster/prod/resources/apps/v1/namespaces/{space}/deployments");
    let labels = json!({"app": "web"});
    let web = json!({"spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}}}});
    face.call("PUT", &format!("{root}/web")).json(web).send().await.ok(200);
    let scaled = face.post(&format!("{root}/web/scale"), json!({"replicas": 3})).await.ok(200);
    assert_eq!((&scaled["spec"]["replicas"], &scaled["cluster"]), (&json!(3), &json!("prod")), "{scaled}");
    face.call("POST", &format!("{root}/web/restart")).send().await.ok(200);
    face.call("POST", &format!("{root}/web/pause")).send().await.ok(200);
    refused(&face.call("POST", &format!("{root}/web/restart")).send().await, 409);
    let problem = refused(&face.call("POST", &format!("{root}/web/explode")).send().await, 404);
    assert_eq!(problem["details"]["actions"], json!(["pause", "restart", "resume", "scale"]));
    let object = peer.get(&format!("/apis/apps/v1/namespaces/{space}/deployments/web")).await.ok(200);
    assert!(object["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"].is_string());
    assert_eq!(face.get("/api/cluster/prod/deployments/stat").await.ok(200)["items"][0]["cluster"], "prod");
}

// B-13
async fn what_would_run_a_program_is_not_imported(peer: &Peer) {
    let (face, _fleet, stop) = following(peer).await;
    let path = "/apis/zcloud.cn/v1/clusters?action=import";
    let plain = kubeconfig(peer);
    let cases = [
        ("users[0].user.exec", plain.replace(&format!("token: {TOKEN}"), "exec: {command: /bin/canary}")),
        ("users[0].user.tokenFile", plain.replace(&format!("token: {TOKEN}"), "tokenFile: /etc/canary")),
        ("users[0].user.auth-provider", plain.replace(&format!("token: {TOKEN}"), "auth-provider: {name: canary}")),
        (
            "clusters[0].cluster.proxy-url",
            plain.replace("certificate-authority-data", "proxy-url: 'http://canary', certificate-authority-data"),
        ),
        (
            "clusters[0].cluster.insecure-skip-tls-verify",
            plain.replace("certificate-authority-data", "insecure-skip-tls-verify: true, certificate-authority-data"),
        ),
        ("(file)", "a: &a [canary]\nb: *a\n".to_owned()),
    ];
    for (field, kubeconfig) in cases {
        let import = json!({"name": "prod", "kubeconfig": kubeconfig});
        let problem = refused(&face.post(path, import.clone()).await, 422);
        assert!(
            problem["details"]["refused"][0]["field"] == field && !problem.to_string().contains("canary"),
            "{field}: {problem}"
        );
        let mut asked = import;
        asked["dryRun"] = true.into();
        assert_eq!(face.post(path, asked).await.ok(200)["refused"][0]["field"], field);
    }
    // Everything at once, so that it can be mended at once.
    let many = plain
        .replace(&format!("token: {TOKEN}"), "exec: {command: /bin/canary}, tokenFile: /etc/canary")
        .replace("certificate-authority-data", "proxy-url: 'http://canary', certificate-authority-data");
    let problem = refused(&face.post(path, json!({"name": "prod", "kubeconfig": many})).await, 422);
    let fields: Vec<&Value> =
        problem["details"]["refused"].as_array().unwrap().iter().map(|refused| &refused["field"]).collect();
    assert_eq!(fields, ["clusters[0].cluster.proxy-url", "users[0].user.exec", "users[0].user.tokenFile"], "{problem}");
    let asked = face.post(path, json!({"name": "prod", "kubeconfig": many, "dryRun": true})).await.ok(200);
    assert_eq!(asked["refused"], problem["details"]["refused"]);
    for (field, value) in [("name", json!("all")), ("name", json!("Prod")), ("name", json!("../x"))] {
        let problem = refused(&face.post(path, json!({"name": value, "kubeconfig": plain})).await, 422);
        assert_eq!(problem["details"]["field"], field);
    }
    refused(&face.post(path, json!({"name": "prod", "kubeconfig": plain, "allow": ["everything"]})).await, 400);
    let problem = refused(&face.post(path, json!({"name": "prod", "secret": TOKEN})).await, 400);
    assert!(!problem.to_string().contains(TOKEN), "{problem}");
    refused(&face.call("POST", path).raw("text/plain", "x").send().await, 415);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(face.get("/api/cluster/all").await.ok(200)["count"], 0);
    stop.cancel();
}

async fn the_meta_api_is_a_cluster_too(peer: &Peer) {
    let (face, _fleet, stop) = following(peer).await;
    let space = peer.namespace().await;
    let root = format!("/api/cluster/meta/resources/core/v1/namespaces/{space}/configmaps");
    until_known(&face, "meta").await;
    let made =
        face.call("PUT", &format!("{root}/settings")).json(json!({"data": {"color": "blue"}})).send().await.ok(200);
    assert_eq!(made["kind"], "ConfigMap");
    let page = until(&face, &format!("{root}?q=settings"), |page| page["count"] == 1).await;
    assert_eq!((&page["items"][0]["cluster"], &page["unanswered"]), (&json!("meta"), &json!([])), "{page}");
    assert_eq!(face.get(&format!("{root}/settings")).await.ok(200)["cluster"], "meta");
    let kinds = face.get("/api/cluster/meta/kinds").await.ok(200);
    assert!(kinds.as_array().unwrap().iter().any(|kind: &Value| kind["plural"] == "configmaps"));
    assert_eq!(face.call("DELETE", &format!("{root}/settings")).send().await.ok(200)["deleted"], true);
    refused(&face.get(&format!("{root}/settings")).await, 404);
    stop.cancel();
}
