//! What a URL asks for: parsed once, before anybody is authorised, so that what is authorised is what is done.

use http::Method;
use percent_encoding::percent_decode_str;

/// A request's target as its path spells it; whether such a resource exists is decided later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Below `/api/v1` or `/apis/<group>/<version>`.
    Resource(Resource),
    /// Everything else: health, discovery, documents. Segments are decoded and hold no slash.
    Path(Vec<String>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    pub group: String,
    pub version: String,
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub subresource: String,
    /// What follows the subresource: the path a proxied request is for.
    pub tail: String,
    /// The old `/watch/` form of the path.
    pub watch: bool,
}

impl Resource {
    /// The namespace whose rules apply: a namespace is also its own.
    pub fn scope(&self) -> &str {
        if self.resource == "namespaces" && self.namespace.is_empty() { &self.name } else { &self.namespace }
    }
}

/// The path is not one we could ever serve: bad escapes, NUL, dot segments or encoded slashes.
#[derive(Debug, PartialEq, Eq)]
pub struct Hostile;

/// Parses a raw URL path.
pub fn parse(raw: &str) -> Result<Target, Hostile> {
    // `/api/` is `/api`, but an empty segment elsewhere is a name somebody lost: `configmaps//` must not mean all of them.
    let path = raw.strip_prefix('/').ok_or(Hostile)?;
    let (path, closed) = path.strip_suffix('/').map_or((path, false), |path| (path, true));
    let mut segments = Vec::new();
    for part in path.split('/').filter(|_| !path.is_empty()) {
        let decoded = percent_decode_str(part).decode_utf8().map_err(|_| Hostile)?;
        if decoded.is_empty() || decoded == "." || decoded == ".." || decoded.contains(['/', '\\', '\0']) {
            return Err(Hostile);
        }
        segments.push(decoded.into_owned());
    }
    match resource(&segments) {
        Some(_) if closed => Err(Hostile),
        Some(resource) => Ok(Target::Resource(resource)),
        None => Ok(Target::Path(segments)),
    }
}

fn resource(segments: &[String]) -> Option<Resource> {
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (group, version, mut rest) = match parts.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let watch = rest.first() == Some(&"watch");
    if watch {
        rest = &rest[1..];
    }
    let (namespace, rest) = match rest {
        [] => return None,
        // `namespaces/x/status` is a subresource of the namespace, not a resource in it.
        ["namespaces", _, "status" | "finalize"] => ("", rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        _ => ("", rest),
    };
    let (resource, name, subresource, tail) = match rest {
        [resource] => (*resource, "", "", String::new()),
        [resource, name] => (*resource, *name, "", String::new()),
        [resource, name, subresource, tail @ ..] => (*resource, *name, *subresource, tail.join("/")),
        [] => return None,
    };
    Some(Resource {
        group: group.into(),
        version: version.into(),
        resource: resource.into(),
        namespace: namespace.into(),
        name: name.into(),
        subresource: subresource.into(),
        tail,
        watch,
    })
}

/// What is done to a resource, in the words permissions use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// The verb of a request; `None` for methods the API does not know.
    pub fn of(method: &Method, target: &Resource, watch: bool) -> Option<Self> {
        let named = !target.name.is_empty();
        Some(match *method {
            Method::GET | Method::HEAD if target.watch || (watch && !named) => Self::Watch,
            Method::GET | Method::HEAD if named => Self::Get,
            Method::GET | Method::HEAD => Self::List,
            Method::POST => Self::Create,
            Method::PUT => Self::Update,
            Method::PATCH => Self::Patch,
            Method::DELETE if named => Self::Delete,
            Method::DELETE => Self::DeleteCollection,
            _ => return None,
        })
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// May be about the objects of all namespaces at once.
    pub fn reads_all(self) -> bool {
        matches!(self, Self::List | Self::Watch)
    }

    pub fn writes(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str) -> (String, String, String, String, String, String) {
        match parse(path) {
            Ok(Target::Resource(r)) => (r.group, r.version, r.resource, r.namespace, r.name, r.subresource),
            other => panic!("{path}: {other:?}"),
        }
    }

    fn row(
        group: &str,
        version: &str,
        resource: &str,
        ns: &str,
        name: &str,
        sub: &str,
    ) -> (String, String, String, String, String, String) {
        (group.into(), version.into(), resource.into(), ns.into(), name.into(), sub.into())
    }

    #[test]
    fn paths_name_resources() {
        let table = [
            ("/api/v1/configmaps", row("", "v1", "configmaps", "", "", "")),
            ("/api/v1/namespaces", row("", "v1", "namespaces", "", "", "")),
            ("/api/v1/namespaces/a", row("", "v1", "namespaces", "", "a", "")),
            ("/api/v1/namespaces/a/status", row("", "v1", "namespaces", "", "a", "status")),
            ("/api/v1/namespaces/a/finalize", row("", "v1", "namespaces", "", "a", "finalize")),
            ("/api/v1/namespaces/a/secrets", row("", "v1", "secrets", "a", "", "")),
            ("/api/v1/namespaces/a/secrets/b", row("", "v1", "secrets", "a", "b", "")),
            (
                "/apis/coordination.k8s.io/v1/namespaces/a/leases/b/status",
                row("coordination.k8s.io", "v1", "leases", "a", "b", "status"),
            ),
        ];
        for (path, want) in table {
            assert_eq!(found(path), want, "{path}");
        }
    }

    #[test]
    fn other_paths_stay_paths() {
        for path in ["/", "/api", "/api/", "/api/v1", "/apis/apps/v1", "/healthz", "/openapi/v3/api/v1"] {
            assert!(matches!(parse(path), Ok(Target::Path(_))), "{path}");
        }
    }

    // B-4
    #[test]
    fn hostile_paths_are_refused_before_anything_reads_them() {
        for path in [
            "/api/v1/../x",
            "/api/v1/namespaces/%2e%2e/secrets",
            "/api/v1/a%2fb",
            "/api/v1/a%00",
            "/api/v1/%ff",
            "/api/v1/a%5cb",
            "/api/v1/namespaces/a/secrets/",
            "/api/v1/namespaces//secrets",
            "//api/v1/secrets",
        ] {
            assert_eq!(parse(path), Err(Hostile), "{path}");
        }
    }
}
