//! `muster controller`: asks a running hub for its reconcilers, and switches them.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use clap::{Args, Subcommand};
use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use crate::{
    problem::{Kind, Problem},
    say,
    show::{self, Form},
    token,
};

const PATIENCE: Duration = Duration::from_secs(30);

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
    #[arg(long, env = "MUSTER_HUB", default_value = "http://127.0.0.1:18002", value_name = "URL")]
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
            return read.map_err(|e| Problem::new(Kind::Configuration, format!("no token in {}", file.display()), e));
        }
        if let Some(token) = std::env::var("MUSTER_TOKEN").ok().filter(|token| !token.is_empty()) {
            return Ok(token);
        }
        token::for_administrator(self.data_dir.clone(), Duration::from_secs(60)).map_err(|problem| {
            Problem::new(Kind::Configuration, "there is no token to ask the hub with", problem.brief())
                .next("name one with --token-file or MUSTER_TOKEN, or the API server's directory with --data-dir")
        })
    }

    async fn exchange(&self, method: Method, path: &str, token: &str) -> Result<(StatusCode, Bytes), String> {
        let uri: Uri =
            self.hub.parse().map_err(|_| "that is not an address such as http://127.0.0.1:18002".to_owned())?;
        let authority = uri.authority().ok_or("that is not an address such as http://127.0.0.1:18002")?;
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let secure = uri.scheme_str() == Some("https");
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let loopback = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if !secure && !loopback {
            return Err("a token is not sent to another machine over plain HTTP; use https".to_owned());
        }
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, authority.as_str())
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
            .header(header::USER_AGENT, concat!("muster/", env!("CARGO_PKG_VERSION")))
            .body(Empty::<Bytes>::new())
            .map_err(|_| "the token or the name cannot be sent".to_owned())?;
        let stream = TcpStream::connect((host.as_str(), port)).await.map_err(|e| e.to_string())?;
        if !secure {
            return exchange_over(stream, request).await;
        }
        let name = ServerName::try_from(host).map_err(|e| e.to_string())?;
        let stream = self.connector()?.connect(name, stream).await.map_err(|e| e.to_string())?;
        exchange_over(stream, request).await
    }

    fn connector(&self) -> Result<TlsConnector, String> {
        let file =
            self.certificate_authority.as_ref().ok_or("name the hub's authority with --certificate-authority")?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(file).map_err(|e| format!("{}: {e}", file.display()))? {
            roots.add(certificate.map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

async fn exchange_over<S>(stream: S, request: Request<Empty<Bytes>>) -> Result<(StatusCode, Bytes), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|e| e.to_string())?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(|e| e.to_string())?;
        let status = response.status();
        let body = Limited::new(response.into_body(), 4 << 20).collect().await.map_err(|e| e.to_string())?;
        Ok((status, body.to_bytes()))
    };
    tokio::select! {
        outcome = exchange => outcome,
        ended = connection => Err(ended.err().map_or_else(|| "it hung up".to_owned(), |e| e.to_string())),
    }
}
