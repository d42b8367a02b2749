//! What is still to be removed from members that could not be asked: listed, and given up by whoever may, with a reason.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fleet::Cleanup;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Members;
use super::input::document;
use super::listing::{Listing, with_items};
use super::reach::{Scope, What};
use super::route::Places;
use super::views::KNOWN;
use crate::access::{Delete, List, Verb};
use crate::apiext::page::answer;
use crate::apiext::row::{Row, Shape};
use crate::caller::Caller;
use crate::problem::Problem;
use crate::visit::{Answered, bytes, json as json_answer};

/// For the meta API to say or take something.
const PATIENCE: Duration = Duration::from_secs(10);
const LONGEST_REASON: usize = 500;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Abandon {
    reason: String,
}

impl Members {
    /// `GET /api/cluster/{name}/cleanups`. A member that is no longer one may still owe.
    pub(super) async fn list_cleanups(&self, caller: &Caller, places: &Places, query: &str) -> Answered {
        let listing = Listing::parse(places.get("name"), query, &self.limits)?.or_sorted("cluster,since");
        let what = What::all(&KNOWN.clusters).sub("cleanups");
        let all: Vec<Cleanup> = match &listing.scope {
            Scope::One(name) => {
                self.reaching.may(caller, List::NAME, &what, name).await?;
                self.owed().await?.into_iter().filter(|owed| owed.member == *name).collect()
            }
            scope => {
                let owed = self.owed().await?.into_iter().filter(|owed| match scope {
                    Scope::Some(names) => names.contains(&owed.member),
                    _ => true,
                });
                let owed: Vec<Cleanup> = owed.collect();
                let names = owed.iter().map(|owed| owed.member.as_str()).collect();
                let seen = self.reaching.may_on(caller, List::NAME, &what, names).await?;
                owed.iter().filter(|owed| seen.contains(owed.member.as_str())).cloned().collect()
            }
        };
        let rows: Vec<Arc<Row>> = all.iter().map(|owed| Arc::new(row(owed))).collect();
        let page = answer(&rows, &listing.query, &|_| None);
        let tail = json!({"count": page.count, "page": listing.query.page(), "pageSize": listing.query.page_size,
            "unanswered": [], "stale": []});
        Ok(bytes(200, "application/json", with_items(&page.items, &tail.to_string())))
    }

    /// `POST /api/cluster/{name}/cleanups/{owner}/abandon`: what is there stays there, and it is written down who wanted it so.
    pub(super) async fn abandon_cleanup(&self, caller: &Caller, places: &Places, media: &str, body: Bytes) -> Answered {
        let (member, id) = (places.get("name"), places.get("owner"));
        let what = What::all(&KNOWN.clusters).sub("cleanups");
        self.reaching.may(caller, Delete::NAME, &what, member).await?;
        let reason = reason(media, &body)?;
        let owed = self.owed().await?;
        let Some(owed) = owed.iter().find(|owed| owed.member == member && owed.owner.label() == id) else {
            return Err(gone());
        };
        if let Some(said) = &owed.abandoned {
            let why = format!("this was given up already: {said}");
            return Err(Problem::new(409, "Conflict", why).with("cluster", member));
        }
        let by = self.reaching.gatekeeper.name(caller).await;
        let abandoned = timeout(PATIENCE, self.cleanups.abandon(member, &owed.owner, &by, &reason)).await;
        match abandoned.map_err(|_| slow())? {
            Ok(()) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => return Err(gone()),
            Err(error) => return Err(failed(&error)),
        }
        Ok(json_answer(200, &json!({"cluster": member, "id": id, "abandoned": true, "by": by, "reason": reason})))
    }

    async fn owed(&self) -> Result<Vec<Cleanup>, Problem> {
        timeout(PATIENCE, self.cleanups.list()).await.map_err(|_| slow())?.map_err(|error| failed(&error))
    }
}

fn slow() -> Problem {
    Problem::new(504, "Timeout", format!("the Kubernetes API did not answer within {PATIENCE:?}"))
}

fn gone() -> Problem {
    Problem::not_found("nothing like that is owed; GET /api/cluster/all/cleanups lists what is, with its id")
}

fn failed(error: &kube::Error) -> Problem {
    tracing::warn!(%error, "the clean-ups cannot be read or written");
    Problem::unavailable("the Kubernetes API cannot be asked for what is to be cleaned up; try again")
}

/// Why somebody gives it up: in one line, and not empty.
fn reason(media: &str, body: &[u8]) -> Result<String, Problem> {
    let wrong = |why: &str| Problem::new(422, "Invalid", format!("the reason {why}")).with("field", "reason");
    let said: Abandon = serde_json::from_value(document(media, body)?)
        .map_err(|_| Problem::bad_request("the body is {\"reason\": \"…\"}").with("field", "reason"))?;
    let reason = said.reason.trim();
    match reason {
        "" => Err(wrong("is missing: say why what is there may stay there")),
        _ if reason.chars().any(char::is_control) => Err(wrong("must be one line of text")),
        _ if reason.chars().count() > LONGEST_REASON => Err(wrong("is too long: at most 500 characters")),
        _ => Ok(reason.to_owned()),
    }
}

fn row(owed: &Cleanup) -> Row {
    let state = if owed.abandoned.is_some() { "GivenUp" } else { "Owed" };
    let id = owed.owner.label();
    let mut shown = json!({"cluster": owed.member, "namespace": owed.owner.namespace, "name": owed.owner.name, "kind": owed.owner.kind,
        "uid": owed.owner.uid, "id": id, "state": state, "deleteContainers": owed.delete_containers});
    if let Some(since) = owed.since {
        shown["since"] = since.to_string().into();
    }
    if let Some(said) = &owed.abandoned {
        shown["abandoned"] = said.as_str().into();
    }
    let text = |text: &str| -> Arc<str> { Arc::from(text) };
    let (cluster, namespace, name) = (text(&owed.member), text(&owed.owner.namespace), text(&owed.owner.name));
    let labels = BTreeMap::new();
    let words: [&str; 3] = [state, &owed.owner.kind, &id];
    let json = Value::to_string(&shown).into_bytes();
    Row::shaped(Shape { words: &words, json, ..Shape::of(&cluster, &namespace, &name, &labels) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_reason_is_one_line_that_says_something() {
        let of = |body: &str| reason("application/json", body.as_bytes());
        assert_eq!(of(r#"{"reason":" the cluster was sold "}"#).unwrap(), "the cluster was sold");
        for (body, code) in [
            (r#"{"reason":""}"#, 422),
            (r#"{"reason":"a\nb"}"#, 422),
            (r#"{"why":"x"}"#, 400),
            (r#"{"reason":1}"#, 400),
            ("", 400),
        ] {
            assert_eq!(of(body).unwrap_err().code, code, "{body}");
        }
        assert_eq!(of(&format!(r#"{{"reason":"{}"}}"#, "é".repeat(501))).unwrap_err().code, 422);
    }

    #[test]
    fn a_row_says_whose_it_is_and_how_it_stands() {
        let owner = fleet::Owner { kind: "AppSet".into(), namespace: "n".into(), name: "a".into(), uid: "u".into() };
        let owed = |abandoned: Option<&str>| Cleanup {
            member: "prod".into(),
            owner: owner.clone(),
            delete_containers: true,
            since: None,
            abandoned: abandoned.map(str::to_owned),
        };
        let shown: Value = serde_json::from_slice(&row(&owed(None)).json()).unwrap();
        assert_eq!(
            (&shown["state"], &shown["id"], &shown["cluster"]),
            (&json!("Owed"), &json!(owner.label()), &json!("prod"))
        );
        let shown: Value = serde_json::from_slice(&row(&owed(Some("by me: gone"))).json()).unwrap();
        assert_eq!((&shown["state"], &shown["abandoned"]), (&json!("GivenUp"), &json!("by me: gone")));
    }
}
