//! What each route does. Every handler begins with a proof, and reaches the API only through it.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use http::Method;
use jiff::Timestamp;
use kube::core::DynamicObject;
use serde::Deserialize;
use serde_json::{Value, json};

use super::App;
use super::actions::{self, Plan};
use super::cache::Write;
use super::catalog::Kind;
use super::input::{Change, Deletion, Doing, Fields, Narrow, Nothing, Whole};
use super::object::{Place, to_create, to_patch, to_replace};
use super::page::{Page, answer, render};
use super::query::{From, ListQuery};
use super::routes::Answer;
use super::row::{Row, Show, within};
use crate::access::{Authorized, Create, Delete, Discover, Get, List, Patch, Reveal, Update, Verb};
use crate::problem::Problem;
use crate::upstream::{Call, Reply};

/// Above this, a list is worked out on a thread that may be held up.
const SMALL: usize = 2_000;
/// How often an action is planned anew when somebody else writes at the same time.
const TRIES: usize = 5;

type Handled = Result<Answer, Problem>;

fn json(code: u16, value: &Value) -> Handled {
    Ok(Answer { code, body: value.to_string().into() })
}

pub(crate) async fn kinds(app: Arc<App>, proof: Authorized<Discover>, _: Nothing) -> Handled {
    let all = app.catalog.all(&proof).await?;
    let shown = all.iter().map(|kind| {
        let actions: Vec<&str> = app.actions.of(kind).iter().map(|action| action.name.as_str()).collect();
        json!({"group": kind.group_word(), "version": kind.version, "plural": kind.plural, "kind": kind.kind,
            "namespaced": kind.namespaced, "verbs": kind.verbs, "actions": actions})
    });
    json(200, &json!({"count": all.len(), "items": shown.collect::<Vec<_>>()}))
}

pub(crate) async fn openapi(app: Arc<App>, proof: Authorized<Discover>, narrow: Narrow) -> Handled {
    let body = app.document(&proof, narrow.0.as_deref()).await?;
    Ok(Answer { code: 200, body })
}

pub(crate) async fn list(app: Arc<App>, proof: Authorized<List>, query: ListQuery) -> Handled {
    let page = app.page(&proof, &query).await?;
    let (kind, ..) = proof.resource()?;
    Ok(Answer { code: 200, body: page_body(kind, &query, &page) })
}

impl App {
    /// The page of a list that the question asks for.
    pub(crate) async fn page(&self, proof: &Authorized<List>, query: &ListQuery) -> Result<Page, Problem> {
        let (kind, namespace, _) = proof.resource()?;
        let private = query.names(kind.private_fields());
        let cached = if private {
            // Shown only to who could get each object; never from the cache, which does not hold them.
            proof.also::<Reveal>().await?;
            None
        } else {
            self.caches.of(proof).await?
        };
        let (rows, cache) = match cached {
            Some((cache, rows)) => (rows, Some(cache)),
            None => (directly(self, proof, query, private).await?.into(), None),
        };
        let small = rows.len() <= SMALL;
        let namespace = namespace.map(str::to_owned);
        let asked = query.clone();
        let evaluate = move || {
            let number = |path: &_| cache.as_ref().map(|cache| cache.number(path));
            answer(within(&rows, namespace.as_deref()), &asked, &number)
        };
        if small {
            return Ok(evaluate());
        }
        let worked = tokio::task::spawn_blocking(evaluate).await;
        worked.map_err(|_| Problem::new(500, "InternalError", "the list could not be worked out"))
    }
}

fn page_body(kind: &Kind, query: &ListQuery, page: &Page) -> Bytes {
    let mut head =
        json!({"kind": kind.kind, "apiVersion": kind.api_version(), "count": page.count, "pageSize": query.page_size});
    if let From::Page(number) = query.from {
        head["page"] = number.into();
    }
    if let Some(cursor) = &page.cursor {
        head["cursor"] = cursor.as_str().into();
    }
    if let Some(counts) = &page.counts {
        head["counts"] = counts.clone();
    }
    let head = head.to_string();
    let size = page.items.iter().map(|item| item.len() + 1).sum::<usize>();
    let mut body = BytesMut::with_capacity(head.len() + size + 16);
    body.put_slice(head.strip_suffix('}').unwrap_or(&head).as_bytes());
    body.put_slice(b",\"items\":[");
    for (i, item) in page.items.iter().enumerate() {
        if i > 0 {
            body.put_u8(b',');
        }
        body.put_slice(item);
    }
    body.put_slice(b"]}");
    body.freeze()
}

#[derive(Deserialize)]
struct ObjectList {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default)]
    items: Vec<DynamicObject>,
}

#[derive(Default, Deserialize)]
struct ListMeta {
    #[serde(rename = "continue", default)]
    more: Option<String>,
}

/// The rows from the API itself, as the caller: for kinds that cannot be cached, and for what a cache must not hold.
async fn directly(
    app: &App,
    proof: &Authorized<List>,
    query: &ListQuery,
    private: bool,
) -> Result<Vec<Arc<Row>>, Problem> {
    let (kind, namespace, _) = proof.resource()?;
    let show = if private { Show::Private } else { Show::Public };
    let _turn = app.direct.acquire().await.map_err(|_| Problem::unavailable("the server is stopping"))?;
    let mut rows: Vec<Arc<Row>> = Vec::new();
    let mut more = String::new();
    loop {
        let parameters = [("limit", "500"), ("labelSelector", &query.label_text), ("continue", &more)];
        let given = parameters.into_iter().filter(|(_, value)| !value.is_empty());
        let asked = form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish();
        let url = format!("{}?{asked}", kind.url(namespace, None));
        let list: ObjectList = proof.send(Call::get(url)).await?.parse()?;
        rows.extend(list.items.into_iter().map(|object| Arc::new(Row::new(object, kind, show))));
        if rows.len() > app.options.limits.objects_per_kind {
            let why = format!(
                "there are more than {} objects; list one namespace, or select by labels",
                app.options.limits.objects_per_kind
            );
            return Err(Problem::new(422, "TooLarge", why));
        }
        match list.metadata.more.filter(|more| !more.is_empty()) {
            Some(next) => more = next,
            None => break,
        }
    }
    rows.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Ok(rows)
}

pub(crate) async fn get(_: Arc<App>, proof: Authorized<Get>, fields: Fields) -> Handled {
    let (kind, namespace, name) = proof.resource()?;
    let object = proof.send(Call::get(kind.url(namespace, name))).await?.parse()?;
    Ok(Answer { code: 200, body: render(&Row::new(object, kind, Show::Private), &fields.0).into() })
}

pub(crate) async fn create(app: Arc<App>, proof: Authorized<Create>, input: Whole) -> Handled {
    let (kind, namespace, _) = proof.resource()?;
    let object = to_create(&Place { kind, namespace, name: None }, input.body)?;
    let reply = proof.send(Call::new(Method::POST, strictly(kind.url(namespace, None)), object)).await?;
    stored(&app, kind, &reply, 201).await
}

pub(crate) async fn replace(app: Arc<App>, proof: Authorized<Update>, input: Whole) -> Handled {
    let (kind, namespace, name) = proof.resource()?;
    let url = kind.url(namespace, name);
    let current: Value = proof.send(Call::get(url.clone())).await?.parse()?;
    let object = to_replace(&Place { kind, namespace, name }, current, input.body, input.if_match.as_deref())?;
    let reply = proof.send(Call::new(Method::PUT, strictly(url), object)).await?;
    stored(&app, kind, &reply, 200).await
}

pub(crate) async fn patch(app: Arc<App>, proof: Authorized<Patch>, input: Change) -> Handled {
    let (kind, namespace, name) = proof.resource()?;
    let patch = to_patch(&Place { kind, namespace, name }, input.0)?;
    let reply = proof.send(Call::merge(strictly(kind.url(namespace, name)), patch)).await?;
    stored(&app, kind, &reply, 200).await
}

/// A field that the kind does not have is a mistake to be told, not dropped.
fn strictly(url: String) -> String {
    format!("{url}?fieldValidation=Strict")
}

/// The object as the API stored it, once lists show it too.
async fn stored(app: &App, kind: &Arc<Kind>, reply: &Reply, code: u16) -> Handled {
    let row = Row::new(reply.parse()?, kind, Show::Private);
    app.caches.settle(kind, Write::Stored { namespace: &row.namespace, name: &row.name, version: &row.version }).await;
    Ok(Answer { code, body: row.json().into_owned().into() })
}

pub(crate) async fn delete(app: Arc<App>, proof: Authorized<Delete>, input: Deletion) -> Handled {
    let (kind, namespace, name) = proof.resource()?;
    let call = Call::new(Method::DELETE, kind.url(namespace, name), input.options);
    let reply: Value = proof.send(call).await?.parse()?;
    // The API gives the object back when it is kept for a while (finalizers, a grace period), or always, by kind; else a Status with its id.
    let metadata = &reply["metadata"];
    let waits = metadata["deletionTimestamp"].is_string()
        && (metadata["finalizers"].is_array() || metadata["deletionGracePeriodSeconds"].as_u64() > Some(0));
    let id = metadata["uid"].as_str().or(reply["details"]["uid"].as_str()).unwrap_or("");
    let (namespace, name) = (namespace.unwrap_or(""), name.unwrap_or(""));
    let version = metadata["resourceVersion"].as_str().unwrap_or("");
    let write = if waits { Write::Stored { namespace, name, version } } else { Write::Gone { namespace, name, id } };
    app.caches.settle(kind, write).await;
    let mut shown = json!({"id": id, "name": name, "deleted": !waits});
    if !namespace.is_empty() {
        shown["namespace"] = namespace.into();
    }
    json(200, &shown)
}

pub(crate) async fn act(app: Arc<App>, proof: Authorized<Patch>, input: Doing) -> Handled {
    let (kind, namespace, name) = proof.resource()?;
    let Some(action) = app.actions.find(kind, &input.action) else {
        let known: Vec<&str> = app.actions.of(kind).iter().map(|action| action.name.as_str()).collect();
        let there = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(
            Problem::not_found(format!("{} has no such action; it has {there}", kind.kind)).with("actions", known)
        );
    };
    let url = kind.url(namespace, name);
    let mut tries = 0;
    loop {
        tries += 1;
        let reply = read(&proof, &url).await?;
        let object: Value = reply.parse()?;
        let plan = action.plan(&actions::Input { kind, object: &object, body: &input.body, now: Timestamp::now() })?;
        let done = match plan {
            Plan::Nothing => return stored(&app, kind, &reply, 200).await,
            Plan::Patch(mut patch) => {
                patch["metadata"]["resourceVersion"] = object["metadata"]["resourceVersion"].clone();
                proof.send(Call::merge(url.clone(), patch)).await
            }
            // The scale has its own versions; the number asked for holds whatever else changed.
            Plan::Scale(patch) => match proof.send(Call::merge(format!("{url}/scale"), patch)).await {
                Ok(_) => read(&proof, &url).await,
                Err(why) => Err(why),
            },
        };
        match done {
            Ok(reply) => return stored(&app, kind, &reply, 200).await,
            Err(why) if why.code == 409 && tries < TRIES => {}
            Err(why) => return Err(why),
        }
    }
}

async fn read<V: Verb>(proof: &Authorized<V>, url: &str) -> Result<Reply, Problem> {
    proof.send(Call::get(url.to_owned())).await
}
