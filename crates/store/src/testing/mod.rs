//! Tools to prove a store: a suite every engine passes, a checker of histories, a disk that fails on demand.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a broken expectation is the test's failure")]

pub mod clients;
pub mod history;
pub mod simfs;
pub mod suite;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;

use crate::{Attrs, Change, Clock, Collection, Expect, Key, Revision, Write};

pub fn put(key: &Key, expect: Expect, value: impl Into<Bytes>) -> Write {
    Write::new(key.clone(), expect, Change::Put { value: value.into(), attrs: Arc::new(Attrs::default()) })
}

pub fn delete(key: &Key, expect: Expect) -> Write {
    Write::new(key.clone(), expect, Change::Delete)
}

pub fn key(collection: &str, item: &str) -> Key {
    Key::new(&Collection::new(collection), item)
}

pub fn at(revision: Revision) -> Expect {
    Expect::At(revision)
}

/// A clock that stands still until told.
#[derive(Default)]
pub struct StillClock(AtomicU64);

impl StillClock {
    pub fn pass(&self, time: Duration) {
        self.0.fetch_add(time.as_millis() as u64, Ordering::SeqCst);
    }
}

impl Clock for StillClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn unix(&self) -> u64 {
        self.now().as_secs()
    }
}

/// Small, seeded, the same everywhere (splitmix64).
#[derive(Clone)]
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.roll() % n.max(1)
    }
}
