//! May they: the one place that decides, and the proof it hands out.
//!
//! Roles come later and will be asked in [`Authorizer::authorize`]; until then members of `system:masters` may do everything, and
//! everybody may ask whether the server lives and which version it is.

use std::sync::Arc;

use crate::{MASTERS, User};

/// What is asked, after the path has been taken apart. Absent parts are empty, as in Kubernetes' own attributes.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub user: &'a Arc<User>,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; the lower-case method when not a resource.
    pub verb: &'a str,
    pub group: &'a str,
    pub version: &'a str,
    /// Empty for requests that are not about a resource: those are judged by `path`.
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub path: &'a str,
}

/// Proof that a user may do one thing. Handlers take it, so that none can be reached around the authorizer; what a handler acts on
/// should be read from here, because this is what was allowed.
///
/// Only [`Authorizer::authorize`] makes one:
/// ```compile_fail
/// # use muster_auth as auth;
/// fn widen(proof: auth::Authorized) -> auth::Authorized {
///     auth::Authorized { verb: "delete".into(), ..proof }
/// }
/// ```
/// ```compile_fail
/// # use muster_auth as auth;
/// let forged = auth::Authorized::default();
/// ```
/// What it says can be read:
/// ```
/// # use muster_auth as auth;
/// fn whom(allowed: &auth::Authorized) -> &str { &allowed.user().name }
/// ```
#[derive(Debug)]
pub struct Authorized {
    user: Arc<User>,
    verb: Box<str>,
    group: Box<str>,
    version: Box<str>,
    resource: Box<str>,
    subresource: Box<str>,
    namespace: Box<str>,
    name: Box<str>,
    path: Box<str>,
}

impl Authorized {
    pub fn user(&self) -> &Arc<User> {
        &self.user
    }
    pub fn verb(&self) -> &str {
        &self.verb
    }
    pub fn group(&self) -> &str {
        &self.group
    }
    pub fn version(&self) -> &str {
        &self.version
    }
    pub fn resource(&self) -> &str {
        &self.resource
    }
    pub fn subresource(&self) -> &str {
        &self.subresource
    }
    pub fn namespace(&self) -> &str {
        &self.namespace
    }
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The path of a request that is not about a resource; otherwise empty.
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// The answer 403, in Kubernetes' words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Denied {
    pub message: String,
}

#[derive(Debug, Default)]
pub struct Authorizer {
    _rules: (),
}

impl Authorizer {
    pub fn new() -> Authorizer {
        Authorizer::default()
    }

    pub fn authorize(&self, request: Request<'_>) -> Result<Authorized, Denied> {
        if request.user.is_in(MASTERS) || is_open_to_all(&request) {
            return Ok(request.allowed());
        }
        Err(Denied { message: request.denial() })
    }
}

/// Whether it lives, and which version it is: what a load balancer and `kubectl version` ask before they have credentials.
fn is_open_to_all(request: &Request<'_>) -> bool {
    let below =
        |root: &str| request.path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    request.resource.is_empty()
        && request.verb == "get"
        && (request.path == "/version"
            || request.path == "/version/"
            || ["/healthz", "/livez", "/readyz"].into_iter().any(below))
}

impl Request<'_> {
    fn allowed(&self) -> Authorized {
        Authorized {
            user: Arc::clone(self.user),
            verb: self.verb.into(),
            group: self.group.into(),
            version: self.version.into(),
            resource: self.resource.into(),
            subresource: self.subresource.into(),
            namespace: self.namespace.into(),
            name: self.name.into(),
            path: if self.resource.is_empty() { self.path.into() } else { Box::default() },
        }
    }

    fn denial(&self) -> String {
        let Request { user, verb, group, resource, subresource, namespace, name, path, .. } = self;
        let user = &user.name;
        if resource.is_empty() {
            return format!("forbidden: User {user:?} cannot {verb} path {path:?}");
        }
        let dot = if group.is_empty() { "" } else { "." };
        let named = if name.is_empty() { String::new() } else { format!(" {name:?}") };
        let slash = if subresource.is_empty() { "" } else { "/" };
        let scope = match *namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {namespace:?}"),
        };
        format!(
            "{resource}{dot}{group}{named} is forbidden: User {user:?} cannot {verb} resource \
             \"{resource}{slash}{subresource}\" in API group {group:?} {scope}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked<'a>(user: &'a Arc<User>, verb: &'a str) -> Request<'a> {
        Request {
            user,
            verb,
            group: "",
            version: "v1",
            resource: "configmaps",
            subresource: "",
            namespace: "d",
            name: "x",
            path: "/api/v1/namespaces/d/configmaps/x",
        }
    }

    fn path<'a>(user: &'a Arc<User>, verb: &'a str, path: &'a str) -> Request<'a> {
        Request { user, verb, group: "", version: "", resource: "", subresource: "", namespace: "", name: "", path }
    }

    #[test]
    fn masters_may_do_everything_and_the_proof_says_what() {
        let admin = Arc::new(User::admin());
        let proof = Authorizer::new().authorize(asked(&admin, "delete")).unwrap();
        assert_eq!(
            (proof.user().name.as_str(), proof.verb(), proof.resource(), proof.namespace(), proof.name(), proof.path()),
            ("system:admin", "delete", "configmaps", "d", "x", "")
        );
        let proof = Authorizer::new().authorize(path(&admin, "post", "/anything")).unwrap();
        assert_eq!(proof.path(), "/anything");
    }

    #[test]
    fn everybody_may_ask_for_health_and_version_only() {
        let nobody = Arc::new(User::anonymous());
        for (verb, url, allowed) in [
            ("get", "/healthz", true),
            ("get", "/livez/ping", true),
            ("get", "/readyz", true),
            ("get", "/version", true),
            ("post", "/healthz", false),
            ("get", "/healthzx", false),
            ("get", "/healthz../api", false),
            ("get", "/version/x", false),
            ("get", "/", false),
            ("get", "/api", false),
            ("get", "/metrics", false),
            ("get", "/muster.dev/backup", false),
        ] {
            assert_eq!(Authorizer::new().authorize(path(&nobody, verb, url)).is_ok(), allowed, "{verb} {url}");
        }
        // A path that looks like health does not open a resource.
        let trick = Request { path: "/healthz", ..asked(&nobody, "get") };
        assert!(Authorizer::new().authorize(trick).is_err());
    }

    #[test]
    fn denials_are_worded_as_kubernetes_words_them() {
        let user = Arc::new(User::authenticated("u", "", ["dev".to_owned()]));
        let denied = |request| Authorizer::new().authorize(request).unwrap_err().message;
        let get = asked(&user, "get");
        assert_eq!(
            denied(get),
            "configmaps \"x\" is forbidden: User \"u\" cannot get resource \"configmaps\" in API group \"\" in the namespace \"d\""
        );
        assert_eq!(
            denied(Request {
                verb: "list",
                name: "",
                namespace: "",
                resource: "leases",
                group: "coordination.k8s.io",
                ..get
            }),
            "leases.coordination.k8s.io is forbidden: User \"u\" cannot list resource \"leases\" in API group \
             \"coordination.k8s.io\" at the cluster scope"
        );
        assert_eq!(
            denied(Request { verb: "update", subresource: "status", namespace: "", resource: "namespaces", ..get }),
            "namespaces \"x\" is forbidden: User \"u\" cannot update resource \"namespaces/status\" in API group \"\" at the cluster scope"
        );
        assert_eq!(denied(path(&user, "get", "/x")), "forbidden: User \"u\" cannot get path \"/x\"");
    }

    proptest::proptest! {
        /// Nobody outside `system:masters` gets a proof for a resource, whatever the names are.
        #[test]
        fn resources_are_closed_by_default(groups in proptest::collection::vec("[a-z:]{0,16}", 0..4), verb in "[a-z]{0,8}", name in ".{0,8}") {
            proptest::prop_assume!(groups.iter().all(|g| g != MASTERS));
            let user = Arc::new(User::authenticated("u", "", groups));
            let request = Request { verb: &verb, name: &name, path: "/healthz", ..asked(&user, "get") };
            proptest::prop_assert!(Authorizer::new().authorize(request).is_err());
        }
    }
}
