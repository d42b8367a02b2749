//! Asks a member whether it lives.

use std::{sync::Arc, time::Duration};

use http::Request;
use http_body_util::{BodyExt, Limited};
use kube::{Client, client::Body};
use tokio::time::timeout;

use crate::words::{readable, words};

/// No answer to a probe is longer; a member that means harm gets no further.
const LONGEST: usize = 64 << 10;

/// A member that answered.
pub(super) struct Answer {
    /// If it was asked for and given.
    pub version: Option<String>,
}

/// One that did not, or not as it should.
pub(super) struct Trouble {
    pub why: Arc<str>,
    /// Nothing came back at all.
    pub dead_connection: bool,
}

/// Asks within a deadline.
pub(super) async fn ask(client: &Client, wants_version: bool, deadline: Duration) -> Result<Answer, Trouble> {
    match timeout(deadline, questions(client, wants_version)).await {
        Ok(answer) => answer,
        Err(_) => Err(Trouble { why: format!("no answer within {deadline:?}").into(), dead_connection: true }),
    }
}

async fn questions(client: &Client, wants_version: bool) -> Result<Answer, Trouble> {
    let said = |why: String| Trouble { why: why.into(), dead_connection: false };
    match get(client, "/readyz").await? {
        // A server without the question is one that answers.
        (200 | 404, _) => {}
        (401, _) => return Err(said("it refuses our credentials (401); renew the member's credentials".to_owned())),
        (403, _) => {
            return Err(said("it forbids /readyz (403); bind our account to system:public-info-viewer".to_owned()));
        }
        (code, body) => {
            return Err(said(format!("it is not ready ({code}): {}", readable(&String::from_utf8_lossy(&body)))));
        }
    }
    if !wants_version {
        return Ok(Answer { version: None });
    }
    let (_, body) = get(client, "/version").await?;
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    let version = body["gitVersion"].as_str().map(version_of).filter(|version| !version.is_empty());
    Ok(Answer { version })
}

async fn get(client: &Client, path: &str) -> Result<(u16, Vec<u8>), Trouble> {
    let broken = |why: String| Trouble { why: readable(&why).into(), dead_connection: true };
    let request = Request::get(path).body(Body::empty()).map_err(|error| broken(error.to_string()))?;
    let answer = client.send(request).await.map_err(|error| broken(words(&error)))?;
    let code = answer.status().as_u16();
    let body = Limited::new(answer.into_body(), LONGEST).collect().await.map_err(|error| broken(error.to_string()))?;
    Ok((code, body.to_bytes().to_vec()))
}

fn version_of(text: &str) -> String {
    text.chars().take_while(|c| c.is_ascii_alphanumeric() || ".+-_".contains(*c)).take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn what_a_member_says_cannot_steer_a_terminal() {
        // B-14
        let client = testing::client(|_| async { testing::json(500, &serde_json::json!("\u{1b}[2Jgone\nfail etcd")) });
        let Err(trouble) = ask(&client, true, Duration::from_secs(1)).await else { panic!("it answered") };
        assert!(!trouble.why.contains(char::is_control), "{}", trouble.why);
        assert!(trouble.why.contains("fail etcd") && !trouble.dead_connection, "{}", trouble.why);
        assert_eq!(version_of("v1.2.3-k3s1+x\u{1b}[31m<b>"), "v1.2.3-k3s1+x");
    }

    #[tokio::test]
    async fn an_endless_answer_is_cut_off() {
        // B-14
        let client = testing::client(|_| async { testing::json(200, &serde_json::json!("x".repeat(LONGEST))) });
        let Err(trouble) = ask(&client, false, Duration::from_secs(1)).await else { panic!("it answered") };
        assert!(trouble.why.contains("limit"), "{}", trouble.why);
    }
}
