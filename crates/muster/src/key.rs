//! `muster key`: the keys that seal Secrets on disk.

use std::{sync::Arc, time::Duration};

use store::KeyRing;
use tokio::runtime;

use crate::{
    cli::{Data, Key},
    paths::DataDir,
    problem::{Kind, Problem},
    say, storage,
};

pub fn run(command: Key) -> Result<(), Problem> {
    match command {
        Key::List { data } => {
            let (_, ring) = ring(&data)?;
            say(&listing(&ring))
        }
        Key::Rotate { data } => {
            let (_, ring) = ring(&data)?;
            let id = ring.rotate()?;
            say(&format!(
                "key {id} is in use from now on; a running server takes it up within seconds.\n\
                 Older keys still open older data; `muster key prune` ends that, with the server stopped.\n"
            ))
        }
        Key::Prune { data } => prune(&data),
    }
}

fn ring(data: &Data) -> Result<(DataDir, KeyRing), Problem> {
    let dir = DataDir::choose(data.data_dir.clone())?;
    let ring = KeyRing::open(&storage::key_file(data, &dir))?;
    Ok((dir, ring))
}

fn prune(data: &Data) -> Result<(), Problem> {
    let (dir, ring) = ring(data)?;
    let ring = Arc::new(ring);
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Problem::new(Kind::Failed, "cannot start", e))?;
    runtime.block_on(async {
        let store = storage::open_embedded(&dir, Duration::from_secs(300), Arc::clone(&ring))?;
        let resealed = store.reseal().await;
        store.shutdown().await;
        ring.prune(resealed?)?;
        Ok::<(), Problem>(())
    })?;
    say(&format!(
        "Everything is sealed with the newest key. Backups made before need the older ones.\n{}",
        listing(&ring)
    ))
}

fn listing(ring: &KeyRing) -> String {
    let mut text = String::new();
    for (n, id) in ring.ids().iter().enumerate() {
        let note = if n == 0 { "in use" } else { "opens older data" };
        text.push_str(&format!("key {id}  {note}\n"));
    }
    text
}
