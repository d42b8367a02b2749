//! How a store behaves; the defaults are right for a server.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, SystemClock};
use crate::model::{Attrs, Collection, Describe};
use crate::seal::{KeyRing, Sealer};

#[derive(Clone)]
pub struct Options {
    pub describe: Describe,
    pub history: History,
    pub clock: Arc<dyn Clock>,
    /// The largest value taken.
    pub max_value: usize,
    /// Writes that may wait for the writer; more wait for a place.
    pub queue: usize,
    /// How often the keeper looks after history and snapshots; None = only when told (tests).
    pub tick: Option<Duration>,
    /// A journal segment is closed when it has grown past this.
    pub segment_bytes: u64,
    /// Collections whose values leave the process only sealed; they need `keys`.
    pub sealed: Vec<Collection>,
    pub keys: Option<Arc<KeyRing>>,
}

impl Options {
    pub(crate) fn sealer(&self) -> Sealer {
        Sealer::new(self.keys.clone(), self.sealed.iter().cloned())
    }
}

/// How much of the past can still be read and watched from.
#[derive(Clone, Debug)]
pub struct History {
    pub keep: Duration,
    /// Bounds that end the past earlier.
    pub max_events: u64,
    pub max_bytes: u64,
    /// The newest events stay whatever the bounds say.
    pub min_events: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            describe: Arc::new(|_, _| Attrs::default()),
            history: History::default(),
            clock: Arc::new(SystemClock::default()),
            max_value: 4 << 20,
            queue: 4096,
            tick: Some(Duration::from_secs(1)),
            segment_bytes: 16 << 20,
            sealed: Vec::new(),
            keys: None,
        }
    }
}

impl Default for History {
    fn default() -> Self {
        History { keep: Duration::from_secs(300), max_events: 200_000, max_bytes: 256 << 20, min_events: 2_000 }
    }
}
