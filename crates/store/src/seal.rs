//! Sealing: values of chosen collections leave the process only encrypted, under keys kept apart from the data.
//!
//! Each value has a key of its own, derived by HKDF-SHA256 from a ring key and a random salt, so no nonce can ever repeat; the
//! value's place is authenticated with it, so a sealed value cannot be moved to another key.

use std::collections::BTreeSet;
use std::fmt;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::{hkdf, rand};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::fs::{Fs as _, RealFs, replace};
use crate::held;
use crate::model::{Collection, Key};

/// Names a key of the ring; newer keys have higher ids.
pub type KeyId = u32;

const FORMAT: u8 = 1;
const SALT: usize = 32;
const HEAD: usize = 1 + 4 + SALT;
const FIRST_LINE: &str = "muster keyring 1";

type Secret = Zeroizing<[u8; 32]>;

/// The keys, primary first. Shared: a rotation is seen by every store that holds the ring.
pub struct KeyRing {
    path: Option<PathBuf>,
    keys: RwLock<Vec<(KeyId, Secret)>>,
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing").field("path", &self.path).field("ids", &self.ids()).finish_non_exhaustive()
    }
}

impl KeyRing {
    /// Lives only as long as the process.
    pub fn ephemeral() -> Result<KeyRing> {
        Ok(KeyRing { path: None, keys: RwLock::new(vec![(1, fresh()?)]) })
    }

    /// Reads the ring's file. Refused if anyone but the owner can read it.
    pub fn open(path: &Path) -> Result<KeyRing> {
        Ok(KeyRing { keys: RwLock::new(read(path)?), path: Some(path.into()) })
    }

    /// Reads the ring's file, or makes one with a fresh key (0600).
    pub fn open_or_create(path: &Path) -> Result<KeyRing> {
        if path.exists() {
            return KeyRing::open(path);
        }
        let keys = vec![(1, fresh()?)];
        // Whole and durable before it has its name, so that nothing is ever sealed under a key that a crash could take away; and
        // under a name of its own, so that of two that start at once one wins.
        let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
        let made = (|| {
            let mut file = RealFs.create(&temporary)?;
            file.write(render(&keys).as_bytes())?;
            file.sync()?;
            std::fs::hard_link(&temporary, path)?;
            RealFs.sync_dir(path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")))
        })();
        let _ = std::fs::remove_file(&temporary);
        match made {
            Ok(()) => Ok(KeyRing { path: Some(path.into()), keys: RwLock::new(keys) }),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => KeyRing::open(path),
            Err(error) => Err(Error::io(format!("making {}", path.display()), error)),
        }
    }

    /// Adds a new primary key. Older keys still open what they sealed.
    pub fn rotate(&self) -> Result<KeyId> {
        self.change(|keys| {
            let id = keys.iter().map(|(id, _)| *id).max().unwrap_or(0) + 1;
            keys.insert(0, (id, fresh()?));
            Ok(id)
        })
    }

    /// Forgets keys older than `oldest_needed`, as answered by [`Store::reseal`](crate::Store::reseal). The primary stays.
    pub fn prune(&self, oldest_needed: KeyId) -> Result<()> {
        self.change(|keys| {
            let primary = keys.first().map(|(id, _)| *id);
            keys.retain(|(id, _)| *id >= oldest_needed || Some(*id) == primary);
            Ok(())
        })
    }

    /// Reads the file again, after another process rotated it.
    pub fn reload(&self) -> Result<()> {
        if let Some(path) = &self.path {
            *held!(self.keys.write()) = read(path)?;
        }
        Ok(())
    }

    /// Primary first.
    pub fn ids(&self) -> Vec<KeyId> {
        held!(self.keys.read()).iter().map(|(id, _)| *id).collect()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<(KeyId, Secret)>) -> Result<T>) -> Result<T> {
        let mut keys = held!(self.keys.write());
        let mut changed = keys.clone();
        let result = change(&mut changed)?;
        if let Some(path) = &self.path {
            replace(&RealFs, path, render(&changed).as_bytes())
                .map_err(|e| Error::io(format!("writing {}", path.display()), e))?;
        }
        *keys = changed;
        Ok(result)
    }

    fn primary(&self) -> Result<(KeyId, Secret)> {
        held!(self.keys.read()).first().cloned().ok_or_else(|| Error::Seal("the key ring is empty".into()))
    }

    fn secret(&self, id: KeyId) -> Option<Secret> {
        held!(self.keys.read()).iter().find(|(i, _)| *i == id).map(|(_, secret)| secret.clone())
    }
}

fn fresh() -> Result<Secret> {
    let mut secret = Secret::default();
    rand::fill(&mut secret[..]).map_err(|_| Error::Seal("no randomness".into()))?;
    Ok(secret)
}

fn render(keys: &[(KeyId, Secret)]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(format!("{FIRST_LINE}\n"));
    for (id, secret) in keys {
        text.push_str(&Zeroizing::new(format!("{id} {}\n", *Zeroizing::new(BASE64.encode(&secret[..])))));
    }
    text
}

fn read(path: &Path) -> Result<Vec<(KeyId, Secret)>> {
    let io = |e| Error::io(format!("reading {}", path.display()), e);
    let bad = |why: &str| Error::Seal(format!("{}: {why}", path.display()));
    let mut file = std::fs::File::open(path).map_err(io)?;
    let mode = file.metadata().map_err(io)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(bad(&format!("others can read it (mode {:o}); make it 0600 and rotate the key", mode & 0o777)));
    }
    let mut text = Zeroizing::new(String::new());
    file.read_to_string(&mut text).map_err(io)?;
    let mut lines = text.lines();
    if lines.next() != Some(FIRST_LINE) {
        return Err(bad("not a key ring of a known version"));
    }
    let mut keys: Vec<(KeyId, Secret)> = Vec::new();
    for line in lines.filter(|l| !l.is_empty()) {
        let (id, secret) = line.split_once(' ').ok_or_else(|| bad("a line is not `id key`"))?;
        let id = id.parse().map_err(|_| bad("a key id is not a number"))?;
        let bytes = Zeroizing::new(BASE64.decode(secret).map_err(|_| bad("a key is not base64"))?);
        let mut secret = Secret::default();
        if bytes.len() != secret.len() || keys.iter().any(|(i, _)| *i == id) {
            return Err(bad("a key has the wrong length, or its id is there twice"));
        }
        secret.copy_from_slice(&bytes);
        keys.push((id, secret));
    }
    if keys.is_empty() {
        return Err(bad("it holds no key"));
    }
    Ok(keys)
}

/// Seals the values of the named collections on their way out and opens them on their way in.
#[derive(Clone, Default)]
pub struct Sealer {
    ring: Option<Arc<KeyRing>>,
    sealed: BTreeSet<Collection>,
}

impl Sealer {
    pub fn new(ring: Option<Arc<KeyRing>>, sealed: impl IntoIterator<Item = Collection>) -> Sealer {
        Sealer { ring, sealed: sealed.into_iter().collect() }
    }

    /// Must values of this collection be sealed?
    pub fn seals(&self, collection: &Collection) -> bool {
        self.sealed.contains(collection)
    }

    /// The key new values are sealed under; 0 without a ring.
    pub fn primary(&self) -> Result<KeyId> {
        self.ring.as_ref().map_or(Ok(0), |ring| Ok(ring.primary()?.0))
    }

    /// Reads the ring's file again: another process may have rotated it.
    pub(crate) fn reload(&self) -> Result<()> {
        self.ring.as_ref().map_or(Ok(()), |ring| ring.reload())
    }

    /// The key a sealed value needs.
    pub(crate) fn key_of(sealed: &[u8]) -> Option<KeyId> {
        let id = sealed.get(1..5).filter(|_| sealed[0] == FORMAT)?;
        Some(KeyId::from_le_bytes(id.try_into().ok()?))
    }

    pub fn seal(&self, key: &Key, value: &[u8]) -> Result<Vec<u8>> {
        let ring = self.ring.as_ref().ok_or_else(|| Error::Seal("there is no key ring".into()))?;
        let (id, secret) = ring.primary()?;
        let mut out = Vec::with_capacity(HEAD + value.len() + AES_256_GCM.tag_len());
        out.push(FORMAT);
        out.extend_from_slice(&id.to_le_bytes());
        out.resize(HEAD, 0);
        rand::fill(&mut out[HEAD - SALT..]).map_err(|_| Error::Seal("no randomness".into()))?;
        let (cipher, nonce) = derive(&secret, &out[HEAD - SALT..])?;
        let mut body = value.to_vec();
        let sealed = cipher.seal_in_place_append_tag(nonce, Aad::from(place(key)), &mut body);
        sealed.map_err(|_| Error::Seal("encryption failed".into()))?;
        out.extend_from_slice(&body);
        Ok(out)
    }

    pub fn unseal(&self, key: &Key, sealed: &[u8]) -> Result<Vec<u8>> {
        let what = || format!("{} {}", key.collection, key.item);
        let (head, body) = sealed
            .split_at_checked(HEAD)
            .filter(|(head, _)| head[0] == FORMAT)
            .ok_or_else(|| Error::Seal(format!("{} is not sealed in a known format", what())))?;
        let id = KeyId::from_le_bytes([head[1], head[2], head[3], head[4]]);
        let secret = self.ring.as_ref().and_then(|ring| ring.secret(id));
        let secret =
            secret.ok_or_else(|| Error::Seal(format!("{} is sealed under key {id}, which the ring lacks", what())))?;
        let (cipher, nonce) = derive(&secret, &head[HEAD - SALT..])?;
        let mut body = body.to_vec();
        let len = match cipher.open_in_place(nonce, Aad::from(place(key)), &mut body) {
            Ok(plain) => plain.len(),
            Err(_) => return Err(Error::Seal(format!("{} does not open under key {id}", what()))),
        };
        body.truncate(len);
        Ok(body)
    }
}

/// What is authenticated beside the value: where it lives.
fn place(key: &Key) -> Vec<u8> {
    let collection = key.collection.as_str();
    let mut place = Vec::with_capacity(4 + collection.len() + key.item.len());
    place.extend_from_slice(&(collection.len() as u32).to_le_bytes());
    place.extend_from_slice(collection.as_bytes());
    place.extend_from_slice(key.item.as_bytes());
    place
}

struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn derive(secret: &Secret, salt: &[u8]) -> Result<(LessSafeKey, Nonce)> {
    let failed = |_| Error::Seal("key derivation failed".into());
    let mut okm = Zeroizing::new([0; 44]);
    let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(&secret[..]);
    prk.expand(&[b"muster store value 1"], Length(okm.len())).and_then(|o| o.fill(&mut okm[..])).map_err(failed)?;
    let key = UnboundKey::new(&AES_256_GCM, &okm[..32]).map_err(failed)?;
    let nonce = Nonce::try_assume_unique_for_key(&okm[32..]).map_err(failed)?;
    Ok((LessSafeKey::new(key), nonce))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::key;

    fn sealer(ring: &Arc<KeyRing>) -> Sealer {
        Sealer::new(Some(ring.clone()), [Collection::new("secrets")])
    }

    #[test]
    fn a_value_opens_only_in_its_place_and_unchanged() {
        let sealer = sealer(&Arc::new(KeyRing::ephemeral().unwrap()));
        let k = key("secrets", "a/one");
        let sealed = sealer.seal(&k, b"hunter2").unwrap();
        assert!(!sealed.windows(7).any(|w| w == b"hunter2"));
        assert_ne!(sealed, sealer.seal(&k, b"hunter2").unwrap(), "each sealing has a salt of its own");
        assert_eq!(sealer.unseal(&k, &sealed).unwrap(), b"hunter2");
        assert!(sealer.unseal(&key("secrets", "a/two"), &sealed).is_err());
        assert!(sealer.unseal(&key("other", "a/one"), &sealed).is_err());
        for i in 0..sealed.len() {
            let mut bad = sealed.clone();
            bad[i] ^= 1;
            assert!(sealer.unseal(&k, &bad).is_err(), "byte {i}");
        }
        for len in 0..sealed.len() {
            assert!(sealer.unseal(&k, &sealed[..len]).is_err(), "cut at {len}");
        }
    }

    #[test]
    fn a_rotated_ring_opens_old_values_until_it_is_pruned() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        let ring = Arc::new(KeyRing::open_or_create(&path).unwrap());
        let k = key("secrets", "one");
        let old = sealer(&ring).seal(&k, b"v").unwrap();
        let new_id = ring.rotate().unwrap();
        assert_eq!(ring.ids(), [2, 1]);
        let reopened = Arc::new(KeyRing::open_or_create(&path).unwrap());
        assert_eq!(reopened.ids(), [2, 1]);
        assert_eq!(sealer(&reopened).unseal(&k, &old).unwrap(), b"v");
        let new = sealer(&reopened).seal(&k, b"v").unwrap();
        reopened.prune(new_id).unwrap();
        assert_eq!(reopened.ids(), [2]);
        assert!(matches!(sealer(&reopened).unseal(&k, &old), Err(Error::Seal(why)) if why.contains("key 1")));
        assert_eq!(sealer(&reopened).unseal(&k, &new).unwrap(), b"v");
        reopened.prune(99).unwrap();
        assert_eq!(reopened.ids(), [2], "the primary is never pruned");
    }

    #[test]
    fn the_ring_is_private_and_its_file_is_checked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        let ring = KeyRing::open_or_create(&path).unwrap();
        let mode = |p: &Path| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        ring.rotate().unwrap();
        assert_eq!(mode(&path), 0o600);
        let text = std::fs::read_to_string(&path).unwrap();
        let secret = text.lines().nth(1).unwrap().split_once(' ').unwrap().1.to_owned();
        assert!(!format!("{ring:?}").contains(&secret));
        for broad in [0o640, 0o604] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(broad)).unwrap();
            assert!(KeyRing::open(&path).is_err(), "{broad:o}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let dup = format!("{FIRST_LINE}\n1 {secret}\n1 {secret}\n");
        for bad in [
            "",
            "other 1\n",
            &format!("{FIRST_LINE}\n"),
            &format!("{FIRST_LINE}\n1 AAAA\n"),
            "muster keyring 2\n1 A\n",
            &dup,
        ] {
            std::fs::write(&path, bad).unwrap();
            assert!(KeyRing::open(&path).is_err(), "{bad:?}");
        }
    }
}
