//! Answers: text for people and scrapers, JSON for programs, refusals in the form of the Kubernetes API.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use serde::Serialize;
use serde_json::json;

pub type Answer = Response<Full<Bytes>>;

/// Why a request is not answered as asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: StatusCode,
    pub reason: &'static str,
    pub message: String,
}

impl Refusal {
    pub fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { code, reason, message: message.into() }
    }

    pub fn bad_request(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub fn not_found(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, "NotFound", message)
    }

    pub fn answer(self) -> Answer {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code.as_u16(),
        });
        let mut answer = bytes("application/json", status.to_string());
        *answer.status_mut() = self.code;
        if self.code == StatusCode::UNAUTHORIZED {
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        answer
    }
}

pub fn text(text: impl Into<String>) -> Answer {
    bytes("text/plain; charset=utf-8", text.into())
}

pub fn json(value: &impl Serialize) -> Result<Answer, Refusal> {
    let failed =
        |error: serde_json::Error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", error.to_string());
    Ok(bytes("application/json", serde_json::to_vec(value).map_err(failed)?))
}

pub fn bytes(kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}
