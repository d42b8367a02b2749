//! ClusterRoles that gather the rules of others: kept equal to the union of what they select.

use super::RBAC;
use crate::objects::Part;
use crate::ownership::By;
use crate::{Api, Inner};
use meta::selector::LabelSelector;
use meta::{Object, Reason, Status};
use serde_json::Value;
use std::time::Duration;
use store::Range;
use tokio_util::sync::CancellationToken;

const RETRY: Duration = Duration::from_secs(1);
const LOOK_ANYWAY: Duration = Duration::from_secs(60);
const ROUNDS: usize = 8;

/// Keeps aggregated roles up until told to stop.
pub(crate) async fn run(api: Api, stop: CancellationToken) {
    let api = &api.inner;
    let Some(kind) = api.kind(RBAC, "v1", "clusterroles") else { return };
    // From before the first look, so that nothing falls between looking and waiting.
    let mut since = api.store.revision();
    while !stop.is_cancelled() {
        let pause = match settle(api).await {
            Ok(()) => LOOK_ANYWAY,
            Err(error) => {
                tracing::warn!(%error, "aggregated roles could not be brought up to date yet");
                RETRY
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
            () = api.changed(&kind.collection, &mut since) => {}
        }
    }
}

/// Rounds until nothing changes, so that chains (view into edit into admin) come to their end. Longer chains go on at the next change.
pub(crate) async fn settle(api: &Inner) -> Result<(), Status> {
    for _ in 0..ROUNDS {
        if !gather(api).await? {
            break;
        }
    }
    Ok(())
}

/// One round over all roles; tells whether it changed any.
async fn gather(api: &Inner) -> Result<bool, Status> {
    let Some(kind) = api.kind(RBAC, "v1", "clusterroles") else { return Ok(false) };
    let mut changed = false;
    let range = Range { collection: &kind.collection, prefix: "", after: None, limit: 0, at: None };
    let page = api.store.range(&range, |_, _| true).map_err(crate::objects::storage)?;
    let mut roles = Vec::with_capacity(page.items.len());
    for (_, entry) in &page.items {
        roles.push(api.decode_stored(&kind, &entry.value, entry.revision)?);
    }
    for role in roles.iter().filter(|role| role.0.get("aggregationRule").is_some_and(|rule| !rule.is_null())) {
        let union = union(role, &roles);
        if role.0.get("rules").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default() == union {
            continue;
        }
        let updated = api.update(&kind, "", role.name(), Part::Main, &By::SERVER, |current| {
            let mut desired = current.clone();
            desired.0.insert("rules".into(), union.clone().into());
            Ok(desired)
        });
        match updated.await {
            Err(s) if s.reason != Reason::NotFound => return Err(s),
            _ => changed = true,
        }
    }
    Ok(changed)
}

/// The rules of every role selected, each once, in the order of selectors and names.
fn union(role: &Object, roles: &[Object]) -> Vec<Value> {
    let selectors = role.0.get("aggregationRule").and_then(|rule| rule.get("clusterRoleSelectors"));
    let mut out: Vec<Value> = Vec::new();
    for selector in selectors.and_then(Value::as_array).into_iter().flatten() {
        let Ok(selector) = LabelSelector::from_object(selector) else { continue };
        let selected = roles.iter().filter(|other| {
            let label = |key: &str| other.labels().find(|(k, _)| *k == key).map(|(_, value)| value);
            other.name() != role.name() && selector.matches_with(label)
        });
        for rule in selected.filter_map(|other| other.0.get("rules")?.as_array()).flatten() {
            if !out.contains(rule) {
                out.push(rule.clone());
            }
        }
    }
    out
}
