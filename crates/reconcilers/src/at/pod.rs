//! Runs a command as a Pod whose name follows from the `At`, so that there can only ever be one.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, SecurityContext};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{LogParams, ObjectMeta, PostParams},
};

use super::{
    process::{Ended, shown},
    types::{At, Outcome},
};

const CONTAINER: &str = "command";

/// What is known of the Pod.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// It exists, with this uid, and is not over.
    Running(String),
    /// It is over.
    Over(Ended),
    /// It was there and is not any more.
    Vanished,
}

/// The one name of an `At`'s Pod.
pub fn name(at: &At) -> String {
    let uid = at.uid().unwrap_or_default();
    let short: String = at.name_any().chars().take(40).collect();
    format!("at-{}-{}", short.trim_end_matches(['-', '.']), uid.chars().take(8).collect::<String>())
}

/// Makes the Pod if it never was, and looks how it is. `known` is the uid it had when it was seen before.
pub async fn look(client: &Client, at: &At, image: &str, words: &[String], known: Option<&str>) -> kube::Result<Seen> {
    let namespace = at.namespace().unwrap_or_else(|| "default".to_owned());
    let pods = Api::<Pod>::namespaced(client.clone(), &namespace);
    let name = name(at);
    let pod = match (pods.get_opt(&name).await?, known) {
        (Some(pod), _) => pod,
        (None, Some(_)) => return Ok(Seen::Vanished),
        (None, None) => match pods.create(&PostParams::default(), &wanted(at, image, words)).await {
            Ok(pod) => pod,
            // Made a moment ago, by us before a crash or by the cache being behind.
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => pods.get(&name).await?,
            Err(error) => return Err(error),
        },
    };
    let ours = pod.owner_references().iter().any(|owner| Some(&owner.uid) == at.uid().as_ref());
    if !ours {
        return Ok(Seen::Over(Ended::failed(format!("there is a Pod {name} that does not belong to this At"))));
    }
    if known.is_some_and(|known| Some(known) != pod.uid().as_deref()) {
        return Ok(Seen::Vanished);
    }
    let Some(mut ended) = ended(&pod) else { return Ok(Seen::Running(pod.uid().unwrap_or_default())) };
    if ended.output.is_none() {
        let tail = LogParams { tail_lines: Some(50), limit_bytes: Some(64 * 1024), ..LogParams::default() };
        // Best effort: the node may be gone with the log.
        if let Ok(Ok(log)) = tokio::time::timeout(Duration::from_secs(5), pods.logs(&name, &tail)).await {
            ended.output = Some(shown(log.as_bytes())).filter(|log| !log.is_empty());
        }
    }
    Ok(Seen::Over(ended))
}

fn wanted(at: &At, image: &str, words: &[String]) -> Pod {
    let container = Container {
        name: CONTAINER.to_owned(),
        image: Some(image.to_owned()),
        command: Some(words.to_vec()),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            ..SecurityContext::default()
        }),
        ..Container::default()
    };
    Pod {
        metadata: ObjectMeta {
            name: Some(name(at)),
            namespace: at.namespace(),
            labels: Some([("app.kubernetes.io/managed-by".to_owned(), "muster-at".to_owned())].into()),
            owner_references: at.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            containers: vec![container],
            restart_policy: Some("Never".to_owned()),
            active_deadline_seconds: Some(i64::from(at.spec.timeout_seconds)),
            automount_service_account_token: Some(false),
            ..PodSpec::default()
        }),
        ..Pod::default()
    }
}

/// How a Pod ended; `None` while it has not.
fn ended(pod: &Pod) -> Option<Ended> {
    let status = pod.status.as_ref()?;
    let succeeded = match status.phase.as_deref()? {
        "Succeeded" => true,
        "Failed" => false,
        _ => return None,
    };
    let container = status.container_statuses.iter().flatten().find(|container| container.name == CONTAINER);
    let terminated = container.and_then(|container| container.state.as_ref()?.terminated.as_ref());
    let outcome = match status.reason.as_deref() {
        _ if succeeded => Outcome::Succeeded,
        Some("DeadlineExceeded") => Outcome::TimedOut,
        _ => Outcome::Failed,
    };
    let why = [&status.reason, &status.message].into_iter().flatten().cloned().collect::<Vec<_>>().join(": ");
    Some(Ended {
        outcome,
        exit_code: terminated.map(|terminated| terminated.exit_code),
        message: if why.is_empty() { format!("the Pod {} ended", pod.name_any()) } else { why },
        output: terminated
            .and_then(|t| t.message.as_deref())
            .map(|text| shown(text.as_bytes()))
            .filter(|t| !t.is_empty()),
    })
}
