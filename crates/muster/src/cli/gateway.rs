//! The gateway as the commands see it: where it is, who asks, and what its refusals mean.

use std::{fmt::Write as _, fs, path::PathBuf};

use bytes::Bytes;
use clap::Args;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::Full;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio_tungstenite::{WebSocketStream, tungstenite};

use super::words::readable;
use crate::{
    paths::DataDir,
    problem::{Kind, Problem},
    up::Door,
    wire::{self, Io, Reply, Trust},
};

/// Where the gateway is, and who is asking.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Server")]
pub struct Server {
    /// Address of the gateway [default: that of this user's muster up]
    #[arg(long, env = "MUSTER_SERVER", value_name = "URL")]
    pub server: Option<String>,
    /// File with a bearer token; else MUSTER_TOKEN; else the one muster up left in its directory
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Authority of the server's certificate [default: those this machine believes]
    #[arg(long, value_name = "FILE")]
    pub certificate_authority: Option<PathBuf>,
    /// Directory of muster up [default: ~/.muster]
    #[arg(long, env = "MUSTER_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

/// A gateway to ask, as somebody.
pub struct Gateway {
    server: wire::Server,
    /// The whole header.
    token: HeaderValue,
}

impl Server {
    pub fn gateway(&self) -> Result<Gateway, Problem> {
        let variable = std::env::var("MUSTER_TOKEN").ok().filter(|token| !token.is_empty());
        self.gateway_with(variable)
    }

    fn gateway_with(&self, variable: Option<String>) -> Result<Gateway, Problem> {
        let wrong = |why: String| Problem::new(Kind::Usage, "there is no server to ask", why);
        let dir = DataDir::of_user(self.data_dir.clone())?;
        let door = Door::read(dir.root())?;
        // What is recorded counts for the server it was recorded of.
        let door = door.filter(|door| self.server.as_ref().is_none_or(|url| url.trim_end_matches('/') == door.server));
        let url = match (&self.server, &door) {
            (Some(url), _) => url,
            (None, Some(door)) => &door.server,
            (None, None) => {
                let why = format!("no muster up left its address in {}", dir.root().display());
                return Err(Problem::new(Kind::Unreachable, "there is no server to ask", why)
                    .next("start one: muster up --demo; or name one with --server or MUSTER_SERVER"));
            }
        };
        let trust = || match (&self.certificate_authority, door.as_ref().and_then(|d| d.certificate_authority.as_ref()))
        {
            (Some(file), _) => Trust::file(file),
            (None, Some(pem)) => Trust::pem(pem.as_bytes()),
            (None, None) => Ok(Trust::System),
        };
        let server = wire::Server::new(url, trust).map_err(|why| wrong(why).next("mend --server or MUSTER_SERVER"))?;
        let token = match (&self.token_file, variable, &door) {
            (Some(file), ..) => fs::read_to_string(file)
                .map_err(|e| Problem::new(Kind::Usage, format!("no token in {}", file.display()), e))?,
            (None, Some(token), _) => token,
            (None, None, Some(door)) => door.token.clone(),
            (None, None, None) => {
                return Err(Problem::new(
                    Kind::Usage,
                    format!("there is no token for {server}"),
                    "neither --token-file nor MUSTER_TOKEN is given, and it is not the muster up of this directory",
                )
                .next("bring one: kubectl create token NAME, or muster token create beside the server"));
            }
        };
        let mut token = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
            .map_err(|_| wrong("the token cannot be sent".to_owned()))?;
        token.set_sensitive(true);
        Ok(Gateway { server, token })
    }
}

impl Gateway {
    pub async fn get(&self, url: &Url) -> Result<Value, Problem> {
        self.ask(Method::GET, url, None).await
    }

    pub async fn post(&self, url: &Url, body: Option<&Value>) -> Result<Value, Problem> {
        self.ask(Method::POST, url, body).await
    }

    pub async fn delete(&self, url: &Url) -> Result<Value, Problem> {
        self.ask(Method::DELETE, url, None).await
    }

    async fn ask(&self, method: Method, url: &Url, body: Option<&Value>) -> Result<Value, Problem> {
        let reply = self.send(method, url, body).await?;
        let bytes = reply.bytes().await.map_err(|why| self.unreachable(why))?;
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).map_err(|e| {
            Problem::new(Kind::Failed, format!("{} gave an answer that cannot be read", self.server), e)
                .next("look whether it is a gateway of muster, and of the same version")
        })
    }

    /// An answer whose body comes piece by piece.
    pub async fn stream(&self, url: &Url) -> Result<Reply, Problem> {
        self.send(Method::GET, url, None).await
    }

    async fn send(&self, method: Method, url: &Url, body: Option<&Value>) -> Result<Reply, Problem> {
        let mut request = Request::builder()
            .method(method)
            .uri(url.as_str())
            .header(header::AUTHORIZATION, &self.token)
            .header(header::ACCEPT, "application/json, text/plain");
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let request = request.body(Full::new(body)).map_err(|e| Problem::new(Kind::Failed, "nothing was sent", e))?;
        let reply = self.server.send(request).await.map_err(|why| self.unreachable(why))?;
        if reply.status().is_success() {
            return Ok(reply);
        }
        let (status, id) = (reply.status(), reply.header("x-request-id").map(str::to_owned));
        let bytes = reply.bytes().await.unwrap_or_default();
        Err(refusal(status, id.as_deref(), &bytes))
    }

    pub async fn web_socket(&self, url: &Url) -> Result<WebSocketStream<Box<dyn Io>>, Problem> {
        let stream = self.server.connect().await.map_err(|why| self.unreachable(why))?;
        let request = Request::builder()
            .uri(format!("{}{}", self.server.url().replacen("http", "ws", 1), url.as_str()))
            .header(header::HOST, self.server.authority())
            .header(header::AUTHORIZATION, &self.token)
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_VERSION, "13")
            .header(header::SEC_WEBSOCKET_KEY, tungstenite::handshake::client::generate_key())
            .body(())
            .map_err(|e| Problem::new(Kind::Failed, "nothing was sent", e))?;
        let opening = tokio::time::timeout(wire::PATIENCE, tokio_tungstenite::client_async(request, stream)).await;
        match opening.map_err(|_| self.unreachable("it did not answer in time".to_owned()))? {
            Ok((socket, _)) => Ok(socket),
            Err(tungstenite::Error::Http(response)) => {
                let id = response.headers().get("x-request-id").and_then(|id| id.to_str().ok());
                Err(refusal(response.status(), id, response.body().as_deref().unwrap_or_default()))
            }
            Err(error) => Err(self.unreachable(error.to_string())),
        }
    }

    fn unreachable(&self, why: String) -> Problem {
        Problem::new(Kind::Unreachable, format!("{} does not answer", self.server), why)
            .next("look whether it runs (muster up), or name another with --server")
    }
}

/// What a refusal of the gateway means for a command.
pub fn refusal(status: StatusCode, id: Option<&str>, body: &[u8]) -> Problem {
    let value: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let said = value["message"].as_str().map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned);
    let mut why = readable(&said, 2_000);
    if why.is_empty() {
        why = format!("it answered {status} and nothing more");
    }
    for refused in value["details"]["refused"].as_array().into_iter().flatten() {
        let word = |key: &str| readable(refused[key].as_str().unwrap_or_default(), 300);
        if why.contains(&word("field")) {
            continue;
        }
        let _ = write!(why, "\n           {}: {}; {}", word("field"), word("why"), word("remedy"));
    }
    for (word, said) in [("it printed", &value["details"]["stdout"]), ("it complained", &value["details"]["stderr"])] {
        if let Some(said) = said.as_str().filter(|said| !said.is_empty()) {
            let _ = write!(why, "\n           {word}: {}", readable(said, 1_000));
        }
    }
    if let Some(id) = id {
        let _ = write!(why, " (request {})", readable(id, 100));
    }
    let (kind, what, next) = match status.as_u16() {
        // The server and the cluster answered; what they know of the command is that it has no exit code.
        _ if value["reason"] == "CommandFailed" => {
            (Kind::Failed, "nobody knows how the command ended", "look at the pod: muster events POD")
        }
        409 if value["reason"] == "NoAccount" => (
            Kind::Conflict,
            "the cluster has no account for kubeconfigs that end",
            "--create-account read (or operate) makes it there; or muster cluster role | kubectl apply -f -; or take what muster itself uses: --long-lived",
        ),
        401 => (
            Kind::Forbidden,
            "the server does not know you",
            "bring a token with --token-file or MUSTER_TOKEN, or use muster up's own directory",
        ),
        403 => (Kind::Forbidden, "you may not do this", "ask an administrator for the right; docs/cli.md says which"),
        404 => (Kind::NotFound, "there is no such thing", "look at what there is: muster cluster list, muster pods"),
        409 | 428 => (Kind::Conflict, "something stands against it", "look at its present state and try again"),
        408 | 504 => (Kind::Timeout, "it took too long", "try again, or ask fewer clusters with --cluster"),
        429 => (Kind::Failed, "the server is too busy for you", "try again in a moment"),
        502 | 503 => (Kind::Unreachable, "what stands behind the server does not answer", "try again in a moment"),
        400 => (Kind::Usage, "the server does not understand what was asked", ""),
        413 | 415 | 422 => (Kind::Failed, "the server refused it", ""),
        _ => (Kind::Failed, "the server failed", "its log says why"),
    };
    Problem::new(kind, what, why).next(next)
}

/// A path and a query, encoded as they are put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url(String);

/// What stands in a segment or a value as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

impl Url {
    /// Each part is one segment, whatever it holds.
    pub fn of(parts: &[&str]) -> Url {
        // `.` and `..` mean something to whoever cleans paths on the way.
        let encoded = |part: &str| match part {
            "." => "%2E".to_owned(),
            ".." => "%2E%2E".to_owned(),
            part => utf8_percent_encode(part, ENCODED).to_string(),
        };
        Url(parts.iter().map(|part| format!("/{}", encoded(part))).collect())
    }

    pub fn with(mut self, key: &str, value: impl AsRef<str>) -> Url {
        let mark = if self.0.contains('?') { '&' } else { '?' };
        let _ = write!(self.0, "{mark}{key}={}", utf8_percent_encode(value.as_ref(), ENCODED));
        self
    }

    pub fn with_some(self, key: &str, value: Option<impl AsRef<str>>) -> Url {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(server: Option<&str>, dir: &std::path::Path) -> Server {
        Server {
            server: server.map(str::to_owned),
            token_file: None,
            certificate_authority: None,
            data_dir: Some(dir.to_owned()),
        }
    }

    #[test]
    fn what_a_user_types_stays_one_segment_or_one_value() {
        // B-5
        let url = Url::of(&["api", "cluster", "a/../b?x#y", ".."])
            .with("filter", "name eq 'ü&v'")
            .with_some("n", None::<&str>);
        assert_eq!(url.as_str(), "/api/cluster/a%2F..%2Fb%3Fx%23y/%2E%2E?filter=name%20eq%20%27%C3%BC%26v%27");
    }

    #[test]
    fn the_door_of_muster_up_is_found_and_its_token_goes_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let missing = flags(None, dir.path()).gateway_with(None).err().unwrap().to_string();
        assert!(missing.contains("muster up --demo"), "{missing}");
        let door = Door {
            server: "http://127.0.0.1:1".into(),
            token: "secret".into(),
            certificate_authority: None,
            setup: None,
            console: None,
        };
        door.write(dir.path()).unwrap();
        for same in [None, Some("http://127.0.0.1:1"), Some("http://127.0.0.1:1/")] {
            assert_eq!(flags(same, dir.path()).gateway_with(None).unwrap().token, "Bearer secret");
        }
        let other = flags(Some("http://127.0.0.1:2"), dir.path()).gateway_with(None).err().unwrap().to_string();
        assert!(other.contains("no token for http://127.0.0.1:2") && !other.contains("secret"), "{other}");
        let by_variable = flags(None, dir.path()).gateway_with(Some("mine".into())).unwrap();
        assert_eq!(by_variable.token, "Bearer mine");
        let file = dir.path().join("token");
        fs::write(&file, "from-file\n").unwrap();
        let by_file = Server { token_file: Some(file), ..flags(None, dir.path()) };
        assert_eq!(by_file.gateway_with(Some("mine".into())).unwrap().token, "Bearer from-file");
    }

    #[test]
    fn a_refusal_has_its_exit_code_its_words_and_its_request() {
        let body = br#"{"code":404,"reason":"NotFound","message":"no member \"x\"\u001b[31m","details":{}}"#;
        let problem = refusal(StatusCode::NOT_FOUND, Some("r1"), body);
        assert_eq!(problem.code(), 6);
        let text = problem.to_string();
        assert!(
            text.contains("because: no member \"x\"[31m (request r1)") || text.contains("no member \"x\""),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'));
        for (status, code) in [(401, 5), (403, 5), (409, 7), (504, 4), (503, 8), (400, 2), (422, 1), (500, 1)] {
            assert_eq!(refusal(StatusCode::from_u16(status).unwrap(), None, b"").code(), code, "{status}");
        }
        let lost = br#"{"reason":"CommandFailed","message":"the runtime is gone","details":{"stdout":"half\u001b[2J","stderr":""}}"#;
        let problem = refusal(StatusCode::BAD_GATEWAY, None, lost);
        assert_eq!(problem.code(), 1);
        let text = problem.to_string();
        assert!(
            text.contains("nobody knows how") && text.contains("it printed: half") && !text.contains('\u{1b}'),
            "{text}"
        );
        let refused = br#"{"message":"refused","details":{"refused":[{"field":"users[0].user.exec","why":"runs a program","remedy":"use a token"}]}}"#;
        assert!(
            refusal(StatusCode::UNPROCESSABLE_ENTITY, None, refused)
                .to_string()
                .contains("users[0].user.exec: runs a program; use a token")
        );
    }
}
