//! All members: those the meta cluster declares and those of this process, each with a task of its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    pin::pin,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use futures_util::{StreamExt, future::join_all};
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ConfigMap, Secret as SecretObject},
};
use kube::{
    Api, Client, Resource,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    Care, Connection, Declared, Member, Refused,
    sources::{self, Origin, Sources},
};

/// Under which number members of this process stand among the sources.
const HERE: u8 = u8::MAX;

/// The members. Cheap to clone; they live as long as the last clone.
#[derive(Clone)]
pub struct Fleet(Arc<Inner>);

struct Inner {
    care: Care,
    /// Held while members are started and dropped too, so that two changes do not cross.
    sources: Mutex<Sources>,
    members: RwLock<BTreeMap<Arc<str>, Arc<Member>>>,
    changed: watch::Sender<u64>,
    /// Selectors whose objects were all read once.
    read: watch::Sender<usize>,
}

impl Fleet {
    /// An empty fleet.
    pub fn new(care: Care) -> Self {
        Fleet(Arc::new(Inner {
            care,
            sources: Mutex::default(),
            members: RwLock::default(),
            changed: watch::Sender::new(0),
            read: watch::Sender::new(0),
        }))
    }

    /// A member by its name.
    pub fn member(&self, name: &str) -> Option<Arc<Member>> {
        self.0.members.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// All members, by name.
    pub fn members(&self) -> Vec<Arc<Member>> {
        self.0.members.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Has a new value whenever a member came, went, or changed its labels. Their states are watched one by one.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// Objects that declare a member and cannot be used, with the reason.
    pub fn refusals(&self) -> Vec<(Origin, Refused)> {
        self.0.sources.lock().unwrap_or_else(PoisonError::into_inner).refusals()
    }

    /// A member of this process. One the meta cluster declares under the same name counts before it.
    pub fn declare(&self, name: &str, labels: BTreeMap<String, String>, connection: Connection) {
        let declared = Declared { name: name.into(), labels, connection };
        self.change(|sources| sources.put(HERE, Origin::Here(name.to_owned()), Ok(declared)));
    }

    /// Takes back what [`Fleet::declare`] said.
    pub fn withdraw(&self, name: &str) {
        self.change(|sources| sources.remove(HERE, &Origin::Here(name.to_owned())));
    }

    /// Follows the meta cluster's Secrets and ConfigMaps, in one namespace or all, until stopped.
    pub async fn follow(&self, meta: Client, namespace: Option<&str>, stop: CancellationToken) {
        let secrets: Api<SecretObject> = of_namespace(&meta, namespace);
        let maps: Api<ConfigMap> = of_namespace(&meta, namespace);
        let (of_secrets, of_maps) = (sources::SECRETS, sources::CONFIG_MAPS);
        let first = of_secrets.len() as u8;
        let secrets = join_all(
            (0u8..)
                .zip(of_secrets)
                .map(|(found, selector)| self.follow_one(found, secrets.clone(), selector, sources::from_secret)),
        );
        let maps = join_all(
            (first..)
                .zip(of_maps)
                .map(|(found, selector)| self.follow_one(found, maps.clone(), selector, sources::from_config_map)),
        );
        stop.run_until_cancelled(async { tokio::join!(secrets, maps) }).await;
    }

    /// Returns when everything [`Fleet::follow`] follows was read once.
    pub async fn read(&self) {
        let all = sources::SECRETS.len() + sources::CONFIG_MAPS.len();
        // The sender lives as long as we do.
        let _ = self.0.read.subscribe().wait_for(|read| *read >= all).await;
    }

    async fn follow_one<K>(
        &self,
        found: u8,
        api: Api<K>,
        selector: &str,
        declared: fn(&K) -> (Origin, Result<Declared, Refused>),
    ) where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let config = watcher::Config::default().labels(selector).page_size(100);
        let mut events = pin!(watcher::watcher(api, config).default_backoff());
        // What the list under way brought so far.
        let mut listed = Vec::new();
        let (mut first, mut failing) = (true, false);
        while let Some(event) = events.next().await {
            failing = match event {
                Ok(event) => {
                    match event {
                        Event::Init => listed.clear(),
                        Event::InitApply(object) => listed.push(declared(&object)),
                        Event::InitDone => {
                            let listed = std::mem::take(&mut listed);
                            let kept: BTreeSet<Origin> = listed.iter().map(|(origin, _)| origin.clone()).collect();
                            self.change(|sources| {
                                listed
                                    .into_iter()
                                    .for_each(|(origin, declared)| take(sources, found, origin, declared));
                                sources.retain(found, &kept);
                            });
                            if std::mem::take(&mut first) {
                                self.0.read.send_modify(|read| *read += 1);
                            }
                        }
                        Event::Apply(object) => {
                            let (origin, declared) = declared(&object);
                            self.change(|sources| take(sources, found, origin, declared));
                        }
                        Event::Delete(object) => {
                            let (origin, _) = declared(&object);
                            self.change(|sources| sources.remove(found, &origin));
                        }
                    }
                    false
                }
                Err(error) => {
                    if !failing {
                        tracing::warn!(%error, selector, "the meta cluster cannot be asked for members; trying again until it works");
                    }
                    true
                }
            };
        }
    }

    /// Changes what is declared, then makes it so.
    fn change(&self, change: impl FnOnce(&mut Sources)) {
        let mut sources = self.0.sources.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut sources);
        let wanted = sources.effective();
        let mut members = self.members_now();
        let mut changed = false;
        members.retain(|name, _| {
            let stays = wanted.contains_key(name);
            if !stays {
                tracing::info!(member = %name, "a member left the fleet");
            }
            changed |= !stays;
            stays
        });
        for (name, declared) in wanted {
            if let Some(member) = members.get(&name)
                && member.connection().is_same(&declared.connection)
            {
                if *member.labels() != declared.labels {
                    member.relabel(declared.labels);
                    changed = true;
                }
                continue;
            }
            match Member::start(declared, self.0.care) {
                Ok(member) => {
                    tracing::info!(member = %name, "a member joined the fleet");
                    members.insert(name, member);
                    changed = true;
                }
                Err(error) => tracing::error!(member = %name, %error, "no client can be made for this member"),
            }
        }
        if changed {
            *self.0.members.write().unwrap_or_else(PoisonError::into_inner) = members;
            self.0.changed.send_modify(|count| *count += 1);
        }
    }

    fn members_now(&self) -> BTreeMap<Arc<str>, Arc<Member>> {
        self.0.members.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn take(sources: &mut Sources, found: u8, origin: Origin, declared: Result<Declared, Refused>) {
    if let Err(refused) = &declared {
        tracing::warn!(%origin, %refused, "this object declares a member and cannot be used");
    }
    sources.put(found, origin, declared);
}

fn of_namespace<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn silent() -> Connection {
        Connection::through(testing::client(|_| std::future::pending()))
    }

    #[tokio::test]
    async fn members_come_change_and_go_while_the_others_stay() {
        // SYM-9
        let fleet = Fleet::new(Care::default());
        let changed = fleet.changed();
        let stays = silent();
        fleet.declare("a", BTreeMap::new(), stays.clone());
        fleet.declare("b", BTreeMap::new(), silent());
        let (a, b) = (fleet.member("a").unwrap(), fleet.member("b").unwrap());
        fleet.declare("a", BTreeMap::from([("zone".to_owned(), "z".to_owned())]), stays);
        fleet.declare("b", BTreeMap::new(), silent());
        assert!(Arc::ptr_eq(&a, &fleet.member("a").unwrap()), "new labels are no reason to connect anew");
        assert_eq!(a.labels()["zone"], "z");
        assert!(!Arc::ptr_eq(&b, &fleet.member("b").unwrap()), "another way to it is");
        fleet.withdraw("b");
        let names: Vec<Arc<str>> = fleet.members().iter().map(|member| member.name().clone()).collect();
        assert_eq!(names, ["a".into()]);
        assert_eq!(*changed.borrow(), 5);
    }
}
