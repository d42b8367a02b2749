//! The way to the Kubernetes API: as the caller, and, for what all callers share (discovery, caches), as the gateway itself.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{Method, Request};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use kube::config::AuthInfo;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::caller::{Caller, Way};
use crate::problem::Problem;

/// Two clients for one API.
#[derive(Clone)]
pub struct Upstream {
    /// With the gateway's own credentials: may list and watch what it shows, and impersonate if client certificates are used.
    own: Client,
    /// With no credentials at all: what it sends carries the caller's.
    bare: Client,
}

const LARGEST_ANSWER: usize = 64 << 20;

/// A request to the API, on behalf of somebody.
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) url: String,
    pub(crate) media: &'static str,
    pub(crate) body: Option<Value>,
    /// Whether it is the gateway that wants to know.
    question: bool,
}

/// Stands in the extensions of a request by which the gateway asks, as its caller, whether the caller may: for who serves the API in
/// the same process and keeps an audit log. Nobody else can make one.
#[derive(Clone, Copy, Debug)]
pub struct RightsQuestion(());

impl Call {
    pub(crate) fn get(url: String) -> Self {
        Self { method: Method::GET, url, media: "", body: None, question: false }
    }

    pub(crate) fn new(method: Method, url: String, body: Value) -> Self {
        Self::sending(method, url, "application/json", Some(body))
    }

    pub(crate) fn sending(method: Method, url: String, media: &'static str, body: Option<Value>) -> Self {
        Self { method, url, media, body, question: false }
    }

    /// What the caller may do, asked by the gateway for itself.
    pub(crate) fn review(attributes: &Value) -> Self {
        let review =
            json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": attributes});
        let url = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned();
        Self { question: true, ..Self::new(Method::POST, url, review) }
    }

    /// Who the caller is, asked by the gateway for itself.
    pub(crate) fn who() -> Self {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let url = "/apis/authentication.k8s.io/v1/selfsubjectreviews".to_owned();
        Self { question: true, ..Self::new(Method::POST, url, review) }
    }

    pub(crate) fn merge(url: String, patch: Value) -> Self {
        Self::sending(Method::PATCH, url, "application/merge-patch+json", Some(patch))
    }
}

/// A good answer of the API.
pub(crate) struct Reply {
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T, Problem> {
        serde_json::from_slice(&self.body).map_err(|why| {
            Problem::new(502, "ApiFailed", format!("the Kubernetes API gave an answer that cannot be read: {why}"))
        })
    }
}

impl Upstream {
    /// `bare` must send nothing that identifies the gateway: whatever is sent by it is decided by the caller's credentials alone.
    pub fn new(own: Client, bare: Client) -> Self {
        Self { own, bare }
    }

    /// Both clients from one configuration; the second without its credentials.
    pub fn from_config(config: Config) -> Result<Self, kube::Error> {
        let mut bare = config.clone();
        bare.auth_info = AuthInfo::default();
        bare.headers.clear();
        // Whether to try again is the caller's choice: a write may have been done although its answer was lost.
        bare.default_retry = false;
        Ok(Self::new(Client::try_from(config)?, Client::try_from(bare)?))
    }

    /// The same with another way for what carries the caller's credentials; `change` gets the gateway's own way and the old one.
    pub fn map_bare(self, change: impl FnOnce(&Client, Client) -> Client) -> Self {
        let bare = change(&self.own, self.bare);
        Self { own: self.own, bare }
    }

    pub(crate) fn own(&self) -> &Client {
        &self.own
    }

    /// Sends a call as the caller. A refusal of the API comes back as the problem it is.
    pub(crate) async fn send(&self, caller: &Caller, call: Call, deadline: Duration) -> Result<Reply, Problem> {
        let body = call.body.map_or_else(Body::empty, |body| Body::from(body.to_string().into_bytes()));
        let mut request = Request::builder()
            .method(call.method)
            .uri(call.url)
            .body(body)
            .map_err(|_| Problem::bad_request("the path or the query cannot be passed on to the Kubernetes API"))?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        if !call.media.is_empty() {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(call.media));
        }
        if call.question {
            request.extensions_mut().insert(RightsQuestion(()));
        }
        let client = match caller.sign(&mut request)? {
            Way::Bare => &self.bare,
            Way::Own => &self.own,
        };
        let whole = async {
            let (parts, body) = client.send(request).await.map_err(unreachable)?.into_parts();
            let body = Limited::new(body, LARGEST_ANSWER).collect().await.map_err(|why| {
                tracing::warn!(%why, "an answer of the API broke off");
                Problem::new(502, "ApiFailed", "the answer of the Kubernetes API broke off or was too large")
            })?;
            Ok((parts.status.as_u16(), body.to_bytes()))
        };
        let (code, body) = timeout(deadline, whole).await.map_err(|_| {
            Problem::new(504, "Timeout", format!("the Kubernetes API did not answer within {deadline:?}"))
        })??;
        if (200..300).contains(&code) { Ok(Reply { body }) } else { Err(Problem::from_api(code, &body)) }
    }
}

fn unreachable(why: kube::Error) -> Problem {
    // The words of the failure may name hosts; they are for the operator.
    tracing::warn!(%why, "the API cannot be reached");
    Problem::unavailable("the Kubernetes API cannot be reached; try again")
}
