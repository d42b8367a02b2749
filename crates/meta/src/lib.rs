//! The object model over JSON: names, metadata, selectors. Pure: no tokio, no HTTP.

pub mod json;
pub mod name;
pub mod selector;
