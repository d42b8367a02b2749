//! What there is below an object, and what else a path may lead to.

use crate::objects::Part;
use std::borrow::Cow;

/// An endpoint below an object, e.g. `status`.
#[derive(Clone, Debug)]
pub struct Subresource {
    pub name: &'static str,
    pub endpoint: Endpoint,
    /// The kind of its bodies, when that is not the object's own.
    pub body: Option<GroupVersionKind>,
    pub verbs: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupVersionKind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
}

/// What a path leads to.
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// The object, or a part of it in the object's own shape.
    Object(Part),
    /// How many there should be and are, as a `Scale`.
    Scale(ScalePaths),
    Action(Action),
    /// Whoever runs the object, reached through us.
    Connect(Connect),
}

/// Where a kind keeps what a `Scale` shows; dotted paths without a leading dot.
#[derive(Clone, Debug)]
pub struct ScalePaths {
    pub replicas: Cow<'static, str>,
    pub current: Cow<'static, str>,
    pub selector: ScaleSelector,
}

#[derive(Clone, Debug)]
#[allow(dead_code)] // kinds to come keep it in the other ways
pub enum ScaleSelector {
    None,
    /// A LabelSelector in `spec.selector`.
    Spec,
    /// A plain map of labels in `spec.selector`.
    Labels,
    /// The selector's text form stands at this path.
    Text(String),
}

/// What a POST does that does not store its body as an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Assigns a pod to a node.
    Bind,
    /// Deletes a pod if its disruption budget allows.
    Evict,
    ReviewAccess,
    /// In the namespace of the path.
    ReviewAccessHere,
    ReviewMyAccess,
    ReviewMyRules,
    ReviewMyself,
    ReviewToken,
    /// A token for the service account of the path.
    RequestToken,
}

/// What of a running pod, a node or a service a request wants to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connect {
    Log,
    Exec,
    Attach,
    PortForward,
    Proxy,
}

pub const STATUS: Subresource = Subresource {
    name: "status",
    endpoint: Endpoint::Object(Part::Status),
    body: None,
    verbs: &["get", "patch", "update"],
};

pub const FINALIZE: Subresource =
    Subresource { name: "finalize", endpoint: Endpoint::Object(Part::Finalize), body: None, verbs: &["update"] };

impl Subresource {
    pub const fn scale(paths: ScalePaths) -> Self {
        Self {
            name: "scale",
            endpoint: Endpoint::Scale(paths),
            body: Some(GroupVersionKind { group: "autoscaling", version: "v1", kind: "Scale" }),
            verbs: &["get", "patch", "update"],
        }
    }

    /// A part of the object in the object's own shape.
    pub const fn part(name: &'static str, part: Part) -> Self {
        Self { name, endpoint: Endpoint::Object(part), body: None, verbs: &["get", "patch", "update"] }
    }

    pub const fn connect(name: &'static str, connect: Connect, body: GroupVersionKind) -> Self {
        let verbs: &[&str] = match connect {
            Connect::Log => &["get"],
            Connect::Exec | Connect::Attach | Connect::PortForward => &["create", "get"],
            Connect::Proxy => &["create", "delete", "get", "patch", "update"],
        };
        Self { name, endpoint: Endpoint::Connect(connect), body: Some(body), verbs }
    }

    pub const fn action(name: &'static str, action: Action, body: GroupVersionKind) -> Self {
        Self { name, endpoint: Endpoint::Action(action), body: Some(body), verbs: &["create"] }
    }
}
