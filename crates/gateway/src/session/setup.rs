//! The setup link: whoever can read the server's log makes the first administrator, once.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::token::{Token, same};
use crate::problem::Problem;

const VALID: Duration = Duration::from_secs(30 * 60);

pub(crate) struct Setup {
    token: Token,
    until: Instant,
    taken: Mutex<bool>,
}

/// The right to make the first administrator. Given back when dropped, unless it was used.
pub(crate) struct Claim<'a> {
    setup: &'a Setup,
    used: bool,
}

impl Setup {
    pub(crate) fn new() -> Result<Self, Problem> {
        Ok(Self { token: Token::new()?, until: Instant::now() + VALID, taken: Mutex::new(false) })
    }

    /// What stands in the link.
    pub(crate) fn token(&self) -> &Token {
        &self.token
    }

    pub(crate) fn claim(&self, token: &str) -> Result<Claim<'_>, Problem> {
        let right = same(token, self.token.reveal());
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if !right || *taken || Instant::now() > self.until {
            return Err(Problem::forbidden(
                "the setup link is wrong, used or older than 30 minutes; restart muster for a new one",
            ));
        }
        *taken = true;
        Ok(Claim { setup: self, used: false })
    }
}

impl Claim<'_> {
    /// The administrator is made: the link is spent.
    pub(crate) fn spend(mut self) {
        self.used = true;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.used {
            *self.setup.taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_link_works_once_and_for_half_an_hour() {
        let setup = Setup::new().unwrap();
        let token = setup.token().reveal().to_owned();
        assert_eq!(setup.claim("wrong").err().unwrap().code, 403);
        drop(setup.claim(&token).unwrap());
        let claim = setup.claim(&token).unwrap();
        assert!(setup.claim(&token).is_err(), "two at once");
        claim.spend();
        assert!(setup.claim(&token).is_err(), "spent");
        let setup = Setup::new().unwrap();
        tokio::time::advance(VALID + Duration::from_secs(1)).await;
        assert!(setup.claim(setup.token().reveal()).is_err());
    }
}
