//! Who may look inside: the API says whose token it is and what they may do. Nobody else is asked, and nothing is let in by default.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use aws_lc_rs::digest::{SHA256, digest};
use http::{Method, Request, StatusCode, header};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use tokio::time::{Instant, timeout};

use super::answer::Refusal;

/// How long a decision holds: a profile and its progress are one decision, a right taken away is gone soon.
const MEMORY: Duration = Duration::from_secs(10);
/// Decisions remembered; more than an honest operator makes.
const MOST: usize = 256;
/// For the API to decide.
const PATIENCE: Duration = Duration::from_secs(10);

/// Lets administrators in: a bearer token that the API knows, of a user that may use the path.
pub struct Admin {
    client: Client,
    decisions: Mutex<HashMap<Question, (Instant, Decision)>>,
}

/// The token only as its digest: memory is no place for tokens.
type Question = ([u8; 32], Method, String);

#[derive(Debug, Clone)]
enum Decision {
    /// As this user.
    Allowed(String),
    Unknown,
    Forbidden(String),
}

impl Admin {
    /// Asks this API.
    pub fn new(client: Client) -> Admin {
        Admin { client, decisions: Mutex::default() }
    }

    /// The user's name, or why not.
    pub async fn admit<B>(&self, request: &Request<B>) -> Result<String, Refusal> {
        let token = bearer(request).ok_or_else(|| {
            let what = "present a bearer token of a user that may use this path (Authorization: Bearer TOKEN)";
            Refusal::new(StatusCode::UNAUTHORIZED, "Unauthorized", what)
        })?;
        let path = request.uri().path().to_owned();
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        let question = (hash, request.method().clone(), path);
        let decision = match self.remembered(&question) {
            Some(decision) => decision,
            None => {
                let decided = timeout(PATIENCE, self.decide(token, &question.1, &question.2)).await;
                let unasked = |why: String| {
                    let what = format!("the API could not be asked who you are: {why}");
                    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", what)
                };
                let decision = decided
                    .map_err(|_| unasked("no answer in time".to_owned()))?
                    .map_err(|error| unasked(error.to_string()))?;
                self.remember(question, decision.clone());
                decision
            }
        };
        match decision {
            Decision::Allowed(user) => Ok(user),
            Decision::Unknown => {
                Err(Refusal::new(StatusCode::UNAUTHORIZED, "Unauthorized", "the API does not know this token"))
            }
            Decision::Forbidden(why) => Err(Refusal::new(StatusCode::FORBIDDEN, "Forbidden", why)),
        }
    }

    async fn decide(&self, token: &str, method: &Method, path: &str) -> Result<Decision, kube::Error> {
        let spec = TokenReviewSpec { token: Some(token.to_owned()), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let parameters = PostParams::default();
        let reviewed = Api::<TokenReview>::all(self.client.clone()).create(&parameters, &review).await?;
        let status = reviewed.status.unwrap_or_default();
        let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) else {
            return Ok(Decision::Unknown);
        };
        let verb = method.as_str().to_ascii_lowercase();
        let review = SubjectAccessReview { spec: may(&user, path, &verb), ..SubjectAccessReview::default() };
        let reviewed = Api::<SubjectAccessReview>::all(self.client.clone()).create(&parameters, &review).await?;
        let name = user.username.unwrap_or_default();
        Ok(match reviewed.status.is_some_and(|status| status.allowed) {
            true => Decision::Allowed(name),
            false => Decision::Forbidden(format!(
                "user {name:?} cannot {verb} path {path:?}; a ClusterRole with nonResourceURLs allows it"
            )),
        })
    }

    fn remembered(&self, question: &Question) -> Option<Decision> {
        let decisions = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        decisions.get(question).filter(|(until, _)| Instant::now() < *until).map(|(_, decision)| decision.clone())
    }

    fn remember(&self, question: Question, decision: Decision) {
        let mut decisions = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        if decisions.len() >= MOST {
            let now = Instant::now();
            decisions.retain(|_, (until, _)| now < *until);
        }
        if decisions.len() >= MOST {
            decisions.clear();
        }
        decisions.insert(question, (Instant::now() + MEMORY, decision));
    }
}

fn may(user: &UserInfo, path: &str, verb: &str) -> SubjectAccessReviewSpec {
    SubjectAccessReviewSpec {
        user: user.username.clone(),
        uid: user.uid.clone(),
        groups: user.groups.clone(),
        extra: user.extra.clone(),
        non_resource_attributes: Some(NonResourceAttributes {
            path: Some(path.to_owned()),
            verb: Some(verb.to_owned()),
        }),
        ..SubjectAccessReviewSpec::default()
    }
}

fn bearer<B>(request: &Request<B>) -> Option<&str> {
    let value = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
