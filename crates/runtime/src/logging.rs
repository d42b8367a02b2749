//! The program's own log, on standard error, and how much of it: chosen at the start, changed while it runs.

use std::{
    io::{self, IsTerminal},
    sync::{Arc, Mutex, PoisonError},
};

use tracing::{Level, Metadata};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::{FilterExt, FilterFn, LevelFilter, filter_fn},
    fmt,
    layer::SubscriberExt,
    reload,
    util::SubscriberInitExt,
};

use crate::{
    serve::LogLevel,
    trace::{self, TraceLayer},
};

/// Overrides what `-v` says, with filters such as `muster_store=debug`.
const VARIABLE: &str = "MUSTER_LOG";

/// How much is logged; can be changed.
pub struct Log {
    filter: reload::Handle<EnvFilter, Registry>,
    /// As it was asked for.
    level: Mutex<String>,
}

/// klog's levels on ours. The libraries below stay quiet whatever is asked: their traces print headers, and so tokens. The client of
/// Kubernetes would say at every try that somebody cannot be reached, without saying who; it returns that as an error too.
fn filter(verbosity: u8) -> &'static str {
    match verbosity {
        0..=3 => "warn,kube_client=off,muster=info",
        4..=5 => "warn,kube_client=off,muster=debug",
        6.. => {
            "info,muster=trace,h2=warn,hyper=warn,hyper_util=warn,kube_client=info,rustls=warn,tonic=warn,tower=warn,trace=off"
        }
    }
}

/// Starts the log, and the traces if there is a layer for them. Only the first call of a process takes effect.
pub fn start(verbosity: u8, json: bool, traces: Option<TraceLayer>) -> Arc<Log> {
    let asked = std::env::var(VARIABLE).ok().and_then(|text| Some((EnvFilter::try_new(&text).ok()?, text)));
    let (chosen, level) = asked.unwrap_or_else(|| (EnvFilter::new(filter(verbosity)), verbosity.to_string()));
    let (chosen, handle) = reload::Layer::new(chosen);
    let lines = fmt::layer().with_writer(io::stderr);
    let lines = match json {
        true => lines.json().flatten_event(true).boxed(),
        false => lines.with_ansi(io::stderr().is_terminal()).with_target(verbosity >= 4).boxed(),
    };
    let traced = filter_fn(is_traced).with_max_level_hint(LevelFilter::INFO);
    let traces = traces.map(|traces| traces.with_filter(traced));
    let _ =
        tracing_subscriber::registry().with(lines.with_filter(chosen.and(without_secrets()))).with(traces).try_init();
    Arc::new(Log { filter: handle, level: Mutex::new(level) })
}

/// It says that it looks at any level: without saying so it would count as wanting them all, and every span of the libraries below would be made.
fn without_secrets() -> FilterFn {
    filter_fn(keeps_secrets as fn(&Metadata<'_>) -> bool).with_max_level_hint(LevelFilter::TRACE)
}

/// The client library warns of an answer it cannot read by printing it, and it may be a Secret (B-17). The error it returns says enough.
fn keeps_secrets(metadata: &Metadata<'_>) -> bool {
    !(metadata.target().starts_with("kube_client") && *metadata.level() == Level::WARN)
}

/// Spans of traces, and what goes wrong inside them.
fn is_traced(metadata: &Metadata<'_>) -> bool {
    if metadata.is_span() {
        metadata.target() == trace::TARGET
    } else {
        *metadata.level() <= Level::WARN && keeps_secrets(metadata)
    }
}

impl LogLevel for Log {
    fn level(&self) -> String {
        self.level.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_level(&self, level: &str) -> Result<(), String> {
        let wrong = "write a number from 0 to 10, or a filter such as warn,muster=debug";
        let chosen = match level.parse::<u8>() {
            Ok(verbosity @ 0..=10) => EnvFilter::new(filter(verbosity)),
            Ok(_) => return Err(format!("{level} is no level; {wrong}")),
            Err(_) if level.is_empty() => return Err(format!("nothing was asked for; {wrong}")),
            Err(_) => EnvFilter::try_new(level).map_err(|why| format!("{why}; {wrong}"))?,
        };
        self.filter.reload(chosen).map_err(|why| why.to_string())?;
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = level.to_owned();
        Ok(())
    }
}

/// Held by tests that look at what is logged or traced: whether a line is wanted is remembered for the whole process, and so for all their subscribers.
#[cfg(test)]
pub(crate) static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_is_a_valid_filter_and_keeps_the_wire_quiet() {
        for verbosity in 0..=20 {
            let text = filter(verbosity);
            EnvFilter::try_new(text).unwrap();
            assert!(text.starts_with("warn") || text.contains("h2=warn"), "{text}");
        }
    }

    #[test]
    fn the_spans_of_libraries_are_not_even_made() {
        use tracing_subscriber::layer::Filter;
        let both = EnvFilter::new(filter(0)).and(without_secrets());
        assert_eq!(Filter::<Registry>::max_level_hint(&both), Some(LevelFilter::INFO));
    }

    #[test]
    fn an_answer_that_the_client_prints_reaches_neither_log_nor_traces() {
        // B-17
        let _alone = ALONE.blocking_lock();
        let seen = |level: &str| {
            let filter = EnvFilter::new(level).and(without_secrets());
            let subscriber =
                tracing_subscriber::registry().with(fmt::layer().with_writer(io::sink).with_filter(filter));
            tracing::subscriber::with_default(subscriber, || {
                let warns = tracing::enabled!(target: "kube_client::client", Level::WARN);
                let traced = tracing_subscriber::registry()
                    .with(fmt::layer().with_writer(io::sink).with_filter(filter_fn(is_traced)));
                let traced = tracing::subscriber::with_default(
                    traced,
                    || tracing::enabled!(target: "kube_client::client", Level::WARN),
                );
                (warns, traced, tracing::enabled!(target: "kube_client::client", Level::ERROR))
            })
        };
        for level in ["warn,muster=info", "trace", filter(10)] {
            assert_eq!(seen(level), (false, false, true), "{level}");
        }
    }

    #[test]
    fn that_a_cluster_is_away_is_said_by_who_knows_its_name_alone() {
        let _alone = ALONE.blocking_lock();
        for verbosity in 0..=5 {
            let (reader, writer) = io::pipe().unwrap();
            let lines = fmt::layer().with_writer(Arc::new(writer));
            let chosen = EnvFilter::new(filter(verbosity)).and(without_secrets());
            tracing::subscriber::with_default(tracing_subscriber::registry().with(lines.with_filter(chosen)), || {
                tracing::error!(target: "kube_client::client::builder", "failed with error");
                tracing::info!(target: "muster_fleet::member", "a member changed its state");
            });
            let written = io::read_to_string(reader).unwrap();
            assert!(written.contains("changed its state") && !written.contains("failed"), "{verbosity}: {written}");
        }
    }

    #[test]
    fn the_level_changes_while_the_program_runs() {
        // SYM-11
        let _alone = ALONE.blocking_lock();
        let (filter, handle) = reload::Layer::new(EnvFilter::new(filter(0)));
        let log = Log { filter: handle, level: Mutex::new("0".to_owned()) };
        let subscriber = tracing_subscriber::registry().with(fmt::layer().with_writer(io::sink).with_filter(filter));
        tracing::subscriber::with_default(subscriber, || {
            let debug = || tracing::enabled!(target: "muster_runtime", Level::DEBUG);
            assert!(!debug());
            log.set_level("4").unwrap();
            assert!(debug());
            log.set_level("muster_runtime=error").unwrap();
            assert!(!debug() && log.level() == "muster_runtime=error");
            for wrong in ["", "11", "a=b=c", "muster=loud"] {
                assert!(log.set_level(wrong).is_err_and(|why| why.contains("0 to 10")), "{wrong}");
            }
            assert_eq!(log.level(), "muster_runtime=error");
        });
    }
}
