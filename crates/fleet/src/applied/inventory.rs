//! What an owner has on a member, written down there.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, PostParams, Preconditions},
};
use serde_json::json;

use super::{AppliedError, Id, Owner};

const NAMESPACE: &str = "muster-system";
const LABEL: &str = "muster.dev/inventory";
/// A ConfigMap holds 1 MiB; a line is some eighty bytes.
const MOST: usize = 8000;

/// An inventory as it was read: whoever writes must have read what is there.
pub(super) struct Inventory {
    api: Api<ConfigMap>,
    client: Client,
    name: String,
    owner: Owner,
    /// The object as it is on the member.
    found: Option<ConfigMap>,
    pub ids: BTreeSet<Id>,
}

impl Inventory {
    pub(super) async fn read(client: &Client, owner: &Owner) -> Result<Self, AppliedError> {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
        let name = format!("muster-applied-{}", owner.label());
        let found = api.get_opt(&name).await?;
        let text = found.as_ref().and_then(|map| map.data.as_ref()?.get("objects")).cloned().unwrap_or_default();
        let mut ids = BTreeSet::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            let id = Id::parse(line);
            ids.insert(id.ok_or_else(|| AppliedError::Inventory(name.clone(), "a line is no object".to_owned()))?);
        }
        Ok(Inventory { api, client: client.clone(), name, owner: owner.clone(), found, ids })
    }

    /// Writes it, if nobody else did since it was read. An empty one is deleted.
    pub(super) async fn write(&mut self, ids: BTreeSet<Id>) -> Result<(), AppliedError> {
        if ids.len() > MOST {
            return Err(AppliedError::TooMany(ids.len(), MOST));
        }
        let crossed = |error: kube::Error| match &error {
            kube::Error::Api(status) if status.code == 409 => AppliedError::Crossed,
            _ => AppliedError::Api(error),
        };
        let objects: String = ids.iter().map(|id| id.line() + "\n").collect();
        self.found = match self.found.take() {
            None if ids.is_empty() => None,
            Some(found) if ids.is_empty() => {
                let only = Preconditions { uid: found.uid(), resource_version: found.resource_version() };
                let parameters = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
                match self.api.delete(&self.name, &parameters).await {
                    Ok(_) => None,
                    Err(kube::Error::Api(status)) if status.code == 404 => None,
                    Err(error) => return Err(crossed(error)),
                }
            }
            Some(mut found) => {
                found.data.get_or_insert_default().insert("objects".to_owned(), objects);
                // Guarded by the resourceVersion it carries.
                Some(self.api.replace(&self.name, &PostParams::default(), &found).await.map_err(crossed)?)
            }
            None => {
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": self.name, "labels": {LABEL: "true"}},
                    "data": {"owner": self.owner.to_string(), "objects": objects}});
                let map: ConfigMap = serde_json::from_value(map).map_err(kube::Error::SerdeError)?;
                Some(self.create(&map).await.map_err(crossed)?)
            }
        };
        self.ids = ids;
        Ok(())
    }

    async fn create(&self, map: &ConfigMap) -> Result<ConfigMap, kube::Error> {
        match self.api.create(&PostParams::default(), map).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            done => return done,
        }
        // The first set on this member.
        let namespace = json!({"metadata": {"name": NAMESPACE}});
        let namespace: Namespace = serde_json::from_value(namespace).map_err(kube::Error::SerdeError)?;
        match Api::<Namespace>::all(self.client.clone()).create(&PostParams::default(), &namespace).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error),
        }
        self.api.create(&PostParams::default(), map).await
    }
}
