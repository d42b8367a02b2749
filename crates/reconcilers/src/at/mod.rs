//! The worked example of a plain reconciler: runs a command at its time, once, even across restarts (KC-7).
//!
//! Before a command begins, a claim is written into the status, guarded by the resourceVersion. As a process it therefore runs at
//! most once: a crash between the claim and the result is reported as Interrupted and the command is not run again. As a Pod it
//! runs exactly once: the Pod's name follows from the `At`, and making it a second time is refused by the API.

mod pod;
mod process;
mod types;
mod words;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use runtime::{Context, Failure, Next, Reconciler};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::OnceCell;

pub use types::{At, AtPhase, AtSpec, AtStatus, Outcome, Runner};

use pod::Seen;
use process::Ended;

/// A wall clock may be set; nobody sleeps longer than this without looking at it.
const LONGEST_NAP: Duration = Duration::from_secs(600);
/// How often a running Pod is looked at when nothing is heard of it.
const LOOK: Duration = Duration::from_secs(30);

/// The section of the configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Options {
    /// `auto`: a process on our own API server, a Pod elsewhere.
    pub runner: Choice,
    /// Whether commands of users may run as processes of this machine, with this program's rights.
    pub allow_process: bool,
    /// The image of Pods whose `At` names none.
    pub image: String,
}

impl Default for Options {
    fn default() -> Self {
        Self { runner: Choice::Auto, allow_process: false, image: "busybox:stable".to_owned() }
    }
}

/// How commands are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    /// As fits the API server.
    Auto,
    /// As processes of this machine.
    Process,
    /// As Pods.
    Pod,
}

/// The reconciler.
pub struct Ats {
    options: Options,
    runner: OnceCell<Runner>,
    /// Makes the claims of this process different from those of any other.
    identity: String,
    claims: AtomicU64,
    /// What became of the claims of this process that are not settled yet.
    mine: Mutex<HashMap<String, Mine>>,
}

enum Mine {
    /// Perhaps written, certainly not begun.
    Claimed,
    /// Begun; if nobody waits for it any more it was cut off.
    Begun,
    /// Over, but not written yet.
    Ended(Ended),
}

impl Ats {
    /// With what the configuration says.
    pub fn new(options: Options) -> Self {
        let identity = format!("{}-{}", std::process::id(), Timestamp::now().as_nanosecond());
        let (claims, mine) = (AtomicU64::new(0), Mutex::default());
        Self { options, runner: OnceCell::new(), identity, claims, mine }
    }

    async fn runner(&self, client: &Client) -> Result<Runner, Failure> {
        let find = || async {
            Ok(match self.options.runner {
                Choice::Process => Runner::Process,
                Choice::Pod => Runner::Pod,
                Choice::Auto if client.apiserver_version().await?.git_version.contains("muster") => Runner::Process,
                Choice::Auto => Runner::Pod,
            })
        };
        self.runner.get_or_try_init(find).await.copied()
    }

    fn settle(&self, claim: &str, state: Option<Mine>) -> Option<Mine> {
        let mut mine = self.mine.lock().unwrap_or_else(PoisonError::into_inner);
        match state {
            Some(state) => mine.insert(claim.to_owned(), state),
            None => mine.remove(claim),
        }
    }
}

impl Reconciler for Ats {
    type Object = At;

    async fn reconcile(&self, at: Arc<At>, context: &Context) -> Result<Next, Failure> {
        if at.metadata.deletion_timestamp.is_some() || phase(&at) == AtPhase::Done {
            return Ok(Next::Wait);
        }
        if phase(&at) == AtPhase::Pending {
            let due = match at.spec.schedule.parse::<Timestamp>() {
                Ok(due) => due,
                Err(why) => return self.mistaken(&at, context, format!("spec.schedule is not RFC 3339: {why}")).await,
            };
            if let Err(why) = words::words(&at.spec.command) {
                return self.mistaken(&at, context, format!("spec.command: {why}")).await;
            }
            let wait = Duration::try_from(due.duration_since(context.clock.now())).unwrap_or_default();
            if !wait.is_zero() {
                return self.wait(&at, context, due, wait).await;
            }
        }
        // From here on it matters what really is, not what the cache remembers.
        let Some(now) = api(context, &at).get_opt(&at.name_any()).await? else { return Ok(Next::Wait) };
        if now.uid() != at.uid() || now.spec != at.spec {
            return Ok(Next::After(Duration::from_secs(1))); // the cache will tell sooner
        }
        match phase(&now) {
            AtPhase::Pending => self.claim(&now, context).await,
            AtPhase::Running => self.go_on(&now, context).await,
            AtPhase::Done => Ok(Next::Wait),
        }
    }
}

impl Ats {
    /// Its time has not come; says once when it will.
    async fn wait(&self, at: &At, context: &Context, due: Timestamp, wait: Duration) -> Result<Next, Failure> {
        let message = format!("runs at {due}");
        if at.status.as_ref().is_none_or(|status| status.message.as_deref() != Some(&message)) {
            patch(context, at, json!({"phase": AtPhase::Pending, "message": message}), true).await?;
        }
        Ok(Next::After(wait.min(LONGEST_NAP)))
    }

    /// Writes who will run it, then runs it.
    async fn claim(&self, at: &At, context: &Context) -> Result<Next, Failure> {
        let runner = self.runner(&context.client).await?;
        if runner == Runner::Process && !self.options.allow_process {
            let message =
                "this server may not run commands as processes; set allowProcess: true for the reconciler at in its \
                           configuration, or runner: pod"
                    .to_owned();
            return self.mistaken(at, context, message).await;
        }
        let claim = format!("{}-{}", self.identity, self.claims.fetch_add(1, Ordering::Relaxed));
        let pod = (runner == Runner::Pod).then(|| pod::name(at));
        self.settle(&claim, Some(Mine::Claimed));
        let status = AtStatus {
            phase: AtPhase::Running,
            runner: Some(runner),
            claim: Some(claim.clone()),
            pod,
            started_at: Some(Time(context.clock.now())),
            ..AtStatus::default()
        };
        let mut change = serde_json::to_value(&status).map_err(Failure::fatal)?;
        change["message"] = serde_json::Value::Null;
        match patch(context, at, change, true).await {
            Ok(claimed) => {
                context.events.normal(&claimed, "Started", "Run", "its time has come");
                self.go_on(&claimed, context).await
            }
            Err(error) => {
                // A refusal is certain; a lost answer is not, and then the claim may yet turn up as ours.
                if matches!(&error, kube::Error::Api(_)) {
                    self.settle(&claim, None);
                }
                Err(error.into())
            }
        }
    }

    /// It was claimed: by us just now, by us before, or by somebody who is no more.
    async fn go_on(&self, at: &At, context: &Context) -> Result<Next, Failure> {
        let status = at.status.clone().unwrap_or_default();
        // It was a command when it was claimed; an edit since then that made it none is no reason to lose sight of what runs.
        let words = words::words(&at.spec.command).unwrap_or_default();
        if status.runner == Some(Runner::Pod) {
            return self.follow_pod(at, &status, context, &words).await;
        }
        let claim = status.claim.unwrap_or_default();
        let ended = match self.settle(&claim, Some(Mine::Begun)) {
            Some(Mine::Claimed) => {
                let (name, namespace) = (at.name_any(), at.namespace().unwrap_or_default());
                let env = [("AT_NAME", name.as_str()), ("AT_NAMESPACE", namespace.as_str())];
                process::run(&words, &env, Duration::from_secs(at.spec.timeout_seconds.into())).await
            }
            Some(Mine::Ended(ended)) => ended,
            Some(Mine::Begun) => {
                interrupted("the command was cut off and killed when this reconciler was stopped or its time was up")
            }
            None => interrupted(
                "whoever ran the command stopped before writing its result: the command was begun or about to begin, may have run \
                 in part, and is not run again",
            ),
        };
        self.settle(&claim, Some(Mine::Ended(ended.clone())));
        self.done(at, context, ended).await?;
        self.settle(&claim, None);
        Ok(Next::Wait)
    }

    async fn follow_pod(
        &self,
        at: &At,
        status: &AtStatus,
        context: &Context,
        words: &[String],
    ) -> Result<Next, Failure> {
        let image = at.spec.image.as_deref().unwrap_or(&self.options.image);
        let claim = status.claim.as_deref().unwrap_or_default();
        self.settle(claim, None);
        let seen = match pod::look(&context.client, at, image, words, status.pod_uid.as_deref()).await {
            Err(kube::Error::Api(refused)) if matches!(refused.code, 400 | 403 | 422) && status.pod_uid.is_none() => {
                Seen::Over(Ended::failed(format!("the Pod was refused: {}", refused.message)))
            }
            other => other?,
        };
        match seen {
            Seen::Running(uid) if status.pod_uid.as_deref() != Some(uid.as_str()) => {
                patch(context, at, json!({"podUid": uid}), true).await?;
                Ok(Next::After(LOOK))
            }
            Seen::Running(_) => Ok(Next::After(LOOK)),
            Seen::Over(ended) => self.done(at, context, ended).await.map(|()| Next::Wait),
            Seen::Vanished => {
                let ended = interrupted("its Pod was deleted before it ended; it is not run again");
                self.done(at, context, ended).await.map(|()| Next::Wait)
            }
        }
    }

    async fn done(&self, at: &At, context: &Context, ended: Ended) -> Result<(), Failure> {
        let change = json!({
            "phase": AtPhase::Done,
            "outcome": ended.outcome,
            "exitCode": ended.exit_code,
            "message": ended.message,
            "output": ended.output,
            "finishedAt": Time(context.clock.now()),
        });
        // Without the resourceVersion: nobody else writes this, and the result must not be lost to an edit of a label.
        match patch(context, at, change, false).await {
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            other => other?,
        };
        match ended.outcome {
            Outcome::Succeeded => context.events.normal(at, "Succeeded", "Run", ended.message),
            outcome => context.events.warning(at, &format!("{outcome:?}"), "Run", ended.message),
        }
        Ok(())
    }

    /// The user has to change something first.
    async fn mistaken(&self, at: &At, context: &Context, message: String) -> Result<Next, Failure> {
        if at.status.as_ref().is_none_or(|status| status.message.as_deref() != Some(&message)) {
            patch(context, at, json!({"phase": AtPhase::Pending, "message": message}), true).await?;
            context.events.warning(at, "Mistaken", "Read", message.clone());
        }
        Err(Failure::fatal(message))
    }
}

fn phase(at: &At) -> AtPhase {
    at.status.as_ref().map(|status| status.phase).unwrap_or_default()
}

fn interrupted(message: &str) -> Ended {
    Ended { outcome: Outcome::Interrupted, exit_code: None, message: message.to_owned(), output: None }
}

fn api(context: &Context, at: &At) -> Api<At> {
    Api::namespaced(context.client.clone(), &at.namespace().unwrap_or_else(|| "default".to_owned()))
}

/// Changes the status of this very object; `guarded` only if it is as it was seen.
async fn patch(context: &Context, at: &At, status: serde_json::Value, guarded: bool) -> kube::Result<At> {
    let mut change = json!({"metadata": {"uid": at.uid()}, "status": status});
    if guarded {
        change["metadata"]["resourceVersion"] = json!(at.resource_version());
    }
    api(context, at).patch_status(&at.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await
}
