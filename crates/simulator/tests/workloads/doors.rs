//! Logs, exec and usage, as a program in the same process asks for them.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use http::{Request, header};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use serde_json::{Value, json};
use simulator::{FAIL, Member};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;
use tower::Service;

use crate::world::{World, template, world};

async fn running(world: &World, name: &str) {
    let mut pod = template(name, "shop:1");
    pod["metadata"]["name"] = name.into();
    world.create::<Pod>(pod).await;
    world.until::<Pod>(name, |p| p["status"]["containerStatuses"][0]["ready"] == true).await;
}

#[tokio::test(start_paused = true)]
async fn logs_can_be_cut_followed_and_looked_back_at() {
    let world = world().await;
    running(&world, "p").await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let pods = world.all::<Pod>();
    let all = pods.logs("p", &LogParams::default()).await.unwrap();
    assert!(all.lines().count() > 100 && all.lines().next().unwrap().contains("starting in pod p"), "{all}");
    let tail = LogParams { tail_lines: Some(5), ..LogParams::default() };
    let last = pods.logs("p", &tail).await.unwrap();
    assert_eq!(last.lines().count(), 5);
    assert!(all.ends_with(&last));
    let since = pods.logs("p", &LogParams { since_seconds: Some(60), ..LogParams::default() }).await.unwrap();
    assert!((10..=61).contains(&since.lines().count()), "{}", since.lines().count());
    let stamped =
        pods.logs("p", &LogParams { tail_lines: Some(1), timestamps: true, ..LogParams::default() }).await.unwrap();
    assert!(stamped.starts_with("2026-03-01T00:"), "{stamped}");
    let refused = pods.logs("p", &LogParams { previous: true, ..LogParams::default() }).await.unwrap_err();
    assert!(refused.to_string().contains("previous terminated container"), "{refused}");

    // A follower hears the end when the pod goes.
    let followed =
        pods.log_stream("p", &LogParams { follow: true, tail_lines: Some(1), ..LogParams::default() }).await.unwrap();
    let reader = tokio::spawn(async move {
        let mut text = String::new();
        let mut followed = std::pin::pin!(followed);
        futures_util::AsyncReadExt::read_to_string(&mut followed, &mut text).await.unwrap();
        text
    });
    tokio::time::sleep(Duration::from_secs(60)).await;
    pods.delete("p", &Default::default()).await.unwrap();
    let text = tokio::time::timeout(Duration::from_secs(60), reader).await.unwrap().unwrap();
    assert!(text.lines().count() > 10, "{text}");
    world.member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_is_in_the_previous_log() {
    let world = world().await;
    let mut pod = template("p", "shop:1");
    pod["metadata"]["name"] = "p".into();
    pod["metadata"]["annotations"] = json!({FAIL: "crash-loop"});
    world.create::<Pod>(pod).await;
    world.until::<Pod>("p", |p| p["status"]["containerStatuses"][0]["restartCount"].as_i64() >= Some(2)).await;
    let log = world.all::<Pod>().logs("p", &LogParams { previous: true, ..LogParams::default() }).await.unwrap();
    assert!(log.trim_end().ends_with("simulated crash, exit code 1"), "{log}");
    world.member.stop().await;
}

/// Runs a command, feeds it, and gives what it wrote and how it ended.
async fn exec(member: &Member, query: &str, input: &[&str]) -> (String, String, Value) {
    let request = Request::get(format!("/api/v1/namespaces/default/pods/p/exec?{query}"))
        .header(header::HOST, "member")
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ==")
        .header(header::SEC_WEBSOCKET_PROTOCOL, "v5.channel.k8s.io")
        .body(Empty::<bytes::Bytes>::new())
        .unwrap();
    let response = member.service().call(request).await.unwrap();
    assert_eq!(response.status(), 101);
    let io = hyper::upgrade::on(response).await.unwrap();
    let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(io), Role::Client, None).await;
    for piece in input {
        let mut frame = vec![0];
        frame.extend_from_slice(piece.as_bytes());
        socket.send(Message::Binary(frame.into())).await.unwrap();
    }
    if !input.is_empty() {
        let _ = socket.send(Message::Binary(vec![255, 0].into())).await;
    }
    let (mut out, mut err, mut end) = (String::new(), String::new(), Value::Null);
    while let Some(Ok(message)) = socket.next().await {
        let Message::Binary(data) = message else { continue };
        let text = String::from_utf8_lossy(&data[1..]).into_owned();
        match data[0] {
            1 => out.push_str(&text),
            2 => err.push_str(&text),
            3 => end = serde_json::from_str(&text).unwrap(),
            other => panic!("channel {other}"),
        }
    }
    (out, err, end)
}

#[tokio::test(start_paused = true)]
async fn commands_run_and_say_how_they_ended() {
    let world = world().await;
    running(&world, "p").await;
    let member = &world.member;
    let (out, _, end) = exec(member, "command=echo&command=hello&stdout=true&stderr=true", &[]).await;
    assert_eq!((out.as_str(), &end["status"]), ("hello\n", &json!("Success")));
    let (_, err, end) = exec(member, "command=cat&command=/nothing&stdout=true&stderr=true", &[]).await;
    assert!(err.contains("No such file"), "{err}");
    assert_eq!(end["details"]["causes"][0]["message"], "1");
    let (out, ..) = exec(member, "command=cat&stdin=true&stdout=true", &["one\n", "two\n"]).await;
    assert_eq!(out, "one\ntwo\n");
    let (out, _, end) = exec(member, "command=sh&stdin=true&stdout=true", &["echo a; hostn", "ame\nexit 7\n"]).await;
    assert_eq!((out.as_str(), &end["details"]["causes"][0]["message"]), ("a\np\n", &json!("7")));
    let (out, ..) = exec(member, "command=sh&stdin=true&stdout=true&tty=true", &["echo hix\x7f\r", "exit\r"]).await;
    assert!(out.starts_with("/ # echo hix\x08 \x08\r\nhi\r\n/ # exit"), "{out:?}");
    let (_, _, end) = exec(member, "command=rm&stdout=true", &[]).await;
    assert!(end["message"].as_str().unwrap().contains("executable file not found"), "{end}");
    world.member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn usage_is_known_of_what_runs() {
    let world = world().await;
    running(&world, "p").await;
    let get = async |path: &str| {
        let request = Request::get(path).body(Empty::<bytes::Bytes>::new()).unwrap();
        let response = world.member.service().call(request).await.unwrap();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice::<Value>(&bytes).unwrap()
    };
    let pods = get("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods?labelSelector=app%3Dp").await;
    assert_eq!(pods["items"][0]["containers"][0]["name"], "web");
    assert!(
        get("/apis/metrics.k8s.io/v1beta1/pods?labelSelector=app%3Dother").await["items"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    assert_eq!(get("/apis/metrics.k8s.io/v1beta1/nodes").await["items"].as_array().unwrap().len(), 3);
    let groups = get("/apis").await;
    assert!(groups["groups"].as_array().unwrap().iter().any(|g| g["name"] == "metrics.k8s.io"));
    assert_eq!(get("/apis/metrics.k8s.io/v1beta1/nodes/nobody").await["code"], 404);
    world.member.stop().await;
}
