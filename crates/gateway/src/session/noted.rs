//! Logins, logouts, passwords and the setup link in the audit log: who, from where, and how it ended. Never what was typed.
//!
//! A name that nobody has is not written down either: people type their password where the name belongs. Tries that are turned away
//! unread, because too many failed before, are not written down: nobody shall be able to fill the log.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::USER_AGENT;

use super::Sessions;
use crate::problem::Problem;
use crate::trail::{Deed, Doing};
use crate::visit::REQUEST_ID;

/// What stands for a name that nobody has.
pub(super) const UNKNOWN: &str = "(unknown)";

/// How a request came.
pub(super) struct Came<'a> {
    pub(super) address: Option<IpAddr>,
    pub(super) path: &'a str,
    pub(super) headers: &'a HeaderMap,
}

impl Sessions {
    /// Something a person does about getting in or out, begun now; what it is done to is named as in the meta API's own lines.
    pub(super) fn doing(&self, verb: &str, resource: &str, user: &str, came: &Came<'_>) -> Doing {
        let text = |name| came.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        let deed = Deed {
            request_id: text(REQUEST_ID),
            source: came.address,
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            name: if resource == "users" && user != UNKNOWN { user.to_owned() } else { String::new() },
            path: came.path.to_owned(),
            user_agent: text(USER_AGENT),
            ..Deed::default()
        };
        let mut doing = Doing::new(self.trail.clone(), deed, true);
        doing.by(user);
        doing
    }
}

/// The class of a failure, for the log alone: who tried is told the same words for several of them.
pub(super) fn class(code: u16, reason: &str) -> Problem {
    Problem::new(code, reason, "")
}
