//! Random words that stand for somebody: session ids, tickets, the setup link. Only their digests are kept.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::SHA256;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use fleet::Secret;

use crate::problem::Problem;

/// 32 random bytes, as text.
#[derive(Clone)]
pub(crate) struct Token(Secret);

impl Token {
    pub(crate) fn new() -> Result<Self, Problem> {
        random(32).map(|text| Self(Secret::new(text)))
    }

    /// For who it is given to, nobody else.
    pub(crate) fn reveal(&self) -> &str {
        self.0.reveal()
    }
}

/// This many random bytes as text of URLs.
pub(crate) fn random(bytes: usize) -> Result<String, Problem> {
    let mut random = vec![0; bytes];
    aws_lc_rs::rand::fill(&mut random)
        .map_err(|_| Problem::new(500, "InternalError", "the system gave no random numbers"))?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(random))
}

/// What is kept of a token. Looking it up in a map tells nothing about other tokens.
pub(crate) fn digest(token: &str) -> [u8; 32] {
    let mut digest = [0; 32];
    digest.copy_from_slice(aws_lc_rs::digest::digest(&SHA256, token.as_bytes()).as_ref());
    digest
}

/// Compared in constant time.
pub(crate) fn same(one: &str, other: &str) -> bool {
    verify_slices_are_equal(&digest(one), &digest(other)).is_ok()
}
