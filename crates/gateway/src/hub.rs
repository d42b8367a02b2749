//! `/wapi/v1/controllers`: the hub's reconcilers, for who may see and switch them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use http::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::access::{Discover, Gatekeeper, Post, Target};
use crate::caller::Caller;
use crate::controllers::Controllers;
use crate::problem::Problem;
use crate::visit::{Answered, Notice, Notices, Room, Visit, json, nothing};

const PATH: &str = "/wapi/v1/controllers";
/// The right is the one of the hub's own page.
const RIGHT: &str = "/controllers";
/// How often somebody who listens is told of changes: reconcilers change all the time.
const LOOK: Duration = Duration::from_secs(2);

pub(crate) struct Hub {
    pub(crate) controllers: Option<Arc<dyn Controllers>>,
    pub(crate) gatekeeper: Arc<Gatekeeper>,
}

impl Hub {
    fn controllers(&self) -> Result<&Arc<dyn Controllers>, Problem> {
        self.controllers.as_ref().ok_or_else(|| Problem::not_found("no hub runs in this process"))
    }

    async fn list(&self, caller: Caller) -> Answered {
        self.gatekeeper.clone().authorize::<Discover>(caller, Target::Document(RIGHT.into())).await?;
        let items = self.controllers()?.list().await?;
        Ok(json(200, &json!({"count": items.len(), "items": items})))
    }

    async fn switch(&self, caller: Caller, name: &str, word: &str) -> Answered {
        let right = format!("{RIGHT}/{name}/{word}");
        self.gatekeeper.clone().authorize::<Post>(caller, Target::Document(right.into())).await?;
        self.controllers()?.switch(name, word == "enable").await?;
        Ok(nothing())
    }

    async fn requeue(&self, caller: Caller, name: &str, query: &str) -> Answered {
        let key = asked_key(query)?;
        let right = format!("{RIGHT}/{name}/requeue");
        self.gatekeeper.clone().authorize::<Post>(caller, Target::Document(right.into())).await?;
        let count = self.controllers()?.requeue(name, key.as_deref()).await?;
        Ok(json(200, &json!({"count": count})))
    }

    async fn notices(self: Arc<Self>, caller: Caller) -> Result<Notices, Problem> {
        self.gatekeeper.clone().authorize::<Discover>(caller, Target::Document(RIGHT.into())).await?;
        let before: Option<Vec<Value>> = None;
        Ok(stream::unfold((self, before), |(hub, mut before)| async move {
            loop {
                let now = hub.controllers().ok()?.list().await.ok();
                if before.is_some() && now != before {
                    return Some((Notice::Changed, (hub, now)));
                }
                before = now.or(before);
                sleep(LOOK).await;
            }
        })
        .boxed())
    }
}

impl Room for Hub {
    fn owns(&self, path: &str) -> bool {
        path.strip_prefix(PATH).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    fn answer(self: Arc<Self>, visit: Visit) -> BoxFuture<'static, Answered> {
        Box::pin(async move {
            let rest: Vec<&str> = visit.path.strip_prefix(PATH).unwrap_or("").split('/').skip(1).collect();
            match (&visit.method, rest.as_slice()) {
                (&Method::GET, []) => self.list(visit.caller).await,
                (&Method::POST, [name, word @ ("enable" | "disable")]) if is_name(name) => {
                    self.switch(visit.caller, name, word).await
                }
                (&Method::POST, [name, "requeue"]) if is_name(name) => {
                    self.requeue(visit.caller, name, &visit.query).await
                }
                (_, [] | [_, "enable" | "disable" | "requeue"]) => {
                    let allow = if rest.is_empty() { "GET" } else { "POST" };
                    Err(Problem::new(405, "MethodNotAllowed", format!("this path takes {allow}")).with("allow", allow))
                }
                _ => Err(Problem::not_found(format!("use GET {PATH}, or POST {PATH}/NAME/enable, disable or requeue"))),
            }
        })
    }

    fn follow(
        self: Arc<Self>,
        caller: Caller,
        path: String,
        _query: String,
    ) -> BoxFuture<'static, Result<Notices, Problem>> {
        Box::pin(async move {
            if path != PATH {
                return Err(Problem::not_found("this path cannot be followed"));
            }
            self.notices(caller).await
        })
    }
}

/// Which object is to be looked at: `key=NAMESPACE/NAME`, or all of them without one.
fn asked_key(query: &str) -> Result<Option<String>, Problem> {
    let mut key = None;
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let known = name == "key" && key.is_none();
        // An empty key means that somebody lost a name: that must not be all of them.
        if !known || value.is_empty() || value.len() > 512 || value.split('/').any(|part| !is_name(part)) {
            let why = "the only parameter is key, once: NAMESPACE/NAME, or NAME of a kind without namespaces";
            return Err(Problem::bad_request(why).with("parameter", "key"));
        }
        key = Some(value.into_owned());
    }
    if key.as_ref().is_some_and(|key| key.matches('/').count() > 1) {
        return Err(Problem::bad_request("key is NAMESPACE/NAME").with("parameter", "key"));
    }
    Ok(key)
}

/// Names go into a right that is asked for: nothing but what names are made of.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 253
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        && !matches!(name, "." | "..")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_key_is_one_object_and_its_absence_means_all() {
        // KC-10
        assert_eq!(asked_key("").unwrap(), None);
        assert_eq!(asked_key("key=default%2Fa").unwrap().as_deref(), Some("default/a"));
        assert_eq!(asked_key("key=node-1").unwrap().as_deref(), Some("node-1"));
        for wrong in ["key=", "key=a&key=b", "all=true", "key=a/b/c", "key=/b", "key=a/", "key=..%2Fb", "key=a%0Ab"] {
            assert_eq!(asked_key(wrong).unwrap_err().code, 400, "{wrong}");
        }
    }
}
