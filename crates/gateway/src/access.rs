//! The choke point: who may do what is decided by the API itself, for the caller's own credentials, and proved by `Authorized`.
//!
//! Only [`Gatekeeper::authorize`] makes an [`Authorized`]. What the gateway keeps for everybody (caches, documents) can be had
//! with the proof of a verb the API has said yes to; what is passed on (`send`) goes with the caller's credentials, so that the
//! API decides again. No handler holds any other way to the API.

use std::borrow::Cow;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::apiext::catalog::Kind;
use crate::caller::{Caller, CallerKey};
use crate::pace::Pace;
use crate::problem::Problem;
use crate::upstream::{Call, Reply, Upstream};

/// What a route does, in the API's words.
pub(crate) trait Verb: Send + Sync + 'static {
    const NAME: &'static str;
    /// Whether the API is asked before the handler runs. Where not, the handler can only pass the request on.
    const REVIEWED: bool;
}

macro_rules! verbs {
    ($($(#[$doc:meta])* $verb:ident = $name:literal, reviewed: $reviewed:literal;)*) => {
        $($(#[$doc])* pub(crate) struct $verb;
        impl Verb for $verb {
            const NAME: &'static str = $name;
            const REVIEWED: bool = $reviewed;
        })*
    };
}

verbs! {
    /// Rows of a kind, also from the shared cache.
    List = "list", reviewed: true;
    /// Private parts of rows.
    Reveal = "get", reviewed: true;
    /// What there is: kinds and their schemas. Also documents that are no resources: the audit log, the reconcilers.
    Discover = "get", reviewed: true;
    /// Doing something at a path that is no resource.
    Post = "post", reviewed: true;
    Get = "get", reviewed: false;
    Create = "create", reviewed: false;
    Update = "update", reviewed: false;
    Patch = "patch", reviewed: false;
    Delete = "delete", reviewed: false;
}

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// Not a resource but a path: a document of the API, or a part of the gateway.
    Document(Cow<'static, str>),
    Resource {
        kind: Arc<Kind>,
        namespace: Option<String>,
        name: Option<String>,
    },
    /// Something on members. Made and asked by `members::reach` alone.
    Member(OnMember),
}

/// Something on a member, as roles name it: resources of the group `members.muster.dev`, of which the object is the member.
#[derive(Clone, Debug)]
pub(crate) struct OnMember {
    /// `pods`, `deployments.apps`; `clusters` is the member itself.
    pub(crate) resource: String,
    /// `log`, `exec`; empty for the resource itself.
    pub(crate) subresource: &'static str,
    /// On the member.
    pub(crate) namespace: Option<String>,
    /// All members when none is named.
    pub(crate) member: Option<String>,
}

pub(crate) const MEMBERS: &str = "members.muster.dev";

/// Kind, namespace and name.
pub(crate) type Resource<'a> = (&'a Arc<Kind>, Option<&'a str>, Option<&'a str>);

/// Proof that the caller may do `V` to the target, or, for verbs that are passed on, that whatever is done is done as the caller.
pub(crate) struct Authorized<V> {
    caller: Caller,
    target: Target,
    gatekeeper: Arc<Gatekeeper>,
    verb: PhantomData<V>,
}

impl<V: Verb> Authorized<V> {
    /// Calls the API as the caller.
    pub(crate) async fn send(&self, call: Call) -> Result<Reply, Problem> {
        self.gatekeeper.send(&self.caller, call).await
    }

    /// The kind asked for, with namespace and name. Documents have none, and no handler of theirs asks.
    pub(crate) fn resource(&self) -> Result<Resource<'_>, Problem> {
        match &self.target {
            Target::Resource { kind, namespace, name } => Ok((kind, namespace.as_deref(), name.as_deref())),
            Target::Document(_) | Target::Member(_) => Err(Problem::not_found("this path names no resource")),
        }
    }

    /// The same caller and target for another verb, decided anew.
    pub(crate) async fn also<W: Verb>(&self) -> Result<Authorized<W>, Problem> {
        self.gatekeeper.clone().authorize(self.caller.clone(), self.target.clone()).await
    }
}

pub(crate) struct Gatekeeper {
    upstream: Upstream,
    pace: Arc<Pace>,
    ttl: Duration,
    deadline: Duration,
    /// What the API said lately, never older than `ttl`.
    said: Mutex<HashMap<Question, (bool, Instant)>>,
    /// Whose tokens were seen lately, by what stands for them.
    names: Mutex<HashMap<CallerKey, (String, Instant)>>,
}

type Question = (CallerKey, &'static str, String);

const MOST_REMEMBERED: usize = 20_000;
/// A no is believed for a shorter time: a grant should count soon.
const NO_FOR: Duration = Duration::from_secs(1);
/// How long the name behind a token is believed: it is only written down, nothing is decided by it.
const NAME_FOR: Duration = Duration::from_secs(60);

impl Gatekeeper {
    pub(crate) fn new(upstream: Upstream, pace: Arc<Pace>, ttl: Duration, deadline: Duration) -> Arc<Self> {
        let ttl = ttl.min(Duration::from_secs(5));
        Arc::new(Self { upstream, pace, ttl, deadline, said: Mutex::default(), names: Mutex::default() })
    }

    async fn send(&self, caller: &Caller, call: Call) -> Result<Reply, Problem> {
        let reply = self.upstream.send(caller, call, self.deadline).await;
        match &reply {
            Err(problem) if problem.code == 401 => self.pace.forget(caller.key),
            Err(problem) if problem.code >= 500 => {}
            _ => self.pace.recognise(caller.key),
        }
        reply
    }

    /// What the API tells the caller about the caller.
    pub(crate) async fn ask(&self, caller: &Caller, call: Call) -> Result<Reply, Problem> {
        self.send(caller, call).await
    }

    /// Refuses whom the API does not know, before anything else is said to them.
    pub(crate) async fn recognise(&self, caller: &Caller) -> Result<(), Problem> {
        self.review(caller, "get", &Target::Document("/apis".into())).await.map(drop)
    }

    /// The caller's name, for the audit log: of a token, as the API says it.
    pub(crate) async fn name(&self, caller: &Caller) -> String {
        if let Some(name) = caller.name() {
            return name.to_owned();
        }
        let now = Instant::now();
        if let Some((name, until)) = self.names.lock().unwrap_or_else(PoisonError::into_inner).get(&caller.key)
            && *until > now
        {
            return name.clone();
        }
        let reply: Result<Value, Problem> = match self.send(caller, Call::who()).await {
            Ok(reply) => reply.parse(),
            Err(problem) => Err(problem),
        };
        let name = match &reply {
            Ok(reply) => reply["status"]["userInfo"]["username"].as_str().unwrap_or("(token)").to_owned(),
            Err(problem) if problem.code == 401 => return "(unknown)".to_owned(),
            // An API that cannot say it, or does not answer now.
            Err(_) => return "(token)".to_owned(),
        };
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= MOST_REMEMBERED {
            names.retain(|_, (_, until)| *until > now);
        }
        if names.len() < MOST_REMEMBERED {
            names.insert(caller.key, (name.clone(), now + NAME_FOR));
        }
        name
    }

    pub(crate) async fn authorize<V: Verb>(
        self: Arc<Self>,
        caller: Caller,
        target: Target,
    ) -> Result<Authorized<V>, Problem> {
        if V::REVIEWED && !self.review(&caller, V::NAME, &target).await? {
            return Err(refusal(V::NAME, &target));
        }
        Ok(Authorized { caller, target, gatekeeper: self, verb: PhantomData })
    }

    /// Asks the API, as the caller, whether the caller may.
    pub(crate) async fn review(&self, caller: &Caller, verb: &'static str, target: &Target) -> Result<bool, Problem> {
        let attributes = attributes(verb, target);
        let question = (caller.key, verb, attributes.to_string());
        let now = Instant::now();
        if let Some((answer, until)) = self.said.lock().unwrap_or_else(PoisonError::into_inner).get(&question)
            && *until > now
        {
            return Ok(*answer);
        }
        let reply: Value = self.send(caller, Call::review(&attributes)).await?.parse()?;
        let answer = reply["status"]["allowed"] == true;
        let until = now + if answer { self.ttl } else { NO_FOR.min(self.ttl) };
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() >= MOST_REMEMBERED {
            said.retain(|_, (_, until)| *until > now);
        }
        if said.len() < MOST_REMEMBERED {
            said.insert(question, (answer, until));
        }
        Ok(answer)
    }
}

fn attributes(verb: &str, target: &Target) -> Value {
    match target {
        Target::Document(path) => json!({"nonResourceAttributes": {"verb": verb, "path": path}}),
        Target::Resource { kind, namespace, name } => {
            let mut attributes =
                json!({"verb": verb, "group": kind.group, "version": kind.version, "resource": kind.plural});
            for (field, value) in [("namespace", namespace), ("name", name)] {
                if let Some(value) = value {
                    attributes[field] = value.as_str().into();
                }
            }
            json!({"resourceAttributes": attributes})
        }
        Target::Member(OnMember { resource, subresource, namespace, member }) => {
            let mut attributes = json!({"verb": verb, "group": MEMBERS, "version": "v1", "resource": resource});
            let fields = [("namespace", namespace.as_deref()), ("name", member.as_deref())];
            for (field, value) in fields.into_iter().chain([("subresource", Some(*subresource))]) {
                if let Some(value) = value.filter(|value| !value.is_empty()) {
                    attributes[field] = value.into();
                }
            }
            json!({"resourceAttributes": attributes})
        }
    }
}

pub(crate) fn refusal(verb: &str, target: &Target) -> Problem {
    let (kind, namespace) = match target {
        Target::Resource { kind, namespace, .. } => (kind, namespace),
        Target::Document(path) if matches!(&**path, "/apis" | "/openapi/v3") => {
            return Problem::forbidden("you may not read what this API has");
        }
        Target::Document(path) => {
            let why = format!("you may not {verb} {path}; a ClusterRole with nonResourceURLs [{path}] allows it");
            return Problem::forbidden(why);
        }
        Target::Member(on) => return on.refusal(verb),
    };
    let what = format!("{}.{}", kind.plural, kind.group_word());
    match namespace {
        Some(namespace) => Problem::forbidden(format!(
            "you may not {verb} {what} in the namespace {namespace:?}; ask for a role there"
        )),
        None if kind.namespaced => {
            let path =
                format!("/apiext/v1/{}/{}/namespaces/{{namespace}}/{}", kind.group_word(), kind.version, kind.plural);
            let why =
                format!("you may not {verb} {what} in all namespaces; list one you have rights in with GET {path}");
            Problem::forbidden(why).with("path", path)
        }
        None => Problem::forbidden(format!("you may not {verb} {what}; ask for a cluster role")),
    }
}

impl OnMember {
    fn refusal(&self, verb: &str) -> Problem {
        let what = match self.subresource {
            "" => self.resource.clone(),
            sub => format!("{}/{sub}", self.resource),
        };
        let place = match (&self.namespace, &self.member) {
            (Some(namespace), Some(member)) => format!("in the namespace {namespace:?} of the cluster {member:?}"),
            (Some(namespace), None) => format!("in the namespace {namespace:?} of any cluster"),
            (None, Some(member)) => format!("in all namespaces of the cluster {member:?}"),
            (None, None) => "in all namespaces of any cluster".to_owned(),
        };
        let why = format!(
            "you may not {verb} {what} {place}; ask for a role with {verb} on {what} of the group {MEMBERS}{}",
            if self.namespace.is_none() && self.resource != "clusters" { ", or name a namespace" } else { "" }
        );
        Problem::forbidden(why).with("verb", verb).with("resource", what)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::options::Limits;
    use http::{Request, Response};
    use http_body_util::{BodyExt, Full};
    use kube::Client;
    use kube::client::Body;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use tower::service_fn;

    /// An API that knows the token `good` and lets it list pods in `shop`; counts how often it is asked.
    fn gatekeeper(asked: Arc<AtomicUsize>) -> Arc<Gatekeeper> {
        let service = service_fn(move |request: Request<Body>| {
            asked.fetch_add(1, Relaxed);
            async move {
                let token = request.headers()["authorization"].to_str().unwrap_or_default().to_owned();
                let body: Value =
                    serde_json::from_slice(&request.into_body().collect_bytes().await?).unwrap_or_default();
                let attributes = &body["spec"]["resourceAttributes"];
                let allowed = attributes["verb"] == "list" && attributes["namespace"] == "shop";
                let (code, answer) = match token.as_str() {
                    "Bearer good" => (201, json!({"status": {"allowed": allowed}})),
                    "Bearer down" => (500, json!({"message": "etcd is gone"})),
                    _ => (401, json!({"reason": "Unauthorized", "message": "Unauthorized"})),
                };
                let mut response = Response::new(Full::new(bytes::Bytes::from(answer.to_string())).boxed());
                *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
                Ok::<_, kube::Error>(response)
            }
        });
        let client = Client::new(service, "default");
        let upstream = Upstream::new(client.clone(), client);
        Gatekeeper::new(upstream, Pace::new(&Limits::default()), Duration::from_secs(60), Duration::from_secs(5))
    }

    fn pods(namespace: Option<&str>) -> Target {
        let kind = Arc::new(Kind::for_tests("", "v1", "pods", "Pod"));
        Target::Resource { kind, namespace: namespace.map(str::to_owned), name: None }
    }

    #[tokio::test(start_paused = true)]
    async fn a_yes_is_believed_for_five_seconds_at_most() {
        let asked = Arc::new(AtomicUsize::new(0));
        let gatekeeper = gatekeeper(asked.clone());
        let ask =
            async || gatekeeper.clone().authorize::<List>(Caller::for_tests("good"), pods(Some("shop"))).await.is_ok();
        assert!(ask().await && ask().await);
        assert_eq!(asked.load(Relaxed), 1);
        tokio::time::advance(Duration::from_millis(5_001)).await;
        assert!(ask().await);
        assert_eq!(asked.load(Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_not_shared_between_callers_verbs_or_namespaces() {
        let gatekeeper = gatekeeper(Arc::default());
        let list = async |token: &str, namespace| {
            gatekeeper
                .clone()
                .authorize::<List>(Caller::for_tests(token), pods(namespace))
                .await
                .err()
                .map(|why| why.code)
        };
        assert_eq!(list("good", Some("shop")).await, None);
        assert_eq!(list("bad", Some("shop")).await, Some(401));
        assert_eq!(list("good", Some("other")).await, Some(403));
        assert_eq!(list("good", None).await, Some(403));
        assert_eq!(list("down", Some("shop")).await, Some(502));
        let reveal = gatekeeper.clone().authorize::<Reveal>(Caller::for_tests("good"), pods(Some("shop"))).await;
        assert_eq!(reveal.err().unwrap().code, 403);
    }

    #[tokio::test(start_paused = true)]
    async fn who_may_not_see_all_namespaces_is_told_where_to_look() {
        let why =
            gatekeeper(Arc::default()).authorize::<List>(Caller::for_tests("good"), pods(None)).await.err().unwrap();
        assert!(why.message.contains("/apiext/v1/core/v1/namespaces/{namespace}/pods"), "{why}");
    }
}
