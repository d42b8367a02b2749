//! All members: those the meta cluster declares and those of this process, each with a task of its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    future::Future,
    pin::pin,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
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
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Care, Connection, Declared, Member, Refusals,
    sources::{self, Origin, Sources},
    words,
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
    /// An empty fleet. Members are tasks: to be used within a tokio runtime.
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

    /// The object that declares a member.
    pub fn origin(&self, name: &str) -> Option<Origin> {
        self.0.sources.lock().unwrap_or_else(PoisonError::into_inner).origin(name).cloned()
    }

    /// Objects that declare a member and cannot be used, with the reason.
    pub fn refusals(&self) -> Vec<(Origin, Refusals)> {
        self.0.sources.lock().unwrap_or_else(PoisonError::into_inner).refusals()
    }

    /// A member of this process. One the meta cluster declares under the same name counts before it.
    pub fn declare(&self, name: &str, labels: BTreeMap<String, String>, connection: Connection) {
        let declared = Declared { name: name.into(), labels, connection };
        self.change(|sources| {
            sources.put(HERE, Origin::Here(name.to_owned()), Ok(declared));
            BTreeSet::from([name.to_owned()])
        });
    }

    /// Takes back what [`Fleet::declare`] said.
    pub fn withdraw(&self, name: &str) {
        self.change(|sources| {
            sources.remove(HERE, &Origin::Here(name.to_owned()));
            BTreeSet::from([name.to_owned()])
        });
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
        declared: fn(&K) -> (Origin, Result<Declared, Refusals>),
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
                            self.change(|sources| {
                                let mut stale = sources.under(found);
                                let mut names = BTreeSet::new();
                                for (origin, declared) in listed {
                                    stale.remove(&origin);
                                    names.insert(take(sources, found, origin, declared));
                                }
                                // What the list did not bring is gone.
                                for origin in stale {
                                    sources.remove(found, &origin);
                                    names.insert(origin.member().to_owned());
                                }
                                names
                            });
                            if std::mem::take(&mut first) {
                                self.0.read.send_modify(|read| *read += 1);
                            }
                        }
                        Event::Apply(object) => {
                            let (origin, declared) = declared(&object);
                            self.change(|sources| BTreeSet::from([take(sources, found, origin, declared)]));
                        }
                        Event::Delete(object) => {
                            let (origin, _) = declared(&object);
                            self.change(|sources| {
                                sources.remove(found, &origin);
                                BTreeSet::from([origin.member().to_owned()])
                            });
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

    /// Asks every member that `wanted` picks the same, all at once. Whoever has not answered at the deadline is named with the
    /// reason; nobody waits for it any longer.
    pub async fn ask<T, F>(
        &self,
        wanted: impl Fn(&Member) -> bool,
        deadline: Duration,
        question: impl Fn(Arc<Member>) -> F,
    ) -> Vec<(Arc<Member>, Result<T, String>)>
    where
        F: Future<Output = Result<T, kube::Error>>,
    {
        let until = Instant::now() + deadline;
        let asked = self.members().into_iter().filter(|member| wanted(member)).map(|member| {
            let answer = question(member.clone());
            async move {
                let answer = match timeout_at(until, answer).await {
                    Ok(answer) => answer.map_err(|error| words(&error)),
                    Err(_) => Err(format!("no answer within {deadline:?}")),
                };
                (member, answer)
            }
        });
        join_all(asked).await
    }

    /// Changes what is declared and makes it so for the members whose names the change gives back.
    fn change(&self, change: impl FnOnce(&mut Sources) -> BTreeSet<String>) {
        let mut sources = self.0.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = false;
        for name in change(&mut sources) {
            changed |= self.settle(&name, sources.effective(&name));
        }
        if changed {
            self.0.changed.send_modify(|count| *count += 1);
        }
    }

    /// Makes one member what it is wanted to be. Says whether anything changed.
    fn settle(&self, name: &str, wanted: Option<&Declared>) -> bool {
        let write = || self.0.members.write().unwrap_or_else(PoisonError::into_inner);
        let Some(wanted) = wanted else {
            let gone = write().remove(name);
            if let Some(member) = &gone {
                tracing::info!(member = name, "a member left the fleet");
                member.leave();
            }
            return gone.is_some();
        };
        if let Some(member) = self.member(name)
            && member.connection().is_same(&wanted.connection)
        {
            let new = *member.labels() != wanted.labels;
            if new {
                member.relabel(wanted.labels.clone());
            }
            return new;
        }
        match Member::start(wanted.clone(), self.0.care) {
            Ok(member) => {
                tracing::info!(member = name, "a member joined the fleet");
                let before = write().insert(name.into(), member);
                if let Some(before) = before {
                    before.leave();
                }
                true
            }
            Err(error) => {
                tracing::error!(member = name, %error, "no client can be made for this member");
                false
            }
        }
    }
}

/// Takes in what an object says. Gives back the name it is about.
fn take(sources: &mut Sources, found: u8, origin: Origin, declared: Result<Declared, Refusals>) -> String {
    if let Err(refused) = &declared {
        tracing::warn!(%origin, %refused, "this object declares a member and cannot be used");
    }
    let name = origin.member().to_owned();
    sources.put(found, origin, declared);
    name
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
        let error = b.client().apiserver_version().await.unwrap_err();
        assert_eq!(words(&error), "b left the fleet, or was declared anew; look it up again");
        let names: Vec<Arc<str>> = fleet.members().iter().map(|member| member.name().clone()).collect();
        assert_eq!(names, ["a".into()]);
        assert_eq!(*changed.borrow(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn all_are_asked_at_once_and_the_silent_are_named() {
        // SYM-13
        let fleet = Fleet::new(Care::default());
        let well = || testing::client(|_| async { testing::json(200, &serde_json::json!({"gitVersion": "v1"})) });
        for name in ["a", "c"] {
            fleet.declare(name, BTreeMap::new(), Connection::through(well()));
        }
        fleet.declare("b", BTreeMap::new(), silent());
        let start = Instant::now();
        let answers = fleet
            .ask(
                |member| &**member.name() != "c",
                Duration::from_secs(2),
                |member| async move {
                    let request = http::Request::get("/version").body(Vec::new()).map_err(kube::Error::HttpError)?;
                    member.client().request_text(request).await
                },
            )
            .await;
        assert_eq!(start.elapsed(), Duration::from_secs(2));
        let said: Vec<(&str, bool)> =
            answers.iter().map(|(member, answer)| (&**member.name(), answer.is_ok())).collect();
        assert_eq!(said, [("a", true), ("b", false)]);
        assert_eq!(answers[1].1.as_ref().unwrap_err(), "no answer within 2s");
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_later_list_does_not_bring_is_gone() {
        // SYM-9
        fn secret(name: &str) -> serde_json::Value {
            // http://127.0.0.1:1 and t
            let data = serde_json::json!({"server": "aHR0cDovLzEyNy4wLjAuMTox", "token": "dA=="});
            serde_json::json!({"metadata": {"name": name, "namespace": "n", "resourceVersion": "1"}, "data": data})
        }
        let first = Arc::new(Mutex::new(Some(vec![secret("a"), secret("b")])));
        let meta = testing::client(move |request| {
            let watch = request.uri().query().unwrap_or_default().contains("watch=true");
            let secrets = request.uri().path().ends_with("/secrets");
            let items = if watch || !secrets { None } else { first.lock().unwrap().take() };
            async move {
                if watch {
                    // The history is gone: everything must be listed again.
                    tokio::time::sleep(Duration::from_secs(30)).await;
                    let gone = serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410,
                        "reason": "Expired", "message": "too old"});
                    let (sender, answer) = testing::lines();
                    let _ = sender.send(serde_json::json!({"type": "ERROR", "object": gone}).to_string());
                    return answer;
                }
                let items = items.unwrap_or_else(|| if secrets { vec![secret("b")] } else { Vec::new() });
                testing::json(200, &serde_json::json!({"metadata": {"resourceVersion": "1"}, "items": items}))
            }
        });
        let fleet = Fleet::new(Care::default());
        let stop = CancellationToken::new();
        let (following, token) = (fleet.clone(), stop.clone());
        let task = tokio::spawn(async move { following.follow(meta, None, token).await });
        fleet.read().await;
        assert_eq!(fleet.members().len(), 2);
        let mut changed = fleet.changed();
        changed.borrow_and_update();
        tokio::time::timeout(Duration::from_secs(600), changed.changed()).await.unwrap().unwrap();
        assert!(fleet.member("a").is_none() && fleet.member("b").is_some());
        stop.cancel();
        task.await.unwrap();
    }
}
