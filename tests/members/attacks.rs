//! What pages of strangers try with a browser that is logged in, on members; and what ends with the session or the right behind it.
use std::time::Duration;

use futures_util::StreamExt;
use http_body_util::BodyExt;
use muster_tests::runner::Case;
use muster_tests::{Peer, cases, eventually};
use muster_tests_gateway::browser::{Browser, Tab};
use muster_tests_gateway::{Face, refused};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use crate::inside::{Reading, Terminal, hear, say, terminal_with};
use crate::rights::bound;
use crate::stage::Stage;

pub fn all() -> Vec<Case> {
    cases![attacks: a_strangers_page_cannot_open_a_terminal, a_cookie_alone_runs_no_command,
        a_terminal_and_a_followed_log_end_with_the_right_to_them, a_terminal_and_a_followed_log_end_with_their_session]
}

const PASSWORD: &str = "correct horse battery";
/// Ten times of what it usually takes until a right that was lost is noticed.
const PATIENCE: Duration = Duration::from_secs(200);

/// A member with a pod, and a face in which somebody can log in.
async fn logged_in(peer: &Peer) -> (Stage, Face, Browser, String) {
    let stage = Stage::begin(peer, &["beijing"]).await;
    stage.app("beijing", "shop", "web", json!({"app": "web"}), 1).await;
    let pod = stage.pods("web", 1).await[0]["name"].as_str().unwrap().to_owned();
    let fleet = stage.fleet.clone();
    let face = Face::console(peer, |face| face.fleet(fleet).first_admin(fleet::Secret::new(PASSWORD))).await;
    let browser = Browser::login(&face, "admin", PASSWORD).await;
    (stage, face, browser, pod)
}

/// How a terminal ended.
async fn closed(open: &mut Terminal) -> u16 {
    let listening = async {
        loop {
            match open.next().await {
                Some(Ok(Message::Close(frame))) => return frame.map_or(1005, |frame| u16::from(frame.code)),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return 0,
            }
        }
    };
    timeout(PATIENCE, listening).await.expect("the terminal stays open")
}

/// What is left of a text that is followed, until it ends.
async fn rest(mut followed: Reading) -> String {
    let reading = async {
        let mut text = String::new();
        while let Some(frame) = followed.body.frame().await {
            text.push_str(&String::from_utf8_lossy(&frame.unwrap().into_data().unwrap_or_default()));
        }
        text
    };
    timeout(PATIENCE, reading).await.expect("the log goes on")
}

// B-9: cross-site WebSocket hijacking
async fn a_strangers_page_cannot_open_a_terminal(peer: &Peer) {
    let (stage, face, browser, pod) = logged_in(peer).await;
    let path = format!("/api/cluster/beijing/terminal?namespace=shop&pod={pod}");
    let port = format!("http://{}:{}", face.address.ip(), face.address.port() ^ 1);
    for origin in ["https://evil.example", &port, "null"] {
        let headers = [("origin", origin), ("cookie", browser.cookie.as_str())];
        assert_eq!(Tab::open(face.address, &path, &headers).await.err(), Some(403), "{origin}");
    }
    let own = browser.origin();
    for site in ["cross-site", "same-site"] {
        let headers = [("origin", own.as_str()), ("sec-fetch-site", site), ("cookie", browser.cookie.as_str())];
        assert_eq!(Tab::open(face.address, &path, &headers).await.err(), Some(403), "{site}");
    }
    // The cookie does not open it either: what comes before a ticket is not typed into anything.
    let headers = [("origin", own.as_str()), ("cookie", browser.cookie.as_str())];
    let mut open = terminal_with(face.address, &path, &headers).await;
    say(&mut open, 0, "exit 7\n").await;
    assert_eq!(closed(&mut open).await, 4400);
    let mut open = terminal_with(face.address, &path, &headers).await;
    say_text(&mut open, json!({"ticket": "guessed"})).await;
    assert_eq!(closed(&mut open).await, 4401);
    // With the ticket that only a page of ours can fetch it does.
    let mut open = terminal_with(face.address, &path, &headers).await;
    say_text(&mut open, json!({"ticket": browser.ticket().await})).await;
    hear(&mut open, "# ").await;
    stage.end().await;
}

// B-9: a GET that does something
async fn a_cookie_alone_runs_no_command(peer: &Peer) {
    let (stage, _face, browser, pod) = logged_in(peer).await;
    let path = format!("/api/cluster/beijing/exec?namespace=shop&pod={pod}&command=echo&command=ran");
    // An image, a link, a form of somebody else's page; and of ours without its word.
    for method in ["GET", "POST"] {
        refused(&browser.bare(method, &path).send().await, 403);
        refused(&browser.bare(method, &path).header("x-muster-csrf", "guess").send().await, 403);
        for origin in ["https://evil.example", "null"] {
            let call = browser.bare(method, &path).header("origin", origin);
            refused(&call.header("x-muster-csrf", &browser.csrf).send().await, 403);
        }
        let call = browser.bare(method, &path).header("sec-fetch-site", "cross-site");
        refused(&call.header("x-muster-csrf", &browser.csrf).send().await, 403);
        assert_eq!(browser.call(method, &path).send().await.ok(200)["stdout"], "ran\n", "{method}");
    }
    stage.end().await;
}

async fn say_text(open: &mut Terminal, value: Value) {
    use futures_util::SinkExt;
    open.send(Message::Text(value.to_string().into())).await.unwrap();
}

// B-20
async fn a_terminal_and_a_followed_log_end_with_the_right_to_them(peer: &Peer) {
    let stage = Stage::begin(peer, &["beijing"]).await;
    stage.app("beijing", "shop", "web", json!({"app": "web"}), 1).await;
    let pod = stage.pods("web", 1).await[0]["name"].as_str().unwrap().to_owned();
    let name = format!("operator-{}", peer.namespace().await);
    let rules = json!([{"apiGroups": ["members.muster.dev"], "resources": ["pods/log"], "verbs": ["get"]},
        {"apiGroups": ["members.muster.dev"], "resources": ["pods/exec"], "verbs": ["create"]}]);
    let token = bound(peer, &name, None, rules).await;
    let logs = format!("/api/cluster/beijing/namespace/shop/pods/{pod}/logs");
    let exec = format!("/api/cluster/beijing/exec?namespace=shop&pod={pod}&command=id");
    for path in [&logs, &exec] {
        // kube-apiserver takes a moment until the rights count.
        eventually("the rights count", || async {
            stage.face.call("GET", path).token(Some(&token)).send().await.status == 200
        })
        .await;
    }
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    let path = format!("/api/cluster/beijing/terminal?namespace=shop&pod={pod}");
    let mut open = terminal_with(stage.face.address, &path, &headers).await;
    hear(&mut open, "# ").await;
    let mut followed = Reading::open_with(&stage.face, &format!("{logs}?follow=true&tail=1"), &headers).await;
    followed.lines(1).await;
    let file = format!("{logs}/file?path=/var/log/app.log&follow=true&tail=1");
    let mut file = Reading::open_with(&stage.face, &file, &headers).await;
    file.lines(1).await;

    peer.delete(&format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{name}")).await.ok(200);
    // The log never stops: that does not keep it open.
    let (code, log, file) = tokio::join!(closed(&mut open), rest(followed), rest(file));
    assert_eq!(code, 4403);
    for text in [log, file] {
        let last = text.trim_end().lines().last().unwrap_or_default().to_owned();
        assert!(last.starts_with("[closed: you may not"), "{last}");
    }
    stage.end().await;
}

// B-20
async fn a_terminal_and_a_followed_log_end_with_their_session(peer: &Peer) {
    let (stage, face, browser, pod) = logged_in(peer).await;
    let own = browser.origin();
    let headers = [("origin", own.as_str()), ("cookie", browser.cookie.as_str())];
    let path = format!("/api/cluster/beijing/terminal?namespace=shop&pod={pod}");
    let mut open = terminal_with(face.address, &path, &headers).await;
    say_text(&mut open, json!({"ticket": browser.ticket().await})).await;
    hear(&mut open, "# ").await;
    let logs = format!("/api/cluster/beijing/namespace/shop/pods/{pod}/logs?follow=true&tail=1");
    let mut followed = Reading::open_with(&face, &logs, &headers[1..]).await;
    followed.lines(1).await;
    assert_eq!(browser.call("POST", "/wapi/v1/logout").send().await.status, 204);
    let (code, log) = tokio::join!(closed(&mut open), rest(followed));
    assert_eq!(code, 4401);
    assert!(log.trim_end().ends_with("[closed: the session ended]"), "{log}");
    stage.end().await;
}
