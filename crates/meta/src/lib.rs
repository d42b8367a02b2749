//! The object model over JSON: names, metadata, selectors, request options, Status errors, tables. Pure: no tokio, no HTTP.

pub mod duration;
pub mod field;
pub mod json;
pub mod name;
pub mod object;
pub mod options;
pub mod selector;
pub mod status;
pub mod table;
pub mod time;
pub mod yaml;

pub use field::{FieldError, FieldErrors};
pub use object::Object;
pub use status::{Reason, Status};
pub use time::{Clock, SystemClock};

/// A resource as errors and permissions name it: plural name and group ("" is the core group).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupResource<'a> {
    pub group: &'a str,
    pub resource: &'a str,
}

impl std::fmt::Display for GroupResource<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.group.is_empty() { f.write_str(self.resource) } else { write!(f, "{}.{}", self.resource, self.group) }
    }
}

/// Splits `apiVersion` into group and version: "v1" is the core group.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// Joins group and version as `apiVersion` writes them.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}
