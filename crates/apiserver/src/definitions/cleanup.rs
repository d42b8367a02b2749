//! The end of a definition: its instances are removed, then it goes.

use super::{Known, RETRY};
use crate::kinds::definition::{CLEANUP, Condition, TERMINATING};
use crate::kinds::{Definition, Kind, definition};
use crate::objects::Part;
use crate::ownership::By;
use crate::{Api, Inner};
use meta::options::DeleteOptions;
use meta::{Reason, Status, time};
use std::collections::HashSet;
use std::sync::Arc;
use store::Range;
use tokio::task::JoinSet;

/// Definitions on their way out, each emptied by a task of its own.
#[derive(Default)]
pub(super) struct Cleaning {
    tasks: JoinSet<String>,
    busy: HashSet<String>,
}

impl Cleaning {
    pub fn start(&mut self, api: &Api, kind: &Arc<Kind>, known: &Known) {
        for definition in known.by_name.values().filter(|d| d.needs_cleanup()) {
            if !self.busy.insert(definition.name.clone()) {
                continue;
            }
            let (api, kind, definition) = (api.clone(), kind.clone(), definition.clone());
            self.tasks.spawn(async move {
                while let Err(error) = clean_up(&api.inner, &kind, &definition).await {
                    tracing::warn!(definition = %definition.name, %error, "instances could not be removed yet");
                    tokio::time::sleep(RETRY).await;
                }
                definition.name.clone()
            });
        }
    }

    /// Returns when a task has ended; `None` when there is none.
    pub async fn ended(&mut self) -> Option<()> {
        let name = self.tasks.join_next().await?.unwrap_or_default();
        self.busy.remove(&name);
        Some(())
    }
}

/// Removes the instances of a definition and lets it go. Finalizers of instances are respected: it waits for them.
async fn clean_up(api: &Inner, kind: &Kind, definition: &Definition) -> Result<(), Status> {
    let name = &definition.name;
    let running = "CustomResource deletion is in progress";
    let begun = Condition::new(TERMINATING, true, "InstanceDeletionInProgress", running);
    if !tell(api, kind, name, &begun, false).await? {
        return Ok(());
    }
    let end = if definition.is_served() {
        empty(api, &definition.stored).await?;
        Condition::new(TERMINATING, false, "InstanceDeletionCompleted", "removed all instances")
    } else {
        Condition::new(TERMINATING, false, "NeverEstablished", "resource was never established")
    };
    tell(api, kind, name, &end, true).await.map(drop)
}

/// Sets the condition on a definition that is going away, and lets it go when that is the `end`. Tells whether it was still there.
async fn tell(api: &Inner, kind: &Kind, name: &str, condition: &Condition, end: bool) -> Result<bool, Status> {
    let now = time::seconds(api.clock.now());
    let by = By::SERVER.through("status");
    let told = api.update(kind, "", name, Part::Status, &by, |current| {
        let mut desired = current.clone();
        if !current.is_deleting() {
            return Err(Status::not_found(kind.resource(), name));
        }
        definition::set_condition(&mut desired, condition, &now);
        if end {
            desired.remove_finalizer(CLEANUP);
        }
        Ok(desired)
    });
    match told.await {
        Ok(_) => Ok(true),
        Err(s) if s.reason == Reason::NotFound => Ok(false),
        Err(s) => Err(s),
    }
}

/// Deletes all instances and waits until they are gone.
async fn empty(api: &Inner, stored: &Kind) -> Result<(), Status> {
    let mut since = api.store.revision();
    loop {
        let range = Range { collection: &stored.collection, prefix: "", after: None, limit: 0, at: None };
        let page = api.store.range(&range, |_, _| true).map_err(crate::objects::storage)?;
        for (item, _) in &page.items {
            let (namespace, name) = item.split_once('/').unwrap_or(("", item));
            match api.delete(stored, namespace, name, &DeleteOptions::default()).await {
                Err(s) if s.reason != Reason::NotFound => return Err(s),
                _ => {}
            }
        }
        if api.store.count(&stored.collection, "") == 0 {
            return Ok(());
        }
        // Whoever holds them lets them go by a write.
        tokio::select! {
            () = tokio::time::sleep(10 * RETRY) => {}
            () = api.changed(&stored.collection, &mut since) => {}
        }
    }
}
