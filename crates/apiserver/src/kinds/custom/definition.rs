//! From a CustomResourceDefinition to the kinds it makes.

use super::columns::columns;
use super::shape::Shape;
use super::{Custom, digest, flag, list, text, texts};
use crate::kinds::definition::CLEANUP;
use crate::kinds::registry::by_priority;
use crate::kinds::{Behaviour, Kind, STATUS, ScalePaths, ScaleSelector, Subresource, builtin};
use bytes::Bytes;
use meta::Object;
use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};
use store::{Collection, Revision};
use tokio_util::sync::CancellationToken;

/// One CustomResourceDefinition and the kinds it makes.
pub struct Definition {
    pub name: String,
    pub revision: Revision,
    /// One per served version.
    pub kinds: Vec<Arc<Kind>>,
    /// The storage version, served or not.
    pub stored: Arc<Kind>,
    /// The names it was granted.
    pub names: Names,
    accepted: bool,
    terminating: bool,
    /// It has all the names it wants.
    content: bool,
    /// It is going away and waits for its instances to go first.
    cleanup: bool,
    pub(super) shapes: Vec<Arc<Shape>>,
    /// Of everything that decides how requests are answered.
    digest: String,
    retired: CancellationToken,
}

/// The names a definition has been granted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    pub plural: String,
    pub singular: String,
    pub short: Vec<String>,
    pub kind: String,
    pub list_kind: String,
    pub categories: Vec<String>,
}

static PLAIN: Behaviour =
    Behaviour { generation: true, unconditional_update: false, status_metadata: false, ..builtin::PLAIN };

static WITH_STATUS: Behaviour = Behaviour {
    status: true,
    prepare_create: |object| {
        object.0.remove("status");
    },
    ..PLAIN
};

impl Definition {
    /// `stored` are the bytes of `object`; shapes that did not change come from `previous`. `None` when it is not a definition one could serve.
    pub fn new(
        object: &Object,
        stored: &Bytes,
        revision: Revision,
        previous: Option<&Definition>,
        stop: &CancellationToken,
    ) -> Option<Self> {
        let spec = object.0.get("spec")?;
        let status = object.0.get("status").unwrap_or(&Value::Null);
        let names = Names::parse(status.get("acceptedNames").unwrap_or(&Value::Null));
        let accepted = condition(object, "NamesAccepted") == "True" || condition(object, "Established") == "True";
        let terminating = object.is_deleting();
        let digest = digest(&(object.uid(), spec, names.to_value()));
        let retired = match previous {
            Some(previous) if previous.digest == digest => previous.retired.clone(),
            _ => stop.child_token(),
        };
        let versions = list(spec, "versions");
        let shapes: Vec<_> = versions.iter().map(|v| Shape::new(spec, v, stored, revision, previous)).collect();
        let storage = versions.iter().position(|v| flag(v, "storage"))?;
        let make =
            |at: usize| kind(spec, &versions[at], &names, (&shapes, at, storage), (terminating, &retired, &digest));
        let as_before =
            previous.filter(|p| p.digest == digest && p.terminating == terminating && p.accepted == accepted);
        let (kinds, stored) = match as_before {
            Some(previous) => (previous.kinds.clone(), previous.stored.clone()),
            None => {
                let stored = Arc::new(make(storage));
                let served = (0..versions.len()).filter(|at| flag(&versions[*at], "served"));
                let own = |at: usize| if at == storage { stored.clone() } else { Arc::new(make(at)) };
                (served.map(own).collect(), stored)
            }
        };
        let content = accepted && names == Names::parse(spec.get("names").unwrap_or(&Value::Null));
        let cleanup = terminating && object.has_finalizer(CLEANUP);
        let name = object.name().into();
        Some(Self {
            name,
            revision,
            kinds,
            stored,
            names,
            accepted,
            terminating,
            content,
            cleanup,
            shapes,
            digest,
            retired,
        })
    }

    pub fn is_served(&self) -> bool {
        self.accepted
    }

    /// Requests are answered as by `other`.
    pub fn serves_like(&self, other: &Definition) -> bool {
        Arc::ptr_eq(&self.stored, &other.stored)
    }

    /// As long as it does not change there is nothing to decide about it.
    pub fn is_settled(&self) -> bool {
        self.content
    }

    pub fn needs_cleanup(&self) -> bool {
        self.cleanup
    }

    /// Ends what depended on this definition unless `next` answers all requests as it did.
    pub fn retire(&self, next: Option<&Definition>) {
        if next.is_none_or(|next| next.digest != self.digest) {
            self.retired.cancel();
        }
    }
}

impl Names {
    pub fn parse(value: &Value) -> Self {
        Self {
            plural: text(value, "plural").into(),
            singular: text(value, "singular").into(),
            short: texts(value, "shortNames"),
            kind: text(value, "kind").into(),
            list_kind: text(value, "listKind").into(),
            categories: texts(value, "categories"),
        }
    }

    pub fn to_value(&self) -> Value {
        let mut out = json!({"plural": self.plural, "kind": self.kind});
        for (key, value) in [("singular", &self.singular), ("listKind", &self.list_kind)] {
            if !value.is_empty() {
                out[key] = value.as_str().into();
            }
        }
        for (key, value) in [("shortNames", &self.short), ("categories", &self.categories)] {
            if !value.is_empty() {
                out[key] = json!(value);
            }
        }
        out
    }
}

/// The status of a condition of a definition: `True`, `False`, or nothing.
pub fn condition<'a>(definition: &'a Object, kind: &str) -> &'a str {
    let conditions = definition.0.get("status").map(|s| list(s, "conditions")).unwrap_or_default();
    conditions.iter().find(|c| text(c, "type") == kind).map(|c| text(c, "status")).unwrap_or_default()
}

fn kind(
    spec: &Value,
    version: &Value,
    names: &Names,
    (shapes, own, storage): (&[Arc<Shape>], usize, usize),
    (terminating, retired, digest): (bool, &CancellationToken, &str),
) -> Kind {
    let group = text(spec, "group");
    let (shape, stored_shape) = (shapes[own].clone(), shapes[storage].clone());
    // Before names are granted nothing is served; the collection is where objects will be.
    let plural = spec.get("names").map(|n| text(n, "plural")).unwrap_or_default();
    let mut subresources = Vec::new();
    let wanted = version.get("subresources").unwrap_or(&Value::Null);
    let has_status = wanted.get("status").is_some_and(|s| !s.is_null());
    if has_status {
        subresources.push(STATUS);
    }
    if let Some(paths) = wanted.get("scale").filter(|s| !s.is_null()).map(scale_paths) {
        subresources.push(Subresource::scale(paths));
    }
    let all = list(spec, "versions").iter().flat_map(selectable);
    let mut selectable_anywhere: Vec<String> = all.collect();
    selectable_anywhere.sort();
    selectable_anywhere.dedup();
    let api_version = meta::api_version(group, text(version, "name"));
    let custom = Custom {
        list_kind: names.list_kind.clone(),
        terminating,
        warnings: deprecation(spec, version, &names.kind),
        retired: retired.clone(),
        digest: digest.to_owned(),
        head: head(&names.kind, &api_version),
        stored_api_version: meta::api_version(group, &stored_shape.version),
        shape,
        stored_shape,
        shapes: shapes.to_vec(),
        columns: columns(version),
        selectable: selectable(version).collect(),
        selectable_anywhere,
        row: OnceLock::new(),
    };
    Kind {
        group: group.into(),
        version: text(version, "name").into(),
        kind: names.kind.clone(),
        plural: plural.into(),
        singular: names.singular.clone(),
        short_names: names.short.clone(),
        categories: names.categories.clone(),
        namespaced: text(spec, "scope") != "Cluster",
        collection: Collection::new(&format!("{group}/{plural}")),
        stored_as: None,
        behaviour: if has_status { &WITH_STATUS } else { &PLAIN },
        subresources,
        action: None,
        custom: Some(Box::new(custom)),
        ordinal: usize::MAX,
    }
}

fn head(kind: &str, api_version: &str) -> Vec<u8> {
    let mut bytes = Object::default();
    bytes.set_type(api_version, kind);
    let mut bytes = bytes.encode();
    // Up to and with the brace that opens the metadata.
    bytes.truncate(bytes.len() - 2);
    bytes
}

fn scale_paths(scale: &Value) -> ScalePaths {
    let path = |key: &str| text(scale, key).trim_start_matches('.').to_owned();
    let selector = match path("labelSelectorPath") {
        none if none.is_empty() => ScaleSelector::None,
        path => ScaleSelector::Text(path),
    };
    ScalePaths { replicas: path("specReplicasPath").into(), current: path("statusReplicasPath").into(), selector }
}

fn selectable(version: &Value) -> impl Iterator<Item = String> {
    list(version, "selectableFields").iter().map(|f| text(f, "jsonPath").trim_start_matches('.').to_owned())
}

fn deprecation(spec: &Value, version: &Value, kind: &str) -> Vec<String> {
    if !flag(version, "deprecated") {
        return Vec::new();
    }
    let (group, own) = (text(spec, "group"), text(version, "name"));
    let words = match text(version, "deprecationWarning") {
        "" => {
            let fresh = list(spec, "versions").iter().filter(|v| flag(v, "served") && !flag(v, "deprecated"));
            let better = fresh.map(|v| text(v, "name")).filter(|name| by_priority(name, own).is_lt());
            let instead = better.min_by(|a, b| by_priority(a, b));
            let instead = instead.map(|name| format!("; use {group}/{name} {kind}")).unwrap_or_default();
            format!("{group}/{own} {kind} is deprecated{instead}")
        }
        words => words.to_owned(),
    };
    vec![words]
}
