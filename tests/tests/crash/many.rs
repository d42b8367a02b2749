//! F-1 at size: kill -9 of a server with a hundred thousand objects, and how soon it is back with all of them.
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use muster_tests::{Kind, Peer};
use serde_json::json;

use super::MAPS;

const OBJECTS: usize = 100_000;
const WRITERS: usize = 64;

// F-1
pub async fn a_hundred_thousand_objects_are_back_after_a_kill() {
    let peer = Arc::new(Peer::start(Kind::Muster).await.unwrap_or_else(|why| panic!("{why}")));
    let begun = Instant::now();
    let next = Arc::new(AtomicUsize::new(0));
    let writers: Vec<_> = (0..WRITERS).map(|_| tokio::spawn(create(peer.clone(), next.clone()))).collect();
    for writer in writers {
        writer.await.unwrap();
    }
    println!("{OBJECTS} objects made in {:?}", begun.elapsed());
    // The last acknowledgement is the last moment before the kill.
    peer.kill();
    peer.launch().unwrap();
    let took = peer.ready_again(muster_tests::PATIENCE).await.unwrap_or_else(|why| panic!("{why}"));
    println!("ready {took:?} after the kill, {} MiB resident", peer.memory().resident / 1024);
    let names = names(&peer).await;
    assert_eq!(names.len(), OBJECTS, "objects after the kill");
    for i in (0..OBJECTS).step_by(997) {
        assert!(names.contains(&name(i)), "{} is lost", name(i));
        assert_eq!(peer.get(&format!("{MAPS}/{}", name(i))).await.ok(200)["data"]["i"], i.to_string());
    }
    peer.post(MAPS, json!({"metadata": {"name": "after"}})).await.ok(201);
    assert_eq!(peer.panic_in_log(), None);
}

fn name(i: usize) -> String {
    format!("o{i:06}")
}

async fn create(peer: Arc<Peer>, next: Arc<AtomicUsize>) {
    loop {
        let i = next.fetch_add(1, Ordering::SeqCst);
        if i >= OBJECTS {
            return;
        }
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name(i)}, "data": {"i": i.to_string()}});
        peer.post(MAPS, body).await.ok(201);
    }
}

/// The names of all objects, page by page.
async fn names(peer: &Peer) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut token = String::new();
    loop {
        let accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
        let page = peer.call("GET", &format!("{MAPS}?limit=5000&continue={token}")).accept(accept).send().await.ok(200);
        for item in page["items"].as_array().unwrap() {
            names.insert(item["metadata"]["name"].as_str().unwrap().to_owned());
        }
        token = page["metadata"]["continue"].as_str().unwrap_or("").to_owned();
        if token.is_empty() {
            return names;
        }
    }
}
