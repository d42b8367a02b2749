//! Answers: stored objects as the client asked to see them.

use crate::body::Body;
use crate::kinds::Kind;
use crate::negotiate::{Answer, Encoding, Form};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use jiff::Timestamp;
use meta::object::{splice, splice_item};
use meta::{Object, Status};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;
use store::Entry;

/// How much of the object a table row carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Include {
    None,
    Metadata,
    Object,
}

impl Include {
    pub fn parse(text: Option<&str>) -> Result<Self, Status> {
        match text.unwrap_or_default() {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

/// Writes stored objects of one kind in one form.
#[derive(Clone)]
pub struct Renderer {
    pub kind: Arc<Kind>,
    pub answer: Answer,
    pub include: Include,
    pub now: Timestamp,
}

impl Renderer {
    /// One object standing alone (a GET, or the object of a watch event).
    pub fn alone(&self, value: &[u8], revision: u64, columns: bool, out: &mut Vec<u8>) {
        match self.answer.form {
            Form::Whole => self.whole(value, revision, out),
            Form::Partial | Form::PartialList => write(out, &partial(&self.parse(value, revision))),
            Form::Table => {
                let object = self.parse(value, revision);
                let metadata = json!({"resourceVersion": object.resource_version()});
                let mut table = json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
                    "columnDefinitions": null, "rows": [self.row(value, revision)]});
                if columns {
                    table["columnDefinitions"] = self.columns();
                }
                write(out, &table);
            }
        }
    }

    /// An entry's bytes as if they had been written by today's schema, so that they can be shown at another revision.
    pub fn in_shape<'a>(&self, entry: &'a Entry) -> Cow<'a, [u8]> {
        match &self.kind.custom {
            Some(custom) if !custom.is_verbatim(&entry.value, entry.revision) => {
                self.parse(&entry.value, entry.revision).encode().into()
            }
            _ => Cow::Borrowed(&entry.value),
        }
    }

    fn whole(&self, value: &[u8], revision: u64, out: &mut Vec<u8>) {
        if !self.kind.is_verbatim(value, revision) {
            write(out, &Value::Object(self.parse(value, revision).0));
        } else if revision == 0 {
            // A dry run has no revision to show.
            out.extend_from_slice(value);
        } else {
            splice(value, revision, out);
        }
    }

    /// One object as an item of a list or a row of a table.
    pub fn item(&self, value: &[u8], revision: u64, out: &mut Vec<u8>) {
        match self.answer.form {
            Form::Whole if self.kind.custom.is_some() => self.whole(value, revision, out),
            Form::Whole if self.kind.is_verbatim(value, revision) => {
                // Items of typed lists carry no kind of their own.
                splice_item(value, revision, out);
            }
            Form::Whole => {
                let mut object = self.parse(value, revision);
                object.0.remove("kind");
                object.0.remove("apiVersion");
                write(out, &Value::Object(object.0));
            }
            Form::Partial | Form::PartialList => write(out, &partial(&self.parse(value, revision))),
            Form::Table => write(out, &self.row(value, revision)),
        }
    }

    fn parse(&self, value: &[u8], revision: u64) -> Object {
        let mut object = stored(value);
        self.kind.to_served(&mut object, revision);
        if revision > 0 {
            object.set_revision(revision);
        }
        object
    }

    fn row(&self, value: &[u8], revision: u64) -> Value {
        let cells = self.kind.cells(stored(value), revision, self.now);
        let object = match self.include {
            Include::None => Value::Null,
            Include::Metadata => partial(&self.parse(value, revision)),
            Include::Object => Value::Object(self.parse(value, revision).0),
        };
        json!({"cells": cells, "object": object})
    }

    fn columns(&self) -> Value {
        self.kind.column_definitions()
    }

    /// What stands before the items.
    pub fn list_head(&self, metadata: &Value, out: &mut Vec<u8>) {
        let (kind, api_version) = match self.answer.form {
            Form::Whole => (self.kind.list_kind().into_owned(), self.kind.api_version()),
            Form::Partial | Form::PartialList => ("PartialObjectMetadataList".into(), "meta.k8s.io/v1".into()),
            Form::Table => ("Table".into(), "meta.k8s.io/v1".into()),
        };
        out.extend_from_slice(
            format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":").as_bytes(),
        );
        write(out, metadata);
        if self.answer.form == Form::Table {
            out.extend_from_slice(b",\"columnDefinitions\":");
            write(out, &self.columns());
            out.extend_from_slice(b",\"rows\":[");
        } else {
            out.extend_from_slice(b",\"items\":[");
        }
    }

    pub const LIST_TAIL: &'static [u8] = b"]}\n";
}

fn stored(value: &[u8]) -> Object {
    meta::json::parse(value).ok().and_then(|p| Object::from_value(p.value)).unwrap_or_default()
}

/// Metadata only.
fn partial(object: &Object) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object.meta()})
}

pub fn write(out: &mut Vec<u8>, value: &Value) {
    meta::json::write(out, value);
}

/// An answer with a body of JSON, turned into YAML when asked.
pub fn respond(code: u16, encoding: Encoding, mut json: Vec<u8>) -> Response<Body> {
    let body: Bytes = match encoding {
        Encoding::Json => {
            if json.last() != Some(&b'\n') {
                json.push(b'\n');
            }
            json.into()
        }
        Encoding::Yaml => to_yaml(&json).into(),
    };
    build(code, encoding.content_type(), body.into())
}

fn to_yaml(json: &[u8]) -> String {
    // Our own reader: serde_json would stop at half the depth that is accepted.
    let value = meta::json::parse(json).map(|parsed| parsed.value).unwrap_or_default();
    serde_saphyr::to_string(&value).unwrap_or_default()
}

pub fn value(code: u16, value: &Value) -> Response<Body> {
    let mut out = Vec::new();
    write(&mut out, value);
    respond(code, Encoding::Json, out)
}

pub fn text(code: u16, text: impl Into<String>) -> Response<Body> {
    build(code, "text/plain; charset=utf-8", Bytes::from(text.into()).into())
}

/// The path leads nowhere.
/// Nothing to say, and that is fine.
pub fn nothing() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = http::StatusCode::NO_CONTENT;
    response
}

pub fn no_page() -> Response<Body> {
    text(404, "404 page not found\n")
}

pub fn build(code: u16, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// A failure.
pub fn status(status: &Status) -> Response<Body> {
    let mut response = value(status.code, &status.to_value());
    let retry = status.details.as_ref().and_then(|d| d.retry_after);
    if let Some(seconds) = retry {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// Indents a JSON answer for people; what is streamed or compressed stays as it is.
pub fn indent(response: &mut Response<Body>) {
    let json =
        response.headers().get(header::CONTENT_TYPE).is_some_and(|v| v.as_bytes().starts_with(b"application/json"));
    let packed = response.headers().contains_key(header::CONTENT_ENCODING);
    let Body::Full(Some(bytes)) = response.body() else { return };
    if let (true, false, Ok(value)) = (json, packed, meta::json::parse(bytes).map(|parsed| parsed.value)) {
        let pretty = serde_json::to_vec_pretty(&value).unwrap_or_default();
        *response.body_mut() = pretty.into();
    }
}

/// Adds a Warning header per finding; control characters cannot get into a header.
pub fn warn(response: &mut Response<Body>, warnings: &[String]) {
    const MOST: usize = 4096;
    let mut total = 0;
    for warning in warnings {
        let clean: String = warning.chars().filter(|c| !c.is_control()).collect();
        total += clean.len();
        if total > MOST {
            break;
        }
        let quoted = clean.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(header) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            response.headers_mut().append(header::WARNING, header);
        }
    }
}
