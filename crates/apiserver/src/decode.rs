//! Request bodies: bytes of any content type become one `Object`, checked against the kind's schema.

use crate::kinds::Kind;
use crate::negotiate::Content;
use apply::managed::Managers;
use bytes::{Buf, Bytes, BytesMut};
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use meta::options::FieldValidation;
use meta::{FieldError, Object, Status, yaml};
use serde_json::Value;
use std::pin::{Pin, pin};
use std::time::Duration;

/// The largest body we read.
pub const MAX_BODY: usize = 3 * 1024 * 1024;

/// Reads a body, giving up as soon as it is known to be too large.
pub async fn read<B>(headers: &http::HeaderMap, body: B) -> Result<Bytes, Status>
where
    B: HttpBody,
    B::Error: std::fmt::Display,
{
    let declared = headers.get(http::header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|n| n > MAX_BODY as u64) {
        return Err(Status::too_large(MAX_BODY));
    }
    let mut body = pin!(body);
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| Status::bad_request(format!("the request body could not be read: {e}")))?;
        let Ok(mut data) = frame.into_data() else { continue };
        if first.len() + rest.len() + data.remaining() > MAX_BODY {
            return Err(Status::too_large(MAX_BODY));
        }
        if first.is_empty() && rest.is_empty() {
            first = data.copy_to_bytes(data.remaining());
        } else {
            if rest.is_empty() {
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&data.copy_to_bytes(data.remaining()));
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

/// Lets a client that was refused finish: one that still sends while it is answered may lose the answer. Not for long, nor for much,
/// and not for one that waits to be told to send (`Expect`).
pub async fn discard<B: HttpBody>(body: Pin<&mut B>) {
    const PATIENCE: Duration = Duration::from_secs(1);
    let mut body = body;
    let reading = async {
        let mut left = MAX_BODY;
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Buf::remaining));
            if left == 0 {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(PATIENCE, reading).await;
}

/// A decoded body and what the client should be warned about.
pub struct Decoded {
    pub object: Object,
    pub warnings: Vec<String>,
}

/// Decodes the body of a create or update.
pub fn object(kind: &Kind, content: Content, bytes: &[u8], validation: FieldValidation) -> Result<Decoded, Status> {
    let unrecognized = |why: String| {
        Status::bad_request(format!("the object provided is unrecognized (must be of type {}): {why}", kind.kind))
    };
    let (value, duplicates) = match content {
        Content::Json => {
            let parsed = meta::json::parse(bytes)
                .map_err(|e| unrecognized(format!("couldn't get version/kind; json parse error: {e}")))?;
            (parsed.value, parsed.duplicates)
        }
        Content::Yaml => (yaml::parse(bytes).map_err(|e| unrecognized(format!("yaml: {e}")))?, Vec::new()),
        Content::Protobuf => (proto::decode(bytes).map_err(|e| unrecognized(e.to_string()))?.value, Vec::new()),
    };
    // `null` is an object with nothing in it, as Go reads it.
    let value = if value.is_null() { Value::Object(Default::default()) } else { value };
    let mut object = Object::from_value(value)
        .ok_or_else(|| unrecognized("couldn't get version/kind; json parse error: the body is not an object".into()))?;
    if kind.custom.is_some() {
        if object.kind().is_empty() {
            let text = String::from_utf8_lossy(bytes);
            return Err(unrecognized(format!("Object 'Kind' is missing in '{text}' ({})", summary(bytes))));
        }
        let own = kind.api_version();
        if object.api_version() != own {
            return Err(Status::bad_request(format!(
                "the API version in the data ({}) does not match the expected API version ({own})",
                object.api_version()
            )));
        }
        check_custom_type(kind, &object)?;
    } else {
        check_type(kind, &mut object)?;
    }
    let cannot = |e: Misfit| {
        let (kind, version) = (&kind.kind, &kind.version);
        Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {e}"))
    };
    let warnings = check(kind, &mut object, duplicates, validation).map_err(cannot)?;
    Ok(Decoded { object, warnings })
}

/// A body may leave out its type; if it states one, it must be the path's.
fn check_type(kind: &Kind, object: &mut Object) -> Result<(), Status> {
    let (api_version, name) = (kind.api_version(), kind.kind.as_str());
    let stated = (object.api_version(), object.kind());
    if (!stated.0.is_empty() && stated.0 != api_version) || (!stated.1.is_empty() && stated.1 != name) {
        if stated.1 == name {
            return Err(Status::bad_request(format!(
                "the API version in the data ({}) does not match the expected API version ({api_version})",
                stated.0
            )));
        }
        let (_, version) = meta::split_api_version(stated.0);
        return Err(Status::bad_request(format!(
            "{} in version {version:?} cannot be handled as a {name}: the body's kind is not the path's",
            stated.1
        )));
    }
    object.set_type(&api_version, name);
    Ok(())
}

/// The type of a custom resource cannot be another than the path's.
pub fn check_custom_type(kind: &Kind, object: &Object) -> Result<(), Status> {
    let wanted = [("kind", object.kind(), kind.kind.clone()), ("apiVersion", object.api_version(), kind.api_version())];
    let wrong = wanted.into_iter().filter(|(_, stated, own)| stated != own);
    let errors: Vec<FieldError> =
        wrong.map(|(field, stated, own)| FieldError::invalid(field, stated, format!("must be {own}"))).collect();
    if errors.is_empty() {
        return Ok(());
    }
    let (group, _) = meta::split_api_version(object.api_version());
    Err(Status::invalid(group, object.kind(), object.name(), &errors))
}

/// The beginning of a body as errors show it: text, or bytes in hexadecimal.
fn summary(bytes: &[u8]) -> String {
    const MOST: usize = 30;
    let (start, more) = if bytes.len() > MOST { (&bytes[..MOST], " ...") } else { (bytes, "") };
    match start.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(start)),
        Some(_) => format!("{}{more}", start.iter().map(|b| format!("{b:02x}")).collect::<String>()),
    }
}

/// Why an object does not fit its kind.
#[derive(Debug, thiserror::Error)]
pub enum Misfit {
    #[error(transparent)]
    Type(#[from] schema::Mismatch),
    /// A resource within it cannot be read.
    #[error("{0}")]
    Resource(meta::FieldError),
    #[error("strict decoding error: {0}")]
    Strict(String),
}

/// Checks the object against its schema: unknown fields are dropped, and reported as the client asked.
pub fn check(
    kind: &Kind,
    object: &mut Object,
    duplicates: Vec<String>,
    validation: FieldValidation,
) -> Result<Vec<String>, Misfit> {
    // An empty list of owners asks to forget them; the types would leave it out.
    let reset = object.meta().get("managedFields").is_some_and(Managers::is_reset);
    let unknown = kind.conform(object)?;
    if let Some(wrong) = kind.custom.as_ref().and_then(|custom| custom.schema().malformed(&object.0)) {
        return Err(Misfit::Resource(wrong));
    }
    if reset {
        object.meta_mut().insert("managedFields".into(), Value::Array(Vec::new()));
    }
    let unknown = unknown.iter().map(|p| format!("unknown field {p:?}"));
    let duplicates = duplicates.iter().map(|p| format!("duplicate field {p:?}"));
    let found: Vec<String> = match kind.custom {
        None => unknown.chain(duplicates).collect(),
        Some(_) => duplicates.chain(unknown).collect(),
    };
    match validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(found),
        FieldValidation::Strict if found.is_empty() => Ok(found),
        FieldValidation::Strict => Err(Misfit::Strict(found.join(", "))),
    }
}

/// DeleteOptions, in whatever form they come; an empty body has none.
pub fn delete_options(content: Content, bytes: &[u8]) -> Result<Option<Object>, Status> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let value = match content {
        Content::Json => meta::json::parse(bytes).map(|p| p.value).map_err(|e| e.to_string()),
        Content::Yaml => yaml::parse(bytes),
        Content::Protobuf => proto::decode(bytes).map(|d| d.value).map_err(|e| e.to_string()),
    };
    let mut value = value.map_err(Status::bad_request)?;
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
    if !matches!(kind, "" | "DeleteOptions") {
        return Err(Status::bad_request(format!(
            "{kind:?} in the body of a delete is not understood; it must be of kind DeleteOptions"
        )));
    }
    // Options that are not read as they were meant would delete more than they say: `"dryRun": "All"` is no list.
    let facts = schema::Facts::builtin();
    if let (true, Some(ty)) = (value.is_object(), facts.named("meta/v1.DeleteOptions")) {
        schema::decode(facts, ty, &mut value).map_err(|why| Status::bad_request(why.to_string()))?;
    }
    let object = Object::from_value(value).ok_or_else(|| Status::bad_request("DeleteOptions must be an object"))?;
    Ok(Some(object))
}

/// A configuration to apply.
pub struct Configuration {
    pub object: Object,
    /// What is wrong with it if fields may not be given twice.
    pub duplicates: Option<String>,
}

/// Decodes the body of an apply patch: YAML, which mostly is JSON.
pub fn configuration(bytes: &[u8]) -> Result<Configuration, Status> {
    let malformed = |why: String| Status::bad_request(format!("error decoding YAML: {why}"));
    let (value, duplicates) = match meta::json::parse(bytes) {
        Ok(parsed) if parsed.duplicates.is_empty() => (parsed.value, None),
        _ => {
            let value =
                yaml::parse_last(bytes).map_err(|e| malformed(format!("error converting YAML to JSON: yaml: {e}")))?;
            let strict = yaml::parse(bytes).err();
            (value, strict.map(|e| format!("error converting YAML to JSON: yaml: unmarshal errors:\n  {e}")))
        }
    };
    let name = match &value {
        Value::Null => "null",
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::Object(_) => "object",
    };
    let value = if value.is_null() { Value::Object(Default::default()) } else { value };
    let object = Object::from_value(value).ok_or_else(|| {
        let why = format!("json: cannot unmarshal {name} into Go value of type map[string]interface {{}}");
        malformed(format!("error unmarshaling JSON: while decoding JSON: {why}"))
    })?;
    Ok(Configuration { object, duplicates })
}
