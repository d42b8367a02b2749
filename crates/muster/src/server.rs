//! `muster apiserver`: the API server alone.

use std::{net::SocketAddr, sync::Arc};

use runtime::{config::Tracing, logging::Log};

use crate::{
    cli::{Apiserver, LogFormat},
    hub::Traces,
    logging,
    paths::DataDir,
    problem::{Kind, Problem},
    serving::{Opened, Secure},
    signals::Signals,
};

pub fn run(flags: Apiserver) -> Result<(), Problem> {
    let tracing = Tracing { endpoint: flags.logs.tracing_endpoint.clone(), ratio: 1.0, ca_file: None };
    let json = flags.logs.log_format == LogFormat::Json;
    let (log, exporter) = logging::start(flags.logs.verbosity, json, &tracing, "muster-apiserver")?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| Problem::new(Kind::Failed, "cannot start", e))?
        .block_on(async {
            let traces = Traces::start(exporter);
            let outcome = serve(flags, &log).await;
            traces.stop().await;
            outcome
        })
}

async fn serve(flags: Apiserver, log: &Arc<Log>) -> Result<(), Problem> {
    let opened = Opened::open(flags, log).await?;
    if opened.plain.is_none() && opened.secure().is_none() {
        opened.close().await;
        return Err(Problem::new(Kind::Usage, "nothing to listen on", "both ports are 0")
            .next("set --secure-port or --insecure-port"));
    }
    // Before anybody can see us ready: a signal that finds no handler kills.
    let mut signals = Signals::new()?;
    greet(opened.flags(), opened.dir(), opened.plain, opened.secure());
    let mut running = opened.start();
    let outcome = tokio::select! {
        () = signals.next() => {
            tracing::info!("stopping; again to stop at once");
            signals.exit_on_next();
            Ok(())
        }
        problem = running.failure() => Err(problem),
    };
    running.stop().await;
    outcome
}

/// The few lines a person needs; programs read the log instead.
fn greet(flags: &Apiserver, dir: &DataDir, plain: Option<SocketAddr>, secure: Option<&Secure>) {
    if flags.logs.log_format == LogFormat::Json {
        tracing::info!(data = %dir.root().display(), url = secure.map(|s| s.url.as_str()), plain = ?plain, "serving");
        return;
    }
    let kubeconfig = dir.kubeconfig();
    eprintln!("muster {}", env!("CARGO_PKG_VERSION"));
    eprintln!("  data        {}", dir.root().display());
    if let Some(secure) = secure {
        eprintln!("  api         {}", secure.url);
    }
    if let Some(plain) = plain {
        eprintln!("  plain       http://{plain}  (this machine only)");
    }
    if let Some(secure) = secure {
        eprintln!("  authority   sha256 {}", secure.authority.fingerprint());
        eprintln!("  kubeconfig  {}", kubeconfig.display());
        eprintln!("  try         kubectl --kubeconfig {} get namespaces", kubeconfig.display());
    }
}
