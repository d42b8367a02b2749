//! OpenAPI documents of what the server serves: v3 per group and version, v2 as one document (JSON and protobuf).
//!
//! Made from the facts table and a list of resources, so document and decoding cannot disagree.

mod components;
mod gnostic;
mod paths;
pub(crate) mod words;

use serde_json::{Map, Value, json};

use crate::facts::Facts;
use crate::structural::Schema;

pub use gnostic::v2_protobuf;

/// What clients ask for to get [`v2_protobuf`], and what the answer must be called instead: `@` is not allowed in a media type,
/// and Go clients refuse an answer that has it.
pub const V2_PROTOBUF_ACCEPT: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
pub const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// One served resource, as the documents need to know it.
#[derive(Clone, Debug)]
pub struct Resource<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    pub plural: &'a str,
    pub namespaced: bool,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verbs: &'a [&'a str],
    pub subresources: Vec<Subresource<'a>>,
    /// Its shape, when the facts table does not hold it.
    pub defined: Option<Defined<'a>>,
}

/// A kind that a CustomResourceDefinition defines.
#[derive(Clone, Copy, Debug)]
pub struct Defined<'a> {
    pub list_kind: &'a str,
    pub schema: &'a Schema,
    /// Dotted paths of the fields that selectors may name.
    pub selectable: &'a [String],
}

impl Resource<'_> {
    fn list_kind(&self) -> String {
        self.defined.map_or_else(|| format!("{}List", self.kind), |d| d.list_kind.to_owned())
    }
}

/// A subresource, with the kind its bodies have (often the resource's own).
#[derive(Clone, Debug)]
pub struct Subresource<'a> {
    pub name: &'a str,
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    pub verbs: &'a [&'a str],
}

/// The component every resource's metadata refers to.
pub(crate) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    V2,
    V3,
}

impl Style {
    pub(crate) fn reference(self, component: &str) -> String {
        match self {
            Style::V2 => format!("#/definitions/{component}"),
            Style::V3 => format!("#/components/schemas/{component}"),
        }
    }
}

/// The OpenAPI v3 document of one group and version; `resources` of other versions are passed over.
pub fn v3(facts: &Facts, group: &str, version: &str, resources: &[Resource<'_>], server_version: &str) -> Value {
    let own: Vec<&Resource<'_>> = resources.iter().filter(|r| r.group == group && r.version == version).collect();
    let (paths, schemas) = document(facts, &own, Style::V3);
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": server_version},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"BearerToken": bearer()},
        },
    })
}

/// The OpenAPI v2 document of everything served.
pub fn v2(facts: &Facts, resources: &[Resource<'_>], server_version: &str) -> Value {
    let all: Vec<&Resource<'_>> = resources.iter().collect();
    let (paths, definitions) = document(facts, &all, Style::V2);
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": server_version},
        "paths": paths,
        "definitions": definitions,
        "securityDefinitions": {"BearerToken": bearer()},
        "security": [{"BearerToken": []}],
    })
}

fn bearer() -> Value {
    json!({"type": "apiKey", "name": "authorization", "in": "header", "description": "Bearer token"})
}

fn document(facts: &Facts, resources: &[&Resource<'_>], style: Style) -> (Map<String, Value>, Map<String, Value>) {
    let mut components = components::Components::new(facts, style, resources);
    let mut paths = Map::new();
    for resource in resources {
        paths::add(resource, &mut components, &mut paths);
    }
    (paths, components.finish())
}

#[cfg(test)]
#[path = "openapi/tests.rs"]
mod tests;
