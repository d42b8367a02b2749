//! The audit log of `muster up`: what people do is there, what the gateway asks for itself is not.
#![allow(clippy::unwrap_used, clippy::expect_used, unused_crate_dependencies)]

use std::fs;
use std::process::Command;

use muster_tests::Peer;
use muster_tests::peer::peers_folder;
use muster_tests_up::{Other, Seated, Up, json_lines, until};
use serde_json::{Value, json};

const REVIEWS: &str = "\"resource\":\"selfsubjectaccessreviews\"";

fn log(up: &Up) -> String {
    fs::read_to_string(up.data().join("audit/audit.log")).unwrap_or_default()
}

fn kubectl(up: &Up, words: &[&str]) -> String {
    let mut kubectl = Command::new(peers_folder().unwrap().join("kubectl"));
    kubectl.arg("--kubeconfig").arg(up.data().join("admin.kubeconfig")).args(words).env("HOME", up.folder());
    let ended = kubectl.output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    String::from_utf8(ended.stdout).unwrap()
}

#[test]
fn questions_of_the_gateway_are_not_logged_and_those_of_people_are() {
    let up = Up::start(&[]);
    // A token of the command line, a token of a person, a session: each is asked about at every list.
    let token = up.folder().join("token");
    kubectl(&up, &["create", "serviceaccount", "ann"]);
    fs::write(&token, kubectl(&up, &["create", "token", "ann"])).unwrap();
    up.ok("cluster list");
    up.ok("pods");
    let (code, _, err) = up.command(&["pods", "--token-file", token.to_str().unwrap()]);
    assert_eq!(code, 5, "she may not yet: {err}");
    let link = up.ok("console");
    let (address, setup) = link.trim().split_once("/setup#t=").unwrap();
    let body = format!(r#"{{"token":"{setup}","user":"root","password":"a password of some length"}}"#);
    let (code, said) = up.request("POST", "/wapi/v1/setup", &[("Origin", address)], &body);
    assert_eq!(code, 200, "{said}");
    // Something after all of it, so that the log is known to be written.
    kubectl(&up, &["annotate", "namespace", "default", "after=wards"]);
    until("the log is written", || log(&up).contains("\"path\":\"/api/v1/namespaces/default\""));
    assert!(!log(&up).contains(REVIEWS), "{}", log(&up));
    // The same question of a person is an act of that person.
    assert_eq!(kubectl(&up, &["auth", "can-i", "list", "pods"]).trim(), "yes");
    until("the person's question is logged", || log(&up).contains(REVIEWS));
    // And who comes to the gateway with a token that nobody gave out is logged.
    fs::write(&token, "nobody-gave-this").unwrap();
    let (code, _, _) = up.command(&["pods", "--token-file", token.to_str().unwrap()]);
    assert_eq!(code, 5);
    until("the refusal is logged", || log(&up).lines().any(|line| line.contains("\"code\":401")));
    assert!(!log(&up).contains("nobody-gave-this"));
}

/// The lines of what was done to members, and of who got in.
fn deeds(up: &Up) -> Vec<Value> {
    let deeds = json_lines(&log(up)).into_iter();
    deeds.filter(|line| line["cluster"].is_string() || line["resource"] == "sessions").collect()
}

/// Waits for a deed of this verb with these fields.
fn until_deed(up: &Up, verb: &str, fields: Value) -> Value {
    let mut found = Value::Null;
    until(&format!("{verb} {fields} is logged"), || {
        let fits = |line: &Value| fields.as_object().unwrap().iter().all(|(key, value)| line[key] == *value);
        let all = deeds(up);
        found = all.iter().find(|line| line["verb"] == verb && fits(line)).cloned().unwrap_or_default();
        found.is_object()
    });
    found
}

fn until_pod(up: &Up) {
    until("the pod runs", || {
        let pods = up.rows("pods orders-db --cluster beijing");
        pods.iter().any(|row| row["name"] == "orders-db-0" && row["phase"] == "Running")
    });
}

#[test]
fn what_is_done_to_members_is_logged_with_who_where_and_how_it_ended() {
    // B-17
    let up = Up::start(&["--demo"]);
    up.until_running(3);
    until_pod(&up);
    let exec = ["exec", "orders-db-0", "--cluster", "beijing", "--", "sh", "-c", "echo canary-command; exit 3"];
    assert_eq!(up.command(&exec).0, 3);
    let in_pod = json!({"cluster": "beijing", "namespace": "data", "name": "orders-db-0", "resource": "pods", "subresource": "exec"});
    let with = |more: Value| {
        let mut all = in_pod.clone();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let started = until_deed(&up, "exec", with(json!({"stage": "started"})));
    let ended = until_deed(&up, "exec", with(json!({"stage": "ended"})));
    for (key, value) in [("user", "system:muster:cli"), ("source", "127.0.0.1"), ("path", "/api/cluster/beijing/exec")]
    {
        assert_eq!(started[key], value, "{started}");
    }
    assert_eq!((&ended["code"], &ended["requestId"]), (&json!(200), &started["requestId"]), "{ended}");

    let mut terminal = Seated::start(&up, &["terminal", "orders-db-0", "--cluster", "beijing"]);
    terminal.until("# ");
    until_deed(&up, "terminal", with(json!({"stage": "started"})));
    terminal.type_in("echo canary-typed\r");
    terminal.until("canary-typed");
    assert!(deeds(&up).iter().all(|line| line["verb"] != "terminal" || line["stage"] == "started"), "it is open");
    terminal.type_in("exit\r");
    terminal.ended();
    until_deed(&up, "terminal", with(json!({"stage": "ended", "code": 200})));

    up.until_rows("pods web --group canary", 3);
    up.until_restarted("restart web --group canary");
    for cluster in ["beijing", "shanghai", "guangzhou"] {
        let deployment = json!({"cluster": cluster, "group": "apps", "resource": "deployments", "namespace": "shop", "name": "web-canary", "code": 200});
        until_deed(&up, "restart", deployment);
    }
    let path = "/api/cluster/beijing/resources/core/v1/namespaces/shop/configmaps/audited";
    let map = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"audited"},"data":{"k":"canary-value"}}"#;
    assert_eq!(up.rest("PUT", &format!("{path}?dryRun=true"), map).0, 200);
    assert_eq!(up.rest("PUT", path, map).0, 200);
    assert_eq!(up.rest("DELETE", path, "").0, 200);
    let map =
        json!({"cluster": "beijing", "resource": "configmaps", "namespace": "shop", "name": "audited", "code": 200});
    until_deed(&up, "apply", map.clone());
    until_deed(&up, "delete", map);
    assert_eq!(deeds(&up).iter().filter(|line| line["verb"] == "apply").count(), 1, "a dry run changes nothing");
    let scale = "/api/cluster/beijing/resources/apps/v1/namespaces/shop/deployments/web-canary/scale";
    assert_eq!(up.rest("POST", scale, r#"{"replicas":2}"#).0, 200);
    until_deed(&up, "scale", json!({"resource": "deployments", "name": "web-canary", "code": 200}));

    // Who may not is logged, by name, whether they wanted to change something or to look.
    let token = up.folder().join("token");
    kubectl(&up, &["create", "serviceaccount", "ann"]);
    fs::write(&token, kubectl(&up, &["create", "token", "ann"])).unwrap();
    let as_ann = [
        "exec",
        "orders-db-0",
        "-n",
        "data",
        "--cluster",
        "beijing",
        "--token-file",
        token.to_str().unwrap(),
        "--",
        "id",
    ];
    assert_eq!(up.command(&as_ann).0, 5);
    let ann = "system:serviceaccount:default:ann";
    until("her look is logged", || deeds(&up).iter().any(|line| line["user"] == ann && line["code"] == 403));
    let bearer = format!("Bearer {}", fs::read_to_string(&token).unwrap().trim());
    let (code, said) = up.request(
        "POST",
        "/api/cluster/beijing/exec?namespace=data&pod=orders-db-0&command=canary-command",
        &[("Authorization", &bearer)],
        "",
    );
    assert_eq!(code, 403, "{said}");
    let refused = until_deed(&up, "exec", with(json!({"user": ann, "code": 403})));
    assert_eq!(refused["stage"], Value::Null, "it did not begin: {refused}");
    assert_eq!(up.command(&["cluster", "kubeconfig", "beijing"]).0, 7, "a simulated one has none");
    until_deed(&up, "kubeconfig", json!({"cluster": "beijing", "code": 409, "subresource": "kubeconfig"}));

    // What came of a look that was allowed is not there, and nothing that was typed, sent or said.
    assert!(deeds(&up).iter().all(|line| line["verb"] != "list" || line["code"] == 403));
    let all = log(&up);
    for canary in ["canary-command", "canary-typed", "canary-value", bearer.trim_start_matches("Bearer ")] {
        assert!(!all.contains(canary), "{canary} is in the audit log");
    }
    let (code, shown) = up.rest("GET", "/wapi/v1/audit?verb=terminal", "");
    assert_eq!((code, &shown["count"]), (200, &json!(2)), "{shown}");
}

#[test]
fn who_gets_in_has_a_line_without_what_was_typed() {
    // B-17
    let up = Up::start(&["--demo"]);
    let login = |user: &str, password: &str| {
        let body = json!({"user": user, "password": password}).to_string();
        up.request("POST", "/wapi/v1/login", &[("User-Agent", "suite")], &body).0
    };
    assert_eq!(login("admin", "canary-guess"), 401);
    assert_eq!(login("canary-name", "canary-guess"), 401);
    assert_eq!(login("admin", "teleport"), 200);
    until_deed(&up, "login", json!({"user": "admin", "code": 401, "reason": "WrongPassword", "source": "127.0.0.1"}));
    until_deed(&up, "login", json!({"user": "(unknown)", "code": 401, "reason": "UnknownUser"}));
    until_deed(&up, "login", json!({"user": "admin", "code": 200, "userAgent": "suite", "path": "/wapi/v1/login"}));
    assert!(!log(&up).contains("canary") && !log(&up).contains("teleport"));
    let (code, shown) = up.rest("GET", "/wapi/v1/audit?verb=login&user=admin", "");
    assert_eq!((code, &shown["count"]), (200, &json!(2)), "{shown}");
}

#[test]
fn an_import_and_a_kubeconfig_given_out_are_logged_also_where_the_meta_cluster_is_a_kubernetes() {
    // B-17
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let peer = runtime.block_on(Peer::kubernetes()).unwrap();
    let meta = peer.kubeconfig();
    for flags in [vec![], vec!["--kubeconfig", meta.to_str().unwrap(), "--leader-elect=false"]] {
        let up = Up::start(&flags);
        let other = Other::start(up.folder());
        up.ok(&format!("cluster import audited --kubeconfig {} --dry-run", other.kubeconfig));
        up.ok(&format!("cluster import audited --kubeconfig {} --wait", other.kubeconfig));
        let file = up.folder().join("audited.kubeconfig");
        up.ok(&format!("cluster kubeconfig audited --long-lived -f {}", file.display()));
        let lent = up.folder().join("lent.kubeconfig");
        up.ok(&format!("cluster kubeconfig audited --create-account read -f {}", lent.display()));
        up.ok(&format!("cluster kubeconfig audited --force -f {}", lent.display()));
        up.ok("cluster delete audited --yes");
        for (verb, code) in [("import", 201), ("kubeconfig", 200), ("delete", 200)] {
            let line = until_deed(&up, verb, json!({"cluster": "audited", "resource": "clusters", "code": code}));
            assert!(!["", "(token)", "(unknown)"].contains(&line["user"].as_str().unwrap()), "{line}");
        }
        assert_eq!(deeds(&up).iter().filter(|line| line["verb"] == "import").count(), 1, "a dry run changes nothing");
        let (code, shown) = up.rest("GET", "/wapi/v1/audit?verb=kubeconfig", "");
        assert_eq!((code, &shown["count"]), (200, &json!(3)), "{flags:?} {shown}");
        // What does not end is told apart from what does, and so is what was made there for it.
        let given: Vec<_> = shown["items"].as_array().unwrap().iter().map(|line| &line["subresource"]).collect();
        assert_eq!(given, ["kubeconfig", "account", "credentials"]);
        // Each secret part of the kubeconfig that was read and given out.
        let secret = fs::read_to_string(&file).unwrap() + &fs::read_to_string(&lent).unwrap();
        let secrets =
            secret.split(|c: char| !c.is_ascii_alphanumeric() && !"+/=".contains(c)).filter(|word| word.len() > 60);
        let all = log(&up) + &up.log();
        assert!(secrets.clone().count() > 0);
        for secret in secrets {
            assert!(!all.contains(secret), "a part of the kubeconfig is in a log");
        }
    }
    runtime.shutdown_timeout(std::time::Duration::from_secs(5));
}
