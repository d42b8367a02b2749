//! Inside pods: commands, terminals, logs, log files.
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use muster_tests::peer::TOKEN;
use muster_tests::runner::Case;
use muster_tests::{PATIENCE, Peer, cases, eventually};
use muster_tests_gateway::browser::Tab;
use muster_tests_gateway::{Face, refused};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::stage::Stage;

pub fn all() -> Vec<Case> {
    cases![inside: commands_run_with_their_words_apart, a_terminal_talks_and_ends, logs_are_tailed_and_followed, log_files_are_listed_and_read,
        logs_of_many_pods_share_one_socket]
}

async fn with_pod(peer: &Peer) -> (Stage, String) {
    let stage = Stage::begin(peer, &["beijing"]).await;
    stage.app("beijing", "shop", "web", json!({"app": "web"}), 1).await;
    let pods = stage.pods("web", 1).await;
    let name = pods[0]["name"].as_str().unwrap().to_owned();
    (stage, name)
}

// SYM-13: 8
async fn commands_run_with_their_words_apart(peer: &Peer) {
    let (stage, pod) = with_pod(peer).await;
    let base = format!("/api/cluster/beijing/exec?namespace=shop&pod={pod}");
    let ran = stage.face.get(&format!("{base}&command=echo&command=a%20%20b&command=%24(id)%3B")).await.ok(200);
    assert_eq!(ran, json!({"stdout": "a  b $(id);\n", "stderr": "", "exitCode": 0, "truncated": false}));
    let ran = stage.face.call("POST", &format!("{base}&command=sh&command=-c&command=exit%203")).send().await.ok(200);
    assert_eq!(ran["exitCode"], 3);
    let ran = stage.face.get(&format!("{base}&command=cat&command=/nothing")).await.ok(200);
    assert!(ran["exitCode"] == 1 && ran["stderr"].as_str().unwrap().contains("/nothing"), "{ran}");
    let problem = refused(&stage.face.get(&format!("{base}&command=no-such-program")).await, 422);
    assert!(problem["message"].as_str().unwrap().contains("not found"), "{problem}");
    let problem = refused(&stage.face.get(&format!("{base}&command=sleep&command=60&timeoutSeconds=1")).await, 504);
    assert_eq!(problem["reason"], "CommandSlow");
    refused(&stage.face.get(&base).await, 400);
    refused(&stage.face.get(&format!("{base}&command=id&stdin=true")).await, 400);
    refused(&stage.face.get("/api/cluster/beijing/exec?namespace=shop&pod=nobody&command=id").await, 404);
    refused(&stage.face.get(&format!("/api/cluster/all/exec?namespace=shop&pod={pod}&command=id")).await, 400);
    stage.end().await;
}

pub type Terminal = tokio_tungstenite::WebSocketStream<TcpStream>;

async fn terminal(face: &Face, query: &str) -> Terminal {
    let bearer = format!("Bearer {TOKEN}");
    let path = format!("/api/cluster/beijing/terminal?{query}");
    terminal_with(face.address, &path, &[("authorization", &bearer)]).await
}

/// A terminal, opened with these headers.
pub async fn terminal_with(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Terminal {
    let mut request = format!("ws://{address}{path}").into_client_request().unwrap();
    for (name, value) in headers {
        let name: http::HeaderName = name.parse().unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let stream = TcpStream::connect(address).await.unwrap();
    tokio_tungstenite::client_async(request, stream).await.unwrap().0
}

/// What a terminal says until the text is in it, or until it ends: its status then.
pub async fn hear(terminal: &mut Terminal, wanted: &str) -> (String, Option<Value>) {
    let mut heard = String::new();
    let listening = async {
        loop {
            match terminal.next().await {
                Some(Ok(Message::Binary(frame))) if frame[0] == 3 => {
                    return (heard, serde_json::from_slice(&frame[1..]).ok());
                }
                Some(Ok(Message::Binary(frame))) => {
                    heard.push_str(&String::from_utf8_lossy(&frame[1..]));
                    if !wanted.is_empty() && heard.contains(wanted) {
                        return (heard, None);
                    }
                }
                Some(Ok(Message::Close(frame))) => {
                    let code = frame.map_or(1005, |frame| u16::from(frame.code));
                    return (heard, Some(json!({"closed": code})));
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return (heard, Some(json!({"closed": 0}))),
            }
        }
    };
    timeout(PATIENCE, listening).await.unwrap_or_else(|_| panic!("nothing with {wanted:?} came"))
}

pub async fn say(terminal: &mut Terminal, channel: u8, text: &str) {
    terminal.send(Message::Binary([&[channel], text.as_bytes()].concat().into())).await.unwrap();
}

// SYM-13: 7
async fn a_terminal_talks_and_ends(peer: &Peer) {
    let (stage, pod) = with_pod(peer).await;
    let mut open = terminal(&stage.face, &format!("namespace=shop&pod={pod}")).await;
    say(&mut open, 4, r#"{"Width":120,"Height":40}"#).await;
    hear(&mut open, "# ").await;
    say(&mut open, 0, "echo be''ijing\n").await;
    let (heard, _) = hear(&mut open, "beijing\r\n").await;
    assert!(!heard.contains("command not found"), "{heard}");
    // Its size is the last that was said.
    for (said, size) in [(r#"{"Width":120,"Height":40}"#, "40 120"), (r#"{"Width":81,"Height":25}"#, "25 81")] {
        say(&mut open, 4, said).await;
        say(&mut open, 0, "stty size\n").await;
        let (heard, _) = hear(&mut open, &format!("{size}\r\n")).await;
        assert!(heard.contains("stty size"), "{heard}");
    }
    say(&mut open, 0, "exit 7\n").await;
    let (_, status) = hear(&mut open, "").await;
    assert_eq!(status.unwrap()["details"]["causes"][0]["message"], "7");
    // Without a terminal there are two channels, and the end of input ends it.
    let mut plain = terminal(&stage.face, &format!("namespace=shop&pod={pod}&tty=false&command=cat")).await;
    say(&mut plain, 0, "one\ntwo\n").await;
    plain.send(Message::Binary(Bytes::from_static(&[255, 0]))).await.unwrap();
    let (heard, status) = hear(&mut plain, "").await;
    assert_eq!((heard.as_str(), status.unwrap()["status"].as_str()), ("one\ntwo\n", Some("Success")));
    // What is not of the protocol, and what there is not, is refused with a reason.
    let mut wrong = terminal(&stage.face, &format!("namespace=shop&pod={pod}")).await;
    say(&mut wrong, 3, "{}").await;
    let mut status = hear(&mut wrong, "").await.1;
    while status.as_ref().is_some_and(|status| status.get("closed").is_none()) {
        status = hear(&mut wrong, "").await.1;
    }
    assert_eq!(status.unwrap(), json!({"closed": 4400}));
    let mut nobody = terminal(&stage.face, "namespace=shop&pod=nobody").await;
    assert_eq!(hear(&mut nobody, "").await.1.unwrap(), json!({"closed": 4404}));
    stage.end().await;
}

/// A GET whose answer is read piece by piece; the connection ends when it is dropped.
pub struct Reading {
    pub body: hyper::body::Incoming,
    connection: tokio::task::JoinHandle<()>,
}

impl Reading {
    async fn open(face: &Face, path: &str) -> Reading {
        Reading::open_with(face, path, &[("authorization", &format!("Bearer {TOKEN}"))]).await
    }

    pub async fn open_with(face: &Face, path: &str, headers: &[(&str, &str)]) -> Reading {
        let stream = TcpStream::connect(face.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(async move { drop(connection.await) });
        let mut request = Request::get(path).header("host", face.address.to_string());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (200, &http::HeaderValue::from_static("text/plain; charset=utf-8"))
        );
        Reading { body: response.into_body(), connection }
    }

    pub async fn lines(&mut self, count: usize) -> String {
        let mut text = String::new();
        let reading = async {
            while text.lines().count() < count {
                let Some(frame) = self.body.frame().await else { break };
                text.push_str(&String::from_utf8_lossy(&frame.unwrap().into_data().unwrap_or_default()));
            }
        };
        timeout(PATIENCE, reading).await.unwrap();
        text
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

// SYM-13: 11
async fn logs_are_tailed_and_followed(peer: &Peer) {
    let (stage, pod) = with_pod(peer).await;
    let path = format!("/api/cluster/beijing/namespace/shop/pods/{pod}/logs");
    let read = async |query: &str| stage.face.get(&format!("{path}?{query}")).await;
    eventually("it has said something", || async { read("").await.text().lines().count() >= 3 }).await;
    let all = read("").await.text();
    let tail = read("tail=2").await.text();
    assert_eq!(tail.lines().count(), 2);
    assert!(read("tailLines=1&timestamps=true").await.text().starts_with("20"));
    assert_eq!(read("sinceTime=2100-01-01T00:00:00Z").await.text(), "");
    assert!(read("since=1h").await.text().starts_with(all.lines().next().unwrap()));
    refused(&read("previous=true").await, 400);
    refused(&read("tail=x").await, 400);
    let mut followed = Reading::open(&stage.face, &format!("{path}?follow=true&tail=1")).await;
    let heard = followed.lines(3).await;
    assert!(heard.lines().count() >= 3, "{heard}");
    drop(followed);
    refused(&stage.face.get("/api/cluster/beijing/namespace/shop/pods/nobody/logs").await, 404);
    refused(&stage.face.get(&format!("/api/cluster/all/namespace/shop/pods/{pod}/logs")).await, 400);
    stage.end().await;
}

// SYM-13: 12, 13
async fn log_files_are_listed_and_read(peer: &Peer) {
    let (stage, pod) = with_pod(peer).await;
    let place = format!("cluster=beijing&namespace=shop&pod={pod}");
    let files = stage.face.get(&format!("/api/pod/logfiles?{place}")).await.ok(200);
    let names: Vec<&str> = files.as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(names, ["/var/log/app.log", "/var/log/error.log"], "{files}");
    assert!(files[0]["size"].is_u64() && files[0]["name"] == "app.log", "{files}");
    refused(&stage.face.get(&format!("/api/pod/logfiles?{place}&path=/nothing")).await, 404);
    for bad in ["var/log", "--help", "/var/../etc", "/a%00b"] {
        refused(&stage.face.get(&format!("/api/pod/logfiles?{place}&path={bad}")).await, 400);
    }
    let file = format!("/api/cluster/beijing/namespace/shop/pods/{pod}/logs/file");
    let read = stage.face.get(&format!("{file}?path=/etc/hostname&tail=5")).await;
    assert_eq!((read.status, read.text()), (200, format!("{pod}\n")));
    refused(&stage.face.get(&format!("{file}?path=/nothing")).await, 404);
    refused(&stage.face.get(&format!("{file}?path=-F")).await, 400);
    let mut followed = Reading::open(&stage.face, &format!("{file}?path=/var/log/app.log&follow=true&tail=1")).await;
    let heard = followed.lines(3).await;
    assert!(heard.lines().count() >= 3, "{heard}");
    stage.end().await;
}

// SYM-13: 11, 13
async fn logs_of_many_pods_share_one_socket(peer: &Peer) {
    let stage = Stage::begin(peer, &["beijing"]).await;
    stage.app("beijing", "shop", "web", json!({"app": "web"}), 12).await;
    let pods = stage.pods("web", 12).await;
    let bearer = format!("Bearer {TOKEN}");
    let mut tab = Tab::open(stage.face.address, "/wapi/v1/stream", &[("authorization", &bearer)]).await.unwrap();
    let path = |pod: &str| format!("/api/cluster/beijing/namespace/shop/pods/{pod}/logs");
    let mut read: BTreeMap<String, String> = BTreeMap::new();
    for pod in &pods {
        let pod = pod["name"].as_str().unwrap();
        read.insert(pod.to_owned(), String::new());
        let path = format!("{}?follow=true&tailLines=2", path(pod));
        tab.say(json!({"follow": {"id": pod, "path": path}})).await;
    }
    let file = format!("{}/file?path=/var/log/app.log&follow=true&tail=1", path(pods[0]["name"].as_str().unwrap()));
    read.insert("file".to_owned(), String::new());
    tab.say(json!({"follow": {"id": "file", "path": file}})).await;
    let enough = |read: &BTreeMap<String, String>| read.values().all(|text| text.lines().count() >= 4);
    let begun = std::time::Instant::now();
    while !enough(&read) {
        assert!(begun.elapsed() < 2 * PATIENCE, "not every log goes on: {read:?}");
        let heard = tab.hear_all(Duration::from_millis(500), |id, text| {
            read.get_mut(id).unwrap().push_str(&String::from_utf8_lossy(text));
        });
        let heard = heard.await;
        assert!(heard.is_none_or(|event| event["event"] == "open"), "nothing but beginnings");
    }
    // Each is its own pod's: the simulator's lines are made of the pod's name.
    for (pod, text) in read.iter().filter(|(pod, _)| *pod != "file") {
        let whole = stage.face.get(&path(pod)).await.text();
        let first = text.lines().next().unwrap();
        assert!(whole.lines().any(|line| line == first), "{pod} has no line {first:?}");
    }
    for (wrong, code) in [
        (path("nobody"), 404),
        (format!("{}?tail=x", path("nobody")), 400),
        ("/api/cluster/beijing".to_owned(), 404),
        ("/api/cluster/nowhere/namespace/shop/pods/p/logs".to_owned(), 404),
    ] {
        tab.say(json!({"follow": {"id": "wrong", "path": wrong}})).await;
        let heard = loop {
            let heard = tab.hear(PATIENCE).await.unwrap();
            if heard["id"] == "wrong" {
                break heard;
            }
        };
        assert_eq!((&heard["event"], &heard["code"]), (&json!("failed"), &json!(code)), "{wrong}: {heard}");
    }
    stage.end().await;
}
