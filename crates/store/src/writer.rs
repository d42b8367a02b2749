//! The one thread that writes: it takes everything queued as one group, checks each compare, gives each write a revision, makes
//! the group durable at once, shows it and answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::{mpsc, oneshot};

use crate::error::{Error, Result};
use crate::held;
use crate::model::{Change, Entry, Health, Key, Revision, Write, Written};
use crate::tree::{Fed, Tree};

/// Bounds of one group, so that no write waits behind an endless one.
const GROUP_WRITES: usize = 1024;
const GROUP_BYTES: usize = 8 << 20;

/// Makes groups durable.
pub(crate) trait Journal: Send {
    /// On return the group survives a crash. On error nothing of it does, unless the error is [`Error::Unknown`].
    fn append(&mut self, group: &[Fed]) -> Result<()>;
    /// What is appended from now on goes to a new file; `next` is the first revision in it.
    fn roll(&mut self, next: Revision) -> Result<()>;
}

/// Nothing survives.
pub(crate) struct NoJournal;

impl Journal for NoJournal {
    fn append(&mut self, _: &[Fed]) -> Result<()> {
        Ok(())
    }

    fn roll(&mut self, _: Revision) -> Result<()> {
        Ok(())
    }
}

pub(crate) enum Ask {
    Write(Write, oneshot::Sender<Result<Written>>),
    /// Answers with the last revision in the closed file.
    Roll(oneshot::Sender<Result<Revision>>),
    Stop(oneshot::Sender<()>),
}

pub(crate) struct Writer<J> {
    pub tree: Arc<Tree>,
    pub journal: J,
    pub queue: mpsc::Receiver<Ask>,
    pub health: Arc<Mutex<Health>>,
}

type Answer = (oneshot::Sender<Result<Written>>, Written);

#[derive(Default)]
struct Group {
    changes: Vec<Fed>,
    answers: Vec<Answer>,
    /// Compares that failed against a write of this very group: they can be answered only when it is durable.
    refused: Vec<(oneshot::Sender<Result<Written>>, Error)>,
    /// What the group's own writes make of a key.
    now: HashMap<Key, Option<Entry>>,
    bytes: usize,
}

impl<J: Journal> Writer<J> {
    pub(crate) fn run(mut self) {
        let mut next = self.queue.blocking_recv();
        while let Some(ask) = next.take() {
            let mut group = Group::default();
            let mut other = None;
            match ask {
                Ask::Write(write, answer) => {
                    self.join(&mut group, write, answer);
                    while group.changes.len() < GROUP_WRITES && group.bytes < GROUP_BYTES {
                        match self.queue.try_recv() {
                            Ok(Ask::Write(write, answer)) => self.join(&mut group, write, answer),
                            Ok(ask) => {
                                other = Some(ask);
                                break;
                            }
                            Err(_) => break,
                        }
                    }
                    self.commit(group);
                }
                ask => other = Some(ask),
            }
            match other {
                Some(Ask::Roll(answer)) => {
                    let last = self.tree.revision();
                    let _ = answer.send(self.journal.roll(last + 1).map(|()| last));
                }
                Some(Ask::Stop(answer)) => {
                    // New writes are refused from here on; those already queued are finished by the loop.
                    self.queue.close();
                    let _ = answer.send(());
                }
                Some(Ask::Write(..)) | None => {}
            }
            next = self.queue.blocking_recv();
        }
    }

    fn join(&self, group: &mut Group, write: Write, answer: oneshot::Sender<Result<Written>>) {
        let Write { key, expect, change, guard } = write;
        if let Some(guard) = guard {
            let own = group.now.get(&guard.key);
            let now = own.map_or_else(|| self.tree.get(&guard.key), Clone::clone);
            if now.is_none_or(|entry| entry.revision != guard.revision) {
                match own {
                    Some(_) => group.refused.push((answer, Error::Overtaken)),
                    None => drop(answer.send(Err(Error::Overtaken))),
                }
                return;
            }
        }
        let own = group.now.get(&key);
        let in_group = own.is_some();
        let current = own.cloned().unwrap_or_else(|| self.tree.get(&key));
        let absent_delete = matches!(change, Change::Delete) && current.is_none();
        if absent_delete || !expect.holds(current.as_ref().map(|e| e.revision)) {
            if in_group {
                group.refused.push((answer, Error::Conflict { current }));
            } else {
                let _ = answer.send(Err(Error::Conflict { current }));
            }
            return;
        }
        let revision = self.tree.revision() + 1 + group.changes.len() as u64;
        let entry = match &change {
            Change::Put { value, attrs } => {
                group.bytes += value.len();
                Some(Entry::new(revision, value.clone(), attrs.clone()))
            }
            Change::Delete => None,
        };
        group.now.insert(key.clone(), entry);
        group.changes.push(Fed { revision, key, change });
        group.answers.push((answer, Written { revision, prev: current }));
    }

    fn commit(&mut self, group: Group) {
        let Group { changes, answers, refused, now, .. } = group;
        // Frees the second handles on the values, so that the tree may shrink their buffers.
        drop(now);
        let Some(last) = changes.last().map(|fed| fed.revision) else { return };
        match self.journal.append(&changes) {
            Ok(()) => {
                self.healthy(Health::Ok);
                self.tree.feed_then(changes, last, || {
                    for (answer, written) in answers {
                        let _ = answer.send(Ok(written));
                    }
                    for (answer, error) in refused {
                        let _ = answer.send(Err(error));
                    }
                });
            }
            Err(error) => {
                tracing::error!(%error, writes = changes.len(), "a group of writes failed");
                self.healthy(match &error {
                    Error::Full(why) => Health::Full { why: why.clone() },
                    error => Health::Failed { why: error.to_string() },
                });
                for answer in answers.into_iter().map(|(a, _)| a).chain(refused.into_iter().map(|(a, _)| a)) {
                    let _ = answer.send(Err(again(&error)));
                }
            }
        }
    }

    fn healthy(&self, now: Health) {
        let mut health = held!(self.health.lock());
        if *health != now {
            tracing::warn!(was = ?*health, ?now, "the store's health changed");
            *health = now;
        }
    }
}

/// The same error for each write of a group.
fn again(error: &Error) -> Error {
    match error {
        Error::Full(why) => Error::Full(why.clone()),
        Error::Unknown(why) => Error::Unknown(why.clone()),
        Error::Seal(why) => Error::Seal(why.clone()),
        error => Error::Unavailable(error.to_string()),
    }
}
