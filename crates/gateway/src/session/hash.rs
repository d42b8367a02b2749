//! Passwords: kept as PBKDF2-HMAC-SHA256 with a salt each, compared in constant time, worked out off the async threads.

use std::num::NonZeroU32;
use std::sync::Arc;

use aws_lc_rs::pbkdf2::{self, PBKDF2_HMAC_SHA256};
use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD as BASE64;
use fleet::Secret;
use tokio::sync::Semaphore;

use crate::problem::Problem;

const SCHEME: &str = "pbkdf2-sha256";
/// How many rounds new hashes have.
pub(crate) const ROUNDS: u32 = 600_000;
/// A stored hash with more would be somebody's try to keep us busy.
const MOST_ROUNDS: u32 = 10_000_000;
const SALT: usize = 16;
const LENGTH: usize = 32;
/// Worked out at once, and waiting for their turn: each takes a core for a fifth of a second.
const AT_ONCE: usize = 2;
const WAITING: usize = 16;

const SHORTEST: usize = 12;
const LONGEST: usize = 256;

/// What is stored of a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Hash {
    rounds: NonZeroU32,
    salt: Vec<u8>,
    derived: Vec<u8>,
}

impl Hash {
    /// From its text: `pbkdf2-sha256$600000$SALT$HASH`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('$');
        let (scheme, rounds, salt, derived) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let rounds = rounds.parse().ok().filter(|rounds: &NonZeroU32| rounds.get() <= MOST_ROUNDS)?;
        let (salt, derived) = (BASE64.decode(salt).ok()?, BASE64.decode(derived).ok()?);
        let right = scheme == SCHEME && parts.next().is_none() && salt.len() >= SALT && derived.len() == LENGTH;
        right.then_some(Self { rounds, salt, derived })
    }

    pub(crate) fn text(&self) -> String {
        format!("{SCHEME}${}${}${}", self.rounds, BASE64.encode(&self.salt), BASE64.encode(&self.derived))
    }

    /// Takes long, on purpose.
    fn make(password: &str, rounds: NonZeroU32) -> Result<Self, Problem> {
        let (mut salt, mut derived) = (vec![0; SALT], vec![0; LENGTH]);
        aws_lc_rs::rand::fill(&mut salt)
            .map_err(|_| Problem::new(500, "InternalError", "the system gave no random numbers"))?;
        pbkdf2::derive(PBKDF2_HMAC_SHA256, rounds, &salt, password.as_bytes(), &mut derived);
        Ok(Self { rounds, salt, derived })
    }

    /// Takes long, on purpose, and equally long whatever the answer.
    fn is_of(&self, password: &str) -> bool {
        pbkdf2::verify(PBKDF2_HMAC_SHA256, self.rounds, &self.salt, password.as_bytes(), &self.derived).is_ok()
    }
}

/// Whether somebody may choose this password.
pub(crate) fn acceptable(user: &str, password: &str) -> Result<(), Problem> {
    let refused = |why: String| Err(Problem::new(422, "Invalid", why).with("field", "password"));
    if password.chars().count() < SHORTEST {
        return refused(format!("a password has at least {SHORTEST} characters"));
    }
    if password.len() > LONGEST {
        return refused(format!("a password has at most {LONGEST} bytes"));
    }
    let named = password.to_lowercase().contains(&user.to_lowercase())
        && password.chars().count() < user.chars().count() + SHORTEST;
    let first = password.chars().next();
    if named || password.chars().all(|one| Some(one) == first) {
        return refused("this password is too easy to guess; take one that is not made of the user's name".to_owned());
    }
    Ok(())
}

/// Works hashes out, a few at once.
pub(crate) struct Hasher {
    rounds: NonZeroU32,
    queue: Arc<Semaphore>,
    turn: Arc<Semaphore>,
    /// What a password is compared with when there is no such user, so that it takes as long.
    nobody: Hash,
}

impl Hasher {
    pub(crate) fn new(rounds: u32) -> Self {
        let rounds = NonZeroU32::new(rounds).unwrap_or(NonZeroU32::MIN);
        // No password has this hash: nothing leads to thirty-two zeros.
        let nobody = Hash { rounds, salt: vec![0; SALT], derived: vec![0; LENGTH] };
        Self { rounds, queue: Arc::new(Semaphore::new(WAITING)), turn: Arc::new(Semaphore::new(AT_ONCE)), nobody }
    }

    pub(crate) async fn make(&self, password: &Secret) -> Result<Hash, Problem> {
        let (password, rounds) = (password.clone(), self.rounds);
        self.work(move || Hash::make(password.reveal(), rounds)).await?
    }

    /// Whether the password is right; without a hash it is not, which takes as long to find out.
    pub(crate) async fn check(&self, hash: Option<&Hash>, password: &Secret) -> Result<bool, Problem> {
        let (known, hash) = (hash.is_some(), hash.unwrap_or(&self.nobody).clone());
        let password = password.clone();
        let right = self.work(move || hash.is_of(password.reveal())).await?;
        Ok(right && known)
    }

    async fn work<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
        let busy = || Problem::too_many("too many people log in at once; try again in a moment");
        let place = self.queue.clone().try_acquire_owned().map_err(|_| busy())?;
        let turn = self.turn.clone().acquire_owned().await.map_err(|_| busy())?;
        // Held by the work itself: whoever goes away does not make room while it still runs.
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop((place, turn));
            done
        });
        done.await.map_err(|_| Problem::new(500, "InternalError", "the password could not be checked"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[tokio::test]
    async fn only_the_password_itself_is_right_and_its_hash_is_not() {
        // pass-the-hash: what is stored does not open the door.
        let hasher = Hasher::new(10);
        let hash = hasher.make(&Secret::new("correct horse battery")).await.unwrap();
        let again = Hash::parse(&hash.text()).unwrap();
        assert!(hasher.check(Some(&again), &Secret::new("correct horse battery")).await.unwrap());
        assert!(!hasher.check(Some(&again), &Secret::new("correct horse batterz")).await.unwrap());
        assert!(!hasher.check(Some(&again), &Secret::new(hash.text())).await.unwrap());
        assert!(!hasher.check(None, &Secret::new("correct horse battery")).await.unwrap());
        assert_ne!(hasher.make(&Secret::new("correct horse battery")).await.unwrap().text(), hash.text(), "salted");
    }

    #[tokio::test]
    async fn a_hash_made_by_another_tool_is_recognised() {
        // By the recipe of docs/sessions.md, with ten rounds and a salt of zeros.
        let text = "pbkdf2-sha256$10$AAAAAAAAAAAAAAAAAAAAAA$9SWleKFvoz90DEeKS7UESclz6baV+Wux/pxXX0RHM9k";
        let hash = Hash::parse(text).unwrap();
        assert_eq!(hash.text(), text);
        assert!(Hasher::new(1).check(Some(&hash), &Secret::new("correct horse")).await.unwrap());
    }

    #[tokio::test]
    async fn a_crowd_is_told_to_wait() {
        let hasher = Arc::new(Hasher::new(1));
        let held: Vec<_> = (0..WAITING).map(|_| hasher.queue.clone().try_acquire_owned().unwrap()).collect();
        assert_eq!(hasher.check(None, &Secret::new("x")).await.err().unwrap().code, 429);
        drop(held);
        assert!(!hasher.check(None, &Secret::new("x")).await.unwrap());
    }

    #[test]
    fn easy_passwords_are_refused() {
        for bad in ["teleport", "short", "aaaaaaaaaaaaaaaaa", "administrator1", &"x1".repeat(200)] {
            assert_eq!(acceptable("administrator", bad).err().unwrap().code, 422, "{bad}");
        }
        for good in ["correct horse", "十二个字的密码十二个字的", "a longer one with administrator in it"] {
            assert!(acceptable("administrator", good).is_ok(), "{good}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "(pbkdf2-sha256)?[$0-9A-Za-z+/=]{0,80}") {
            let _ = Hash::parse(&text);
        }
    }
}
