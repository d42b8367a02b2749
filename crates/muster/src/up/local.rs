//! The command line on the same machine: a token, new at each start, in a file that only the owner of the data can read.
//!
//! Whoever can read that file can read the keys beside it, too, so that the token gives nothing away: it makes its bearer
//! an administrator of our API server, and the kubeconfig's user on any other.

use std::{
    fs, io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use aws_lc_rs::{constant_time, rand};
use http::{Request, Response, header};
use kube::{
    Client,
    client::{self, Body},
};
use serde::{Deserialize, Serialize};
use tower::Service;

use crate::problem::{Kind, Problem};

/// What the command line needs to know of a running `muster up`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Door {
    /// The address of the gateway.
    pub server: String,
    pub token: String,
    /// Whom to believe there, as PEM, when it speaks TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authority: Option<String>,
    /// The link by which the first administrator is made, while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// Where browsers find the console, if that is another address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub console: Option<String>,
}

impl Door {
    /// The file in a data directory.
    pub fn path(dir: &Path) -> PathBuf {
        dir.join("client.json")
    }

    /// The door of a `muster up` with this data directory, if one runs or was killed.
    pub fn read(dir: &Path) -> Result<Option<Door>, Problem> {
        let path = Door::path(dir);
        let unusable = |why: String| {
            Problem::new(Kind::Usage, format!("{} cannot be used", path.display()), why)
                .next("start muster up again, or name a server with --server")
        };
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|e| unusable(e.to_string())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unusable(error.to_string())),
        }
    }

    pub fn write(&self, dir: &Path) -> Result<(), Problem> {
        let text = serde_json::to_vec_pretty(self)
            .map_err(|e| Problem::new(Kind::Failed, "the command line's token cannot be written", e))?;
        Ok(pki::write_private(&Door::path(dir), &text)?)
    }

    /// The server is going: nobody shall knock any more.
    pub fn remove(dir: &Path) {
        let _ = fs::remove_file(Door::path(dir));
    }
}

/// 32 random bytes as text.
pub fn new_token() -> Result<String, Problem> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).map_err(|_| Problem::new(Kind::Failed, "cannot start", "there are no random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// `bare`, but for who brings the token: they go as `own`.
pub fn client(own: Client, bare: Client, token: &str) -> Client {
    let expected = format!("Bearer {token}").into();
    Client::new(Local { own, bare, expected }, "default")
}

#[derive(Clone)]
struct Local {
    own: Client,
    bare: Client,
    /// The whole header.
    expected: Arc<str>,
}

impl Service<Request<Body>> for Local {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<client::Body>, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let presented = request.headers().get(header::AUTHORIZATION).map(|value| value.as_bytes());
        let ours = presented.is_some_and(|presented| {
            constant_time::verify_slices_are_equal(presented, self.expected.as_bytes()).is_ok()
        });
        let client = if ours { self.own.clone() } else { self.bare.clone() };
        if ours {
            request.headers_mut().remove(header::AUTHORIZATION);
        }
        Box::pin(async move { client.send(request).await })
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, os::unix::fs::PermissionsExt};

    use super::*;

    fn saying(word: &'static str) -> Client {
        let answer = move |request: Request<Body>| async move {
            let token = request.headers().get(header::AUTHORIZATION).is_some();
            Ok::<_, Infallible>(Response::new(Body::from(format!("{word} {token}").into_bytes())))
        };
        Client::new(tower::service_fn(answer), "default")
    }

    #[tokio::test]
    async fn only_the_token_opens_the_door_and_it_goes_no_further() {
        let token = new_token().unwrap();
        let client = client(saying("own"), saying("bare"), &token);
        let said = |header: Option<String>| {
            let client = client.clone();
            async move {
                let mut request = Request::get("/x");
                if let Some(header) = header {
                    request = request.header(header::AUTHORIZATION, header);
                }
                client.request_text(request.body(Vec::new()).unwrap()).await.unwrap()
            }
        };
        assert_eq!(said(Some(format!("Bearer {token}"))).await, "own false");
        assert_eq!(said(Some(format!("Bearer {token}0"))).await, "bare true");
        assert_eq!(said(Some(format!("Bearer {}", &token[1..]))).await, "bare true");
        assert_eq!(said(None).await, "bare false");
        assert_ne!(token, new_token().unwrap());
    }

    #[test]
    fn the_door_is_written_for_its_owner_alone_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Door::read(dir.path()).unwrap().is_none());
        let door = Door {
            server: "http://127.0.0.1:8088".to_owned(),
            token: "t".to_owned(),
            certificate_authority: None,
            setup: None,
            console: None,
        };
        door.write(dir.path()).unwrap();
        let mode = fs::metadata(Door::path(dir.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(Door::read(dir.path()).unwrap().unwrap().server, door.server);
        fs::write(Door::path(dir.path()), "{").unwrap();
        assert!(Door::read(dir.path()).is_err());
        Door::remove(dir.path());
        assert!(Door::read(dir.path()).unwrap().is_none());
    }
}
