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
use std::sync::{Arc, OnceLock};

const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const VERSION: &str = "v1.34.0";

pub(crate) struct Documents {
    /// By path below /openapi/v3: `api/v1`, `apis/coordination.k8s.io/v1`.
    v3: BTreeMap<String, Arc<Version>>,
    v2: OnceLock<(Document, Document)>,
}

/// The document of one group and version, made when first asked for.
struct Version {
    group: String,
    version: String,
    /// What its custom kinds are made from; it stands for the document in the index, so that the index needs no documents.
    digest: Option<String>,
    document: OnceLock<Document>,
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

impl Documents {
    /// Documents whose kinds are as they were are taken from `previous`.
    pub fn new(registry: &Registry, previous: Option<&Documents>) -> Self {
        let mut v3 = BTreeMap::new();
        for (group, versions) in registry.groups() {
            for version in versions {
                let path = if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
                let digests: Vec<&str> = (registry.of_version(group, version))
                    .filter_map(|k| k.custom.as_ref().map(|c| c.digest.as_str()))
                    .collect();
                let digest = match digests.as_slice() {
                    [] => None,
                    [only] => Some((*only).to_owned()),
                    several => Some(digest(several.join(" ").as_bytes())),
                };
                let kept = previous.and_then(|p| p.v3.get(&path)).filter(|kept| kept.digest == digest).cloned();
                let make = || {
                    let (group, version) = (group.to_owned(), version.to_owned());
                    Arc::new(Version { group, version, digest, document: OnceLock::new() })
                };
                v3.insert(path, kept.unwrap_or_else(make));
            }
        }
        Self { v3, v2: OnceLock::new() }
    }
}

impl Version {
    fn document(&self, registry: &Registry) -> &Document {
        self.document.get_or_init(|| {
            let kinds = registry.of_version(&self.group, &self.version);
            let resources: Vec<Resource<'_>> = kinds.map(|k| resource(k)).collect();
            let facts = schema::Facts::builtin();
            Document::json(&openapi::v3(facts, &self.group, &self.version, &resources, VERSION))
        })
    }

    fn hash(&self, registry: &Registry) -> &str {
        self.digest.as_deref().unwrap_or_else(|| &self.document(registry).hash)
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
        let served = self.served.get();
        let (documents, registry) = (&served.documents.v3, &served.registry);
        if path.is_empty() {
            let entry = |(path, version): (&String, &Arc<Version>)| {
                let url = format!("/openapi/v3/{path}?hash={}", version.hash(registry));
                (path.clone(), json!({"serverRelativeURL": url}))
            };
            let paths: Map<String, Value> = documents.iter().map(entry).collect();
            return Ok(render::value(200, &json!({"paths": paths})));
        }
        let version = documents.get(&path.join("/")).ok_or_else(Status::no_such_resource)?;
        let document = version.document(registry);
        let mut response = cached(headers, "application/json", document.body.clone(), &document.etag);
        if Query::parse(query).get("hash") == Some(version.hash(registry)) {
            let forever = HeaderValue::from_static("public, immutable");
            response.headers_mut().insert(header::CACHE_CONTROL, forever);
        }
        Ok(response)
    }

    pub(crate) fn openapi_v2(&self, _: &Authorized<'_>, headers: &HeaderMap) -> Result<Response<Body>, Status> {
        let served = self.served.get();
        let (json, protobuf) = served.documents.v2.get_or_init(|| v2(&served.registry));
        let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
        Ok(if accept.contains("proto-openapi.spec.v2") {
            cached(headers, V2_PROTOBUF, protobuf.body.clone(), &protobuf.etag)
        } else {
            cached(headers, "application/json", json.body.clone(), &json.etag)
        })
    }
}

fn v2(registry: &Registry) -> (Document, Document) {
    let resources: Vec<Resource<'_>> = registry.kinds().iter().map(|k| resource(k)).collect();
    let document = openapi::v2(schema::Facts::builtin(), &resources, VERSION);
    (Document::json(&document), Document::new(openapi::v2_protobuf(&document)))
}

/// A kind in the schema room's words.
fn resource(kind: &Kind) -> Resource<'_> {
    Resource {
        group: &kind.group,
        version: &kind.version,
        kind: &kind.kind,
        plural: &kind.plural,
        namespaced: kind.namespaced,
        verbs: kind.verbs(),
        subresources: subresources(kind),
        defined: kind.custom.as_ref().map(|c| c.defined()),
    }
}

fn subresources(kind: &Kind) -> Vec<Subresource<'_>> {
    let entry = |sub: &'_ kinds::Subresource| Subresource {
        name: sub.name,
        group: sub.body.map_or(&kind.group, |b| b.group),
        version: sub.body.map_or(&kind.version, |b| b.version),
        kind: sub.body.map_or(&kind.kind, |b| b.kind),
        verbs: sub.verbs,
    };
    // Connections have no body that a schema could describe.
    kind.subresources.iter().filter(|sub| !matches!(sub.endpoint, kinds::Endpoint::Connect(_))).map(entry).collect()
}
