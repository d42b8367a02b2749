//! GET of one object and of lists: consistent snapshots, chunked, in any form.

use crate::body::Body;
use crate::kinds::Kind;
use crate::negotiate::{self, Encoding, Form};
use crate::objects::storage;
use crate::render::{self, Include, Renderer};
use crate::verbs::Call;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use flate2::write::GzEncoder;
use http::{HeaderValue, Response, header};
use meta::Status;
use meta::options::{ListOptions, Match, Version};
use meta::selector::Operator;
use serde_json::{Value, json};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use store::{Entry, Range, Revision};

/// Answers below this size are one buffer; larger ones are produced while they are sent.
const CHUNK: usize = 128 * 1024;
/// How long a read waits for a version that is not here yet.
const FUTURE_WAIT: Duration = Duration::from_secs(3);

impl Call<'_> {
    pub async fn get(&self) -> Result<Response<Body>, Status> {
        let version = Version::parse(self.query.get("resourceVersion").unwrap_or_default())?;
        self.fresh(version).await?;
        let entry =
            self.api.store.get(&self.key()).ok_or_else(|| Status::not_found(self.kind.resource(), self.name))?;
        let mut out = Vec::with_capacity(entry.value.len() + 64);
        self.renderer()?.alone(&entry.value, entry.revision, true, &mut out);
        Ok(self.compressed(200, out))
    }

    /// Waits until reads see at least `version`.
    pub async fn fresh(&self, version: Version) -> Result<(), Status> {
        match version {
            Version::Any => Ok(()),
            Version::MostRecent => self.api.store.sync().await.map(drop).map_err(storage),
            Version::At(revision) => {
                let deadline = tokio::time::Instant::now() + FUTURE_WAIT;
                while self.api.store.revision() < revision {
                    if tokio::time::Instant::now() >= deadline {
                        return Err(Status::revision_too_large(revision, self.api.store.revision()));
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Ok(())
            }
        }
    }

    pub fn renderer(&self) -> Result<Renderer, Status> {
        let include = Include::parse(self.query.get("includeObject"))?;
        Ok(Renderer { kind: self.kind.clone(), answer: self.answer, include, now: self.api.clock.now() })
    }

    pub async fn list(&self) -> Result<Response<Body>, Status> {
        let options = ListOptions::parse(&self.query)?;
        let filter = Filter::new(&self.kind, options)?;
        let renderer = self.renderer()?;
        let page = self.page(&filter).await?;
        let mut metadata = page.metadata();
        if self.kind.custom.is_some() && self.answer.form == Form::Whole && page.next.is_none() {
            // Lists without a Go type always state it.
            metadata["continue"] = "".into();
        }
        Ok(self.list_response(renderer, page.items, &metadata))
    }

    /// Reads the asked part of the collection from one snapshot.
    async fn page(&self, filter: &Filter) -> Result<Chunk, Status> {
        let options = &filter.options;
        let prefix = self.kind.prefix(self.namespace);
        let token = match options.continue_token.as_str() {
            "" => None,
            text => Some(Token::parse(text, &prefix, options.version)?),
        };
        let at = match (&token, options.version, options.version_match) {
            (Some(token), ..) => token.revision,
            (None, Version::At(n), Match::Exact) => Some(n),
            (None, Version::At(n), Match::Unset) if options.limit > 0 => Some(n),
            _ => None,
        };
        if token.is_none() {
            self.fresh(options.version).await?;
        }
        let range = Range {
            collection: &self.kind.collection,
            prefix: &prefix,
            after: token.as_ref().map(|t| t.after.as_str()),
            limit: options.limit,
            at,
        };
        let page = match self.api.store.range(&range, |item, entry| filter.matches(item, entry)) {
            Ok(page) => page,
            Err(store::Error::Compacted { .. }) if token.is_some() => return Err(expired_token(&token, &prefix)),
            Err(e) => return Err(storage(e)),
        };
        let total = match &token {
            Some(t) => t.remaining,
            None => Some(page.total),
        };
        let remaining = total.map(|t| t.saturating_sub(page.items.len()));
        let last = page.items.last().filter(|_| page.more);
        let next = last.map(|(item, _)| {
            let after = item.strip_prefix(&prefix).unwrap_or(item);
            Token { revision: Some(page.revision), after: after.to_owned(), remaining }.render()
        });
        let remaining = if filter.is_everything() && next.is_some() { remaining } else { None };
        Ok(Chunk { items: page.items, revision: page.revision, next, remaining })
    }

    /// Renders a list, streaming it when it is large.
    pub fn list_response(&self, renderer: Renderer, items: Vec<(Arc<str>, Entry)>, metadata: &Value) -> Response<Body> {
        let size: usize = items.iter().map(|(_, e)| e.value.len()).sum();
        let mut head = Vec::with_capacity(size.min(CHUNK) + 1024);
        renderer.list_head(metadata, &mut head);
        let mut writer = ListWriter { renderer, items: items.into_iter(), head: Some(head), first: true, done: false };
        if size <= CHUNK || self.answer.encoding == Encoding::Yaml {
            let mut whole = Vec::with_capacity(size + 1024);
            while let Some(chunk) = writer.next_chunk() {
                whole.extend_from_slice(&chunk);
            }
            return self.compressed(200, whole);
        }
        let gzip = negotiate::accepts_gzip(self.headers);
        let stream = Chunks { writer, gzip: gzip.then(|| GzEncoder::new(Vec::new(), GZIP)) };
        let mut response =
            render::build(200, self.answer.encoding.content_type(), Body::stream(futures_util::stream::iter(stream)));
        if gzip {
            mark_gzip(&mut response);
        }
        response
    }

    /// A whole answer, compressed when it is large and the client takes it.
    fn compressed(&self, code: u16, out: Vec<u8>) -> Response<Body> {
        if out.len() <= CHUNK || self.answer.encoding == Encoding::Yaml || !negotiate::accepts_gzip(self.headers) {
            return render::respond(code, self.answer.encoding, out);
        }
        let mut gzip = GzEncoder::new(Vec::new(), GZIP);
        let packed = gzip.write_all(&out).and_then(|()| gzip.finish());
        match packed {
            Ok(packed) => {
                let mut response = render::build(code, self.answer.encoding.content_type(), packed.into());
                mark_gzip(&mut response);
                response
            }
            Err(_) => render::respond(code, self.answer.encoding, out),
        }
    }
}

const GZIP: flate2::Compression = flate2::Compression::fast();

fn mark_gzip(response: &mut Response<Body>) {
    response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
}

/// What one answer of a list holds.
struct Chunk {
    items: Vec<(Arc<str>, Entry)>,
    revision: Revision,
    next: Option<String>,
    remaining: Option<usize>,
}

impl Chunk {
    fn metadata(&self) -> Value {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if let Some(token) = &self.next {
            metadata["continue"] = token.as_str().into();
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        metadata
    }
}

/// Produces a list piece by piece, so that neither memory nor a worker is held for all of it at once.
struct ListWriter {
    renderer: Renderer,
    items: std::vec::IntoIter<(Arc<str>, Entry)>,
    head: Option<Vec<u8>>,
    first: bool,
    done: bool,
}

impl ListWriter {
    fn next_chunk(&mut self) -> Option<Vec<u8>> {
        if self.done {
            return None;
        }
        let mut out = self.head.take().unwrap_or_else(|| Vec::with_capacity(CHUNK + 8 * 1024));
        for (_, entry) in self.items.by_ref() {
            if !std::mem::take(&mut self.first) {
                out.push(b',');
            }
            self.renderer.item(&entry.value, entry.revision, &mut out);
            if out.len() >= CHUNK {
                return Some(out);
            }
        }
        self.done = true;
        out.extend_from_slice(Renderer::LIST_TAIL);
        Some(out)
    }
}

struct Chunks {
    writer: ListWriter,
    gzip: Option<GzEncoder<Vec<u8>>>,
}

impl Iterator for Chunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let Some(chunk) = self.writer.next_chunk() else {
            return self.gzip.take()?.finish().ok().map(Bytes::from);
        };
        match &mut self.gzip {
            None => Some(chunk.into()),
            Some(gzip) => {
                // Writing to memory cannot fail.
                let _ = gzip.write_all(&chunk);
                Some(std::mem::take(gzip.get_mut()).into())
            }
        }
    }
}

/// Selectors, checked against what the kind can select by.
pub struct Filter {
    kind: Arc<Kind>,
    /// Only this object, when the path names one.
    name: String,
    pub options: ListOptions,
    everything: bool,
    /// Marks that every object selected by label must carry.
    marks: u64,
}

impl Filter {
    pub fn new(kind: &Arc<Kind>, options: ListOptions) -> Result<Self, Status> {
        if let Some(field) = options.fields.fields().find(|f| !kind.selects(f)) {
            let plain = kind.behaviour.selectable.is_empty() && kind.custom.is_none();
            return Err(Status::bad_request(if plain {
                format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
            } else {
                format!("field label not supported: {field}")
            }));
        }
        let everything = options.labels.is_everything() && options.fields.is_everything();
        let marks = must_carry(&options);
        Ok(Self { kind: kind.clone(), name: String::new(), options, everything, marks })
    }

    /// Only the object of this name; an empty one means all.
    pub fn named(mut self, name: &str) -> Self {
        self.everything &= name.is_empty();
        self.name = name.to_owned();
        self
    }

    pub fn is_everything(&self) -> bool {
        self.everything
    }

    pub fn matches(&self, item: &str, entry: &Entry) -> bool {
        if self.everything {
            return true;
        }
        if entry.marks & self.marks != self.marks {
            return false;
        }
        let (namespace, name) = item.split_once('/').unwrap_or(("", item));
        let late = self.kind.late_values(entry, self.options.fields.fields());
        (self.name.is_empty() || self.name == name)
            && self.options.labels.matches(&entry.attrs.labels)
            && self.options.fields.matches(|field| match field {
                "metadata.name" => Some(name),
                "metadata.namespace" => Some(namespace),
                label => {
                    let path = self.kind.selectable_path(label)?;
                    let known = if late.is_empty() { &entry.attrs.fields } else { &late };
                    known.iter().find(|(k, _)| &**k == path).map(|(_, v)| &**v)
                }
            })
    }
}

fn must_carry(options: &ListOptions) -> u64 {
    let exact = options.labels.requirements().iter().filter_map(|requirement| {
        let equal = matches!(requirement.operator(), Operator::Equals | Operator::DoubleEquals | Operator::In);
        match requirement.values() {
            [value] if equal => Some(store::mark(requirement.key(), value)),
            _ => None,
        }
    });
    exact.fold(0, |all, mark| all | mark)
}

/// Where the next chunk of a list begins and which snapshot it belongs to.
struct Token {
    /// `None` after the snapshot expired: the rest of the list as it is now.
    revision: Option<Revision>,
    after: String,
    remaining: Option<usize>,
}

impl Token {
    fn render(&self) -> String {
        let revision = self.revision.map_or(-1, |r| i64::try_from(r).unwrap_or(i64::MAX));
        let token = json!({"v": "meta.k8s.io/v1", "rv": revision, "start": self.after, "left": self.remaining});
        URL_SAFE_NO_PAD.encode(token.to_string())
    }

    fn parse(text: &str, prefix: &str, version: Version) -> Result<Self, Status> {
        if matches!(version, Version::At(_)) {
            return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
        }
        let invalid =
            |why: &str| Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| invalid("encoding is not valid"))?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|_| invalid("it does not hold a token"))?;
        let revision = token["rv"]
            .as_i64()
            .filter(|_| token["v"] == "meta.k8s.io/v1")
            .ok_or_else(|| invalid("unknown version"))?;
        let after = token["start"].as_str().filter(|s| !s.is_empty()).ok_or_else(|| invalid("it has no start"))?;
        Ok(Self {
            revision: u64::try_from(revision).ok(),
            after: format!("{prefix}{after}"),
            remaining: token["left"].as_u64().and_then(|n| usize::try_from(n).ok()),
        })
    }
}

/// The snapshot is gone; the client may go on with a token for the rest as it is now.
fn expired_token(token: &Option<Token>, prefix: &str) -> Status {
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without \
         the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
         Continuing with the provided token results in an inconsistent list - objects that were created, modified, or \
         deleted between the time the first chunk was returned and now may show up in the list.",
    );
    status.continue_token = token.as_ref().map(|t| {
        let after = t.after.strip_prefix(prefix).unwrap_or(&t.after).to_owned();
        Token { revision: None, after, remaining: None }.render()
    });
    status
}
