//! The server's own log and traces, on the framework's.

use std::sync::Arc;

use runtime::{
    app::exporter_options,
    config::Tracing,
    logging::Log,
    trace::{Exporter, TraceError},
};

use crate::problem::{Kind, Problem};

/// Starts the log. The exporter, if traces go anywhere, is for the caller to run.
pub fn start(
    verbosity: u8,
    json: bool,
    tracing: &Tracing,
    service: &str,
) -> Result<(Arc<Log>, Option<Exporter>), Problem> {
    let wrong = |error: TraceError| {
        Problem::new(Kind::Usage, "traces cannot be sent", error)
            .next("mend tracing.endpoint or OTEL_EXPORTER_OTLP_ENDPOINT, or leave them out")
    };
    let exporter =
        exporter_options(tracing, service).map(|options| Exporter::new(&options)).transpose().map_err(wrong)?;
    let (layer, exporter) = exporter.unzip();
    Ok((runtime::logging::start(verbosity, json, layer), exporter))
}
