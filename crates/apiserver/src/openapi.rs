//! OpenAPI documents, made from the schema room's facts when first asked for and kept.

use crate::Inner;
use crate::body::Body;
use crate::discovery::{cached, digest, etag};
use crate::kinds::{self, Kind, Registry};
use crate::render;
use auth::Authorized;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use meta::Status;
use meta::options::Query;
use schema::openapi::{self, Resource, Subresource};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::OnceLock;

const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const VERSION: &str = "v1.34.0";

#[derive(Default)]
pub(crate) struct Documents {
    /// By path below /openapi/v3: `api/v1`, `apis/coordination.k8s.io/v1`.
    v3: OnceLock<BTreeMap<String, Document>>,
    v2: OnceLock<(Document, Document)>,
}

struct Document {
    body: Bytes,
    hash: String,
    etag: HeaderValue,
}

impl Document {
    fn new(body: Vec<u8>) -> Self {
        Self { hash: digest(&body), etag: etag(&body), body: body.into() }
    }

    fn json(value: &Value) -> Self {
        let mut body = Vec::new();
        render::write(&mut body, value);
        Self::new(body)
    }
}

impl Inner {
    /// The index of group-versions, or one of them. The hash in the URL lets clients cache for good.
    pub(crate) fn openapi_v3(
        &self,
        _: &Authorized<'_>,
        path: &[&str],
        headers: &HeaderMap,
        query: Option<&str>,
    ) -> Result<Response<Body>, Status> {
        let documents = self.documents.v3.get_or_init(|| v3(&self.registry));
        if path.is_empty() {
            let entry = |(path, d): (&String, &Document)| {
                let url = format!("/openapi/v3/{path}?hash={}", d.hash);
                (path.clone(), json!({"serverRelativeURL": url}))
            };
            let paths: Map<String, Value> = documents.iter().map(entry).collect();
            return Ok(render::value(200, &json!({"paths": paths})));
        }
        let document = documents.get(&path.join("/")).ok_or_else(Status::no_such_resource)?;
        let mut response = cached(headers, "application/json", document.body.clone(), &document.etag);
        if Query::parse(query).get("hash") == Some(&document.hash) {
            let forever = HeaderValue::from_static("public, immutable");
            response.headers_mut().insert(header::CACHE_CONTROL, forever);
        }
        Ok(response)
    }

    pub(crate) fn openapi_v2(&self, _: &Authorized<'_>, headers: &HeaderMap) -> Result<Response<Body>, Status> {
        let (json, protobuf) = self.documents.v2.get_or_init(|| v2(&self.registry));
        let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
        Ok(if accept.contains("proto-openapi.spec.v2") {
            cached(headers, V2_PROTOBUF, protobuf.body.clone(), &protobuf.etag)
        } else {
            cached(headers, "application/json", json.body.clone(), &json.etag)
        })
    }
}

fn v3(registry: &Registry) -> BTreeMap<String, Document> {
    let resources = resources(registry);
    let versions = registry.groups().into_iter().flat_map(|(g, versions)| versions.into_iter().map(move |v| (g, v)));
    versions
        .map(|(group, version)| {
            let path = if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
            let document = openapi::v3(schema::Facts::builtin(), group, version, &resources, VERSION);
            (path, Document::json(&document))
        })
        .collect()
}

fn v2(registry: &Registry) -> (Document, Document) {
    let document = openapi::v2(schema::Facts::builtin(), &resources(registry), VERSION);
    (Document::json(&document), Document::new(openapi::v2_protobuf(&document)))
}

/// The registry in the schema room's words.
fn resources(registry: &Registry) -> Vec<Resource<'_>> {
    fn resource(k: &Kind) -> Resource<'_> {
        Resource {
            group: &k.group,
            version: &k.version,
            kind: &k.kind,
            plural: &k.plural,
            namespaced: k.namespaced,
            verbs: k.verbs(),
            subresources: subresources(k),
        }
    }
    registry.kinds().iter().map(|k| resource(k)).collect()
}

fn subresources(kind: &Kind) -> Vec<Subresource<'_>> {
    let entry = |sub: &'_ kinds::Subresource| Subresource {
        name: sub.name,
        group: sub.body.map_or(&kind.group, |b| b.group),
        version: sub.body.map_or(&kind.version, |b| b.version),
        kind: sub.body.map_or(&kind.kind, |b| b.kind),
        verbs: sub.verbs,
    };
    kind.subresources.iter().map(entry).collect()
}
