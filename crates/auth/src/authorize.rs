//! May they: the one place that decides, and the proof it hands out.
//!
//! Members of `system:masters` may do everything, whoever may ask for health and version may, and for the rest there is the
//! [`Policy`] of Roles and bindings. What no rule allows is denied.

use std::sync::{Arc, OnceLock};

use crate::{
    MASTERS, Policy, RoleRef, Rule, User, policy,
    policy::Verdict,
    rule::{self, Quoted},
};

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

impl<'a> Request<'a> {
    /// A request that is not about a resource.
    pub fn path(user: &'a Arc<User>, verb: &'a str, path: &'a str) -> Request<'a> {
        Request { user, verb, group: "", version: "", resource: "", subresource: "", namespace: "", name: "", path }
    }
}

/// Proof that a user may do one thing. Handlers take it, so that none can be reached around the authorizer; what a handler acts on
/// should be read from here, because this is what was allowed.
///
/// Only [`Authorizer::authorize`] makes one:
/// ```compile_fail
/// # use muster_auth as auth;
/// fn widen<'a>(proof: auth::Authorized<'a>, other: auth::Request<'a>) -> auth::Authorized<'a> {
///     auth::Authorized { request: other, ..proof }
/// }
/// ```
/// ```compile_fail
/// # use muster_auth as auth;
/// let forged = auth::Authorized::default();
/// ```
/// What it says can be read:
/// ```
/// # use muster_auth as auth;
/// fn whom<'a>(allowed: &auth::Authorized<'a>) -> &'a str { &allowed.user().name }
/// ```
#[derive(Debug)]
pub struct Authorized<'a> {
    request: Request<'a>,
    reason: Option<Arc<str>>,
}

impl<'a> Authorized<'a> {
    /// What was asked and allowed, e.g. to ask for something else about the same thing.
    pub fn request(&self) -> Request<'a> {
        self.request
    }
    pub fn user(&self) -> &'a Arc<User> {
        self.request.user
    }
    pub fn verb(&self) -> &'a str {
        self.request.verb
    }
    pub fn group(&self) -> &'a str {
        self.request.group
    }
    pub fn version(&self) -> &'a str {
        self.request.version
    }
    pub fn resource(&self) -> &'a str {
        self.request.resource
    }
    pub fn subresource(&self) -> &'a str {
        self.request.subresource
    }
    pub fn namespace(&self) -> &'a str {
        self.request.namespace
    }
    pub fn name(&self) -> &'a str {
        self.request.name
    }
    /// The path of a request that is not about a resource; otherwise empty.
    pub fn path(&self) -> &'a str {
        if self.request.resource.is_empty() { self.request.path } else { "" }
    }
    /// The binding that allows it; none for `system:masters` and for what everybody may.
    pub fn reason(&self) -> Option<&Arc<str>> {
        self.reason.as_ref()
    }
}

/// A right that outlives its request, such as a watch's, to be asked for again now and then. It permits nothing by itself.
#[derive(Debug)]
pub struct Right {
    authorizer: Authorizer,
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

impl Right {
    /// Whether it would still be granted.
    pub fn holds(&self) -> bool {
        self.authorizer.decide(&self.request()).is_ok()
    }

    fn request(&self) -> Request<'_> {
        Request {
            user: &self.user,
            verb: &self.verb,
            group: &self.group,
            version: &self.version,
            resource: &self.resource,
            subresource: &self.subresource,
            namespace: &self.namespace,
            name: &self.name,
            path: &self.path,
        }
    }
}

/// The answer 403, in Kubernetes' words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Denied {
    pub message: String,
    /// Which bindings were looked at in vain. For the log: the caller is not told.
    pub reason: String,
}

/// An answer that permits nothing by itself: what a review tells about somebody.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Opinion {
    pub allowed: bool,
    pub reason: String,
}

/// Why rules may not be given to somebody else.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Escalation(String);

/// Where the policy comes from. `read` calls with one that holds every write acknowledged before the call.
pub trait PolicySource: Send + Sync {
    fn read(&self, with: &mut dyn FnMut(&Policy));
}

/// Cheap to clone; clones ask the same policy.
#[derive(Clone, Default)]
pub struct Authorizer {
    source: Arc<OnceLock<Arc<dyn PolicySource>>>,
}

impl std::fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authorizer").field("policy", &self.source.get().is_some()).finish()
    }
}

impl Authorizer {
    /// Knows `system:masters` only, until it is given a policy.
    pub fn new() -> Authorizer {
        Authorizer::default()
    }

    /// Asks this policy from now on. The first one stays.
    pub fn follow(&self, source: Arc<dyn PolicySource>) {
        let _ = self.source.set(source);
    }

    pub fn authorize<'a>(&self, request: Request<'a>) -> Result<Authorized<'a>, Denied> {
        match self.decide(&request) {
            Ok(reason) => Ok(Authorized { request, reason }),
            Err(missing) => {
                let lost = policy::unresolved(&missing);
                let colon = if lost.is_empty() { "" } else { ": " };
                let message = format!("{}{colon}{lost}", request.denial());
                Err(Denied { message, reason: self.explain(&request, lost) })
            }
        }
    }

    /// What was allowed, for asking again later.
    pub fn right(&self, proof: &Authorized<'_>) -> Right {
        let request = proof.request;
        Right {
            authorizer: self.clone(),
            user: Arc::clone(request.user),
            verb: request.verb.into(),
            group: request.group.into(),
            version: request.version.into(),
            resource: request.resource.into(),
            subresource: request.subresource.into(),
            namespace: request.namespace.into(),
            name: request.name.into(),
            path: request.path.into(),
        }
    }

    /// What [`authorize`](Self::authorize) would say, without the proof.
    pub fn opinion(&self, request: &Request<'_>) -> Opinion {
        match self.decide(request) {
            Ok(reason) => Opinion { allowed: true, reason: reason.map(|r| r.to_string()).unwrap_or_default() },
            Err(missing) => Opinion { allowed: false, reason: self.explain(request, policy::unresolved(&missing)) },
        }
    }

    /// Why nothing allows a request: the roles that are lost, and what was looked at.
    fn explain(&self, request: &Request<'_>, lost: String) -> String {
        let looked = self.with_policy(|policy| policy.explain(request));
        if lost.is_empty() { looked } else { format!("{lost}; {looked}") }
    }

    fn decide(&self, request: &Request<'_>) -> Result<Option<Arc<str>>, Vec<RoleRef>> {
        if request.user.is_in(MASTERS) || is_open_to_all(request) {
            return Ok(None);
        }
        match self.with_policy(|policy| policy.decide(request)) {
            Verdict::Allowed(reason) => Ok(Some(reason)),
            Verdict::Silent(missing) => Err(missing),
        }
    }

    /// Every rule of the user in the namespace, and the roles its bindings name in vain.
    pub fn rules_of(&self, user: &User, namespace: &str) -> (Vec<Rule>, Vec<RoleRef>) {
        self.with_policy(|policy| policy.rules_of(user, namespace))
    }

    /// The rules of a role, if there is such a role.
    pub fn role(&self, role: &RoleRef) -> Option<Arc<[Rule]>> {
        self.with_policy(|policy| policy.role(role).cloned())
    }

    /// Nobody gives away rights it does not have: everything the rules allow must be allowed to the user already.
    /// `role_resource` names roles that could not be found, as the API names the thing being written.
    pub fn confirm_grant(
        &self,
        user: &User,
        namespace: &str,
        rules: &[Rule],
        role_resource: &str,
    ) -> Result<(), Escalation> {
        if user.is_in(MASTERS) {
            return Ok(());
        }
        let (held, lost) = self.rules_of(user, namespace);
        let missing = match rule::missing(&held, rules) {
            Ok(missing) if missing.is_empty() => return Ok(()),
            Ok(missing) => {
                let mut texts: Vec<String> = missing.iter().map(ToString::to_string).collect();
                texts.sort();
                texts.dedup();
                texts.join("\n")
            }
            Err(rule::TooManyCombinations) => "{the rules combine to more permissions than can be checked}".to_owned(),
        };
        let mut message = format!(
            "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{missing}",
            user.name,
            Quoted(&user.groups)
        );
        if !lost.is_empty() {
            let texts: Vec<String> =
                lost.iter().map(|role| format!("{role_resource} {:?} not found", role.name)).collect();
            message.push_str(&format!("; resolution errors: [{}]", texts.join(", ")));
        }
        Err(Escalation(message))
    }

    fn with_policy<T: Default>(&self, ask: impl FnOnce(&Policy) -> T) -> T {
        let (mut ask, mut answer) = (Some(ask), T::default());
        if let Some(source) = self.source.get() {
            source.read(&mut |policy| {
                if let Some(ask) = ask.take() {
                    answer = ask(policy);
                }
            });
        }
        answer
    }
}

/// Whether it lives, and which version it is: what a load balancer and `kubectl version` ask before they have credentials.
fn is_open_to_all(request: &Request<'_>) -> bool {
    request.resource.is_empty() && request.verb == "get" && is_open_path(request.path)
}

pub(crate) fn is_open_path(path: &str) -> bool {
    matches!(path, "/healthz" | "/livez" | "/readyz" | "/version" | "/version/")
}

impl Request<'_> {
    /// What is asked for, in few words.
    pub(crate) fn wanted(&self) -> String {
        let Request { verb, group, resource, subresource, namespace, name, path, .. } = self;
        if resource.is_empty() {
            return format!("{verb} path {path:?}");
        }
        let slash = if subresource.is_empty() { "" } else { "/" };
        let dot = if group.is_empty() { "" } else { "." };
        let named = if name.is_empty() { String::new() } else { format!(" {name:?}") };
        let scope = match *namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {namespace:?}"),
        };
        // A review may name no resource at all.
        let resource = if *resource == "\0" { "*" } else { *resource };
        let what = format!("{resource}{dot}{group}{slash}{subresource}");
        format!("{verb} {}{named} {scope}", what.escape_debug())
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

    #[test]
    fn masters_may_do_everything_and_the_proof_says_what() {
        let admin = Arc::new(User::admin());
        let authorizer = Authorizer::new();
        let proof = authorizer.authorize(asked(&admin, "delete")).unwrap();
        assert_eq!(
            (proof.user().name.as_str(), proof.verb(), proof.resource(), proof.namespace(), proof.name(), proof.path()),
            ("system:admin", "delete", "configmaps", "d", "x", "")
        );
        let proof = Authorizer::new().authorize(Request::path(&admin, "post", "/anything")).unwrap();
        assert_eq!(proof.path(), "/anything");
    }

    #[test]
    fn everybody_may_ask_for_health_and_version_only() {
        let nobody = Arc::new(User::anonymous());
        for (verb, url, allowed) in [
            ("get", "/healthz", true),
            ("get", "/livez/ping", false),
            ("get", "/livez/", false),
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
            assert_eq!(Authorizer::new().authorize(Request::path(&nobody, verb, url)).is_ok(), allowed, "{verb} {url}");
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
        assert_eq!(denied(Request::path(&user, "get", "/x")), "forbidden: User \"u\" cannot get path \"/x\"");
    }

    struct One(std::sync::RwLock<Policy>);

    impl PolicySource for One {
        fn read(&self, with: &mut dyn FnMut(&Policy)) {
            with(&self.0.read().unwrap());
        }
    }

    #[test]
    fn a_right_holds_as_long_as_it_would_be_granted() {
        let one = |text: &str| vec![text.to_owned()];
        let rule = Rule { verbs: one("get"), api_groups: one(""), resources: one("configmaps"), ..Rule::default() };
        let mut policy = Policy::default();
        policy.set_role(RoleRef::new("", "r"), vec![rule]);
        policy.set_binding("d", "b", RoleRef::new("", "r"), vec![crate::Subject::User("u".into())]);
        let source = Arc::new(One(std::sync::RwLock::new(policy)));
        let authorizer = Authorizer::new();
        authorizer.follow(source.clone());
        let user = Arc::new(User::authenticated("u", "", []));
        let proof = authorizer.authorize(asked(&user, "get")).unwrap();
        assert_eq!(
            proof.reason().map(|r| r.as_ref()),
            Some("RBAC: allowed by RoleBinding \"b/d\" of ClusterRole \"r\" to User \"u\"")
        );
        let right = authorizer.right(&proof);
        assert!(right.holds());
        // What is denied is told to the log, not to the caller.
        let denied = authorizer.authorize(asked(&user, "list")).unwrap_err();
        assert!(denied.reason.contains("RoleBinding \"b/d\""), "{}", denied.reason);
        assert!(!denied.message.contains("RBAC") && !denied.message.contains("Binding"), "{}", denied.message);
        assert_eq!(authorizer.opinion(&asked(&user, "list")).reason, denied.reason);
        source.0.write().unwrap().remove_binding("d", "b");
        assert!(!right.holds());
        let denied = authorizer.authorize(asked(&user, "get")).unwrap_err();
        assert!(denied.reason.contains("no binding there names the user"), "{}", denied.reason);
    }

    #[test]
    fn what_is_given_away_must_be_held() {
        let authorizer = Authorizer::new();
        let user = User::authenticated("u", "", ["dev".to_owned()]);
        let one = |text: &str| vec![text.to_owned()];
        let rules = [Rule { verbs: one("get"), api_groups: one(""), resources: one("pods"), ..Rule::default() }];
        assert_eq!(
            authorizer.confirm_grant(&user, "d", &rules, "roles.rbac.authorization.k8s.io").unwrap_err().to_string(),
            "user \"u\" (groups=[\"dev\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently \
             held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\"]}"
        );
        assert!(authorizer.confirm_grant(&user, "d", &[], "").is_ok());
        assert!(authorizer.confirm_grant(&User::admin(), "d", &rules, "").is_ok());
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
