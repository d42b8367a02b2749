//! What is served at one moment: kinds, discovery and documents change together or not at all.

use crate::discovery::Discovery;
use crate::kinds::{Definition, Registry};
use crate::openapi::Documents;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};
use tokio::sync::watch;

pub struct Served {
    pub registry: Registry,
    pub discovery: Discovery,
    pub documents: Documents,
}

impl Served {
    /// What every server serves; the same for all servers of a process.
    pub fn builtin() -> Arc<Self> {
        static BUILTIN: LazyLock<Arc<Served>> = LazyLock::new(|| {
            let registry = Registry::builtin();
            Arc::new(Served { documents: Documents::new(&registry, None), discovery: Discovery::default(), registry })
        });
        Arc::clone(&BUILTIN)
    }

    /// The same built-in kinds with other definitions; documents of versions that did not change are kept.
    pub fn with(&self, definitions: &[Arc<Definition>]) -> Self {
        let registry = self.registry.with(definitions);
        let documents = Documents::new(&registry, Some(&self.documents));
        Self { documents, discovery: Discovery::default(), registry }
    }
}

/// The present `Served`; a request takes it once and sees one state throughout.
pub struct Current {
    served: RwLock<Arc<Served>>,
    changes: watch::Sender<()>,
}

impl Current {
    pub fn new(served: Arc<Served>) -> Self {
        Self { served: RwLock::new(served), changes: watch::Sender::new(()) }
    }

    pub fn get(&self) -> Arc<Served> {
        self.served.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set(&self, served: Served) {
        *self.served.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(served);
        self.changes.send_replace(());
    }

    /// Tells when there is a new one.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }
}
