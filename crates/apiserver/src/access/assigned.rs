//! The service account a pod runs as: the namespace's `default` when none is named, and one that is there.

use crate::Inner;
use crate::kinds::Kind;
use crate::objects::storage;
use meta::{GroupResource, Object, Status};
use serde_json::Value;
use std::time::Duration;
use store::Entry;
use tokio::time::{Instant, timeout_at};

const DEFAULT: &str = "default";
/// A kubelet's copy of a pod it runs by itself.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// How long the account of a namespace that was just made is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Gives a new pod its account, and what the account says of pulling images. No token is mounted: nothing runs here that would read it.
pub(crate) async fn assign(api: &Inner, namespace: &str, pod: &mut Object) -> Result<(), Status> {
    let Some(accounts) = api.kind("", "v1", "serviceaccounts").filter(|_| api.options.assign_accounts) else {
        return Ok(());
    };
    let name = named(pod).to_owned();
    if pod.meta().get("annotations").is_some_and(|annotations| annotations.get(MIRROR).is_some()) {
        let why = "a mirror pod may not reference service accounts";
        return if name.is_empty() { Ok(()) } else { Err(refused(pod, why)) };
    }
    let name = if name.is_empty() { DEFAULT } else { &name };
    let Some(entry) = find(api, &accounts, namespace, name).await? else {
        let why = format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found");
        return Err(refused(pod, &why));
    };
    let account = api.decode_stored(&accounts, &entry.value, entry.revision)?;
    let Some(Value::Object(spec)) = pod.0.get_mut("spec") else { return Ok(()) };
    for key in ["serviceAccountName", "serviceAccount"] {
        spec.insert(key.into(), name.into());
    }
    let lacks = spec.get("imagePullSecrets").and_then(Value::as_array).is_none_or(Vec::is_empty);
    if let Some(secrets) = account.0.get("imagePullSecrets").filter(|_| lacks) {
        spec.insert("imagePullSecrets".into(), secrets.clone());
    }
    Ok(())
}

fn named(pod: &Object) -> &str {
    pod.0.get("spec").and_then(|spec| spec.get("serviceAccountName")).and_then(Value::as_str).unwrap_or_default()
}

fn refused(pod: &Object, why: &str) -> Status {
    Status::forbidden(GroupResource { group: "", resource: "pods" }, pod.name(), why)
}

/// The account, which another server may have made a moment ago, or our own controller is about to make.
async fn find(api: &Inner, accounts: &Kind, namespace: &str, name: &str) -> Result<Option<Entry>, Status> {
    let key = accounts.key(namespace, name);
    if let Some(entry) = api.store.get(&key) {
        return Ok(Some(entry));
    }
    api.store.sync().await.map_err(storage)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        // From before the look, so that nothing falls between looking and waiting.
        let mut since = api.store.revision();
        let found = api.store.get(&key);
        if found.is_some() || name != DEFAULT {
            return Ok(found);
        }
        if timeout_at(deadline, api.changed(&accounts.collection, &mut since)).await.is_err() {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::By;
    use crate::{Api, Options, describe, namespaces};
    use auth::{Authenticator, Authorizer};
    use serde_json::json;
    use store::Store;

    async fn api(assigns: bool) -> Api {
        let store = Store::memory(store::Options { describe: describe(), tick: None, ..store::Options::default() });
        let mut options = Options::new(Authenticator::new(auth::Options::default()).unwrap(), Authorizer::new());
        options.assign_accounts = assigns;
        let api = Api::new(store, options);
        namespaces::ensure_system(&api.inner).await.unwrap();
        api
    }

    async fn account(api: &Inner, name: &str) {
        let kind = api.kind("", "v1", "serviceaccounts").unwrap();
        let object = json!({"metadata": {"name": name}, "imagePullSecrets": [{"name": format!("{name}-pull")}]});
        api.create(&kind, "default", Object::from_value(object).unwrap(), &By::SERVER).await.unwrap();
    }

    async fn pod(api: &Inner, name: &str, more: Value) -> Result<Value, Status> {
        let kind = api.kind("", "v1", "pods").unwrap();
        let mut spec = json!({"containers": [{"name": "c", "image": "x"}]});
        spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        let object = Object::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap();
        let stored = api.create(&kind, "default", object, &By::SERVER).await?;
        Ok(Value::Object(api.decode_stored(&kind, &stored.value, stored.revision)?.0))
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_runs_as_the_default_account_or_one_that_is_there() {
        let api = api(true).await;
        let api = &api.inner;
        let refused = pod(api, "early", json!({})).await.unwrap_err();
        assert_eq!(
            (refused.code, refused.message.as_str()),
            (
                403,
                "pods \"early\" is forbidden: error looking up service account default/default: serviceaccount \"default\" not found"
            )
        );
        account(api, "default").await;
        account(api, "robot").await;
        let made = pod(api, "a", json!({})).await.unwrap();
        assert_eq!(
            (&made["spec"]["serviceAccountName"], &made["spec"]["serviceAccount"]),
            (&json!("default"), &json!("default"))
        );
        assert_eq!(made["spec"]["imagePullSecrets"], json!([{"name": "default-pull"}]));
        assert!(made["spec"]["volumes"].is_null(), "no token is mounted: {made}");
        let own = json!({"serviceAccount": "robot", "imagePullSecrets": [{"name": "mine"}]});
        let made = pod(api, "b", own).await.unwrap();
        assert_eq!(made["spec"]["serviceAccountName"], "robot");
        assert_eq!(made["spec"]["imagePullSecrets"], json!([{"name": "mine"}]));
        let refused = pod(api, "c", json!({"serviceAccountName": "nobody"})).await.unwrap_err();
        assert!(refused.message.ends_with("default/nobody: serviceaccount \"nobody\" not found"), "{refused}");
    }

    #[tokio::test]
    async fn the_account_of_a_new_namespace_is_waited_for() {
        let api = api(true).await;
        let made = tokio::spawn({
            let api = api.clone();
            async move { pod(&api.inner, "a", json!({})).await }
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        account(&api.inner, "default").await;
        assert_eq!(made.await.unwrap().unwrap()["spec"]["serviceAccountName"], "default");
    }

    #[tokio::test]
    async fn without_controllers_that_make_accounts_pods_stay_as_they_are() {
        let api = api(false).await;
        let made = pod(&api.inner, "a", json!({})).await.unwrap();
        assert!(made["spec"]["serviceAccountName"].is_null(), "{made}");
    }
}
