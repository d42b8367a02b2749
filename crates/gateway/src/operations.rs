//! What the console's own routes take and give, as a table for the OpenAPI document.

use serde_json::{Value, json};

/// One operation: what stands in the document about it.
pub(crate) struct Operation {
    pub(crate) method: &'static str,
    /// As OpenAPI writes it: `/wapi/v1/sessions/{id}`.
    pub(crate) path: &'static str,
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    /// Parameters of the query: name, JSON type, what it does.
    pub(crate) parameters: &'static [(&'static str, &'static str, &'static str)],
    /// Fields of the body, all of them required text; none for no body.
    pub(crate) body: &'static [&'static str],
    /// The code of a good answer, and its fields with their JSON types; none for an answer without a body.
    pub(crate) code: u16,
    pub(crate) answer: &'static [(&'static str, &'static str)],
    /// Whether it needs no credentials.
    pub(crate) open: bool,
}

const PLAIN: Operation = Operation {
    method: "get",
    path: "",
    id: "",
    summary: "",
    parameters: &[],
    body: &[],
    code: 200,
    answer: &[],
    open: false,
};

const SESSION: &[(&str, &str)] = &[
    ("user", "string"),
    ("groups", "array"),
    ("mustChange", "boolean"),
    ("csrf", "string"),
    ("demo", "boolean"),
    ("version", "string"),
];

const LIST: &[(&str, &str)] = &[("items", "array"), ("count", "integer")];

/// All of them.
#[rustfmt::skip]
pub(crate) const OPERATIONS: &[Operation] = &[
    Operation { path: "/wapi/v1/session", id: "getSession", summary: "Who is calling, and the CSRF value for everything that is not a GET. A 401 says in details.setup whether the first administrator is still to be made.", answer: SESSION, ..PLAIN },
    Operation { method: "post", path: "/wapi/v1/login", id: "login", summary: "Begins a session; sets the cookie.", body: &["user", "password"], answer: SESSION, open: true, ..PLAIN },
    Operation { method: "post", path: "/wapi/v1/setup", id: "setup", summary: "Makes the first administrator with the token of the setup link, and logs in.", body: &["token", "user", "password"], answer: SESSION, open: true, ..PLAIN },
    Operation { method: "post", path: "/wapi/v1/logout", id: "logout", summary: "Ends the session.", code: 204, ..PLAIN },
    Operation { method: "post", path: "/wapi/v1/password", id: "changePassword", summary: "Changes one's own password; one's other sessions end.", body: &["old", "new"], code: 204, ..PLAIN },
    Operation { path: "/wapi/v1/sessions", id: "listSessions", summary: "One's own sessions.", answer: LIST, ..PLAIN },
    Operation { method: "delete", path: "/wapi/v1/sessions/{id}", id: "endSession", summary: "Ends one of one's own sessions.", code: 204, ..PLAIN },
    Operation { method: "post", path: "/wapi/v1/ticket", id: "getTicket", summary: "A ticket, good once and for 30 seconds: the first text frame of a browser's WebSocket is {\"ticket\":\"…\"}.", answer: &[("ticket", "string")], ..PLAIN },
    Operation { path: "/wapi/v1/stream", id: "stream", summary: "A WebSocket over which a tab hears which of its pages changed. Say {\"subscribe\":{\"id\",\"path\"}} or {\"unsubscribe\":id}; hear {\"id\",\"event\":\"changed\"|\"denied\"|\"gone\",\"message\"} and {\"event\":\"ping\"}.", code: 101, ..PLAIN },
    Operation { path: "/wapi/v1/controllers", id: "listControllers", summary: "The reconcilers of the hub, with the graphs of phase machines. Needs get on the path /controllers.", answer: LIST, ..PLAIN },
    Operation { method: "post", path: "/wapi/v1/controllers/{name}/enable", id: "enableController", summary: "Starts a reconciler. Needs post on the path /controllers/{name}/enable.", code: 204, ..PLAIN },
    Operation { method: "post", path: "/wapi/v1/controllers/{name}/disable", id: "disableController", summary: "Stops a reconciler. Needs post on the path /controllers/{name}/disable.", code: 204, ..PLAIN },
    Operation { method: "post", path: "/wapi/v1/controllers/{name}/requeue", id: "requeueController", summary: "Has an object of a reconciler looked at again, or all of them. Needs post on the path /controllers/{name}/requeue.", parameters: &[("key", "string", "Which object: NAMESPACE/NAME, or NAME of a kind without namespaces. All of them without it.")], answer: &[("count", "integer")], ..PLAIN },
    Operation { path: "/wapi/v1/audit", id: "listAudit", summary: "The newest part of the API server's audit log, newest first; complete says whether that was all of it. Needs get on the path /audit.", parameters: &[("q", "string", "Lines that contain this text, whatever its case."), ("user", "string", "Lines of this user, or of somebody acting as it."), ("verb", "string", "Lines of this verb."), ("page", "integer", "Which page, from 1."), ("pageSize", "integer", "Rows on a page.")], answer: &[("items", "array"), ("count", "integer"), ("page", "integer"), ("pageSize", "integer"), ("complete", "boolean")], ..PLAIN },
];

impl Operation {
    /// As it stands in an OpenAPI 3 document, under its path and method. `problem` refers to the shape of refusals.
    pub(crate) fn to_openapi(&self, problem: &Value) -> Value {
        let named = |name: &str, place: &str, kind: &str, about: &str, required: bool| json!({"name": name, "in": place, "required": required, "description": about, "schema": {"type": kind}});
        let in_path =
            self.path.split(['{', '}']).skip(1).step_by(2).map(|name| named(name, "path", "string", "", true));
        let in_query = self.parameters.iter().map(|(name, kind, about)| named(name, "query", kind, about, false));
        let parameters: Vec<Value> = in_path.chain(in_query).collect();
        let mut answer = json!({"description": "Done."});
        if !self.answer.is_empty() {
            let fields: serde_json::Map<String, Value> = self
                .answer
                .iter()
                .map(|(name, kind)| {
                    let items = (*kind == "array").then(|| json!({"type": "array", "items": {}}));
                    ((*name).to_owned(), items.unwrap_or_else(|| json!({"type": kind})))
                })
                .collect();
            answer["content"] = json!({"application/json": {"schema": {"type": "object", "properties": fields}}});
        }
        let mut shown = json!({"operationId": self.id, "summary": self.summary, "tags": ["console"],
            "responses": {self.code.to_string(): answer, "default": problem}});
        if !parameters.is_empty() {
            shown["parameters"] = parameters.into();
        }
        if !self.body.is_empty() {
            let fields: serde_json::Map<String, Value> =
                self.body.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
            let schema =
                json!({"type": "object", "properties": fields, "required": self.body, "additionalProperties": false});
            shown["requestBody"] = json!({"required": true, "content": {"application/json": {"schema": schema}}});
        }
        if self.open {
            shown["security"] = json!([]);
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_whole_and_there_once() {
        let mut seen = std::collections::BTreeSet::new();
        for operation in OPERATIONS {
            assert!(seen.insert((operation.method, operation.path)), "{}", operation.path);
            let shown = operation.to_openapi(&json!({"$ref": "#/components/responses/Problem"}));
            assert!(shown["responses"][operation.code.to_string()].is_object(), "{}", operation.path);
            let in_path = operation.path.matches('{').count();
            let named =
                shown["parameters"].as_array().map_or(0, |all| all.iter().filter(|one| one["in"] == "path").count());
            assert_eq!(named, in_path, "{}", operation.path);
        }
    }
}
