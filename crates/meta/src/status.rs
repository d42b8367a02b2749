//! The error contract: every failure is a `Status` object whose code and reason clients branch on.

use crate::GroupResource;
use crate::field::{FieldError, aggregate};
use serde_json::{Map, Value, json};

/// Machine-readable reason; `Unknown` is written as no reason at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Unknown,
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    AlreadyExists,
    Conflict,
    Gone,
    Invalid,
    Timeout,
    ServerTimeout,
    TooManyRequests,
    MethodNotAllowed,
    NotAcceptable,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    InternalError,
    Expired,
    ServiceUnavailable,
    /// The disk is full: writes fail, everything else goes on.
    StorageFull,
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::BadRequest => "BadRequest",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::Conflict => "Conflict",
            Self::Gone => "Gone",
            Self::Invalid => "Invalid",
            Self::Timeout => "Timeout",
            Self::ServerTimeout => "ServerTimeout",
            Self::TooManyRequests => "TooManyRequests",
            Self::MethodNotAllowed => "MethodNotAllowed",
            Self::NotAcceptable => "NotAcceptable",
            Self::RequestEntityTooLarge => "RequestEntityTooLarge",
            Self::UnsupportedMediaType => "UnsupportedMediaType",
            Self::InternalError => "InternalError",
            Self::Expired => "Expired",
            Self::ServiceUnavailable => "ServiceUnavailable",
            Self::StorageFull => "StorageFull",
        }
    }
}

/// More findings than this about one object are not told.
const MOST_CAUSES: usize = 1000;

/// One machine-readable part of a failure.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    pub reason: String,
    pub message: String,
    pub field: String,
}

/// What the failure is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    pub name: String,
    pub group: String,
    pub kind: String,
    pub uid: String,
    pub causes: Vec<Cause>,
    pub retry_after: Option<u32>,
}

/// A failure, ready to be answered. Boxed details keep `Result<_, Status>` small.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    pub code: u16,
    pub reason: Reason,
    pub message: String,
    pub details: Option<Box<Details>>,
    /// A fresh continue token that goes with an expired one.
    pub continue_token: Option<String>,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

impl Status {
    pub fn new(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, continue_token: None }
    }

    fn about(mut self, r: GroupResource<'_>, name: &str) -> Self {
        self.details = Some(Box::new(Details {
            name: name.into(),
            group: r.group.into(),
            kind: r.resource.into(),
            ..Details::default()
        }));
        self
    }

    fn with_cause(mut self, reason: &str, message: impl Into<String>, field: &str) -> Self {
        let details = self.details.get_or_insert_with(Box::default);
        details.causes.push(Cause { reason: reason.into(), message: message.into(), field: field.into() });
        self
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, Reason::BadRequest, message)
    }

    pub fn unauthorized() -> Self {
        Self::new(401, Reason::Unauthorized, "Unauthorized")
    }

    pub fn forbidden(r: GroupResource<'_>, name: &str, why: &str) -> Self {
        let message = if r.resource.is_empty() {
            format!("forbidden: {why}")
        } else if name.is_empty() {
            format!("{r} is forbidden: {why}")
        } else {
            format!("{r} {name:?} is forbidden: {why}")
        };
        Self::new(403, Reason::Forbidden, message).about(r, name)
    }

    /// Creation in a namespace that is going away; clients look for the cause.
    pub fn namespace_terminating(r: GroupResource<'_>, name: &str, namespace: &str) -> Self {
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let what = format!("namespace {namespace} is being terminated");
        Self::forbidden(r, name, &why).with_cause("NamespaceTerminating", what, "metadata.namespace")
    }

    pub fn not_found(r: GroupResource<'_>, name: &str) -> Self {
        Self::new(404, Reason::NotFound, format!("{r} {name:?} not found")).about(r, name)
    }

    /// The path names no resource we serve.
    pub fn no_such_resource() -> Self {
        let mut s = Self::new(404, Reason::NotFound, "the server could not find the requested resource");
        s.details = Some(Box::default());
        s
    }

    pub fn already_exists(r: GroupResource<'_>, name: &str) -> Self {
        Self::new(409, Reason::AlreadyExists, format!("{r} {name:?} already exists")).about(r, name)
    }

    /// No free name was found for a generateName.
    pub fn generate_name_exhausted(r: GroupResource<'_>, name: &str) -> Self {
        let mut s = Self::already_exists(r, name);
        s.message =
            format!("the server was not able to generate a unique name for the object: {r} {name:?} already exists");
        s
    }

    pub fn conflict(r: GroupResource<'_>, name: &str, why: &str) -> Self {
        Self::new(409, Reason::Conflict, format!("Operation cannot be fulfilled on {r} {name:?}: {why}")).about(r, name)
    }

    pub fn modified(r: GroupResource<'_>, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(r, name, why)
    }

    /// What somebody applies is owned by others: for each field, who and which.
    pub fn apply_conflict(message: String, causes: impl Iterator<Item = (String, String)>) -> Self {
        let status = Self::new(409, Reason::Conflict, message);
        causes.fold(status, |status, (why, field)| status.with_cause("FieldManagerConflict", why, &field))
    }

    /// A document that is well-formed but breaks the rules of its kind.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        // Who has made a thousand mistakes in one body has made them all the same way.
        let errors = &errors[..errors.len().min(MOST_CAUSES)];
        let what = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let mut s = Self::new(422, Reason::Invalid, format!("{what} {name:?} is invalid: {}", aggregate(errors)));
        let causes =
            errors.iter().map(|e| Cause { reason: e.reason().into(), message: e.message(), field: e.field.clone() });
        s.details = Some(Box::new(Details {
            name: name.into(),
            group: group.into(),
            kind: kind.into(),
            causes: causes.collect(),
            ..Details::default()
        }));
        s
    }

    /// A patch that parses but cannot be applied to the object as it is.
    pub fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(422, Reason::Invalid, message)
    }

    pub fn method_not_allowed() -> Self {
        let mut s =
            Self::new(405, Reason::MethodNotAllowed, "the server does not allow this method on the requested resource");
        s.details = Some(Box::default());
        s
    }

    /// The same, said by a resource that exists.
    pub fn method_not_supported(r: GroupResource<'_>, verb: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind \"{r}\"");
        Self::new(405, Reason::MethodNotAllowed, message).about(r, "")
    }

    pub fn not_acceptable(accepted: &str) -> Self {
        Self::new(406, Reason::NotAcceptable, format!("only the following media types are accepted: {accepted}"))
    }

    pub fn unsupported_media_type(accepted: &str) -> Self {
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        Self::new(415, Reason::UnsupportedMediaType, message)
    }

    pub fn too_large(limit: usize) -> Self {
        Self::new(413, Reason::RequestEntityTooLarge, format!("Request entity too large: limit is {limit}"))
    }

    /// History older than this is gone: relist.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, Reason::Expired, message)
    }

    pub fn revision_too_large(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let mut s = Self::new(504, Reason::Timeout, message).with_cause(
            "ResourceVersionTooLarge",
            "Too large resource version",
            "",
        );
        if let Some(d) = &mut s.details {
            d.retry_after = Some(1);
        }
        s
    }

    pub fn timeout(message: impl Into<String>) -> Self {
        let mut s = Self::new(504, Reason::Timeout, format!("Timeout: {}", message.into()));
        s.details = Some(Box::default());
        s
    }

    pub fn too_many_requests(message: impl Into<String>, retry_after: u32) -> Self {
        let mut s = Self::new(429, Reason::TooManyRequests, message);
        s.details = Some(Box::new(Details { retry_after: Some(retry_after), ..Details::default() }));
        s
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, Reason::ServiceUnavailable, message)
    }

    pub fn storage_full(message: impl Into<String>) -> Self {
        let mut s = Self::new(507, Reason::StorageFull, message);
        s.details = Some(Box::new(Details { retry_after: Some(5), ..Details::default() }));
        s
    }

    pub fn internal(message: impl std::fmt::Display) -> Self {
        let mut s = Self::new(500, Reason::InternalError, format!("Internal error occurred: {message}"));
        s.details = Some(Box::default());
        s.with_cause("", message.to_string(), "")
    }

    /// The object as it goes over the wire. What a client sent comes back in errors only in part: an answer stays small.
    pub fn to_value(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".into(), token.as_str().into());
        }
        let mut out = json!({"kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure"});
        if !self.message.is_empty() {
            out["message"] = clip(&self.message).into();
        }
        if self.reason != Reason::Unknown {
            out["reason"] = self.reason.as_str().into();
        }
        if let Some(d) = &self.details {
            out["details"] = d.to_value();
        }
        out["code"] = self.code.into();
        out
    }
}

impl Details {
    pub fn to_value(&self) -> Value {
        let mut out = Map::new();
        for (key, value) in [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)] {
            if !value.is_empty() {
                out.insert(key.into(), clip(value).into());
            }
        }
        if !self.causes.is_empty() {
            let causes = self.causes.iter().take(MAX_CAUSES).map(|c| {
                let mut cause = Map::new();
                for (key, value) in [("reason", &c.reason), ("message", &c.message), ("field", &c.field)] {
                    if !value.is_empty() {
                        cause.insert(key.into(), clip(value).into());
                    }
                }
                Value::Object(cause)
            });
            out.insert("causes".into(), causes.collect());
        }
        if let Some(seconds) = self.retry_after.filter(|seconds| *seconds > 0) {
            out.insert("retryAfterSeconds".into(), seconds.into());
        }
        Value::Object(out)
    }
}

const MAX_TEXT: usize = 4096;
const MAX_CAUSES: usize = 64;

fn clip(text: &str) -> String {
    if text.len() <= MAX_TEXT {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(MAX_TEXT);
    format!("{}… ({} bytes more)", &text[..end], text.len() - end)
}

/// The answer to a successful DELETE that has no object to show.
pub fn success(details: &Details) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details.to_value()})
}
