//! The fleet beside the hub: cared for as the configuration says, declared by the meta cluster's Secrets and ConfigMaps.

use fleet::{Care, Cleanups, Fleet, Limits, Pace};
use kube::Client;
use runtime::{Metrics, config};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::problem::{Kind, Problem};

/// The namespace of everything Muster keeps for itself in the meta cluster.
pub const NAMESPACE: &str = "muster-system";

/// A fleet that follows the meta cluster until it is stopped.
pub struct Members {
    pub fleet: Fleet,
    stop: DropGuard,
    following: Option<JoinHandle<()>>,
}

impl Members {
    /// Begins to follow; members join as they are read.
    pub fn follow(meta: Client, section: &config::Fleet) -> Members {
        let fleet = Fleet::new(care(section));
        let stop = CancellationToken::new();
        let following = tokio::spawn({
            let (fleet, namespace, stop) = (fleet.clone(), section.namespace.clone(), stop.clone());
            let cleanups = Cleanups::new(meta.clone(), NAMESPACE);
            async move {
                let follow = fleet.follow(meta, namespace.as_deref(), stop.clone());
                tokio::join!(follow, cleanups.run(fleet.clone(), stop.clone()));
            }
        });
        tracing::info!(namespace = section.namespace.as_deref().unwrap_or("*"), "following the member clusters");
        Members { fleet, stop: stop.drop_guard(), following: Some(following) }
    }

    /// Those of this process alone.
    pub fn none(section: &config::Fleet) -> Members {
        let stop = CancellationToken::new().drop_guard();
        Members { fleet: Fleet::new(care(section)), stop, following: None }
    }

    /// Of a hub: when its configuration wants them.
    pub async fn of_hub(section: &config::Fleet, metrics: Option<&Metrics>) -> Result<Option<Members>, Problem> {
        if section.enabled != Some(true) {
            return Ok(None);
        }
        let meta = runtime::app::client(&section.api).await.map_err(|why| {
            Problem::new(Kind::Usage, "the API of the fleet cannot be used", why)
                .next("mend fleet.api, or leave it out to use the first manager's")
        })?;
        let members = Members::follow(meta, section);
        if let Some(metrics) = metrics {
            members.fleet.measure(metrics);
        }
        Ok(Some(members))
    }

    pub async fn stop(self) {
        drop(self.stop);
        if let Some(following) = self.following {
            let _ = following.await;
        }
    }
}

fn care(section: &config::Fleet) -> Care {
    let care = Care::default();
    Care {
        limits: Limits { requests: section.calls, deadline: section.call_timeout, cache: section.cache, ..care.limits },
        pace: Pace { steady: section.probe_period, doubt: care.pace.doubt.min(section.probe_period), ..care.pace },
        ..care
    }
}

#[cfg(test)]
mod tests {
    use runtime::config::{Config, Overrides};

    use super::*;

    #[test]
    fn what_is_not_said_of_the_fleet_is_its_own_default() {
        let read = |text: &str| {
            let config = Config::read("a", std::path::Path::new(""), text, Overrides::default()).unwrap();
            care(&config.fleet)
        };
        assert_eq!(read(""), Care::default());
        let other = read("fleet: {probePeriod: 1s, calls: 2}");
        assert_eq!((other.limits.requests, other.pace.steady.as_secs(), other.pace.doubt.as_secs()), (2, 1, 1));
    }
}
