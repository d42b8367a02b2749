//! What asks the program to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::problem::{Kind, Problem};

pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub fn new() -> Result<Self, Problem> {
        let failed = |e| Problem::new(Kind::Failed, "cannot wait for signals", e);
        let terminate = signal(SignalKind::terminate()).map_err(failed)?;
        Ok(Self { terminate, interrupt: signal(SignalKind::interrupt()).map_err(failed)? })
    }

    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => (),
            _ = self.interrupt.recv() => (),
        }
    }

    /// The next one ends the process, whatever it is doing.
    pub fn exit_on_next(mut self) {
        tokio::spawn(async move {
            self.next().await;
            std::process::exit(1);
        });
    }
}
