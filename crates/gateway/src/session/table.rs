//! The sessions there are: in memory alone, bounded, ended by time, by their owner, or by a change of the user.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::token::{Token, digest, random};
use super::users::{Stamp, User};
use crate::caller::Person;
use crate::problem::Problem;

const IDLE: Duration = Duration::from_secs(8 * 3600);
pub(crate) const LONGEST: Duration = Duration::from_secs(24 * 3600);
const MOST: usize = 10_000;
/// For one user; the one not used for longest makes room.
const MOST_EACH: usize = 32;
const LONGEST_AGENT: usize = 200;

/// Somebody who is logged in.
pub(crate) struct Session {
    /// Names it to its owner; opens nothing.
    pub(crate) id: String,
    person: Arc<Person>,
    stamp: Stamp,
    csrf: String,
    ended: CancellationToken,
    began: Timestamp,
    created: Instant,
    address: IpAddr,
    agent: String,
}

impl Session {
    pub(crate) fn person(&self) -> &Arc<Person> {
        &self.person
    }

    pub(crate) fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// What a page of ours sends with everything that is not a GET.
    pub(crate) fn csrf(&self) -> &str {
        &self.csrf
    }

    /// Where it was begun.
    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Cancelled when it is over.
    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.ended
    }
}

struct Entry {
    session: Arc<Session>,
    used: Instant,
    used_at: Timestamp,
    /// The stamp its user will have when a change of the password made in this session is stored.
    expected: Option<Stamp>,
}

impl Entry {
    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.used) > IDLE || now.duration_since(self.session.created) > LONGEST
    }
}

/// A session as its owner sees it.
pub(crate) struct Shown {
    pub(crate) session: Arc<Session>,
    pub(crate) used: Timestamp,
}

impl Shown {
    pub(crate) fn to_json(&self, current: bool) -> serde_json::Value {
        let Session { id, began, address, agent, .. } = &*self.session;
        serde_json::json!({"id": id, "created": began.to_string(), "used": self.used.to_string(),
            "address": address.to_string(), "agent": agent, "current": current})
    }
}

/// By the digest of the cookie's value.
#[derive(Default)]
pub(crate) struct Table {
    sessions: Mutex<HashMap<[u8; 32], Entry>>,
}

impl Table {
    fn sessions(&self) -> MutexGuard<'_, HashMap<[u8; 32], Entry>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new session, always under an id nobody has seen before.
    pub(crate) fn begin(&self, user: &User, address: IpAddr, agent: &str) -> Result<(Token, Arc<Session>), Problem> {
        let (token, now) = (Token::new()?, Instant::now());
        let agent = agent.chars().filter(|c| !c.is_control()).take(LONGEST_AGENT).collect();
        let session = Arc::new(Session {
            id: random(9)?,
            person: user.person.clone(),
            stamp: user.stamp,
            csrf: random(32)?,
            ended: CancellationToken::new(),
            began: Timestamp::now(),
            created: now,
            address,
            agent,
        });
        let mut sessions = self.sessions();
        let own = || sessions.iter().filter(|(_, entry)| entry.session.person.user == user.person.user);
        if own().count() >= MOST_EACH {
            let oldest = own().min_by_key(|(_, entry)| entry.used).map(|(key, _)| *key);
            if let Some(entry) = oldest.and_then(|key| sessions.remove(&key)) {
                entry.session.ended.cancel();
            }
        }
        if sessions.len() >= MOST {
            return Err(Problem::unavailable("too many people are logged in; try again later"));
        }
        let entry = Entry { session: session.clone(), used: now, used_at: session.began, expected: None };
        sessions.insert(digest(token.reveal()), entry);
        Ok((token, session))
    }

    /// The session of a cookie's value, which is used by being asked for.
    pub(crate) fn find(&self, token: &str) -> Option<Arc<Session>> {
        let now = Instant::now();
        let mut sessions = self.sessions();
        let key = digest(token);
        let entry = sessions.get_mut(&key)?;
        if entry.is_over(now) {
            let entry = sessions.remove(&key)?;
            entry.session.ended.cancel();
            return None;
        }
        (entry.used, entry.used_at) = (now, Timestamp::now());
        Some(entry.session.clone())
    }

    /// Ends those that `over` picks. Says how many.
    fn end(&self, over: impl Fn(&Entry) -> bool) -> usize {
        let mut ended = Vec::new();
        self.sessions().retain(|_, entry| {
            let over = over(entry);
            if over {
                ended.push(entry.session.ended.clone());
            }
            !over
        });
        // After the lock: whoever waits for it may look at the table at once.
        ended.iter().for_each(CancellationToken::cancel);
        ended.len()
    }

    /// Ends one session of a user.
    pub(crate) fn end_one(&self, user: &str, id: &str) -> bool {
        self.end(|entry| entry.session.person.user == user && entry.session.id == id) > 0
    }

    /// Ends all sessions of a user but one.
    pub(crate) fn end_others(&self, user: &str, but: &str) -> usize {
        self.end(|entry| entry.session.person.user == user && entry.session.id != but)
    }

    /// The user is now this, or gone: sessions of what it was before are over.
    pub(crate) fn keep(&self, user: &str, stamp: Option<&Stamp>) -> usize {
        self.end(|entry| {
            let fits = |stamp: &Stamp| entry.session.stamp == *stamp || entry.expected == Some(*stamp);
            entry.session.person.user == user && !stamp.is_some_and(fits)
        })
    }

    /// The password is about to be changed in this session: it stays when the user becomes what is expected.
    pub(crate) fn expect(&self, id: &str, stamp: Stamp) {
        if let Some(entry) = self.sessions().values_mut().find(|entry| entry.session.id == id) {
            entry.expected = Some(stamp);
        }
    }

    pub(crate) fn of(&self, user: &str) -> Vec<Shown> {
        let now = Instant::now();
        let sessions = self.sessions();
        let own = sessions.values().filter(|entry| entry.session.person.user == user && !entry.is_over(now));
        let mut shown: Vec<Shown> =
            own.map(|entry| Shown { session: entry.session.clone(), used: entry.used_at }).collect();
        shown.sort_by_key(|shown| std::cmp::Reverse(shown.used));
        shown
    }

    /// Ends those whose time is over, so that what they opened is closed.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        self.end(|entry| entry.is_over(now));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tokio::time::advance;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn user(name: &str, mark: u8) -> User {
        User::for_tests(name, &["dev"], mark)
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_when_unused_and_in_any_case_after_a_day() {
        let table = Table::default();
        let (token, session) = table.begin(&user("ann", 1), HERE, "").unwrap();
        for _ in 0..3 {
            advance(Duration::from_secs(7 * 3600)).await;
            assert!(table.find(token.reveal()).is_some());
        }
        assert!(!session.ended().is_cancelled());
        advance(Duration::from_secs(4 * 3600)).await;
        assert!(table.find(token.reveal()).is_none(), "25 hours old");
        assert!(session.ended().is_cancelled());
        let (token, session) = table.begin(&user("ann", 1), HERE, "").unwrap();
        advance(IDLE + Duration::from_secs(1)).await;
        table.sweep();
        assert!(session.ended().is_cancelled());
        assert!(table.find(token.reveal()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn another_password_or_other_groups_end_the_sessions_of_that_user_alone() {
        // B-20
        let table = Table::default();
        let (ann, ann_session) = table.begin(&user("ann", 1), HERE, "").unwrap();
        let (bob, _) = table.begin(&user("bob", 1), HERE, "").unwrap();
        assert_eq!(table.keep("ann", Some(&[1; 32])), 0, "nothing changed");
        assert_eq!(table.keep("ann", Some(&[2; 32])), 1);
        assert!(ann_session.ended().is_cancelled() && table.find(ann.reveal()).is_none());
        assert!(table.find(bob.reveal()).is_some());
        assert_eq!(table.keep("bob", None), 1, "deleted");
        assert!(table.find(bob.reveal()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn who_changes_the_password_stays_and_the_others_go() {
        let table = Table::default();
        let (here, session) = table.begin(&user("ann", 1), HERE, "").unwrap();
        let (there, _) = table.begin(&user("ann", 1), HERE, "").unwrap();
        table.expect(&session.id, [2; 32]);
        assert_eq!(table.keep("ann", Some(&[2; 32])), 1, "the watch may be faster than the answer");
        assert!(table.find(here.reveal()).is_some() && table.find(there.reveal()).is_none());
        assert_eq!(table.end_others("ann", &session.id), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_of_one_user_are_bounded_and_the_oldest_makes_room() {
        let table = Table::default();
        let (first, session) = table.begin(&user("ann", 1), HERE, "").unwrap();
        for _ in 0..MOST_EACH {
            advance(Duration::from_secs(1)).await;
            table.begin(&user("ann", 1), HERE, "").unwrap();
        }
        assert!(table.find(first.reveal()).is_none() && session.ended().is_cancelled());
        assert_eq!(table.of("ann").len(), MOST_EACH);
    }

    #[tokio::test(start_paused = true)]
    async fn one_ends_ones_own_sessions_only() {
        let table = Table::default();
        let (token, session) = table.begin(&user("ann", 1), HERE, "a\u{7}gent").unwrap();
        assert!(!table.end_one("bob", &session.id));
        assert_eq!(table.of("ann")[0].to_json(true)["agent"], "agent");
        assert!(table.find(&session.id).is_none(), "what names it does not open it");
        assert!(table.end_one("ann", &session.id));
        assert!(table.find(token.reveal()).is_none());
    }
}
