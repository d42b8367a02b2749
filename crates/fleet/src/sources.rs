//! Members as objects of the meta cluster: Secrets, and as the seed has it ConfigMaps. What an object says, and which one counts
//! when several say the same name.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret as SecretObject},
};
use kube::{ResourceExt, core::ObjectMeta};

use crate::{Allow, Connection, Credentials, Declared, Refusals, Refused};

/// The label that makes a Secret or a ConfigMap a member.
pub const MEMBER: &str = "muster.dev/member";
/// What was allowed explicitly when it was imported: `insecure`, `system-roots`, `plain-http`.
pub const ALLOW: &str = "muster.dev/allow";
/// The label selectors under which members are found.
pub(crate) const SECRETS: &[&str] = &["muster.dev/member=true"];
/// The second one is what existing installations carry.
pub(crate) const CONFIG_MAPS: &[&str] = &["muster.dev/member=true", "ClusterOwner=sym-admin"];
/// Where a kubeconfig may stand in an object; `value` is Cluster API's name for it.
const KUBECONFIG: &[&str] = &["kubeconfig", "kubeconfig.yaml", "value"];

/// The object that declares a member. In this order they count when they say the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// A Secret: namespace and name.
    Secret(String, String),
    /// A ConfigMap: namespace and name.
    ConfigMap(String, String),
    /// This process itself.
    Here(String),
}

impl Origin {
    /// The member's name.
    pub fn member(&self) -> &str {
        match self {
            Origin::Secret(_, name) | Origin::ConfigMap(_, name) | Origin::Here(name) => name,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Secret(namespace, name) => write!(f, "Secret {namespace}/{name}"),
            Origin::ConfigMap(namespace, name) => write!(f, "ConfigMap {namespace}/{name}"),
            Origin::Here(name) => write!(f, "{name}"),
        }
    }
}

/// The Secret that makes a cluster a member: for whoever imports one. What was allowed is written down with it.
pub fn member_secret(
    name: &str,
    credentials: &Credentials,
    allow: Allow,
    mut labels: BTreeMap<String, String>,
) -> SecretObject {
    labels.insert(MEMBER.to_owned(), "true".to_owned());
    let words = [(allow.insecure, "insecure"), (allow.system_roots, "system-roots"), (allow.plain_http, "plain-http")];
    let words: Vec<&str> = words.iter().filter(|(allowed, _)| *allowed).map(|(_, word)| *word).collect();
    let annotations = (!words.is_empty()).then(|| BTreeMap::from([(ALLOW.to_owned(), words.join(","))]));
    let kubeconfig = ByteString(credentials.to_kubeconfig(name).reveal().as_bytes().to_vec());
    SecretObject {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels),
            annotations,
            ..ObjectMeta::default()
        },
        type_: Some(MEMBER.to_owned()),
        data: Some(BTreeMap::from([("kubeconfig".to_owned(), kubeconfig)])),
        ..SecretObject::default()
    }
}

/// What a Secret says.
pub(crate) fn from_secret(secret: &SecretObject) -> (Origin, Result<Declared, Refusals>) {
    let origin = Origin::Secret(secret.namespace().unwrap_or_default(), secret.name_any());
    let text = |key: &str| {
        let bytes = &secret.data.as_ref()?.get(key)?.0;
        Some(String::from_utf8_lossy(bytes).into_owned())
    };
    let declared = declared(&origin, secret.labels(), secret.annotations(), text);
    (origin, declared)
}

/// What a ConfigMap says.
pub(crate) fn from_config_map(map: &ConfigMap) -> (Origin, Result<Declared, Refusals>) {
    let origin = Origin::ConfigMap(map.namespace().unwrap_or_default(), map.name_any());
    let declared = declared(&origin, map.labels(), map.annotations(), |key| map.data.as_ref()?.get(key).cloned());
    (origin, declared)
}

fn declared(
    origin: &Origin,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
    text: impl Fn(&str) -> Option<String>,
) -> Result<Declared, Refusals> {
    let refused = |field: &str, why: &str, remedy: &str| {
        Refusals::from(Refused { field: field.to_owned(), why: why.to_owned(), remedy: remedy.to_owned() })
    };
    let name = origin.member();
    if name == "all" {
        return Err(refused("metadata.name", "\"all\" means every member", "choose another name"));
    }
    let mut allow = Allow::default();
    for word in annotations.get(ALLOW).iter().flat_map(|words| words.split(',')).map(str::trim) {
        match word {
            "" => {}
            "insecure" => allow.insecure = true,
            "system-roots" => allow.system_roots = true,
            "plain-http" => allow.plain_http = true,
            _ => {
                let field = format!("metadata.annotations[{ALLOW}]");
                return Err(refused(&field, "has an unknown word", "known are insecure, system-roots and plain-http"));
            }
        }
    }
    let kubeconfig = KUBECONFIG.iter().find_map(|key| Some((key, text(key)?)));
    let credentials = match (kubeconfig, text("token")) {
        (Some((key, kubeconfig)), _) => Credentials::from_kubeconfig(&kubeconfig, None, allow)
            .map_err(|refusals| refusals.within(|field| format!("data[{key}].{field}")))?,
        (None, Some(token)) => {
            let server = text("server")
                .ok_or_else(|| refused("data[server]", "is missing", "name the address of the member's API server"))?;
            Credentials::from_token(&server, &text("ca.crt").unwrap_or_default(), &token, allow)
                .map_err(|refusals| refusals.within(|field| format!("data[{field}]")))?
        }
        (None, None) => {
            return Err(refused("data", "holds no credentials", "give kubeconfig, or server, ca.crt and token"));
        }
    };
    let connection = Connection::Credentials(Box::new(credentials));
    Ok(Declared { name: name.into(), labels: labels.clone(), connection })
}

/// Everything declared: for each member's name the objects that declare it, and the selector each was found under (one object may be
/// found under several).
#[derive(Default)]
pub(crate) struct Sources {
    all: BTreeMap<String, BTreeMap<(Origin, u8), Entry>>,
}

struct Entry {
    /// The last version that could be read.
    good: Option<Declared>,
    /// Why the present version cannot, if so.
    refused: Option<Refusals>,
}

impl Sources {
    pub(crate) fn put(&mut self, found: u8, origin: Origin, declared: Result<Declared, Refusals>) {
        let of_name = self.all.entry(origin.member().to_owned()).or_default();
        let entry = of_name.entry((origin, found)).or_insert(Entry { good: None, refused: None });
        match declared {
            Ok(declared) => *entry = Entry { good: Some(declared), refused: None },
            // Somebody's slip of the pen must not cut off a member that runs.
            Err(refused) => entry.refused = Some(refused),
        }
    }

    pub(crate) fn remove(&mut self, found: u8, origin: &Origin) {
        if let Some(of_name) = self.all.get_mut(origin.member()) {
            of_name.remove(&(origin.clone(), found));
            if of_name.is_empty() {
                self.all.remove(origin.member());
            }
        }
    }

    /// What was found under a selector.
    pub(crate) fn under(&self, found: u8) -> BTreeSet<Origin> {
        let all = self.all.values().flat_map(BTreeMap::keys);
        all.filter(|(_, under)| *under == found).map(|(origin, _)| origin.clone()).collect()
    }

    /// The member of that name as the first of its objects declares it.
    pub(crate) fn effective(&self, name: &str) -> Option<&Declared> {
        self.all.get(name)?.values().find_map(|entry| entry.good.as_ref())
    }

    /// The object that counts for that name.
    pub(crate) fn origin(&self, name: &str) -> Option<&Origin> {
        self.all.get(name)?.iter().find(|(_, entry)| entry.good.is_some()).map(|((origin, _), _)| origin)
    }

    /// What could not be used, and why: for whoever wrote it.
    pub(crate) fn refusals(&self) -> Vec<(Origin, Refusals)> {
        let mut refusals: BTreeMap<Origin, Refusals> = BTreeMap::new();
        for of_name in self.all.values() {
            let mut first: Option<&Origin> = None;
            for ((origin, _), entry) in of_name {
                if let Some(refused) = &entry.refused {
                    refusals.insert(origin.clone(), refused.clone());
                } else if let Some(other) = first.filter(|other| *other != origin) {
                    let why = format!("{other} declares this member already");
                    let remedy = "rename or delete one of them".to_owned();
                    let refused = Refused { field: "metadata.name".to_owned(), why, remedy };
                    refusals.insert(origin.clone(), refused.into());
                }
                first = first.or(entry.good.is_some().then_some(origin));
            }
        }
        refusals.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(name: &str, data: serde_json::Value, allow: &str) -> SecretObject {
        let object = json!({"metadata": {"name": name, "namespace": "n", "labels": {MEMBER: "true", "zone": "z"},
            "annotations": {ALLOW: allow}}});
        let mut secret: SecretObject = serde_json::from_value(object).unwrap();
        let bytes = |value: &serde_json::Value| k8s_openapi::ByteString(value.as_str().unwrap().as_bytes().to_vec());
        secret.data = Some(data.as_object().unwrap().iter().map(|(k, v)| (k.clone(), bytes(v))).collect());
        secret
    }

    const LOCAL: &str = "{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {token: t}}], \
                         contexts: [{name: x, context: {cluster: c, user: u}}]}";

    #[test]
    fn a_secret_is_a_member_by_kubeconfig_or_by_token() {
        // SYM-9, MAE-7
        for data in [
            json!({"kubeconfig": LOCAL}),
            json!({"value": LOCAL}),
            json!({"server": "http://127.0.0.1:1", "token": "t"}),
        ] {
            let (origin, declared) = from_secret(&secret("prod", data, ""));
            let declared = declared.unwrap();
            assert_eq!((origin.to_string().as_str(), &*declared.name), ("Secret n/prod", "prod"));
            assert_eq!(declared.labels["zone"], "z");
        }
    }

    #[test]
    fn a_config_map_is_a_member_as_in_the_seed() {
        // SYM-9
        let map = json!({"metadata": {"name": "bj5", "namespace": "sym-admin"}, "data": {"kubeconfig.yaml": LOCAL}});
        let (origin, declared) = from_config_map(&serde_json::from_value(map).unwrap());
        assert_eq!(origin, Origin::ConfigMap("sym-admin".into(), "bj5".into()));
        assert_eq!(&*declared.unwrap().name, "bj5");
    }

    #[test]
    fn what_cannot_be_used_names_the_field_of_the_object() {
        let field =
            |name: &str, data, allow| from_secret(&secret(name, data, allow)).1.unwrap_err().first().field.clone();
        assert_eq!(field("a", json!({}), ""), "data");
        assert_eq!(field("a", json!({"token": "t"}), ""), "data[server]");
        assert_eq!(field("a", json!({"token": "t", "server": "https://h"}), ""), "data[ca.crt]");
        assert_eq!(
            field("a", json!({"token": "t", "server": "https://h"}), "anything"),
            "metadata.annotations[muster.dev/allow]"
        );
        assert_eq!(field("a", json!({"token": "t", "server": "http://h"}), ""), "data[server]");
        assert!(from_secret(&secret("a", json!({"token": "t", "server": "http://h"}), "plain-http")).1.is_ok());
        let exec = LOCAL.replace("token: t", "exec: {command: x}");
        assert_eq!(field("a", json!({"kubeconfig": exec}), ""), "data[kubeconfig].users[0].user.exec");
        assert_eq!(field("all", json!({"kubeconfig": LOCAL}), ""), "metadata.name");
    }

    #[test]
    fn a_secret_counts_before_a_config_map_and_the_loser_is_named() {
        let mut sources = Sources::default();
        let map = json!({"metadata": {"name": "prod", "namespace": "a"}, "data": {"kubeconfig": LOCAL}});
        let (map, declared) = from_config_map(&serde_json::from_value(map).unwrap());
        sources.put(1, map.clone(), declared);
        let (origin, declared) = from_secret(&secret("prod", json!({"kubeconfig": LOCAL}), ""));
        sources.put(0, origin.clone(), declared);
        assert_eq!(sources.effective("prod").unwrap().labels["zone"], "z");
        let refusals = sources.refusals();
        assert_eq!(refusals.len(), 1);
        assert_eq!(
            (&refusals[0].0, refusals[0].1.first().why.as_str()),
            (&map, "Secret n/prod declares this member already")
        );
        sources.remove(0, &origin);
        assert!(sources.effective("prod").unwrap().labels.is_empty());
    }

    #[test]
    fn a_broken_change_keeps_the_member_and_says_so() {
        let mut sources = Sources::default();
        let (origin, declared) = from_secret(&secret("prod", json!({"kubeconfig": LOCAL}), ""));
        sources.put(0, origin, declared);
        let (origin, broken) = from_secret(&secret("prod", json!({"kubeconfig": "["}), ""));
        sources.put(0, origin, broken);
        assert!(sources.effective("prod").is_some());
        assert_eq!(sources.refusals().len(), 1);
    }

    #[test]
    fn an_imported_cluster_is_read_back_as_the_same_member() {
        // SC-10
        let allow = Allow { plain_http: true, ..Allow::default() };
        let credentials = Credentials::from_token("http://h:6443", "", "t", allow).unwrap();
        let secret = member_secret("prod", &credentials, allow, BTreeMap::from([("zone".to_owned(), "z".to_owned())]));
        let (origin, declared) = from_secret(&secret);
        let declared = declared.unwrap();
        assert_eq!((origin.member(), declared.labels["zone"].as_str()), ("prod", "z"));
        assert!(declared.connection.is_same(&Connection::Credentials(Box::new(credentials))));
    }
}
