//! Runs a command that asks a server: its runtime, and what Ctrl-C means.

use crate::problem::{Kind, Problem};

/// The exit code of a command that was interrupted, as shells have it.
const INTERRUPTED: i32 = 130;

pub fn run<T>(command: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Problem::new(Kind::Failed, "cannot start", e))?;
    let outcome = runtime.block_on(async {
        tokio::select! {
            outcome = command => outcome,
            _ = tokio::signal::ctrl_c() => std::process::exit(INTERRUPTED),
        }
    });
    // A thread may still be waiting for a key that nobody will press.
    runtime.shutdown_background();
    outcome
}
