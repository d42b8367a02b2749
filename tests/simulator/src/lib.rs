//! A simulated member on a port, and the real kubectl to ask it with.
// The whole crate is a test tool: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use muster_tests::peer::peers_folder;
use simulator::{Member, Settings};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// A member with its kubeconfig. Stop it with [`Stage::end`].
pub struct Stage {
    pub member: Member,
    folder: TempDir,
}

impl Stage {
    pub async fn begin(name: &str) -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let authority = pki::Authority::open_or_create(&folder.path().join("pki")).unwrap();
        let member = Member::start(Settings::new(name)).await.unwrap();
        let served = member.serve(SocketAddr::from(([127, 0, 0, 1], 0)), &authority).await.unwrap();
        pki::write_private(&folder.path().join("kubeconfig"), served.kubeconfig.as_bytes()).unwrap();
        Stage { member, folder }
    }

    /// Runs kubectl: its exit code, and what it wrote to both.
    pub async fn kubectl_with(&self, line: &str, input: &str) -> (i32, String, String) {
        let mut command = Command::new(peers_folder().unwrap().join("kubectl"));
        command.arg("--kubeconfig").arg(self.folder.path().join("kubeconfig"));
        command.args(line.split_whitespace()).env("HOME", self.folder.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).await.unwrap();
        drop(stdin);
        let ended = tokio::time::timeout(Duration::from_secs(180), child.wait_with_output()).await;
        let ended = ended.unwrap_or_else(|_| panic!("`kubectl {line}` did not end")).unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (ended.status.code().unwrap_or(-1), text(ended.stdout), text(ended.stderr))
    }

    /// Runs kubectl, which must succeed.
    pub async fn kubectl(&self, line: &str) -> String {
        self.kubectl_fed(line, "").await
    }

    pub async fn kubectl_fed(&self, line: &str, input: &str) -> String {
        let (code, out, err) = self.kubectl_with(line, input).await;
        assert_eq!(code, 0, "`kubectl {line}`: {out}{err}");
        out
    }

    pub async fn end(self) {
        self.member.stop().await;
    }
}
