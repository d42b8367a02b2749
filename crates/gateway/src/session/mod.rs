//! People at the console: users, logins, sessions, the setup link, tickets.
//!
//! Whoever has logged in acts towards the API by impersonation, with the groups stored for the user; what they may do is decided by
//! the API as for everybody else.

mod attempts;
mod cookie;
mod desk;
mod hash;
mod noted;
mod setup;
mod table;
mod tickets;
mod token;
mod users;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use fleet::Secret;
use http::header::SET_COOKIE;
use http::request::Parts;
use http::{HeaderMap, Method, Response};
use kube::Client;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::interval;
use tokio_util::sync::CancellationToken;

use crate::caller::{Caller, Connection};
use crate::door::Entered;
use crate::options::Limits;
use crate::problem::Problem;
use crate::trail::{Doing, Trail};
use crate::visit::{Answered, Body, CSRF, json, read};
use attempts::Attempts;
pub(crate) use desk::Desk;
use hash::Hasher;
use noted::{Came, UNKNOWN, class};
use setup::Setup;
pub(crate) use table::Session;
use table::Table;
use tickets::Tickets;
use token::{Token, same};
use users::{User, Users};

pub(crate) const ROOT: &str = "/wapi/v1";
/// The group of administrators, in Kubernetes and here.
const ADMINISTRATORS: &str = "system:masters";
const DEMO_USER: &str = "admin";
const DEMO_PASSWORD: &str = "teleport";
const SWEEP: Duration = Duration::from_secs(60);

/// How people get in.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    /// Where the users' Secrets are.
    pub(crate) namespace: String,
    /// Whether `admin:teleport` is made when there is nobody yet.
    pub(crate) demo: bool,
    /// The password of `admin`, made when there is nobody yet.
    pub(crate) first: Option<Secret>,
    /// Whether a proxy stands before us: then everybody may come from this machine's own address.
    pub(crate) proxied: bool,
}

pub(crate) struct Sessions {
    policy: Policy,
    users: Users,
    table: Table,
    attempts: Attempts,
    tickets: Tickets,
    hasher: Hasher,
    setup: Setup,
    trail: Option<Arc<dyn Trail>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    user: String,
    password: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FirstUser {
    token: String,
    user: String,
    password: String,
}

impl Sessions {
    pub(crate) fn new(client: Client, policy: Policy, trail: Option<Arc<dyn Trail>>) -> Result<Arc<Self>, Problem> {
        Ok(Arc::new(Self {
            users: Users::new(client, &policy.namespace),
            policy,
            table: Table::default(),
            attempts: Attempts::default(),
            tickets: Tickets::default(),
            hasher: Hasher::new(hash::ROUNDS),
            setup: Setup::new()?,
            trail,
        }))
    }

    /// Before anybody is let in: reads who there is, and makes the first user if the operator gave a password for it.
    pub(crate) async fn prepare(&self) -> Result<(), Problem> {
        if let Some(password) = &self.policy.first {
            hash::acceptable(DEMO_USER, password.reveal())?;
        }
        self.users.read().await?;
        if self.users.any() != Some(false) {
            return Ok(());
        }
        let (password, must_change) = match (&self.policy.first, self.policy.demo) {
            (Some(password), _) => (password.clone(), false),
            (None, true) => (Secret::new(DEMO_PASSWORD), true),
            (None, false) => return Ok(()),
        };
        let hash = self.hasher.make(&password).await?;
        match self.users.create(DEMO_USER, &[ADMINISTRATORS], &hash, must_change).await {
            // Another server on the same API was faster.
            Err(problem) if problem.code == 409 => self.users.read().await,
            made => made.map(drop),
        }
    }

    /// The path of the setup link, with its token in the fragment, which no browser sends and no proxy logs.
    pub(crate) fn setup_path(&self) -> Option<String> {
        (self.users.any() != Some(true)).then(|| format!("/setup#t={}", self.setup.token().reveal()))
    }

    /// Follows the users until stopped, and ends sessions whose user changed or whose time is over.
    pub(crate) async fn follow(&self, stop: CancellationToken) {
        let changed = |name: &str, user: Option<&User>| {
            let ended = self.table.keep(name, user.map(|user| &user.stamp));
            if ended > 0 {
                tracing::info!(user = name, sessions = ended, "a user changed; its sessions end");
            }
        };
        let sweeping = async {
            let mut look = interval(SWEEP);
            loop {
                look.tick().await;
                self.table.sweep();
            }
        };
        tokio::select! {
            () = self.users.follow(stop.clone(), changed) => {}
            () = sweeping => {}
        }
    }

    /// The session that the cookie of a request names, if the request is one that a page of ours has made.
    pub(crate) fn of(
        &self,
        entered: &Entered,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<Option<Arc<Session>>, Problem> {
        let Some(token) = cookie::find(headers, entered.sealed) else { return Ok(None) };
        if !entered.is_own() {
            let why = "a page of another origin or port may not call with the console's cookie";
            return Err(Problem::new(403, "CrossOrigin", why));
        }
        let Some(session) = self.table.find(token) else { return Ok(None) };
        let said = headers.get(CSRF).map(|value| value.to_str().unwrap_or(""));
        let proven = said.is_some_and(|said| same(said, session.csrf()));
        // Sent but wrong is refused on reads too: a GET that does something relies on it.
        if !proven && (said.is_some() || !matches!(*method, Method::GET | Method::HEAD)) {
            let why = "send the header X-Muster-Csrf with the value of csrf in GET /wapi/v1/session";
            return Err(Problem::new(403, "Csrf", why).with("header", "X-Muster-Csrf"));
        }
        Ok(Some(session))
    }

    /// The refusal of somebody who does not say who they are.
    pub(crate) fn nobody(&self) -> Problem {
        let setup = self.users.any() == Some(false);
        let what = if setup {
            "nobody has been set up yet: open the setup link that muster printed when it started"
        } else {
            "log in, or send Authorization: Bearer TOKEN"
        };
        Problem::unauthorized(what).with("setup", setup).with("demo", self.policy.demo)
    }

    /// Whose WebSocket this is.
    pub(crate) fn redeem(&self, ticket: &str) -> Result<Caller, Problem> {
        let caller = self.tickets.redeem(ticket)?;
        match caller.signed_in() {
            Some(session) if session.ended().is_cancelled() => Err(Problem::unauthorized("the session ended")),
            _ => Ok(caller),
        }
    }

    /// Whether a path is for those who are nobody yet.
    pub(crate) fn is_open(path: &str) -> bool {
        matches!(path.strip_prefix(ROOT), Some("/login" | "/setup"))
    }

    /// Login and setup: the only requests that need no caller. A cookie that comes along is not looked at.
    pub(crate) async fn answer_nobody(
        &self,
        entered: &Entered,
        connection: &Connection,
        parts: &Parts,
        body: Body,
        limits: &Limits,
    ) -> Answered {
        if parts.method != Method::POST {
            return Err(Problem::new(405, "MethodNotAllowed", "this path takes POST").with("allow", "POST"));
        }
        if !entered.is_own() {
            return Err(Problem::new(403, "CrossOrigin", "only the console's own pages log in"));
        }
        if self.users.any().is_none() {
            // The API may have come back since.
            self.prepare().await?;
        }
        let body = body_of(&parts.headers, body, limits).await?;
        let came = Came { address: Some(connection.address), path: parts.uri.path(), headers: &parts.headers };
        let ((user, doing), before) = match parts.uri.path().strip_prefix(ROOT) {
            Some("/login") => {
                (self.login(parse(&body)?, connection, &came).await?, cookie::find(&parts.headers, entered.sealed))
            }
            _ => (self.first_user(parse(&body)?, connection, &came).await?, None),
        };
        let opened = self.open(&user, connection.address, &parts.headers);
        doing.ended(opened.as_ref().map(|_| (200, None)));
        let (token, session) = opened?;
        if let Some(before) = before.and_then(|before| self.table.find(before)) {
            self.table.end_one(&before.person().user, &before.id);
        }
        tracing::info!(user = user.name(), address = %connection.address, "somebody logged in");
        let mut response = self.shown(&session);
        if let Some(cookie) = cookie::set(&token, entered.sealed) {
            response.headers_mut().insert(SET_COOKIE, cookie);
        }
        Ok(response)
    }

    /// A session of somebody who has proved who they are.
    fn open(&self, user: &User, address: IpAddr, headers: &HeaderMap) -> Result<(Token, Arc<Session>), Problem> {
        let agent = headers.get(http::header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or("");
        let (token, session) = self.table.begin(user, address, agent)?;
        // The user may have been changed while the password was checked: then the watch came too early for this session.
        if self.users.get(user.name())?.is_none_or(|now| now.stamp != user.stamp) {
            self.table.end_one(user.name(), &session.id);
            return Err(wrong());
        }
        Ok((token, session))
    }

    async fn login(&self, login: Login, connection: &Connection, came: &Came<'_>) -> Result<Entering, Problem> {
        let Login { user, password } = login;
        let password = Secret::new(password);
        self.attempts.begin(connection.address, &user)?;
        let known = self.users.get(&user)?;
        let doing = self.doing("login", "sessions", known.as_ref().map_or(UNKNOWN, |user| user.name()), came);
        let checked = self.hasher.check(known.as_ref().map(|user| &user.hash), &password).await;
        let user = match (checked, known) {
            (Ok(true), Some(known)) => {
                self.attempts.succeeded(connection.address, &user);
                known
            }
            (Ok(_), known) => {
                tracing::warn!(address = %connection.address, "a login failed");
                doing.ended(Err(&class(401, if known.is_some() { "WrongPassword" } else { "UnknownUser" })));
                return Err(wrong());
            }
            (Err(problem), _) => return Err(failed(doing, problem)),
        };
        match not_known_to_all(&user, connection.address, self.policy.proxied) {
            Ok(()) => Ok((user, doing)),
            Err(problem) => {
                doing.ended(Err(&class(403, "KnownPassword")));
                Err(problem)
            }
        }
    }

    async fn first_user(
        &self,
        input: FirstUser,
        connection: &Connection,
        came: &Came<'_>,
    ) -> Result<Entering, Problem> {
        let FirstUser { token, user, password } = input;
        let password = Secret::new(password);
        self.attempts.begin(connection.address, "(setup)")?;
        let mut doing = self.doing("setup", "users", UNKNOWN, came);
        let claim = match self.setup.claim(&token) {
            Ok(claim) => claim,
            Err(problem) => {
                doing.ended(Err(&class(problem.code, "WrongSetupLink")));
                return Err(problem);
            }
        };
        self.attempts.succeeded(connection.address, "(setup)");
        let made = async {
            if self.users.any() != Some(false) {
                return Err(Problem::new(409, "AlreadyExists", "the first administrator is made already; log in"));
            }
            users::acceptable(&user)?;
            hash::acceptable(&user, password.reveal())?;
            let hash = self.hasher.make(&password).await?;
            self.users.create(&user, &[ADMINISTRATORS], &hash, false).await
        };
        match made.await {
            Ok(made) => {
                claim.spend();
                doing.by(made.name());
                doing.of(made.name());
                tracing::info!(user, "the first administrator is made");
                Ok((made, doing))
            }
            Err(problem) => Err(failed(doing, problem)),
        }
    }

    /// What the console needs to know of a session.
    fn shown(&self, session: &Session) -> Response<Body> {
        let person = session.person();
        let must_change = matches!(self.users.get(&person.user), Ok(Some(user)) if user.must_change && user.stamp == *session.stamp());
        json(200, &self.about(&person.user, &person.groups, must_change, session.csrf()))
    }

    fn about(&self, user: &str, groups: &[String], must_change: bool, csrf: &str) -> Value {
        json!({"user": user, "groups": groups, "mustChange": must_change, "csrf": csrf, "demo": self.policy.demo,
            "version": env!("CARGO_PKG_VERSION")})
    }
}

/// Somebody who has proved who they are, and the line of the audit log that is to say so.
type Entering = (Arc<User>, Doing);

/// Writes down that it failed.
fn failed(doing: Doing, problem: Problem) -> Problem {
    doing.ended(Err(&problem));
    problem
}

/// The demo's password opens the machine it was made on, and stays in the data directory when a later start listens to others.
/// Behind a proxy nobody can tell where somebody comes from.
fn not_known_to_all(user: &User, address: IpAddr, proxied: bool) -> Result<(), Problem> {
    let why = match (user.must_change, proxied) {
        (false, _) => return Ok(()),
        (true, true) => {
            "everybody knows this password, so it does not work behind a proxy; start without --public-url, log in on the server's own \
             machine and change it"
        }
        (true, false) if address.to_canonical().is_loopback() => return Ok(()),
        (true, false) => {
            "everybody knows this password, so it works on the server's own machine only; log in there and change it"
        }
    };
    Err(Problem::forbidden(why))
}

/// The same for an unknown user and a wrong password.
fn wrong() -> Problem {
    Problem::unauthorized("the user or the password is wrong")
}

/// A JSON body, which no form of another site's page can send.
async fn body_of(headers: &HeaderMap, body: Body, limits: &Limits) -> Result<bytes::Bytes, Problem> {
    let media = headers.get(http::header::CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or("");
    if !media.split(';').next().is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json")) {
        return Err(Problem::new(415, "UnsupportedMediaType", "send the body as Content-Type: application/json"));
    }
    read(body, limits).await
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|why| {
        // The words of the reader could repeat what was sent, a password perhaps.
        let place = format!("line {}, column {}", why.line(), why.column());
        Problem::bad_request(format!("the body is not what this request takes ({place}); see /wapi/v1/openapi.json"))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_password_everybody_knows_opens_its_own_machine_only() {
        // B-16
        let own = User::for_tests("admin", &[ADMINISTRATORS], 1);
        let mut demo = User::for_tests("admin", &[ADMINISTRATORS], 1);
        demo.must_change = true;
        let code = |user: &User, from: IpAddr| not_known_to_all(user, from, false).err().map(|why| why.code);
        for here in
            ["127.0.0.1", "::1", "::ffff:127.0.0.1"].map(|text| text.parse().unwrap_or_else(|_| panic!("{text}")))
        {
            assert_eq!(code(&demo, here), None);
            assert_eq!(not_known_to_all(&demo, here, true).unwrap_err().code, 403, "a proxy may be on this machine");
            assert!(not_known_to_all(&own, here, true).is_ok());
        }
        let there = IpAddr::from([10, 0, 0, 7]);
        assert_eq!((code(&demo, there), code(&own, there)), (Some(403), None));
    }
}
