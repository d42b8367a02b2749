//! How much may be under way at once, in all and for one user, so that one bad client cannot keep the others out.

use auth::User;
use meta::Status;
use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What may be under way at once; 0 is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceilings {
    pub reads: usize,
    pub writes: usize,
    pub watches_per_user: usize,
}

impl Default for Ceilings {
    fn default() -> Self {
        Self { reads: 400, writes: 200, watches_per_user: 10_000 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Until its answer is sent.
    Read,
    Write,
    /// For as long as it streams; while it starts, it is a read as well.
    Watch,
}

/// Lets requests in while there is room.
pub struct Gate {
    /// By `Work`.
    rooms: [Room; 3],
    hasher: RandomState,
    /// What each user has under way, by `Work`. Users with nothing under way are not in it.
    users: [Mutex<HashMap<Name, [usize; 3]>>; SHARDS],
}

/// So many that two cores rarely meet at one lock.
const SHARDS: usize = 16;

struct Room {
    taken: AtomicUsize,
    /// How much of it everybody together, and one user, may take.
    all: usize,
    each: usize,
}

const UNLIMITED: usize = usize::MAX;

impl Room {
    /// A quarter is out of reach for any single user.
    fn shared(limit: usize) -> Self {
        let (all, each) = if limit == 0 { (UNLIMITED, UNLIMITED) } else { (limit, limit - limit / 4) };
        Self { taken: AtomicUsize::new(0), all, each }
    }

    fn per_user(limit: usize) -> Self {
        let each = if limit == 0 { UNLIMITED } else { limit };
        Self { taken: AtomicUsize::new(0), all: UNLIMITED, each }
    }

    fn take(&self) -> bool {
        let more = |taken| (taken < self.all).then_some(taken + 1);
        self.taken.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    fn give_back(&self) {
        self.taken.fetch_sub(1, Relaxed);
    }
}

impl Gate {
    pub fn new(ceilings: Ceilings) -> Arc<Self> {
        Arc::new(Self {
            rooms: [
                Room::shared(ceilings.reads),
                Room::shared(ceilings.writes),
                Room::per_user(ceilings.watches_per_user),
            ],
            hasher: RandomState::new(),
            users: Default::default(),
        })
    }

    /// A place, to be held while the work is under way; `None` when the work is not counted. Who may do everything always
    /// gets an answer, or nobody could look after a server that is overrun; but its watches are counted like anybody's.
    pub fn enter(self: &Arc<Self>, user: &Arc<User>, work: Work) -> Result<Option<Place>, Status> {
        let room = &self.rooms[work as usize];
        if room.each == UNLIMITED || (work != Work::Watch && user.is_in(auth::MASTERS)) {
            return Ok(None);
        }
        if !room.take() {
            return Err(full());
        }
        let shard = self.hasher.hash_one(&user.name) as usize % SHARDS;
        let mut users = self.shard(shard);
        let count = &mut users.entry(Name(user.clone())).or_default()[work as usize];
        // A user that is refused has something under way, so it stays known.
        if *count >= room.each {
            room.give_back();
            return Err(full());
        }
        *count += 1;
        Ok(Some(Place { gate: self.clone(), user: user.clone(), shard, work }))
    }

    fn shard(&self, shard: usize) -> MutexGuard<'_, HashMap<Name, [usize; 3]>> {
        self.users[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn full() -> Status {
    Status::too_many_requests("Too many requests, please try again later.", 1)
}

/// Work under way; dropped when it ends, however it ends.
pub struct Place {
    gate: Arc<Gate>,
    user: Arc<User>,
    shard: usize,
    work: Work,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.gate.rooms[self.work as usize].give_back();
        let mut users = self.gate.shard(self.shard);
        if let Some(counts) = users.get_mut(self.user.name.as_str()) {
            counts[self.work as usize] -= 1;
            if *counts == [0; 3] {
                users.remove(self.user.name.as_str());
            }
        }
    }
}

/// A user by name alone, without a copy of the name.
struct Name(Arc<User>);

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0.name
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Name {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn user(name: &str) -> Arc<User> {
        Arc::new(User::authenticated(name, "", []))
    }

    fn gate(reads: usize, writes: usize, watches_per_user: usize) -> Arc<Gate> {
        Gate::new(Ceilings { reads, writes, watches_per_user })
    }

    fn known(gate: &Gate) -> usize {
        (0..SHARDS).map(|shard| gate.shard(shard).len()).sum()
    }

    fn hold(gate: &Arc<Gate>, user: &Arc<User>, work: Work, n: usize) -> Vec<Place> {
        (0..n).map(|_| gate.enter(user, work).unwrap().unwrap()).collect()
    }

    #[test]
    fn one_user_takes_three_quarters_and_the_others_the_rest() {
        let gate = gate(8, 0, 0);
        let (ann, bob) = (user("ann"), user("bob"));
        let most = hold(&gate, &ann, Work::Read, 6);
        let refused = gate.enter(&ann, Work::Read).err().unwrap();
        assert_eq!((refused.code, refused.details.unwrap().retry_after), (429, Some(1)));
        let rest = hold(&gate, &bob, Work::Read, 2);
        assert!(gate.enter(&bob, Work::Read).is_err(), "the room is full");
        drop(most);
        assert!(gate.enter(&bob, Work::Read).is_ok());
        drop(rest);
        assert_eq!((known(&gate), gate.rooms[0].taken.load(Relaxed)), (0, 0));
    }

    #[test]
    fn reads_writes_and_watches_do_not_share_a_room() {
        let gate = gate(1, 1, 1);
        let ann = user("ann");
        let _all = [Work::Read, Work::Write, Work::Watch].map(|work| hold(&gate, &ann, work, 1));
        for work in [Work::Read, Work::Write, Work::Watch] {
            assert!(gate.enter(&ann, work).is_err(), "{work:?}");
        }
        assert!(gate.enter(&user("bob"), Work::Watch).is_ok(), "watches are counted for each user alone");
    }

    #[test]
    fn masters_always_get_an_answer_but_not_any_number_of_watches() {
        let gate = gate(1, 1, 1);
        let admin = Arc::new(User::admin());
        let _full = hold(&gate, &user("ann"), Work::Write, 1);
        assert!(gate.enter(&admin, Work::Write).is_ok_and(|place| place.is_none()));
        let _watch = hold(&gate, &admin, Work::Watch, 1);
        assert!(gate.enter(&admin, Work::Watch).is_err());
    }

    #[test]
    fn zero_is_no_limit() {
        let gate = gate(0, 0, 0);
        for work in [Work::Read, Work::Write, Work::Watch] {
            assert!(gate.enter(&user("ann"), work).is_ok_and(|place| place.is_none()));
        }
    }

    #[test]
    fn a_panic_gives_the_place_back() {
        let gate = gate(1, 1, 1);
        let inside = gate.clone();
        let died = std::thread::spawn(move || {
            let _place = hold(&inside, &user("ann"), Work::Write, 1);
            std::panic::resume_unwind(Box::new("the handler died"));
        });
        assert!(died.join().is_err());
        assert!(gate.enter(&user("ann"), Work::Write).is_ok());
    }

    #[test]
    fn threads_never_exceed_the_limit_and_leave_nothing_behind() {
        let gate = gate(0, 5, 0);
        let inside = AtomicUsize::new(0);
        let names = ["ann", "bob", "cleo"].map(user);
        std::thread::scope(|scope| {
            for t in 0..8 {
                let (gate, inside, names) = (&gate, &inside, &names);
                scope.spawn(move || {
                    for i in 0..2_000 {
                        if let Ok(Some(_place)) = gate.enter(&names[(t + i) % 3], Work::Write) {
                            assert!(inside.fetch_add(1, Relaxed) < 5);
                            std::thread::yield_now();
                            inside.fetch_sub(1, Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!((known(&gate), gate.rooms[1].taken.load(Relaxed)), (0, 0));
    }

    proptest! {
        /// Against a model that counts: who gets in, and who is known afterwards.
        #[test]
        fn the_gate_agrees_with_counting(steps in prop::collection::vec((0..3usize, 0..3usize, any::<bool>()), 0..200)) {
            let gate = gate(7, 4, 2);
            let (all, each) = ([7, 4, usize::MAX], [6, 3, 2]);
            let names = ["ann", "bob", "cleo"].map(user);
            let mut held: BTreeMap<(usize, usize), Vec<Place>> = BTreeMap::new();
            for (who, what, enters) in steps {
                let work = [Work::Read, Work::Write, Work::Watch][what];
                if enters {
                    let total: usize = held.iter().filter(|((_, w), _)| *w == what).map(|(_, places)| places.len()).sum();
                    let own = held.entry((who, what)).or_default();
                    let expected = total < all[what] && own.len() < each[what];
                    let entered = gate.enter(&names[who], work);
                    prop_assert_eq!(entered.is_ok(), expected);
                    own.extend(entered.ok().flatten());
                } else {
                    held.entry((who, what)).or_default().pop();
                }
                let busy = (0..3).filter(|who| held.iter().any(|((w, _), places)| w == who && !places.is_empty()));
                prop_assert_eq!(known(&gate), busy.count());
            }
        }
    }
}
