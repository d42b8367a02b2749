//! The policy as the store has it: an index that catches up with the RBAC collections before it answers.
//!
//! A write is visible in the store's tree before it is acknowledged, and whoever asks takes what is visible first, so a request sees
//! every grant and every revocation acknowledged before it. When nothing changed, looking costs four loads.

use super::RBAC;
use auth::{Policy, PolicySource, RoleRef, Rule, Subject};
use meta::Object;
use serde_json::Value;
use std::sync::{Arc, PoisonError, RwLock};
use store::{Collection, Entry, Event, Range, Store, Watch};

const PLURALS: [&str; 4] = ["clusterroles", "roles", "clusterrolebindings", "rolebindings"];
/// Events taken at once.
const BATCH: usize = 1024;

pub(super) struct Follower {
    store: Store,
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    policy: Policy,
    /// One cursor per collection; none when everything must be read anew.
    watches: Vec<Watch>,
}

impl Follower {
    pub fn new(store: Store) -> Self {
        Self { store, state: RwLock::default() }
    }
}

impl PolicySource for Follower {
    fn read(&self, with: &mut dyn FnMut(&Policy)) {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if !state.is_behind() {
            return with(&state.policy);
        }
        drop(state);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.catch_up(&self.store);
        with(&state.policy);
    }
}

impl State {
    fn is_behind(&self) -> bool {
        self.watches.is_empty() || self.watches.iter().any(Watch::is_behind)
    }

    fn catch_up(&mut self, store: &Store) {
        if self.take_events().is_err() || self.watches.is_empty() {
            self.read_anew(store);
        }
    }

    fn take_events(&mut self) -> store::Result<()> {
        let mut events: Vec<Arc<Event>> = Vec::new();
        for watch in &mut self.watches {
            loop {
                events.clear();
                watch.take(BATCH, &mut events)?;
                if events.is_empty() {
                    break;
                }
                for event in &events {
                    apply(&mut self.policy, &event.key.collection, &event.key.item, event.entry.as_ref());
                }
            }
        }
        Ok(())
    }

    /// Without a readable store nobody but `system:masters` has rights.
    fn read_anew(&mut self, store: &Store) {
        *self = State::default();
        for plural in PLURALS {
            let collection = Collection::new(&format!("{RBAC}/{plural}"));
            let range = Range { collection: &collection, prefix: "", after: None, limit: 0, at: None };
            let followed = store
                .range(&range, |_, _| true)
                .and_then(|page| Ok((store.watch(&collection, "", page.revision)?, page)));
            match followed {
                Ok((watch, page)) => {
                    for (item, entry) in &page.items {
                        apply(&mut self.policy, &collection, item, Some(entry));
                    }
                    self.watches.push(watch);
                }
                Err(error) => {
                    tracing::error!(%error, "the access rules could not be read");
                    *self = State::default();
                    return;
                }
            }
        }
    }
}

fn apply(policy: &mut Policy, collection: &Collection, item: &str, entry: Option<&Entry>) {
    let (namespace, name) = item.split_once('/').unwrap_or(("", item));
    let object = entry.and_then(|entry| Object::from_value(meta::json::parse(&entry.value).ok()?.value));
    let is_role = matches!(collection.as_str().rsplit('/').next(), Some("roles" | "clusterroles"));
    match (object, is_role) {
        (Some(role), true) => policy.set_role(RoleRef::new(namespace, name), rules(&role)),
        (None, true) => policy.remove_role(&RoleRef::new(namespace, name)),
        (Some(binding), false) => match role_ref(&binding, namespace) {
            Some(role) => policy.set_binding(namespace, name, role, subjects(&binding)),
            None => policy.remove_binding(namespace, name),
        },
        (None, false) => policy.remove_binding(namespace, name),
    }
}

fn list<'a>(object: &'a Object, key: &str) -> impl Iterator<Item = &'a Value> {
    object.0.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// The rules a Role or ClusterRole states.
pub(super) fn rules(role: &Object) -> Vec<Rule> {
    list(role, "rules").map(rule).collect()
}

pub(super) fn rule(value: &Value) -> Rule {
    let texts = |key: &str| {
        let list = value.get(key).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    Rule {
        verbs: texts("verbs"),
        api_groups: texts("apiGroups"),
        resources: texts("resources"),
        resource_names: texts("resourceNames"),
        non_resource_urls: texts("nonResourceURLs"),
    }
}

/// The role a binding in `namespace` names; none when it cannot be one.
pub(super) fn role_ref(binding: &Object, namespace: &str) -> Option<RoleRef> {
    let text = |key: &str| binding.0.get("roleRef")?.get(key)?.as_str();
    match (text("kind")?, text("name")?) {
        ("ClusterRole", name) => Some(RoleRef::new("", name)),
        ("Role", name) if !namespace.is_empty() => Some(RoleRef::new(namespace, name)),
        _ => None,
    }
}

fn subjects(binding: &Object) -> Vec<Subject> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    list(binding, "subjects")
        .filter_map(|subject| match text(subject, "kind").as_str() {
            "User" => Some(Subject::User(text(subject, "name"))),
            "Group" => Some(Subject::Group(text(subject, "name"))),
            "ServiceAccount" => {
                Some(Subject::ServiceAccount { namespace: text(subject, "namespace"), name: text(subject, "name") })
            }
            _ => None,
        })
        .collect()
}
