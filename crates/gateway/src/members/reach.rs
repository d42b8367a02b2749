//! The proof for members: what the caller may do to which of them. The only way to a member's memory, its API and its shells.
//!
//! A [`Reach`] is of one kind, one verb and one namespace (or all), and can be had from the API's own word alone; everything that
//! is asked of a member through it is about that kind, in that namespace.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use fleet::{Cache, CallError, Fleet, Member, Status, Subject};
use futures_util::{StreamExt, stream};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use tokio::time::Instant;

use crate::access::{Gatekeeper, Get, List, OnMember, Target, Verb, refusal};
use crate::apiext::catalog::Kind;
use crate::caller::Caller;
use crate::problem::Problem;

/// How long an answer over several members waits for those that have not said everything yet.
pub(super) const PATIENCE: Duration = Duration::from_millis(800);
/// Reviews asked at once for one request, when the caller may not ask for all members together.
const AT_ONCE: usize = 16;
/// Of a refusal no more is read.
const LONGEST_REFUSAL: usize = 256 << 10;

/// Which members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    All,
    /// Those of these names that there are.
    Some(BTreeSet<String>),
    One(String),
}

impl Scope {
    /// How long an answer waits for members. While one alone is waited for there is nothing else to show.
    pub(super) fn patience(&self) -> Duration {
        match self {
            Scope::One(_) => Duration::from_secs(4),
            Scope::All | Scope::Some(_) => PATIENCE,
        }
    }
}

/// What is to be done to.
#[derive(Clone, Debug)]
pub(super) struct What {
    pub(super) kind: Arc<Kind>,
    /// `log`, `exec`; empty for the object itself.
    pub(super) sub: &'static str,
    /// All when there is none.
    pub(super) namespace: Option<String>,
}

impl What {
    pub(super) fn all(kind: &Arc<Kind>) -> Self {
        Self { kind: kind.clone(), sub: "", namespace: None }
    }

    pub(super) fn within(kind: &Arc<Kind>, namespace: Option<&str>) -> Self {
        Self { namespace: namespace.map(str::to_owned), ..Self::all(kind) }
    }

    pub(super) fn sub(self, sub: &'static str) -> Self {
        Self { sub, ..self }
    }

    fn subject(&self) -> Subject {
        let Kind { group, version, plural, .. } = &*self.kind;
        // What Helm keeps is a small part of the Secrets, told by a label.
        if group == "helm.sh" {
            return Subject { selector: Some("owner=helm".to_owned()), ..Subject::new("", "v1", "secrets") };
        }
        Subject::new(group, version, plural)
    }

    fn on(&self, member: Option<&str>) -> Target {
        let Kind { group, plural, .. } = &*self.kind;
        let resource = if group.is_empty() { plural.clone() } else { format!("{plural}.{group}") };
        let (namespace, member) = (self.namespace.clone(), member.map(str::to_owned));
        Target::Member(OnMember { resource, subresource: self.sub, namespace, member })
    }
}

/// Who asks, and whom: makes the proofs.
#[derive(Clone)]
pub(super) struct Reaching {
    pub(super) gatekeeper: Arc<Gatekeeper>,
    pub(super) fleet: Fleet,
}

impl Reaching {
    /// The members of the scope on which the caller may do `V`. Those on which they may not are left out, and not named; if that
    /// leaves none, it is refused.
    pub(super) async fn reach<V: Verb>(&self, caller: &Caller, what: What, scope: &Scope) -> Result<Reach<V>, Problem> {
        let everywhere = self.gatekeeper.review(caller, V::NAME, &what.on(None)).await?;
        let members = match scope {
            Scope::One(name) => {
                let here = what.on(Some(name));
                if !everywhere && !self.gatekeeper.review(caller, V::NAME, &here).await? {
                    return Err(refusal(V::NAME, &here));
                }
                let member = self.fleet.member(name).ok_or_else(|| no_member(name))?;
                vec![member]
            }
            Scope::All | Scope::Some(_) => {
                let mut members = self.fleet.members();
                if let Scope::Some(names) = scope {
                    members.retain(|member| names.contains(&**member.name()));
                }
                if everywhere { members } else { self.each(caller, V::NAME, &what, members).await? }
            }
        };
        if members.is_empty() && !everywhere {
            return Err(refusal(V::NAME, &what.on(None)));
        }
        let subject = what.subject();
        Ok(Reach { reaching: self.clone(), caller: caller.clone(), what, subject, members, verb: PhantomData })
    }

    /// Refuses unless the caller may do this to the member of that name, of which nothing is asked: it need not be one any longer.
    pub(super) async fn may(
        &self,
        caller: &Caller,
        verb: &'static str,
        what: &What,
        member: &str,
    ) -> Result<(), Problem> {
        let here = what.on(Some(member));
        let may = self.gatekeeper.review(caller, verb, &what.on(None)).await?
            || self.gatekeeper.review(caller, verb, &here).await?;
        if may { Ok(()) } else { Err(refusal(verb, &here)) }
    }

    /// Of these names, those on which the caller may. Refused when that is none, of these and of the members there are.
    pub(super) async fn may_on<'a>(
        &self,
        caller: &Caller,
        verb: &'static str,
        what: &What,
        names: BTreeSet<&'a str>,
    ) -> Result<BTreeSet<&'a str>, Problem> {
        if self.gatekeeper.review(caller, verb, &what.on(None)).await? {
            return Ok(names);
        }
        let asked = names.into_iter().map(|name| async move {
            let may = self.gatekeeper.review(caller, verb, &what.on(Some(name))).await?;
            Ok::<_, Problem>(may.then_some(name))
        });
        let asked: Vec<_> = asked.collect();
        let answers: Vec<_> = stream::iter(asked).buffered(AT_ONCE).collect().await;
        let may: BTreeSet<&str> = answers.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
        if may.is_empty() && self.each(caller, verb, what, self.fleet.members()).await?.is_empty() {
            return Err(refusal(verb, &what.on(None)));
        }
        Ok(may)
    }

    /// Those on which the caller may.
    async fn each(
        &self,
        caller: &Caller,
        verb: &'static str,
        what: &What,
        members: Vec<Arc<Member>>,
    ) -> Result<Vec<Arc<Member>>, Problem> {
        let asked = members.into_iter().map(|member| async move {
            let may = self.gatekeeper.review(caller, verb, &what.on(Some(member.name()))).await?;
            Ok::<_, Problem>(may.then_some(member))
        });
        let asked: Vec<_> = asked.collect();
        let answers: Vec<_> = stream::iter(asked).buffered(AT_ONCE).collect().await;
        Ok(answers.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }
}

fn no_member(name: &str) -> Problem {
    let shown: String = name.chars().take(60).collect();
    Problem::not_found(format!("there is no cluster {shown:?}; GET /api/cluster/all lists those there are"))
        .with("cluster", shown)
}

/// Proof that the caller may do `V` to these members' objects of a kind.
pub(crate) struct Reach<V> {
    reaching: Reaching,
    caller: Caller,
    what: What,
    /// The same in the words of members' memories.
    subject: Subject,
    members: Vec<Arc<Member>>,
    verb: PhantomData<V>,
}

impl<V: Verb> Reach<V> {
    pub(super) fn kind(&self) -> &Arc<Kind> {
        &self.what.kind
    }

    pub(super) fn namespace(&self) -> Option<&str> {
        self.what.namespace.as_deref()
    }

    pub(super) fn each(&self) -> impl ExactSizeIterator<Item = Reached<'_, V>> {
        self.members.iter().map(|member| Reached { member, reach: self })
    }

    /// The member, of a proof for one.
    pub(super) fn one(&self) -> Result<Reached<'_, V>, Problem> {
        match self.members.as_slice() {
            [member] => Ok(Reached { member, reach: self }),
            _ => Err(Problem::bad_request("name one cluster: this cannot be done to several")),
        }
    }

    /// The same for another verb, decided anew, on the members of this proof.
    pub(super) async fn also<W: Verb>(&self) -> Result<Reach<W>, Problem> {
        let scope = match self.members.as_slice() {
            [member] => Scope::One(member.name().to_string()),
            members => Scope::Some(members.iter().map(|member| member.name().to_string()).collect()),
        };
        self.reaching.reach(&self.caller, self.what.clone(), &scope).await
    }

    /// Asks again, for what stays open: on the one member, or on any of them.
    pub(super) async fn still(&self) -> Result<(), Problem> {
        self.also::<V>().await.map(drop)
    }
}

/// One member of a proof.
pub(super) struct Reached<'a, V> {
    member: &'a Arc<Member>,
    reach: &'a Reach<V>,
}

impl<V> Clone for Reached<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Reached<'_, V> {}

/// A request about the objects of a proof.
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    /// None for the collection.
    pub(super) object: Option<&'a str>,
    /// Encoded; empty for none.
    pub(super) query: String,
    pub(super) media: &'static str,
    pub(super) body: Vec<u8>,
}

impl<'a> Ask<'a> {
    pub(super) fn get(object: &'a str) -> Self {
        Self { method: Method::GET, object: Some(object), query: String::new(), media: "", body: vec![] }
    }

    pub(super) fn patch(object: &'a str, media: &'static str, body: &serde_json::Value) -> Self {
        let body = body.to_string().into_bytes();
        Self { method: Method::PATCH, object: Some(object), query: String::new(), media, body }
    }

    pub(super) fn with(self, query: String) -> Self {
        Self { query, ..self }
    }
}

impl Reached<'_, List> {
    /// What is kept in memory of its objects of the kind: of all namespaces, so whoever shows them must keep to the proof's.
    pub(super) fn cache(&self) -> Arc<Cache> {
        self.member.caches().open(&self.reach.subject)
    }

    /// The objects in the proof's namespace, from the member itself.
    pub(super) async fn list(&self) -> Result<fleet::Listed, kube::Error> {
        let selection =
            fleet::Selection { namespace: self.reach.what.namespace.clone(), ..fleet::Selection::default() };
        self.member.caches().list(&self.reach.subject, &selection, std::time::Duration::ZERO).await
    }

    /// A Secret in which Helm keeps a release, with its contents: only with the right to see releases.
    pub(super) async fn release(&self, namespace: &str, secret: &str) -> Result<bytes::Bytes, Problem> {
        let ours = self.reach.what.namespace.as_deref().is_none_or(|only| only == namespace);
        if self.reach.kind().group != "helm.sh" || !ours || !secret.starts_with("sh.helm.release.v1.") {
            return Err(Problem::new(500, "InternalError", "this right is not one to a release"));
        }
        let url = super::views::KNOWN.secrets.url(Some(namespace), Some(secret));
        let wrong = |_| Problem::bad_request("this cannot be passed on to the cluster");
        let response = self.pass(Request::get(url).body(Body::empty()).map_err(wrong)?).await?;
        let body = response.into_body().collect().await;
        body.map(|body| body.to_bytes()).map_err(|_| Problem::new(502, "ClusterFailed", "the answer broke off"))
    }
}

impl Reached<'_, Get> {
    /// An object of the proof as it was when the member was last heard, for a member that cannot be asked; and since when it is
    /// not kept up to date. Secrets are in memory without their values, which is not what was asked for.
    pub(super) fn remembered(&self, object: &str) -> Option<(fleet::Bytes, Option<Instant>)> {
        let subject = &self.reach.subject;
        if subject.group.is_empty() && subject.plural == "secrets" {
            return None;
        }
        let cache = self.member.caches().followed(subject)?;
        let found = cache.get(&fleet::Key::new(self.reach.namespace(), object)).ok()??;
        Some((found, cache.stale_since()))
    }
}

impl<V: Verb> Reached<'_, V> {
    pub(super) fn name(&self) -> &Arc<str> {
        self.member.name()
    }

    /// The proof's.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.reach.namespace()
    }

    pub(super) fn status(&self) -> Status {
        self.member.status()
    }

    /// Its state, and a word when it changes.
    pub(super) fn watch(&self) -> tokio::sync::watch::Receiver<Status> {
        self.member.watch()
    }

    /// Returns when the member is lost; what is open to it then brings nothing more.
    pub(super) fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut watch = self.member.watch();
        async move {
            let _ = watch.wait_for(|status| status.state == fleet::State::Unreachable).await;
        }
    }

    /// The member itself: only with a proof about members, not about what is on them.
    pub(super) fn itself(&self) -> Result<&Arc<Member>, Problem> {
        if self.reach.kind().plural == "clusters" && self.reach.kind().group.is_empty() {
            Ok(self.member)
        } else {
            Err(Problem::new(500, "InternalError", "this right is not one to the cluster itself"))
        }
    }

    /// What its API says to a request, as it comes. A refusal is a problem that names the member.
    pub(super) async fn open(&self, ask: Ask<'_>) -> Result<Response<Body>, Problem> {
        let What { kind, sub, namespace } = &self.reach.what;
        if kind.namespaced && namespace.is_none() {
            return Err(Problem::bad_request(format!("{} lives in a namespace: name it", kind.kind)));
        }
        let mut url = kind.url(namespace.as_deref(), ask.object);
        if !sub.is_empty() {
            url = format!("{url}/{sub}");
        }
        if !ask.query.is_empty() {
            url = format!("{url}?{}", ask.query);
        }
        let wrong = |_| Problem::bad_request("this cannot be passed on to the cluster");
        let body = if ask.body.is_empty() { Body::empty() } else { Body::from(ask.body) };
        let mut request = Request::builder().method(ask.method).uri(url).body(body).map_err(wrong)?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json, */*"));
        if !ask.media.is_empty() {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(ask.media));
        }
        self.pass(request).await
    }

    /// Sends a request that somebody in this room made of the proof.
    async fn pass(&self, request: Request<Body>) -> Result<Response<Body>, Problem> {
        let response = self.member.client().send(request).await.map_err(|error| self.trouble(&error))?;
        let status = response.status();
        if status.is_success() || status == http::StatusCode::SWITCHING_PROTOCOLS {
            return Ok(response);
        }
        let body = Limited::new(response.into_body(), LONGEST_REFUSAL).collect().await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        Err(self.refused(status.as_u16(), &body))
    }

    /// The same for what becomes another protocol: `headers` are those of the handshake.
    pub(super) async fn upgrade(
        &self,
        object: &str,
        query: &str,
        headers: &[(http::HeaderName, HeaderValue)],
    ) -> Result<Response<Body>, Problem> {
        let What { kind, sub, namespace } = &self.reach.what;
        let url = format!("{}/{sub}?{query}", kind.url(namespace.as_deref(), Some(object)));
        let wrong = |_| Problem::bad_request("this cannot be passed on to the cluster");
        let mut request = Request::get(url).body(Body::empty()).map_err(wrong)?;
        request.headers_mut().extend(headers.iter().cloned());
        self.pass(request).await
    }

    /// The whole of a good answer.
    pub(super) async fn send(&self, ask: Ask<'_>) -> Result<bytes::Bytes, Problem> {
        let body = self.open(ask).await?.into_body().collect().await;
        body.map(|body| body.to_bytes()).map_err(|error| {
            let why = format!("the answer of the cluster {} broke off: {error}", self.name());
            Problem::new(502, "ClusterFailed", why).with("cluster", &**self.name())
        })
    }

    fn refused(&self, code: u16, body: &[u8]) -> Problem {
        let problem = Problem::from_api(code, body);
        let name = self.name();
        let problem = match code {
            // The caller's right was proved: it is our account there that lacks one.
            401 | 403 => Problem::new(
                502,
                "ClusterRefused",
                format!(
                    "the cluster {name} does not let muster do this: {}; give muster's account there the right (GET /wapi/v1/member-role)",
                    problem.message
                ),
            ),
            500.. => Problem { code: 502, reason: "ClusterFailed".to_owned(), ..problem },
            _ => problem,
        };
        problem.with("cluster", &**name)
    }

    pub(super) fn trouble(&self, error: &kube::Error) -> Problem {
        let words = fleet::words(error);
        let problem = match CallError::of(error) {
            Some(CallError::Unreachable { .. }) => Problem::new(503, "ClusterUnreachable", words),
            Some(CallError::Left { .. }) => Problem::not_found(words),
            Some(CallError::Slow { .. }) => Problem::new(504, "ClusterSlow", words),
            Some(CallError::Busy { .. }) => Problem::too_many(words),
            Some(CallError::TooLarge { .. }) => Problem::new(422, "TooLarge", words),
            Some(CallError::Redirected { .. } | CallError::Cut { .. }) | None => {
                Problem::new(502, "ClusterFailed", format!("the cluster {} failed: {words}", self.name()))
            }
        };
        problem.with("cluster", &**self.name())
    }
}
