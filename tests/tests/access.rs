//! Access control from outside: who may do what, tokens, impersonation, and that no secret shows where it should not.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "access/attacks.rs"]
mod attacks;
#[path = "access/canary.rs"]
mod canary;
#[path = "access/endings.rs"]
mod endings;
#[path = "access/inside.rs"]
mod inside;
#[path = "access/matrix.rs"]
mod matrix;
#[path = "access/tokens.rs"]
mod tokens;

use muster_tests::{Answer, Peer};
use serde_json::{Value, json};

fn main() {
    let cases =
        [attacks::cases(), canary::cases(), endings::cases(), inside::cases(), matrix::cases(), tokens::cases()];
    muster_tests::runner::main(cases.concat());
}

pub const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

pub async fn namespace(peer: &Peer, name: &str) {
    peer.post("/api/v1/namespaces", json!({"metadata": {"name": name}})).await.ok(201);
}

/// A role binding in a namespace, or a cluster-wide one when that is empty.
pub async fn bind(peer: &Peer, namespace: &str, name: &str, role: &str, subject: Value) {
    let path = match namespace {
        "" => format!("{RBAC}/clusterrolebindings"),
        namespace => format!("{RBAC}/namespaces/{namespace}/rolebindings"),
    };
    let role = json!({"kind": "ClusterRole", "name": role});
    peer.post(&path, json!({"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})).await.ok(201);
}

pub fn user(name: &str) -> Value {
    json!({"kind": "User", "name": name})
}

/// The same request as another user.
pub async fn as_user(peer: &Peer, who: &str, method: &str, path: &str, body: Option<Value>) -> Answer {
    let mut call = peer.call(method, path).header("impersonate-user", who);
    if let Some(body) = body {
        call = call.body(body);
    }
    if method == "PATCH" {
        call = call.media("application/merge-patch+json");
    }
    call.send().await
}

/// Whether an answer is the authorizer's no to this verb, and not another refusal.
pub fn is_denied(answer: &Answer, verb: &str) -> bool {
    answer.status == 403 && (answer.body.is_empty() || answer.text().contains(&format!("cannot {verb} ")))
}
