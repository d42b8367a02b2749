//! A server that hears of the other's writes only when it asks: nobody is refused for what it has not heard of yet.

use super::*;
use crate::{Api, Options, describe, namespaces};
use auth::{Authenticator, Authorizer};
use meta::Reason;
use meta::options::DeleteOptions;
use serde_json::json;
use std::path::Path;
use store::{BackupInfo, Change, Engine, Fed, Future, Health, KeyId, Range, Revision, Store, Tree, Write, Written};

/// Writes where the other server does, and lets its own tree catch up only after a write of its own or when asked to.
struct Late {
    truth: Store,
    tree: Arc<Tree>,
}

impl Late {
    fn catch_up(&self) -> store::Result<Revision> {
        let mut changes = Vec::new();
        let revision = self.truth.revision();
        for collection in self.truth.collections().into_iter().chain(self.tree.collections()) {
            let all = Range { collection: &collection, prefix: "", after: None, limit: 0, at: None };
            let key = |item: &Arc<str>| Key { collection: collection.clone(), item: item.clone() };
            for (item, entry) in self.truth.range(&all, |_, _| true)?.items {
                let known = self.tree.get(&key(&item)).map(|known| known.revision);
                if known != Some(entry.revision) && !changes.iter().any(|c: &Fed| c.key == key(&item)) {
                    let change = Change::Put { value: entry.value, attrs: entry.attrs };
                    changes.push(Fed { revision: entry.revision, key: key(&item), change });
                }
            }
            for (item, _) in self.tree.range(&all, |_, _| true)?.items {
                if self.truth.get(&key(&item)).is_none() && !changes.iter().any(|c| c.key == key(&item)) {
                    changes.push(Fed { revision, key: key(&item), change: Change::Delete });
                }
            }
        }
        changes.sort_by_key(|change| change.revision);
        self.tree.feed(changes, revision);
        Ok(revision)
    }
}

impl Engine for Late {
    fn write(&self, write: Write) -> Future<'_, store::Result<Written>> {
        Box::pin(async move {
            let outcome = self.truth.write(write).await;
            self.catch_up()?;
            outcome
        })
    }
    fn sync(&self) -> Future<'_, store::Result<Revision>> {
        Box::pin(async { self.catch_up() })
    }
    fn compact(&self, _: Revision) -> Future<'_, store::Result<()>> {
        Box::pin(async { Ok(()) })
    }
    fn backup<'a>(&'a self, _: &'a Path) -> Future<'a, store::Result<BackupInfo>> {
        Box::pin(async { Err(store::Error::Closed) })
    }
    fn reseal(&self) -> Future<'_, store::Result<KeyId>> {
        Box::pin(async { Err(store::Error::Closed) })
    }
    fn tend(&self) -> Future<'_, store::Result<()>> {
        Box::pin(async { Ok(()) })
    }
    fn health(&self) -> Health {
        Health::Ok
    }
    fn shutdown(&self) -> Future<'_, ()> {
        Box::pin(async {})
    }
}

fn server(store: Store) -> Api {
    Api::new(store, Options::new(Authenticator::new(auth::Options::default()).unwrap(), Authorizer::new()))
}

/// The one that knows, and the one that learns late.
async fn servers() -> [Api; 2] {
    let truth = Store::memory(store::Options { describe: describe(), tick: None, ..store::Options::default() });
    let tree = Arc::new(Tree::new());
    let late = Store::with_engine(tree.clone(), Arc::new(Late { truth: truth.clone(), tree }));
    let servers = [server(truth), server(late)];
    namespaces::ensure_system(&servers[0].inner).await.unwrap();
    servers[1].inner.store.sync().await.unwrap();
    servers
}

fn map(name: &str, value: &str) -> Object {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": value}});
    Object::from_value(object).unwrap()
}

async fn create(api: &Api, plural: &str, namespace: &str, object: Object) -> Result<Object, Status> {
    let kind = api.inner.kind("", "v1", plural).unwrap();
    let stored = api.inner.create(&kind, namespace, object, &By::SERVER).await?;
    api.inner.decode_stored(&kind, &stored.value, stored.revision)
}

async fn update(api: &Api, object: &Object) -> Result<Object, Status> {
    let kind = api.inner.kind("", "v1", "configmaps").unwrap();
    let change = |_: &Object| Ok(object.clone());
    let stored = api.inner.update(&kind, "default", object.name(), Part::Main, &By::SERVER, change).await?;
    api.inner.decode_stored(&kind, &stored.value, stored.revision)
}

async fn delete(api: &Api, name: &str, version: &str) -> Result<(), Status> {
    let kind = api.inner.kind("", "v1", "configmaps").unwrap();
    let options = DeleteOptions { resource_version: Some(version.to_owned()), ..DeleteOptions::default() };
    api.inner.delete(&kind, "default", name, &options).await.map(drop)
}

fn with(object: &Object, value: &str) -> Object {
    let mut changed = object.clone();
    changed.0.insert("data".into(), json!({"k": value}));
    changed
}

/// What the late one has of it, without asking.
fn seen(api: &Api, name: &str) -> Option<String> {
    let kind = api.inner.kind("", "v1", "configmaps").unwrap();
    let entry = api.inner.store.get(&kind.key("default", name))?;
    let object = api.inner.decode_stored(&kind, &entry.value, entry.revision).unwrap();
    object.0["data"]["k"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn what_another_server_was_told_can_be_built_on_at_once() {
    let [knows, late] = servers().await;
    let made = create(&knows, "configmaps", "default", map("m", "1")).await.unwrap();
    assert_eq!(seen(&late, "m"), None);
    let changed = update(&late, &with(&made, "2")).await.unwrap();
    let changed = update(&knows, &with(&changed, "3")).await.unwrap();
    assert_eq!(seen(&late, "m").as_deref(), Some("2"));
    update(&late, &with(&changed, "4")).await.unwrap();

    // To the late one it looks as if nothing were to be done.
    update(&knows, &map("m", "5")).await.unwrap();
    assert_eq!(seen(&late, "m").as_deref(), Some("4"));
    update(&late, &map("m", "4")).await.unwrap();
    assert_eq!(seen(&knows, "m").as_deref(), Some("4"));

    let last = update(&knows, &map("m", "6")).await.unwrap();
    assert_eq!(seen(&late, "m").as_deref(), Some("4"));
    delete(&late, "m", last.resource_version()).await.unwrap();
    assert_eq!(seen(&knows, "m"), None);

    let namespace = Object::from_value(json!({"metadata": {"name": "new"}})).unwrap();
    create(&knows, "namespaces", "", namespace).await.unwrap();
    create(&late, "configmaps", "new", map("first", "1")).await.unwrap();
}

#[tokio::test]
async fn what_is_wrong_stays_wrong() {
    let [knows, late] = servers().await;
    let made = create(&knows, "configmaps", "default", map("m", "1")).await.unwrap();
    update(&knows, &map("m", "2")).await.unwrap();
    assert_eq!(update(&late, &with(&made, "3")).await.unwrap_err().reason, Reason::Conflict);
    update(&knows, &map("m", "3")).await.unwrap();
    assert_eq!(delete(&late, "m", made.resource_version()).await.unwrap_err().reason, Reason::Conflict);
    assert_eq!(update(&late, &map("other", "1")).await.unwrap_err().reason, Reason::NotFound);
    let lost = create(&late, "configmaps", "nowhere", map("m", "1")).await;
    assert_eq!(lost.unwrap_err().reason, Reason::NotFound);
    assert_eq!(seen(&knows, "m").as_deref(), Some("3"));
}
