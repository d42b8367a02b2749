//! The keys that sign tokens: ES256 only, each known by the digest of its public half. The first key signs, all of them verify.

use std::fmt;

use aws_lc_rs::{
    digest,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey},
};
use base64::{
    Engine,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use x509_parser::pem::Pem;

/// What stands before the 65 bytes of a P-256 point in a public key's DER form.
pub(crate) const SPKI: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// What is wrong with a key file. No variant carries text from it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("it holds nothing in PEM form")]
    NotPem,
    #[error("block {0} of it is not an EC P-256 key (only those are taken, for ES256)")]
    NotP256(usize),
    #[error("it holds no private key to sign with")]
    NoPrivate,
    #[error("a key could not be made")]
    Generate,
}

pub struct SigningKeys {
    signer: EcdsaKeyPair,
    public: Vec<PublicKey>,
}

struct PublicKey {
    id: String,
    /// The uncompressed point: 4, x, y.
    point: [u8; 65],
}

impl fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ids()).finish()
    }
}

impl SigningKeys {
    /// A new key, as the text of a key file.
    pub fn generate() -> Result<String, KeyError> {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let body = BASE64_STANDARD.encode(made.map_err(|_| KeyError::Generate)?.as_ref());
        let mut text = String::from("-----BEGIN PRIVATE KEY-----\n");
        for line in body.as_bytes().chunks(64) {
            text.push_str(&String::from_utf8_lossy(line));
            text.push('\n');
        }
        text.push_str("-----END PRIVATE KEY-----\n");
        Ok(text)
    }

    /// The first private key of `signing` signs; every key of it and of `others`, private or public, verifies.
    pub fn parse(signing: &[u8], others: &[Vec<u8>]) -> Result<SigningKeys, KeyError> {
        let mut signer = None;
        let mut public: Vec<PublicKey> = Vec::new();
        for (n, file) in std::iter::once(signing).chain(others.iter().map(Vec::as_slice)).enumerate() {
            let mut blocks = 0;
            for block in Pem::iter_from_buffer(file) {
                let block = block.map_err(|_| KeyError::NotPem)?;
                if block.label == "EC PARAMETERS" {
                    continue;
                }
                blocks += 1;
                let (pair, point) = read(&block).ok_or(KeyError::NotP256(blocks))?;
                if n == 0 && signer.is_none() {
                    signer = pair;
                }
                let key = PublicKey { id: key_id(&point), point };
                if public.iter().all(|known| known.id != key.id) {
                    public.push(key);
                }
            }
            if blocks == 0 {
                return Err(KeyError::NotPem);
            }
        }
        Ok(SigningKeys { signer: signer.ok_or(KeyError::NoPrivate)?, public })
    }

    /// The keys' ids, the signing one first.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.public.iter().map(|key| key.id.as_str())
    }

    /// The signing key's signature of the text.
    pub(crate) fn sign(&self, text: &[u8]) -> Option<Vec<u8>> {
        Some(self.signer.sign(&SystemRandom::new(), text).ok()?.as_ref().to_vec())
    }

    pub(crate) fn signing_id(&self) -> String {
        point_of(&self.signer).map(|point| key_id(&point)).unwrap_or_default()
    }

    pub(crate) fn verifies(&self, id: &str, text: &[u8], signature: &[u8]) -> bool {
        self.public
            .iter()
            .filter(|key| key.id == id)
            .any(|key| UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &key.point).verify(text, signature).is_ok())
    }

    /// The public halves as a JSON Web Key Set.
    pub fn key_set(&self) -> serde_json::Value {
        let keys: Vec<_> = self.public.iter().map(|key| {
            let part = |range: std::ops::Range<usize>| BASE64_URL_SAFE_NO_PAD.encode(&key.point[range]);
            serde_json::json!({
                "use": "sig", "kty": "EC", "kid": key.id, "crv": "P-256", "alg": "ES256", "x": part(1..33), "y": part(33..65),
            })
        }).collect();
        serde_json::json!({ "keys": keys })
    }
}

fn read(block: &Pem) -> Option<(Option<EcdsaKeyPair>, [u8; 65])> {
    let der = block.contents.as_slice();
    let pair = match block.label.as_str() {
        "PUBLIC KEY" => return Some((None, der.strip_prefix(&SPKI)?.try_into().ok()?)),
        "PRIVATE KEY" => EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der).ok()?,
        "EC PRIVATE KEY" => EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_FIXED_SIGNING, der).ok()?,
        _ => return None,
    };
    let point = point_of(&pair)?;
    Some((Some(pair), point))
}

fn point_of(pair: &EcdsaKeyPair) -> Option<[u8; 65]> {
    pair.public_key().as_ref().try_into().ok()
}

fn key_id(point: &[u8; 65]) -> String {
    let mut der = SPKI.to_vec();
    der.extend_from_slice(point);
    BASE64_URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, &der))
}
