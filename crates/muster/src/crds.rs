//! `muster crds`: the definitions of the kinds our reconcilers work on, printed or applied.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use runtime::config::ApiSource;
use tokio::time::{Instant, sleep, timeout};

use crate::{
    hub,
    problem::{Kind, Problem},
    say,
    show::{self, Form},
};

/// For one request, and for a definition to take effect.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Crds {
    #[command(subcommand)]
    pub action: Option<Action>,
    #[command(flatten)]
    pub print: Print,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Print them, for kubectl apply -f -
    Print(Print),
    /// Apply them to an API and wait until they are served
    Apply {
        #[command(flatten)]
        target: Target,
        /// Only those of these reconcilers
        #[arg(value_name = "RECONCILER")]
        names: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub struct Print {
    /// Only those of these reconcilers
    #[arg(value_name = "RECONCILER")]
    pub names: Vec<String>,
    #[arg(short, long, value_enum, default_value = "yaml")]
    pub output: Form,
}

/// Which API a command speaks to.
#[derive(Debug, Args)]
pub struct Target {
    /// The API, as kubectl finds it without this
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context in it
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// The address of an API, such as http://127.0.0.1:6080
    #[arg(short, long, value_name = "URL", conflicts_with_all = ["kubeconfig", "context"])]
    pub server: Option<String>,
}

impl Target {
    pub async fn client(&self) -> Result<Client, Problem> {
        let source = match (&self.server, &self.kubeconfig) {
            (Some(url), _) => ApiSource::Server { url: url.clone(), ca_file: None, token_file: None },
            (None, Some(file)) => ApiSource::Kubeconfig { file: file.clone(), context: self.context.clone() },
            (None, None) => ApiSource::Found { context: self.context.clone() },
        };
        runtime::app::client(&source).await.map_err(|why| {
            Problem::new(Kind::Usage, "there is no API to speak to", why).next("name one with --kubeconfig or --server")
        })
    }
}

pub fn run(command: Crds) -> Result<(), Problem> {
    match command.action {
        None => print(&command.print),
        Some(Action::Print(flags)) => print(&flags),
        Some(Action::Apply { target, names }) => {
            let crds = definitions(&names)?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(|e| Problem::new(Kind::Failed, "cannot start", e))?.block_on(apply_and_say(&target, &crds))
        }
    }
}

fn definitions(names: &[String]) -> Result<Vec<CustomResourceDefinition>, Problem> {
    let registry = hub::registry();
    if let Some(strange) = names.iter().find(|name| registry.get(name).is_none()) {
        return Err(hub::unknown(&registry, strange));
    }
    let mut crds = registry.crds();
    if !names.is_empty() {
        let wanted = names.iter().filter_map(|name| registry.get(name)).flat_map(|registration| &registration.crds);
        let wanted: Vec<String> = wanted.map(ResourceExt::name_any).collect();
        crds.retain(|crd| wanted.contains(&crd.name_any()));
    }
    Ok(crds)
}

fn print(flags: &Print) -> Result<(), Problem> {
    let crds = definitions(&flags.names)?;
    match flags.output {
        Form::Name => say(&crds.iter().map(|crd| format!("{}\n", named(crd))).collect::<String>()),
        Form::Json => {
            let items = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": crds});
            show::value(Form::Json, &items)
        }
        Form::Yaml => {
            for crd in &crds {
                say("---\n")?;
                show::value(Form::Yaml, crd)?;
            }
            Ok(())
        }
    }
}

async fn apply_and_say(target: &Target, crds: &[CustomResourceDefinition]) -> Result<(), Problem> {
    let client = target.client().await?;
    for crd in crds {
        apply(&client, crd).await?;
        say(&format!("{} serverside-applied\n", named(crd)))?;
    }
    Ok(())
}

/// Applies a definition and waits until it is served.
pub async fn apply(client: &Client, crd: &CustomResourceDefinition) -> Result<(), Problem> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let parameters = PatchParams::apply("muster").force();
    let failed = |why: String| {
        Problem::new(Kind::Failed, format!("{} could not be applied", named(crd)), why)
            .next("look whether the API answers and whether you may change definitions there")
    };
    let name = crd.name_any();
    let patched = timeout(PATIENCE, api.patch(&name, &parameters, &Patch::Apply(crd))).await;
    let mut now = patched.map_err(|_| failed("no answer in time".to_owned()))?.map_err(|e| failed(e.to_string()))?;
    let until = Instant::now() + PATIENCE;
    while !is_served(&now) {
        if Instant::now() >= until {
            return Err(failed(format!("it is not served after {} seconds", PATIENCE.as_secs())));
        }
        sleep(Duration::from_millis(20)).await;
        let again = timeout(PATIENCE, api.get(&name)).await.map_err(|_| failed("no answer in time".to_owned()))?;
        now = again.map_err(|e| failed(e.to_string()))?;
    }
    Ok(())
}

fn is_served(crd: &CustomResourceDefinition) -> bool {
    let conditions = crd.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Established" && condition.status == "True")
}

fn named(crd: &CustomResourceDefinition) -> String {
    format!("customresourcedefinition.apiextensions.k8s.io/{}", crd.name_any())
}
