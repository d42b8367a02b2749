//! What a request was believed for, kept while its answer goes on: a watch ends when its credentials do.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::SystemTime,
};

use crate::{Issuer, Peer, TokenTable, User, authenticate::seconds_now};

/// Asked again now and then, it says whether the same credentials would still be believed. It holds a secret, and so has no `Debug`.
pub struct Credential(Proof);

pub(crate) enum Proof {
    /// This process itself, which needs none.
    Process,
    /// Nothing was presented that could end: a local program, nobody.
    Nothing,
    Certificate(Peer),
    Static {
        tokens: Arc<RwLock<Arc<TokenTable>>>,
        token: Box<[u8]>,
        user: Arc<User>,
    },
    Signed {
        issuer: Arc<Issuer>,
        token: Box<[u8]>,
    },
}

impl Credential {
    pub(crate) fn new(proof: Proof) -> Self {
        Self(proof)
    }

    /// When it ends for sure, if that is known.
    pub fn ends(&self) -> Option<SystemTime> {
        match &self.0 {
            Proof::Process | Proof::Nothing | Proof::Static { .. } => None,
            Proof::Certificate(peer) => peer.certificate_ends(),
            Proof::Signed { issuer, token } => issuer.ends(token),
        }
    }

    /// Whether anything can take it away, or the rights of who presented it: not from this process itself.
    pub fn can_end(&self) -> bool {
        !matches!(self.0, Proof::Process)
    }

    /// Whether it would still be believed: not expired, not revoked, and the same user's.
    pub fn holds(&self) -> bool {
        match &self.0 {
            Proof::Process | Proof::Nothing => true,
            Proof::Certificate(peer) => peer.certificate_user(SystemTime::now()).is_some_and(|user| user.is_ok()),
            Proof::Static { tokens, token, user } => {
                let tokens = Arc::clone(&tokens.read().unwrap_or_else(PoisonError::into_inner));
                tokens.user_of(token).is_some_and(|now| now == *user)
            }
            Proof::Signed { issuer, token } => issuer.authenticate(token, seconds_now()).is_ok(),
        }
    }
}
