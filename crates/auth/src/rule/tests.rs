use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::User;

fn list(text: &str) -> Vec<String> {
    text.split_whitespace().map(|word| if word == "core" { String::new() } else { word.to_owned() }).collect()
}

fn rule(verbs: &str, groups: &str, resources: &str) -> Rule {
    Rule { verbs: list(verbs), api_groups: list(groups), resources: list(resources), ..Rule::default() }
}

fn urls(verbs: &str, urls: &str) -> Rule {
    Rule { verbs: list(verbs), non_resource_urls: list(urls), ..Rule::default() }
}

fn named(rule: Rule, names: &str) -> Rule {
    Rule { resource_names: list(names), ..rule }
}

#[test]
fn a_rule_allows_exactly_what_it_states() {
    let user = Arc::new(User::default());
    let asks = |rule: &Rule, verb, group, resource, subresource, name| {
        let path = Request::path(&user, verb, "/api/v1/x");
        rule.allows(&Request { group, resource, subresource, name, ..path })
    };
    let pods = rule("get list", "core", "pods");
    assert!(asks(&pods, "get", "", "pods", "", "a"));
    for (verb, group, resource, subresource) in [
        ("watch", "", "pods", ""),
        ("get", "apps", "pods", ""),
        ("get", "", "secrets", ""),
        ("get", "", "pods", "log"),
        ("get", "", "Pods", ""),
        ("GET", "", "pods", ""),
        ("", "", "pods", ""),
    ] {
        assert!(!asks(&pods, verb, group, resource, subresource, "a"), "{verb} {group} {resource}/{subresource}");
    }
    // CVE-2023-32194, CVE-2021-25318: `namespaces` of another group is not the core one, and no group is not every group.
    assert!(!asks(&rule("*", "example.com", "namespaces"), "get", "", "namespaces", "", "a"));
    assert!(!asks(&rule("*", "", "namespaces"), "get", "", "namespaces", "", "a"));

    let table = [
        ("*", "pods", "log", true),
        ("*", "pods", "", true),
        ("*/log", "pods", "log", true),
        ("*/log", "jobs", "log", true),
        ("*/log", "pods", "", false),
        ("*/log", "pods", "logs", false),
        ("*/log", "pods", "a/log", false),
        ("pods/*", "pods", "log", false),
        ("pods/log", "pods", "log", true),
        ("pods/log", "pods", "", false),
        ("pods/log", "jobs", "log", false),
        ("pod*", "pods", "", false),
    ];
    for (stated, resource, subresource, expected) in table {
        let found = asks(&rule("*", "*", stated), "get", "any", resource, subresource, "");
        assert_eq!(found, expected, "{stated} on {resource}/{subresource}");
    }
}

#[test]
fn resource_names_need_the_name_in_the_request() {
    let user = Arc::new(User::default());
    let one = named(rule("*", "core", "secrets"), "mine");
    let base = Request { resource: "secrets", ..Request::path(&user, "get", "") };
    assert!(one.allows(&Request { name: "mine", ..base }));
    assert!(!one.allows(&Request { name: "yours", ..base }));
    // Creation, listing and deletion of everything name nothing.
    for verb in ["create", "list", "watch", "deletecollection"] {
        assert!(!one.allows(&Request { verb, ..base }), "{verb}");
    }
}

#[test]
fn urls_match_whole_or_below_a_star() {
    let user = Arc::new(User::default());
    for (stated, path, expected) in [
        ("/healthz", "/healthz", true),
        ("/healthz", "/healthz/ping", false),
        ("/healthz/*", "/healthz/ping", true),
        ("/healthz/*", "/healthz/", true),
        ("/healthz/*", "/healthz", false),
        ("/healthz*", "/healthzx", true),
        ("*", "/anything", true),
        ("/a/*/c", "/a/b/c", false),
        ("/api**", "/api/v1", true),
    ] {
        assert_eq!(urls("get", stated).allows(&Request::path(&user, "get", path)), expected, "{stated} on {path}");
        assert!(!urls("get", stated).allows(&Request::path(&user, "post", path)));
    }
    // A rule on URLs opens no resource, and the other way round.
    let base = Request::path(&user, "get", "/api/v1/secrets");
    assert!(!urls("*", "*").allows(&Request { resource: "secrets", ..base }));
    assert!(!rule("*", "*", "*").allows(&base));
}

#[test]
fn covering_is_told_apart_by_the_smallest_right() {
    let covered = |held: &[Rule], wanted: Rule| missing(held, &[wanted]).unwrap().is_empty();
    let held = [rule("get list", "core", "pods secrets"), rule("watch", "core", "pods"), urls("get", "/a/*")];
    assert!(covered(&held, rule("get", "core", "pods")));
    // Put together from two rules.
    assert!(covered(&held, rule("get watch", "core", "pods")));
    assert!(!covered(&held, rule("get watch", "core", "secrets")));
    assert!(!covered(&held, rule("*", "core", "pods")));
    assert!(!covered(&held, rule("get", "*", "pods")));
    assert!(!covered(&held, rule("get", "core", "*")));
    assert!(covered(&held, named(rule("get", "core", "pods"), "a")));
    assert!(covered(&held, urls("get", "/a/b")));
    assert!(!covered(&held, urls("get", "/*")));
    // One name is not all names.
    let one = [named(rule("get", "core", "secrets"), "a")];
    assert!(!covered(&one, rule("get", "core", "secrets")));
    assert!(!covered(&one, named(rule("get", "core", "secrets"), "a b")));
    assert!(covered(&one, named(rule("get", "core", "secrets"), "a")));
    let logs = [rule("get", "*", "*/log")];
    assert!(covered(&logs, rule("get", "core", "pods/log")) && !covered(&logs, rule("get", "core", "pods")));
}

#[test]
fn missing_rights_are_named_as_kubernetes_names_them() {
    let held = [rule("get", "core", "pods")];
    let wanted = [
        rule("get list watch", "core apps", "pods secrets"),
        urls("get", "/x"),
        named(rule("get list", "core", "pods"), "a b"),
    ];
    let mut found: Vec<String> = missing(&held, &wanted).unwrap().iter().map(ToString::to_string).collect();
    found.sort();
    assert_eq!(
        found,
        [
            r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["list"]}"#,
            r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["list"]}"#,
            r#"{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}"#,
            r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list" "watch"]}"#,
            r#"{APIGroups:["apps"], Resources:["pods"], Verbs:["get" "list" "watch"]}"#,
            r#"{APIGroups:["apps"], Resources:["secrets"], Verbs:["get" "list" "watch"]}"#,
            r#"{NonResourceURLs:["/x"], Verbs:["get"]}"#,
        ]
    );
}

#[test]
fn a_role_of_billions_of_combinations_is_refused_quickly() {
    let many: Vec<String> = (0..3000).map(|n| n.to_string()).collect();
    let wide = Rule {
        verbs: many.clone(),
        api_groups: many.clone(),
        resources: many.clone(),
        resource_names: many,
        ..Rule::default()
    };
    assert_eq!(missing(&[rule("get", "core", "pods")], std::slice::from_ref(&wide)), Err(TooManyCombinations));
    // Whoever may do everything is not asked to wait.
    assert_eq!(missing(&[rule("*", "*", "*")], &[wide]), Ok(Vec::new()));
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let some = |words: &'static [&'static str]| proptest::collection::vec(proptest::sample::select(words), 0..3);
    (
        some(&["get", "list", "*"]),
        some(&["", "apps", "*"]),
        some(&["pods", "pods/log", "*/log", "*", "secrets"]),
        some(&["a", "b"]),
        some(&["/a", "/a/*", "*", "/b"]),
    )
        .prop_map(|(verbs, groups, resources, names, urls)| {
            let owned = |list: Vec<&str>| list.into_iter().map(str::to_owned).collect();
            Rule {
                verbs: owned(verbs),
                api_groups: owned(groups),
                resources: owned(resources),
                resource_names: owned(names),
                non_resource_urls: owned(urls),
            }
        })
}

proptest! {
    /// The law behind escalation checks: what is covered allows nothing that was not allowed before.
    #[test]
    fn what_is_covered_allows_nothing_new(
        held in proptest::collection::vec(any_rule(), 0..4),
        wanted in proptest::collection::vec(any_rule(), 0..3),
        verb in "get|list|watch|escalate", group in "|apps|other", resource in "pods|secrets|nodes",
        subresource in "|log|exec", name in "|a|b|c", path in "/a|/a/b|/b|/c",
    ) {
        prop_assume!(missing(&held, &wanted) == Ok(Vec::new()));
        let user = Arc::new(User::default());
        let on_path = Request::path(&user, &verb, &path);
        let on_resource =
            Request { group: &group, resource: &resource, subresource: &subresource, name: &name, ..on_path };
        for request in [on_path, on_resource] {
            if wanted.iter().any(|rule| rule.allows(&request)) {
                prop_assert!(held.iter().any(|rule| rule.allows(&request)), "{request:?}");
            }
        }
    }
}
