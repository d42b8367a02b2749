//! The member clusters as REST: applications, logs, terminals, any kind, zcloud, and what the console reads of the fleet.
//!
//! Lists come from the members' memories, through rows that are made once; what is done to a member is done in muster's name after
//! the caller's right to it was proved ([`reach`]).

mod apps;
mod changes;
mod channel;
mod cleanups;
mod clusters;
mod deeds;
mod exec;
mod files;
mod gather;
mod helm;
mod input;
mod kinds;
mod kubeconfig;
mod listing;
mod logs;
mod objects;
mod openapi;
mod quantity;
mod reach;
mod restart;
mod route;
mod routes;
mod table;
mod views;
mod zcloud;

use std::sync::{Arc, Weak};
use std::time::Duration;

use fleet::{ACCOUNT_NAMESPACE, Access, Cleanups, Fleet, account_manifest};
use futures_util::future::BoxFuture;
use http::Method;
use http::header::CONTENT_TYPE;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::access::Gatekeeper;
use crate::apiext::App;
use crate::apiext::actions::Actions;
use crate::caller::Caller;
use crate::options::Limits;
use crate::problem::Problem;
use crate::seats::Seats;
use crate::trail::{Doing, Trail};
use crate::visit::{Answered, Notices, Room, Text, Visit, bytes};
use crate::ws::Socket;
use reach::Reaching;
use route::{Op, Places};

/// How often what nobody asks for any more is looked for.
const SWEEP: Duration = Duration::from_secs(60);

/// The room of the members.
pub(crate) struct Members {
    reaching: Reaching,
    tables: table::Tables,
    catalogs: kinds::Catalogs,
    releases: helm::Releases,
    /// The meta API's own face, for the member that is called `meta`.
    apiext: Arc<App>,
    actions: Actions,
    limits: Limits,
    seats: Arc<Seats>,
    /// Where the Secrets of imported clusters go.
    namespace: String,
    cleanups: Cleanups,
    trail: Option<Arc<dyn Trail>>,
    sweeper: AbortHandle,
}

/// What the room is made of.
pub(crate) struct Parts {
    pub(crate) fleet: Fleet,
    pub(crate) gatekeeper: Arc<Gatekeeper>,
    pub(crate) apiext: Arc<App>,
    pub(crate) actions: Actions,
    pub(crate) limits: Limits,
    pub(crate) seats: Arc<Seats>,
    /// Where the Secrets of imported clusters go.
    pub(crate) namespace: String,
    /// What is still to be removed from members.
    pub(crate) cleanups: Cleanups,
    /// Where what is done to members is written down, if anywhere.
    pub(crate) trail: Option<Arc<dyn Trail>>,
}

impl Drop for Members {
    fn drop(&mut self) {
        self.sweeper.abort();
    }
}

impl Members {
    /// Must be called within a runtime.
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let Parts { fleet, gatekeeper, apiext, actions, limits, seats, namespace, cleanups, trail } = parts;
        Arc::new_cyclic(|members: &Weak<Self>| {
            let members = members.clone();
            let sweeper = tokio::spawn(async move {
                loop {
                    sleep(SWEEP).await;
                    let Some(members) = members.upgrade() else { return };
                    members.tables.sweep();
                    members.catalogs.sweep();
                }
            });
            Self {
                reaching: Reaching { gatekeeper, fleet },
                tables: table::Tables::default(),
                catalogs: kinds::Catalogs::default(),
                releases: helm::Releases::default(),
                apiext,
                actions,
                limits,
                seats,
                namespace,
                cleanups,
                trail,
                sweeper: sweeper.abort_handle(),
            }
        })
    }

    async fn handle(self: Arc<Self>, visit: Visit) -> Answered {
        let (route, places) = route::find(&visit.method, &visit.path)?;
        let caller = visit.caller.clone();
        let doing = self.doing(route.op, &places, &visit).await;
        let answered = self.answered(route.op, &caller, &places, visit, &doing).await;
        self.done(doing, &caller, deeds::outcome(&answered)).await;
        answered
    }

    async fn answered(&self, op: Op, caller: &Caller, places: &Places, mut visit: Visit, doing: &Doing) -> Answered {
        let query = std::mem::take(&mut visit.query);
        let media = visit.header(CONTENT_TYPE).unwrap_or_default().to_owned();
        let query = query.as_str();
        if visit.method == Method::GET {
            return self.read(op, caller, places, query, &visit, doing).await;
        }
        let body = visit.body(&self.limits).await?;
        match op {
            Op::AppRestart => self.restart(caller, places, query).await,
            Op::Exec => self.exec(caller, places, query, doing).await,
            Op::Apply => self.apply(caller, places, query, &media, body).await,
            Op::Delete => self.delete_object(caller, places, query).await,
            Op::Act => self.act(caller, places, &media, body).await,
            Op::ZcloudCollection => self.zcloud_import(caller, query, &media, body).await,
            Op::ZcloudAct => self.zcloud_act(caller, places, query).await,
            Op::ZcloudDelete => self.zcloud_delete(caller, places).await,
            Op::CleanupAbandon => self.abandon_cleanup(caller, places, &media, body).await,
            _ => Err(Problem::not_found("no such path")),
        }
    }

    async fn read(
        &self,
        op: Op,
        caller: &Caller,
        places: &Places,
        query: &str,
        visit: &Visit,
        doing: &Doing,
    ) -> Answered {
        match op {
            Op::Clusters => self.clusters(caller, places, query).await,
            Op::AppResources => self.app_resources(caller, places, query).await,
            Op::AppPods => self.app_pods(caller, places, query).await,
            Op::AppReleases => self.app_releases(caller, places, query).await,
            Op::AppEndpoints => self.app_endpoints(caller, places, query).await,
            Op::DeploymentStat => self.deployment_stat(caller, places, query).await,
            Op::PodEvents => self.pod_events(caller, places, query).await,
            Op::PodLogs => self.pod_logs(caller, places, query).await.map(logs::answer),
            Op::LogFiles => self.log_files(caller, query).await,
            Op::LogFile => self.log_file(caller, places, query).await.map(logs::answer),
            Op::Exec => {
                // A GET, as the seed has it, that does something.
                visit.intended()?;
                self.exec(caller, places, query, doing).await
            }
            Op::Kinds => self.kinds(caller, places, query).await,
            Op::List => self.list_kind(caller, places, query).await,
            Op::Get => self.get_object(caller, places, query).await,
            Op::ZcloudList => self.zcloud_list(caller, query).await,
            Op::ZcloudGet => self.zcloud_get(caller, places).await,
            Op::ZcloudInside => self.zcloud_inside(caller, places, query).await,
            Op::ZcloudInsideOne => self.zcloud_inside_one(caller, places).await,
            Op::Overview => self.overview(caller).await,
            Op::Events => self.events(caller, query).await,
            Op::Search => self.search(caller, query).await,
            Op::MemberRole => self.member_role(caller, query).await,
            Op::Cleanups => self.list_cleanups(caller, places, query).await,
            Op::OpenApi => {
                self.reaching.gatekeeper.recognise(caller).await?;
                Ok(bytes(200, "application/json", openapi::document()))
            }
            Op::Terminal => Err(Problem::new(426, "UpgradeRequired", "this path is a WebSocket")),
            Op::AppRestart | Op::Apply | Op::Delete | Op::Act => Err(Problem::not_found("no such path")),
            Op::ZcloudCollection | Op::ZcloudAct | Op::ZcloudDelete | Op::CleanupAbandon => {
                Err(Problem::not_found("no such path"))
            }
        }
    }

    /// The account a cluster needs for us.
    async fn member_role(&self, caller: &Caller, query: &str) -> Answered {
        self.reaching.gatekeeper.recognise(caller).await?;
        let parameters = listing::Parameters::only(query, &["access", "namespace"], &[])?;
        let access = match parameters.get("access") {
            None | Some("read") => Access::Read,
            Some("operate") => Access::Operate,
            Some(_) => return Err(Problem::bad_request("access is read or operate").with("parameter", "access")),
        };
        let namespace = parameters.get("namespace").unwrap_or(ACCOUNT_NAMESPACE);
        let manifest = account_manifest(access, namespace)
            .map_err(|refused| Problem::bad_request(refused.to_string()).with("parameter", refused.field))?;
        Ok(bytes(200, "application/yaml", manifest))
    }
}

impl Room for Members {
    fn owns(&self, path: &str) -> bool {
        route::owns(path)
    }

    fn answer(self: Arc<Self>, visit: Visit) -> BoxFuture<'static, Answered> {
        Box::pin(self.handle(visit))
    }

    fn converses(&self, path: &str) -> bool {
        matches!(route::find(&Method::GET, path), Ok((route, _)) if route.op == Op::Terminal)
    }

    fn converse(self: Arc<Self>, visit: Visit, socket: Socket) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            match route::find(&Method::GET, &visit.path) {
                Ok((_, places)) => {
                    let doing = self.doing(Op::Terminal, &places, &visit).await;
                    self.terminal(&visit.caller, &places, &visit.query, socket, doing).await
                }
                Err(problem) => socket.refuse(&problem).await,
            }
        })
    }

    fn follow(
        self: Arc<Self>,
        caller: Caller,
        path: String,
        query: String,
    ) -> BoxFuture<'static, Result<Notices, Problem>> {
        Box::pin(self.notices(caller, path, query))
    }

    fn text(self: Arc<Self>, caller: Caller, path: String, query: String) -> BoxFuture<'static, Result<Text, Problem>> {
        Box::pin(async move {
            let (route, places) = route::find(&Method::GET, &path)?;
            let doing = match route.op {
                Op::PodLogs | Op::LogFile => self.doing_text(route.op, &places, &caller, &path, &query).await,
                _ => return Err(Problem::not_found("there is no log at this path")),
            };
            let text = match route.op {
                Op::PodLogs => self.pod_logs(&caller, &places, &query).await,
                _ => self.log_file(&caller, &places, &query).await,
            };
            let outcome = text.as_ref().map(|_| (200, None)).map_err(Clone::clone);
            self.done(doing, &caller, outcome).await;
            text
        })
    }
}
