//! Logs, exec and the like: what whoever runs an object would answer. Nobody runs ours yet, so we say so; this is where they plug in.

use crate::body::Body;
use crate::kinds::Connect;
use crate::render;
use crate::verbs::Call;
use http::Response;
use meta::{Object, Reason, Status};
use serde_json::Value;

impl Call<'_> {
    pub fn connect(&self, connect: Connect) -> Result<Response<Body>, Status> {
        let entry =
            self.api.store.get(&self.key()).ok_or_else(|| Status::not_found(self.kind.resource(), self.name))?;
        let object = self.api.decode_stored(&self.kind, &entry.value, entry.revision)?;
        if self.kind.kind == "Pod" {
            if connect != Connect::Proxy && connect != Connect::PortForward {
                container(&object, self.query.get("container").unwrap_or_default())?;
            }
            let node = object.0.get("spec").and_then(|s| s.get("nodeName")).and_then(Value::as_str);
            match (node, connect) {
                // Nothing has run yet, so there is nothing to read.
                (None, Connect::Log) => return Ok(render::nothing()),
                (None, _) => {
                    let why = format!("pod {} does not have a host assigned", self.name);
                    return Err(Status::bad_request(why));
                }
                (Some(_), _) => {}
            }
        }
        let what = match connect {
            Connect::Log => "logs",
            Connect::Exec => "exec",
            Connect::Attach => "attach",
            Connect::PortForward => "port-forward",
            Connect::Proxy => "proxying",
        };
        let (kind, name) = (self.kind.kind.to_lowercase(), self.name);
        let why = format!("{what} is not available: this server has no kubelet to ask about {kind} {name:?}");
        Err(Status::new(501, Reason::Unknown, why))
    }
}

/// The container a request is about must be there, and must be named when there are several.
fn container(pod: &Object, asked: &str) -> Result<(), Status> {
    let names = |list: &str| -> Vec<String> {
        let list = pod.0.get("spec").and_then(|spec| spec.get(list)).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(|c| c["name"].as_str().map(str::to_owned)).collect()
    };
    let (main, init, ephemeral) = (names("containers"), names("initContainers"), names("ephemeralContainers"));
    let chosen = pod
        .meta()
        .get("annotations")
        .and_then(|a| a.get("kubectl.kubernetes.io/default-container"))
        .and_then(Value::as_str)
        .is_some_and(|name| main.iter().any(|n| n == name));
    if asked.is_empty() {
        if main.len() == 1 || chosen {
            return Ok(());
        }
        let mut why =
            format!("a container name must be specified for pod {}, choose one of: [{}]", pod.name(), main.join(" "));
        if !init.is_empty() {
            why.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
        }
        if !ephemeral.is_empty() {
            why.push_str(&format!(" or one of the ephemeral containers: [{}]", ephemeral.join(" ")));
        }
        return Err(Status::bad_request(why));
    }
    if [main, init, ephemeral].concat().iter().any(|name| name == asked) {
        return Ok(());
    }
    Err(Status::bad_request(format!("container {asked} is not valid for pod {}", pod.name())))
}
