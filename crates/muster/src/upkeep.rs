//! What changes under a running server: token files, certificates, keys. Looked at every few seconds, taken up without a restart.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    time::{Duration, Instant},
};

use auth::Authenticator;
use store::{KeyRing, Store};

use crate::{
    cli::Apiserver,
    paths::DataDir,
    serving::{self, Secure},
    storage, token,
};

const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Our own leaves live a year and are renewed in their last month; twice a day is often enough.
const RENEW_EVERY: Duration = Duration::from_secs(12 * 60 * 60);

pub struct Upkeep<'a> {
    pub flags: &'a Apiserver,
    pub dir: &'a DataDir,
    pub authenticator: &'a Authenticator,
    pub ring: &'a KeyRing,
    pub store: &'a Store,
    pub secure: Option<&'a Secure>,
}

impl Upkeep<'_> {
    /// Never ends by itself: its owner drops it.
    pub async fn run(self) -> ! {
        let mut tokens = self.flags.access.token_auth_file.clone().map(Watched::new);
        let mut certificate = self.flags.listen.tls_cert_file.clone().map(Watched::new);
        let mut keys = Watched::new(storage::key_file(&self.flags.data, self.dir));
        let mut signing: Vec<Watched> = std::iter::once(token::signing_file(&self.flags.access.signing, self.dir))
            .chain(self.flags.access.service_account_key_file.iter().cloned())
            .map(Watched::new)
            .collect();
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if tokens.as_mut().is_some_and(Watched::changed) {
                match self.authenticator.reload_tokens() {
                    Ok(count) => tracing::info!(count, "the token file changed and was read again"),
                    Err(error) => tracing::error!(%error, "the token file changed and is wrong; the old tokens stay"),
                }
            }
            if certificate.as_mut().is_some_and(Watched::changed) || renewed.elapsed() >= RENEW_EVERY {
                renewed = Instant::now();
                self.renew();
            }
            if keys.changed() {
                self.take_up_keys().await;
            }
            // Every one is looked at, whatever the others say.
            if signing.iter_mut().fold(false, |changed, file| file.changed() | changed) {
                self.take_up_signing_keys();
            }
        }
    }

    fn renew(&self) {
        let Some(secure) = self.secure else { return };
        let listen = &self.flags.listen;
        let replaced = serving::server_identity(listen, &secure.authority, &secure.names)
            .map_err(|e| e.to_string())
            .and_then(|new| secure.certificates.replace(new.chain()?, new.key()?).map_err(|e| e.to_string()))
            .and_then(|()| serving::write_kubeconfig(listen, self.dir, secure).map_err(|e| e.to_string()));
        if let Err(error) = replaced {
            tracing::error!(%error, "the server certificate could not be renewed; the old one stays");
        }
    }

    async fn take_up_keys(&self) {
        if let Err(error) = self.ring.reload() {
            tracing::error!(%error, "the key file changed and cannot be used; the old keys stay");
            return;
        }
        match self.store.reseal().await {
            Ok(_) => tracing::info!(key = self.ring.ids().first(), "the key file changed; Secrets are sealed anew"),
            Err(error) => tracing::error!(%error, "the key file changed; sealing anew failed"),
        }
    }
}

impl Upkeep<'_> {
    fn take_up_signing_keys(&self) {
        let Some(issuer) = self.authenticator.issuer() else { return };
        match token::keys(&self.flags.access, self.dir) {
            Ok(keys) => {
                issuer.replace_keys(keys);
                tracing::info!(keys = ?issuer.keys(), "the keys that sign tokens changed and were read again");
            }
            Err(error) => tracing::error!(%error, "the keys that sign tokens changed and are wrong; the old ones stay"),
        }
    }
}

/// A file and what it looked like last.
struct Watched {
    path: PathBuf,
    seen: Option<(u64, i64, i64, u64)>,
}

impl Watched {
    fn new(path: PathBuf) -> Watched {
        let mut watched = Watched { path, seen: None };
        watched.changed();
        watched
    }

    /// Whether it is another file, or has another time or size, than at the last look. One that is gone has not changed: it may be
    /// in the middle of being replaced.
    fn changed(&mut self) -> bool {
        let Ok(m) = fs::metadata(&self.path) else { return false };
        let now = Some((m.ino(), m.mtime(), m.mtime_nsec(), m.len()));
        let changed = now != self.seen;
        self.seen = now;
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_noticed_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "a").unwrap();
        let mut watched = Watched::new(path.clone());
        assert!(!watched.changed());
        fs::write(&path, "ab").unwrap();
        assert!(watched.changed() && !watched.changed());
        fs::remove_file(&path).unwrap();
        assert!(!watched.changed());
        fs::write(&path, "abc").unwrap();
        assert!(watched.changed());
    }
}
