//! How one JSON document changes another: JSON patch, merge patch, strategic merge patch, and server-side apply with its account of
//! who owns which field. Pure.
//!
//! Every function takes the document by value: a patch that fails half-way leaves nothing half-changed behind.

mod error;
pub mod json_patch;
pub mod managed;
mod measure;
pub mod merge_patch;
pub mod strategic;

pub use error::Error;

/// How deep a document may nest, counted in objects and arrays; the same limit the JSON reader keeps. Patches can build what no
/// body could carry (copying a document into itself), and everything that walks a document recurses once per level.
pub const MAX_DEPTH: usize = 256;
