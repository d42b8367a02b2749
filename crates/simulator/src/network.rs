//! The way to a member: how long it takes, and whether it is open. Requests wait, are refused, or never hear an answer.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// How a member is reached now; may be changed at any time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Network {
    #[default]
    Open,
    /// Every request takes this much longer.
    Slow(Duration),
    /// Nobody answers: a request waits until whoever asked gives up.
    BlackHole,
    /// Refused at once, as by a port on which nobody listens.
    Refused,
}

/// Shared by all ways to one member. Streams that are open when the way closes end.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    now: Arc<RwLock<Network>>,
    changed: Arc<tokio::sync::watch::Sender<()>>,
}

impl Default for Way {
    fn default() -> Self {
        Self { now: Arc::default(), changed: Arc::new(tokio::sync::watch::Sender::new(())) }
    }
}

/// The member cannot be reached.
#[derive(Debug, thiserror::Error)]
#[error("the member refuses connections")]
pub(crate) struct Unreachable;

impl Way {
    pub fn set(&self, network: Network) {
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = network;
        self.changed.send_replace(());
    }

    pub fn get(&self) -> Network {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns when a request has got through. One that waits in a black hole gets through when the way opens again.
    pub async fn pass(&self) -> Result<(), Unreachable> {
        let mut changes = self.changed.subscribe();
        loop {
            match self.get() {
                Network::Open => return Ok(()),
                Network::Slow(delay) => {
                    tokio::time::sleep(delay).await;
                    return Ok(());
                }
                Network::Refused => return Err(Unreachable),
                // The sender lives as long as we do.
                Network::BlackHole => _ = changes.changed().await,
            }
        }
    }

    /// Returns when connections are refused: what is open then is cut.
    pub async fn cut(self) {
        let mut changes = self.changed.subscribe();
        while self.get() != Network::Refused {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_way_delays_refuses_and_swallows() {
        let way = Way::default();
        let begun = tokio::time::Instant::now();
        way.pass().await.unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO);
        way.set(Network::Slow(Duration::from_secs(3)));
        way.pass().await.unwrap();
        assert_eq!(begun.elapsed(), Duration::from_secs(3));
        way.set(Network::Refused);
        assert!(way.pass().await.is_err());
        way.set(Network::BlackHole);
        assert!(tokio::time::timeout(Duration::from_secs(3600), way.pass()).await.is_err());
        let waiting = tokio::spawn({
            let way = way.clone();
            async move { way.pass().await.is_ok() }
        });
        tokio::task::yield_now().await;
        way.set(Network::Open);
        assert!(waiting.await.unwrap());
    }
}
