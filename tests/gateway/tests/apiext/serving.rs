//! The listener: TLS, client certificates, hosts and origins, limits, slow clients, the end. // KC-8
use std::sync::Arc;
use std::time::{Duration, Instant};

use gateway::{Actions, Limits, Options, Rate, Tls, bind};
use muster_tests::client::{read_head, read_until};
use muster_tests::peer::TOKEN;
use muster_tests::runner::Case;
use muster_tests::{PATIENCE, Peer, cases, eventually, within};
use muster_tests_gateway::{Face, generous, refused, upstream};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

pub fn all() -> Vec<Case> {
    cases![serving: a_client_certificate_is_its_user_by_impersonation, only_meant_hosts_and_origins_are_answered, callers_that_are_too_fast_are_told_to_wait,
        a_client_that_dawdles_is_cut_off, a_connection_in_use_is_not_idle, the_end_lets_requests_finish, plain_http_stays_on_loopback, idle_caches_are_dropped_and_started_again, an_api_that_goes_away_and_comes_back, what_is_too_much_is_refused_in_words]
}

fn here() -> Options {
    Options { limits: generous(), ..Options::new(([127, 0, 0, 1], 0).into()) }
}

async fn a_client_certificate_is_its_user_by_impersonation(peer: &Peer) {
    let folder = tempfile::tempdir().unwrap();
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new(Vec::<String>::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_certificate = ca.self_signed(&ca_key).unwrap();
    let issuer = Issuer::new(ca, ca_key);
    let leaf = |names: Vec<String>, user: &str, group: &str| {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, user);
        params.distinguished_name.push(DnType::OrganizationName, group);
        (params.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem())
    };
    let (certificate, key) = leaf(vec!["127.0.0.1".to_owned()], "server", "");
    for (file, text) in [("tls.crt", &certificate), ("tls.key", &key), ("ca.crt", &ca_certificate.pem())] {
        std::fs::write(folder.path().join(file), text).unwrap();
    }
    let file = |name: &str| folder.path().join(name);
    let tls = Tls { certificate: file("tls.crt"), key: file("tls.key"), client_ca: Some(file("ca.crt")) };
    let face = Face::start_with(peer, Options { tls: Some(tls), ..here() }, Actions::default()).await;
    let connect = async |identity: Option<(String, String)>| {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca_certificate.pem().as_bytes()).unwrap()).unwrap();
        let builder = rustls::ClientConfig::builder().with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap()).unwrap()
            }
        };
        let stream = TcpStream::connect(face.address).await.unwrap();
        TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await.unwrap()
    };
    let list = "/apiext/v1/core/v1/configmaps";
    face.call("GET", list).token(None).over(connect(Some(leaf(vec![], "ann", "system:masters"))).await).await.ok(200);
    refused(&face.call("GET", list).token(None).over(connect(Some(leaf(vec![], "bob", "nobodies"))).await).await, 403);
    refused(&face.call("GET", list).token(None).over(connect(None).await).await, 401);
    face.call("GET", list).over(connect(None).await).await.ok(200);
    // HTTP/2 is spoken to who offers it.
    let (mut sender, connection) = hyper::client::conn::http2::handshake(
        hyper_util::rt::TokioExecutor::new(),
        hyper_util::rt::TokioIo::new(connect(None).await),
    )
    .await
    .unwrap();
    tokio::spawn(connection);
    let request = http::Request::get(format!("https://{}{list}", face.address))
        .header("authorization", format!("Bearer {TOKEN}"));
    let response =
        sender.send_request(request.body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap()).await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, http::Version::HTTP_2));
    // A token says who it is even beside a certificate.
    refused(
        &face
            .call("GET", list)
            .token(Some("wrong"))
            .over(connect(Some(leaf(vec![], "ann", "system:masters"))).await)
            .await,
        401,
    );
}

async fn only_meant_hosts_and_origins_are_answered(peer: &Peer) {
    let options = Options {
        hosts: vec!["muster.example".to_owned()],
        origins: vec!["https://console.example".to_owned()],
        ..here()
    };
    let face = Face::start_with(peer, options, Actions::default()).await;
    let from = async |host: &str, origin: &str| {
        let call = face.call("GET", "/apiext/v1/core/v1/nodes").header("host", host);
        if origin.is_empty() { call.send().await } else { call.header("origin", origin).send().await }
    };
    from("muster.example:8443", "").await.ok(200);
    refused(&from("evil.example", "").await, 421);
    refused(&from("localhost", "https://evil.example").await, 403);
    let answer = from("localhost", "https://console.example").await;
    answer.ok(200);
    assert_eq!(answer.header("access-control-allow-origin"), "https://console.example");
    assert_eq!(from("localhost", "").await.header("access-control-allow-origin"), "");
    let preflight =
        face.call("OPTIONS", "/apiext/v1").token(None).header("origin", "https://console.example").send().await;
    assert_eq!(preflight.status, 204);
    refused(&face.call("OPTIONS", "/apiext/v1").token(None).header("origin", "https://evil.example").send().await, 403);
}

async fn callers_that_are_too_fast_are_told_to_wait(peer: &Peer) {
    let rate = Rate { per_second: 0.001, burst: 5.0 };
    let limits = Limits { per_caller: rate, per_stranger: rate, ..Limits::default() };
    let face = Face::start_with(peer, Options { limits, ..here() }, Actions::default()).await;
    let mut codes = Vec::new();
    for _ in 0..12 {
        let answer = face.get("/apiext/v1").await;
        if answer.status == 429 {
            assert_eq!(answer.header("retry-after"), "1");
        }
        codes.push(answer.status);
    }
    // One as a stranger, five as who it is, and no more.
    assert_eq!(codes.iter().filter(|code| **code == 200).count(), 6, "{codes:?}");
    assert_eq!(codes.last(), Some(&429));
    // Guessing tokens does not give a fresh allowance each time.
    let mut guesses = Vec::new();
    for i in 0..8 {
        guesses.push(face.call("GET", "/apiext/v1").token(Some(&format!("guess-{i}"))).send().await.status);
    }
    assert_eq!(guesses, [401, 401, 401, 401, 429, 429, 429, 429]);
}

async fn a_client_that_dawdles_is_cut_off(peer: &Peer) {
    let short = Duration::from_millis(300);
    let limits = Limits { head_timeout: short, body_timeout: short, ..generous() };
    let face = Face::start_with(peer, Options { limits, ..here() }, Actions::default()).await;
    let mut stream = TcpStream::connect(face.address).await.unwrap();
    stream.write_all(b"GET /apiext/v1 HTTP/1.1\r\nHost: loc").await.unwrap();
    let ended = tokio::time::timeout(PATIENCE, read_until(&mut stream, 2 * PATIENCE)).await;
    assert!(ended.is_ok(), "the head never ended and nobody minded");
    let mut stream = TcpStream::connect(face.address).await.unwrap();
    let head = format!(
        "POST /apiext/v1/core/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = tokio::time::timeout(PATIENCE, read_until(&mut stream, 2 * PATIENCE)).await.unwrap();
    assert!(String::from_utf8_lossy(&answer).starts_with("HTTP/1.1 408"), "{}", String::from_utf8_lossy(&answer));
}

async fn a_connection_in_use_is_not_idle(peer: &Peer) {
    let idle = Duration::from_secs(2);
    let limits = Limits { idle_timeout: idle, ..generous() };
    let face = Face::start_with(peer, Options { limits, ..here() }, Actions::default()).await;
    let request =
        format!("GET /apiext/v1/nothing HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    let mut stream = TcpStream::connect(face.address).await.unwrap();
    let (begun, mut last) = (Instant::now(), Instant::now());
    // Each is answered in a moment: whoever looks now and then sees none of them.
    while begun.elapsed() < 3 * idle {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if last.elapsed() > idle / 2 {
            // The machine stood still, and the connection was idle indeed.
            stream = TcpStream::connect(face.address).await.unwrap();
        }
        last = Instant::now();
        stream.write_all(request.as_bytes()).await.expect("the connection was closed");
        let mut answer = [0; 4096];
        let read = stream.read(&mut answer).await.expect("the connection was closed");
        assert!(answer[..read].starts_with(b"HTTP/1.1 404"), "{:?}", String::from_utf8_lossy(&answer[..read]));
    }
    let ended = tokio::time::timeout(PATIENCE, read_until(&mut stream, 2 * PATIENCE)).await;
    assert!(ended.is_ok(), "nobody asks, and it stays open");
}

async fn the_end_lets_requests_finish(peer: &Peer) {
    let (face, ns) = (Face::start(peer).await, peer.namespace().await);
    let place = format!("/apiext/v1/core/v1/namespaces/{ns}/configmaps");
    face.get(&place).await.ok(200);
    let mut under_way = Vec::new();
    for i in 0..10 {
        let mut stream = TcpStream::connect(face.address).await.unwrap();
        let body = json!({"name": format!("last-{i}")}).to_string();
        let head = format!(
            "POST {place} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nExpect: 100-continue\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // Somebody works on it when the body is asked for.
        let asked = read_head(&mut stream).await;
        assert!(asked.starts_with("HTTP/1.1 100"), "{asked}");
        under_way.push((stream, body));
    }
    face.stop.cancel();
    for (mut stream, body) in under_way {
        stream.write_all(body.as_bytes()).await.unwrap();
        let answer = read_head(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    }
    let (address, running) = (face.address, face.running);
    tokio::time::timeout(PATIENCE, running).await.expect("it ends").unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

async fn plain_http_stays_on_loopback(peer: &Peer) {
    let options = Options::new(([0, 0, 0, 0], 0).into());
    let refused = bind(options, upstream(peer).await, Actions::default()).await.err().unwrap();
    assert!(refused.to_string().contains("certificate"), "{refused}");
    let tls = Tls { certificate: "/no/such/file".into(), key: "/no/such/key".into(), client_ca: None };
    let refused =
        bind(Options { tls: Some(tls), ..here() }, upstream(peer).await, Actions::default()).await.err().unwrap();
    assert!(refused.to_string().contains("/no/such/file"), "{refused}");
}

async fn idle_caches_are_dropped_and_started_again(peer: &Peer) {
    let limits = Limits { cache_idle: Duration::from_millis(200), cached_kinds: 2, ..generous() };
    let face = Face::start_with(peer, Options { limits, ..here() }, Actions::default()).await;
    let ns = peer.namespace().await;
    let place = format!("/apiext/v1/core/v1/namespaces/{ns}/configmaps");
    for i in 0..6 {
        peer.post(&format!("/api/v1/namespaces/{ns}/configmaps"), json!({"metadata": {"name": format!("i{i}")}}))
            .await
            .ok(201);
        // Several kinds at once push each other out; every list is right all the same.
        for other in ["core/v1/secrets", "core/v1/services", "apps/v1/deployments"] {
            face.get(&format!("/apiext/v1/{other}")).await.ok(200);
        }
        assert_eq!(face.get(&format!("{place}?filter=name+startswith+i")).await.ok(200)["count"], i + 1);
        tokio::time::sleep(Duration::from_millis(if i % 2 == 0 { 600 } else { 0 })).await;
    }
}

/// With a server of its own, since it is killed.
async fn an_api_that_goes_away_and_comes_back(shared: &Peer) {
    let peer = Peer::start(shared.kind).await.unwrap();
    let limits = Limits { review_ttl: Duration::ZERO, ..generous() };
    let face = Face::start_with(&peer, Options { limits, ..here() }, Actions::default()).await;
    let place = "/apiext/v1/core/v1/namespaces/default/configmaps";
    face.post(place, json!({"name": "before"})).await.ok(201);
    assert!(face.names(place).await.contains(&"before".to_owned()));
    peer.kill();
    // The cache still has everything, but nobody can say who may see it.
    assert_eq!(refused(&face.get(place).await, 503)["reason"], "ServiceUnavailable");
    refused(&face.post(place, json!({"name": "during"})).await, 503);
    peer.launch().unwrap();
    peer.ready_again(PATIENCE).await.unwrap();
    eventually("it is reached again", || async { face.get(place).await.status == 200 }).await;
    for i in 0..5 {
        peer.post("/api/v1/namespaces/default/configmaps", json!({"metadata": {"name": format!("after-{i}")}}))
            .await
            .ok(201);
        // A list follows the API's own changes at once, that is as soon as it hears of them; it does not sit out a pause after the restart.
        let name = format!("after-{i}");
        let seen = async { while !face.names(place).await.contains(&name) {} };
        assert!(within(Duration::from_secs(3), seen).await.is_some(), "{name} is not listed: lists are old");
    }
}

async fn what_is_too_much_is_refused_in_words(peer: &Peer) {
    let limits = Limits { objects_per_kind: 3, max_page_size: 10, page_size: 2, body_bytes: 1000, ..generous() };
    let options = Options { limits, kinds: vec!["core/configmaps".to_owned(), "apps/*".to_owned()], ..here() };
    let face = Face::start_with(peer, options, Actions::default()).await;
    let ns = peer.namespace().await;
    let place = format!("/apiext/v1/core/v1/namespaces/{ns}/configmaps");
    for i in 0..5 {
        face.post(&place, json!({"name": format!("m{i}"), "labels": {"i": i.to_string()}})).await.ok(201);
    }
    assert_eq!(refused(&face.get(&place).await, 422)["reason"], "TooLarge");
    face.get(&format!("{place}?labelSelector=i%3D1")).await.ok(200);
    refused(&face.get(&format!("{place}?pageSize=11")).await, 400);
    refused(&face.post(&place, json!({"name": "big", "data": {"k": "v".repeat(2000)}})).await, 413);
    // Only the configured kinds have a face.
    face.get("/apiext/v1/apps/v1/daemonsets").await.ok(200);
    refused(&face.get("/apiext/v1/core/v1/secrets").await, 404);
    assert_eq!(
        face.get("/apiext/v1").await.ok(200)["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|kind| kind["group"] == "core")
            .count(),
        1
    );
}
