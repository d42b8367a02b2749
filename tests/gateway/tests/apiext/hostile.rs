//! Bad input: a refusal in the one shape, never a 5xx. // KC-8
use std::time::Duration;

use muster_tests::client::read_until;
use muster_tests::runner::Case;
use muster_tests::{Peer, cases};
use muster_tests_gateway::{Face, refused};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

pub fn all() -> Vec<Case> {
    cases![hostile: paths, queries, bodies, raw_bytes]
}

async fn paths(peer: &Peer) {
    let face = Face::start(peer).await;
    let long = "x".repeat(3000);
    let root = "/apiext/v1";
    for path in [
        "/",
        "/api/v1/secrets",
        "/apiext",
        "/apiext/v2",
        "/apiext/v1/",
        "/apiext/v1/core",
        "/apiext/v1/core/v1/",
        "/apiext/v1/core/v1/configmaps/",
        "/apiext/v1/core/v1/../../../api/v1/secrets",
        "/apiext/v1/core/v1/%2e%2e/secrets",
        "/apiext/v1/core/v1/configmaps%2f..%2fsecrets",
        "/apiext/v1/core/v1/namespaces/default%2fsecrets/configmaps",
        "/apiext/v1/core/v1/namespaces//configmaps",
        "/apiext/v1/core/v1/namespaces/%00/configmaps",
        "/apiext/v1/core/v1/namespaces/a%0d%0aX:%20y/configmaps",
        "/apiext/v1/core/v1/namespaces/%ff/configmaps",
        "/apiext/v1/core/v1/pods/log",
        "/apiext/v1/no.such.group/v1/things",
        "/apiext/v1/core/v9/configmaps",
        "/apiext/v1/core/v1/nosuch",
        "/apiext/v1/core/v1/namespaces/default/nodes",
        "/apiext/v1/core/v1/configmaps/x",
        "/apiext/v1/core/v1/componentstatuses/x/y/z",
        "/apiext/v1/../../etc/passwd",
        "//apiext/v1/core/v1/configmaps",
        "/apiext/v1/core/v1/namespaces/default/pods/x/log",
        "/apiext/v1/core/v1/configmaps%3flimit=1",
    ] {
        let answer = face.get(path).await;
        assert!((400..500).contains(&answer.status), "{path}: {} {}", answer.status, answer.text());
        refused(&answer, answer.status);
    }
    let answer = face.get(&format!("{root}/{long}/v1/x")).await;
    assert!((400..500).contains(&answer.status), "{}", answer.status);
    for method in ["TRACE", "CONNECT", "OPTIONS", "HEAD", "PROPFIND", "PUT", "DELETE", "PATCH"] {
        let answer = face.call(method, "/apiext/v1/core/v1/configmaps").send().await;
        assert!((400..500).contains(&answer.status), "{method}: {}", answer.status);
    }
}

async fn queries(peer: &Peer) {
    let face = Face::start(peer).await;
    let place = "/apiext/v1/core/v1/namespaces/default/configmaps";
    let huge = format!("filter={}", "a+exists+and+".repeat(1000));
    let deep = format!("filter={}a+exists{}", "(".repeat(300), ")".repeat(300));
    let many = format!("filter={}", vec!["a+exists"; 100].join("+and+"));
    let fields = format!("fields={}", vec!["a"; 100].join(","));
    for query in [
        "page=0",
        "page=-1",
        "page=99999999999999999999",
        "page=NaN",
        "pageSize=100000",
        "sort=",
        "sort=;drop",
        "sort=a..b",
        "filter=",
        "filter=%00",
        "filter=a",
        "filter=a+b+c",
        "filter='",
        "filter=(((((",
        "filter=a+in+(",
        "labelSelector=((",
        "labelSelector=a%20b",
        "fields=",
        "fields=%22",
        "cursor=AAAA",
        "cursor=..",
        "cursor=%FF",
        "limit=5",
        "watch=true",
        "continue=x",
        "page=1&page=2",
        "resourceVersion=0",
        "%ff=%fe",
        &huge,
        &deep,
        &many,
        &fields,
    ] {
        refused(&face.get(&format!("{place}?{query}")).await, 400);
    }
    // Strange but right.
    for query in [
        "",
        "filter=%22x.y%22.z+exists",
        "filter=a.b.c.d+gt+5",
        "sort=-a.b.0.c",
        "q=%00%ff",
        "fields=x.y.z",
        "page=1000000000",
        "filter=name+eq+%F0%9F%A6%80",
    ] {
        face.get(&format!("{place}?{query}")).await.ok(200);
    }
}

async fn bodies(peer: &Peer) {
    let (face, ns) = (Face::start(peer).await, peer.namespace().await);
    let place = format!("/apiext/v1/core/v1/namespaces/{ns}/configmaps");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let nested = format!("{{\"name\":\"x\",\"data\":{}1{}}}", "{\"a\":".repeat(120), "}".repeat(120));
    for body in [
        "",
        "{",
        "null",
        "[]",
        "5",
        "\"x\"",
        "{\"name\":5}",
        "{\"name\":{}}",
        "{\"name\":null,\"labels\":[]}",
        "{\"metadata\":{\"name\":[]}}",
        "{\"metadata\":[]}",
        "{\"name\":\"x\",\"labels\":{\"a\":5}}",
        "{\"name\":\"x\",\"data\":[1]}",
        "{\"name\":\"x\",\"namespace\":7}",
        "{\"name\":\"../../x\"}",
        "{\"name\":\"x\",\"annotations\":\"no\"}",
        "{\"name\":\"x\"} trailing",
        "{\"name\":\"\\ud800\"}",
        "\u{feff}{}",
        &deep,
        &nested,
    ] {
        let answer = face.call("POST", &place).raw("application/json", body.to_owned()).send().await;
        assert!(
            (400..500).contains(&answer.status),
            "{}: {} {}",
            &body[..body.len().min(60)],
            answer.status,
            answer.text()
        );
        refused(&answer, answer.status);
    }
    refused(&face.call("POST", &place).raw("application/yaml", "name: x").send().await, 415);
    refused(&face.call("POST", &place).raw("text/plain", "{}").send().await, 415);
    refused(&face.call("POST", &place).raw("application/json", vec![b' '; (3 << 20) + 1]).send().await, 413);
    refused(&face.call("POST", &place).raw("application/json", vec![0xff, 0xfe]).send().await, 400);
    refused(&face.call("GET", &place).raw("application/json", "{}").send().await, 400);
    face.post(&place, json!({"name": "good"})).await.ok(201);
    for patch in [
        "[]",
        "5",
        "{\"labels\":5}",
        "{\"data\":{\"a\":{}}}",
        "{\"metadata\":5}",
        "{\"metadata\":{\"name\":\"other\"}}",
    ] {
        let answer =
            face.call("PATCH", &format!("{place}/good")).raw("application/merge-patch+json", patch).send().await;
        assert!((400..500).contains(&answer.status), "{patch}: {} {}", answer.status, answer.text());
    }
    for put in [
        "[]",
        "{\"resourceVersion\":5}",
        "{\"resourceVersion\":\"1\",\"labels\":5}",
        "{}",
        "{\"metadata\":{\"resourceVersion\":{}}}",
    ] {
        let answer = face.call("PUT", &format!("{place}/good")).raw("application/json", put).send().await;
        assert!((400..500).contains(&answer.status), "{put}: {} {}", answer.status, answer.text());
    }
    for action in ["{\"replicas\":{}}", "[]", "{"] {
        let answer = face.call("POST", &format!("{place}/good/scale")).raw("application/json", action).send().await;
        assert!((400..500).contains(&answer.status), "{action}: {}", answer.text());
    }
    for header in ["impersonate-user", "impersonate-group", "impersonate-extra-x"] {
        refused(&face.call("GET", &place).header(header, "system:masters").send().await, 400);
    }
}

async fn raw_bytes(peer: &Peer) {
    let face = Face::start(peer).await;
    let huge_header = format!("GET /apiext/v1 HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(200_000));
    for bytes in [
        "\0\0\0\0\r\n\r\n",
        "GET\r\n\r\n",
        "GET /apiext/v1 HTTP/9.9\r\n\r\n",
        "GET /apiext/v1 HTTP/1.1\r\n\r\n",
        "GET /apiext/v1 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET http://evil/apiext/v1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "POST /apiext/v1/core/v1/configmaps HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET /apiext/v1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &huge_header,
    ] {
        let mut stream = TcpStream::connect(face.address).await.unwrap();
        let _ = stream.write_all(bytes.as_bytes()).await;
        let _ = stream.shutdown().await;
        let answer = read_until(&mut stream, Duration::from_secs(5)).await;
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            !answer.starts_with("HTTP/1.1 2") && !answer.starts_with("HTTP/1.1 5"),
            "{}: {answer}",
            bytes.escape_debug().take(80).collect::<String>()
        );
    }
    face.get("/apiext/v1").await.ok(200);
}
