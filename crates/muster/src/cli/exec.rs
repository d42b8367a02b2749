//! `muster exec POD -- COMMAND`: one command in a container; it ends as the command ends.

use std::io::{IsTerminal, Write};

use clap::Args;
use serde_json::Value;

use super::{
    gateway::{Server, Url},
    scope::Scope,
    words::harmless,
};
use crate::problem::{Kind, Problem};

#[derive(Debug, Args)]
pub struct Exec {
    /// The pod
    pub pod: String,
    /// The container, where the pod has several
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// The command and its arguments, behind --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
    #[command(flatten)]
    pub scope: Scope,
    #[command(flatten)]
    pub server: Server,
}

/// The exit code is the command's.
pub async fn run(flags: Exec) -> Result<u8, Problem> {
    let gateway = flags.server.gateway()?;
    let pod = flags.scope.pod(&gateway, &flags.pod).await?;
    let url = Url::of(&["api", "cluster", &pod.cluster, "exec"])
        .with("namespace", &pod.namespace)
        .with("pod", &pod.name)
        .with_some("container", flags.container.as_ref());
    let url = flags.command.iter().fold(url, |url, word| url.with("command", word));
    let answer = gateway.post(&url, None).await?;
    let part = |key: &str| answer[key].as_str().unwrap_or_default();
    put(&mut std::io::stdout(), part("stdout"));
    put(&mut std::io::stderr(), part("stderr"));
    if answer["truncated"] == true {
        eprintln!("warning: the output was longer and is cut off");
    }
    exit_code(&answer)
}

fn put(out: &mut (impl Write + IsTerminal), text: &str) {
    let _ = match out.is_terminal() {
        true => out.write_all(harmless(text.as_bytes()).as_bytes()),
        false => out.write_all(text.as_bytes()),
    };
    let _ = out.flush();
}

fn exit_code(answer: &Value) -> Result<u8, Problem> {
    let code = answer["exitCode"].as_i64().ok_or_else(|| {
        Problem::new(Kind::Failed, "nobody knows how the command ended", "the answer of the server does not say it")
    })?;
    // A code that does not fit is a failure all the same.
    Ok(u8::try_from(code).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_ends_as_the_command_ended() {
        for (said, code) in [(0, 0), (3, 3), (255, 255), (256, 255), (-1, 255)] {
            assert_eq!(exit_code(&json!({"exitCode": said})).unwrap(), code);
        }
        assert!(exit_code(&json!({})).is_err());
    }
}
