//! Checks what clients saw against the one order that revisions promise: F-3.
//!
//! Record every operation with when it began and ended (any clock all clients share), and every watch with what it delivered;
//! [`check`] then says what cannot be. Nothing here knows a store: a black-box suite fills it from HTTP answers.
//!
//! The order is given by revisions, so no search is needed: writes sorted by revision are the history, real time must not
//! contradict it, compares must have held in it, and reads and watches must be views of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::{Expect, Revision};

#[derive(Clone, Debug)]
pub struct Op {
    /// Just before it was sent.
    pub began: u64,
    /// Just after it was answered; for unknown outcomes when the client gave up.
    pub ended: u64,
    pub act: Act,
}

#[derive(Clone, Debug)]
pub enum Act {
    /// None = delete.
    Write {
        key: String,
        expect: Expect,
        value: Option<String>,
        outcome: Outcome,
    },
    Get {
        key: String,
        seen: Option<Seen>,
    },
    /// Everything whose key starts with `prefix`, as of `revision`. `past` = the revision was asked for, so it may be old.
    List {
        prefix: String,
        revision: Revision,
        past: bool,
        items: Vec<(String, Seen)>,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    pub revision: Revision,
    pub value: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    Done(Revision),
    /// The compare failed against this revision; None = absent, or the answer did not say which.
    Refused(Option<Revision>),
    /// It surely did not happen.
    Failed,
    Unknown,
}

/// What one watch delivered: everything under `prefix` after `from` up to `upto`.
#[derive(Clone, Debug)]
pub struct Watched {
    pub prefix: String,
    pub from: Revision,
    pub upto: Revision,
    /// None = deleted.
    pub events: Vec<(Revision, String, Option<String>)>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Violation {
    /// Two writes were given one revision.
    RevisionTwice(Revision),
    /// A write that began after another had ended has the lower revision.
    OrderAgainstTime {
        earlier: Revision,
        later: Revision,
    },
    /// A write succeeded although its compare did not hold.
    CompareIgnored(Revision),
    /// A write was refused although its compare held all the time.
    CompareMisjudged {
        key: String,
    },
    /// Someone saw what nobody wrote.
    FromNowhere {
        key: String,
        revision: Revision,
    },
    /// A read missed what was acknowledged, or seen by another, before it began.
    Stale {
        key: String,
    },
    /// A read saw what began after it had ended.
    Clairvoyant {
        key: String,
    },
    /// A list is not the state at its revision.
    NotASnapshot {
        revision: Revision,
        key: String,
    },
    WatchDisorder {
        revision: Revision,
    },
    WatchGap {
        revision: Revision,
        key: String,
    },
    WatchWrong {
        revision: Revision,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// One write that happened.
#[derive(Clone, Debug)]
struct Happened {
    key: String,
    /// None = deleted.
    value: Option<String>,
}

struct Truth {
    writes: BTreeMap<Revision, Happened>,
    by_key: BTreeMap<String, BTreeSet<Revision>>,
    /// Writes of unknown fate that nobody saw: their keys may have changed behind everyone's back.
    unseen: BTreeSet<String>,
}

/// Everything that cannot be; empty = the history is good.
pub fn check(ops: &[Op], watches: &[Watched]) -> Vec<Violation> {
    let mut found = Vec::new();
    let truth = Truth::gather(ops, watches, &mut found);
    truth.compares(ops, &mut found);
    truth.real_time(ops, &mut found);
    truth.reads(ops, &mut found);
    for watch in watches {
        truth.watch(watch, &mut found);
    }
    found
}

impl Truth {
    /// The writes that were acknowledged, and those of unknown fate that someone saw.
    fn gather(ops: &[Op], watches: &[Watched], found: &mut Vec<Violation>) -> Truth {
        let mut writes = BTreeMap::new();
        let mut unknown = Vec::new();
        for op in ops {
            if let Act::Write { key, value, outcome, .. } = &op.act {
                let happened = Happened { key: key.clone(), value: value.clone() };
                match outcome {
                    Outcome::Done(revision) => {
                        if writes.insert(*revision, happened).is_some() {
                            found.push(Violation::RevisionTwice(*revision));
                        }
                    }
                    Outcome::Unknown => unknown.push(happened),
                    Outcome::Refused(_) | Outcome::Failed => {}
                }
            }
        }
        // A set of what each saw, not a map: two observers that differ must both be judged.
        let mut sightings: BTreeSet<(Revision, String, Option<String>)> = BTreeSet::new();
        for watch in watches {
            sightings.extend(watch.events.iter().cloned());
        }
        for op in ops {
            let mut saw = |key: &str, seen: &Seen| {
                sightings.insert((seen.revision, key.to_owned(), Some(seen.value.clone())));
            };
            match &op.act {
                Act::Get { key, seen: Some(seen) } => saw(key, seen),
                Act::List { items, .. } => items.iter().for_each(|(key, seen)| saw(key, seen)),
                _ => {}
            }
        }
        for (revision, key, value) in sightings {
            if let Some(happened) = writes.get(&revision) {
                if happened.key != key || happened.value != value {
                    found.push(Violation::FromNowhere { key, revision });
                }
                continue;
            }
            match unknown.iter().position(|w| w.key == key && w.value == value) {
                Some(i) => drop(writes.insert(revision, unknown.swap_remove(i))),
                None => found.push(Violation::FromNowhere { key, revision }),
            }
        }
        let mut by_key: BTreeMap<String, BTreeSet<Revision>> = BTreeMap::new();
        for (revision, write) in &writes {
            by_key.entry(write.key.clone()).or_default().insert(*revision);
        }
        Truth { writes, by_key, unseen: unknown.into_iter().map(|w| w.key).collect() }
    }

    /// The revision a key has as of `at`; None = absent.
    fn state(&self, key: &str, at: Revision) -> Option<Revision> {
        let revision = *self.by_key.get(key)?.range(..=at).next_back()?;
        self.writes[&revision].value.as_ref().map(|_| revision)
    }

    fn compares(&self, ops: &[Op], found: &mut Vec<Violation>) {
        for op in ops {
            let Act::Write { key, expect, value, outcome: Outcome::Done(revision) } = &op.act else { continue };
            let before = self.state(key, revision - 1);
            let held = expect.holds(before) && (value.is_some() || before.is_some());
            if !held && !self.unseen.contains(key) {
                found.push(Violation::CompareIgnored(*revision));
            }
        }
    }

    fn real_time(&self, ops: &[Op], found: &mut Vec<Violation>) {
        let mut done: Vec<(u64, u64, Revision)> = ops
            .iter()
            .filter_map(|op| match op.act {
                Act::Write { outcome: Outcome::Done(revision), .. } => Some((op.began, op.ended, revision)),
                _ => None,
            })
            .collect();
        // In order of beginning, against the highest revision that had been answered by then.
        done.sort_unstable();
        let mut by_end = done.clone();
        by_end.sort_unstable_by_key(|(_, ended, _)| *ended);
        let mut answered = by_end.iter().peekable();
        let mut highest = 0;
        for (began, _, revision) in done {
            while let Some((_, _, r)) = answered.next_if(|(_, ended, _)| *ended < began) {
                highest = highest.max(*r);
            }
            if revision < highest {
                found.push(Violation::OrderAgainstTime { earlier: highest, later: revision });
            }
        }
    }

    /// Every read must fit a moment between its beginning and its end.
    fn reads(&self, ops: &[Op], found: &mut Vec<Violation>) {
        // What is known to have happened by a time: revisions acknowledged or seen in answers that had ended.
        let mut known: Vec<(u64, Revision)> = Vec::new();
        // When writes began: nothing at or above the lowest such revision after a read's end may be needed by it.
        let mut begun: Vec<(u64, Revision)> = Vec::new();
        for op in ops {
            match &op.act {
                Act::Write { outcome: Outcome::Done(revision), .. } => {
                    known.push((op.ended, *revision));
                    begun.push((op.began, *revision));
                }
                Act::Get { seen: Some(seen), .. } => known.push((op.ended, seen.revision)),
                Act::List { revision, past: false, .. } => known.push((op.ended, *revision)),
                _ => {}
            }
        }
        known.sort_unstable();
        for i in 1..known.len() {
            known[i].1 = known[i].1.max(known[i - 1].1);
        }
        begun.sort_unstable();
        for i in (1..begun.len()).rev() {
            begun[i - 1].1 = begun[i - 1].1.min(begun[i].1);
        }
        for op in ops {
            let low = known.partition_point(|(ended, _)| *ended < op.began).checked_sub(1).map_or(0, |i| known[i].1);
            let high = begun.get(begun.partition_point(|(began, _)| *began <= op.ended)).map_or(u64::MAX, |b| b.1 - 1);
            match &op.act {
                Act::Get { key, seen } => self.fits(key, seen.as_ref().map(|s| s.revision), low, high, found),
                Act::Write { key, expect, value, outcome: Outcome::Refused(current) } => {
                    let mut states = self.states(key, low, high);
                    let contradicts = |s: &Option<Revision>| !expect.holds(*s) || (value.is_none() && s.is_none());
                    let possible = states.any(|s| contradicts(&s) && current.is_none_or(|c| s == Some(c)));
                    if !possible && !self.unseen.contains(key) {
                        found.push(Violation::CompareMisjudged { key: key.clone() });
                    }
                }
                Act::List { prefix, revision, past, items } => {
                    if !past && *revision < low {
                        found.push(Violation::Stale { key: prefix.clone() });
                    }
                    if *revision > high {
                        found.push(Violation::Clairvoyant { key: prefix.clone() });
                    }
                    self.snapshot(prefix, *revision, items, found);
                }
                Act::Write { .. } => {}
            }
        }
    }

    /// All states of a key between two revisions.
    fn states<'a>(&'a self, key: &str, low: Revision, high: Revision) -> impl Iterator<Item = Option<Revision>> + 'a {
        let within = self.by_key.get(key).map(|revisions| revisions.range(low.saturating_add(1)..=high.max(low + 1)));
        let changes = within.into_iter().flatten().filter(move |r| **r <= high);
        let first = self.state(key, low);
        std::iter::once(first).chain(changes.map(|r| self.writes[r].value.as_ref().map(|_| *r)))
    }

    fn fits(&self, key: &str, seen: Option<Revision>, low: Revision, high: Revision, found: &mut Vec<Violation>) {
        if self.states(key, low, high).any(|s| s == seen) || self.unseen.contains(key) {
            return;
        }
        let key = key.to_owned();
        found.push(match seen {
            Some(revision) if revision > high => Violation::Clairvoyant { key },
            _ => Violation::Stale { key },
        });
    }

    fn snapshot(&self, prefix: &str, revision: Revision, items: &[(String, Seen)], found: &mut Vec<Violation>) {
        let listed: BTreeMap<&str, Revision> = items.iter().map(|(key, seen)| (key.as_str(), seen.revision)).collect();
        let known = self.by_key.keys().map(String::as_str).filter(|key| key.starts_with(prefix));
        let keys: BTreeSet<&str> = known.chain(listed.keys().copied()).collect();
        for key in keys {
            if listed.get(key).copied() != self.state(key, revision) && !self.unseen.contains(key) {
                found.push(Violation::NotASnapshot { revision, key: key.to_owned() });
            }
        }
    }

    fn watch(&self, watch: &Watched, found: &mut Vec<Violation>) {
        for pair in watch.events.windows(2) {
            if pair[1].0 <= pair[0].0 {
                found.push(Violation::WatchDisorder { revision: pair[1].0 });
            }
        }
        let seen: BTreeSet<Revision> = watch.events.iter().map(|(revision, ..)| *revision).collect();
        for (revision, write) in self.writes.range(watch.from + 1..=watch.upto.max(watch.from + 1)) {
            let due = *revision <= watch.upto && write.key.starts_with(&watch.prefix);
            if due && !seen.contains(revision) {
                found.push(Violation::WatchGap { revision: *revision, key: write.key.clone() });
            }
        }
        for (revision, key, _) in &watch.events {
            if *revision <= watch.from || !key.starts_with(&watch.prefix) {
                found.push(Violation::WatchWrong { revision: *revision });
            }
        }
    }
}

#[cfg(test)]
mod tests;
