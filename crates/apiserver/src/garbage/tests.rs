//! A collector moved by hand: what happens between two of its looks is up to the test.

use super::*;
use crate::{Options, definitions, describe, namespaces};
use auth::{Authenticator, Authorizer};
use serde_json::json;
use store::Store;

const WIDGETS: (&str, &str) = ("example.com", "widgets");
const MAPS: (&str, &str) = ("", "configmaps");
const SECRETS: (&str, &str) = ("", "secrets");
const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io", "customresourcedefinitions");

struct Rig {
    api: Api,
    collector: Collector,
}

impl Rig {
    async fn new() -> Self {
        let store = Store::memory(store::Options { describe: describe(), tick: None, ..store::Options::default() });
        let api =
            Api::new(store, Options::new(Authenticator::new(auth::Options::default()).unwrap(), Authorizer::new()));
        namespaces::ensure_system(&api.inner).await.unwrap();
        tokio::spawn(definitions::run(api.clone(), api.inner.stop.clone()));
        let mut rig = Rig { collector: Collector::new(api.clone()), api };
        rig.settle().await;
        rig
    }

    /// Everything the collector would do by itself.
    async fn settle(&mut self) {
        loop {
            self.collector.catch_up().await;
            let Some(work) = self.collector.todo.pop() else { return };
            assert!(self.collector.work(&work).await.unwrap(), "{work:?} is not done");
        }
    }

    fn kind(&self, (group, plural): (&str, &str)) -> Arc<Kind> {
        self.api.inner.kind(group, "v1", plural).unwrap()
    }

    async fn create(&self, what: (&str, &str), namespace: &str, object: Value) -> Object {
        let object = Object::from_value(object).unwrap();
        let (key, kind) = (object.name().to_owned(), self.kind(what));
        self.api.inner.create(&kind, namespace, object, &By::SERVER).await.unwrap();
        self.get(what, namespace, &key).unwrap()
    }

    fn get(&self, what: (&str, &str), namespace: &str, name: &str) -> Option<Object> {
        let kind = self.kind(what);
        let entry = self.api.inner.store.get(&kind.key(namespace, name))?;
        Some(self.api.inner.decode_stored(&kind, &entry.value, entry.revision).unwrap())
    }

    async fn delete(&self, what: (&str, &str), namespace: &str, name: &str, propagation: Propagation) {
        let options = DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() };
        self.api.inner.delete(&self.kind(what), namespace, name, &options).await.unwrap();
    }

    async fn define_widgets(&self) {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let body = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
        self.create(DEFINITIONS, "", body).await;
        self.api.inner.definitions.settled().await;
    }

    async fn drop_widgets(&self) {
        self.delete(DEFINITIONS, "", "widgets.example.com", Propagation::Background).await;
        while self.api.inner.kind("example.com", "v1", "widgets").is_some() {
            tokio::task::yield_now().await;
        }
    }

    async fn widget(&self, name: &str) -> Object {
        self.create(
            WIDGETS,
            "default",
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}}),
        )
        .await
    }

    /// A map that this object owns.
    async fn owned(&self, name: &str, owner: &Object) -> Key {
        let reference =
            json!({"apiVersion": owner.api_version(), "kind": owner.kind(), "name": owner.name(), "uid": owner.uid()});
        let metadata = json!({"name": name, "ownerReferences": [reference]});
        self.create(MAPS, "default", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).await;
        self.kind(MAPS).key("default", name)
    }

    async fn map(&self, name: &str) -> Object {
        self.create(MAPS, "default", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})).await
    }

    fn has(&self, name: &str) -> bool {
        self.get(MAPS, "default", name).is_some()
    }
}

#[tokio::test]
async fn an_owner_may_go_before_its_kind_is_followed() {
    let mut rig = Rig::new().await;
    rig.define_widgets().await;
    let owner = rig.widget("owner").await;
    let owned = rig.owned("owned", &owner).await;
    // Judged before the collector has heard of the kind: its owner is there, but that it goes will not be heard.
    rig.collector.take(&owned.collection);
    assert_eq!(rig.collector.todo.pop(), Some(Work::Dependent(owned.clone())));
    rig.collector.work(&Work::Dependent(owned)).await.unwrap();
    rig.delete(WIDGETS, "default", "owner", Propagation::Background).await;
    rig.settle().await;
    assert!(!rig.has("owned"));
}

#[tokio::test]
async fn what_instances_owned_goes_with_their_definition() {
    let mut rig = Rig::new().await;
    for round in ["first", "second"] {
        rig.define_widgets().await;
        rig.settle().await;
        let owner = rig.widget("owner").await;
        rig.owned("before", &owner).await;
        rig.settle().await;
        assert!(rig.has("before"), "{round}: its owner is there");
        // Not even seen by the collector until the definition is gone, and then after its owner went.
        rig.owned("unseen", &rig.widget("other").await).await;
        let widgets = rig.kind(WIDGETS).collection.clone();
        rig.drop_widgets().await;
        rig.collector.take(&widgets);
        rig.settle().await;
        assert!(!rig.has("before") && !rig.has("unseen"), "{round}");
        assert!(!rig.collector.followed.keys().any(|c| c.to_string().contains("widgets")), "nobody can change them");
    }
}

#[tokio::test]
async fn dependents_of_an_unknown_kind_are_judged_when_it_is_known() {
    let mut rig = Rig::new().await;
    let stranger =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "never", "uid": "was"}});
    rig.owned("owned", &Object::from_value(stranger).unwrap()).await;
    rig.settle().await;
    assert!(rig.has("owned"), "its owner cannot be judged");
    rig.define_widgets().await;
    rig.settle().await;
    assert!(!rig.has("owned"), "its owner is known not to be there");
    assert!(rig.collector.unjudged.is_empty());
}

#[tokio::test]
async fn owners_that_went_in_a_forgotten_history_are_missed() {
    let mut rig = Rig::new().await;
    let secret = |name: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
    let gone = rig.create(SECRETS, "default", secret("gone")).await;
    let there = rig.create(SECRETS, "default", secret("there")).await;
    rig.owned("orphan", &gone).await;
    rig.owned("owned", &there).await;
    rig.settle().await;
    rig.delete(SECRETS, "default", "gone", Propagation::Background).await;
    rig.api.inner.store.compact(rig.api.inner.store.revision()).await.unwrap();
    rig.settle().await;
    assert!(!rig.has("orphan") && rig.has("owned"));
    // It goes on from there.
    rig.delete(SECRETS, "default", "there", Propagation::Background).await;
    rig.settle().await;
    assert!(!rig.has("owned"));
}

#[tokio::test]
async fn dependents_made_a_moment_ago_are_set_free_with_the_others() {
    let mut rig = Rig::new().await;
    let owner = rig.map("owner").await;
    rig.owned("first", &owner).await;
    rig.settle().await;
    rig.owned("second", &owner).await;
    rig.delete(MAPS, "default", "owner", Propagation::Orphan).await;
    // As if the second had come while the first was set free.
    let work = Work::Owner(rig.kind(MAPS).key("default", "owner"));
    assert!(!rig.collector.work(&work).await.unwrap(), "somebody is still owned");
    rig.settle().await;
    assert!(!rig.has("owner"));
    for name in ["first", "second"] {
        assert_eq!(rig.get(MAPS, "default", name).map(|map| map.owners().count()), Some(0), "{name}");
    }
}

#[tokio::test]
async fn what_instances_own_stays_when_their_definition_comes_back() {
    let mut rig = Rig::new().await;
    rig.define_widgets().await;
    rig.settle().await;
    rig.drop_widgets().await;
    rig.settle().await;
    rig.define_widgets().await;
    let owned = rig.owned("owned", &rig.widget("owner").await).await;
    // Judged before the collector has heard that the kind is back.
    rig.collector.take(&owned.collection);
    rig.collector.work(&Work::Dependent(owned)).await.unwrap();
    assert!(rig.has("owned"));
    rig.settle().await;
    assert!(rig.has("owned"));
}
