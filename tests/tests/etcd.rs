//! etcd behind the API: what clients are told when its answers are lost or its quorum is (F-7), and several servers on one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "etcd/members.rs"]
mod members;
#[path = "etcd/quorum.rs"]
mod quorum;
#[path = "etcd/sharing.rs"]
mod sharing;

use std::sync::Arc;
use std::time::Instant;

use members::Members;
use muster_tests::peer::{Settings, free_port};
use muster_tests::runner::Case;
use muster_tests::{Kind, PATIENCE, Peer, cases};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

fn main() {
    let cases: Vec<Case> = cases![muster etcd: a_write_of_unknown_outcome_is_a_timeout];
    muster_tests::runner::main([cases, quorum::cases(), sharing::cases()].concat());
}

pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// etcd, and a way to it on which answers can be lost.
struct Etcd {
    _members: Members,
    /// Answers pass.
    passing: Arc<watch::Sender<bool>>,
    _proxy: JoinSet<()>,
    port: u16,
}

impl Etcd {
    async fn start() -> Etcd {
        let members = Members::start(1).await;
        let client = members.port(0);
        let passing = Arc::new(watch::Sender::new(true));
        let port = free_port();
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let mut proxy = JoinSet::new();
        let open = passing.clone();
        proxy.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                connections.spawn(pass(near, client, open.subscribe()));
            }
        });
        Etcd { _members: members, passing, _proxy: proxy, port }
    }
}

/// Requests always arrive; answers wait until they may pass.
async fn pass(near: TcpStream, far: u16, mut passing: watch::Receiver<bool>) {
    let Ok(far) = TcpStream::connect(("127.0.0.1", far)).await else { return };
    let (mut asked, mut told) = near.into_split();
    let (mut answers, mut asks) = far.into_split();
    let requests = async { drop(tokio::io::copy(&mut asked, &mut asks).await) };
    let answered = async {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(n @ 1..) = answers.read(&mut buffer).await {
            if passing.wait_for(|passing| *passing).await.is_err() || told.write_all(&buffer[..n]).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(requests, answered);
}

// F-7
async fn a_write_of_unknown_outcome_is_a_timeout(_: &Peer) {
    let etcd = Etcd::start().await;
    let arguments = vec!["--backend=etcd".to_owned(), format!("--etcd-servers=http://127.0.0.1:{}", etcd.port)];
    let peer = Peer::start_with(Kind::Muster, Settings { arguments, ..Settings::default() }).await.unwrap();
    let map = |name: &str, value: &str| json!({"metadata": {"name": name}, "data": {"k": value}});
    peer.post(MAPS, map("before", "1")).await.ok(201);

    etcd.passing.send_replace(false);
    let path = format!("{MAPS}/before");
    // Longer than the server's own.
    let patience = 2 * PATIENCE;
    let (created, updated) = tokio::join!(
        peer.call("POST", MAPS).body(map("doubtful", "1")).fresh().limit(patience).send(),
        peer.call("PUT", &path).body(map("before", "2")).fresh().limit(patience).send(),
    );
    for answer in [created, updated] {
        let status = answer.fails(504, "Timeout");
        let message = status["message"].as_str().unwrap();
        assert!(message.starts_with("Timeout: request did not complete within requested timeout - "), "{message}");
    }

    // Nobody was lied to: the writes may have happened, and what is read now is the truth.
    etcd.passing.send_replace(true);
    let end = Instant::now() + PATIENCE;
    loop {
        let answer = peer.call("POST", MAPS).body(map("after", "1")).fresh().limit(patience).send().await;
        if answer.status == 201 || answer.status == 409 {
            break;
        }
        assert!(Instant::now() < end, "{}", answer.text());
    }
    let found = peer.get(&format!("{MAPS}/doubtful")).await;
    assert!(matches!(found.status, 200 | 404), "{}", found.text());
    let value = peer.get(&path).await.ok(200)["data"]["k"].clone();
    assert!(value == "1" || value == "2", "{value}");
}
