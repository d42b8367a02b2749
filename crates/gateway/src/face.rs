//! The gateway as one face: what it is made of, and how it is started.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fleet::{Cleanups, Fleet, Secret};
use runtime::Metrics;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::access::Gatekeeper;
use crate::apiext::App;
use crate::apiext::actions::Actions;
use crate::audit::Audit;
use crate::controllers::Controllers;
use crate::figures::Figures;
use crate::hub::Hub;
use crate::listen::{Bound, ServeError};
use crate::members::{Members, Parts};
use crate::options::Options;
use crate::pace::Pace;
use crate::seats::Seats;
use crate::session::{Desk, Policy, Sessions};
use crate::site::{Console, Site};
use crate::stream::Stream;
use crate::trail::Trail;
use crate::upstream::Upstream;
use crate::visit::Room;

/// WebSockets and log streams open at once, in all and for one caller.
const OPEN: usize = 1_000;
const OPEN_EACH: usize = 100;
/// How long the start waits to learn who the users are.
const PREPARE: Duration = Duration::from_secs(15);
const NAMESPACE: &str = "muster-system";

/// What the gateway is to serve on its one listener. [`Face::bind`] takes the address.
///
/// Without [`Face::console`] it is APIExt alone, for tokens and certificates.
pub struct Face {
    options: Options,
    upstream: Upstream,
    actions: Actions,
    console: bool,
    fleet: Option<Fleet>,
    controllers: Option<Arc<dyn Controllers>>,
    audit: Option<PathBuf>,
    trail: Option<Arc<dyn Trail>>,
    figures: Figures,
    policy: Policy,
}

impl Face {
    /// APIExt in front of this API.
    pub fn new(options: Options, upstream: Upstream) -> Self {
        let proxied = options.public.is_some();
        let policy = Policy { namespace: NAMESPACE.to_owned(), demo: false, first: None, proxied };
        Self {
            options,
            upstream,
            actions: Actions::default(),
            console: false,
            fleet: None,
            controllers: None,
            audit: None,
            trail: None,
            figures: Figures::default(),
            policy,
        }
    }

    /// Beside the actions every kind has.
    pub fn actions(self, actions: Actions) -> Self {
        Self { actions, ..self }
    }

    /// With the console: people log in and get sessions. The gateway's own identity must be able to impersonate and to keep Secrets
    /// in its namespace (`muster-system`).
    pub fn console(self) -> Self {
        Self { console: true, ..self }
    }

    /// With the members: `/api`, `/apis/zcloud.cn` and the console's views of them.
    pub fn fleet(self, fleet: Fleet) -> Self {
        Self { fleet: Some(fleet), ..self }
    }

    /// With the hub's reconcilers.
    pub fn controllers(self, controllers: Arc<dyn Controllers>) -> Self {
        Self { controllers: Some(controllers), ..self }
    }

    /// With a place where what is done to members, and who gets in, is written down.
    pub fn trail(self, trail: Arc<dyn Trail>) -> Self {
        Self { trail: Some(trail), ..self }
    }

    /// With the audit log, read from this file and those it was rotated into.
    pub fn audit(self, file: PathBuf) -> Self {
        Self { audit: Some(file), ..self }
    }

    /// Adds the requests' figures to those of the process.
    pub fn measure(self, metrics: &Metrics) -> Self {
        self.figures.register(metrics);
        self
    }

    /// Where users are kept, if not in `muster-system`.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.policy.namespace = namespace.to_owned();
        self
    }

    /// Makes `admin:teleport` when there is no user yet. Only on a loopback address.
    pub fn demo_admin(mut self) -> Self {
        self.policy.demo = true;
        self
    }

    /// Makes the user `admin` with this password when there is no user yet, instead of asking for it with the setup link.
    pub fn first_admin(mut self, password: Secret) -> Self {
        self.policy.first = Some(password);
        self
    }

    /// Takes the address, reads certificates and users; nothing is answered yet.
    pub async fn bind(self) -> Result<Listening, ServeError> {
        let loopback = self.options.listen.ip().to_canonical().is_loopback();
        if self.policy.demo && (!loopback || self.policy.proxied) {
            let place =
                self.options.public.as_ref().map_or_else(|| self.options.listen.to_string(), |url| url.to_string());
            return Err(ServeError::DemoInTheOpen(place));
        }
        let bound = Bound::new(&self.options).await?;
        let limits = &self.options.limits;
        let (stop, pace) = (CancellationToken::new(), Pace::new(limits));
        let gatekeeper =
            Gatekeeper::new(self.upstream.clone(), pace.clone(), limits.review_ttl, limits.request_timeout);
        let apiext = App::new(
            self.options.clone(),
            self.upstream.clone(),
            self.actions.clone(),
            gatekeeper.clone(),
            stop.clone(),
        );
        let console = match self.console {
            false => None,
            true => Some(self.make_console(&gatekeeper, &apiext).await?),
        };
        let site = Site::new(self.options, pace, gatekeeper, apiext, console, self.figures, stop);
        Ok(Listening { bound, site: Arc::new(site) })
    }

    async fn make_console(&self, gatekeeper: &Arc<Gatekeeper>, apiext: &Arc<App>) -> Result<Console, ServeError> {
        let failed = |why: crate::Problem| ServeError::Users(why.message);
        let sessions =
            Sessions::new(self.upstream.own().clone(), self.policy.clone(), self.trail.clone()).map_err(failed)?;
        match timeout(PREPARE, sessions.prepare()).await {
            Ok(Ok(())) => {}
            // Who cannot be read now is read when somebody comes; a password that may not be is the operator's to mend.
            Ok(Err(why)) if why.code == 422 => return Err(failed(why)),
            Ok(Err(why)) => tracing::warn!(%why, "the console's users cannot be read yet"),
            Err(_) => tracing::warn!("the console's users cannot be read yet: the API does not answer"),
        }
        let seats = Seats::new(OPEN, OPEN_EACH);
        let desk = Desk {
            sessions: sessions.clone(),
            gatekeeper: gatekeeper.clone(),
            limits: self.options.limits.clone(),
            sealed: self.options.is_sealed(),
        };
        let hub = Hub { controllers: self.controllers.clone(), gatekeeper: gatekeeper.clone() };
        let audit =
            Audit { file: self.audit.clone(), gatekeeper: gatekeeper.clone(), limits: self.options.limits.clone() };
        let mut rooms: Vec<Arc<dyn Room>> = vec![Arc::new(desk), Arc::new(hub), Arc::new(audit), apiext.clone()];
        if let Some(fleet) = &self.fleet {
            let namespace = self.policy.namespace.clone();
            rooms.push(Members::new(Parts {
                fleet: fleet.clone(),
                gatekeeper: gatekeeper.clone(),
                apiext: apiext.clone(),
                actions: self.actions.clone(),
                limits: self.options.limits.clone(),
                seats: seats.clone(),
                cleanups: Cleanups::new(self.upstream.own().clone(), &namespace),
                trail: self.trail.clone(),
                namespace,
            }));
        }
        rooms.push(Arc::new(Stream::new(rooms.clone(), gatekeeper.clone())));
        Ok(Console { sessions, rooms, seats })
    }
}

/// A bound face, ready to run.
pub struct Listening {
    bound: Bound,
    site: Arc<Site>,
}

impl Listening {
    pub fn address(&self) -> SocketAddr {
        self.bound.address()
    }

    /// The console's address with the one-time token by which the first administrator is made; none when there is a user.
    /// It is a secret: for the operator's eyes only.
    pub fn setup_link(&self) -> Option<String> {
        let path = self.site.console()?.sessions.setup_path()?;
        Some(format!("{}{path}", self.url()))
    }

    /// Where a browser on this machine finds it.
    pub fn url(&self) -> String {
        let scheme = if self.bound.is_tls() { "https" } else { "http" };
        format!("{scheme}://{}", self.address())
    }

    /// Serves until `shutdown`: no new connections, requests under way finish, and what is left at the deadline is cut.
    pub async fn run(self, shutdown: CancellationToken) {
        self.bound.run(self.site, shutdown).await;
    }
}

/// APIExt alone: binds the address and reads the certificates; nothing is served yet.
pub async fn bind(options: Options, upstream: Upstream, actions: Actions) -> Result<Listening, ServeError> {
    Face::new(options, upstream).actions(actions).bind().await
}

/// APIExt alone: serves until `shutdown`, then lets requests finish.
pub async fn serve(
    options: Options,
    upstream: Upstream,
    actions: Actions,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    bind(options, upstream, actions).await?.run(shutdown).await;
    Ok(())
}
