//! The journal in an object, against a server that answers as the test likes.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Request;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::world::{Usual, World, apply_patch, clock, quick};
use crate::{
    Context, Failure, Key, Next, Reconciler,
    phase::{Machine, PhaseStatus, Phased, Phases, Plan, Step, Trouble},
    testing::{Answer, client, json as answer, refusal},
};

#[derive(CustomResource, Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[kube(group = "tests.muster.dev", version = "v1", kind = "Thing", namespaced, status = "PhaseStatus")]
struct ThingSpec {}

struct Things;

impl Phases for Things {
    type Object = Thing;
    type Phase = Usual;
    type Env = World;

    fn status(thing: &Thing) -> Option<&PhaseStatus> {
        thing.status.as_ref()
    }
    fn env(&self, _: Arc<Thing>, _: &Context) -> World {
        World::default()
    }
}

/// What happens to the next request.
#[derive(Clone, Copy, PartialEq)]
enum Meanwhile {
    /// Somebody labels the object before a write.
    Label,
    /// Somebody writes the status before a write.
    Status,
    /// Somebody replaces the object by another of its name.
    Replace,
    /// Somebody deletes it.
    Delete,
    /// The definition of the kind does not know `state`.
    Prune,
}

/// A server with one object.
#[derive(Default)]
struct Server {
    object: Mutex<Value>,
    meanwhile: Mutex<Option<Meanwhile>>,
    requests: Mutex<Vec<String>>,
}

impl Server {
    fn with(object: Value) -> Arc<Self> {
        let mut whole = json!({"apiVersion": "tests.muster.dev/v1", "kind": "Thing", "spec": {},
            "metadata": {"name": "thing", "namespace": "here", "uid": "u1", "resourceVersion": "1", "generation": 1}});
        apply_patch(&mut whole, &object);
        Arc::new(Self { object: Mutex::new(whole), ..Self::default() })
    }

    fn object(&self) -> Value {
        self.object.lock().unwrap().clone()
    }

    fn thing(&self) -> Arc<Thing> {
        Arc::new(serde_json::from_value(self.object()).unwrap())
    }

    fn change(object: &mut Value, patch: &Value) {
        apply_patch(object, patch);
        let version: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        object["metadata"]["resourceVersion"] = json!((version + 1).to_string());
    }

    fn answer(&self, request: &Request<Bytes>) -> Answer {
        self.requests.lock().unwrap().push(request.method().to_string());
        let mut object = self.object.lock().unwrap();
        if object.is_null() {
            return refusal(404);
        }
        if request.method() == http::Method::GET {
            return answer(200, &object);
        }
        let meanwhile = *self.meanwhile.lock().unwrap();
        match meanwhile {
            Some(Meanwhile::Label) => Self::change(&mut object, &json!({"metadata": {"labels": {"a": "b"}}})),
            Some(Meanwhile::Status) => Self::change(&mut object, &json!({"status": {"message": "not yours"}})),
            Some(Meanwhile::Replace) => Self::change(&mut object, &json!({"metadata": {"uid": "u2"}, "status": null})),
            Some(Meanwhile::Delete) => {
                *object = Value::Null;
                return refusal(404);
            }
            Some(Meanwhile::Prune) | None => {}
        }
        if meanwhile != Some(Meanwhile::Prune) {
            self.meanwhile.lock().unwrap().take();
        }
        let patch: Value = serde_json::from_slice(request.body()).unwrap();
        if patch["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
            return refusal(409);
        }
        assert!(patch.get("spec").is_none(), "only the status is written");
        Self::change(&mut object, &json!({"status": patch["status"]}));
        if meanwhile == Some(Meanwhile::Prune) {
            object["status"].as_object_mut().unwrap().remove("state");
        }
        answer(200, &object)
    }
}

fn phased() -> Phased<Things> {
    use Usual::*;
    let done = || Plan::handler(quick(|_, _| Ok(Step::Done)));
    let machine = Machine::builder("Thing")
        .success(Pending, Precheck)
        .success(Precheck, Running)
        .success(Running, Succeeded)
        .failure(Pending, PreFailed)
        .failure(Precheck, PreFailed)
        .failure(Running, Failed)
        .handler(Pending, done())
        .handler(Precheck, done())
        .handler(Running, Plan::handler(quick(|_, _| Err(Trouble::fatal("Enough", "enough")))))
        .build()
        .unwrap();
    Phased::new(Things, machine)
}

fn context(server: &Arc<Server>) -> Context {
    let server = server.clone();
    let answering = move |request: Request<Bytes>| {
        let server = server.clone();
        async move { server.answer(&request) }
    };
    Context::new(client(answering), clock())
}

async fn reconcile(server: &Arc<Server>) -> Result<Next, Failure> {
    phased().reconcile(server.thing(), &context(server)).await
}

#[tokio::test(start_paused = true)]
async fn the_status_follows_the_machine() {
    // KC-6
    let server = Server::with(json!({}));
    assert_eq!(reconcile(&server).await.unwrap(), Next::Wait);
    let status = &server.object()["status"];
    assert_eq!((&status["phase"], &status["message"]), (&json!("Failed"), &json!("enough")));
    assert_eq!(status["history"].as_array().unwrap().len(), 4);
    server.requests.lock().unwrap().clear();
    assert_eq!(reconcile(&server).await.unwrap(), Next::Wait);
    assert!(server.requests.lock().unwrap().is_empty(), "an object that is over costs no request");
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_the_rest_of_the_object_is_no_conflict() {
    // KC-6
    let server = Server::with(json!({}));
    *server.meanwhile.lock().unwrap() = Some(Meanwhile::Label);
    assert_eq!(reconcile(&server).await.unwrap(), Next::Wait);
    let object = server.object();
    assert_eq!((&object["status"]["phase"], &object["metadata"]["labels"]["a"]), (&json!("Failed"), &json!("b")));
}

#[tokio::test(start_paused = true)]
async fn a_status_somebody_else_wrote_is_not_overwritten() {
    // KC-6
    let server = Server::with(json!({"status": {"phase": "Precheck"}}));
    *server.meanwhile.lock().unwrap() = Some(Meanwhile::Status);
    let failure = reconcile(&server).await.unwrap_err();
    assert!(failure.to_string().contains("somebody else"), "{failure}");
    assert_eq!(server.object()["status"], json!({"phase": "Precheck", "message": "not yours"}));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_gone_or_another_ends_the_work_quietly() {
    // KC-6
    for meanwhile in [Meanwhile::Replace, Meanwhile::Delete] {
        let server = Server::with(json!({}));
        *server.meanwhile.lock().unwrap() = Some(meanwhile);
        assert_eq!(reconcile(&server).await.unwrap(), Next::Wait);
        assert_eq!(server.object().get("status"), None, "nothing is written to it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_keep_what_is_written_is_told_apart_from_a_conflict() {
    // KC-4
    let server = Server::with(json!({}));
    *server.meanwhile.lock().unwrap() = Some(Meanwhile::Prune);
    let failure = reconcile(&server).await.unwrap_err();
    assert!(failure.to_string().contains("muster crds apply"), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_not_of_its_kind_is_marked_once() {
    // KC-6
    let server = Server::with(json!({"status": {"phase": "Running"}}));
    let (phased, context, key) = (phased(), context(&server), Key::new(Some("here"), "thing"));
    for _ in 0..2 {
        assert_eq!(phased.unreadable(&key, "spec.source is a number", &context).await.unwrap(), Next::Wait);
    }
    let status = &server.object()["status"];
    let condition = &status["conditions"][0];
    assert_eq!((&condition["type"], &condition["reason"]), (&json!("Stalled"), &json!("ObjectUnreadable")));
    assert!(condition["message"].as_str().unwrap().contains("spec.source is a number"));
    assert_eq!(status["phase"], "Running");
    assert_eq!(*server.requests.lock().unwrap(), ["GET", "PATCH", "GET"]);
}
