//! How bodies travel: gzip, YAML, protobuf, HTTP versions, media types.
use std::io::Read;

use muster_tests::proto::{MEDIA, Message, envelope, metadata};
use muster_tests::runner::Case;
use muster_tests::{Peer, cases};
use serde_json::json;

use crate::{collection, config_map};

pub fn cases() -> Vec<Case> {
    cases![encoding: large_answers_are_gzipped_when_wanted, small_answers_are_not, yaml_bodies, yaml_answers, protobuf_namespace, protobuf_config_map,
        protobuf_secret, protobuf_lease, protobuf_delete_options, protobuf_clients_get_an_answer, broken_protobuf_is_refused, http1_and_http2,
        pretty_answers, body_limit, media_type_parameters]
    .into_iter()
    .chain(cases![muster encoding: plain_http_on_loopback])
    .collect()
}

async fn large_answers_are_gzipped_when_wanted(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    peer.post(&path, config_map("large", &"text ".repeat(40_000))).await.ok(201);
    let plain = peer.get(&format!("{path}/large")).await;
    assert_eq!(plain.header("content-encoding"), "");
    for what in [format!("{path}/large"), path.clone()] {
        let packed = peer.call("GET", &what).header("accept-encoding", "gzip").send().await;
        assert_eq!(packed.status, 200);
        assert_eq!(packed.header("content-encoding"), "gzip");
        assert!(packed.header("vary").to_lowercase().contains("accept-encoding"), "{:?}", packed.headers);
        let mut text = String::new();
        flate2::read::GzDecoder::new(&packed.body[..]).read_to_string(&mut text).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        if what.ends_with("large") {
            assert_eq!(value, plain.json());
        }
        assert!(packed.body.len() * 20 < plain.body.len());
    }
}

async fn small_answers_are_not(peer: &Peer) {
    let small = peer.call("GET", "/api/v1/namespaces/default").header("accept-encoding", "gzip").send().await;
    assert_eq!(small.header("content-encoding"), "");
    small.ok(200);
}

async fn yaml_bodies(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  text: |\n    two\n    lines\n  quoted: \"5\"\n";
    let made = peer.call("POST", &path).body(yaml).media("application/yaml").send().await.ok(201);
    assert_eq!(made["data"], json!({"text": "two\nlines\n", "quoted": "5"}));
    let broken = peer.call("POST", &path).body("a: [").media("application/yaml").send().await;
    broken.bad_request_or_internal(peer);
}

async fn yaml_answers(peer: &Peer) {
    let answer = peer.call("GET", "/api/v1/namespaces/default").accept("application/yaml").send().await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), "application/yaml");
    let value: serde_json::Value = serde_saphyr::from_str(&answer.text()).unwrap();
    assert_eq!(value["metadata"]["name"], "default");
}

async fn send_proto(peer: &Peer, method: &str, path: &str, body: Vec<u8>) -> muster_tests::Answer {
    peer.call(method, path).body(body).media(MEDIA).accept("application/json").send().await
}

async fn protobuf_namespace(peer: &Peer) {
    let unique = format!("proto-{}", peer.namespace().await);
    let body = envelope("v1", "Namespace", Message::new().message(1, metadata(&unique, "", &[("l", "m")])));
    let made = send_proto(peer, "POST", "/api/v1/namespaces", body).await.ok(201);
    assert_eq!(made["metadata"]["name"], unique.as_str());
    assert_eq!(made["metadata"]["labels"]["l"], "m");
    assert_eq!(made["status"]["phase"], "Active");
}

async fn protobuf_config_map(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    // data = 2, binaryData = 3, immutable = 4
    let object = Message::new()
        .message(1, metadata("a", &ns, &[]))
        .entry(2, "k", b"value")
        .entry(3, "b", &[0, 255])
        .number(4, 0);
    let made = send_proto(peer, "POST", &path, envelope("v1", "ConfigMap", object)).await.ok(201);
    assert_eq!(made["data"], json!({"k": "value"}));
    assert_eq!(made["binaryData"], json!({"b": "AP8="}));
    assert_eq!(made["immutable"], false, "{made}");
    let rv = made["metadata"]["resourceVersion"].as_str().unwrap();
    let object = Message::new().message(1, metadata("a", &ns, &[]).text(6, rv)).entry(2, "k", b"again");
    let put = send_proto(peer, "PUT", &format!("{path}/a"), envelope("v1", "ConfigMap", object)).await.ok(200);
    assert_eq!(put["data"], json!({"k": "again"}));
    assert!(put.get("immutable").is_none());
}

async fn protobuf_secret(peer: &Peer) {
    let ns = peer.namespace().await;
    let object = Message::new()
        .message(1, metadata("s", &ns, &[]))
        .entry(2, "k", b"\x01\x02")
        .text(3, "x.example/t")
        .entry(4, "text", b"plain");
    let made = send_proto(peer, "POST", &collection("secrets", &ns), envelope("v1", "Secret", object)).await.ok(201);
    assert_eq!(made["data"], json!({"k": "AQI=", "text": "cGxhaW4="}));
    assert_eq!(made["type"], "x.example/t");
}

async fn protobuf_lease(peer: &Peer) {
    let ns = peer.namespace().await;
    // LeaseSpec: holderIdentity = 1, leaseDurationSeconds = 2, acquireTime = 3 (MicroTime: seconds = 1, nanos = 2)
    let spec = Message::new()
        .text(1, "me")
        .number(2, 15)
        .message(3, Message::new().number(1, 1_577_934_245).number(2, 123_456_000));
    let object = Message::new().message(1, metadata("l", &ns, &[])).message(2, spec);
    let made =
        send_proto(peer, "POST", &collection("leases", &ns), envelope("coordination.k8s.io/v1", "Lease", object))
            .await
            .ok(201);
    assert_eq!(
        made["spec"],
        json!({"holderIdentity": "me", "leaseDurationSeconds": 15, "acquireTime": "2020-01-02T03:04:05.123456Z"})
    );
}

async fn protobuf_delete_options(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let made = peer.post(&path, config_map("a", "1")).await.ok(201);
    // preconditions = 2 (uid = 1), propagationPolicy = 4
    let wrong = Message::new().message(2, Message::new().text(1, "11111111-1111-1111-1111-111111111111"));
    send_proto(peer, "DELETE", &format!("{path}/a"), envelope("v1", "DeleteOptions", wrong))
        .await
        .fails(409, "Conflict");
    let uid = made["metadata"]["uid"].as_str().unwrap();
    let right = Message::new().message(2, Message::new().text(1, uid)).text(4, "Background");
    send_proto(peer, "DELETE", &format!("{path}/a"), envelope("v1", "DeleteOptions", right)).await.ok(200);
    // Collections too; this is how client-go deletes.
    peer.post(&path, config_map("b", "1")).await.ok(201);
    send_proto(peer, "DELETE", &path, envelope("v1", "DeleteOptions", Message::new().text(4, "Background")))
        .await
        .ok(200);
    peer.get(&format!("{path}/b")).await.fails(404, "NotFound");
}

async fn protobuf_clients_get_an_answer(peer: &Peer) {
    // Since clients choose the decoder by the content type of the answer, JSON is an answer to every Accept they send.
    let answer = peer
        .call("GET", "/api/v1/namespaces/default")
        .accept("application/vnd.kubernetes.protobuf,application/json")
        .send()
        .await;
    assert_eq!(answer.status, 200);
    assert!([MEDIA, "application/json"].contains(&answer.header("content-type")), "{:?}", answer.headers);
}

async fn broken_protobuf_is_refused(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let whole = envelope("v1", "ConfigMap", Message::new().message(1, metadata("a", &ns, &[])).entry(2, "k", b"value"));
    for body in [
        whole[..whole.len() - 15].to_vec(),
        b"k8s\0".to_vec(),
        b"k8s\0\xff\xff\xff\xff".to_vec(),
        b"nonsense".to_vec(),
        vec![],
    ] {
        let answer = send_proto(peer, "POST", &path, body).await;
        assert!((400..500).contains(&answer.status) || !peer.is_muster(), "{} {}", answer.status, answer.text());
        assert_eq!(answer.json()["kind"], "Status");
    }
    let other = envelope("v1", "Secret", Message::new().message(1, metadata("a", &ns, &[])));
    send_proto(peer, "POST", &path, other).await.fails(400, "BadRequest");
}

async fn http1_and_http2(peer: &Peer) {
    let one = peer.call("GET", "/api/v1/namespaces/default").http1().send().await;
    let two = peer.call("GET", "/api/v1/namespaces/default").fresh().send().await;
    assert_eq!((one.version, two.version), (http::Version::HTTP_11, http::Version::HTTP_2));
    assert_eq!(one.ok(200), two.ok(200));
}

async fn pretty_answers(peer: &Peer) {
    let plain = peer.get("/api/v1/namespaces/default").await;
    let pretty = peer.get("/api/v1/namespaces/default?pretty=true").await;
    assert!(!plain.text().trim_end().contains('\n'));
    assert!(pretty.text().lines().count() > 5);
    assert_eq!(plain.json(), pretty.json());
}

async fn body_limit(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    let body = vec![b' '; 3 * 1024 * 1024 + 1];
    // On a connection of its own: the server may close it, having left the rest of the body unread.
    peer.call("POST", &path).body(body).fresh().send().await.fails(413, "RequestEntityTooLarge");
}

async fn media_type_parameters(peer: &Peer) {
    let ns = peer.namespace().await;
    let path = collection("configmaps", &ns);
    peer.call("POST", &path).body(config_map("a", "1")).media("application/json; charset=UTF-8").send().await.ok(201);
    peer.call("POST", &path).body(config_map("b", "1")).media("").send().await.ok(201);
    let order = "application/json;as=Table;g=meta.k8s.io;v=v1;q=0.1, application/json";
    let answer = peer.call("GET", &path).accept(order).send().await.ok(200);
    assert!(answer["kind"] == "ConfigMapList" || answer["kind"] == "Table");
}

async fn plain_http_on_loopback(peer: &Peer) {
    let answer = peer.call("GET", "/api/v1/namespaces/default").plain().token(None).send().await;
    assert_eq!(answer.ok(200)["metadata"]["name"], "default");
}
