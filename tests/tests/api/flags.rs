//! What flags change: each case starts a server of its own with them.
use std::process::Command;
use std::time::{Duration, Instant};

use muster_tests::peer::{Settings, peers_folder};
use muster_tests::runner::Case;
use muster_tests::{Answer, Kind, PATIENCE, Peer, cases};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::collection;
use crate::definitions::Crd;

pub fn cases() -> Vec<Case> {
    [
        cases![flags: pods_run_as_an_account_that_is_there],
        cases![muster flags: an_unrestricted_update_is_judged_whole, an_unrestricted_update_of_a_custom_object_is_judged_whole,
            kubectl_can_be_kept_out, local_programs_are_believed_and_nobody_else, a_slow_request_ends_in_time, events_end,
            the_initial_objects_are_applied_as_their_page_says, pods_can_do_without_an_account],
    ]
    .concat()
}

async fn started(kind: Kind, arguments: &[&str]) -> Peer {
    let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    Peer::start_with(kind, Settings { arguments, ..Settings::default() }).await.unwrap()
}

fn deployment() -> Value {
    let labels = json!({"app": "a"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    json!({"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": labels}, "template": template}})
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x"}]}})
}

// KC-9
async fn an_unrestricted_update_is_judged_whole(_: &Peer) {
    let peer = &started(Kind::Muster, &["--unrestricted-update"]).await;
    let ns = peer.namespace().await;
    let deployments = format!("/apis/apps/v1/namespaces/{ns}/deployments");
    let (main, status) = (format!("{deployments}/a"), format!("{deployments}/a/status"));
    peer.post(&deployments, deployment()).await.ok(201);
    let patch = |path: &str, body: Value| {
        let path = path.to_owned();
        async move { peer.patch(&path, "merge", body).await }
    };
    let both = json!({"spec": {"replicas": 3}, "status": {"replicas": 2}});
    let changed = patch(&status, both).await.ok(200);
    assert_eq!((&changed["spec"]["replicas"], &changed["status"]["replicas"]), (&json!(3), &json!(2)));
    assert_eq!(changed["metadata"]["generation"], 2, "a change of the spec counts, whatever way it came");
    let changed = patch(&status, json!({"status": {"replicas": 3}})).await.ok(200);
    assert_eq!(changed["metadata"]["generation"], 2, "a change of the status does not");
    let changed = patch(&main, json!({"spec": {"replicas": 4}, "status": {"replicas": 4}})).await.ok(200);
    assert_eq!((&changed["metadata"]["generation"], &changed["status"]["replicas"]), (&json!(3), &json!(4)));

    // The rules of the object, its fields that stay, and the rules of the status hold on both ways.
    let selector = json!({"spec": {"selector": {"matchLabels": {"app": "b"}}, "template": {"metadata": {"labels": {"app": "b"}}}}});
    for path in [&main, &status] {
        patch(path, json!({"spec": {"replicas": -1}})).await.invalid(&["spec.replicas"]);
        patch(path, selector.clone()).await.invalid(&["spec.selector"]);
        patch(path, json!({"status": {"collisionCount": -1}})).await.invalid(&["status.collisionCount"]);
    }
    assert_eq!(peer.get(&main).await.ok(200)["metadata"]["generation"], 3);

    let pods = collection("pods", &ns);
    peer.post(&pods, pod("a")).await.ok(201);
    patch(&format!("{pods}/a/status"), json!({"spec": {"hostNetwork": true}})).await.invalid(&["spec"]);
    let image = json!({"spec": {"containers": [{"name": "c", "image": "y"}]}, "status": {"phase": "Running"}});
    let run = peer.patch(&format!("{pods}/a/status"), "strategic", image).await.ok(200);
    assert_eq!((&run["metadata"]["generation"], &run["status"]["phase"]), (&json!(2), &json!("Running")));
    assert_eq!(run["status"]["qosClass"], "BestEffort", "what the server knows of a status is kept");

    let services = collection("services", &ns);
    let made =
        peer.post(&services, json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})).await.ok(201);
    let path = format!("{services}/s/status");
    patch(&path, json!({"spec": {"clusterIP": "10.96.200.200"}})).await.invalid(&["spec.clusterIPs[0]"]);
    let given = patch(&path, json!({"spec": {"type": "NodePort"}})).await.ok(200);
    assert_eq!(given["spec"]["clusterIP"], made["spec"]["clusterIP"]);
    assert!(given["spec"]["ports"][0]["nodePort"].is_u64(), "a port is chosen as on the other way: {given}");
}

async fn an_unrestricted_update_of_a_custom_object_is_judged_whole(_: &Peer) {
    let peer = &started(Kind::Muster, &["--unrestricted-update"]).await;
    let ns = peer.namespace().await;
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}},
        "status": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}}}});
    let mut crd = Crd::with_schema(schema);
    crd.body["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    crd.install(peer).await;
    let path = crd.resources("v1", &ns);
    peer.post(&path, crd.widget("v1", "a", json!({"spec": {"size": 1}}))).await.ok(201);
    let (main, status) = (format!("{path}/a"), format!("{path}/a/status"));
    let both = json!({"spec": {"size": 2}, "status": {"n": 1}});
    let changed = peer.patch(&status, "merge", both).await.ok(200);
    assert_eq!((&changed["spec"]["size"], &changed["status"]["n"]), (&json!(2), &json!(1)));
    assert_eq!(changed["metadata"]["generation"], 2);
    for path in [&main, &status] {
        let changed = peer.patch(path, "merge", json!({"status": {"n": path.len()}})).await.ok(200);
        assert_eq!(changed["metadata"]["generation"], 2, "a status alone is no new generation: {changed}");
        peer.patch(path, "merge", json!({"spec": {"size": 0}})).await.invalid(&["spec.size"]);
        peer.patch(path, "merge", json!({"status": {"n": -1}})).await.invalid(&["status.n"]);
    }
}

/// kubectl without a configuration of anybody's.
fn kubectl(peer: &Peer, arguments: &[&str]) -> (bool, String) {
    let output = Command::new("timeout")
        .args(["--signal=KILL", "120"])
        .arg(peers_folder().unwrap().join("kubectl"))
        .args(arguments)
        .env("HOME", &peer.dir)
        .env("KUBECONFIG", peer.dir.join("none"))
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (output.status.success(), text)
}

async fn kubectl_can_be_kept_out(_: &Peer) {
    let peer = &started(Kind::Muster, &["--kubectl-disabled", "--authn-allow-localhost"]).await;
    let file = peer.kubeconfig().display().to_string();
    let plain = format!("http://127.0.0.1:{}", peer.plain_port.unwrap());
    for credentials in [["--kubeconfig", file.as_str()], ["-s", plain.as_str()]] {
        let (worked, text) = kubectl(peer, &[&credentials[..], &["get", "namespaces"]].concat());
        assert!(!worked && text.contains("(Forbidden)"), "{text}");
    }
    let named = |agent: &str| peer.call("GET", "/api/v1/namespaces").header("user-agent", agent).fresh().send();
    let refused = named("kubectl/v1.34.4 (linux/amd64)").await.fails(403, "Forbidden");
    assert_eq!(refused["message"], "kubectl is disabled on this server (--kubectl-disabled)");
    named("helm/3").await.ok(200);
    let off = &started(Kind::Muster, &["--kubectl-disabled=false"]).await;
    let file = off.kubeconfig().display().to_string();
    let (worked, text) = kubectl(off, &["--kubeconfig", &file, "get", "namespaces"]);
    assert!(worked && text.contains("kube-system"), "{text}");
}

/// The code of a request written by hand to the port without TLS, from an address of this machine.
async fn written(peer: &Peer, from: [u8; 4], head: &str) -> u16 {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((std::net::Ipv4Addr::from(from), 0).into()).unwrap();
    let port = peer.plain_port.unwrap();
    let mut stream = socket.connect(([127, 0, 0, 1], port).into()).await.unwrap();
    let head = head.replace("PORT", &port.to_string());
    stream.write_all(format!("GET /api/v1/secrets HTTP/1.1\r\n{head}\r\n").as_bytes()).await.unwrap();
    code(&mut stream).await
}

async fn code(stream: &mut TcpStream) -> u16 {
    let mut answer = [0; 12];
    let read = tokio::time::timeout(PATIENCE, stream.read_exact(&mut answer)).await;
    read.expect("no answer").unwrap();
    String::from_utf8_lossy(&answer[9..]).parse().unwrap()
}

// B-9
async fn local_programs_are_believed_and_nobody_else(_: &Peer) {
    let on = &started(Kind::Muster, &["--authn-allow-localhost", "--anonymous-auth=false"]).await;
    let off = &started(Kind::Muster, &["--anonymous-auth=false"]).await;
    let host = "Host: 127.0.0.1:PORT\r\n";
    let with = |more: &str| format!("{host}{more}\r\n");
    for (head, believed) in [
        (host.to_owned(), true),
        ("Host: localhost\r\n".to_owned(), true),
        ("Host: LOCALHOST:PORT\r\n".to_owned(), true),
        ("Host: [::1]:PORT\r\n".to_owned(), true),
        (with("User-Agent: kubectl/v1.34.4"), true),
        (with("Connection: close"), true),
        (with("Sec-Fetch-Site: none"), true),
        ("Host: example.com\r\n".to_owned(), false),
        ("Host: 127.0.0.1.example.com:PORT\r\n".to_owned(), false),
        ("Host: localhost.example.com\r\n".to_owned(), false),
        (with("Origin: http://127.0.0.1:PORT"), false),
        (with("Origin: null"), false),
        (with("Sec-Fetch-Site: cross-site"), false),
        (with("X-Forwarded-For: 127.0.0.1"), false),
        (with("X-Forwarded-Host: localhost"), false),
        (with("Forwarded: for=127.0.0.1"), false),
        (with("Via: 1.1 proxy"), false),
        (with("X-Real-IP: 127.0.0.1"), false),
        (with("Connection: close, X-Forwarded-For"), false),
        (with("Authorization: Bearer wrong"), false),
    ] {
        for from in [[127, 0, 0, 1], [127, 0, 0, 2]] {
            assert_eq!(written(on, from, &head).await, if believed { 200 } else { 401 }, "{head}");
        }
        assert_eq!(written(off, [127, 0, 0, 1], &head).await, 401, "it is off by default: {head}");
    }
    // Over TLS the same rule holds.
    assert_eq!(on.call("GET", "/api/v1/secrets").token(None).http1().send().await.status, 200);
    assert_eq!(off.call("GET", "/api/v1/secrets").token(None).http1().send().await.status, 401);
}

async fn a_slow_request_ends_in_time(_: &Peer) {
    let peer = &started(Kind::Muster, &["--request-timeout=2s"]).await;
    for query in ["", "?timeout=1h"] {
        let start = Instant::now();
        let mut stream = TcpStream::connect(("127.0.0.1", peer.plain_port.unwrap())).await.unwrap();
        let head = format!(
            "POST /api/v1/namespaces/default/configmaps{query} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
            muster_tests::peer::TOKEN
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        assert_eq!(code(&mut stream).await, 504, "{query}");
        assert!(start.elapsed() >= Duration::from_secs(2), "{query}");
    }
    // A watch is not a slow request.
    let mut watch = peer.watch("/api/v1/namespaces/default/configmaps?watch=true").await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    // So short a time may pass by itself on a slow machine, and the write may have happened all the same.
    let begun = Instant::now();
    loop {
        let answer = peer.post(&collection("configmaps", "default"), crate::config_map("late", "1")).await;
        if matches!(answer.status, 201 | 409) {
            break;
        }
        assert!(answer.status == 504 && begun.elapsed() < PATIENCE, "{}", answer.text());
    }
    watch.expect("ADDED", "late").await;
}

async fn events_end(_: &Peer) {
    let peer = &started(Kind::Muster, &["--event-ttl=2s"]).await;
    let kept = &started(Kind::Muster, &["--event-ttl=0"]).await;
    let path = collection("events", "default");
    let event =
        json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}});
    kept.post(&path, &event).await.ok(201);
    peer.post(&path, &event).await.ok(201);
    let start = Instant::now();
    while peer.get(&format!("{path}/e")).await.status != 404 {
        assert!(start.elapsed() < PATIENCE, "the event never ended");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    kept.get(&format!("{path}/e")).await.ok(200);
}

/// As `deploy/initialization/README.md` says it.
async fn the_initial_objects_are_applied_as_their_page_says(_: &Peer) {
    let page = include_str!("../../../deploy/initialization/README.md");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/initialization");
    let flag = "--authn-allow-localhost";
    assert!(page.contains(&format!("muster apiserver {flag}")), "the page says which flag it takes");
    let order = page.split_once("for folder in ").and_then(|(_, rest)| rest.split_once(';')).unwrap().0;
    let peer = &started(Kind::Muster, &[flag]).await;
    let server = format!("http://127.0.0.1:{}", peer.plain_port.unwrap());
    for round in ["created", "unchanged"] {
        for part in order.split(' ') {
            let (worked, text) = kubectl(peer, &["-s", &server, "apply", "-f", &format!("{folder}/{part}")]);
            assert!(worked && text.contains(round), "{part}: {text}");
        }
    }
    let (worked, text) = kubectl(peer, &["-s", &server, "-n", "default", "get", "users"]);
    assert!(worked && text.contains("admin"), "{text}");
    // Without the flag nobody is let in that way.
    let closed = &started(Kind::Muster, &["--anonymous-auth=false"]).await;
    let server = format!("http://127.0.0.1:{}", closed.plain_port.unwrap());
    let (worked, text) = kubectl(closed, &["-s", &server, "apply", "-f", &format!("{folder}/namespaces")]);
    assert!(!worked, "{text}");
}

/// The plugin is off in the servers of the other cases, as there are no accounts without a controller manager.
async fn pods_run_as_an_account_that_is_there(peer: &Peer) {
    let arguments: &[&str] = match peer.kind {
        Kind::Muster | Kind::MusterOnEtcd => &["--controllers=*"],
        Kind::Kubernetes => &["--enable-admission-plugins=ServiceAccount"],
    };
    let peer = &started(peer.kind, arguments).await;
    let ns = peer.namespace().await;
    let accounts = collection("serviceaccounts", &ns);
    let pull = |name: &str| json!([{"name": format!("{name}-pull")}]);
    if peer.is_muster() {
        // At once: the account of a new namespace is waited for.
        let made = peer.post(&collection("pods", &ns), pod("first")).await.ok(201);
        assert_eq!(made["spec"]["serviceAccountName"], "default");
        assert!(made["spec"]["volumes"].is_null(), "no token is mounted: {made}");
        peer.patch(&format!("{accounts}/default"), "merge", json!({"imagePullSecrets": pull("default")})).await.ok(200);
    } else {
        let default = json!({"metadata": {"name": "default"}, "imagePullSecrets": pull("default")});
        peer.post(&accounts, default).await.ok(201);
    }
    peer.post(&accounts, json!({"metadata": {"name": "robot"}, "imagePullSecrets": pull("robot")})).await.ok(201);
    let asks = |name: &str, more: Value| {
        let mut body = pod(name);
        body["spec"]["automountServiceAccountToken"] = false.into();
        for (key, value) in more.as_object().cloned().unwrap_or_default() {
            body["spec"][key] = value;
        }
        body
    };
    let pods = collection("pods", &ns);
    let shown = |answer: Answer| {
        let spec = answer.ok(201)["spec"].clone();
        ["serviceAccountName", "serviceAccount", "imagePullSecrets", "volumes"].map(|key| spec[key].clone())
    };
    let (nothing, name) = (Value::Null, |name: &str| json!(name));
    let made = shown(peer.post(&pods, asks("a", json!({}))).await);
    assert_eq!(made, [name("default"), name("default"), pull("default"), nothing.clone()]);
    let made = shown(peer.post(&pods, asks("b", json!({"serviceAccountName": "robot"}))).await);
    assert_eq!(made, [name("robot"), name("robot"), pull("robot"), nothing.clone()]);
    let own = json!({"serviceAccount": "robot", "imagePullSecrets": [{"name": "mine"}]});
    let made = shown(peer.post(&pods, asks("c", own)).await);
    assert_eq!(made, [name("robot"), name("robot"), json!([{"name": "mine"}]), nothing]);
    let refused = |answer: Answer| answer.fails(403, "Forbidden")["message"].as_str().unwrap().to_owned();
    let lost = refused(peer.post(&pods, asks("d", json!({"serviceAccountName": "nobody"}))).await);
    let want = format!(
        "pods \"d\" is forbidden: error looking up service account {ns}/nobody: serviceaccount \"nobody\" not found"
    );
    assert_eq!(lost, want);
    let mut mirror = asks("e", json!({"serviceAccountName": "robot", "nodeName": "n"}));
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    let words = refused(peer.post(&pods, mirror).await);
    assert_eq!(words, "pods \"e\" is forbidden: a mirror pod may not reference service accounts");
    // An account that goes leaves its pods as they are.
    peer.delete(&format!("{accounts}/robot")).await.ok(200);
    peer.patch(&format!("{pods}/b"), "merge", json!({"metadata": {"labels": {"still": "here"}}})).await.ok(200);
}

async fn pods_can_do_without_an_account(_: &Peer) {
    let peer = &started(Kind::Muster, &["--controllers=*", "--disable-admission-plugins=ServiceAccount"]).await;
    let ns = peer.namespace().await;
    let mut body = pod("a");
    body["spec"]["serviceAccountName"] = "nobody".into();
    peer.post(&collection("pods", &ns), body).await.ok(201);
    let made = peer.post(&collection("pods", &ns), pod("b")).await.ok(201);
    assert!(made["spec"]["serviceAccountName"].is_null(), "{made}");
}
