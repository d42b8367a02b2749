//! Tickets: a browser's word, over a request with all its proofs, that the WebSocket it opens next is its own.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::token::{Token, digest};
use crate::caller::Caller;
use crate::problem::Problem;

const VALID: Duration = Duration::from_secs(30);
const MOST: usize = 2_000;
const MOST_EACH: usize = 64;

#[derive(Default)]
pub(crate) struct Tickets {
    given: Mutex<HashMap<[u8; 32], (Caller, Instant)>>,
}

impl Tickets {
    pub(crate) fn give(&self, caller: Caller) -> Result<Token, Problem> {
        let now = Instant::now();
        let token = Token::new()?;
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        given.retain(|_, (_, until)| *until > now);
        let own = given.values().filter(|(of, _)| of.key == caller.key).count();
        if own >= MOST_EACH || given.len() >= MOST {
            return Err(Problem::too_many("too many tickets are not used yet; try again in a moment"));
        }
        given.insert(digest(token.reveal()), (caller, now + VALID));
        Ok(token)
    }

    /// Whose it is. A ticket is good once.
    pub(crate) fn redeem(&self, ticket: &str) -> Result<Caller, Problem> {
        let found = self.given.lock().unwrap_or_else(PoisonError::into_inner).remove(&digest(ticket));
        match found {
            Some((caller, until)) if until > Instant::now() => Ok(caller),
            _ => Err(Problem::unauthorized("the ticket is unknown, used or too old; fetch a new one")),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_ticket_is_good_once_and_for_half_a_minute() {
        let tickets = Tickets::default();
        let caller = Caller::for_tests("t");
        let ticket = tickets.give(caller.clone()).unwrap();
        assert_eq!(tickets.redeem(ticket.reveal()).unwrap().key, caller.key);
        assert_eq!(tickets.redeem(ticket.reveal()).err().unwrap().code, 401);
        let ticket = tickets.give(caller).unwrap();
        tokio::time::advance(VALID + Duration::from_millis(1)).await;
        assert_eq!(tickets.redeem(ticket.reveal()).err().unwrap().code, 401);
        assert_eq!(tickets.redeem("").err().unwrap().code, 401);
    }

    #[tokio::test(start_paused = true)]
    async fn unused_tickets_are_bounded() {
        let tickets = Tickets::default();
        for _ in 0..MOST_EACH {
            tickets.give(Caller::for_tests("t")).unwrap();
        }
        assert_eq!(tickets.give(Caller::for_tests("t")).err().unwrap().code, 429);
        assert!(tickets.give(Caller::for_tests("u")).is_ok());
        tokio::time::advance(VALID * 2).await;
        assert!(tickets.give(Caller::for_tests("t")).is_ok());
    }
}
