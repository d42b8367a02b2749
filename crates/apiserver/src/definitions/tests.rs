use super::*;
use proptest::prelude::*;
use serde_json::json;
use store::{Change, Expect, Key, Write};

fn definition(group: &str, plural: &str, kind: &str, short: &str) -> Object {
    let names = json!({"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List"), "shortNames": [short]});
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    Object::from_value(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}"), "uid": plural},
        "spec": {"group": group, "scope": "Namespaced", "names": names,
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}}))
    .unwrap()
}

struct Rig {
    store: Store,
    known: Known,
    registry: Registry,
    stop: CancellationToken,
}

impl Rig {
    fn new() -> Self {
        let (store, known) = (Store::memory(store::Options::default()), Known::default());
        Self { store, known, registry: Registry::builtin(), stop: CancellationToken::new() }
    }

    fn key(name: &str) -> Key {
        let kind = definition_kind(&Registry::builtin()).unwrap();
        kind.key("", name)
    }

    async fn put(&self, object: &Object) {
        let change = Change::Put { value: object.encode().into(), attrs: Arc::default() };
        let write = Write::new(Self::key(object.name()), Expect::Anything, change);
        self.store.write(write).await.unwrap();
    }

    async fn remove(&self, name: &str) {
        let write = Write::new(Self::key(name), Expect::Anything, Change::Delete);
        let _ = self.store.write(write).await;
    }

    /// Looks and writes down what was decided, until there is nothing left to decide.
    async fn settle(&mut self) {
        for _ in 0..LOOKS {
            let seen = self.known.look(&self.store, &self.registry, &self.stop, "now");
            if seen.decided.is_empty() {
                return;
            }
            for decided in seen.decided {
                self.put(&decided.object).await;
            }
        }
        panic!("never settles");
    }

    fn served(&self) -> Vec<String> {
        let registry = self.registry.with(&self.known.all());
        registry.kinds().iter().filter(|k| k.custom.is_some()).map(|k| k.plural.clone()).collect()
    }
}

#[tokio::test]
async fn a_stored_definition_is_decided_and_then_left_alone() {
    let mut rig = Rig::new();
    rig.put(&definition("example.com", "widgets", "Widget", "wd")).await;
    rig.settle().await;
    assert_eq!(rig.served(), ["widgets"]);
    let first = rig.known.by_name["widgets.example.com"].clone();
    let seen = rig.known.look(&rig.store, &rig.registry, &rig.stop, "later");
    assert!(!seen.changed && seen.decided.is_empty());
    assert!(Arc::ptr_eq(&first, &rig.known.by_name["widgets.example.com"]), "unchanged definitions are not made again");
}

#[tokio::test]
async fn what_could_not_be_written_down_is_decided_again() {
    let mut rig = Rig::new();
    rig.put(&definition("example.com", "widgets", "Widget", "wd")).await;
    for _ in 0..2 {
        let seen = rig.known.look(&rig.store, &rig.registry, &rig.stop, "now");
        assert_eq!(seen.decided.len(), 1);
        assert_eq!(rig.served(), ["widgets"], "served all the same");
    }
}

#[tokio::test]
async fn names_of_built_in_kinds_are_taken() {
    let mut rig = Rig::new();
    rig.put(&definition("coordination.k8s.io", "leases", "Lease", "ls")).await;
    rig.settle().await;
    assert_eq!(rig.served(), Vec::<String>::new());
    let collection = store::Collection::new("coordination.k8s.io/leases");
    let registry = rig.registry.with(&rig.known.all());
    assert!(registry.stored_in(&collection).unwrap().custom.is_none());
}

#[tokio::test]
async fn a_change_of_the_schema_alone_gives_a_new_shape() {
    let mut rig = Rig::new();
    let mut object = definition("example.com", "widgets", "Widget", "wd");
    rig.put(&object).await;
    rig.settle().await;
    let before = rig.known.by_name["widgets.example.com"].clone();
    let stored = parse(&rig.store.get(&Rig::key(object.name())).unwrap()).unwrap();
    object.0.insert("status".into(), stored.0["status"].clone());
    object.set_meta("resourceVersion", "");
    object.meta_mut().insert("labels".into(), json!({"a": "b"}));
    rig.put(&object).await;
    assert!(!rig.known.look(&rig.store, &rig.registry, &rig.stop, "now").changed, "labels change nothing");
    object.0["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"type": "object"});
    rig.put(&object).await;
    assert!(rig.known.look(&rig.store, &rig.registry, &rig.stop, "now").changed);
    let after = &rig.known.by_name["widgets.example.com"];
    before.retire(Some(after));
    let custom = |d: &Definition| d.stored.custom.as_ref().unwrap().retired.is_cancelled();
    assert!(custom(&before) && !custom(after), "watches of the old schema end, of the new one do not");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    /// Whatever comes and goes, no name is ever held by two, and a served definition has its kind to itself.
    #[test]
    fn no_name_is_held_twice(steps in prop::collection::vec((0..4usize, 0..3usize, 0..3usize, any::<bool>()), 1..24)) {
        let plurals = ["apples", "pears", "plums", "figs"];
        let kinds = ["Apple", "Pear", "Plum"];
        let shorts = ["a", "p", "pl"];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut rig = Rig::new();
            for (plural, kind, short, gone) in steps {
                let object = definition("example.com", plurals[plural], kinds[kind], shorts[short]);
                if gone {
                    rig.remove(object.name()).await;
                } else if rig.store.get(&Rig::key(object.name())).is_none() {
                    rig.put(&object).await;
                }
                rig.settle().await;
                let mut held = HashSet::new();
                for definition in rig.known.by_name.values() {
                    let names = &definition.names;
                    let own: HashSet<&String> = names.short.iter().chain([&names.plural, &names.singular]).filter(|n| !n.is_empty()).collect();
                    for name in own {
                        assert!(held.insert(format!("r {name}")), "{name} is held twice");
                    }
                    if !names.kind.is_empty() {
                        assert!(held.insert(format!("k {}", names.kind)), "{} is held twice", names.kind);
                    }
                    assert!(!definition.is_served() || !names.kind.is_empty());
                }
            }
        });
    }
}
