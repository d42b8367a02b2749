//! F-5: rot in the journal. The server refuses it with exit code 1, says which file and what to do, changes nothing; and doing as it says brings the data back.
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use muster_tests::peer::{free_port, muster_binary};
use muster_tests::{Kind, Peer};
use serde_json::json;

use super::MAPS;

const SAVED: usize = 40;
const LATER: usize = 40;

// F-5
pub async fn rot_is_refused_and_a_backup_brings_everything_back() {
    let peer = Peer::start(Kind::Muster).await.unwrap_or_else(|why| panic!("{why}"));
    let data = peer.dir.join("data");
    let map = |i: usize| json!({"metadata": {"name": format!("m{i}")}, "data": {"payload": format!("{i} {}", "x".repeat(2000))}});
    for i in 0..SAVED {
        peer.post(MAPS, map(i)).await.ok(201);
    }
    let secrets = "/api/v1/namespaces/default/secrets";
    peer.post(secrets, json!({"metadata": {"name": "s"}, "stringData": {"k": "kept"}})).await.ok(201);
    let saved = peer.dir.join("saved.backup");
    succeeded(&muster(&["backup", "create"], &saved, &data));
    for i in SAVED..SAVED + LATER {
        peer.post(MAPS, map(i)).await.ok(201);
    }
    let highest = revision(&peer).await;
    peer.kill();

    // One bit, in the middle of what was written.
    let store = data.join("store");
    let journal = newest_journal(&store);
    let mut bytes = std::fs::read(&journal).unwrap();
    let needle = format!("{} xxxx", SAVED + LATER / 2);
    let at =
        bytes.windows(needle.len()).position(|window| window == needle.as_bytes()).expect("the object in the journal");
    bytes[at + needle.len()] ^= 0x04;
    std::fs::write(&journal, &bytes).unwrap();

    for _ in 0..2 {
        let output = refused_start(&data).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        let file = journal.file_name().unwrap().to_string_lossy().into_owned();
        for words in [
            "error: the stored data is damaged",
            &file,
            "try: move the store folder aside and run: muster backup restore FILE",
        ] {
            assert!(said.contains(words), "{words:?} is not in: {said}");
        }
        assert_eq!(std::fs::read(&journal).unwrap(), bytes, "a start that was refused changed the journal");
    }

    // As long as the damaged store is there, nothing is restored over it.
    let output = muster(&["backup", "restore"], &saved, &data);
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
    // Then as the server said.
    std::fs::rename(&store, data.join("store.damaged")).unwrap();
    succeeded(&muster(&["backup", "restore"], &saved, &data));
    peer.launch().unwrap();
    peer.ready_again(muster_tests::PATIENCE).await.unwrap_or_else(|why| panic!("{why}"));
    let list = peer.get(MAPS).await.ok(200);
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), SAVED, "what was saved, and nothing newer");
    for i in 0..SAVED {
        assert_eq!(peer.get(&format!("{MAPS}/m{i}")).await.ok(200)["data"], map(i)["data"]);
    }
    assert_eq!(peer.get(&format!("{secrets}/s")).await.ok(200)["data"]["k"], "a2VwdA==");
    assert!(revision(&peer).await > highest, "who saw newer revisions must list again");
    peer.post(MAPS, map(SAVED)).await.ok(201);
    assert_eq!(peer.panic_in_log(), None);
}

async fn revision(peer: &Peer) -> u64 {
    let list = peer.get(&format!("{MAPS}?limit=1")).await.ok(200);
    list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn muster(words: &[&str], file: &Path, data: &Path) -> Output {
    let mut command = Command::new(muster_binary().unwrap());
    command.args(words).arg(file).arg(format!("--data-dir={}", data.display()));
    command.output().unwrap()
}

fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Starts the server on the directory and waits until it has given up; one that runs is killed, which is another exit code.
async fn refused_start(data: &Path) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "60"]).arg(muster_binary().unwrap());
    command.args(["apiserver", "--insecure-port=0", "--bind-address=127.0.0.1"]);
    command.args([format!("--secure-port={}", free_port()), format!("--data-dir={}", data.display())]);
    tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap()
}

fn newest_journal(store: &Path) -> PathBuf {
    let files = std::fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path());
    let mut journals: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|e| e == "log")).collect();
    journals.sort();
    journals.pop().expect("a journal")
}
