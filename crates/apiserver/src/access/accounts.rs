//! What every namespace gets by itself: its `default` service account, the authority to trust, and tokens in the Secrets asked for them.

use crate::kinds::Kind;
use crate::objects::Part;
use crate::ownership::By;
use crate::{Api, Inner};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use meta::options::DeleteOptions;
use meta::{Object, Reason, Status};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use store::{Entry, Range};
use tokio_util::sync::CancellationToken;

const RETRY: Duration = Duration::from_secs(1);
/// How often everything is looked at again.
const LOOK_ANYWAY: Duration = Duration::from_secs(600);
/// Events taken at once.
const BATCH: usize = 256;
const ROOT_CA: &str = "kube-root-ca.crt";
const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
const DESCRIPTION: &str = "kubernetes.io/description";
const ROOT_CA_DESCRIPTION: &str = "The certificate authority by which this API server can be verified.";

/// The kinds this is about.
struct Kinds {
    namespaces: Arc<Kind>,
    accounts: Arc<Kind>,
    secrets: Arc<Kind>,
    maps: Arc<Kind>,
}

/// Looks after all namespaces until told to stop: once over everything, then at what changes.
pub(crate) async fn run(api: Api, stop: CancellationToken) {
    let api = &api.inner;
    let kinds = ["namespaces", "serviceaccounts", "secrets", "configmaps"].map(|p| api.kind("", "v1", p));
    let [Some(namespaces), Some(accounts), Some(secrets), Some(maps)] = kinds else { return };
    let kinds = Kinds { namespaces, accounts, secrets, maps };
    while !stop.is_cancelled() {
        let work = async {
            // From before the look, so that nothing falls between looking and watching.
            let from = api.store.revision();
            everything(api, &kinds).await?;
            follow(api, &kinds, from).await
        };
        tokio::select! {
            () = stop.cancelled() => return,
            ended = work => {
                if let Err(error) = ended {
                    tracing::warn!(%error, "service accounts could not be looked after yet");
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = tokio::time::sleep(RETRY) => {}
                    }
                }
            }
        }
    }
}

/// Something that may have to be put right.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    Namespace(Box<str>),
    Secret(Arc<str>),
    /// Every token Secret of a namespace.
    Tokens(Box<str>),
}

/// Ends when the history was too short, or for a fresh look now and then.
async fn follow(api: &Inner, kinds: &Kinds, from: u64) -> Result<(), Status> {
    let watch = |kind: &Kind| api.store.watch(&kind.collection, "", from).map_err(crate::objects::storage);
    let (mut namespaces, mut accounts) = (watch(&kinds.namespaces)?, watch(&kinds.accounts)?);
    let (mut secrets, mut maps) = (watch(&kinds.secrets)?, watch(&kinds.maps)?);
    let end = tokio::time::Instant::now() + LOOK_ANYWAY;
    loop {
        let (mut a, mut b, mut c, mut d) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let moved = tokio::select! {
            () = tokio::time::sleep_until(end) => return Ok(()),
            moved = namespaces.next(BATCH, &mut a) => moved,
            moved = accounts.next(BATCH, &mut b) => moved,
            moved = secrets.next(BATCH, &mut c) => moved,
            moved = maps.next(BATCH, &mut d), if api.options.controllers.root_ca => moved,
        };
        match moved {
            Err(store::Error::Compacted { .. }) => return Ok(()),
            moved => moved.map_err(crate::objects::storage)?,
        }
        let mut work = BTreeSet::new();
        work.extend(a.iter().filter(|e| e.entry.is_some()).map(|e| Work::Namespace((*e.key.item).into())));
        for event in b.iter().filter(|e| e.entry.is_none()) {
            let Some((namespace, name)) = event.key.item.split_once('/') else { continue };
            work.insert(Work::Tokens(namespace.into()));
            work.extend((name == "default").then(|| Work::Namespace(namespace.into())));
        }
        let tokens = c.iter().filter(|e| e.entry.as_ref().is_some_and(is_token));
        work.extend(tokens.map(|e| Work::Secret(e.key.item.clone())));
        let published = d.iter().filter_map(|e| e.key.item.strip_suffix(ROOT_CA)?.strip_suffix('/'));
        work.extend(published.map(|namespace| Work::Namespace(namespace.into())));
        for work in work {
            match work {
                Work::Namespace(name) => namespace(api, kinds, &name).await?,
                Work::Secret(item) => secret(api, kinds, &item).await?,
                Work::Tokens(namespace) => tokens_of(api, kinds, &format!("{namespace}/")).await?,
            }
        }
    }
}

fn is_token(entry: &Entry) -> bool {
    entry.attrs.fields.iter().any(|(k, v)| &**k == "type" && &**v == TOKEN_TYPE)
}

async fn everything(api: &Inner, kinds: &Kinds) -> Result<(), Status> {
    for (name, _) in all(api, &kinds.namespaces, "", |_, _| true)? {
        namespace(api, kinds, &name).await?;
    }
    tokens_of(api, kinds, "").await
}

async fn tokens_of(api: &Inner, kinds: &Kinds, prefix: &str) -> Result<(), Status> {
    if api.options.controllers.service_accounts {
        for (item, _) in all(api, &kinds.secrets, prefix, |_, entry| is_token(entry))? {
            secret(api, kinds, &item).await?;
        }
    }
    Ok(())
}

/// What a namespace must have.
async fn namespace(api: &Inner, kinds: &Kinds, name: &str) -> Result<(), Status> {
    let controllers = api.options.controllers;
    let Some(entry) = api.store.get(&kinds.namespaces.key("", name)) else { return Ok(()) };
    if entry.attrs.fields.iter().any(|(k, v)| &**k == "status.phase" && &**v == "Terminating") {
        return Ok(());
    }
    if controllers.service_accounts && api.store.get(&kinds.accounts.key(name, "default")).is_none() {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        create(api, &kinds.accounts, name, account).await?;
    }
    match api.options.root_ca.as_deref() {
        Some(pem) if controllers.root_ca => publish(api, &kinds.maps, name, pem).await,
        _ => Ok(()),
    }
}

async fn secret(api: &Inner, kinds: &Kinds, item: &str) -> Result<(), Status> {
    let Some((namespace, name)) = item.split_once('/') else { return Ok(()) };
    let Some(entry) = api.store.get(&kinds.secrets.key(namespace, name)) else { return Ok(()) };
    if !api.options.controllers.service_accounts {
        return Ok(());
    }
    let secret = api.decode_stored(&kinds.secrets, &entry.value, entry.revision)?;
    fill(api, &kinds.accounts, &kinds.secrets, namespace, name, &secret).await
}

fn all(
    api: &Inner,
    kind: &Kind,
    prefix: &str,
    filter: impl FnMut(&str, &Entry) -> bool,
) -> Result<Vec<(Arc<str>, Entry)>, Status> {
    let range = Range { collection: &kind.collection, prefix, after: None, limit: 0, at: None };
    api.store.range(&range, filter).map(|page| page.items).map_err(crate::objects::storage)
}

/// Somebody was faster, or the namespace is going away: both are fine.
fn settled<T>(outcome: Result<T, Status>) -> Result<(), Status> {
    match outcome {
        Err(s)
            if !matches!(s.reason, Reason::AlreadyExists | Reason::NotFound | Reason::Forbidden | Reason::Conflict) =>
        {
            Err(s)
        }
        _ => Ok(()),
    }
}

async fn create(api: &Inner, kind: &Kind, namespace: &str, object: Value) -> Result<(), Status> {
    settled(api.create(kind, namespace, Object::from_value(object).unwrap_or_default(), &By::SERVER).await)
}

async fn publish(api: &Inner, maps: &Kind, namespace: &str, pem: &str) -> Result<(), Status> {
    let data = json!({"ca.crt": pem});
    let Some(entry) = api.store.get(&maps.key(namespace, ROOT_CA)) else {
        let metadata = json!({"name": ROOT_CA, "annotations": {DESCRIPTION: ROOT_CA_DESCRIPTION}});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        return create(api, maps, namespace, map).await;
    };
    if api.decode_stored(maps, &entry.value, entry.revision)?.0.get("data") == Some(&data) {
        return Ok(());
    }
    let repaired = api.update(maps, namespace, ROOT_CA, Part::Main, &By::SERVER, |current| {
        let mut desired = current.clone();
        desired.0.insert("data".into(), data.clone());
        Ok(desired)
    });
    settled(repaired.await)
}

/// Puts a token into a Secret made for one; a Secret whose account is gone goes, too.
async fn fill(
    api: &Inner,
    accounts: &Kind,
    secrets: &Kind,
    namespace: &str,
    name: &str,
    secret: &Object,
) -> Result<(), Status> {
    let Some(issuer) = api.options.authenticator.issuer() else { return Ok(()) };
    let annotation = |key: &str| secret.meta().get("annotations")?.get(key)?.as_str();
    let Some(account) = annotation(ACCOUNT_NAME) else { return Ok(()) };
    let uid = api.store.get(&accounts.key(namespace, account)).map(|entry| entry.attrs.uid.to_string());
    let Some(uid) = uid.filter(|uid| annotation(ACCOUNT_UID).is_none_or(|stated| stated == uid)) else {
        let options = DeleteOptions { uid: Some(secret.uid().to_owned()), ..DeleteOptions::default() };
        return settled(api.delete(secrets, namespace, name, &options).await);
    };
    let held = |key: &str| secret.0.get("data")?.get(key)?.as_str();
    let lacks = |key: &str| held(key).is_none_or(str::is_empty);
    let authority = api.options.root_ca.as_deref().map(|pem| BASE64_STANDARD.encode(pem));
    let stale = authority.as_deref().is_some_and(|authority| held("ca.crt") != Some(authority));
    if !lacks("token") && !lacks("namespace") && !stale {
        return Ok(());
    }
    let token = issuer.issue_for_secret(namespace, account, &uid, name);
    let token = BASE64_STANDARD.encode(token.map_err(|why| Status::internal(why.to_string()))?);
    let version = secret.resource_version().to_owned();
    let filled = api.update(secrets, namespace, name, Part::Main, &By::SERVER, |current| {
        let mut desired = current.clone();
        desired.set_meta("resourceVersion", &version);
        let annotations = desired.meta_mut().entry("annotations").or_insert_with(|| json!({}));
        annotations[ACCOUNT_UID] = uid.as_str().into();
        let data = desired.0.entry("data").or_insert_with(|| json!({}));
        if data.get("token").and_then(Value::as_str).is_none_or(str::is_empty) {
            data["token"] = token.as_str().into();
        }
        if data.get("namespace").and_then(Value::as_str).is_none_or(str::is_empty) {
            data["namespace"] = BASE64_STANDARD.encode(namespace).into();
        }
        if let Some(authority) = &authority {
            data["ca.crt"] = authority.as_str().into();
        }
        Ok(desired)
    });
    settled(filled.await)
}
