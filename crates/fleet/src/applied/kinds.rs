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
    known: HashMap<GroupVersionKind, Option<Place>>,
    /// By group and kind, in whatever version is served.
    any: HashMap<(String, String), Option<Place>>,
}

/// Where a kind is served, and whether it has namespaces.
type Place = (ApiResource, bool);

impl Kinds {
    pub(super) fn new(client: &Client) -> Self {
        Kinds { client: client.clone(), known: HashMap::new(), any: HashMap::new() }
    }

    /// How to speak to the object in its version; `None` if the member does not serve that.
    pub(super) async fn api(&mut self, id: &Id) -> Result<Option<Api<DynamicObject>>, AppliedError> {
        let gvk = id.gvk();
        if !self.known.contains_key(&gvk) {
            let found = served(discovery::pinned_kind(&self.client, &gvk).await)?;
            let found = found.map(|(resource, capabilities)| (resource, capabilities.scope == Scope::Namespaced));
            self.known.insert(gvk.clone(), found);
        }
        let found = self.known.get(&gvk).and_then(Option::as_ref);
        Ok(found.map(|place| self.speak(place, id)))
    }

    /// The same in any version: an object does not go away when the version it was made in does.
    pub(super) async fn any(&mut self, id: &Id) -> Result<Option<Api<DynamicObject>>, AppliedError> {
        if let Some(api) = self.api(id).await? {
            return Ok(Some(api));
        }
        let key = (id.group.clone(), id.kind.clone());
        if !self.any.contains_key(&key) {
            let group = served(discovery::group(&self.client, &id.group).await)?;
            let found = group.and_then(|group| {
                let mut all = group.versions().flat_map(|version| group.versioned_resources(version));
                all.find(|(resource, _)| resource.kind == id.kind)
            });
            let found = found.map(|(resource, capabilities)| (resource, capabilities.scope == Scope::Namespaced));
            self.any.insert(key.clone(), found);
        }
        let found = self.any.get(&key).and_then(Option::as_ref);
        Ok(found.map(|place| self.speak(place, id)))
    }

    fn speak(&self, (resource, namespaced): &Place, id: &Id) -> Api<DynamicObject> {
        match &id.namespace {
            Some(namespace) if *namespaced => Api::namespaced_with(self.client.clone(), namespace, resource),
            None if *namespaced => Api::default_namespaced_with(self.client.clone(), resource),
            _ => Api::all_with(self.client.clone(), resource),
        }
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

/// What was found, or that there is nothing to find; an answer that could not be had is an error, never a "no".
fn served<T>(found: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(kube::Error::Discovery(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
