//! A marked string in every secret place, then a search everywhere it could leak to: it may be nowhere but in the sealed store. (B-17)
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use muster_tests::peer::{Settings, TOKEN};
use muster_tests::runner::Case;
use muster_tests::{Answer, Kind, Peer, cases, eventually};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

pub fn cases() -> Vec<Case> {
    cases![muster canary: secrets_show_nowhere_but_where_they_are_asked_for]
}

const CANARY: &str = "c4nary-7f3a91d2-never-to-be-seen";

async fn secrets_show_nowhere_but_where_they_are_asked_for(_: &Peer) {
    let (collector, traces) = collector().await;
    let tracing = format!("--tracing-endpoint=http://127.0.0.1:{collector}");
    let arguments = ["-v=10", "--audit-log-reads", "--controllers=*", &tracing].map(str::to_owned).to_vec();
    let peer = Peer::start_with(Kind::Muster, Settings { arguments, ..Settings::default() }).await.unwrap();
    let mut refusals = Vec::new();
    let tokens = plant(&peer, &mut refusals).await;
    let mut hunted = vec![CANARY.to_owned(), BASE64_STANDARD.encode(CANARY), TOKEN.to_owned()];
    // Of a token only the signature is secret: the rest can be made from what anybody may know.
    hunted.extend(tokens.iter().map(|token| token.rsplit('.').next().unwrap().to_owned()));
    let key = fs::read_to_string(peer.dir.join("data/service-account.key")).unwrap();
    hunted.push(key.lines().nth(1).unwrap().to_owned());
    for answer in &refusals {
        search(&answer.what, &answer.body, &hunted);
    }
    for path in ["/metrics", "/openapi/v2", "/api/v1/events", "/readyz?verbose"] {
        let answer = peer.get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        search(path, &answer.body, &hunted);
    }
    let copy = peer.dir.join("copy.backup");
    backup(&peer, &copy);
    assert!(fs::metadata(&copy).is_ok_and(|file| file.len() > 1000), "the backup is searched with the other files");
    // Spans are sent in batches, a moment later.
    let one = b"/api/v1/namespaces/default/secrets/canary";
    eventually("the traces say something of secrets", || async {
        traces.lock().unwrap().windows(one.len()).any(|window| window == one)
    })
    .await;
    let traces = traces.lock().unwrap().clone();
    search("a trace", &traces, &hunted);
    // Everything acknowledged is on disk; the audit log is written a moment later.
    for words in [
        "\"resource\":\"secrets\"",
        "\"impersonatedUser\":\"canary-watcher\"",
        "\"authorization.k8s.io/reason\":\"RBAC: allowed by ClusterRoleBinding",
    ] {
        eventually(&format!("the audit log has {words}"), || async {
            fs::read_to_string(peer.dir.join("data/audit/audit.log")).is_ok_and(|audit| audit.contains(words))
        })
        .await;
    }
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    peer.kill();
    let mut files = 0;
    walk(&peer.dir, &mut |path, bytes| {
        let own = ["tokens.csv", "service-account.key"].iter().any(|name| path.ends_with(name));
        if !own {
            files += 1;
            search(&path.display().to_string(), bytes, &hunted);
        }
    });
    assert!(files > 4, "only {files} files were searched");
}

/// Uses secrets in every way there is; keeps the answers that must not repeat them, gives back the tokens that were made.
async fn plant(peer: &Peer, refusals: &mut Vec<Answer>) -> Vec<String> {
    let secrets = "/api/v1/namespaces/default/secrets";
    let encoded = BASE64_STANDARD.encode(CANARY);
    let annotations =
        json!({"kubectl.kubernetes.io/last-applied-configuration": format!("{{\"data\":\"{encoded}\"}}")});
    let metadata = json!({"name": "canary", "annotations": annotations});
    let made =
        peer.post(secrets, json!({"metadata": metadata, "data": {"a": encoded}, "stringData": {"b": CANARY}})).await;
    assert!(made.text().contains(&encoded), "whoever writes a secret sees it");
    let one = format!("{secrets}/canary");
    peer.patch(&one, "merge", json!({"stringData": {"c": CANARY}})).await.ok(200);
    let docker = json!({"metadata": {"name": "bad"}, "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": CANARY}});
    refusals.push(peer.post(secrets, docker).await);
    refusals.push(peer.post(secrets, json!({"metadata": {"name": "bad"}, "data": {"a": CANARY}})).await);
    refusals.push(peer.post(secrets, json!({"metadata": {"name": "bad"}, "data": {"bad key": encoded}})).await);
    refusals.push(peer.post(secrets, format!("{{\"data\": {{\"a\": \"{CANARY}\"")).await);
    refusals.push(
        peer.call("POST", secrets).body(format!("data:\n  a: [{CANARY}\n")).media("application/yaml").send().await,
    );
    refusals.push(
        peer.post(&format!("{secrets}?fieldValidation=Strict"), json!({"metadata": {"name": "bad"}, "more": CANARY}))
            .await,
    );
    refusals.push(peer.patch(&one, "json", json!([{"op": "test", "path": "/data/a", "value": "other"}])).await);
    refusals.push(peer.patch(&one, "json", json!([{"op": "add", "path": "/data/x/y", "value": CANARY}])).await);
    refusals.push(peer.patch(&one, "merge", json!({"data": {"a": 5}})).await);
    refusals.push(peer.patch(&one, "merge", json!({"type": "other"})).await);
    refusals.push(
        peer.put(&one, json!({"metadata": {"name": "canary", "resourceVersion": "1"}, "stringData": {"a": CANARY}}))
            .await,
    );
    refusals.push(peer.call("GET", &one).header("impersonate-user", "canary-watcher").send().await);
    refusals.push(peer.call("GET", &one).token(Some(CANARY)).fresh().send().await);
    refusals.push(peer.call("GET", &one).token(Some(&format!("{CANARY}.{CANARY}.{CANARY}"))).fresh().send().await);
    refusals.push(
        peer.call("GET", &one).token(None).header("authorization", &format!("Basic {CANARY}")).fresh().send().await,
    );
    refusals.push(peer.get(&format!("/api/v1/nothing?token={CANARY}")).await);

    // Tokens: made, used, reviewed, forged, in a Secret.
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    peer.post(accounts, json!({"metadata": {"name": "canary"}})).await.ok(201);
    let made = peer.post(&format!("{accounts}/canary/token"), json!({})).await.ok(201);
    let token = made["status"]["token"].as_str().unwrap().to_owned();
    peer.call("GET", &one).token(Some(&token)).send().await.fails(403, "Forbidden");
    peer.call("GET", "/apis").token(Some(&token)).send().await.ok(200);
    let review = "/apis/authentication.k8s.io/v1/tokenreviews";
    peer.post(review, json!({"spec": {"token": token}})).await.ok(201);
    peer.post(review, json!({"spec": {"token": CANARY}})).await.ok(201);
    let forged = format!("{}.{}", &token[..token.len() - 3], BASE64_URL_SAFE_NO_PAD.encode(CANARY));
    refusals.push(peer.call("GET", &one).token(Some(&forged)).fresh().send().await);
    let annotations = json!({"kubernetes.io/service-account.name": "canary"});
    let metadata = json!({"name": "canary-token", "annotations": annotations});
    peer.post(secrets, json!({"metadata": metadata, "type": "kubernetes.io/service-account-token"})).await.ok(201);
    let held = async || peer.get(&format!("{secrets}/canary-token")).await.ok(200)["data"]["token"].clone();
    eventually("the Secret holds a token", || async { held().await.is_string() }).await;
    let held = held().await;
    let held = String::from_utf8(BASE64_STANDARD.decode(held.as_str().unwrap()).unwrap()).unwrap();
    vec![token, held]
}

/// A collector of traces that keeps all it is sent.
async fn collector() -> (u16, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let (port, all) = (listener.local_addr().unwrap().port(), Arc::new(Mutex::new(Vec::new())));
    let kept = all.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let kept = kept.clone();
            tokio::spawn(async move {
                let (mut request, mut chunk) = (Vec::new(), [0; 65536]);
                while let Ok(read @ 1..) = stream.read(&mut chunk).await {
                    request.extend_from_slice(&chunk[..read]);
                    let text = String::from_utf8_lossy(&request).to_lowercase();
                    let Some((head, _)) = text.split_once("\r\n\r\n") else { continue };
                    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
                    if request.len() >= head.len() + 4 + length.unwrap_or(0usize) {
                        kept.lock().unwrap().append(&mut request);
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
                    }
                }
            });
        }
    });
    (port, all)
}

fn backup(peer: &Peer, file: &Path) {
    let output = std::process::Command::new(muster_tests::peer::muster_binary().unwrap())
        .args(["backup", "create"])
        .arg(format!("--data-dir={}", peer.dir.join("data").display()))
        .arg(file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn search(place: &str, bytes: &[u8], hunted: &[String]) {
    for secret in hunted {
        let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!found, "{place} holds {secret:?}");
    }
}

fn walk(folder: &Path, see: &mut impl FnMut(&Path, &[u8])) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, see);
        } else {
            see(&path, &fs::read(&path).unwrap_or_default());
        }
    }
}
