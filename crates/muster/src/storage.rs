//! Opening the store the flags ask for: the one place that knows the engines and the keys they seal with.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use store::{
    History, KeyRing, RealFs, Store,
    etcd::{Config, Login, Tls},
};

use crate::{
    cli::{Apiserver, Backend, Data},
    paths::DataDir,
    problem::{Kind, Problem},
};

pub fn key_file(data: &Data, dir: &DataDir) -> PathBuf {
    data.encryption_key_file.clone().unwrap_or_else(|| dir.keys())
}

/// The ring of the key file, made when there is none and nothing was sealed yet.
pub fn keys(data: &Data, dir: &DataDir) -> Result<Arc<KeyRing>, Problem> {
    let path = key_file(data, dir);
    let used = fs::read_dir(dir.store()).is_ok_and(|mut entries| entries.next().is_some());
    if used && !path.exists() {
        // A fresh key would open nothing of what is there, and hide that the right one is missing.
        return Err(Problem::new(
            Kind::Storage,
            format!("the key file {} is missing", path.display()),
            format!("{} holds data whose Secrets are sealed with it", dir.store().display()),
        )
        .next("put the key file back, or name it with --encryption-key-file"));
    }
    Ok(Arc::new(KeyRing::open_or_create(&path)?))
}

fn options(history: Duration, keys: Arc<KeyRing>) -> store::Options {
    store::Options {
        describe: apiserver::describe(),
        history: History { keep: history, ..History::default() },
        sealed: apiserver::sealed_collections().collect(),
        keys: Some(keys),
        ..store::Options::default()
    }
}

/// The store in the data directory.
pub fn open_embedded(dir: &DataDir, history: Duration, keys: Arc<KeyRing>) -> Result<Store, store::Error> {
    Store::embedded(Arc::new(RealFs), &dir.store(), options(history, keys))
}

pub async fn open(flags: &Apiserver, dir: &DataDir, keys: Arc<KeyRing>) -> Result<Store, Problem> {
    match flags.backend {
        Backend::Memory => Ok(Store::memory(options(flags.history, keys))),
        Backend::File => Ok(open_embedded(dir, flags.history, keys)?),
        Backend::Etcd => {
            Store::etcd(etcd(flags)?, options(flags.history, keys)).await.map_err(|error| match error {
                store::Error::Seal(_) => Problem::new(Kind::Storage, "the Secrets in etcd do not open", error).next(format!(
                    "servers that share an etcd share the key file: copy it from another one to {}, or name it with --encryption-key-file",
                    key_file(&flags.data, dir).display()
                )),
                error => Problem::new(Kind::Failed, "etcd does not serve", error)
                    .next("see that it runs and that --etcd-servers and the other etcd flags fit"),
            })
        }
    }
}

fn etcd(flags: &Apiserver) -> Result<Config, Problem> {
    let wrong = |why: String| Problem::new(Kind::Usage, "etcd cannot be used", why);
    let etcd = &flags.etcd;
    if etcd.etcd_servers.is_empty() {
        return Err(
            wrong("--etcd-servers names no server".to_owned()).next("name one: --etcd-servers=http://127.0.0.1:2379")
        );
    }
    let tls = match (&etcd.etcd_cafile, etcd.etcd_servers.iter().any(|url| url.starts_with("https://"))) {
        (Some(ca), _) => Some(Tls {
            ca: ca.clone(),
            identity: etcd.etcd_certfile.clone().zip(etcd.etcd_keyfile.clone()),
            server_name: None,
        }),
        (None, true) => {
            return Err(wrong(
                "a server is https, but --etcd-cafile does not say whose certificates to trust".to_owned(),
            ));
        }
        (None, false) => None,
    };
    let login = match (&etcd.etcd_user, &etcd.etcd_password_file) {
        (Some(user), Some(file)) => {
            let text = fs::read_to_string(file).map_err(|e| wrong(format!("cannot read {}: {e}", file.display())))?;
            Some(Login { user: user.clone(), password: text.trim_end_matches(['\r', '\n']).to_owned().into() })
        }
        _ => None,
    };
    Ok(Config { prefix: etcd.etcd_prefix.clone(), tls, login, ..Config::new(etcd.etcd_servers.iter().cloned()) })
}
