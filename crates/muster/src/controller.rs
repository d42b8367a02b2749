//! `muster controller`: asks a running hub for its reconcilers, and switches them.

use std::{fs, path::PathBuf, time::Duration};

use bytes::Bytes;
use clap::{Args, Subcommand};
use http::{Method, Request, StatusCode, header};
use http_body_util::Full;
use serde_json::Value;
use tokio::time::timeout;

use crate::{
    problem::{Kind, Problem},
    say,
    show::{self, Form},
    token,
    wire::{Server, Trust},
};

const PATIENCE: Duration = Duration::from_secs(30);
/// Where a hub's health address is, if nobody says another.
pub const HUB: &str = "http://127.0.0.1:18002";

#[derive(Debug, Subcommand)]
pub enum Controller {
    /// List the reconcilers of a running hub
    List {
        #[command(flatten)]
        hub: Running,
        #[arg(short, long, value_enum)]
        output: Option<Form>,
    },
    /// Start one
    Enable {
        name: String,
        #[command(flatten)]
        hub: Running,
    },
    /// Stop one; its running work may finish
    Disable {
        name: String,
        #[command(flatten)]
        hub: Running,
    },
    /// Have an object looked at again, or all of a reconciler's
    Requeue {
        name: String,
        /// Which object: NAMESPACE/NAME, or NAME of a kind without namespaces
        #[arg(value_name = "KEY", required_unless_present = "all")]
        key: Option<String>,
        /// All of them
        #[arg(long, conflicts_with = "key")]
        all: bool,
        #[command(flatten)]
        hub: Running,
    },
}

/// Where the hub is, and who is asking.
#[derive(Debug, Args)]
pub struct Running {
    /// The hub's health address
    #[arg(long, env = "MUSTER_HUB", default_value = HUB, value_name = "URL")]
    pub hub: String,
    /// File with a bearer token; else MUSTER_TOKEN; else one is made with the API server's key in
    /// --data-dir
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Authority of the hub's certificate
    #[arg(long, value_name = "FILE")]
    pub certificate_authority: Option<PathBuf>,
    /// The API server's directory
    #[arg(long, env = "MUSTER_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

pub fn run(command: Controller) -> Result<(), Problem> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|e| Problem::new(Kind::Failed, "cannot start", e))?.block_on(ask(command))
}

async fn ask(command: Controller) -> Result<(), Problem> {
    match command {
        Controller::List { hub, output } => list(&hub.send(Method::GET, "/controllers").await?, output),
        Controller::Enable { name, hub } => {
            hub.send(Method::POST, &format!("{}/enable", path(&name))).await?;
            say(&format!("controller/{name} enabled\n"))
        }
        Controller::Disable { name, hub } => {
            hub.send(Method::POST, &format!("{}/disable", path(&name))).await?;
            say(&format!("controller/{name} disabled\n"))
        }
        Controller::Requeue { name, key, hub, .. } => {
            let query: String = key.iter().map(|key| format!("?key={}", encoded(key))).collect();
            let answer = hub.send(Method::POST, &format!("{}/requeue{query}", path(&name))).await?;
            match key {
                Some(key) => say(&format!("{key} of controller/{name} requeued\n")),
                None => say(&format!("{} of controller/{name} requeued\n", answer["count"])),
            }
        }
    }
}

fn path(name: &str) -> String {
    format!("/controllers/{}", encoded(name))
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

fn list(answer: &Value, form: Option<Form>) -> Result<(), Problem> {
    let items = answer["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |item: &Value, key: &str| match item.pointer(key) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    };
    match form {
        Some(Form::Name) => {
            say(&items.iter().map(|item| format!("controller/{}\n", text(item, "/name"))).collect::<String>())
        }
        Some(form) => show::value(form, answer),
        None => {
            let keys = [
                "/name",
                "/kind",
                "/group",
                "/enabled",
                "/synced",
                "/concurrency",
                "/queue/ready",
                "/queue/delayed",
                "/queue/running",
            ];
            let rows: Vec<Vec<String>> =
                items.iter().map(|item| keys.iter().map(|key| text(item, key)).collect()).collect();
            let head = ["NAME", "KIND", "GROUP", "ENABLED", "SYNCED", "CONCURRENCY", "READY", "DELAYED", "RUNNING"];
            say(&show::table(&head, &rows))?;
            if answer["leading"] == false {
                eprintln!("This hub does not lead: another replica does the work.");
            }
            Ok(())
        }
    }
}

impl Running {
    /// The reconcilers it has.
    pub async fn names(&self) -> Result<Vec<String>, Problem> {
        let answer = self.send(Method::GET, "/controllers").await?;
        let items = answer["items"].as_array().into_iter().flatten();
        Ok(items.filter_map(|item| item["name"].as_str().map(str::to_owned)).collect())
    }

    async fn send(&self, method: Method, path: &str) -> Result<Value, Problem> {
        let unreachable = |why: String| {
            Problem::new(Kind::Failed, format!("the hub at {} did not answer as it should", self.hub), why)
                .next("look whether it runs (/livez), and name its health address with --hub")
        };
        let token = self.token()?;
        let exchange = timeout(PATIENCE, self.exchange(method, path, &token)).await;
        let (status, body) = exchange.map_err(|_| unreachable("no answer in time".to_owned()))?.map_err(unreachable)?;
        let value: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if status.is_success() {
            return Ok(value);
        }
        let said = value["message"].as_str().map_or_else(|| String::from_utf8_lossy(&body).into_owned(), str::to_owned);
        Err(match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Problem::new(
                Kind::Failed,
                "the hub does not let you",
                said,
            )
            .next(
                "bring a token of a user that may: --token-file FILE, from kubectl create token or muster token create",
            ),
            _ => Problem::new(Kind::Failed, "the hub refused", said),
        })
    }

    /// The administrator next to the API server needs no token: the key that makes them is at hand.
    fn token(&self) -> Result<String, Problem> {
        if let Some(file) = &self.token_file {
            let read = fs::read_to_string(file).map(|token| token.trim().to_owned());
            return read.map_err(|e| Problem::new(Kind::Usage, format!("no token in {}", file.display()), e));
        }
        if let Some(token) = std::env::var("MUSTER_TOKEN").ok().filter(|token| !token.is_empty()) {
            return Ok(token);
        }
        token::for_administrator(self.data_dir.clone(), Duration::from_secs(60)).map_err(|problem| {
            Problem::new(Kind::Usage, "there is no token to ask the hub with", problem.brief())
                .next("name one with --token-file or MUSTER_TOKEN, or the API server's directory with --data-dir")
        })
    }

    async fn exchange(&self, method: Method, path: &str, token: &str) -> Result<(StatusCode, Bytes), String> {
        let trust = || match &self.certificate_authority {
            Some(file) => Trust::file(file),
            None => Err("name the hub's authority with --certificate-authority".to_owned()),
        };
        let server = Server::new(&self.hub, trust)?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
            .body(Full::default())
            .map_err(|_| "the token or the name cannot be sent".to_owned())?;
        let reply = server.send(request).await?;
        Ok((reply.status(), reply.bytes().await?))
    }
}
