//! `muster restart APP`: the workloads of an application, or of one group of it.

use clap::Args;
use serde_json::Value;

use super::{
    gateway::{Gateway, Server, Url},
    scope::{Groups, Scope},
    view::{Output, name, text},
};
use crate::{
    problem::{Kind, Problem},
    say,
    show::{self, Form},
};

#[derive(Debug, Args)]
pub struct Restart {
    /// The application, by its label `app`
    pub app: String,
    #[command(flatten)]
    pub scope: Scope,
    #[command(flatten)]
    pub groups: Groups,
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
    #[command(flatten)]
    pub server: Server,
}

pub async fn run(flags: Restart) -> Result<(), Problem> {
    let gateway = flags.server.gateway()?;
    let namespace = match &flags.scope.namespace {
        Some(namespace) => namespace.clone(),
        None => only_namespace(&gateway, &flags).await?,
    };
    let url = Url::of(&["api", "cluster", &flags.scope.cluster, "namespace", &namespace, "app", &flags.app, "restart"]);
    let answer = gateway.post(&flags.groups.on(url), None).await?;
    match flags.output {
        Some(Output::Json) => show::value(Form::Json, &answer)?,
        Some(Output::Yaml) => show::value(Form::Yaml, &answer)?,
        _ => say(&restarted(&answer))?,
    }
    outcome(&flags.app, &answer)
}

/// The namespace the application is in, when it is one.
async fn only_namespace(gateway: &Gateway, flags: &Restart) -> Result<String, Problem> {
    let pods = flags.scope.pods(gateway, &flags.app, &flags.groups).await?;
    let mut namespaces: Vec<String> = pods.into_iter().map(|pod| pod.namespace).collect();
    namespaces.sort();
    namespaces.dedup();
    match namespaces.as_slice() {
        [one] => Ok(one.clone()),
        several => {
            Err(Problem::new(Kind::Failed, format!("{} is in several namespaces", flags.app), several.join(", "))
                .next("name one with -n"))
        }
    }
}

fn restarted(answer: &Value) -> String {
    let items = answer["restarted"].as_array().into_iter().flatten();
    items.map(|one| format!("{} {} restarted\n", text(one, "/kind").to_lowercase(), name(one))).collect()
}

/// What could not be restarted is a failure, although the rest was.
fn outcome(app: &str, answer: &Value) -> Result<(), Problem> {
    let list = |key: &str| answer[key].as_array().map(Vec::as_slice).unwrap_or_default();
    // A cluster that did not answer may run it too.
    let failed = [list("failed"), list("unanswered")].concat();
    if !failed.is_empty() {
        let why: Vec<String> = failed
            .iter()
            .map(|one| {
                let why = [text(one, "/message"), text(one, "/reason")].into_iter().find(|why| !why.is_empty());
                format!("{}: {}", name(one), why.unwrap_or_default())
            })
            .collect();
        return Err(Problem::new(Kind::Failed, format!("not all of {app} was restarted"), why.join("; "))
            .next("look at these clusters with muster cluster list, and restart again"));
    }
    if list("restarted").is_empty() {
        return Err(Problem::new(Kind::NotFound, "nothing was restarted", format!("no workload of {app} fits"))
            .next(format!("look at what there is: muster pods {app}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_restarted_is_listed_and_what_was_not_is_a_failure() {
        // SYM-13
        let done = json!({"cluster": "beijing", "namespace": "shop", "kind": "Deployment", "name": "web-blue"});
        let whole = json!({"restarted": [done], "failed": []});
        assert_eq!(restarted(&whole), "deployment beijing/shop/web-blue restarted\n");
        assert!(outcome("web", &whole).is_ok());
        let half = json!({"restarted": [done], "failed": [{"cluster": "guangzhou", "message": "is unreachable"}]});
        assert!(outcome("web", &half).unwrap_err().to_string().contains("guangzhou: is unreachable"));
        let silent = json!({"restarted": [done], "failed": [], "unanswered": [{"cluster": "desert", "message": "is connecting"}]});
        assert!(outcome("web", &silent).unwrap_err().to_string().contains("desert: is connecting"));
        assert_eq!(outcome("web", &json!({"restarted": [], "failed": []})).unwrap_err().code(), 6);
    }
}
