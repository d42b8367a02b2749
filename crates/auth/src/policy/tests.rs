use proptest::prelude::*;

use super::*;

fn rules(verb: &str, resource: &str) -> Vec<Rule> {
    let one = |text: &str| vec![text.to_owned()];
    vec![Rule { verbs: one(verb), api_groups: one(""), resources: one(resource), ..Rule::default() }]
}

fn user(name: &str, groups: &[&str]) -> Arc<User> {
    Arc::new(User::authenticated(name, "", groups.iter().map(|g| (*g).to_owned())))
}

fn decide(policy: &Policy, user: &Arc<User>, namespace: &str, verb: &str) -> Verdict {
    policy.decide(&Request { namespace, resource: "pods", ..Request::path(user, verb, "") })
}

fn reason(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Allowed(reason) => reason,
        Verdict::Silent(_) => "",
    }
}

#[test]
fn a_binding_holds_for_its_subjects_where_it_stands() {
    let mut policy = Policy::default();
    policy.set_role(RoleRef::new("", "viewer"), rules("get", "pods"));
    policy.set_role(RoleRef::new("d", "viewer"), rules("list", "pods"));
    policy.set_binding("", "all", RoleRef::new("", "viewer"), vec![Subject::Group("dev".into())]);
    let account = Subject::ServiceAccount { namespace: String::new(), name: "bot".into() };
    let local = vec![Subject::User("bob".into()), account.clone()];
    policy.set_binding("d", "local", RoleRef::new("d", "viewer"), local);
    policy.set_binding("e", "shared", RoleRef::new("", "viewer"), vec![Subject::User("bob".into())]);
    // Without a namespace of its own, a cluster-wide account is nobody.
    policy.set_binding("", "lost", RoleRef::new("", "viewer"), vec![account]);

    let dev = user("ann", &["dev"]);
    let bob = user("bob", &[]);
    let bot = user("system:serviceaccount:d:bot", &[]);
    assert_eq!(
        reason(&decide(&policy, &dev, "any", "get")),
        "RBAC: allowed by ClusterRoleBinding \"all\" of ClusterRole \"viewer\" to Group \"dev\""
    );
    assert_eq!(
        reason(&decide(&policy, &bot, "d", "list")),
        "RBAC: allowed by RoleBinding \"local/d\" of Role \"viewer\" to ServiceAccount \"bot/d\""
    );
    assert!(!reason(&decide(&policy, &bob, "d", "list")).is_empty());
    assert!(!reason(&decide(&policy, &bob, "e", "get")).is_empty());
    for (who, namespace, verb) in
        [(&bob, "d", "get"), (&bob, "e", "list"), (&bob, "", "list"), (&bob, "", "get"), (&bot, "", "get")]
    {
        assert_eq!(decide(&policy, who, namespace, verb), Verdict::default(), "{} {namespace} {verb}", who.name);
    }
    // A user that calls itself like a group is not in it.
    assert_eq!(decide(&policy, &user("dev", &[]), "any", "get"), Verdict::default());
    assert_eq!(decide(&policy, &user("x", &["bob"]), "d", "list"), Verdict::default());
}

#[test]
fn roles_that_are_not_there_grant_nothing_and_are_named() {
    let mut policy = Policy::default();
    policy.set_binding("", "dangling", RoleRef::new("", "nope"), vec![Subject::User("bob".into())]);
    let bob = user("bob", &[]);
    let Verdict::Silent(missing) = decide(&policy, &bob, "d", "get") else { panic!() };
    assert_eq!(unresolved(&missing), "RBAC: clusterrole.rbac.authorization.k8s.io \"nope\" not found");
    policy.set_binding("d", "local", RoleRef::new("d", "no"), vec![Subject::User("bob".into())]);
    let Verdict::Silent(missing) = decide(&policy, &bob, "d", "get") else { panic!() };
    assert_eq!(
        unresolved(&missing),
        "RBAC: [clusterrole.rbac.authorization.k8s.io \"nope\" not found, role.rbac.authorization.k8s.io \"no\" not found]"
    );
    policy.set_role(RoleRef::new("", "nope"), rules("get", "pods"));
    assert!(!reason(&decide(&policy, &bob, "d", "get")).is_empty());
}

#[test]
fn a_binding_counts_once_however_often_it_names_the_user() {
    let mut policy = Policy::default();
    policy.set_role(RoleRef::new("", "r"), rules("get", "pods"));
    let twice = vec![Subject::User("bob".into()), Subject::Group("dev".into()), Subject::User("bob".into())];
    policy.set_binding("", "b", RoleRef::new("", "r"), twice);
    assert_eq!(policy.rules_of(&user("bob", &["dev"]), "d").0.len(), 1);
}

proptest! {
    /// Whatever came before, the index says what the bindings that are there say.
    #[test]
    fn the_index_is_what_its_bindings_are(
        changes in proptest::collection::vec((0..3usize, 0..3usize, 0..4usize, any::<bool>()), 0..40),
        asker in 0..3usize, place in 0..3usize,
    ) {
        let namespaces = ["", "d", "e"];
        let people = ["ann", "bob", "cid"];
        let mut policy = Policy::default();
        policy.set_role(RoleRef::new("", "r"), rules("get", "pods"));
        let mut model: HashMap<(usize, usize), usize> = HashMap::new();
        for (namespace, name, who, set) in changes {
            let binding = format!("b{name}");
            if set {
                // The fourth is a group everybody is in.
                let subject = people.get(who).map_or(Subject::Group("all".into()), |p| Subject::User((*p).into()));
                policy.set_binding(namespaces[namespace], &binding, RoleRef::new("", "r"), vec![subject]);
                model.insert((namespace, name), who);
            } else {
                policy.remove_binding(namespaces[namespace], &binding);
                model.remove(&(namespace, name));
            }
        }
        let expected = model.iter().any(|((namespace, _), who)| {
            (*namespace == 0 || *namespace == place) && (*who == asker || *who == 3)
        });
        let found = decide(&policy, &user(people[asker], &["all"]), namespaces[place], "get");
        prop_assert_eq!(!reason(&found).is_empty(), expected);
        prop_assert_eq!(policy.bindings.len(), model.len());
        let people_left = model.values().filter(|who| **who < 3).collect::<std::collections::HashSet<_>>().len();
        prop_assert_eq!(policy.users.len(), people_left);
    }
}

#[test]
fn a_denial_says_which_bindings_were_looked_at() {
    let mut policy = Policy::default();
    policy.set_role(RoleRef::new("", "viewer"), rules("get", "pods"));
    policy.set_binding("", "all", RoleRef::new("", "viewer"), vec![Subject::Group("dev".into())]);
    policy.set_binding("d", "local", RoleRef::new("", "viewer"), vec![Subject::User("ann".into())]);
    policy.set_binding("e", "elsewhere", RoleRef::new("", "viewer"), vec![Subject::User("ann".into())]);
    let ann = user("ann", &["dev"]);
    fn asked<'a>(user: &'a Arc<User>, namespace: &'a str) -> Request<'a> {
        let base = Request::path(user, "update", "");
        Request { namespace, group: "apps", resource: "deployments", subresource: "scale", name: "web", ..base }
    }
    assert_eq!(
        policy.explain(&asked(&ann, "d")),
        "RBAC: no rule allows to update deployments.apps/scale \"web\" in the namespace \"d\"; looked at ClusterRoleBinding \
         \"all\" of ClusterRole \"viewer\" to Group \"dev\"; RoleBinding \"local/d\" of ClusterRole \"viewer\" to User \"ann\""
    );
    let bob = user("bob", &["ops"]);
    assert_eq!(
        policy.explain(&asked(&bob, "")),
        "RBAC: no rule allows to update deployments.apps/scale \"web\" at the cluster scope: no binding there names the user, \
         or one of the groups [\"ops\" \"system:authenticated\"]"
    );
    assert!(
        policy
            .explain(&Request::path(&ann, "get", "/metrics"))
            .starts_with("RBAC: no rule allows to get path \"/metrics\"; ")
    );
    for i in 0..20 {
        policy.set_binding("", &format!("b{i:02}"), RoleRef::new("", "viewer"), vec![Subject::User("ann".into())]);
    }
    let long = policy.explain(&asked(&ann, "d"));
    assert!(long.ends_with("; and 14 more") && long.matches("Binding").count() == 8, "{long}");
}
