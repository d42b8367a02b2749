//! The table of routes: method, shape of the path, handler. Requests are dispatched by it and the OpenAPI document is made from it.
//!
//! The handler's signature is the API: its first argument is the proof that the caller may, its second the typed input. A route
//! cannot be written down without either, since [`route`] is the only way to make one and calls the handler only with both.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;

use super::App;
use super::handlers::{act, create, delete, get, kinds, list, openapi, patch, replace};
use super::input::{Asked, Input};
use crate::access::{Authorized, Target, Verb};
use crate::caller::Caller;
use crate::problem::Problem;

/// What the path of a route names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Kinds,
    OpenApi,
    Collection,
    Object,
    Action,
}

/// A good answer: always JSON.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Bytes,
}

type Answering = Pin<Box<dyn Future<Output = Result<Answer, Problem>> + Send>>;

pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) shape: Shape,
    /// In the OpenAPI document, before the kind: `list` + `Deployment`.
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    /// What the kind must allow.
    pub(crate) verb: &'static str,
    pub(crate) code: u16,
    pub(crate) parameters: &'static [(&'static str, &'static str, &'static str)],
    /// Media types of the body it takes; none for no body.
    pub(crate) media: &'static [&'static str],
    handle: Box<dyn Fn(Arc<App>, Caller, Target, Asked) -> Answering + Send + Sync>,
}

impl Route {
    pub(crate) fn handle(&self, app: Arc<App>, caller: Caller, target: Target, asked: Asked) -> Answering {
        (self.handle)(app, caller, target, asked)
    }
}

fn route<V, I, F>(
    (method, shape): (Method, Shape),
    (id, code, summary): (&'static str, u16, &'static str),
    handler: fn(Arc<App>, Authorized<V>, I) -> F,
) -> Route
where
    V: Verb,
    I: Input,
    F: Future<Output = Result<Answer, Problem>> + Send + 'static,
{
    let handle = move |app: Arc<App>, caller, target, asked: Asked| -> Answering {
        Box::pin(async move {
            let input = I::read(asked, &app.options.limits)?;
            let proof = app.gatekeeper.clone().authorize::<V>(caller, target).await?;
            handler(app, proof, input).await
        })
    };
    Route {
        method,
        shape,
        id,
        summary,
        verb: V::NAME,
        code,
        parameters: I::PARAMETERS,
        media: I::MEDIA,
        handle: Box::new(handle),
    }
}

/// Everything this face can do.
pub(crate) fn table() -> Vec<Route> {
    use Shape::{Action, Collection, Kinds, Object, OpenApi};
    vec![
        route((Method::GET, Kinds), ("listKinds", 200, "The kinds there are, with their actions."), kinds),
        route((Method::GET, OpenApi), ("openapi", 200, "This document."), openapi),
        route((Method::GET, Collection), ("list", 200, "A page of rows, and the count of all that match."), list),
        route((Method::POST, Collection), ("create", 201, "Creates an object."), create),
        route((Method::GET, Object), ("get", 200, "One object."), get),
        route(
            (Method::PUT, Object),
            ("replace", 200, "Replaces an object; needs the resourceVersion that was read."),
            replace,
        ),
        route((Method::PATCH, Object), ("patch", 200, "Changes the named fields (JSON merge patch)."), patch),
        route((Method::DELETE, Object), ("delete", 200, "Deletes an object."), delete),
        route((Method::POST, Action), ("act", 200, "Does an action to an object and gives the object after it."), act),
    ]
}
