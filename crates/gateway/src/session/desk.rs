//! What somebody who is let in does about their own session: look at it, end it, change the password, fetch a ticket.

use std::sync::Arc;

use fleet::Secret;
use futures_util::future::BoxFuture;
use http::header::SET_COOKIE;
use http::{Method, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::noted::{Came, class};
use super::{ROOT, Session, Sessions, User, Users, body_of, cookie, failed, hash, parse, wrong};
use crate::access::Gatekeeper;
use crate::options::Limits;
use crate::problem::Problem;
use crate::trail::Doing;
use crate::upstream::Call;
use crate::visit::{Answered, Body, Room, Visit, json, nothing};

pub(crate) struct Desk {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) gatekeeper: Arc<Gatekeeper>,
    pub(crate) limits: Limits,
    /// Whether cookies are for TLS alone.
    pub(crate) sealed: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewPassword {
    old: String,
    new: String,
}

impl Room for Desk {
    fn owns(&self, path: &str) -> bool {
        let Some(rest) = path.strip_prefix(ROOT) else { return false };
        matches!(rest, "/session" | "/logout" | "/password" | "/sessions" | "/ticket") || rest.starts_with("/sessions/")
    }

    fn answer(self: Arc<Self>, visit: Visit) -> BoxFuture<'static, Answered> {
        Box::pin(async move {
            let path = visit.path.clone();
            let rest = path.strip_prefix(ROOT).unwrap_or("");
            match (&visit.method, rest) {
                (&Method::GET, "/session") => self.session(&visit).await,
                (&Method::POST, "/logout") => self.logout(&visit),
                (&Method::POST, "/password") => self.password(visit).await,
                (&Method::GET, "/sessions") => self.list(&visit),
                (&Method::POST, "/ticket") => self.ticket(&visit).await,
                (&Method::DELETE, rest) if rest.starts_with("/sessions/") => {
                    self.end(&visit, rest.trim_start_matches("/sessions/"))
                }
                (_, rest) => {
                    let allow = match rest {
                        "/session" | "/sessions" => "GET",
                        "/logout" | "/password" | "/ticket" => "POST",
                        _ => "DELETE",
                    };
                    Err(Problem::new(405, "MethodNotAllowed", format!("this path takes {allow}")).with("allow", allow))
                }
            }
        })
    }
}

impl Desk {
    /// Who is calling: what the session says, or, for a token or certificate, what the API says.
    async fn session(&self, visit: &Visit) -> Answered {
        if let Some(session) = visit.caller.signed_in() {
            return Ok(self.sessions.shown(session));
        }
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let url = "/apis/authentication.k8s.io/v1/selfsubjectreviews".to_owned();
        let reply: Value = self.gatekeeper.ask(&visit.caller, Call::new(Method::POST, url, review)).await?.parse()?;
        let about = &reply["status"]["userInfo"];
        let groups: Vec<String> = about["groups"]
            .as_array()
            .map(|groups| groups.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            .unwrap_or_default();
        Ok(json(200, &self.sessions.about(about["username"].as_str().unwrap_or(""), &groups, false, "")))
    }

    fn logout(&self, visit: &Visit) -> Answered {
        let session = signed_in(visit)?;
        let doing = self.doing("logout", "sessions", session, visit);
        self.sessions.table.end_one(&session.person().user, &session.id);
        doing.ended(Ok((204, None)));
        Ok(self.without_cookie(nothing()))
    }

    fn without_cookie(&self, mut response: Response<Body>) -> Response<Body> {
        if let Some(cookie) = cookie::clear(self.sealed) {
            response.headers_mut().insert(SET_COOKIE, cookie);
        }
        response
    }

    fn list(&self, visit: &Visit) -> Answered {
        let session = signed_in(visit)?;
        let own = self.sessions.table.of(&session.person().user);
        let items: Vec<Value> = own.iter().map(|shown| shown.to_json(shown.session.id == session.id)).collect();
        Ok(json(200, &json!({"count": items.len(), "items": items})))
    }

    fn end(&self, visit: &Visit, id: &str) -> Answered {
        let session = signed_in(visit)?;
        if !self.sessions.table.end_one(&session.person().user, id) {
            return Err(Problem::not_found("you have no session of that id; GET /wapi/v1/sessions lists them"));
        }
        let mut doing = self.doing("logout", "sessions", session, visit);
        doing.of(id);
        doing.ended(Ok((204, None)));
        Ok(if id == session.id { self.without_cookie(nothing()) } else { nothing() })
    }

    async fn ticket(&self, visit: &Visit) -> Answered {
        // Whom the API does not know gets no ticket either.
        self.gatekeeper.recognise(&visit.caller).await?;
        let ticket = self.sessions.tickets.give(visit.caller.clone())?;
        Ok(json(200, &json!({"ticket": ticket.reveal()})))
    }

    async fn password(&self, mut visit: Visit) -> Answered {
        let session = signed_in(&visit)?.clone();
        let body = visit.take_body();
        let body = body_of(&visit.headers, body, &self.limits).await?;
        let NewPassword { old, new } = parse(&body)?;
        let (old, new) = (Secret::new(old), Secret::new(new));
        // Guessing is as slow as at the login.
        self.sessions.attempts.begin(session.address(), &session.person().user)?;
        let doing = self.doing("password", "users", &session, &visit);
        match self.change(&session, &old, &new).await {
            Ok(()) => {
                doing.ended(Ok((204, None)));
                Ok(nothing())
            }
            Err(problem) if problem.details["field"] == "old" => {
                doing.ended(Err(&class(problem.code, "WrongPassword")));
                Err(problem)
            }
            Err(problem) => Err(failed(doing, problem)),
        }
    }

    async fn change(&self, session: &Session, old: &Secret, new: &Secret) -> Result<(), Problem> {
        let sessions = &self.sessions;
        let user = self.proven(session, old).await?;
        if old == new {
            return Err(Problem::new(422, "Invalid", "the new password is the old one").with("field", "new"));
        }
        hash::acceptable(user.name(), new.reveal()).map_err(|problem| problem.with("field", "new"))?;
        let hash = sessions.hasher.make(new).await?;
        let (stamp, patch) = Users::with_password(&user, &hash);
        // Said before it is written: the watch may be faster than the answer.
        sessions.table.expect(&session.id, stamp);
        sessions.users.change(&user, &patch).await?;
        let ended = sessions.table.end_others(user.name(), &session.id);
        tracing::info!(user = user.name(), sessions = ended, "a password was changed; the user's other sessions end");
        Ok(())
    }

    /// The user, if the password is right. The try was counted before.
    async fn proven(&self, session: &Session, password: &Secret) -> Result<Arc<User>, Problem> {
        let (sessions, name) = (&self.sessions, &session.person().user);
        let user = sessions.users.get(name)?.ok_or_else(wrong)?;
        if !sessions.hasher.check(Some(&user.hash), password).await? {
            return Err(Problem::forbidden("the old password is wrong").with("field", "old"));
        }
        sessions.attempts.succeeded(session.address(), name);
        Ok(user)
    }

    fn doing(&self, verb: &str, resource: &str, session: &Session, visit: &Visit) -> Doing {
        let came = Came { address: visit.caller.address(), path: &visit.path, headers: &visit.headers };
        self.sessions.doing(verb, resource, &session.person().user, &came)
    }
}

/// What is about sessions needs one: a token has none.
fn signed_in(visit: &Visit) -> Result<&Arc<Session>, Problem> {
    visit.caller.signed_in().ok_or_else(|| {
        Problem::bad_request("this is about the session of somebody who logged in; a token or certificate has none")
    })
}
