//! A program of its own around a few reconcilers: `main` of a crate that brings them.

use std::{io::Write, path::PathBuf, process::ExitCode, sync::Arc};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{App, exporter_options};
use crate::{
    BoxError, Registry,
    config::{Config, Overrides},
    logging,
    trace::Exporter,
};

const USAGE: &str = "\
usage: PROGRAM [--config FILE] [-v LEVEL] [--kubeconfig FILE] [--set KEY=VALUE]...
       PROGRAM crds     prints the definitions of its kinds, for kubectl apply -f -
Keys are those of the configuration file; a flag comes before the environment, the environment before the file.
";

/// Runs the reconcilers as the command line and the configuration say. For `fn main`.
pub fn main(register: impl Fn(&mut Registry)) -> ExitCode {
    let registry = || {
        let mut registry = Registry::new();
        register(&mut registry);
        registry
    };
    let outcome = match Command::parse(std::env::args().skip(1)) {
        Ok(Command::Help) => say(USAGE),
        Ok(Command::Crds) => crds(&registry()),
        Ok(Command::Run { config, flags }) => run(config, flags, registry),
        Err(why) => {
            eprint!("{why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Command {
    Help,
    Crds,
    Run { config: Option<PathBuf>, flags: Vec<(String, String)> },
}

impl Command {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Command, String> {
        // `--flag=value` is `--flag value`.
        let mut words: Vec<String> = Vec::new();
        for argument in arguments {
            match argument.split_once('=').filter(|(flag, _)| flag.starts_with('-')) {
                Some((flag, value)) => words.extend([flag.to_owned(), value.to_owned()]),
                None => words.push(argument),
            }
        }
        let mut words = words.into_iter();
        let (mut config, mut flags) = (None, Vec::new());
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "-h" | "--help" | "help" => return Ok(Command::Help),
                "crds" => return Ok(Command::Crds),
                "-c" | "--config" => config = Some(PathBuf::from(value()?)),
                "-v" | "--v" => flags.push(("logging.verbosity".to_owned(), value()?)),
                "--kubeconfig" => flags.push(("managers.*.api.kubeconfig".to_owned(), value()?)),
                "--set" => {
                    let pair = value()?;
                    let split = pair.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
                    flags.push(split.ok_or_else(|| format!("--set {pair}: write KEY=VALUE"))?);
                }
                other => return Err(format!("{other} is not known")),
            }
        }
        Ok(Command::Run { config, flags })
    }
}

fn say(text: &str) -> Result<(), BoxError> {
    // A reader that went away (`| head`) is no failure.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    Ok(())
}

fn crds(registry: &Registry) -> Result<(), BoxError> {
    for crd in registry.crds() {
        say(&format!("---\n{}", serde_saphyr::to_string(&crd)?))?;
    }
    Ok(())
}

fn run(config: Option<PathBuf>, flags: Vec<(String, String)>, registry: impl Fn() -> Registry) -> Result<(), BoxError> {
    let overrides = Overrides { environment: std::env::vars().collect(), flags };
    let config = Config::load(config.as_deref(), overrides)?;
    let exporter =
        exporter_options(&config.tracing, "reconciler").map(|options| Exporter::new(&options)).transpose()?;
    let (layer, exporter) = exporter.unzip();
    let log = logging::start(config.logging.verbosity, config.logging.json, layer);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = CancellationToken::new();
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let traces_stop = CancellationToken::new();
        let traces = exporter.map(|exporter| tokio::spawn(exporter.run(traces_stop.clone())));
        let app = App::new(&config, registry, Some(Arc::clone(&log) as Arc<_>)).await?;
        let mut running = tokio::spawn(app.run(stop.clone()));
        let early = tokio::select! {
            _ = terminate.recv() => None,
            _ = interrupt.recv() => None,
            ended = &mut running => Some(ended),
        };
        stop.cancel();
        let ended = match early {
            Some(ended) => ended,
            None => running.await,
        };
        traces_stop.cancel();
        if let Some(traces) = traces {
            let _ = traces.await;
        }
        ended.map_err(BoxError::from)?.map_err(BoxError::from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, String> {
        Command::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn the_command_line_is_read() {
        // KC-5
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let run = |config: Option<&str>, flags| Ok(Command::Run { config: config.map(PathBuf::from), flags });
        assert_eq!(parse(""), run(None, vec![]));
        assert_eq!(parse("-c a.yaml -v=4"), run(Some("a.yaml"), vec![pair("logging.verbosity", "4")]));
        assert_eq!(parse("--config=a.yaml --set a.b=c"), run(Some("a.yaml"), vec![pair("a.b", "c")]));
        assert_eq!(parse("--set=a.b=c=d"), run(None, vec![pair("a.b", "c=d")]));
        assert_eq!((parse("crds"), parse("--help")), (Ok(Command::Crds), Ok(Command::Help)));
        for wrong in ["--config", "--nonsense", "--set a", "run"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
