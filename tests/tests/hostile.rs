//! Bad input (B-1 … B-4): whatever comes in, the answer is a Status or a closed connection; never a 5xx, a panic, a hang or memory without bound.
//!
//! The cases run on muster. `MUSTER_TEST_PEERS=kubernetes` runs them on kube-apiserver for comparison; it answers 500 to some of them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "hostile/load.rs"]
mod load;
#[path = "hostile/routes.rs"]
mod routes;

use std::io::Write;
use std::time::{Duration, Instant};

use bytes::Bytes;
use muster_tests::client::read_until;
use muster_tests::proto::{MEDIA, Message, envelope, metadata};
use muster_tests::runner::{Case, On};
use muster_tests::{Answer, PATIENCE, Peer, cases};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn main() {
    let mut cases: Vec<Case> = cases![hostile: malformed_json, deep_json, numbers_and_strings, duplicate_keys, yaml_aliases, odd_yaml, large_bodies,
        endless_chunked_body, slow_headers, slow_body, many_headers, huge_header, broken_http, broken_http2, hostile_names, hostile_paths, hostile_queries,
        wrong_media_types, broken_protobuf, gzip_bomb, hostile_patches, many_idle_connections, half_closed_requests, random_bytes_never_break_it, wide_pods];
    cases.extend(load::cases());
    cases.extend(routes::cases());
    if !std::env::var("MUSTER_TEST_PEERS").is_ok_and(|peers| peers == "kubernetes") {
        cases.iter_mut().for_each(|case| case.on = On::MusterOnly);
    }
    muster_tests::runner::main(cases);
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A refusal: 4xx with a Status.
#[track_caller]
fn refused(answer: &Answer) {
    assert!((400..500).contains(&answer.status), "{} gave {}: {}", answer.what, answer.status, cut(&answer.text()));
    assert_eq!(answer.json()["kind"], "Status", "{}: {}", answer.what, cut(&answer.text()));
    assert!(answer.body.len() < 64 * 1024, "{}: an answer of {} bytes", answer.what, answer.body.len());
}

/// Anything but a server failure.
#[track_caller]
fn survived(answer: &Answer) {
    assert!(answer.status < 500, "{} gave {}: {}", answer.what, answer.status, cut(&answer.text()));
}

fn cut(text: &str) -> String {
    text.chars().take(400).collect()
}

/// The server is there, answers, and has not grown by more than `mebibytes`.
async fn still_well(peer: &Peer, before: u64, mebibytes: u64) {
    assert_eq!(peer.call("GET", "/readyz").fresh().send().await.status, 200);
    let grown = peer.memory().resident.saturating_sub(before) / 1024;
    assert!(grown < mebibytes, "grew by {grown} MiB");
    assert_eq!(peer.panic_in_log(), None);
}

async fn post(peer: &Peer, body: impl Into<Bytes>, media: &str) -> Answer {
    let bytes: Bytes = body.into();
    peer.call("POST", MAPS).body(bytes.to_vec()).media(media).fresh().send().await
}

// B-2
async fn malformed_json(peer: &Peer) {
    for body in [
        "",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "nul",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "[1,]",
        "{\"a\":01}",
        "{\"a\":+1}",
        "{\"a\":.5}",
        "{\"a\":1.}",
        "{'a':1}",
        "{\"metadata\":{\"name\":\"x\"}}}",
        "{\"metadata\":{\"name\":\"x\"}} {",
        "// c\n{}",
        "{\"a\":\"\t\"}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12\"}",
        "{\"a\":\"\\ud800\"}x",
        "\u{feff}{}",
        "tru",
        "-",
        "1e",
        "{\"metadata\":null}",
        "true",
        "5",
        "\"text\"",
        "[]",
        "[[]]",
        "{}",
    ] {
        refused(&post(peer, body.to_owned(), "application/json").await);
    }
    for body in [
        b"\xff\xfe{\0}\0".to_vec(),
        b"{\"metadata\":{\"name\":\"\xff\xff\"}}".to_vec(),
        vec![0; 100],
        b"\x1f\x8b\x08garbage".to_vec(),
    ] {
        refused(&post(peer, body, "application/json").await);
    }
}

// B-2: 10k and a million levels; with a stack the parser would fall over, without a limit the renderer would.
async fn deep_json(peer: &Peer) {
    let before = peer.memory().resident;
    for depth in [10_001, 1_000_000] {
        let start = Instant::now();
        refused(&post(peer, "[".repeat(depth), "application/json").await);
        refused(&post(peer, format!("{}1{}", "[".repeat(depth), "]".repeat(depth)), "application/json").await);
        survived(
            &post(
                peer,
                format!("{{\"metadata\":{{\"name\":\"deep\"}},\"x\":{}1{}}}", "[".repeat(depth), "]".repeat(depth)),
                "application/json",
            )
            .await,
        );
        if depth < 500_000 {
            survived(
                &post(peer, format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth)), "application/json").await,
            );
        }
        let deep = format!("{{\"data\":{}\"x\"{}}}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
        for media in ["application/merge-patch+json", "application/strategic-merge-patch+json"] {
            let answer =
                peer.call("PATCH", &format!("{MAPS}/none")).body(deep.clone()).media(media).fresh().send().await;
            refused(&answer);
        }
        assert!(start.elapsed() < 2 * PATIENCE, "took {:?}", start.elapsed());
    }
    still_well(peer, before, 128).await;
}

// B-2
async fn numbers_and_strings(peer: &Peer) {
    for number in [
        "NaN",
        "Infinity",
        "-Infinity",
        "1e999",
        "-1e999",
        "99999999999999999999999999",
        "1e400000000",
        "0x10",
        "1_000",
    ] {
        let lease = format!("{{\"metadata\":{{\"name\":\"n\"}},\"spec\":{{\"leaseDurationSeconds\":{number}}}}}");
        let answer =
            peer.call("POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases").body(lease).send().await;
        refused(&answer);
    }
    let long_key = "k".repeat(1_000_000);
    refused(
        &post(
            peer,
            format!("{{\"metadata\":{{\"name\":\"n\"}},\"data\":{{\"{long_key}\":\"v\"}}}}"),
            "application/json",
        )
        .await,
    );
    refused(
        &post(
            peer,
            format!("{{\"metadata\":{{\"name\":\"n\",\"labels\":{{\"{long_key}\":\"v\"}}}}}}"),
            "application/json",
        )
        .await,
    );
    survived(&post(peer, format!("{{\"metadata\":{{\"name\":\"n\"}},\"{long_key}\":1}}"), "application/json").await);
    let many: String = (0..50_000).map(|i| format!("\"u{i}\":1,")).collect();
    let warned = post(peer, format!("{{{many}\"metadata\":{{\"name\":\"many-unknown\"}}}}"), "application/json").await;
    survived(&warned);
    let headers: usize = warned.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    assert!(headers < 64 * 1024, "{headers} bytes of headers");
}

// B-2
async fn duplicate_keys(peer: &Peer) {
    let strict = peer.call("POST", &format!("{MAPS}?fieldValidation=Strict"));
    refused(&strict.body("{\"metadata\":{\"name\":\"d\",\"name\":\"e\"}}").send().await);
    let many: String = (0..20_000).map(|_| "\"k\":\"v\",").collect();
    let answer = peer.call("POST", &format!("{MAPS}?fieldValidation=Strict"));
    refused(&answer.body(format!("{{\"metadata\":{{\"name\":\"d\"}},\"data\":{{{many}\"k\":\"v\"}}}}")).send().await);
}

// B-2: the billion laughs.
async fn yaml_aliases(peer: &Peer) {
    let before = peer.memory().resident;
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
    for i in 1..30 {
        let refs = vec![format!("*a{}", i - 1); 9].join(",");
        bomb.push_str(&format!("a{i}: &a{i} [{refs}]\n"));
    }
    bomb.push_str("metadata: {name: bomb}\ndata: *a29\n");
    for path in [MAPS.to_owned(), format!("{MAPS}?fieldValidation=Strict")] {
        let answer = peer.call("POST", &path).body(bomb.clone()).media("application/yaml").fresh().send().await;
        refused(&answer);
    }
    let loops = "metadata: &m\n  name: x\n  labels: *m\n";
    refused(&post(peer, loops.to_owned(), "application/yaml").await);
    let merge = "base: &b {name: x}\nmetadata:\n  <<: *b\n";
    survived(&post(peer, merge.to_owned(), "application/yaml").await);
    still_well(peer, before, 128).await;
}

// B-2
async fn odd_yaml(peer: &Peer) {
    for body in [
        ": :",
        "- - -",
        "a: b: c",
        "\tmetadata: x",
        "%YAML 9.9\n---\n{}",
        "!!binary x",
        "!!python/object:os.system {}",
        "metadata: !<x> {name: y}",
        "? [a]\n: b",
        "&a *a",
        "---\n---\n---",
        "{",
        "[",
        "\"",
        "'",
        "|",
        ">\n",
        "a: .nan",
        "a: .inf",
        "1: 2",
        "~: x",
        "metadata: {name: [1]}",
    ] {
        refused(&post(peer, body.to_owned(), "application/yaml").await);
    }
    let deep = format!("a: {}", "[".repeat(100_000));
    refused(&post(peer, deep, "application/yaml").await);
    let indented: String = (0..3_000).map(|i| format!("{}a:\n", " ".repeat(i))).collect();
    refused(&post(peer, indented.chars().take(3_000_000).collect::<String>(), "application/yaml").await);
    refused(&post(peer, b"\xff\xfem\0e\0".to_vec(), "application/yaml").await);
}

// B-3
async fn large_bodies(peer: &Peer) {
    let before = peer.memory().resident;
    let limit = 3 * 1024 * 1024;
    for media in ["application/json", "application/yaml", MEDIA] {
        let answer = post(peer, vec![b' '; limit + 1], media).await;
        answer.fails(413, "RequestEntityTooLarge");
    }
    let patch = peer
        .call("PATCH", &format!("{MAPS}/x"))
        .body(vec![b' '; limit + 1])
        .media("application/merge-patch+json")
        .fresh();
    patch.send().await.fails(413, "RequestEntityTooLarge");
    refused(&post(peer, vec![b' '; limit], "application/json").await);
    // A content length that is not true yet is refused before anything is read.
    let head = format!(
        "POST {MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer suite-admin-token\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n"
    );
    let answer = String::from_utf8_lossy(&peer.raw(head.as_bytes(), Duration::from_secs(10)).await).into_owned();
    assert!(answer.starts_with("HTTP/1.1 413") || answer.is_empty(), "{}", cut(&answer));
    still_well(peer, before, 128).await;
}

// B-3
async fn endless_chunked_body(peer: &Peer) {
    let before = peer.memory().resident;
    let mut stream = peer.tls("http/1.1").await.unwrap();
    let head = format!(
        "POST {MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer suite-admin-token\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    let mut sent = 0;
    // The server must stop us: by an answer, or by closing. A gibibyte is more than it may ever take.
    while sent < 16 * 1024 {
        if tokio::time::timeout(PATIENCE, stream.write_all(chunk.as_bytes())).await.is_ok_and(|done| done.is_ok()) {
            sent += 1;
        } else {
            break;
        }
    }
    assert!(sent < 16 * 1024, "the server read a gibibyte");
    let answer = String::from_utf8_lossy(&read_until(&mut stream, Duration::from_secs(5)).await).into_owned();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413"), "{}", cut(&answer));
    still_well(peer, before, 128).await;
}

/// The time within which a server must have given up on a peer that does not go on: a minute, and another for a slow machine.
const GIVEN_UP: Duration = Duration::from_secs(120);

// B-3: slow-loris.
async fn slow_headers(peer: &Peer) {
    let mut stream = peer.tls("http/1.1").await.unwrap();
    stream.write_all(b"GET /version HTTP/1.1\r\nHost: x\r\n").await.unwrap();
    let start = Instant::now();
    let closed = tokio::time::timeout(GIVEN_UP, async {
        let mut buffer = [0; 1024];
        loop {
            tokio::select! {
                read = stream.read(&mut buffer) => if matches!(read, Ok(0) | Err(_)) { return },
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
            if stream.write_all(b"X-A: b\r\n").await.is_err() {
                return;
            }
        }
    });
    assert!(closed.await.is_ok(), "headers still open after {:?}", start.elapsed());
}

// B-3
async fn slow_body(peer: &Peer) {
    let mut stream = peer.tls("http/1.1").await.unwrap();
    let head = format!(
        "POST {MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer suite-admin-token\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let start = Instant::now();
    let answer = read_until(&mut stream, GIVEN_UP).await;
    assert!(start.elapsed() < GIVEN_UP, "a body that does not come was waited for without end");
    let answer = String::from_utf8_lossy(&answer);
    assert!(!answer.starts_with("HTTP/1.1 5") || answer.starts_with("HTTP/1.1 504"), "{}", cut(&answer));
}

async fn raw_status(peer: &Peer, bytes: &[u8]) -> String {
    let answer = peer.raw(bytes, Duration::from_secs(10)).await;
    String::from_utf8_lossy(&answer[..answer.len().min(12)]).into_owned()
}

// B-3
async fn many_headers(peer: &Peer) {
    let before = peer.memory().resident;
    let headers: String = (0..100_000).map(|i| format!("X-{i}: y\r\n")).collect();
    let status = raw_status(peer, format!("GET /version HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes()).await;
    assert!(status.is_empty() || status == "HTTP/1.1 431" || status == "HTTP/1.1 400", "{status}");
    still_well(peer, before, 128).await;
}

// B-3
async fn huge_header(peer: &Peer) {
    let before = peer.memory().resident;
    let status = raw_status(
        peer,
        format!("GET /version HTTP/1.1\r\nHost: x\r\nX-A: {}\r\n\r\n", "y".repeat(16 << 20)).as_bytes(),
    )
    .await;
    assert!(status.is_empty() || status == "HTTP/1.1 431" || status == "HTTP/1.1 400", "{status}");
    let status = raw_status(peer, format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "y".repeat(4 << 20)).as_bytes()).await;
    assert!(
        status.is_empty() || ["HTTP/1.1 414", "HTTP/1.1 431", "HTTP/1.1 400"].contains(&status.as_str()),
        "{status}"
    );
    // Over HTTP/2 as well.
    if let Ok(answer) = peer.call("GET", "/version").header("x-a", &"y".repeat(4 << 20)).fresh().try_send().await {
        assert!((400..500).contains(&answer.status), "{}", answer.status);
    }
    still_well(peer, before, 128).await;
}

// B-1
async fn broken_http(peer: &Peer) {
    for bytes in [
        "\r\n\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET  /  HTTP/1.1\r\n\r\n",
        "\0\0\0\0",
        "GET / HTTP/1.1\r\nHost x\r\n\r\n",
        "GET / HTTP/1.1\r\n: x\r\n\r\n",
        "POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        "POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        "POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
        "CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET http://evil.example/ HTTP/1.1\r\nHost: x\r\n\r\n",
        "SSH-2.0-x\r\n",
        "GET /api HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \u{1}\r\n\r\n",
        "GET * HTTP/1.1\r\nHost: x\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\ngarbage garbage garbage garbage",
    ] {
        let status = raw_status(peer, bytes.as_bytes()).await;
        assert!(
            !status.starts_with("HTTP/1.1 5") || status == "HTTP/1.1 505" || status == "HTTP/1.1 501",
            "{bytes:?} gave {status}"
        );
    }
    // Plain text on the TLS port.
    let mut plain = tokio::net::TcpStream::connect(("127.0.0.1", peer.port)).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    read_until(&mut plain, Duration::from_secs(5)).await;
    assert_eq!(peer.get("/readyz").await.status, 200);
}

// B-1
async fn broken_http2(peer: &Peer) {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let frames: [&[u8]; 6] = [
        &[0xff; 64],
        // A frame longer than allowed, data on stream 0, a window update of 0, headers that are no HPACK, continuation without headers.
        &[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1],
        &[0, 0, 1, 0, 0, 0, 0, 0, 0, 1],
        &[0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0, 0, 4, 1, 4, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff],
        &[0, 0, 1, 9, 0, 0, 0, 0, 1, 0],
    ];
    for frame in frames {
        let mut stream = peer.tls("h2").await.unwrap();
        let _ = stream.write_all(&[preface.as_slice(), &settings, frame].concat()).await;
        read_until(&mut stream, Duration::from_secs(3)).await;
    }
    // Ten thousand streams opened and reset at once.
    let mut stream = peer.tls("h2").await.unwrap();
    let mut flood = [preface.as_slice(), &settings].concat();
    for i in 0..10_000u32 {
        let id = (2 * i + 1).to_be_bytes();
        flood.extend([0, 0, 3, 1, 5, id[0], id[1], id[2], id[3], 0x82, 0x84, 0x87]);
        flood.extend([0, 0, 4, 3, 0, id[0], id[1], id[2], id[3], 0, 0, 0, 8]);
    }
    let _ = tokio::time::timeout(Duration::from_secs(10), stream.write_all(&flood)).await;
    read_until(&mut stream, Duration::from_secs(2)).await;
    assert_eq!(peer.call("GET", "/readyz").fresh().send().await.status, 200);
}

// B-4
async fn hostile_names(peer: &Peer) {
    let long = "x".repeat(254);
    for name in [
        "../x",
        "..",
        ".",
        "/",
        "a/b",
        "a%2fb",
        "a\0b",
        "a\nb",
        "A",
        "ａｂ",
        "а",
        "a\u{202e}b",
        "con:",
        "-",
        "",
        long.as_str(),
        "a b",
        "%00",
        "\\x",
        "~root",
        "$(id)",
        "x;y",
        "'",
        "\"",
        "<b>",
        "\u{7f}",
    ] {
        let answer = peer.post(MAPS, json!({"metadata": {"name": name}})).await;
        answer.fails(422, "Invalid");
        let answer = peer.post("/api/v1/namespaces", json!({"metadata": {"name": name}})).await;
        answer.fails(422, "Invalid");
        if !name.is_empty() {
            let answer = peer.post(MAPS, json!({"metadata": {"name": "fine", "namespace": name}})).await;
            refused(&answer);
            let answer = peer.post(MAPS, json!({"metadata": {"generateName": name}})).await;
            survived(&answer);
        }
    }
    // Nothing may have been written outside the data folder.
    let around: Vec<_> =
        std::fs::read_dir(&peer.dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!around.iter().any(|file| file == "x"), "{around:?}");
}

// B-4
async fn hostile_paths(peer: &Peer) {
    for path in [
        "/api/v1/namespaces/../secrets",
        "/api/v1/namespaces/default/configmaps/..%2f..%2fsecrets",
        "/api/v1/namespaces/%2e%2e/configmaps",
        "/api/v1/namespaces/default/configmaps/a%00b",
        "/api/v1/namespaces/default/configmaps/%ff%fe",
        "/api/v1/namespaces/default/configmaps/%",
        "/api/v1/namespaces/default/configmaps/%2",
        "/api/v1/namespaces/default/configmaps/%zz",
        "//api//v1//namespaces",
        "/api/v1/namespaces/default/configmaps//",
        "/api/v1/namespaces/default/configmaps/a/../b",
        "/./api/v1/namespaces",
        "/api/v1/namespaces/default%2fconfigmaps",
        "/api/v1;x=y/namespaces",
        "/api/v1/namespaces/default/configmaps/%E2%80%AE",
        "/apis/../api/v1/secrets",
        "/apis//v1",
        "/apis/%2e%2e/x",
        "/openapi/v3/../../etc/passwd",
        "/openapi/v3/api/v1?hash=../../x",
        "/healthz/../api/v1/secrets",
        "/readyz/..%2f..",
        "/api/v1/watch/../secrets",
        "/api/v1/namespaces/default/configmaps/a#frag",
        "/api/v1/namespaces/default/configmaps/a?b?c&&==&",
        "/\\..\\..\\x",
    ] {
        for method in ["GET", "DELETE"] {
            let head = format!(
                "{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer suite-admin-token\r\nConnection: close\r\n\r\n"
            );
            let status = raw_status(peer, head.as_bytes()).await;
            assert!(!status.starts_with("HTTP/1.1 5"), "{method} {path} gave {status}");
            assert!(!(method == "DELETE" && status == "HTTP/1.1 200"), "{path} deleted something");
        }
    }
    let long = format!("{MAPS}/{}", "x".repeat(20_000));
    let answer = peer.get(&long).await;
    refused(&answer);
    let deep = format!("/api/v1/{}", "a/".repeat(5_000));
    refused(&peer.get(&deep).await);
}

// B-1
async fn hostile_queries(peer: &Peer) {
    let long = "a".repeat(30_000);
    let many = (0..5_000).map(|i| format!("k{i}%3Dv")).collect::<Vec<_>>().join(",");
    let parens = "(".repeat(5_000);
    for query in [
        "labelSelector=%00",
        "labelSelector=%ff",
        "labelSelector=a%20in%20(((",
        "labelSelector=,,,",
        "labelSelector=%21%21a",
        "labelSelector=a%3E99999999999999999999",
        "fieldSelector=%3D%3D%3D",
        "fieldSelector=metadata.name%3D%00",
        "fieldSelector=..%3D..",
        "limit=99999999999999999999",
        "limit=-9223372036854775808",
        "limit=1e3",
        "continue=%00",
        "continue=AAAA",
        "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiLi4vLi4vIn0",
        "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6OTk5OTk5OTk5OTk5OTk5OTk5OTk5LCJzdGFydCI6ImEifQ",
        "resourceVersion=99999999999999999999999",
        "resourceVersion=0x1",
        "resourceVersion=%20",
        "timeoutSeconds=-1&watch=1&resourceVersion=abc",
        "watch=maybe&timeoutSeconds=1",
        "dryRun=All&dryRun=All",
        "pretty=%00",
        "fieldManager=%00",
        "a=1&a=2&a=3",
        "%00=%00",
        "&&&&",
        "=",
        "labelSelector=a&labelSelector=b",
    ] {
        let answer = peer.get(&format!("{MAPS}?{query}")).await;
        assert!(answer.status < 500, "{query} gave {}: {}", answer.status, cut(&answer.text()));
    }
    for query in [
        format!("labelSelector={long}"),
        format!("labelSelector={many}"),
        format!("labelSelector=a%20in%20{parens}"),
        format!("fieldSelector={long}%3D{long}"),
        format!("continue={long}"),
    ] {
        let answer = peer.call("GET", &format!("{MAPS}?{query}")).fresh().try_send().await;
        if let Ok(answer) = answer {
            assert!(answer.status < 500, "gave {}: {}", answer.status, cut(&answer.text()));
        }
    }
    let manager = "m".repeat(200);
    refused(&peer.post(&format!("{MAPS}?fieldManager={manager}"), json!({"metadata": {"name": "m"}})).await);
}

// B-1
async fn wrong_media_types(peer: &Peer) {
    let body = json!({"metadata": {"name": "media"}}).to_string();
    for media in [
        "text/plain",
        "application/xml",
        "a",
        "/",
        "application/",
        "application/json;",
        "application/json;;;=",
        "application/json;charset=\"",
        "*/*",
        "multipart/form-data",
        &"x".repeat(5_000),
    ] {
        let answer =
            peer.call("POST", &format!("{MAPS}?dryRun=All")).body(body.clone()).media(media).fresh().send().await;
        survived(&answer);
    }
    for accept in [
        "a",
        "/",
        ";",
        ",,,",
        "application/json;as=Table",
        "application/json;as=;g=;v=",
        "application/json;q=x",
        "*/*;q=-1",
        "application/json;as=Table;g=meta.k8s.io;v=v99",
        &"a/b,".repeat(2_000),
    ] {
        let answer = peer.call("GET", MAPS).accept(accept).fresh().send().await;
        survived(&answer);
    }
}

// B-1
async fn broken_protobuf(peer: &Peer) {
    let good = envelope(
        "v1",
        "ConfigMap",
        Message::new().message(1, metadata("p", "default", &[("a", "b")])).entry(2, "k", b"v"),
    );
    let dry = format!("{MAPS}?dryRun=All");
    for length in 0..good.len() {
        let answer = peer.call("POST", &dry).body(good[..length].to_vec()).media(MEDIA).send().await;
        survived(&answer);
    }
    for at in 0..good.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bad = good.clone();
            bad[at] ^= flip;
            let answer = peer.call("POST", &dry).body(bad).media(MEDIA).send().await;
            survived(&answer);
        }
    }
    // Lengths that lie, nesting without end, groups, not UTF-8.
    let nested = (0..10_000).fold(Message::new(), |inner, _| Message::new().message(1, inner));
    for object in [
        nested,
        Message::new().bytes(1, &[0xff; 10]),
        Message(vec![0x0b; 1000]),
        Message::new().message(1, Message::new().bytes(1, &[0xff, 0xfe])),
        Message(vec![0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]),
    ] {
        let answer = peer.call("POST", &dry).body(envelope("v1", "ConfigMap", object)).media(MEDIA).send().await;
        refused(&answer);
    }
}

// B-3
async fn gzip_bomb(peer: &Peer) {
    let before = peer.memory().resident;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![b' '; 1 << 20];
    for _ in 0..512 {
        encoder.write_all(&zeros).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    let answer = peer.call("POST", MAPS).body(bomb).header("content-encoding", "gzip").fresh().send().await;
    refused(&answer);
    still_well(peer, before, 160).await;
}

// B-1
async fn hostile_patches(peer: &Peer) {
    peer.post(MAPS, json!({"metadata": {"name": "target"}, "data": {"a": "b"}})).await;
    let path = format!("{MAPS}/target?dryRun=All");
    let growing: Vec<_> =
        (0..60).map(|_| json!({"op": "copy", "from": "/metadata", "path": "/metadata/annotations"})).collect();
    let doubling: Vec<_> = (0..40).map(|i| json!({"op": "copy", "from": "", "path": format!("/x{i}")})).collect();
    let before = peer.memory().resident;
    for operations in [
        json!(growing),
        json!(doubling),
        json!([{"op": "add", "path": "/metadata/finalizers/999999999999", "value": "x"}]),
        json!([{"op": "add", "path": "/metadata/finalizers/-1", "value": "x"}]),
        json!([{"op": "remove", "path": ""}]),
        json!([{"op": "replace", "path": "", "value": 5}]),
        json!([{"op": "add", "path": "", "value": null}]),
        json!([{"op": "move", "from": "/data", "path": "/data/a"}]),
        json!([{"op": "test", "path": "/data/~9", "value": 1}]),
        json!([{"path": "/data/x", "value": "y"}]),
        json!([5]),
        json!([null]),
        json!(["x"]),
        json!([{"op": 5, "path": {}}]),
    ] {
        let answer =
            peer.call("PATCH", &path).body(operations).media("application/json-patch+json").fresh().send().await;
        refused(&answer);
    }
    for patch in [
        "5",
        "\"x\"",
        "[]",
        "null",
        "true",
        "{\"metadata\":5}",
        "{\"metadata\":{\"labels\":[]}}",
        "{\"$patch\":5}",
        "{\"$patch\":\"delete\"}",
        "{\"$setElementOrder/x\":5}",
        "{\"$retainKeys\":[5]}",
        "{\"$deleteFromPrimitiveList/a\":\"x\"}",
    ] {
        for media in ["application/merge-patch+json", "application/strategic-merge-patch+json"] {
            let answer = peer.call("PATCH", &path).body(patch).media(media).send().await;
            survived(&answer);
        }
    }
    still_well(peer, before, 128).await;
}

// B-3
async fn many_idle_connections(peer: &Peer) {
    let before = peer.memory().resident;
    let mut idle = Vec::new();
    for _ in 0..300 {
        idle.push(tokio::net::TcpStream::connect(("127.0.0.1", peer.port)).await.unwrap());
    }
    for _ in 0..100 {
        idle.push(tokio::net::TcpStream::connect(("127.0.0.1", peer.port)).await.unwrap());
    }
    still_well(peer, before, 64).await;
}

async fn half_closed_requests(peer: &Peer) {
    for _ in 0..50 {
        let mut stream = peer.tls("http/1.1").await.unwrap();
        let head = format!(
            "POST {MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer suite-admin-token\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{\"metadata\":"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        drop(stream);
    }
    assert_eq!(peer.get("/readyz").await.status, 200);
}

// B-1: a few thousand random bodies; the seed is printed when one breaks the server.
async fn random_bytes_never_break_it(peer: &Peer) {
    let mut state: u64 =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64 | 1;
    let seed = state;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let good = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "r", "labels": {"a": "b"}}, "data": {"k": "v"}}).to_string().into_bytes();
    for round in 0..1_500 {
        let mut bytes = good.clone();
        for _ in 0..=random(4) {
            let at = random(bytes.len());
            match random(3) {
                0 => bytes[at] = random(256) as u8,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, b"{}[]\",:\\\x00\xff0-e"[random(13)]),
            }
        }
        let media = [
            "application/json",
            "application/yaml",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
        ][random(4)];
        let (method, path) = if media.contains("patch") {
            ("PATCH", format!("{MAPS}/kept?dryRun=All"))
        } else {
            ("POST", format!("{MAPS}?dryRun=All"))
        };
        let answer = peer.call(method, &path).body(bytes.clone()).media(media).send().await;
        assert!(
            answer.status < 500,
            "seed {seed}, round {round}, {media}: {:?} gave {}",
            String::from_utf8_lossy(&bytes),
            answer.text()
        );
    }
    assert_eq!(peer.panic_in_log(), None);
}

/// Lists as long as a body can hold: the rules must not compare everything with everything.
async fn wide_pods(shared: &Peer) {
    // A server of its own: what it grows by here must not be charged to the cases that measure the shared one.
    let peer = &Peer::start(shared.kind).await.unwrap();
    let many = |item: &str, count: usize| format!("[{}]", vec![item; count].join(","));
    let numbered = |item: &str, count: usize| {
        let all: Vec<String> = (0..count).map(|i| item.replace('#', &i.to_string())).collect();
        format!("[{}]", all.join(","))
    };
    let container = |fields: String| format!("\"containers\":[{{\"name\":\"c\",\"image\":\"x\",{fields}}}]");
    for spec in [
        format!("\"containers\":{}", many("{\"name\":\"a\",\"image\":\"x\"}", 60_000)),
        format!("\"tolerations\":{}", many("{\"operator\":\"Exists\"}", 80_000)),
        format!("\"schedulingGates\":{}", numbered("{\"name\":\"g#\"}", 100_000)),
        format!(
            "\"topologySpreadConstraints\":{}",
            numbered("{\"maxSkew\":1,\"topologyKey\":\"k#\",\"whenUnsatisfiable\":\"DoNotSchedule\"}", 25_000)
        ),
        format!("\"resourceClaims\":{}", numbered("{\"name\":\"c#\"}", 100_000)),
        format!("\"securityContext\":{{\"sysctls\":{}}}", numbered("{\"name\":\"s#\",\"value\":\"\"}", 60_000)),
        format!(
            "\"volumes\":{},{}",
            numbered("{\"name\":\"v#\"}", 40_000),
            container(format!("\"volumeMounts\":{}", numbered("{\"name\":\"v#\",\"mountPath\":\"/#\"}", 40_000)))
        ),
        container(format!("\"ports\":{}", many("{\"containerPort\":80}", 100_000))),
        container(format!("\"env\":{}", many("{\"name\":\"A\"}", 150_000))),
        container(format!("\"envFrom\":{}", many("{}", 500_000))),
    ] {
        let body = format!("{{\"metadata\":{{\"name\":\"wide\"}},\"spec\":{{{spec}}}}}");
        assert!(body.len() < 3 << 20, "{}", body.len());
        let answer = peer.call("POST", "/api/v1/namespaces/default/pods").body(body).send().await;
        assert!(matches!(answer.status, 201 | 413 | 422), "{}: {:.300}", answer.status, answer.text());
        peer.delete("/api/v1/namespaces/default/pods/wide").await;
    }
    let ports = numbered("{\"port\":1,\"name\":\"p#\"}", 80_000);
    let body = format!("{{\"metadata\":{{\"name\":\"wide\"}},\"spec\":{{\"type\":\"NodePort\",\"ports\":{ports}}}}}");
    refused(&peer.call("POST", "/api/v1/namespaces/default/services").body(body).send().await);
    assert_eq!(peer.panic_in_log(), None);
}
