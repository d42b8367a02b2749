//! The zcloud face on clusters: list, get, import, and what ready clusters hold (SC-3, SC-4, SC-5, SC-9, SC-10).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fleet::{Allow, Credentials, Fleet, Origin, Refusals, Refused, State, member_secret};
use http::{Method, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Members;
use super::clusters::Counted;
use super::input::document;
use super::listing::{Listing, Parameters};
use super::objects::META;
use super::reach::{Reach, Scope, What};
use super::route::Places;
use super::views::{KNOWN, View};
use crate::access::{Create, Delete, Get, Target, refusal};
use crate::apiext::catalog::Kind;
use crate::caller::Caller;
use crate::problem::Problem;
use crate::trail::{Changed, Touched};
use crate::upstream::Call;
use crate::visit::{Answered, Body, bytes, json as json_answer};

/// How long an answer waits for the fleet to hear of it.
const HEARD: Duration = Duration::from_secs(2);

/// What an import says. Unknown fields are refused: a slip in `allow` must not pass unseen.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Import {
    name: String,
    #[serde(default)]
    kubeconfig: Option<String>,
    #[serde(default)]
    context: Option<String>,
    #[serde(default)]
    server: Option<String>,
    #[serde(default)]
    ca: Option<String>,
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    allow: Vec<String>,
    #[serde(default)]
    dry_run: bool,
}

impl Members {
    pub(super) async fn zcloud_list(&self, caller: &Caller, query: &str) -> Answered {
        let parameters = Parameters::only(query, &["onlyready"], &[])?;
        let only_ready = parameters.flag("onlyready")?;
        let counted = self.counted(caller, &Scope::All).await?;
        let shown = counted.iter().filter(|one| !only_ready || one.member.status().state.is_ready());
        let data: Vec<Value> = shown.map(|one| self.zcloud_cluster(one)).collect();
        Ok(json_answer(200, &json!({"type": "collection", "resourceType": "cluster", "data": data})))
    }

    pub(super) async fn zcloud_get(&self, caller: &Caller, places: &Places) -> Answered {
        let counted = self.counted(caller, &Scope::One(places.get("name").to_owned())).await?;
        let one = counted.first().ok_or_else(|| Problem::not_found("there is no such cluster"))?;
        Ok(json_answer(200, &self.zcloud_cluster(one)))
    }

    /// A cluster in the words of SingleCloud.
    fn zcloud_cluster(&self, counted: &Counted) -> Value {
        let mut shown = counted.to_json(&self.reaching.fleet);
        let state = counted.member.status().state;
        shown["id"] = shown["name"].clone();
        shown["type"] = "cluster".into();
        shown["status"] = state.to_string().into();
        shown["ready"] = state.is_ready().into();
        shown["nodesCount"] = shown["nodes"].clone();
        shown
    }

    /// `POST …/clusters?action=import`: the Secret that makes a cluster a member, written as the caller.
    pub(super) async fn zcloud_import(&self, caller: &Caller, query: &str, media: &str, body: Bytes) -> Answered {
        let parameters = Parameters::only(query, &["action"], &[])?;
        if parameters.get("action") != Some("import") {
            return Err(Problem::bad_request("the action of the collection is import").with("parameter", "action"));
        }
        let target = self.secret(None);
        // Whoever may not import is not told what is wrong with their kubeconfig either.
        if !self.reaching.gatekeeper.review(caller, "create", &target).await? {
            return Err(refusal("create", &target));
        }
        let import: Import = serde_json::from_value(document(media, &body)?).map_err(|why| {
            // The words of the failure may repeat a value, and values are secret here.
            let why = why.to_string();
            let known = ["unknown field", "missing field", "invalid type"].iter().find(|known| why.starts_with(**known));
            Problem::bad_request(format!(
                "the import cannot be read ({}); it has name, kubeconfig [context] or server, ca and token, labels, allow, dryRun",
                known.unwrap_or(&"a field has a wrong value")
            ))
        })?;
        check_name(&import.name)?;
        let allow = allowed(&import.allow)?;
        let credentials = match credentials(&import, allow) {
            Ok(credentials) => credentials,
            Err(refusals) => return refused_import(&import, &refusals),
        };
        let exists = self.reaching.fleet.member(&import.name).is_some();
        let mut shown = json!({"name": import.name, "server": credentials.server().to_string(), "user": credentials.identity(),
            "trust": credentials.trust(), "fingerprints": credentials.fingerprints(), "labels": import.labels,
            "allow": import.allow, "dryRun": import.dry_run, "exists": exists, "refused": []});
        if import.dry_run {
            return Ok(of(&import, json_answer(200, &shown)));
        }
        if exists {
            let why = format!(
                "duplicate cluster: there is a cluster {:?} already; delete it first or choose another name",
                import.name
            );
            return Err(Problem::new(409, "AlreadyExists", why).with("cluster", import.name));
        }
        let secret = member_secret(&import.name, &credentials, allow, import.labels.clone());
        let proof = self.reaching.gatekeeper.clone().authorize::<Create>(caller.clone(), target).await?;
        let secret =
            serde_json::to_value(&secret).map_err(|_| Problem::bad_request("the import cannot be written down"))?;
        let url = KNOWN.secrets.url(Some(&self.namespace), None);
        proof.send(Call::new(Method::POST, url, secret)).await?;
        tracing::info!(user = caller.name().unwrap_or("(token)"), cluster = import.name, "imported a cluster");
        self.heard(|fleet| fleet.member(&import.name).is_some()).await;
        shown["imported"] = true.into();
        shown["origin"] = format!("Secret {}/{}", self.namespace, import.name).into();
        Ok(of(&import, json_answer(201, &shown)))
    }

    /// `DELETE …/clusters/{name}`: what declares it is deleted, as the caller.
    pub(super) async fn zcloud_delete(&self, caller: &Caller, places: &Places) -> Answered {
        let name = places.get("name");
        let clusters = What::all(&KNOWN.clusters);
        let _: Reach<Get> = self.reaching.reach(caller, clusters, &Scope::One(name.to_owned())).await?;
        let origin = self.reaching.fleet.origin(name);
        let (kind, namespace, object) = match origin.clone() {
            Some(Origin::Secret(namespace, object)) => (&KNOWN.secrets, namespace, object),
            Some(Origin::ConfigMap(namespace, object)) => (&KNOWN.config_maps, namespace, object),
            Some(Origin::Here(_)) | None => {
                let why = format!(
                    "{name} is part of this process (a simulated cluster) and cannot be taken out while it runs"
                );
                return Err(Problem::new(409, "Conflict", why).with("cluster", name));
            }
        };
        let url = kind.url(Some(&namespace), Some(&object));
        let target = Target::Resource { kind: kind.clone(), namespace: Some(namespace), name: Some(object) };
        let proof = self.reaching.gatekeeper.clone().authorize::<Delete>(caller.clone(), target).await?;
        proof.send(Call::new(Method::DELETE, url, json!({}))).await?;
        tracing::info!(user = caller.name().unwrap_or("(token)"), cluster = name, "took a cluster out of the fleet");
        self.heard(|fleet| fleet.origin(name) != origin).await;
        Ok(json_answer(200, &json!({"name": name, "deleted": true})))
    }

    /// What was answered is what is seen next: waits until the fleet has heard of what was written, though not for long.
    async fn heard(&self, has: impl Fn(&Fleet) -> bool) {
        let fleet = &self.reaching.fleet;
        let mut changed = fleet.changed();
        let hearing = async { while !has(fleet) && changed.changed().await.is_ok() {} };
        let _ = timeout(HEARD, hearing).await;
    }

    fn secret(&self, name: Option<&str>) -> Target {
        let (namespace, name) = (Some(self.namespace.clone()), name.map(str::to_owned));
        Target::Resource { kind: KNOWN.secrets.clone(), namespace, name }
    }

    /// Refuses what is inside a cluster that is not ready, naming its state.
    async fn ready(&self, caller: &Caller, name: &str) -> Result<(), Problem> {
        let clusters = What::all(&KNOWN.clusters);
        let reach: Reach<Get> = self.reaching.reach(caller, clusters, &Scope::One(name.to_owned())).await?;
        let state = reach.one()?.status().state;
        if state.is_ready() {
            return Ok(());
        }
        let why = format!(
            "the cluster {name} is {state}, which is not ready: what is inside it can be had when it is {} or {}",
            State::Running,
            State::Unreachable
        );
        Err(Problem::new(409, "ClusterNotReady", why).with("cluster", name).with("state", state.to_string()))
    }

    pub(super) async fn zcloud_inside(&self, caller: &Caller, places: &Places, query: &str) -> Answered {
        let name = places.get("name");
        self.ready(caller, name).await?;
        let (kind, view) = inside(places.get("plural"))?;
        let mut listing = Listing::parse(name, query, &self.limits)?;
        if let Some(namespace) = places.find("namespace") {
            listing.namespace = Some(namespace.to_owned());
        }
        let gathered = self.look(caller, &view, listing.namespace.as_deref(), &listing.scope).await?;
        let answer = listing.answer(gathered, None).await?;
        let mut answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        let data = answer["items"].take();
        if let Some(fields) = answer.as_object_mut() {
            fields.remove("items");
        }
        answer["type"] = "collection".into();
        answer["resourceType"] = kind.kind.to_lowercase().into();
        answer["data"] = data;
        Ok(bytes(200, "application/json", answer.to_string()))
    }

    pub(super) async fn zcloud_inside_one(&self, caller: &Caller, places: &Places) -> Answered {
        let name = places.get("name");
        self.ready(caller, name).await?;
        let (kind, _) = inside(places.get("plural"))?;
        let mut all = vec![
            ("name", name.to_owned()),
            ("group", kind.group_word().to_owned()),
            ("version", kind.version.clone()),
            ("plural", kind.plural.clone()),
            ("object", places.get("object").to_owned()),
        ];
        all.extend(places.find("namespace").map(|namespace| ("namespace", namespace.to_owned())));
        self.get_object(caller, &Places::of(all), "").await
    }
}

/// What zcloud shows of a cluster.
pub(super) fn inside(plural: &str) -> Result<(Arc<Kind>, View), Problem> {
    let flat = |kind: &Arc<Kind>| View::Flat(kind.clone());
    let view = match plural {
        "pods" => View::Pods,
        "nodes" => View::Nodes,
        "events" => View::Events,
        "endpoints" => View::Endpoints,
        "deployments" => View::Deployments,
        "namespaces" => flat(&KNOWN.namespaces),
        "services" => flat(&KNOWN.services),
        "configmaps" => flat(&KNOWN.config_maps),
        "secrets" => flat(&KNOWN.secrets),
        "statefulsets" => flat(&KNOWN.stateful_sets),
        "daemonsets" => flat(&KNOWN.daemon_sets),
        "jobs" => flat(&KNOWN.jobs),
        "cronjobs" => flat(&KNOWN.cron_jobs),
        "ingresses" => flat(&KNOWN.ingresses),
        _ => {
            let why = "no such part of a cluster; there are namespaces, nodes, pods, deployments, statefulsets, daemonsets, jobs, cronjobs, services, endpoints, ingresses, configmaps, secrets and events";
            return Err(Problem::not_found(why));
        }
    };
    Ok((view.kind().clone(), view))
}

fn check_name(name: &str) -> Result<(), Problem> {
    let wrong = |why: &str| Err(Problem::new(422, "Invalid", format!("the name {why}")).with("field", "name"));
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    match name {
        "all" | META => wrong("is taken: it means more than one cluster; choose another"),
        _ if name.is_empty() || name.len() > 63 => wrong("must have 1 to 63 characters"),
        _ if !name.chars().all(|c| plain(c) || c == '-') || !name.starts_with(plain) || !name.ends_with(plain) => {
            wrong("must be lower-case letters, digits and dashes, and begin and end with a letter or digit")
        }
        _ => Ok(()),
    }
}

fn allowed(words: &[String]) -> Result<Allow, Problem> {
    let mut allow = Allow::default();
    for word in words {
        match word.as_str() {
            "insecure" => allow.insecure = true,
            "system-roots" => allow.system_roots = true,
            "plain-http" => allow.plain_http = true,
            _ => {
                let why = "allow holds insecure, system-roots and plain-http, and nothing else";
                return Err(Problem::bad_request(why).with("field", "allow"));
            }
        }
    }
    Ok(allow)
}

fn credentials(import: &Import, allow: Allow) -> Result<Credentials, Refusals> {
    match (&import.kubeconfig, &import.server) {
        (Some(kubeconfig), None) => Credentials::from_kubeconfig(kubeconfig, import.context.as_deref(), allow),
        (None, Some(server)) => {
            let ca = import.ca.as_deref().unwrap_or_default();
            Credentials::from_token(server, ca, import.token.as_deref().unwrap_or_default(), allow)
        }
        _ => Err(Refusals::from(Refused {
            field: "kubeconfig".to_owned(),
            why: "there must be either a kubeconfig, or a server with ca and token".to_owned(),
            remedy: "give one of them".to_owned(),
        })),
    }
}

/// What is refused of an import, and why: an answer when it was only asked, a refusal otherwise.
fn refused_import(import: &Import, refusals: &Refusals) -> Answered {
    let one = |refused: &Refused| json!({"field": refused.field, "why": refused.why, "remedy": refused.remedy});
    let shown: Vec<Value> = refusals.iter().map(one).collect();
    if import.dry_run {
        let answer = json!({"name": import.name, "labels": import.labels, "allow": import.allow, "dryRun": true, "refused": shown});
        return Ok(of(import, json_answer(200, &answer)));
    }
    let message = match shown.len() {
        1 => refusals.to_string(),
        count => format!("{count} things in it are refused; details.refused names them and what to do"),
    };
    let problem = Problem::new(422, "Refused", message).with("refused", shown).with("cluster", import.name.as_str());
    Err(problem.with("field", refusals.first().field.as_str()))
}

/// Says in an answer which cluster an import made a member, for the audit log: none, when it was only asked.
fn of(import: &Import, mut answer: Response<Body>) -> Response<Body> {
    let touched = Touched {
        cluster: import.name.clone(),
        group: String::new(),
        resource: "clusters".to_owned(),
        namespace: String::new(),
        name: import.name.clone(),
        failed: false,
    };
    let changed = if import.dry_run { vec![] } else { vec![touched] };
    answer.extensions_mut().insert(Arc::new(Changed(changed)));
    answer
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn import(value: Value) -> Import {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn names_of_clusters_are_plain_and_not_words_that_mean_more() {
        // SC-10
        for good in ["prod", "a", "bj5-monit-01", "0"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "all", "meta", "Prod", "-a", "a-", "a.b", "a/b", "é", &"x".repeat(64)] {
            assert_eq!(check_name(bad).unwrap_err().code, 422, "{bad}");
        }
    }

    #[test]
    fn a_kubeconfig_that_would_run_a_program_is_refused_by_its_field() {
        // B-13, SC-10
        let exec = "{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {exec: {command: canary}}}], \
                    contexts: [{name: x, context: {cluster: c, user: u}}]}";
        let asked = import(json!({"name": "prod", "kubeconfig": exec, "dryRun": true}));
        let refused = credentials(&asked, Allow::default()).unwrap_err();
        assert_eq!(refused.first().field, "users[0].user.exec");
        assert_eq!(refused_import(&asked, &refused).unwrap().status(), 200);
        let real = Import { dry_run: false, ..asked };
        let problem = refused_import(&real, &refused).unwrap_err();
        assert!(problem.code == 422 && !problem.to_json().to_string().contains("canary"));
    }

    #[test]
    fn everything_that_is_refused_is_told_at_once() {
        // B-13, SC-10
        let asked = import(json!({"name": "prod", "server": "http://far.example", "ca": "x", "token": "a b\nc"}));
        let refusals = credentials(&asked, Allow::default()).unwrap_err();
        let problem = refused_import(&asked, &refusals).unwrap_err();
        let fields: Vec<&Value> =
            problem.details["refused"].as_array().unwrap().iter().map(|one| &one["field"]).collect();
        assert_eq!(fields, ["server", "ca.crt", "token"]);
        assert!(problem.message.starts_with("3 things"), "{}", problem.message);
    }

    #[test]
    fn a_token_needs_an_authority_and_allow_knows_three_words() {
        // MAE-7
        let token = import(json!({"name": "prod", "server": "https://h:6443", "token": "t"}));
        assert_eq!(credentials(&token, Allow::default()).unwrap_err().first().field, "ca.crt");
        assert!(
            credentials(
                &import(json!({"name": "prod", "server": "http://127.0.0.1:1", "token": "t"})),
                Allow::default()
            )
            .is_ok()
        );
        let nothing = credentials(&import(json!({"name": "prod"})), Allow::default()).unwrap_err();
        assert_eq!(nothing.first().field, "kubeconfig");
        assert!(allowed(&["insecure".to_owned(), "plain-http".to_owned()]).unwrap().insecure);
        assert_eq!(allowed(&["everything".to_owned()]).unwrap_err().code, 400);
        assert!(serde_json::from_value::<Import>(json!({"name": "x", "insecure": true})).is_err());
    }
}
