//! kill -9 in the middle of an online backup (F-18): others cannot read what is left, the next start removes it, and the data is untouched.
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use muster_tests::peer::{Settings, muster_binary};
use muster_tests::{Kind, PATIENCE, Peer, eventually};
use serde_json::json;

use super::MAPS;

/// Together so much that writing them takes a moment.
const OBJECTS: usize = 64;
const SIZE: usize = 500_000;
/// From when the copy has begun to the kill, in milliseconds.
const DELAYS: [u64; 9] = [0, 0, 1, 3, 8, 20, 50, 120, 300];

// F-18
pub async fn a_backup_killed_in_the_middle_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let environment = vec![("TMPDIR".to_owned(), temporary.display().to_string())];
    let settings = Settings { environment, ..Settings::default() };
    let peer = Peer::start_with(Kind::Muster, settings).await.unwrap_or_else(|why| panic!("{why}"));
    for i in 0..OBJECTS {
        let map = json!({"metadata": {"name": format!("m{i}")}, "data": {"payload": "x".repeat(SIZE)}});
        peer.post(MAPS, map).await.ok(201);
    }
    let before = versions(&peer).await;
    let mut left_behind = 0;
    for delay in DELAYS {
        let answered = AtomicBool::new(false);
        let asked = async {
            let _ = peer.call("POST", "/muster.dev/backup").fresh().limit(PATIENCE).try_send().await;
            answered.store(true, Ordering::SeqCst);
        };
        tokio::join!(asked, kill_within(&peer, &temporary, delay, || answered.load(Ordering::SeqCst)));
        left_behind += usize::from(!is_private_or_gone(&temporary).is_empty());
        start_again(&peer, &temporary).await;
        assert_eq!(versions(&peer).await, before, "the data is not as it was");
    }
    assert!(left_behind > 0, "no kill fell into a backup: the test proves nothing");

    // The command that asked for it leaves nothing either.
    let data = peer.dir.join("data");
    let file = folder.path().join("copy");
    let command = |what: &str| {
        let mut command = std::process::Command::new(muster_binary().unwrap());
        command.args(["backup", what]).arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        if what == "create" {
            command.arg(format!("--data-dir={}", data.display()));
        }
        command
    };
    for delay in [0, 10, 100] {
        let mut asking = command("create").spawn().unwrap();
        kill_within(&peer, &temporary, delay, || !matches!(asking.try_wait(), Ok(None))).await;
        let ended = tokio::task::spawn_blocking(move || asking.wait()).await.unwrap().unwrap();
        if !ended.success() {
            assert_eq!(names(folder.path()), ["tmp"], "half a backup was left");
        } else {
            std::fs::remove_file(&file).unwrap();
        }
        start_again(&peer, &temporary).await;
    }
    // And the next one is whole.
    assert!(command("create").status().unwrap().success());
    assert!(command("verify").status().unwrap().success());
    assert!(std::fs::metadata(&file).unwrap().len() > (OBJECTS * SIZE) as u64);
    assert_eq!(names(&temporary), [""; 0]);
    assert_eq!(versions(&peer).await, before);
    assert_eq!(peer.panic_in_log(), None);
}

/// Waits until a copy has begun, then kills the server; also when it is over before anybody saw it begin.
async fn kill_within(peer: &Peer, temporary: &Path, delay: u64, mut is_over: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !names(temporary).iter().any(|name| name.starts_with("muster-backup-")) && !is_over() {
        assert!(Instant::now() < end, "no backup began");
        tokio::time::sleep(Duration::from_micros(100)).await;
    }
    tokio::time::sleep(Duration::from_millis(delay)).await;
    peer.kill();
}

async fn start_again(peer: &Peer, temporary: &Path) {
    peer.launch().unwrap();
    peer.ready_again(PATIENCE).await.unwrap_or_else(|why| panic!("{why}"));
    eventually("what the backup left is gone", || async { names(temporary).is_empty() }).await;
}

/// The names of what is there, after seeing that nobody else can look into it.
fn is_private_or_gone(temporary: &Path) -> Vec<String> {
    let names = names(temporary);
    for name in &names {
        let mode = std::fs::metadata(temporary.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{name}");
    }
    names
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Every object with its version.
async fn versions(peer: &Peer) -> BTreeMap<String, String> {
    let accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let list = peer.call("GET", MAPS).accept(accept).send().await.ok(200);
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let of = |item: &serde_json::Value| (text(&item["metadata"]["name"]), text(&item["metadata"]["resourceVersion"]));
    list["items"].as_array().unwrap().iter().map(of).collect()
}
