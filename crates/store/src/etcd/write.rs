//! One write as one transaction, and the truth about it when the answer is lost.
//!
//! A lost answer leaves a write in doubt: it may have happened, or may still happen. Every transaction of ours therefore also
//! compares our *fence*, a key of this store alone. Raising the fence makes everything sent before it impossible from then on; once
//! the tree has seen the raise, the tag in our values tells whether the write happened, and if not it is safe to send again.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tokio::time::{Instant, timeout_at};

use super::client::{Again, Failure, Refusal};
use super::core::{Core, Ticket};
use super::layout::envelop;
use super::wire::{
    self, Compare, DeleteRangeRequest, KeyValue, Operand, PutRequest, RangeRequest, RangeResponse, Relation, Request,
    RequestOp, Response, TxnRequest, TxnResponse,
};
use crate::error::{Error, Result};
use crate::held;
use crate::model::{Change, Entry, Expect, Key, Range, Revision, Write, Written};

/// No key is ever at this revision.
const NEVER: i64 = i64::MAX;

#[derive(Default)]
pub(super) struct Fence {
    /// How often it was raised, and the revision of the last raise.
    now: Mutex<(i64, Revision)>,
    /// Held while raising, so that many writes in doubt raise it once.
    raising: tokio::sync::Mutex<()>,
}

impl Fence {
    fn now(&self) -> i64 {
        held!(self.now.lock()).0
    }

    /// What etcd says it is, unless that was learnt already. It goes down only if someone deleted it.
    fn learn(&self, was: i64, now: (i64, Revision)) {
        let mut known = held!(self.now.lock());
        if known.0 == was {
            *known = now;
        }
    }

    /// What a range over the fence found.
    fn told(kv: Option<&KeyValue>, answer: &TxnResponse) -> (i64, Revision) {
        kv.map_or((0, wire::revision(answer.header.as_ref())), |kv| (kv.version, kv.revision()))
    }

    /// After this, nothing sent with the fence at `from` can happen any more. Gives the revision from which on that holds.
    async fn raise(&self, core: &Core, from: i64, deadline: Instant) -> Result<Revision, Failure> {
        let late = |_| Failure::Unavailable("the fence was not raised in time".into());
        let _one = timeout_at(deadline, self.raising.lock()).await.map_err(late)?;
        let (now, at) = *held!(self.now.lock());
        if now != from {
            return Ok(at);
        }
        let key = core.layout.fence(core.writes.writer);
        let put = PutRequest { key: key.clone(), ..PutRequest::default() };
        let raise = TxnRequest {
            compare: vec![Compare::new(&key, Relation::Equal, Operand::Version(now))],
            success: vec![Request::Put(put).into()],
            failure: vec![Request::Range(RangeRequest { key, ..RangeRequest::default() }).into()],
        };
        // Sent twice it raises once: the second finds the version changed, by us alone.
        let answer: TxnResponse = core.client.call(wire::TXN, &raise, deadline, Again::Safe).await?;
        let raised = if answer.succeeded {
            (now + 1, wire::revision(answer.header.as_ref()))
        } else {
            Fence::told(found(&answer, 0), &answer)
        };
        self.learn(now, raised);
        Ok(raised.1)
    }
}

/// The key that the `n`th operation, a range, found.
fn found(answer: &TxnResponse, n: usize) -> Option<&KeyValue> {
    match answer.responses.get(n)?.response.as_ref()? {
        Response::Range(range) => range.kvs.first(),
        _ => None,
    }
}

struct Attempt<'a> {
    core: &'a Core,
    ticket: Ticket<'a>,
    key: Key,
    deletes: bool,
    /// The key in the tree, and the count of reloads, before anything was sent.
    before: Option<Entry>,
    /// That is what must be replaced, so it need not travel.
    known: bool,
    reloads: u64,
    deadline: Instant,
}

pub(super) async fn write(core: &Core, write: Write) -> Result<Written> {
    let Write { key, expect, change, guard } = write;
    let before = core.tree.get(&key);
    let attempt = Attempt {
        core,
        ticket: core.writes.begin(),
        deletes: matches!(change, Change::Delete),
        known: matches!((expect, &before), (Expect::At(at), Some(before)) if before.revision == at),
        before,
        reloads: core.reloads.load(Ordering::SeqCst),
        deadline: core.deadline(),
        key,
    };
    let name = core.layout.key(&attempt.key);
    let fence = core.layout.fence(core.writes.writer);
    let compare = match (expect, attempt.deletes) {
        (Expect::Anything, false) => None,
        (Expect::Anything, true) => Some((Relation::NotEqual, Operand::Create(0))),
        (Expect::Absent, false) => Some((Relation::Equal, Operand::Create(0))),
        // Absent and deleted is never right, and 0 means absent to etcd but is no revision to us.
        (Expect::Absent, true) | (Expect::At(0), _) => Some((Relation::Equal, Operand::Mod(NEVER))),
        (Expect::At(revision), _) => Some((Relation::Equal, Operand::Mod(i64::try_from(revision).unwrap_or(NEVER)))),
    };
    let guard = guard.map(|guard| (core.layout.key(&guard.key), guard.revision));
    let (size, change) = attempt.change(&name, change)?;
    loop {
        let raised = core.fence.now();
        let mut txn = TxnRequest {
            compare: vec![Compare::new(&fence, Relation::Equal, Operand::Version(raised))],
            success: vec![change.clone()],
            failure: vec![
                Request::Range(RangeRequest { key: name.clone(), ..RangeRequest::default() }).into(),
                Request::Range(RangeRequest { key: fence.clone(), ..RangeRequest::default() }).into(),
            ],
        };
        txn.compare.extend(compare.clone().map(|(relation, operand)| Compare::new(&name, relation, operand)));
        if let Some((key, revision)) = &guard {
            let at = i64::try_from(*revision).ok().filter(|at| *at > 0).unwrap_or(NEVER);
            txn.compare.push(Compare::new(key, Relation::Equal, Operand::Mod(at)));
            txn.failure.push(Request::Range(RangeRequest { key: key.clone(), ..RangeRequest::default() }).into());
        }
        match core.client.call::<_, TxnResponse>(wire::TXN, &txn, attempt.deadline, Again::Never).await {
            Ok(answer) if answer.succeeded => return attempt.done(answer).await,
            Ok(answer) => {
                let now = Fence::told(found(&answer, 1), &answer);
                if now.0 == raised {
                    if guard.is_some_and(|(_, at)| found(&answer, 2).is_none_or(|kv| kv.revision() != at)) {
                        core.reached(wire::revision(answer.header.as_ref()), attempt.deadline).await;
                        return Err(Error::Overtaken);
                    }
                    return Err(attempt.conflict(&answer).await);
                }
                // Not done because another write of ours raised the fence meanwhile.
                core.fence.learn(raised, now);
            }
            Err(Failure::Doubt(why)) => {
                tracing::info!(why, key = %attempt.key.item, "a write is in doubt");
                if let Some(revision) = attempt.settle(raised, why).await? {
                    return Ok(Written { revision, prev: attempt.just_before(revision) });
                }
            }
            Err(Failure::Refused(Refusal::NoSpace, why)) => {
                core.full(Some(why.clone()));
                return match attempt.landed().await? {
                    Some(revision) => Ok(Written { revision, prev: attempt.just_before(revision) }),
                    None => Err(Error::Full(why)),
                };
            }
            Err(failure) => return Err(failure.into_error(size, core.max_value)),
        }
    }
}

impl Attempt<'_> {
    /// The operation, and how large its value is.
    fn change(&self, name: &Bytes, change: Change) -> Result<(usize, RequestOp)> {
        let (key, prev_kv) = (name.clone(), !self.known);
        let Change::Put { value, attrs } = change else {
            let delete = DeleteRangeRequest { key, prev_kv, ..DeleteRangeRequest::default() };
            return Ok((0, Request::Delete(delete).into()));
        };
        let limit = self.core.max_value;
        if value.len() > limit {
            return Err(Error::TooLarge { size: value.len(), limit });
        }
        let size = value.len();
        let stored = if self.core.sealer.seals(&self.key.collection) {
            envelop(self.ticket.tag, true, &self.core.sealer.seal(&self.key, &value)?)
        } else {
            envelop(self.ticket.tag, false, &value)
        };
        self.ticket.sent(value, attrs);
        Ok((size, Request::Put(PutRequest { key, value: stored, prev_kv }).into()))
    }

    async fn done(&self, answer: TxnResponse) -> Result<Written> {
        let revision = wire::revision(answer.header.as_ref());
        self.core.full(None);
        if !self.core.reached(revision, self.deadline).await {
            return Err(Error::Unknown(format!("written at revision {revision}, but reads do not see that yet")));
        }
        let replaced = match answer.responses.into_iter().next().and_then(|op| op.response) {
            Some(Response::Put(put)) => put.prev_kv,
            Some(Response::Delete(delete)) => delete.prev_kvs.into_iter().next(),
            _ => None,
        };
        let prev = match replaced {
            Some(kv) => match &self.before {
                Some(before) if before.revision == kv.revision() => Some(before.clone()),
                _ => self.core.entry(&self.key, &kv)?,
            },
            None => self.before.clone().filter(|_| self.known),
        };
        Ok(Written { revision, prev })
    }

    /// Why it was refused, once reads know it too: else the caller would read, try again and be refused again.
    async fn conflict(&self, answer: &TxnResponse) -> Error {
        let known = |core: &Core| core.tree.get(&self.key);
        let Some(kv) = found(answer, 0) else {
            if known(self.core).is_some() {
                self.core.reached(wire::revision(answer.header.as_ref()), self.deadline).await;
            }
            return Error::Conflict { current: None };
        };
        self.core.reached(kv.revision(), self.deadline).await;
        match known(self.core).filter(|entry| entry.revision == kv.revision()) {
            Some(entry) => Error::Conflict { current: Some(entry) },
            None => match self.core.entry(&self.key, kv) {
                Ok(current) => Error::Conflict { current },
                Err(error) => error,
            },
        }
    }

    /// What became of a write whose answer is lost: done at a revision, or (None) certainly not done and never will be.
    async fn settle(&self, raised: i64, why: String) -> Result<Option<Revision>> {
        let unknown = |more: &str| Error::Unknown(format!("{why}{more}"));
        let at = match self.core.fence.raise(self.core, raised, self.deadline).await {
            Ok(at) => at,
            Err(Failure::Refused(_, more) | Failure::Unavailable(more) | Failure::Doubt(more)) => {
                return Err(unknown(&format!("; then: {more}")));
            }
        };
        if !self.core.reached(at, self.deadline).await {
            return Err(unknown("; its events have not come since"));
        }
        if let Some(revision) = self.ticket.seen() {
            return Ok(Some(revision));
        }
        if self.core.reloads.load(Ordering::SeqCst) != self.reloads {
            return Err(unknown("; events were missed meanwhile"));
        }
        let still = self.core.tree.get(&self.key).map(|entry| entry.revision);
        // A delete bears no tag: only if what we knew is still there, nobody has deleted it.
        if self.deletes && (still.is_none() || still != self.before.as_ref().map(|entry| entry.revision)) {
            return Err(unknown("; the key changed since, by us or by another"));
        }
        Ok(None)
    }

    /// The write with which etcd finds itself full is refused, yet done. (It is not in doubt: it will not happen later.)
    async fn landed(&self) -> Result<Option<Revision>> {
        let ask = self.core.layout.probe();
        let answer = self.core.client.call::<_, RangeResponse>(wire::RANGE, &ask, self.deadline, Again::Safe).await;
        let now = answer.map_err(|failure| Error::Unknown(failure.into_error(0, 0).to_string()))?;
        if !self.core.reached(wire::revision(now.header.as_ref()), self.deadline).await {
            return Err(Error::Unknown("etcd is full, and its events have not come since".into()));
        }
        Ok(self.ticket.seen())
    }

    fn just_before(&self, revision: Revision) -> Option<Entry> {
        if self.known {
            return self.before.clone();
        }
        let at = Some(revision.saturating_sub(1));
        let range = Range { collection: &self.key.collection, prefix: &self.key.item, after: None, limit: 1, at };
        let page = self.core.tree.range(&range, |item, _| *item == *self.key.item).ok()?;
        page.items.into_iter().next().map(|(_, entry)| entry)
    }
}
