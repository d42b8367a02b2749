//! The server's own log, on standard error.

use std::io::{self, IsTerminal};

use tracing_subscriber::{EnvFilter, fmt};

use crate::cli::LogFormat;

/// klog's levels on ours. The libraries below stay quiet whatever is asked: their traces print headers, and so tokens.
fn filter(verbosity: u8) -> &'static str {
    match verbosity {
        0..=3 => "warn,muster=info",
        4..=5 => "warn,muster=debug",
        6.. => "info,muster=trace,h2=warn,hyper=warn,hyper_util=warn,rustls=warn,tonic=warn,tower=warn",
    }
}

pub fn start(verbosity: u8, format: LogFormat) {
    let filter = EnvFilter::try_from_env("MUSTER_LOG").unwrap_or_else(|_| EnvFilter::new(filter(verbosity)));
    let log = fmt().with_env_filter(filter).with_writer(io::stderr);
    // A second subscriber can only be set by tests that run twice in one process.
    let _ = match format {
        LogFormat::Json => log.json().flatten_event(true).try_init(),
        LogFormat::Text => log.with_ansi(io::stderr().is_terminal()).with_target(verbosity >= 4).try_init(),
    };
}

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
}
