//! Forgetting etcd's past: one of the servers that share an etcd, in turn, compacts it up to where its own history begins.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use super::client::{Again, Failure, Refusal};
use super::core::Core;
use super::wire::{
    self, CompactionRequest, CompactionResponse, Compare, Operand, PutRequest, RangeRequest, Relation, Request,
    Response, TxnRequest, TxnResponse,
};
use crate::error::Result;
use crate::model::Revision;

/// Whose turn it is: who finds the shared key as it left it last time changes it and compacts; the others wait another period.
#[derive(Default)]
pub(super) struct Turn {
    version: AtomicI64,
    done: AtomicU64,
}

pub(super) async fn now_and_then(core: Arc<Core>, turn: Arc<Turn>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        if let Err(error) = turn.take(&core).await {
            tracing::warn!(%error, "etcd was not compacted; it is tried again");
        }
    }
}

impl Turn {
    pub(super) async fn take(&self, core: &Core) -> Result<()> {
        let upto = core.tree.oldest();
        if self.done.load(Ordering::SeqCst) >= upto {
            return Ok(());
        }
        let version = self.version.load(Ordering::SeqCst);
        let key = core.layout.compaction();
        let put = PutRequest { key: key.clone(), value: upto.to_string().into(), prev_kv: false };
        let claim = TxnRequest {
            compare: vec![Compare::new(&key, Relation::Equal, Operand::Version(version))],
            success: vec![Request::Put(put).into()],
            failure: vec![Request::Range(RangeRequest { key, ..RangeRequest::default() }).into()],
        };
        let answer: TxnResponse = core
            .client
            .call(wire::TXN, &claim, core.deadline(), Again::Safe)
            .await
            .map_err(|failure| failure.into_error(0, 0))?;
        if answer.succeeded {
            self.version.store(version + 1, Ordering::SeqCst);
            compact(core, upto).await?;
            self.done.fetch_max(upto, Ordering::SeqCst);
            return Ok(());
        }
        let theirs = match answer.responses.into_iter().next().and_then(|op| op.response) {
            Some(Response::Range(range)) => range.kvs.first().map_or(0, |kv| kv.version),
            _ => 0,
        };
        self.version.store(theirs, Ordering::SeqCst);
        Ok(())
    }
}

pub(super) async fn compact(core: &Core, upto: Revision) -> Result<()> {
    let ask = CompactionRequest { revision: i64::try_from(upto).unwrap_or(i64::MAX) };
    match core.client.call::<_, CompactionResponse>(wire::COMPACT, &ask, core.deadline(), Again::Safe).await {
        // Another was there first.
        Ok(_) | Err(Failure::Refused(Refusal::Compacted, _)) => Ok(()),
        Err(failure) => Err(failure.into_error(0, 0)),
    }
}
