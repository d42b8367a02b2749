//! Tokens we sign ourselves: for service accounts, bound to what they were asked for, and short-lived ones for people.
//!
//! Nothing of a token is believed before its signature: the header only says which of our keys to try, under ES256 and no other
//! algorithm. What was verified once is remembered by digest; its times and the objects it is bound to are looked at every time.

mod claims;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

use aws_lc_rs::digest;
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{SigningKeys, User, service_account_name};
use claims::Identity;

/// Clocks differ.
const LEEWAY: i64 = 60;
const MAX_TOKEN: usize = 16 << 10;
/// Verified tokens remembered; beyond that they are all verified again.
const REMEMBERED: usize = 4096;
/// Tokens for people are not for relying parties: issuer and audience are not those that are published.
const USER_ISSUER: &str = "muster.dev/user";
const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// Why a token is refused, in words that may be shown to whoever presented it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("invalid bearer token")]
    NotOurs,
    #[error("invalid signature")]
    Signature,
    #[error("service account token has expired")]
    Expired,
    #[error("service account token is not valid yet")]
    NotYet,
    #[error("service account token is issued in the future")]
    Future,
    #[error("token audiences {0} is invalid for the target audiences {1}")]
    Audience(String, String),
    #[error("{0}")]
    Account(String),
    #[error("service account token has been invalidated")]
    Invalidated,
    #[error("{kind} UID ({is}) does not match service account {kind} ref claim ({claimed})")]
    BoundUid { kind: &'static str, is: String, claimed: String },
    #[error("the token could not be signed")]
    Sign,
}

/// What a token may be bound to, and its account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BoundKind {
    ServiceAccount,
    Secret,
    Pod,
    Node,
}

impl BoundKind {
    fn word(self) -> &'static str {
        match self {
            BoundKind::ServiceAccount => "serviceaccount",
            BoundKind::Secret => "secret",
            BoundKind::Pod => "pod",
            BoundKind::Node => "node",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    pub kind: BoundKind,
    pub name: String,
    pub uid: String,
}

/// What is known of an object a token depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    Same,
    /// Deleted, or being deleted for longer than a moment.
    Gone,
    /// Another object of this name, with this uid.
    Other(String),
}

/// The stored objects tokens depend on. `item` is `namespace/name`, or the name of a node.
pub trait Objects: Send + Sync {
    /// `deleted_before` (seconds since 1970): an object that began to be deleted before that is gone.
    fn find(&self, kind: BoundKind, item: &Arc<str>, uid: &str, deleted_before: i64) -> Found;
    /// The token a Secret holds.
    fn token_in(&self, item: &Arc<str>) -> Option<Vec<u8>>;
}

/// A token to be made for a service account.
#[derive(Debug, Clone)]
pub struct Ticket<'a> {
    /// Unique; the credential's id in audits.
    pub id: &'a str,
    pub namespace: &'a str,
    pub account: &'a str,
    pub uid: &'a str,
    pub audiences: &'a [String],
    pub bound: &'a [Bound],
    /// Seconds since 1970.
    pub now: i64,
    pub seconds: i64,
}

#[derive(Debug)]
pub struct IssuerOptions {
    /// The `iss` of service-account tokens.
    pub issuer: String,
    /// Whom tokens are for when nobody says: us.
    pub audiences: Vec<String>,
    pub keys: SigningKeys,
}

pub struct Issuer {
    issuer: String,
    audiences: Vec<String>,
    /// Replaced as a whole when the key file changes.
    keys: RwLock<Arc<SigningKeys>>,
    verified: Mutex<HashMap<[u8; 32], Arc<Identity>>>,
    objects: OnceLock<Arc<dyn Objects>>,
}

impl std::fmt::Debug for Issuer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issuer").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl Issuer {
    pub fn new(options: IssuerOptions) -> Issuer {
        let IssuerOptions { issuer, mut audiences, keys } = options;
        if audiences.is_empty() {
            audiences.push(issuer.clone());
        }
        Issuer {
            issuer,
            audiences,
            keys: RwLock::new(Arc::new(keys)),
            verified: Mutex::default(),
            objects: OnceLock::new(),
        }
    }

    pub fn name(&self) -> &str {
        &self.issuer
    }

    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    pub fn keys(&self) -> Arc<SigningKeys> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tokens of keys that are no longer there end at once.
    pub fn replace_keys(&self, keys: SigningKeys) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
        self.verified.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Where tokens' accounts and bound objects are looked up; without it no such token is accepted. The first one stays.
    pub fn look_up_in(&self, objects: Arc<dyn Objects>) {
        let _ = self.objects.set(objects);
    }

    /// A token for a service account.
    pub fn issue(&self, ticket: &Ticket<'_>) -> Result<String, Refused> {
        let mut about = json!({
            "namespace": ticket.namespace,
            "serviceaccount": {"name": ticket.account, "uid": ticket.uid},
        });
        for bound in ticket.bound {
            about[bound.kind.word()] = json!({"name": bound.name, "uid": bound.uid});
        }
        self.sign(&json!({
            "iss": self.issuer,
            "sub": service_account_name(ticket.namespace, ticket.account),
            "aud": ticket.audiences,
            "iat": ticket.now,
            "nbf": ticket.now,
            "exp": ticket.now.saturating_add(ticket.seconds),
            "jti": ticket.id,
            "kubernetes.io": about,
        }))
    }

    /// A token that lives as long as the Secret that holds it.
    pub fn issue_for_secret(&self, namespace: &str, account: &str, uid: &str, secret: &str) -> Result<String, Refused> {
        self.sign(&json!({
            "iss": LEGACY_ISSUER,
            "sub": service_account_name(namespace, account),
            "kubernetes.io/serviceaccount/namespace": namespace,
            "kubernetes.io/serviceaccount/service-account.name": account,
            "kubernetes.io/serviceaccount/service-account.uid": uid,
            "kubernetes.io/serviceaccount/secret.name": secret,
        }))
    }

    /// A short-lived token for a person, e.g. for kubectl.
    pub fn issue_for_user(&self, user: &User, id: &str, now: i64, seconds: i64) -> Result<String, Refused> {
        self.sign(&json!({
            "iss": USER_ISSUER,
            "sub": user.name,
            "aud": USER_ISSUER,
            "iat": now,
            "nbf": now,
            "exp": now.saturating_add(seconds),
            "jti": id,
            "muster.dev": {"uid": user.uid, "groups": user.groups},
        }))
    }

    fn sign(&self, claims: &Value) -> Result<String, Refused> {
        let keys = self.keys();
        let header = json!({"alg": "ES256", "kid": keys.signing_id()});
        let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let mut token = format!("{}.{}", encode(&header), encode(claims));
        let signature = keys.sign(token.as_bytes()).ok_or(Refused::Sign)?;
        token.push('.');
        BASE64_URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        Ok(token)
    }

    /// Whose token it is, and for which of the wanted audiences. `now` is in seconds since 1970.
    pub(crate) fn verify(
        &self,
        token: &[u8],
        wanted: &[String],
        now: i64,
    ) -> Result<(Arc<User>, Vec<String>), Refused> {
        let identity = self.identity(token)?;
        let held = identity.audiences_or(&self.audiences);
        let common: Vec<String> = held.iter().filter(|a| wanted.contains(a)).cloned().collect();
        if common.is_empty() {
            let quoted = |list: &[String]| crate::rule::Quoted(list).to_string();
            return Err(Refused::Audience(quoted(held), quoted(wanted)));
        }
        Ok((self.live(&identity, token, now)?, common))
    }

    /// Whose token it is, when it is for us: the way of every request, without a list of audiences to make.
    pub(crate) fn authenticate(&self, token: &[u8], now: i64) -> Result<Arc<User>, Refused> {
        let identity = self.identity(token)?;
        if !identity.audiences_or(&self.audiences).iter().any(|a| self.audiences.contains(a)) {
            return Err(Refused::NotOurs);
        }
        self.live(&identity, token, now)
    }

    /// From when on the token is refused because of its age; none when it says nothing of that.
    pub(crate) fn ends(&self, token: &[u8]) -> Option<SystemTime> {
        let end = u64::try_from(self.identity(token).ok()?.last_second()?).ok()?;
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(end.saturating_add(1)))
    }

    /// Its time has come and not passed, and everything it depends on is still there.
    fn live(&self, identity: &Identity, token: &[u8], now: i64) -> Result<Arc<User>, Refused> {
        identity.check_times(now)?;
        if identity.depends_on_objects() {
            let objects = self.objects.get().ok_or(Refused::Invalidated)?;
            identity.check_objects(&**objects, token, now)?;
        }
        Ok(Arc::clone(&identity.user))
    }

    /// What a token with a good signature says; remembered.
    fn identity(&self, token: &[u8]) -> Result<Arc<Identity>, Refused> {
        if token.len() > MAX_TOKEN {
            return Err(Refused::NotOurs);
        }
        let mut key = [0; 32];
        key.copy_from_slice(digest::digest(&digest::SHA256, token).as_ref());
        if let Some(known) = self.verified.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(Arc::clone(known));
        }
        let keys = self.keys();
        let identity = Arc::new(Identity::read(&signed_claims(&keys, token)?, &self.issuer)?);
        let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        // Keys replaced meanwhile: what they verified is not remembered.
        if Arc::ptr_eq(&keys, &self.keys()) {
            if verified.len() >= REMEMBERED {
                verified.clear();
            }
            verified.insert(key, Arc::clone(&identity));
        }
        Ok(identity)
    }
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: String,
    /// Extensions that must be understood; we understand none.
    crit: Option<serde::de::IgnoredAny>,
}

/// The claims of a token, once its signature is known to be ours.
fn signed_claims(keys: &SigningKeys, token: &[u8]) -> Result<Vec<u8>, Refused> {
    let mut dots = token.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(at, _)| at);
    let (Some(first), Some(second), None) = (dots.next(), dots.next(), dots.next()) else {
        return Err(Refused::NotOurs);
    };
    let decoded = |part: &[u8]| BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| Refused::NotOurs);
    let header: Header = serde_json::from_slice(&decoded(&token[..first])?).map_err(|_| Refused::NotOurs)?;
    if header.alg != "ES256" || header.crit.is_some() {
        return Err(Refused::NotOurs);
    }
    let signature = decoded(&token[second + 1..])?;
    if !keys.verifies(&header.kid, &token[..second], &signature) {
        return Err(Refused::Signature);
    }
    decoded(&token[first + 1..second])
}

#[cfg(test)]
mod tests;
