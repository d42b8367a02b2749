//! Bringing what is sealed under older keys under the primary one.

use super::core::Core;
use super::feed::pages;
use super::layout::unfold;
use super::write::write;
use crate::error::{Error, Result};
use crate::model::{Change, Expect, Write};
use crate::seal::{KeyId, Sealer};

/// Others may seal under an older key until they know the new one; after so many rounds we stop chasing them.
const ROUNDS: usize = 10;

/// Gives the oldest key still needed. etcd's past may still hold older ones until it is compacted.
pub(super) async fn reseal(core: &Core) -> Result<KeyId> {
    let primary = core.sealer.primary()?;
    for _ in 0..ROUNDS {
        let mut done = true;
        for collection in core.tree.collections().iter().filter(|collection| core.sealer.seals(collection)) {
            let mut old = Vec::new();
            let all = pages(core, core.layout.collection(collection), |kv| {
                let under = unfold(&kv.value).map(|(_, sealed, body)| Sealer::key_of(body).filter(|_| sealed));
                if let (Some(under), Some(key)) = (under, core.layout.item(&kv.key))
                    && under != Some(primary)
                {
                    old.push((key, kv.revision()));
                }
                Ok(())
            });
            done &= all.await?.is_some() && old.is_empty();
            for (key, revision) in old {
                core.reached(revision, core.deadline()).await;
                // What changed since is looked at again in the next round.
                let Some(entry) = core.tree.get(&key).filter(|entry| entry.revision == revision) else { continue };
                let change = Change::Put { value: entry.value, attrs: entry.attrs };
                match write(core, Write::new(key, Expect::At(revision), change)).await {
                    Ok(_) | Err(Error::Conflict { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        if done {
            return Ok(primary);
        }
    }
    Err(Error::Unavailable("others keep sealing under an older key".into()))
}
