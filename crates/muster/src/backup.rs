//! `muster backup`: save from the running server or from its directory, check, bring back.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use store::{BackupInfo, KeyRing, RealFs};
use tokio::runtime;

use crate::{
    cli::{Backup, Data},
    client,
    paths::DataDir,
    problem::{Kind, Problem},
    say, storage,
};

/// Where a running server hands out its backup.
const ENDPOINT: &str = "/muster.dev/backup";

pub fn run(command: Backup) -> Result<(), Problem> {
    match command {
        Backup::Create { data, file } => create(&data, &file),
        Backup::Verify { file } => {
            let info = verified(&file)?;
            say(&format!("{} is whole: {}\n", file.display(), summary(&info)))
        }
        Backup::Restore { data, file } => restore(&data, &file),
    }
}

fn create(data: &Data, file: &Path) -> Result<(), Problem> {
    let dir = DataDir::choose(data.data_dir.clone())?;
    if file.exists() {
        return Err(Problem::new(Kind::Conflict, "the backup was not made", format!("{} exists", file.display()))
            .next("name another file"));
    }
    if !dir.store().exists() {
        return Err(Problem::new(
            Kind::NotFound,
            "the backup was not made",
            format!("there is no store in {}", dir.root().display()),
        )
        .next("name the server's directory with --data-dir"));
    }
    // Under another name until it is checked: a file with the name asked for is always a good backup.
    let partial = partial(file);
    let _ = fs::remove_file(&partial);
    let outcome = written(data, &dir, &partial).and_then(|()| verified(&partial)).and_then(|info| {
        fs::rename(&partial, file)
            .map(|()| info)
            .map_err(|e| Problem::new(Kind::Failed, format!("cannot write {}", file.display()), e))
    });
    let info = outcome.inspect_err(|_| {
        let _ = fs::remove_file(&partial);
    })?;
    let keys = storage::key_file(data, &dir);
    say(&format!(
        "{}: {}\nSecrets in it are sealed: keep {} safe, in another place.\n",
        file.display(),
        summary(&info),
        keys.display()
    ))
}

fn written(data: &Data, dir: &DataDir, file: &Path) -> Result<(), Problem> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Problem::new(Kind::Failed, "cannot start", e))?;
    runtime.block_on(async {
        let ring = Arc::new(KeyRing::open(&storage::key_file(data, dir))?);
        match storage::open_embedded(dir, Duration::from_secs(300), ring) {
            Ok(store) => {
                let outcome = store.backup(file).await;
                store.shutdown().await;
                Ok(outcome.map(|_| ())?)
            }
            Err(store::Error::Locked { .. }) => client::download(dir, ENDPOINT, file).await,
            Err(error) => Err(error.into()),
        }
    })
}

fn restore(data: &Data, file: &Path) -> Result<(), Problem> {
    let dir = DataDir::choose(data.data_dir.clone())?;
    dir.create()?;
    let into = dir.store();
    verified(file)?;
    let info = store::restore(&RealFs, file, &into).map_err(|error| match error {
        store::Error::NotEmpty { .. } => Problem::new(Kind::Conflict, "nothing was restored", error)
            .next(format!("stop the server and move it aside: mv {0} {0}.old", into.display())),
        error => error.into(),
    })?;
    let keys = storage::key_file(data, &dir);
    let missing = if keys.exists() { "" } else { " (it is missing now)" };
    say(&format!(
        "{} restored into {}: {}\nSecrets open only with the key file in use when the backup was made: {}{missing}\n",
        file.display(),
        into.display(),
        summary(&info),
        keys.display()
    ))
}

fn verified(file: &Path) -> Result<BackupInfo, Problem> {
    store::verify(&RealFs, file).map_err(|e| unusable(file, &e))
}

fn unusable(file: &Path, error: &store::Error) -> Problem {
    Problem::new(Kind::Storage, format!("{} is not a usable backup", file.display()), error)
}

fn summary(info: &BackupInfo) -> String {
    format!("{} objects, revision {}, {} bytes", info.count, info.revision, info.bytes)
}

fn partial(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}
