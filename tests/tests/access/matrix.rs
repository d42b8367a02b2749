//! Every route of the server, for everybody: the outcome must be what the role definitions say, computed here by other means.
use std::sync::Arc;

use muster_tests::runner::Case;
use muster_tests::{Call, Peer, cases};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::{RBAC, as_user, bind, is_denied, namespace, user};

pub fn cases() -> Vec<Case> {
    [
        cases![matrix: every_route_for_everybody, a_viewer_sees_its_own_namespace_object],
        cases![muster matrix: gathered_roles_are_the_union_of_what_they_select],
    ]
    .concat()
}

const HOME: &str = "mx-home";
const AWAY: &str = "mx-away";
/// Nothing is called so: an allowed request ends in 404 or another answer that changes nothing.
const NAME: &str = "mx-no-such-object";

/// Somebody, with the roles held everywhere and those held at home.
struct Person {
    name: &'static str,
    anonymous: bool,
    everywhere: Vec<Value>,
    at_home: Vec<Value>,
}

/// One request, in the words of the authorizer and of HTTP.
#[derive(Clone, Debug, Default)]
struct Ask {
    verb: String,
    group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
    method: &'static str,
    path: String,
}

async fn every_route_for_everybody(peer: &Peer) {
    namespace(peer, HOME).await;
    namespace(peer, AWAY).await;
    let people = Arc::new(people(peer).await);
    let mut asks = resources(peer).await;
    assert!(asks.len() > 100, "discovery shows only {} requests", asks.len());
    asks.extend(paths());
    let gate = Arc::new(Semaphore::new(16));
    let mut wrong: Vec<String> = Vec::new();
    let mut checked = 0;
    for person in people.iter() {
        let mut running = Vec::new();
        for ask in &asks {
            running.push(check(peer, person, ask.clone(), gate.clone()));
        }
        for outcome in futures_util::future::join_all(running).await {
            checked += 1;
            wrong.extend(outcome);
        }
    }
    assert!(wrong.is_empty(), "{} of {checked} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// What is wrong with the outcome, if anything.
async fn check(peer: &Peer, person: &Person, ask: Ask, gate: Arc<Semaphore>) -> Option<String> {
    let _turn = gate.acquire_owned().await.unwrap();
    let expected = may(person, &ask);
    // A backup is heavy, and here only the way to it matters.
    if expected && ask.path == "/muster.dev/backup" {
        return None;
    }
    let mut call = Call::new(peer, ask.method, &ask.path);
    match ask.method {
        "POST" => call = call.body(json!({})),
        "PUT" => call = call.body(json!({"metadata": {"name": NAME}})),
        "PATCH" => call = call.body(json!({})).media("application/merge-patch+json"),
        _ => {}
    }
    call = match (person.anonymous, person.name) {
        // Kubernetes hangs up on nobodies after one request.
        (true, _) => call.token(None).fresh(),
        (false, "masters") => call,
        (false, name) => call.header("impersonate-user", name),
    };
    let answer = call.send().await;
    let allowed = !is_denied(&answer, &ask.verb) && answer.status != 401;
    let seen = format!("{} {} {}: {} instead of {expected}", person.name, ask.method, ask.path, allowed);
    (allowed != expected)
        .then(|| format!("{seen} ({} {})", answer.status, answer.text().chars().take(200).collect::<String>()))
}

/// The definition of a rule, read from Kubernetes' documentation and nowhere else.
fn may(person: &Person, ask: &Ask) -> bool {
    if person.name == "masters" {
        return true;
    }
    if ask.resource.is_empty()
        && ask.verb == "get"
        && ["/healthz", "/livez", "/readyz", "/version", "/version/"].contains(&ask.path.as_str())
    {
        return true;
    }
    let home = if ask.namespace == HOME { person.at_home.as_slice() } else { &[] };
    person.everywhere.iter().chain(home).any(|rule| {
        let states = |key: &str, wanted: &str| {
            let list = rule[key].as_array().map(Vec::as_slice).unwrap_or_default();
            list.iter().filter_map(Value::as_str).any(|one| one == "*" || one == wanted)
        };
        if ask.resource.is_empty() {
            let urls = rule["nonResourceURLs"].as_array().map(Vec::as_slice).unwrap_or_default();
            let matches = |url: &str| match url.strip_suffix('*') {
                Some(start) => ask.path.starts_with(start),
                None => url == ask.path,
            };
            return states("verbs", &ask.verb) && urls.iter().filter_map(Value::as_str).any(matches);
        }
        let whole = match ask.subresource.as_str() {
            "" => ask.resource.clone(),
            sub => format!("{}/{sub}", ask.resource),
        };
        states("verbs", &ask.verb)
            && states("apiGroups", &ask.group)
            && (states("resources", &whole) || states("resources", &format!("*/{}", ask.subresource)))
            && (rule["resourceNames"].as_array().is_none_or(Vec::is_empty) || states("resourceNames", &ask.name))
    })
}

async fn rules(peer: &Peer, role: &str) -> Vec<Value> {
    let role = peer.get(&format!("{RBAC}/clusterroles/{role}")).await.ok(200);
    role["rules"].as_array().cloned().unwrap_or_default()
}

/// kube-apiserver alone does not fill `view`, `edit` and `admin`, so what they gather is bound.
async fn people(peer: &Peer) -> Vec<Person> {
    let mut basics = rules(peer, "system:discovery").await;
    basics.extend(rules(peer, "system:basic-user").await);
    basics.extend(rules(peer, "system:public-info-viewer").await);
    let person = |name, at_home| Person { name, anonymous: false, everywhere: basics.clone(), at_home };
    let mut people = vec![person("mx-nobody", Vec::new())];
    let mut at_home = Vec::new();
    let mut bound = Vec::new();
    for (name, role) in [("mx-view", "view"), ("mx-edit", "edit"), ("mx-admin", "admin")] {
        let role = format!("system:aggregate-to-{role}");
        at_home.extend(rules(peer, &role).await);
        bound.push(role);
        for role in &bound {
            bind(peer, HOME, &format!("{name}-{}", role.replace(':', "-")), role, user(name)).await;
        }
        people.push(person(name, at_home.clone()));
    }
    bind(peer, "", "mx-cluster-admin", "cluster-admin", user("mx-cluster-admin")).await;
    let everything = rules(peer, "cluster-admin").await;
    people.push(Person { name: "mx-cluster-admin", anonymous: false, everywhere: everything, at_home: Vec::new() });
    people.push(Person { name: "masters", anonymous: false, everywhere: Vec::new(), at_home: Vec::new() });
    let open = rules(peer, "system:public-info-viewer").await;
    people.push(Person { name: "anonymous", anonymous: true, everywhere: open, at_home: Vec::new() });
    let at = |namespace: &str, verb: &str, group: &str, resource: &str| json!({"namespace": namespace, "verb": verb, "group": group, "resource": resource});
    peer.allows("mx-view", at(HOME, "list", "", "configmaps")).await;
    peer.allows("mx-edit", at(HOME, "create", "", "configmaps")).await;
    peer.allows("mx-admin", at(HOME, "list", "rbac.authorization.k8s.io", "roles")).await;
    peer.allows("mx-admin", at(HOME, "create", "", "configmaps")).await;
    peer.allows("mx-cluster-admin", at("", "any", "any", "any")).await;
    people
}

/// Every verb of every resource and subresource that discovery shows, at home, away and everywhere.
async fn resources(peer: &Peer) -> Vec<Ask> {
    let mut versions = vec![(String::new(), "v1".to_owned(), "/api/v1".to_owned())];
    for group in peer.get("/apis").await.ok(200)["groups"].as_array().unwrap() {
        let (name, version) = (group["name"].as_str().unwrap(), group["preferredVersion"]["version"].as_str().unwrap());
        versions.push((name.to_owned(), version.to_owned(), format!("/apis/{name}/{version}")));
    }
    let mut asks = Vec::new();
    for (group, _, root) in versions {
        let list = peer.get(&root).await.ok(200);
        for resource in list["resources"].as_array().unwrap() {
            let (name, sub) = match resource["name"].as_str().unwrap().split_once('/') {
                Some((name, sub)) => (name, sub),
                None => (resource["name"].as_str().unwrap(), ""),
            };
            let places: &[&str] = if resource["namespaced"] == true { &[HOME, AWAY, ""] } else { &[""] };
            for verb in resource["verbs"].as_array().unwrap() {
                for place in places {
                    asks.extend(ask(
                        &group,
                        &root,
                        name,
                        sub,
                        verb.as_str().unwrap(),
                        place,
                        resource["namespaced"] == true,
                    ));
                }
            }
        }
    }
    asks
}

fn ask(group: &str, root: &str, resource: &str, sub: &str, verb: &str, place: &str, namespaced: bool) -> Option<Ask> {
    let (method, named, query) = match verb {
        "get" => ("GET", true, ""),
        "list" => ("GET", false, "?limit=1"),
        // A version that cannot be read ends the watch before it begins.
        "watch" => ("GET", false, "?watch=true&resourceVersion=x"),
        "create" => ("POST", !sub.is_empty(), "?dryRun=All"),
        "update" => ("PUT", true, "?dryRun=All"),
        "patch" => ("PATCH", true, "?dryRun=All"),
        "delete" => ("DELETE", true, "?dryRun=All"),
        "deletecollection" => ("DELETE", false, "?dryRun=All&fieldSelector=metadata.name=mx-no-such-object"),
        _ => return None,
    };
    // Objects in a namespace are only reached through it; lists go everywhere.
    if namespaced && place.is_empty() && !matches!(verb, "list" | "watch") {
        return None;
    }
    let mut path = root.to_owned();
    if !place.is_empty() {
        path.push_str(&format!("/namespaces/{place}"));
    }
    path.push_str(&format!("/{resource}"));
    if named {
        path.push_str(&format!("/{NAME}"));
    }
    if !sub.is_empty() {
        path.push_str(&format!("/{sub}"));
    }
    path.push_str(query);
    let scope = if resource == "namespaces" && named { NAME } else { place };
    Some(Ask {
        verb: verb.into(),
        group: group.into(),
        resource: resource.into(),
        subresource: sub.into(),
        namespace: scope.into(),
        name: if named { NAME.into() } else { String::new() },
        method,
        path,
    })
}

/// What is not a resource, with every method.
fn paths() -> Vec<Ask> {
    let roots = [
        "/",
        "/api",
        "/apis",
        "/api/v1",
        "/apis/apps/v1",
        "/version",
        "/version/",
        "/healthz",
        "/livez",
        "/readyz",
        "/livez/ping",
        "/readyz/ping",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/api/v1",
        "/metrics",
        "/logs/x",
        "/debug/pprof",
        "/debug/pprof/heap",
        "/openid/v1/jwks",
        "/.well-known/openid-configuration",
        "/muster.dev/backup",
        "/nothing",
        "/healthzx",
        "/apisx",
    ];
    let methods =
        [("GET", "get"), ("HEAD", "head"), ("POST", "post"), ("PUT", "put"), ("PATCH", "patch"), ("DELETE", "delete")];
    let ask = |path: &&str, (method, verb): &(&'static str, &str)| Ask {
        verb: (*verb).into(),
        method,
        path: (*path).into(),
        ..Ask::default()
    };
    roots.iter().flat_map(|path| methods.iter().map(move |method| ask(path, method))).collect()
}

async fn a_viewer_sees_its_own_namespace_object(peer: &Peer) {
    namespace(peer, "mx-own").await;
    bind(peer, "mx-own", "mx-own", "system:aggregate-to-view", user("mx-owner")).await;
    let own = json!({"namespace": "mx-own", "verb": "get", "resource": "namespaces", "name": "mx-own"});
    peer.allows("mx-owner", own).await;
    as_user(peer, "mx-owner", "GET", "/api/v1/namespaces/mx-own", None).await.ok(200);
    as_user(peer, "mx-owner", "GET", "/api/v1/namespaces/default", None).await.fails(403, "Forbidden");
    as_user(peer, "mx-owner", "GET", "/api/v1/namespaces", None).await.fails(403, "Forbidden");
    // CVE-2023-32194: `namespaces` of another group is another thing.
    let other = "/apis/example.com/v1/namespaces/mx-own";
    as_user(peer, "mx-owner", "GET", other, None).await.fails(403, "Forbidden");
}

async fn gathered_roles_are_the_union_of_what_they_select(peer: &Peer) {
    let wait = |role: &'static str, rule: Value, there: bool| async move {
        let start = std::time::Instant::now();
        while rules(peer, role).await.contains(&rule) != there {
            assert!(start.elapsed() < muster_tests::PATIENCE, "{role} and {rule}: never {there}");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    for (role, from) in [("view", "view"), ("edit", "view"), ("edit", "edit"), ("admin", "view"), ("admin", "admin")] {
        for rule in rules(peer, &format!("system:aggregate-to-{from}")).await {
            wait(role, rule, true).await;
        }
    }
    assert!(!rules(peer, "view").await.iter().any(|rule| rule["resources"].to_string().contains("secrets")));
    let rule = json!({"verbs": ["get"], "apiGroups": ["mx.example"], "resources": ["widgets"]});
    let labels = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    let role = json!({"metadata": {"name": "mx-widgets", "labels": labels}, "rules": [rule.clone()]});
    peer.post(&format!("{RBAC}/clusterroles"), role).await.ok(201);
    wait("view", rule.clone(), true).await;
    wait("admin", rule.clone(), true).await;
    peer.delete(&format!("{RBAC}/clusterroles/mx-widgets")).await.ok(200);
    wait("admin", rule, false).await;
}
