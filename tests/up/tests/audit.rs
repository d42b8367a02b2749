//! The audit log of `muster up`: what people do is there, what the gateway asks for itself is not.
#![allow(clippy::unwrap_used, clippy::expect_used, unused_crate_dependencies)]

use std::fs;
use std::process::Command;

use muster_tests::peer::peers_folder;
use muster_tests_up::{Up, until};

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
