//! The one shape of every refusal: `{code, reason, message, details}`.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use serde_json::{Value, json};

/// Why a request was not done. `reason` is a stable word for programs, `message` is for people and says what to do.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    pub code: u16,
    pub reason: String,
    pub message: String,
    /// Always an object; empty when there is nothing more to say.
    pub details: Value,
}

/// No message is longer: what a client sent must not come back in full.
const LONGEST: usize = 2_000;

impl Problem {
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > LONGEST {
            let end = (0..=LONGEST).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
            message.truncate(end);
            message.push('…');
        }
        Self { code, reason: reason.to_owned(), message, details: json!({}) }
    }

    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details[key] = value.into();
        self
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(401, "Unauthorized", message)
    }

    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(403, "Forbidden", message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(404, "NotFound", message)
    }

    pub fn too_many(message: impl Into<String>) -> Self {
        Self::new(429, "TooManyRequests", message).with("retryAfterSeconds", 1)
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message).with("retryAfterSeconds", 1)
    }

    /// A `Status` (or whatever came in its place) of the Kubernetes API in our shape.
    pub fn from_api(code: u16, body: &[u8]) -> Self {
        let status: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        let word = |key: &str| status[key].as_str().filter(|text| !text.is_empty());
        let message = word("message").unwrap_or("the API gave no reason");
        // The API's own failures are not ours, and not the client's.
        if matches!(code, 500..=502 | 505..) {
            return Self::new(502, "ApiFailed", format!("the Kubernetes API failed ({code}): {message}"));
        }
        let mut problem = Self::new(code, word("reason").unwrap_or(reason_of(code)), message);
        let details = &status["details"];
        if let Some(causes) = details["causes"].as_array().filter(|causes| !causes.is_empty()) {
            let plain = |cause: &Value| json!({"field": cause["field"], "message": cause["message"]});
            problem.details["causes"] = causes.iter().take(100).map(plain).collect();
        }
        if let Some(seconds) = details["retryAfterSeconds"].as_u64().filter(|seconds| *seconds > 0) {
            problem.details["retryAfterSeconds"] = seconds.into();
        }
        problem
    }

    pub fn to_json(&self) -> Value {
        json!({"code": self.code, "reason": self.reason, "message": self.message, "details": self.details})
    }

    pub(crate) fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(self.to_json().to_string())));
        *response.status_mut() = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.code == 401 {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.details["retryAfterSeconds"].as_u64() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(allowed) = self.details["allow"].as_str().and_then(|allowed| HeaderValue::from_str(allowed).ok()) {
            headers.insert(header::ALLOW, allowed);
        }
        response
    }
}

fn reason_of(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        409 => "Conflict",
        410 => "Expired",
        413 => "RequestEntityTooLarge",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "Failed",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_status_of_the_api_keeps_code_reason_words_and_causes() {
        let status = br#"{"kind":"Status","reason":"Invalid","message":"spec is wrong","details":{"name":"x","causes":[{"reason":"FieldValueInvalid","field":"spec.replicas","message":"must be >= 0"}]}}"#;
        let problem = Problem::from_api(422, status);
        assert_eq!(
            (problem.code, problem.reason.as_str(), problem.message.as_str()),
            (422, "Invalid", "spec is wrong")
        );
        assert_eq!(problem.details, json!({"causes": [{"field": "spec.replicas", "message": "must be >= 0"}]}));
    }

    #[test]
    fn what_is_not_a_status_still_has_the_one_shape() {
        assert_eq!(Problem::from_api(404, b"<html>").reason, "NotFound");
        assert_eq!((Problem::from_api(500, b"").code, Problem::from_api(500, b"").reason.as_str()), (502, "ApiFailed"));
    }

    #[test]
    fn a_long_message_is_clipped_between_characters() {
        let problem = Problem::bad_request("é".repeat(3_000));
        assert!(problem.message.len() <= LONGEST + 3 && problem.message.ends_with('…'));
    }
}
