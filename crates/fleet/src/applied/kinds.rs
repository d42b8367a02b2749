//! Where a member serves a kind, asked once per run.

use std::{collections::HashMap, time::Duration};

use kube::{
    Api, Client,
    core::{ApiResource, DynamicObject, GroupVersionKind},
    discovery::{self, Scope},
};
use tokio::time::{Instant, sleep};

use super::{AppliedError, Id};

/// How long a definition just applied may take to be served.
const SERVED_WITHIN: Duration = Duration::from_secs(15);

pub(super) struct Kinds {
    client: Client,
    /// `None`: the member does not serve it.
    known: HashMap<GroupVersionKind, Option<(ApiResource, bool)>>,
}

impl Kinds {
    pub(super) fn new(client: &Client) -> Self {
        Kinds { client: client.clone(), known: HashMap::new() }
    }

    /// How to speak to the object; `None` if the member does not serve its kind.
    pub(super) async fn api(&mut self, id: &Id) -> Result<Option<Api<DynamicObject>>, AppliedError> {
        let gvk = id.gvk();
        if !self.known.contains_key(&gvk) {
            let found = match discovery::pinned_kind(&self.client, &gvk).await {
                Ok((resource, capabilities)) => Some((resource, capabilities.scope == Scope::Namespaced)),
                Err(kube::Error::Api(status)) if status.code == 404 => None,
                Err(kube::Error::Discovery(_)) => None,
                Err(error) => return Err(error.into()),
            };
            self.known.insert(gvk.clone(), found);
        }
        let found = self.known.get(&gvk).and_then(Option::as_ref);
        Ok(found.map(|(resource, namespaced)| match &id.namespace {
            Some(namespace) if *namespaced => Api::namespaced_with(self.client.clone(), namespace, resource),
            None if *namespaced => Api::default_namespaced_with(self.client.clone(), resource),
            _ => Api::all_with(self.client.clone(), resource),
        }))
    }

    /// The same for an object to be made: a definition applied a moment ago may take one to be served.
    pub(super) async fn served(&mut self, id: &Id, expected: bool) -> Result<Api<DynamicObject>, AppliedError> {
        let until = Instant::now() + SERVED_WITHIN;
        loop {
            if let Some(api) = self.api(id).await? {
                return Ok(api);
            }
            self.known.remove(&id.gvk());
            if !expected || Instant::now() >= until {
                return Err(AppliedError::NoKind(format!("{}/{} {}", id.group, id.version, id.kind)));
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Whether the kind has namespaces, if it is served.
    pub(super) fn is_namespaced(&self, id: &Id) -> Option<bool> {
        self.known.get(&id.gvk())?.as_ref().map(|(_, namespaced)| *namespaced)
    }
}
