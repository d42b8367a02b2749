//! The verbs: what each request does once it is known who asks, what for, and that they may.

use crate::body::Body;
use crate::decode;
use crate::kinds::{Endpoint, Kind};
use crate::negotiate::{self, Answer, Encoding, Form};
use crate::objects::{Deleted, Part, Stored};
use crate::ownership::{self, By};
use crate::path::Verb;
use crate::render::{self, Include};
use crate::{Inner, definitions, patch, server_side};
use auth::{Authorized, Peer};
use bytes::Bytes;
use http::{HeaderMap, Response};
use meta::options::{DeleteOptions, ListOptions, Query, WriteOptions};
use meta::status::Details;
use meta::{FieldError, Object, Status};
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};
use store::{Key, Range};

const ORPHANED: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove \
                        them or set propagationPolicy=Orphan to suppress this warning";

/// One authorised request for a resource.
pub struct Call<'a> {
    pub api: &'a Inner,
    /// Proof that the asker may; a call cannot be made without it.
    pub proof: Authorized<'a>,
    pub kind: Arc<Kind>,
    pub namespace: &'a str,
    pub name: &'a str,
    pub endpoint: &'a Endpoint,
    pub query: Query<'a>,
    /// The connection it came over.
    pub peer: &'a Peer,
    pub headers: &'a HeaderMap,
    pub answer: Answer,
    /// What the client should be told besides the answer, whatever that is.
    pub warnings: Mutex<Vec<String>>,
}

impl Call<'_> {
    /// Does it, and adds the warnings to whatever the answer is.
    pub async fn run(&self, verb: Verb, body: Bytes) -> Response<Body> {
        let mut response = self.dispatch(verb, body).await.unwrap_or_else(|status| render::status(&status));
        if verb.writes() && definitions::is_definition(&self.kind) && response.status().is_success() {
            // What is defined is served before anybody is told that it is defined.
            self.api.definitions.settled().await;
        }
        render::warn(&mut response, self.kind.warnings());
        if !self.kind.behaviour.deprecation.is_empty() {
            render::warn(&mut response, &[self.kind.behaviour.deprecation.to_owned()]);
        }
        render::warn(&mut response, &self.warnings.lock().unwrap_or_else(PoisonError::into_inner));
        response
    }

    async fn dispatch(&self, verb: Verb, body: Bytes) -> Result<Response<Body>, Status> {
        tracing::trace!(user = %self.proof.user().name, verb = verb.as_str(), resource = %self.kind.resource(), "call");
        if verb.writes() {
            self.check_fence().await?;
        }
        let part = match self.endpoint {
            Endpoint::Object(part) => *part,
            Endpoint::Scale(paths) => return self.scale(verb, paths, &body).await,
            Endpoint::Action(_) if self.kind.action.is_some() && self.has_no_place() => {
                return Err(Status::no_such_resource());
            }
            Endpoint::Action(action) if verb == Verb::Create => return self.act(*action, &body).await,
            Endpoint::Action(_) => return Err(Status::method_not_allowed()),
            Endpoint::Connect(connect) => return self.connect(*connect),
        };
        match (verb, part) {
            (Verb::Get, _) => self.get().await,
            (Verb::Update | Verb::Patch, _) if self.name.is_empty() => Err(Status::method_not_allowed()),
            (Verb::Update, _) => self.update(part, &body).await,
            (Verb::Patch, _) => self.patch(part, &body).await,
            (_, part) if part != Part::Main && self.kind.custom.is_some() => {
                Err(Status::method_not_supported(self.kind.resource(), verb.as_str()))
            }
            (_, part) if part != Part::Main => Err(Status::method_not_allowed()),
            (Verb::List, _) => self.list().await,
            (Verb::Watch, _) => self.watch().await,
            (Verb::Create, _) => self.create(&body).await,
            (Verb::Delete, _) => self.delete(&body).await,
            (Verb::DeleteCollection, _) => self.delete_collection(&body).await,
        }
    }

    /// What is not stored has no names, and is asked for where it belongs.
    fn has_no_place(&self) -> bool {
        !self.name.is_empty() || (self.kind.namespaced && self.namespace.is_empty())
    }

    pub fn key(&self) -> Key {
        self.kind.key(self.namespace, self.name)
    }

    pub fn warn(&self, warnings: Vec<String>) {
        *self.warnings.lock().unwrap_or_else(PoisonError::into_inner) = warnings;
    }

    pub fn answer(&self, code: u16, stored: &Stored) -> Response<Body> {
        let mut out = Vec::with_capacity(stored.value.len() + 64);
        let renderer = render::Renderer {
            kind: self.kind.clone(),
            answer: self.answer,
            include: Include::Metadata,
            now: self.api.clock.now(),
        };
        renderer.alone(&stored.value, stored.revision, true, &mut out);
        render::respond(code, self.answer.encoding, out)
    }

    async fn create(&self, body: &[u8]) -> Result<Response<Body>, Status> {
        if !self.name.is_empty() || (self.kind.namespaced && self.namespace.is_empty()) {
            return Err(Status::method_not_allowed());
        }
        let options = WriteOptions::parse(&self.query, "CreateOptions")?;
        let content = negotiate::content(self.headers)?;
        let mut decoded = decode::object(&self.kind, content, body, options.field_validation)?;
        decoded.warnings.extend(self.kind.advice(&decoded.object, None));
        self.warn(decoded.warnings);
        self.check_namespace(&decoded.object)?;
        if !matches!(decoded.object.resource_version(), "" | "0") {
            return Err(Status::bad_request("resourceVersion should not be set on objects to be created"));
        }
        self.confirm_grant(&decoded.object, None)?;
        let by = self.by(&options, "");
        let stored = self.api.create(&self.kind, self.namespace, decoded.object, &by).await?;
        self.remark(&stored, None)?;
        Ok(self.answer(201, &stored))
    }

    /// Adds what the kind has to say of an object that was accepted.
    pub fn remark(&self, stored: &Stored, old: Option<&Object>) -> Result<(), Status> {
        if let Some(warnings) = self.kind.behaviour.warnings {
            let object = self.api.decode_stored(&self.kind, &stored.value, stored.revision)?;
            let told = warnings(&object, old);
            self.warnings.lock().unwrap_or_else(PoisonError::into_inner).extend(told);
        }
        Ok(())
    }

    /// In whose name this request writes.
    pub fn by<'a>(&'a self, options: &'a WriteOptions, subresource: &'a str) -> By<'a> {
        let manager = if options.field_manager.is_empty() {
            let agent = self.headers.get(http::header::USER_AGENT).map(|agent| agent.as_bytes()).unwrap_or_default();
            match std::str::from_utf8(agent) {
                Ok(agent) => ownership::manager_of(agent),
                Err(_) => ownership::manager_of(&String::from_utf8_lossy(agent)).into_owned().into(),
            }
        } else {
            options.field_manager.as_str().into()
        };
        By { manager, subresource, dry_run: options.dry_run }
    }

    pub fn check_namespace(&self, object: &Object) -> Result<(), Status> {
        let stated = object.namespace();
        if stated.is_empty() || stated == self.namespace || !self.kind.namespaced {
            return Ok(());
        }
        Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ))
    }

    pub fn check_name(&self, object: &Object) -> Result<(), Status> {
        match object.name() {
            "" => Err(Status::bad_request(format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                self.name
            ))),
            name if name != self.name => Err(Status::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                self.name
            ))),
            _ => self.check_namespace(object),
        }
    }

    async fn update(&self, part: Part, body: &[u8]) -> Result<Response<Body>, Status> {
        let options = WriteOptions::parse(&self.query, "UpdateOptions")?;
        let content = negotiate::content(self.headers)?;
        let decoded = decode::object(&self.kind, content, body, options.field_validation)?;
        self.warn(decoded.warnings.clone());
        self.check_name(&decoded.object)?;
        let may_make = part == Part::Main && self.kind.behaviour.create_on_update;
        if may_make && self.api.store.get(&self.key()).is_none() && !self.api.is_outdated(&self.key(), None).await? {
            return self.create_by_update(decoded.object, &self.by(&options, "")).await;
        }
        let desired = decoded.object;
        let mut old = None;
        let by = self.by(&options, part.subresource());
        let stored = self
            .api
            .update(&self.kind, self.namespace, self.name, part, &by, |current| {
                self.check_uid(current, &desired)?;
                self.confirm_grant(&desired, Some(current))?;
                self.warn([decoded.warnings.clone(), self.kind.advice(&desired, Some(current))].concat());
                old = self.remembered(part, current);
                Ok(desired.clone())
            })
            .await?;
        if let Some(old) = old {
            self.remark(&stored, Some(&old))?;
        }
        Ok(self.answer(200, &stored))
    }

    /// The object before an update, when its kind compares.
    pub fn remembered(&self, part: Part, current: &Object) -> Option<Object> {
        (part == Part::Main && self.kind.behaviour.warnings.is_some()).then(|| current.clone())
    }

    /// A uid in the body of an update means: only if it is still that object.
    pub fn check_uid(&self, current: &Object, desired: &Object) -> Result<(), Status> {
        let (asked, is) = (desired.uid(), current.uid());
        if asked.is_empty() || asked == is {
            return Ok(());
        }
        let why = format!("Precondition failed: UID in precondition: {asked}, UID in object meta: {is}");
        Err(Status::conflict(self.kind.resource(), self.name, &why))
    }

    async fn create_by_update(&self, object: Object, by: &By<'_>) -> Result<Response<Body>, Status> {
        self.may_create()?;
        if !matches!(object.resource_version(), "" | "0") {
            let why = "the object does not exist any more; leave out its resourceVersion to create it anew";
            return Err(Status::conflict(self.kind.resource(), self.name, why));
        }
        self.may_create()?;
        self.confirm_grant(&object, None)?;
        let stored = self.api.create(&self.kind, self.namespace, object, by).await?;
        self.remark(&stored, None)?;
        Ok(self.answer(201, &stored))
    }

    /// An update that creates takes the right to create, too.
    pub fn may_create(&self) -> Result<(), Status> {
        let asked = self.proof.request();
        self.api.authorize(auth::Request { verb: Verb::Create.as_str(), ..asked }).map(drop)
    }

    async fn patch(&self, part: Part, body: &[u8]) -> Result<Response<Body>, Status> {
        if negotiate::media_type(self.headers) == server_side::MEDIA_TYPE {
            return self.apply(part, body).await;
        }
        let options = WriteOptions::parse(&self.query, "PatchOptions")?;
        let patch = patch::Patch::parse(&self.kind, negotiate::media_type(self.headers), body)?;
        if self.query.get("force").is_some_and(|force| !force.is_empty()) {
            let e = FieldError::forbidden("force", "may not be specified for non-apply patch");
            return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", &[e]));
        }
        let by = self.by(&options, part.subresource());
        let mut old = None;
        let change = |current: &Object, held: &[u8]| {
            let owned = patch.sees_owners.then(|| ownership::with_owners(current, held));
            let document = owned.as_ref().unwrap_or(current);
            let (mut desired, found) = patch.apply(&self.kind, document, options.field_validation)?;
            self.warn([found, self.kind.advice(&desired, Some(current))].concat());
            self.check_patched(current, &desired)?;
            self.confirm_grant(&desired, Some(current))?;
            old = self.remembered(part, current);
            let owners = self.api.owners_after(&self.kind, part, &by, current, &mut desired, held)?;
            Ok((desired, owners))
        };
        let stored = self.api.rewrite(&self.kind, self.namespace, self.name, part, by.dry_run, change).await?;
        if let Some(old) = old {
            self.remark(&stored, Some(&old))?;
        }
        Ok(self.answer(200, &stored))
    }

    /// A patch may not move the object.
    pub fn check_patched(&self, current: &Object, desired: &Object) -> Result<(), Status> {
        if desired.name() != current.name() && !desired.name().is_empty() {
            return Err(Status::bad_request(format!(
                "the name of the object ({}) does not match the name on the URL ({})",
                desired.name(),
                self.name
            )));
        }
        if self.kind.custom.is_some() {
            return self.check_name(desired);
        }
        self.check_namespace(desired)
    }

    async fn delete(&self, body: &[u8]) -> Result<Response<Body>, Status> {
        let options = self.delete_options(body)?;
        if self.kind.kind == "Job" && options.propagation.is_none() {
            self.warn(vec![ORPHANED.to_owned()]);
        }
        match self.api.delete(&self.kind, self.namespace, self.name, &options).await? {
            Deleted::Marked(stored) => Ok(self.answer(200, &stored)),
            Deleted::Gone(stored) if self.kind.behaviour.returns_deleted => Ok(self.answer(200, &stored)),
            Deleted::Gone(stored) => {
                let object = self.api.decode_stored(&self.kind, &stored.value, stored.revision)?;
                let details = Details {
                    name: self.name.into(),
                    group: self.kind.group.clone(),
                    kind: self.kind.plural.clone(),
                    uid: object.uid().into(),
                    ..Details::default()
                };
                Ok(self.plain(200, &meta::status::success(&details)))
            }
        }
    }

    fn delete_options(&self, body: &[u8]) -> Result<DeleteOptions, Status> {
        let object =
            if body.is_empty() { None } else { decode::delete_options(negotiate::content(self.headers)?, body)? };
        DeleteOptions::parse(&self.query, object.as_ref())
    }

    async fn delete_collection(&self, body: &[u8]) -> Result<Response<Body>, Status> {
        if !self.kind.behaviour.deletes_collection || (self.kind.namespaced && self.namespace.is_empty()) {
            return Err(Status::method_not_allowed());
        }
        let options = self.delete_options(body)?;
        let filter = crate::read::Filter::new(&self.kind, ListOptions::parse(&self.query)?)?;
        self.fresh(meta::options::Version::MostRecent).await?;
        let prefix = self.kind.prefix(self.namespace);
        let range = Range {
            collection: &self.kind.collection,
            prefix: &prefix,
            after: None,
            limit: filter.options.limit,
            at: None,
        };
        let page =
            self.api.store.range(&range, |item, entry| filter.matches(item, entry)).map_err(crate::objects::storage)?;
        let mut deleted = Vec::with_capacity(page.items.len());
        for (item, entry) in page.items {
            let name = item.strip_prefix(&*prefix).unwrap_or(&item);
            match self.api.delete(&self.kind, self.namespace, name, &options).await {
                Ok(_) => deleted.push((item.clone(), entry)),
                Err(s) if s.reason == meta::Reason::NotFound => {}
                Err(s) => return Err(s),
            }
        }
        let metadata = json!({"resourceVersion": page.revision.to_string()});
        Ok(self.list_response(self.renderer()?, deleted, &metadata))
    }

    /// A value that is not one of the kind's objects, in the asked encoding.
    pub fn plain(&self, code: u16, value: &serde_json::Value) -> Response<Body> {
        let mut out = Vec::new();
        render::write(&mut out, value);
        let encoding = if self.answer.form == Form::Whole { self.answer.encoding } else { Encoding::Json };
        render::respond(code, encoding, out)
    }
}
