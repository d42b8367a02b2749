//! Discovery: which groups, versions and resources there are, in the old form and the aggregated one.

use crate::Inner;
use crate::body::Body;
use crate::kinds::{Kind, Registry, Subresource};
use crate::render;
use auth::Authorized;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use meta::Status;
use serde_json::{Value, json};
use std::sync::OnceLock;

/// The aggregated documents, made when first asked for.
#[derive(Default)]
pub(crate) struct Discovery {
    core: OnceLock<Document>,
    groups: OnceLock<Document>,
}

struct Document {
    body: Bytes,
    etag: HeaderValue,
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

impl Discovery {
    fn core(&self, registry: &Registry) -> &Document {
        self.core.get_or_init(|| Document::new(registry, |group| group.is_empty()))
    }

    fn groups(&self, registry: &Registry) -> &Document {
        self.groups.get_or_init(|| Document::new(registry, |group| !group.is_empty()))
    }
}

impl Document {
    fn new(registry: &Registry, wanted: impl Fn(&str) -> bool) -> Self {
        let groups = registry.groups();
        let groups = groups.iter().filter(|(group, _)| wanted(group));
        let items: Vec<Value> = groups.map(|(group, versions)| aggregated(registry, group, versions)).collect();
        let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items});
        let mut body = Vec::new();
        render::write(&mut body, &list);
        Self { etag: etag(&body), body: body.into() }
    }
}

/// A strong tag over the document's bytes.
pub(crate) fn etag(body: &[u8]) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{}\"", digest(body))).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

pub(crate) fn digest(body: &[u8]) -> String {
    let sum = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA512_256, body);
    sum.as_ref().iter().map(|b| format!("{b:02X}")).collect()
}

/// The document, or 304 when the client has it already.
pub(crate) fn cached(
    headers: &HeaderMap,
    content_type: &'static str,
    body: Bytes,
    etag: &HeaderValue,
) -> Response<Body> {
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|v| v == etag);
    let mut response =
        render::build(if known { 304 } else { 200 }, content_type, if known { Body::empty() } else { body.into() });
    response.headers_mut().insert(header::ETAG, etag.clone());
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

fn wants_aggregated(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT);
    let clauses = values.iter().filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(','));
    // The client's first clause we can serve decides; plain JSON before the aggregated form means the old form.
    for clause in clauses {
        let parts: Vec<&str> = clause.split(';').map(str::trim).collect();
        let has = |what: &str| parts.contains(&what);
        if has("as=APIGroupDiscoveryList")
            && has("v=v2")
            && has("g=apidiscovery.k8s.io")
            && parts[0] == "application/json"
        {
            return true;
        }
        if parts == ["application/json"] || parts[0] == "*/*" {
            return false;
        }
    }
    false
}

impl Inner {
    pub(crate) fn discover(
        &self,
        _: &Authorized<'_>,
        path: &[&str],
        headers: &HeaderMap,
    ) -> Result<Response<Body>, Status> {
        let aggregated = wants_aggregated(headers);
        let served = self.served.get();
        let registry = &served.registry;
        let document = match path {
            [] => {
                let mut paths = vec!["/api".to_owned(), "/api/v1".into(), "/apis".into()];
                for (group, versions) in registry.groups().into_iter().filter(|(g, _)| !g.is_empty()) {
                    paths.push(format!("/apis/{group}"));
                    paths.extend(versions.iter().map(|v| format!("/apis/{group}/{v}")));
                }
                paths.extend(
                    ["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"].map(str::to_owned),
                );
                Some(json!({"paths": paths}))
            }
            ["api"] if aggregated => {
                let core = served.discovery.core(registry);
                return Ok(cached(headers, AGGREGATED, core.body.clone(), &core.etag));
            }
            ["apis"] if aggregated => {
                let groups = served.discovery.groups(registry);
                return Ok(cached(headers, AGGREGATED, groups.body.clone(), &groups.etag));
            }
            ["api"] => Some(json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})),
            ["apis"] => {
                let groups = registry.groups();
                let groups = groups.iter().filter(|(g, _)| !g.is_empty()).map(|(g, v)| group(g, v));
                Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups.collect::<Vec<_>>()}))
            }
            ["apis", name] => {
                let groups = registry.groups();
                groups.iter().find(|(g, _)| g == name && !g.is_empty()).map(|(name, versions)| {
                    let mut out = group(name, versions);
                    out["kind"] = "APIGroup".into();
                    out["apiVersion"] = "v1".into();
                    out
                })
            }
            ["api", version] => Some(resources(registry, "", version).ok_or_else(Status::no_such_resource)?),
            ["apis", group, version] => match resources(registry, group, version) {
                None if registry.is_builtin_group(group) => {
                    return Err(Status::no_such_resource());
                }
                found => found,
            },
            _ => return Err(Status::no_such_resource()),
        };
        Ok(document.map_or_else(render::no_page, |document| render::value(200, &document)))
    }
}

fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let resources: Vec<Value> = registry.of_version(group, version).flat_map(|k| legacy(k)).collect();
    if resources.is_empty() {
        return None;
    }
    let mut list =
        json!({"kind": "APIResourceList", "groupVersion": meta::api_version(group, version), "resources": resources});
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    Some(list)
}

fn group(name: &str, versions: &[&str]) -> Value {
    let version = |v: &&str| json!({"groupVersion": meta::api_version(name, v), "version": v});
    let versions: Vec<Value> = versions.iter().map(version).collect();
    json!({"name": name, "preferredVersion": versions[0], "versions": versions})
}

/// The old form: one entry for the resource and one for each subresource.
fn legacy(kind: &Kind) -> Vec<Value> {
    let mut main = json!({"name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced,
        "kind": kind.kind, "verbs": kind.verbs()});
    if kind.action.is_none() {
        main["storageVersionHash"] = storage_hash(kind).into();
    }
    if !kind.short_names.is_empty() {
        main["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        main["categories"] = json!(kind.categories);
    }
    let subresource = |sub: &Subresource| {
        let mut out = json!({"name": format!("{}/{}", kind.plural, sub.name), "singularName": "",
            "namespaced": kind.namespaced, "kind": kind.kind, "verbs": sub.verbs});
        if let Some(body) = sub.body {
            if body.group != kind.group || body.version != kind.version {
                out["group"] = body.group.into();
                out["version"] = body.version.into();
            }
            out["kind"] = body.kind.into();
        }
        out
    };
    std::iter::once(main).chain(kind.subresources.iter().map(subresource)).collect()
}

fn storage_hash(kind: &Kind) -> String {
    use base64::Engine;
    let stored = kind.stored_api_version();
    let (group, version) = meta::split_api_version(&stored);
    let sum =
        aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, format!("{group}/{version}/{}", kind.kind).as_bytes());
    base64::engine::general_purpose::STANDARD.encode(&sum.as_ref()[..8])
}

fn aggregated(registry: &Registry, group: &str, versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            let resources: Vec<Value> = registry.of_version(group, version).map(|k| aggregated_resource(k)).collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let mut metadata = json!({"creationTimestamp": null});
    if !group.is_empty() {
        metadata["name"] = group.into();
    }
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(kind: &Kind) -> Value {
    let response = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
    let mut out = json!({"resource": kind.plural, "responseKind": response, "singularResource": kind.singular,
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" }, "verbs": kind.verbs()});
    if !kind.short_names.is_empty() {
        out["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        out["categories"] = json!(kind.categories);
    }
    let subresource = |sub: &Subresource| {
        let response = match sub.body {
            Some(body) => json!({"group": body.group, "version": body.version, "kind": body.kind}),
            None => response.clone(),
        };
        json!({"subresource": sub.name, "responseKind": response, "verbs": sub.verbs})
    };
    let subresources: Vec<Value> = kind.subresources.iter().map(subresource).collect();
    if !subresources.is_empty() {
        out["subresources"] = subresources.into();
    }
    out
}
