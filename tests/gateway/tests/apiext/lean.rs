//! Tags and packed answers. // KC-8
use std::io::Read;

use muster_tests::runner::Case;
use muster_tests::{Peer, cases};
use muster_tests_gateway::{Face, refused};
use serde_json::{Value, json};

pub fn all() -> Vec<Case> {
    cases![lean: what_the_caller_has_is_not_sent_again, the_tag_of_an_object_guards_its_change, long_answers_are_packed]
}

async fn what_the_caller_has_is_not_sent_again(peer: &Peer) {
    let (face, namespace) = (Face::start(peer).await, peer.namespace().await);
    let list = format!("/apiext/v1/core/v1/namespaces/{namespace}/configmaps");
    for name in ["a", "b"] {
        face.post(&list, json!({"name": name, "data": {"k": name}})).await.ok(201);
    }
    for path in [format!("{list}?sort=name"), format!("{list}/a"), "/apiext/v1".to_owned()] {
        let first = face.get(&path).await;
        let tag = first.header("etag").to_owned();
        assert!(first.status == 200 && tag.contains('"'), "{path}: {tag}");
        let again = face.call("GET", &path).header("if-none-match", &tag).send().await;
        assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, tag.as_str()), "{path}");
        assert_eq!(again.header("x-request-id").len(), 16);
    }
    let one = format!("{list}/a");
    let tag = face.get(&one).await.header("etag").to_owned();
    face.call("PATCH", &one).json(json!({"data": {"k": "other"}})).send().await.ok(200);
    let now = face.call("GET", &one).header("if-none-match", &tag).send().await;
    assert_eq!(now.ok(200)["data"]["k"], "other");
    assert_ne!(now.header("etag"), tag);
    // A tag is no right.
    let nobody = face.call("GET", &one).token(Some("nobody")).header("if-none-match", now.header("etag")).send().await;
    refused(&nobody, 401);
    assert_eq!(nobody.header("etag"), "");
}

async fn the_tag_of_an_object_guards_its_change(peer: &Peer) {
    let (face, namespace) = (Face::start(peer).await, peer.namespace().await);
    let list = format!("/apiext/v1/core/v1/namespaces/{namespace}/configmaps");
    let made = face.post(&list, json!({"name": "a", "data": {"k": "1"}})).await;
    let one = format!("{list}/a");
    let tag = made.header("etag").to_owned();
    assert_eq!(tag, format!("\"{}\"", made.ok(201)["resourceVersion"].as_str().unwrap()));
    assert_eq!(face.get(&one).await.header("etag"), tag);
    let put = |tag: &str, value: &str| {
        face.call("PUT", &one).header("if-match", tag).json(json!({"name": "a", "data": {"k": value}})).send()
    };
    let changed = put(&tag, "2").await;
    assert_eq!(changed.ok(200)["data"]["k"], "2");
    refused(&put(&tag, "3").await, 409);
    assert_eq!(put(changed.header("etag"), "4").await.ok(200)["data"]["k"], "4");
}

async fn long_answers_are_packed(peer: &Peer) {
    let (face, namespace) = (Face::start(peer).await, peer.namespace().await);
    let list = format!("/apiext/v1/core/v1/namespaces/{namespace}/configmaps");
    for n in 0..30 {
        face.post(&list, json!({"name": format!("m{n:02}"), "labels": {"app": "packed"}, "data": {"k": "v"}}))
            .await
            .ok(201);
    }
    let path = format!("{list}?labelSelector=app%3Dpacked");
    let plain = face.get(&path).await;
    let packed = face.call("GET", &path).header("accept-encoding", "gzip, br").send().await;
    assert_eq!((packed.status, packed.header("content-encoding")), (200, "gzip"));
    assert!(packed.header("vary").contains("Accept-Encoding") && packed.body.len() * 2 < plain.body.len());
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&packed.body[..]).read_to_end(&mut unpacked).unwrap();
    let unpacked: Value = serde_json::from_slice(&unpacked).unwrap();
    assert_eq!(unpacked, plain.json());
    assert_eq!(unpacked["count"], 30);
    // One tag for both forms: which one the caller keeps is its own affair.
    assert_eq!(packed.header("etag"), plain.header("etag"));
    let short =
        face.call("GET", &format!("{list}?pageSize=1&fields=name")).header("accept-encoding", "gzip").send().await;
    assert_eq!((short.status, short.header("content-encoding")), (200, ""));
}
