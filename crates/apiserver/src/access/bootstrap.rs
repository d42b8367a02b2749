//! The roles and bindings a server starts with, as Kubernetes' own, and the repair of those at every start.
//!
//! They are complete: whoever runs a scheduler, a controller manager or nodes against this server finds the rights it needs.

mod controllers;
mod roles;
mod table;

use super::RBAC;
use super::aggregate;
use super::policy::{rule, rules};
use crate::Inner;
use crate::objects::Part;
use crate::ownership::By;
use auth::Rule;
use controllers::CONTROLLERS;
use futures_util::future::try_join_all;
use meta::options::DeleteOptions;
use meta::{Object, Reason, Status};
use roles::{BINDINGS, ROLES};
use serde_json::{Value, json};
use table::{AUTO_UPDATE, controller_binding, controller_role};

/// Makes what is missing and gives back what was taken from the defaults, unless they are marked to be left alone.
pub(crate) async fn reconcile(api: &Inner) -> Result<(), Status> {
    let roles = ROLES.iter().map(table::Role::object);
    let bindings = BINDINGS.iter().map(table::Binding::object);
    let controllers =
        CONTROLLERS.iter().flat_map(|(name, lines)| [controller_role(name, lines), controller_binding(name)]);
    // All at once: the store commits them as one group.
    try_join_all(roles.chain(bindings).chain(controllers).map(|wanted| settle(api, wanted))).await?;
    aggregate::settle(api).await
}

async fn settle(api: &Inner, wanted: Object) -> Result<(), Status> {
    let plural = format!("{}s", wanted.kind().to_lowercase());
    let Some(kind) = api.kind(RBAC, "v1", &plural) else { return Ok(()) };
    let repair = if wanted.0.contains_key("roleRef") { repair_binding } else { repair_role };
    let (namespace, name) = (wanted.namespace().to_owned(), wanted.name().to_owned());
    let current = api.store.get(&kind.key(&namespace, &name));
    if let Some(entry) = current {
        let current = api.decode_stored(&kind, &entry.value, entry.revision)?;
        if annotation(&current, AUTO_UPDATE) == Some("false") {
            return Ok(());
        }
        if current.0.get("roleRef") == wanted.0.get("roleRef") {
            let repaired = api.update(&kind, &namespace, &name, Part::Main, &By::SERVER, |current| {
                let mut desired = current.clone();
                repair_metadata(&mut desired, &wanted);
                repair(&mut desired, &wanted);
                Ok(desired)
            });
            return match repaired.await {
                Err(s) if s.reason != Reason::NotFound => Err(s),
                _ => Ok(()),
            };
        }
        // A binding to another role cannot be changed back, only made anew.
        match api.delete(&kind, &namespace, &name, &DeleteOptions::default()).await {
            Err(s) if s.reason != Reason::NotFound => return Err(s),
            _ => {}
        }
    }
    match api.create(&kind, &namespace, wanted, &By::SERVER).await {
        Err(s) if s.reason != Reason::AlreadyExists => Err(s),
        _ => Ok(()),
    }
}

fn annotation<'a>(object: &'a Object, key: &str) -> Option<&'a str> {
    object.meta().get("annotations")?.get(key)?.as_str()
}

fn repair_metadata(desired: &mut Object, wanted: &Object) {
    for part in ["labels", "annotations"] {
        let Some(Value::Object(defaults)) = wanted.meta().get(part).cloned() else { continue };
        let own = desired.meta_mut().entry(part).or_insert_with(|| json!({}));
        if let Value::Object(own) = own {
            for (key, value) in defaults {
                own.entry(key).or_insert(value);
            }
        }
    }
}

/// Rights that were taken away come back; rights that were added stay.
fn repair_role(desired: &mut Object, wanted: &Object) {
    if let Some(aggregation) = wanted.0.get("aggregationRule") {
        desired.0.entry("aggregationRule").or_insert_with(|| aggregation.clone());
        return;
    }
    let held = rules(desired);
    let defaults = wanted.0.get("rules").and_then(Value::as_array).cloned().unwrap_or_default();
    let lost: Vec<Value> =
        defaults.into_iter().filter(|value| !Rule::all_covered(&held, std::slice::from_ref(&rule(value)))).collect();
    if lost.is_empty() {
        return;
    }
    match desired.0.get_mut("rules") {
        Some(Value::Array(own)) => own.extend(lost),
        _ => drop(desired.0.insert("rules".into(), lost.into())),
    }
}

fn repair_binding(desired: &mut Object, wanted: &Object) {
    let Some(Value::Array(defaults)) = wanted.0.get("subjects").cloned() else { return };
    let own = desired.0.entry("subjects").or_insert_with(|| json!([]));
    if let Value::Array(own) = own {
        let lost: Vec<Value> = defaults.into_iter().filter(|subject| !own.contains(subject)).collect();
        own.extend(lost);
    }
}
