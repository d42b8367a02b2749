//! Any kind on a member: lists, one object flat or as it is, apply with dry run, delete, actions. The meta API too, under the name `meta`.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use http::Method;
use http::header::{HeaderName, HeaderValue};
use jiff::{SignedDuration, Timestamp};
use kube::core::DynamicObject;
use serde_json::{Map, Value, json};

use super::Members;
use super::kinds::{named, no_kind};
use super::listing::{Listing, Parameters, with_items};
use super::reach::{Ask, Reach, Scope, What};
use super::route::Places;
use super::views::View;
use crate::access::{Authorized, Delete, Get, List, Patch, Target, Verb};
use crate::apiext::actions::{Input, Plan};
use crate::apiext::catalog::Kind;
use crate::apiext::page::render;
use crate::apiext::query::ListQuery;
use crate::apiext::row::{Row, Show};
use crate::caller::Caller;
use crate::problem::Problem;
use crate::trail::Changed;
use crate::upstream::Call;
use crate::visit::{Answered, bytes, json as json_answer};

/// The meta API, where a member's name may stand.
pub(super) const META: &str = "meta";
/// Whose fields they are that are applied here.
const MANAGER: &str = "muster-console";
/// Since when an object of a member that is away is not known to be so.
const STALE: HeaderName = HeaderName::from_static("x-muster-stale");
const TRIES: usize = 5;
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";

/// Where an object is: on a member or in the meta API, with the proof for it.
enum Spot<V> {
    Member(Reach<V>),
    Meta(Authorized<V>),
}

impl<V: Verb> Spot<V> {
    /// One request about the object. `sub` is asked for as a right of its own on members, and decided by the API itself in meta.
    async fn send(&self, kind: &Kind, ask: Ask<'_>) -> Result<Bytes, Problem> {
        match self {
            Spot::Member(reach) => reach.one()?.send(ask).await,
            Spot::Meta(proof) => {
                let (_, namespace, _) = proof.resource()?;
                let url = kind.url(namespace, ask.object);
                let url = if ask.query.is_empty() { url } else { format!("{url}?{}", ask.query) };
                let body = match ask.body.is_empty() {
                    true => None,
                    false => Some(serde_json::from_slice(&ask.body).unwrap_or_default()),
                };
                let call = Call::sending(ask.method, url, ask.media, body);
                proof.send(call).await.map(|reply| reply.body)
            }
        }
    }
}

/// An object that a path names.
struct Named<'a> {
    cluster: &'a str,
    kind: Arc<Kind>,
    namespace: Option<&'a str>,
    object: &'a str,
}

impl Members {
    /// The proof for one object's kind and namespace.
    async fn spot<V: Verb>(&self, caller: &Caller, named: &Named<'_>, sub: &'static str) -> Result<Spot<V>, Problem> {
        if named.cluster == META {
            let namespace = named.namespace.map(str::to_owned);
            let target = Target::Resource { kind: named.kind.clone(), namespace, name: Some(named.object.to_owned()) };
            return self.reaching.gatekeeper.clone().authorize(caller.clone(), target).await.map(Spot::Meta);
        }
        let what = What::within(&named.kind, named.namespace).sub(sub);
        self.reaching.reach(caller, what, &Scope::One(named.cluster.to_owned())).await.map(Spot::Member)
    }

    /// The object a path names, with its kind as the cluster has it. Whether the caller may see any of it is decided first.
    async fn named<'a>(&self, caller: &Caller, places: &'a Places) -> Result<Named<'a>, Problem> {
        let (cluster, asked) = (places.get("name"), named(places));
        if cluster == "all" {
            return Err(Problem::bad_request("name one cluster: an object is on one"));
        }
        let namespace = places.find("namespace");
        let kind = if cluster == META {
            self.reaching.gatekeeper.recognise(caller).await?;
            self.apiext.catalog.find(&asked.group, &asked.version, &asked.plural).await?
        } else {
            let what = What::within(&asked, namespace);
            let scope = Scope::One(cluster.to_owned());
            let _: Reach<Get> = self.reaching.reach(caller, what, &scope).await?;
            self.kind_on(cluster, &asked, &scope).await.map_err(|why| {
                let code = if why.reason == "Slow" { 504 } else { 503 };
                Problem::new(code, &format!("Cluster{}", why.reason), format!("the cluster {cluster}: {}", why.message))
                    .with("cluster", cluster)
            })?
        };
        let kind = kind.ok_or_else(|| no_kind(&asked))?;
        match (kind.namespaced, namespace) {
            (true, None) => Err(Problem::bad_request(format!(
                "{} lives in a namespace: …/namespaces/{{namespace}}/{}",
                kind.kind, kind.plural
            ))),
            (false, Some(_)) => Err(Problem::not_found(format!("{} has no namespace", kind.kind))),
            _ => Ok(Named { cluster, kind, namespace, object: places.get("object") }),
        }
    }

    /// `GET …/{plural}`
    pub(super) async fn list_kind(&self, caller: &Caller, places: &Places, query: &str) -> Answered {
        let asked = named(places);
        let mut listing = Listing::parse(places.get("name"), query, &self.limits)?;
        if let Some(namespace) = places.find("namespace") {
            listing.namespace = Some(namespace.to_owned());
        }
        if places.get("name") == META {
            return self.list_meta(caller, &asked, &listing).await;
        }
        let what = What::within(&asked, listing.namespace.as_deref());
        let reach: Reach<List> = self.reaching.reach(caller, what, &listing.scope).await?;
        let names: Vec<Arc<str>> = reach.each().map(|reached| reached.name().clone()).collect();
        let kinds = join_all(names.iter().map(|name| self.kind_on(name, &asked, &listing.scope))).await;
        let (mut having, mut unanswered, mut kind) = (Vec::new(), Vec::new(), None);
        for (name, found) in names.iter().zip(kinds) {
            match found {
                Ok(Some(found)) => {
                    kind.get_or_insert(found);
                    having.push(name.to_string());
                }
                // It has no such kind: there is nothing of it, and nothing missing.
                Ok(None) => {}
                // What it had when it was last heard of may still be known.
                Err(why) => unanswered.push(why),
            }
        }
        let Some(kind) = kind else {
            if unanswered.is_empty() && !names.is_empty() {
                return Err(no_kind(&asked));
            }
            let mut gathered = super::gather::Gathered::default();
            gathered.unanswered = unanswered;
            return Ok(bytes(200, "application/json", listing.answer(gathered, None).await?));
        };
        having.extend(unanswered.iter().map(|why| why.cluster.to_string()));
        let what = What::within(&asked, listing.namespace.as_deref());
        let reach: Reach<List> = self.reaching.reach(caller, what, &Scope::Some(having.into_iter().collect())).await?;
        let mut gathered = self.tables.gather(&reach, &View::Flat(kind), listing.scope.patience()).await;
        for one in &mut gathered.unanswered {
            if let Some(why) = unanswered.iter().find(|why| why.cluster == one.cluster) {
                *one = why.clone();
            }
        }
        Ok(bytes(200, "application/json", listing.answer(gathered, None).await?))
    }

    /// A list of the meta API, as APIExt makes it, in the shape of lists over members.
    async fn list_meta(&self, caller: &Caller, asked: &Kind, listing: &Listing) -> Answered {
        self.reaching.gatekeeper.recognise(caller).await?;
        let kind = self.apiext.catalog.find(&asked.group, &asked.version, &asked.plural).await?;
        let kind = kind.ok_or_else(|| no_kind(asked))?;
        let target = Target::Resource { kind, namespace: listing.namespace.clone(), name: None };
        let proof = self.reaching.gatekeeper.clone().authorize::<List>(caller.clone(), target).await?;
        let page = self.apiext.page(&proof, &listing.query).await?;
        let mark = format!("{{\"cluster\":\"{META}\",");
        let items: Vec<Vec<u8>> = page.items.iter().map(|item| [mark.as_bytes(), &item[1..]].concat()).collect();
        let mut tail = json!({"count": page.count, "pageSize": listing.query.page_size, "unanswered": [], "stale": []});
        if let crate::apiext::query::From::Page(number) = listing.query.from {
            tail["page"] = number.into();
        }
        if let Some(cursor) = page.cursor {
            tail["cursor"] = cursor.into();
        }
        if let Some(counts) = page.counts {
            tail["counts"] = counts;
        }
        Ok(bytes(200, "application/json", with_items(&items, &tail.to_string())))
    }

    /// `GET …/{object}`
    pub(super) async fn get_object(&self, caller: &Caller, places: &Places, query: &str) -> Answered {
        let parameters = Parameters::only(query, &["raw", "fields"], &[])?;
        let raw = parameters.flag("raw")?;
        let fields = match parameters.get("fields") {
            Some(text) => {
                let query = form_urlencoded::Serializer::new(String::new()).append_pair("fields", text).finish();
                ListQuery::parse(&query, &self.limits)?.fields
            }
            None => vec![],
        };
        let (named, body, stale) = match self.read_object(caller, places).await {
            Ok((named, body)) => (named, body, None),
            Err(problem) if is_away(&problem) => match self.remembered(caller, places).await? {
                Some((named, body, since)) => (named, body, Some(since)),
                None => return Err(problem),
            },
            Err(problem) => return Err(problem),
        };
        let shown = match raw {
            true => whole(&body)?.to_string().into_bytes(),
            false => render(&flat(&body, &named)?, &fields),
        };
        let Some(since) = stale else { return Ok(bytes(200, "application/json", shown)) };
        marked_stale(shown, raw, named.cluster, &since.to_string())
    }

    async fn read_object<'a>(&self, caller: &Caller, places: &'a Places) -> Result<(Named<'a>, Bytes), Problem> {
        let named = self.named(caller, places).await?;
        let spot: Spot<Get> = self.spot(caller, &named, "").await?;
        let body = spot.send(&named.kind, Ask::get(named.object)).await?;
        Ok((named, body))
    }

    /// The object of a member that cannot be asked, as it was when the member was last heard. The right to it is asked as ever.
    async fn remembered<'a>(
        &self,
        caller: &Caller,
        places: &'a Places,
    ) -> Result<Option<(Named<'a>, Bytes, Timestamp)>, Problem> {
        let (cluster, asked) = (places.get("name"), named(places));
        let (namespace, object) = (places.find("namespace"), places.get("object"));
        let what = What::within(&asked, namespace);
        let reach: Reach<Get> = self.reaching.reach(caller, what, &Scope::One(cluster.to_owned())).await?;
        let Some(kind) = self.kind_once_on(cluster, &asked) else { return Ok(None) };
        let Some((found, since)) = reach.one()?.remembered(object) else { return Ok(None) };
        // In memory it is without what all of its kind have in common.
        let mut whole: Value = serde_json::from_slice(&found.json()).map_err(|_| unreadable())?;
        whole["apiVersion"] = kind.api_version().into();
        whole["kind"] = kind.kind.clone().into();
        let ago = since.map(|since| since.elapsed()).unwrap_or_default();
        let since = Timestamp::now() - SignedDuration::try_from(ago).unwrap_or_default();
        let named = Named { cluster, kind, namespace, object };
        Ok(Some((named, whole.to_string().into_bytes().into(), since)))
    }

    /// `PUT …/{object}`: server-side apply of a whole object.
    pub(super) async fn apply(
        &self,
        caller: &Caller,
        places: &Places,
        query: &str,
        media: &str,
        body: Bytes,
    ) -> Answered {
        let parameters = Parameters::only(query, &["dryRun", "force"], &[])?;
        let (dry, force) = (parameters.flag("dryRun")?, parameters.flag("force")?);
        let object = super::input::document(media, &body)?;
        let named = self.named(caller, places).await?;
        let object = to_apply(object, &named)?;
        let spot: Spot<Patch> = self.spot(caller, &named, "").await?;
        let dry_run = if dry { "&dryRun=All" } else { "" };
        let query = format!("fieldManager={MANAGER}&fieldValidation=Strict&force={force}{dry_run}");
        let ask = Ask::patch(named.object, APPLY, &object).with(query);
        let answer = spot.send(&named.kind, ask).await.map_err(conflicts)?;
        let mut answer = json_answer(200, &whole(&answer)?);
        match dry {
            true => drop(answer.extensions_mut().insert(Arc::new(Changed::default()))),
            false => self.note(caller, "apply", &named),
        }
        Ok(answer)
    }

    /// `DELETE …/{object}`
    pub(super) async fn delete_object(&self, caller: &Caller, places: &Places, query: &str) -> Answered {
        let parameters = Parameters::only(query, &["propagation"], &[])?;
        let propagation = match parameters.get("propagation") {
            None | Some("background") => "Background",
            Some("foreground") => "Foreground",
            Some("orphan") => "Orphan",
            Some(_) => {
                return Err(Problem::bad_request("propagation is background, foreground or orphan")
                    .with("parameter", "propagation"));
            }
        };
        let named = self.named(caller, places).await?;
        let spot: Spot<Delete> = self.spot(caller, &named, "").await?;
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation});
        let ask = Ask {
            method: Method::DELETE,
            object: Some(named.object),
            query: String::new(),
            media: "application/json",
            body: options.to_string().into_bytes(),
        };
        let answer: Value = serde_json::from_slice(&spot.send(&named.kind, ask).await?).unwrap_or_default();
        self.note(caller, "delete", &named);
        // The object itself comes back while something (a finalizer, a grace period) still holds it.
        let waits = answer["metadata"]["deletionTimestamp"].is_string();
        let mut shown = json!({"cluster": named.cluster, "name": named.object, "deleted": !waits});
        if let Some(namespace) = named.namespace {
            shown["namespace"] = namespace.into();
        }
        Ok(json_answer(200, &shown))
    }

    /// `POST …/{object}/{action}`
    pub(super) async fn act(&self, caller: &Caller, places: &Places, media: &str, body: Bytes) -> Answered {
        let body = if body.is_empty() { json!({}) } else { super::input::document(media, &body)? };
        if !body.is_object() {
            return Err(Problem::bad_request("the body must be a JSON object"));
        }
        let named = self.named(caller, places).await?;
        let Some(action) = self.actions.find(&named.kind, places.get("action")) else {
            let known: Vec<&str> = self.actions.of(&named.kind).iter().map(|action| action.name.as_str()).collect();
            let there = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let why = format!("{} has no such action; it has {there}", named.kind.kind);
            return Err(Problem::not_found(why).with("actions", known));
        };
        let read: Spot<Get> = self.spot(caller, &named, "").await?;
        let mut tries = 0;
        loop {
            tries += 1;
            let body_now = read.send(&named.kind, Ask::get(named.object)).await?;
            let object: Value = serde_json::from_slice(&body_now).map_err(|_| unreadable())?;
            let input = Input { kind: &named.kind, object: &object, body: &body, now: Timestamp::now() };
            let done = match action.plan(&input)? {
                Plan::Nothing => Ok(()),
                Plan::Patch(mut patch) => {
                    patch["metadata"]["resourceVersion"] = object["metadata"]["resourceVersion"].clone();
                    let spot: Spot<Patch> = self.spot(caller, &named, "").await?;
                    spot.send(&named.kind, Ask::patch(named.object, MERGE, &patch)).await.map(drop)
                }
                Plan::Scale(patch) => self.scale(caller, &named, &patch).await,
            };
            match done {
                Ok(()) => {
                    self.note(caller, places.get("action"), &named);
                    let after = read.send(&named.kind, Ask::get(named.object)).await?;
                    return Ok(bytes(200, "application/json", render(&flat(&after, &named)?, &[])));
                }
                Err(why) if why.code == 409 && tries < TRIES => {}
                Err(why) => return Err(why),
            }
        }
    }

    async fn scale(&self, caller: &Caller, named: &Named<'_>, patch: &Value) -> Result<(), Problem> {
        let spot: Spot<Patch> = self.spot(caller, named, "scale").await?;
        match &spot {
            Spot::Member(_) => spot.send(&named.kind, Ask::patch(named.object, MERGE, patch)).await.map(drop),
            Spot::Meta(proof) => {
                let url = format!("{}/scale", named.kind.url(named.namespace, Some(named.object)));
                proof.send(Call::merge(url, patch.clone())).await.map(drop)
            }
        }
    }

    /// Who did what, for the operator's log: on members it is done in muster's name.
    fn note(&self, caller: &Caller, what: &str, named: &Named<'_>) {
        let user = caller.name().unwrap_or("(token)");
        let (cluster, kind, object) = (named.cluster, &named.kind.kind, named.object);
        tracing::info!(user, what, cluster, %kind, namespace = named.namespace, object, "changed an object");
    }
}

/// Whether a problem is that the member cannot be asked now.
fn is_away(problem: &Problem) -> bool {
    matches!(problem.reason.as_str(), "ClusterUnreachable" | "ClusterConnecting" | "ClusterSlow")
}

/// Says of an object since when it is not known to be so, as lists say it. One that is shown as it is stays as it is: there only the
/// header says it.
fn marked_stale(shown: Vec<u8>, raw: bool, cluster: &str, since: &str) -> Answered {
    let shown = match raw {
        true => shown,
        false => {
            let mut row: Value = serde_json::from_slice(&shown).map_err(|_| unreadable())?;
            row["stale"] = json!([{"cluster": cluster, "since": since}]);
            row.to_string().into_bytes()
        }
    };
    let mut answer = bytes(200, "application/json", shown);
    let since = HeaderValue::from_str(since).map_err(|_| unreadable())?;
    answer.headers_mut().insert(STALE, since);
    Ok(answer)
}

fn unreadable() -> Problem {
    Problem::new(502, "ClusterFailed", "the cluster gave an answer that cannot be read")
}

/// The object as it is, without bookkeeping.
fn whole(body: &[u8]) -> Result<Value, Problem> {
    let mut object: Value = serde_json::from_slice(body).map_err(|_| unreadable())?;
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    Ok(object)
}

fn flat(body: &[u8], named: &Named<'_>) -> Result<Row, Problem> {
    let object: DynamicObject = serde_json::from_slice(body).map_err(|_| unreadable())?;
    Ok(Row::new_on(object, &named.kind, Show::Private, named.cluster))
}

/// What is applied: the object as the path names it, without what only the server writes.
fn to_apply(object: Value, named: &Named<'_>) -> Result<Value, Problem> {
    let Value::Object(mut object) = object else {
        return Err(Problem::bad_request("the body must be a whole Kubernetes object"));
    };
    let differs = |field: &str, said: &Value, there: &str| {
        let why = format!("{field} in the body is not that of the path, which says {there:?}");
        (!said.is_null() && said.as_str() != Some(there)).then(|| Problem::bad_request(why).with("field", field))
    };
    let of = |object: &Map<String, Value>, field: &str| object.get(field).cloned().unwrap_or_default();
    let wrong = differs("apiVersion", &of(&object, "apiVersion"), &named.kind.api_version())
        .or_else(|| differs("kind", &of(&object, "kind"), &named.kind.kind));
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    object.insert("apiVersion".to_owned(), named.kind.api_version().into());
    object.insert("kind".to_owned(), named.kind.kind.clone().into());
    if named.kind.has_status {
        object.remove("status");
    }
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    let Value::Object(metadata) = metadata else {
        return Err(Problem::bad_request("metadata must be an object").with("field", "metadata"));
    };
    let wrong = differs("metadata.name", &of(metadata, "name"), named.object)
        .or_else(|| named.namespace.and_then(|there| differs("metadata.namespace", &of(metadata, "namespace"), there)));
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    for made in ["managedFields", "uid", "creationTimestamp", "generation", "selfLink", "deletionTimestamp"] {
        metadata.remove(made);
    }
    metadata.insert("name".to_owned(), named.object.into());
    match named.namespace {
        Some(namespace) => metadata.insert("namespace".to_owned(), namespace.into()),
        None => metadata.remove("namespace"),
    };
    Ok(Value::Object(object))
}

/// A refused apply names the fields, and who owns them.
fn conflicts(mut problem: Problem) -> Problem {
    if problem.code != 409 {
        return problem;
    }
    let causes = problem.details["causes"].as_array().cloned().unwrap_or_default();
    let conflicts = causes.iter().filter_map(|cause| {
        // `conflict with "kubectl" using apps/v1`
        let manager = cause["message"].as_str()?.split('"').nth(1)?;
        Some(json!({"field": cause["field"], "manager": manager}))
    });
    problem.details["conflicts"] = conflicts.collect();
    problem
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn named() -> Named<'static> {
        let kind = Arc::new(Kind { has_status: true, ..Kind::for_tests("apps", "v1", "deployments", "Deployment") });
        Named { cluster: "m", kind, namespace: Some("shop"), object: "web" }
    }

    #[test]
    fn what_only_the_server_writes_is_not_applied() {
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 2}, "status": {"x": 1},
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7", "generation": 3,
                "creationTimestamp": "z", "managedFields": [1], "labels": {"a": "b"}}});
        assert_eq!(
            to_apply(object, &named()).unwrap(),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 2},
                "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "7", "labels": {"a": "b"}}})
        );
        let short = to_apply(json!({"spec": {}}), &named()).unwrap();
        assert_eq!((short["kind"].as_str(), short["metadata"]["name"].as_str()), (Some("Deployment"), Some("web")));
    }

    #[test]
    fn a_body_that_contradicts_its_path_is_refused_by_the_field() {
        for (body, field) in [
            (json!({"kind": "Pod"}), "kind"),
            (json!({"apiVersion": "v1"}), "apiVersion"),
            (json!({"metadata": {"name": "db"}}), "metadata.name"),
            (json!({"metadata": {"namespace": "other"}}), "metadata.namespace"),
            (json!({"metadata": {"name": 5}}), "metadata.name"),
            (json!({"metadata": []}), "metadata"),
        ] {
            let problem = to_apply(body.clone(), &named()).unwrap_err();
            assert_eq!((problem.code, problem.details["field"].as_str()), (400, Some(field)), "{body}");
        }
        assert_eq!(to_apply(json!([]), &named()).unwrap_err().code, 400);
    }

    #[test]
    fn a_conflict_names_fields_and_their_owners() {
        let status = json!({"reason": "Conflict", "message": "Apply failed with 1 conflict", "details": {"causes": [
            {"reason": "FieldManagerConflict", "message": "conflict with \"kubectl\" using apps/v1", "field": ".spec.replicas"}]}});
        let problem = conflicts(Problem::from_api(409, status.to_string().as_bytes()));
        assert_eq!(problem.details["conflicts"], json!([{"field": ".spec.replicas", "manager": "kubectl"}]));
    }
}
