//! For programs in the server's own process that are part of the cluster, such as its controllers: objects by the same rules, without
//! a request around them. Nobody is asked whether they may, and what they write is nobody's (`managedFields` stays as it is).

use crate::kinds::Kind;
use crate::objects::{Part, Stored};
use crate::{Api, Inner};
use meta::options::DeleteOptions;
use meta::{Object, Status};
use std::sync::Arc;
use store::{Collection, Entry, Range, Store};

impl Api {
    /// What all reads are answered from.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// A built-in resource, if it is served.
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<Resource> {
        let kind = self.inner.kind(group, version, plural)?;
        Some(Resource { api: Arc::clone(&self.inner), kind })
    }
}

/// All objects of one kind, for whoever is trusted with them.
#[derive(Clone)]
pub struct Resource {
    api: Arc<Inner>,
    kind: Arc<Kind>,
}

impl Resource {
    pub fn kind(&self) -> &str {
        &self.kind.kind
    }

    pub fn api_version(&self) -> String {
        self.kind.api_version()
    }

    /// Where the store keeps them; its watches tell what happens to them.
    pub fn collection(&self) -> &Collection {
        &self.kind.collection
    }

    pub fn get(&self, namespace: &str, name: &str) -> Option<Object> {
        self.decode(&self.api.store.get(&self.kind.key(namespace, name))?)
    }

    /// An object as it is served; nothing when what is stored is damaged.
    pub fn decode(&self, entry: &Entry) -> Option<Object> {
        self.api.decode_stored(&self.kind, &entry.value, entry.revision).ok()
    }

    /// Those of a namespace (of all with `""`) that `wanted` picks by what the store knows of them; only they are decoded.
    pub fn list(&self, namespace: &str, mut wanted: impl FnMut(&Entry) -> bool) -> Vec<Object> {
        let prefix = self.kind.prefix(namespace);
        let range = Range { collection: &self.kind.collection, prefix: &prefix, after: None, limit: 0, at: None };
        let page = self.api.store.range(&range, |_, entry| wanted(entry)).map(|page| page.items).unwrap_or_default();
        page.iter().filter_map(|(_, entry)| self.decode(entry)).collect()
    }

    pub async fn create(&self, namespace: &str, object: Object) -> Result<Object, Status> {
        let stored = self.api.insert(&self.kind, namespace, object, false, |_| Vec::new()).await?;
        self.served(&stored)
    }

    /// Changes all but the status. `change` runs again when somebody else was faster; what it does not change is not written.
    pub async fn update(&self, namespace: &str, name: &str, change: impl Fn(&mut Object)) -> Result<Object, Status> {
        let change = |current: &Object, _: &[u8]| {
            let mut desired = current.clone();
            change(&mut desired);
            Ok((desired, None))
        };
        let stored = self.api.rewrite(&self.kind, namespace, name, Part::Main, false, change).await?;
        self.served(&stored)
    }

    /// Changes anything, unchecked: the status, and what only the cluster itself decides.
    pub async fn set(&self, namespace: &str, name: &str, change: impl Fn(&mut Object)) -> Result<(), Status> {
        let change = |object: &mut Object| {
            change(object);
            Ok(())
        };
        self.api.modify(&self.kind, namespace, name, false, change).await.map(drop)
    }

    pub async fn delete(&self, namespace: &str, name: &str, options: &DeleteOptions) -> Result<(), Status> {
        self.api.delete(&self.kind, namespace, name, options).await.map(drop)
    }

    fn served(&self, stored: &Stored) -> Result<Object, Status> {
        self.api.decode_stored(&self.kind, &stored.value, stored.revision)
    }
}
