//! Kubernetes protobuf bodies to JSON, driven by the facts table: no generated code, no descriptor set.
//!
//! Clients send protobuf for every built-in kind; we answer JSON, which they all accept. `encode` is the way back, for tests and tools.

mod decode;
mod encode;
mod wire;

pub use decode::{Decoded, decode};
pub use encode::encode;

use thiserror::Error;

/// What every Kubernetes protobuf body begins with.
pub const MAGIC: [u8; 4] = *b"k8s\0";

#[derive(Debug, Error)]
pub enum ProtoError {
    #[error("the body is no Kubernetes protobuf: it does not begin with k8s\\0")]
    NoMagic,
    #[error("malformed protobuf: {0}")]
    Malformed(&'static str),
    #[error("malformed protobuf: field {field} of {of} has wire type {found}")]
    WireType { of: &'static str, field: &'static str, found: u8 },
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind { api_version: String, kind: String },
    #[error("content encoding {0:?} is not supported")]
    ContentEncoding(String),
    #[error("content type {0:?} is not supported inside a protobuf envelope")]
    ContentType(String),
    #[error("JSON inside the protobuf body: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the body is nested too deeply")]
    Depth,
    #[error("the body would take too much memory once decoded")]
    TooLarge,
}
