//! The console's users: Secrets of type `muster.dev/user` in the gateway's namespace, followed while it runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret as SecretObject};
use kube::api::{Api, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, Resource};
use serde_json::json;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::hash::Hash;
use crate::caller::{Person, key};
use crate::problem::Problem;

/// The type of a user's Secret, and how its name begins.
const TYPE: &str = "muster.dev/user";
const PREFIX: &str = "muster-user-";
const MOST_GROUPS: usize = 64;
const LONGEST_NAME: usize = 63;
const DEADLINE: Duration = Duration::from_secs(10);

/// Stands for everything by which a session can be out of date: who the user is, the password, the groups.
pub(crate) type Stamp = [u8; 32];

/// Somebody who can log in.
pub(crate) struct User {
    pub(crate) person: Arc<Person>,
    pub(crate) hash: Hash,
    /// Somebody else chose the password: the console asks for another.
    pub(crate) must_change: bool,
    pub(crate) stamp: Stamp,
    uid: String,
    version: String,
}

/// Whether this can be a user's name. It is part of a Secret's name, and can be mistaken for none of Kubernetes' own users.
pub(crate) fn acceptable(name: &str) -> Result<(), Problem> {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    let right = bytes.len() <= LONGEST_NAME
        && bytes.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.'))
        && edge(bytes.first())
        && edge(bytes.last())
        && !name.contains("..");
    if right {
        return Ok(());
    }
    let why =
        format!("a user's name has at most {LONGEST_NAME} small letters, digits, dots and dashes, such as ann.lee");
    Err(Problem::new(422, "Invalid", why).with("field", "user"))
}

impl User {
    /// What a Secret says, or why it cannot be used. Never repeats the hash.
    fn read(secret: &SecretObject) -> Result<Self, &'static str> {
        let data = secret.data.as_ref().ok_or("it has no data")?;
        let text = |field: &str| data.get(field).and_then(|value| std::str::from_utf8(&value.0).ok());
        let user = text("name").ok_or("it has no name")?.trim().to_owned();
        acceptable(&user).map_err(|_| "its name is not one a user can have")?;
        // So that there are never two of the same name.
        if secret.metadata.name.as_deref() != Some(&format!("{PREFIX}{user}")) {
            return Err("it must be called muster-user-NAME");
        }
        let groups: Vec<String> = text("groups")
            .unwrap_or("")
            .split(['\n', ','])
            .map(str::trim)
            .filter(|group| !group.is_empty())
            .map(str::to_owned)
            .collect();
        if groups.len() > MOST_GROUPS || groups.iter().any(|group| group.chars().any(char::is_control)) {
            return Err("it has too many groups, or one with a strange name");
        }
        let stored = text("hash").ok_or("it has no hash")?;
        let hash = Hash::parse(stored).ok_or("its hash is not pbkdf2-sha256$ROUNDS$SALT$HASH")?;
        let must_change = text("mustChange").is_some_and(|value| value.trim() == "true");
        let (uid, version) = (
            secret.metadata.uid.clone().unwrap_or_default(),
            secret.metadata.resource_version.clone().unwrap_or_default(),
        );
        let stored = hash.text();
        let mut parts: Vec<&[u8]> = vec![uid.as_bytes(), stored.as_bytes(), user.as_bytes()];
        parts.extend(groups.iter().map(|group| group.as_bytes()));
        let stamp = key(&parts);
        Ok(Self { person: Arc::new(Person { user, groups }), hash, must_change, stamp, uid, version })
    }

    pub(crate) fn name(&self) -> &str {
        &self.person.user
    }

    /// Whether this version came before the user was what it is here. Versions of an API server are numbers that grow; of others nothing is said.
    fn is_newer_than(&self, version: &str) -> bool {
        matches!((self.version.parse::<u64>(), version.parse::<u64>()), (Ok(own), Ok(other)) if own > other)
    }
}

/// All users, as the API has them.
pub(crate) struct Users {
    client: Client,
    namespace: String,
    known: Mutex<Known>,
}

/// What comes late is no news: lists and watches may be older than what we wrote ourselves, which must not end the writer's session.
#[derive(Default)]
struct Known {
    users: BTreeMap<String, Arc<User>>,
    /// What we wrote since the list that is being read was begun, and have not heard of again.
    written: BTreeMap<String, Arc<User>>,
    /// Whether they were all read once.
    read: bool,
}

impl Known {
    fn wrote(&mut self, user: &Arc<User>) {
        self.users.insert(user.name().to_owned(), user.clone());
        self.written.insert(user.name().to_owned(), user.clone());
    }

    /// Takes in a whole list. Gives back whose entry is now another, or gone.
    fn replace(&mut self, mut users: BTreeMap<String, Arc<User>>) -> Vec<String> {
        for (name, written) in &self.written {
            if users.get(name).is_none_or(|listed| written.is_newer_than(&listed.version)) {
                users.insert(name.clone(), written.clone());
            }
        }
        self.read = true;
        let before = std::mem::replace(&mut self.users, users);
        before
            .into_iter()
            .filter(|(name, user)| self.users.get(name).is_none_or(|now| now.stamp != user.stamp))
            .map(|(name, _)| name)
            .collect()
    }

    /// In this version somebody is this, or gone. Gives back the name if that is news.
    fn take(&mut self, name: String, version: &str, user: Option<Arc<User>>) -> Vec<String> {
        if self.users.get(&name).is_some_and(|known| known.is_newer_than(version)) {
            return Vec::new();
        }
        self.written.remove(&name);
        match user {
            Some(user) => self.users.insert(name.clone(), user),
            None => self.users.remove(&name),
        };
        vec![name]
    }
}

impl Users {
    pub(crate) fn new(client: Client, namespace: &str) -> Self {
        Self { client, namespace: namespace.to_owned(), known: Mutex::default() }
    }

    fn api(&self) -> Api<SecretObject> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A user by name.
    pub(crate) fn get(&self, name: &str) -> Result<Option<Arc<User>>, Problem> {
        let known = self.known();
        if !known.read {
            return Err(Problem::unavailable("the users could not be read yet; try again in a moment"));
        }
        Ok(known.users.get(name).cloned())
    }

    /// Whether there is any; unknown until they were read.
    pub(crate) fn any(&self) -> Option<bool> {
        let known = self.known();
        known.read.then(|| !known.users.is_empty())
    }

    /// Reads all of them once, for whoever must know before they are followed.
    pub(crate) async fn read(&self) -> Result<(), Problem> {
        let wanted = ListParams::default().fields(&format!("type={TYPE}"));
        let listed =
            timeout(DEADLINE, self.api().list(&wanted)).await.map_err(|_| late())?.map_err(|why| failed(&why))?;
        self.known().replace(listed.items.iter().filter_map(usable).collect());
        Ok(())
    }

    /// Follows them until stopped. `changed` is told of every user who is now another, or gone.
    pub(crate) async fn follow(&self, stop: CancellationToken, changed: impl Fn(&str, Option<&User>)) {
        let config = watcher::Config::default().fields(&format!("type={TYPE}"));
        let mut events = watcher(self.api(), config).default_backoff().boxed();
        let mut listed = BTreeMap::new();
        let mut failing = false;
        while let Some(Some(event)) = stop.run_until_cancelled(events.next()).await {
            match event {
                Ok(event) => {
                    failing = false;
                    self.take(event, &mut listed, &changed);
                }
                Err(why) => {
                    if !failing {
                        tracing::warn!(%why, "the console's users cannot be followed; trying again until it works");
                    }
                    failing = true;
                }
            }
        }
    }

    fn take(
        &self,
        event: Event<SecretObject>,
        listed: &mut BTreeMap<String, Arc<User>>,
        changed: &impl Fn(&str, Option<&User>),
    ) {
        let version = |secret: &SecretObject| secret.metadata.resource_version.clone().unwrap_or_default();
        let mut known = self.known();
        let names = match event {
            Event::Init => {
                listed.clear();
                known.written.clear();
                return;
            }
            Event::InitApply(secret) => {
                listed.extend(usable(&secret));
                return;
            }
            Event::InitDone => known.replace(std::mem::take(listed)),
            Event::Apply(secret) => {
                known.take(name_of(&secret), &version(&secret), usable(&secret).map(|(_, user)| user))
            }
            Event::Delete(secret) => known.take(name_of(&secret), &version(&secret), None),
        };
        drop(known);
        for name in names {
            let now = self.known().users.get(&name).cloned();
            changed(&name, now.as_deref());
        }
    }

    /// Makes a user; whoever has the name already stays.
    pub(crate) async fn create(
        &self,
        name: &str,
        groups: &[&str],
        hash: &Hash,
        must_change: bool,
    ) -> Result<Arc<User>, Problem> {
        acceptable(name)?;
        let mut data = BTreeMap::from([
            ("name".to_owned(), ByteString(name.as_bytes().to_vec())),
            ("groups".to_owned(), ByteString(groups.join("\n").into_bytes())),
            ("hash".to_owned(), ByteString(hash.text().into_bytes())),
        ]);
        if must_change {
            data.insert("mustChange".to_owned(), ByteString(b"true".to_vec()));
        }
        let labels = BTreeMap::from([("app.kubernetes.io/managed-by".to_owned(), "muster".to_owned())]);
        let metadata =
            ObjectMeta { name: Some(format!("{PREFIX}{name}")), labels: Some(labels), ..ObjectMeta::default() };
        let secret =
            SecretObject { metadata, type_: Some(TYPE.to_owned()), data: Some(data), ..SecretObject::default() };
        let stored = match self.store(&secret).await {
            Err(why) if is(&why, 404) => {
                self.make_namespace().await?;
                self.store(&secret).await
            }
            stored => stored,
        };
        let stored = stored.map_err(|why| {
            if is(&why, 409) {
                return Problem::new(409, "AlreadyExists", format!("there is a user {name} already"));
            }
            failed(&why)
        })?;
        self.taken(&stored)
    }

    async fn store(&self, secret: &SecretObject) -> Result<SecretObject, kube::Error> {
        let (api, parameters) = (self.api(), PostParams::default());
        let stored = timeout(DEADLINE, api.create(&parameters, secret)).await;
        stored.unwrap_or_else(|_| Err(kube::Error::Service("no answer in time".into())))
    }

    async fn make_namespace(&self) -> Result<(), Problem> {
        let metadata = ObjectMeta { name: Some(self.namespace.clone()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        let api: Api<Namespace> = Api::all(self.client.clone());
        let made = timeout(DEADLINE, api.create(&PostParams::default(), &namespace)).await.map_err(|_| late())?;
        match made {
            Err(why) if !is(&why, 409) => Err(failed(&why)),
            _ => Ok(()),
        }
    }

    /// What the user would be with another password, and the patch that makes it so.
    pub(crate) fn with_password(user: &User, hash: &Hash) -> (Stamp, serde_json::Value) {
        let stored = hash.text();
        let mut parts: Vec<&[u8]> = vec![user.uid.as_bytes(), stored.as_bytes(), user.name().as_bytes()];
        parts.extend(user.person.groups.iter().map(|group| group.as_bytes()));
        // Guarded: what changed meanwhile is not overwritten, and a user that was made anew keeps its own password.
        let metadata = json!({"uid": user.uid, "resourceVersion": user.version});
        let data = json!({"hash": ByteString(stored.clone().into_bytes()), "mustChange": null});
        (key(&parts), json!({"metadata": metadata, "data": data}))
    }

    pub(crate) async fn change(&self, user: &User, patch: &serde_json::Value) -> Result<Arc<User>, Problem> {
        let (api, name) = (self.api(), format!("{PREFIX}{}", user.name()));
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
        let stored = timeout(DEADLINE, api.patch(&name, &parameters, &patch)).await.map_err(|_| late())?;
        let stored = stored.map_err(|why| {
            if is(&why, 409) || is(&why, 404) {
                return Problem::new(409, "Conflict", "the user was changed meanwhile; log in and try again");
            }
            failed(&why)
        })?;
        self.taken(&stored)
    }

    /// What was written counts at once, not only when the watch brings it.
    fn taken(&self, stored: &SecretObject) -> Result<Arc<User>, Problem> {
        let user = Arc::new(User::read(stored).map_err(|why| {
            Problem::new(502, "ApiFailed", format!("the API stored the user in a way that cannot be used: {why}"))
        })?);
        self.known().wrote(&user);
        Ok(user)
    }
}

fn usable(secret: &SecretObject) -> Option<(String, Arc<User>)> {
    match User::read(secret) {
        Ok(user) => Some((user.name().to_owned(), Arc::new(user))),
        Err(why) => {
            let name = secret.meta().name.as_deref().unwrap_or("");
            tracing::warn!(secret = name, why, "a Secret of a user cannot be used");
            None
        }
    }
}

fn name_of(secret: &SecretObject) -> String {
    let name = secret.metadata.name.as_deref().unwrap_or("");
    name.strip_prefix(PREFIX).unwrap_or(name).to_owned()
}

fn is(why: &kube::Error, code: u16) -> bool {
    matches!(why, kube::Error::Api(status) if status.code == code)
}

fn late() -> Problem {
    Problem::new(504, "Timeout", "the Kubernetes API did not answer in time")
}

fn failed(why: &kube::Error) -> Problem {
    tracing::warn!(%why, "the console's users cannot be read or written");
    match why {
        kube::Error::Api(status) if matches!(status.code, 401 | 403) => Problem::new(
            502,
            "ApiFailed",
            "the gateway may not read or write its users; grant it Secrets in its namespace",
        ),
        _ => Problem::unavailable("the Kubernetes API cannot be reached; try again"),
    }
}

#[cfg(test)]
impl User {
    pub(crate) fn for_tests(name: &str, groups: &[&str], mark: u8) -> Self {
        let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        let text = "pbkdf2-sha256$1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        let hash = Hash::parse(text).unwrap_or_else(|| panic!("{text}"));
        let person = Arc::new(Person { user: name.to_owned(), groups });
        Self { person, hash, must_change: false, stamp: [mark; 32], uid: String::new(), version: String::new() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const HASH: &str = "pbkdf2-sha256$1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    fn secret(object: &str, fields: &[(&str, &str)]) -> SecretObject {
        let data = fields.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
        let metadata =
            ObjectMeta { name: Some(object.to_owned()), uid: Some("u1".to_owned()), ..ObjectMeta::default() };
        SecretObject { metadata, data: Some(data.collect()), ..SecretObject::default() }
    }

    #[test]
    fn a_secret_is_a_user_only_under_its_own_name() {
        let good = secret("muster-user-ann", &[("name", "ann"), ("groups", "dev\nops, qa"), ("hash", HASH)]);
        let user = User::read(&good).ok().unwrap();
        assert_eq!((user.name(), user.person.groups.join(" ").as_str()), ("ann", "dev ops qa"));
        for (object, fields) in [
            ("muster-user-bob", [("name", "ann"), ("hash", HASH)]),
            ("ann", [("name", "ann"), ("hash", HASH)]),
            ("muster-user-system:admin", [("name", "system:admin"), ("hash", HASH)]),
            ("muster-user-ann", [("name", "ann"), ("hash", "teleport")]),
            ("muster-user-ann", [("name", "ann"), ("groups", "dev")]),
            ("muster-user-ann", [("groups", "x"), ("hash", HASH)]),
        ] {
            assert!(User::read(&secret(object, &fields)).is_err(), "{object} {fields:?}");
        }
    }

    #[test]
    fn what_comes_late_is_no_news() {
        let at = |version: &str, groups: &str| {
            let mut secret = secret("muster-user-ann", &[("name", "ann"), ("groups", groups), ("hash", HASH)]);
            secret.metadata.resource_version = Some(version.to_owned());
            Arc::new(User::read(&secret).ok().unwrap())
        };
        let list = |users: &[&Arc<User>]| users.iter().map(|user| ("ann".to_owned(), (*user).clone())).collect();
        let take =
            |known: &mut Known, user: &Arc<User>| known.take("ann".to_owned(), &user.version, Some(user.clone()));
        let (first, second, third) = (at("9", "a"), at("10", "a,b"), at("11", "a,b,c"));
        let mut known = Known::default();
        known.wrote(&second);
        assert!(take(&mut known, &first).is_empty() && known.take("ann".to_owned(), "9", None).is_empty());
        assert_eq!(known.users["ann"].version, "10");
        // A list that was read before it was written.
        assert!(known.replace(list(&[])).is_empty() && known.replace(list(&[&first])).is_empty());
        assert_eq!(known.users["ann"].version, "10");
        // What is newer counts, whoever tells it.
        assert_eq!(take(&mut known, &second), ["ann"]);
        assert_eq!(known.replace(list(&[&third])), ["ann"]);
        assert_eq!(known.take("ann".to_owned(), "12", None), ["ann"]);
        assert!(known.users.is_empty());
        // Who is gone does not come back with a list.
        assert!(known.replace(list(&[])).is_empty() && known.users.is_empty());
        // Once another list is begun, it has what we wrote, or it is gone.
        known.wrote(&second);
        known.written.clear();
        assert_eq!(known.replace(list(&[])), ["ann"]);
    }

    #[test]
    fn names_of_kubernetes_own_users_are_refused() {
        for name in ["ann", "ann.lee", "a-1"] {
            assert!(acceptable(name).is_ok(), "{name}");
        }
        for name in ["", "Ann", "system:admin", "-ann", "ann.", "a..b", "a b", "a\nb", "é", &"a".repeat(64)] {
            assert_eq!(acceptable(name).err().unwrap().code, 422, "{name}");
        }
    }

    #[test]
    fn the_stamp_follows_password_and_groups_alone() {
        let of = |fields: &[(&str, &str)]| User::read(&secret("muster-user-ann", fields)).ok().unwrap().stamp;
        let plain = of(&[("name", "ann"), ("groups", "a"), ("hash", HASH)]);
        assert_eq!(plain, of(&[("name", "ann"), ("groups", "a"), ("hash", HASH), ("mustChange", "true")]));
        assert_ne!(plain, of(&[("name", "ann"), ("groups", "a,b"), ("hash", HASH)]));
        let other = HASH.replace("$1$", "$2$");
        assert_ne!(plain, of(&[("name", "ann"), ("groups", "a"), ("hash", &other)]));
    }

    #[test]
    fn the_stamp_of_a_changed_password_is_known_before_it_is_stored() {
        let before =
            User::read(&secret("muster-user-ann", &[("name", "ann"), ("groups", "a"), ("hash", HASH)])).ok().unwrap();
        let other = HASH.replace("$1$", "$2$");
        let (stamp, patch) = Users::with_password(&before, &Hash::parse(&other).unwrap());
        let after =
            User::read(&secret("muster-user-ann", &[("name", "ann"), ("groups", "a"), ("hash", &other)])).ok().unwrap();
        assert_eq!(stamp, after.stamp);
        assert_eq!(patch["metadata"]["uid"], "u1");
    }
}
