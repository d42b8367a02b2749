//! The documents: the list of kinds, OpenAPI, and the user's page, whose examples are run. // KC-8
use muster_tests::runner::Case;
use muster_tests::{Peer, cases};
use muster_tests_gateway::{Face, define_things, refused};
use serde_json::Value;

pub fn all() -> Vec<Case> {
    cases![documents: kinds_are_listed_with_their_actions, the_openapi_document_describes_what_is_served, the_examples_of_the_page_are_true]
}

async fn kinds_are_listed_with_their_actions(peer: &Peer) {
    let face = Face::start(peer).await;
    let kinds = face.get("/apiext/v1").await.ok(200);
    let find =
        |plural: &str| kinds["items"].as_array().unwrap().iter().find(|kind| kind["plural"] == plural).unwrap().clone();
    let deployments = find("deployments");
    assert_eq!((&deployments["group"], &deployments["namespaced"]), (&"apps".into(), &true.into()));
    assert_eq!(deployments["actions"], serde_json::json!(["pause", "restart", "resume", "scale"]));
    assert_eq!((&find("nodes")["group"], &find("nodes")["namespaced"]), (&"core".into(), &false.into()));
    assert!(!kinds["items"].as_array().unwrap().iter().any(|kind| kind["plural"] == "tokenreviews"));
}

async fn the_openapi_document_describes_what_is_served(peer: &Peer) {
    let face = Face::start(peer).await;
    define_things(peer, "docs.example.com").await;
    let document = face.get("/apiext/openapi.json").await.ok(200);
    assert_eq!(document["openapi"], "3.0.3");
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for (kind, field) in [("apps.v1.Deployment", "spec"), ("core.v1.ConfigMap", "data"), ("core.v1.Pod", "status")] {
        assert!(schemas[kind]["properties"][field].is_object(), "{kind} has no {field}");
    }
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name} is not defined");
    }
    // Every path of every kind answers with what the document says: 200 for lists.
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.contains_key("/apiext/v1/apps/v1/namespaces/{namespace}/deployments/{name}/restart"));
    // What other cases define may be gone by now.
    let is_others = |path: &str| path.contains(".example.com/") && !path.contains("/docs.example.com/");
    for (path, methods) in paths
        .iter()
        .filter(|(path, _)| !is_others(path))
        .filter(|(path, methods)| !path.contains('{') && methods.get("get").is_some() && !path.ends_with(".json"))
    {
        let answer = face.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        assert!(methods["get"]["responses"]["200"].is_object());
    }
    let narrow = face.get("/apiext/openapi.json?group=docs.example.com").await.ok(200);
    assert!(
        narrow["components"]["schemas"]["docs.example.com.v1.Thing"]["properties"]["spec"]["properties"]["size"]
            .is_object(),
        "{narrow}"
    );
    assert!(narrow["paths"].as_object().unwrap().len() < paths.len());
    refused(&face.get("/apiext/openapi.json?group=nobody").await, 404);
}

/// The fenced blocks of the page, in order: `http` is sent, the `json` after it must be in the answer ("…" stands for anything).
async fn the_examples_of_the_page_are_true(peer: &Peer) {
    let face = Face::start(peer).await;
    peer.post("/api/v1/namespaces", serde_json::json!({"metadata": {"name": "shop"}})).await.ok(201);
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/apiext.md")).unwrap();
    let mut last = None;
    let mut run = 0;
    for block in page.split("```").skip(1).step_by(2) {
        let (language, text) = block.split_once('\n').unwrap();
        match language {
            "http" => {
                let (line, rest) = text.split_once('\n').unwrap();
                let (method, path) = line.split_once(' ').unwrap();
                let (headers, body) = rest.split_once("\n\n").map_or(("", rest), |(headers, body)| (headers, body));
                let (headers, body) = if rest.starts_with('\n') { ("", rest) } else { (headers, body) };
                let mut call = face.call(method, path.trim());
                for (name, value) in headers.lines().filter_map(|line| line.split_once(": ")) {
                    call = call.header(&name.to_ascii_lowercase(), value);
                }
                if !body.trim().is_empty() {
                    call = call.json(serde_json::from_str(body).unwrap_or_else(|why| panic!("{line}: {why}")));
                }
                last = Some((line.to_owned(), call.send().await));
                run += 1;
            }
            "json" => {
                let (line, answer) = last.take().expect("a json block follows an http block");
                let expected: Value = serde_json::from_str(text).unwrap_or_else(|why| panic!("{line}: {why}"));
                let got = answer.json();
                assert!(holds(&expected, &got), "{line}\nthe page says {expected:#}\nthe answer is {got:#}");
            }
            _ => {}
        }
    }
    assert!(run >= 10, "only {run} examples");
}

fn holds(expected: &Value, got: &Value) -> bool {
    match (expected, got) {
        (Value::String(any), got) if any == "…" => !got.is_null(),
        (Value::Object(expected), Value::Object(got)) => {
            expected.iter().all(|(key, value)| got.get(key).is_some_and(|got| holds(value, got)))
        }
        (Value::Array(expected), Value::Array(got)) => {
            expected.len() == got.len() && expected.iter().zip(got).all(|(expected, got)| holds(expected, got))
        }
        (expected, got) => expected == got,
    }
}
