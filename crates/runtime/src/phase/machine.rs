//! The machine itself: looks at the status, runs what is due, records where that led. No I/O of its own.

use std::{borrow::Cow, collections::HashMap, future::Future, sync::Arc, time::Duration};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    Builder, Controls, Graph, Journal, JournalError, Loaded, Phase, PhaseKind, PhaseStatus, Plan, Problem,
    graph::Reason,
    journal::{Cause, Ledger, Stop},
    model::named,
    plan::{Run, Verdict},
    status::{seconds_from, until},
};
use crate::{Clock, Failure, Next};

/// The times of a machine.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The pause after the first vain attempt; doubled after each further one.
    pub backoff: Duration,
    /// The longest pause between attempts.
    pub backoff_limit: Duration,
    /// How often a running handler's object is looked at for a cancel or a pause.
    pub poll: Duration,
    /// How long a handler that was told to stop may take before it is dropped.
    pub grace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { backoff: seconds(1), backoff_limit: seconds(300), poll: seconds(5), grace: seconds(10) }
    }
}

/// What happened to an object, for its Events and the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A phase was entered.
    Entered {
        /// From where; `None` at the very beginning.
        from: Option<&'static str>,
        /// The phase.
        to: &'static str,
        /// The part it plays.
        kind: PhaseKind,
        /// Why.
        why: Problem,
    },
    /// The work stands still because the user wants so.
    Paused(&'static str),
    /// The work goes on.
    Resumed(&'static str),
    /// An attempt was in vain.
    Retrying {
        /// In this phase.
        phase: &'static str,
        /// How many in a row.
        attempts: u32,
        /// Why.
        why: Problem,
    },
    /// The status cannot be understood; nothing is done until somebody mends it.
    Unreadable(Problem),
}

/// Is told of every change after it has been saved. A crash in between can swallow a telling; the history in the status has it.
pub trait Observer: Send + Sync {
    /// Tells.
    fn changed(&self, change: &Change) -> impl Future<Output = ()> + Send;
}

/// Tells nobody.
impl Observer for () {
    async fn changed(&self, _: &Change) {}
}

/// Phases, tables and handlers that fit together. `P` is the enum of phases, `E` what the handlers work with.
pub struct Machine<P, E> {
    pub(super) kind: &'static str,
    pub(super) initial: P,
    /// Several targets only where a handler may force one.
    pub(super) next: HashMap<(P, Reason), Vec<P>>,
    pub(super) handlers: HashMap<P, Plan<P, E>>,
    pub(super) deadlines: HashMap<P, Duration>,
    pub(super) settings: Settings,
    pub(super) graph: Graph,
}

pub(super) const SUCCEEDED: &str = "Succeeded";
pub(super) const PAUSED: &str = "Paused";
pub(super) const STALLED: &str = "Stalled";
const UNREADABLE: &str = "StatusUnreadable";

/// How many transitions one run makes before others get their turn.
const TRANSITIONS: usize = 64;

/// Whether the run goes on or ends, and with what.
pub(super) enum Flow {
    On,
    End(Next),
}

impl<P: Phase, E: Send + Sync + 'static> Machine<P, E> {
    /// Begins the tables of a kind's machine.
    pub fn builder(kind: &'static str) -> Builder<P, E> {
        Builder::new(kind)
    }

    /// The kind it was built for.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The machine as a picture.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Whether nothing will ever happen to an object with this status: then nothing needs to be read either.
    pub fn is_over(&self, status: &PhaseStatus, controls: &Controls) -> bool {
        let ends = |phase: P| match phase.kind() {
            PhaseKind::Succeeded => true,
            PhaseKind::Failed => controls.retry_of(status).is_none(),
            PhaseKind::Initial | PhaseKind::Normal => false,
        };
        status.unreadable.is_none() && status.phase.as_deref().and_then(named::<P>).is_some_and(ends)
    }

    /// Brings one object as far as it can come now. `loaded` is what the journal says, `env` was made from the same object.
    /// `halt` lets the work save where it stands and end, to be gone on with by the next program.
    pub async fn run<J: Journal>(
        &self,
        env: &E,
        loaded: Loaded,
        journal: &mut J,
        observer: &impl Observer,
        clock: &Arc<dyn Clock>,
        halt: &CancellationToken,
    ) -> Result<Next, Failure> {
        let ledger = Ledger::new(journal, loaded);
        match self.advance(env, ledger, observer, clock.as_ref(), halt).await {
            Ok(next) => Ok(next),
            Err(Stuck::Journal(JournalError::Gone)) => Ok(Next::Wait),
            Err(Stuck::Journal(error)) => Err(Failure::Retry(Box::new(error))),
            Err(Stuck::Retry(problem)) => Err(Failure::Retry(Box::new(problem))),
        }
    }

    async fn advance<J: Journal>(
        &self,
        env: &E,
        mut ledger: Ledger<'_, J>,
        observer: &impl Observer,
        clock: &dyn Clock,
        halt: &CancellationToken,
    ) -> Result<Next, Stuck> {
        let generation = ledger.controls.generation;
        for _ in 0..TRANSITIONS {
            // A spec that changed needs an env made from it.
            if ledger.controls.generation != generation || halt.is_cancelled() {
                return Ok(Next::Again);
            }
            let flow = match self.read(&ledger.status) {
                Err(problem) => self.mark_unreadable(&mut ledger, problem, observer, clock).await?,
                Ok(_) if ledger.controls.deleted => Flow::End(Next::Wait),
                Ok(None) => {
                    let why = Problem::new("Created", "");
                    self.enter(&mut ledger, None, self.initial, why, observer, clock).await?
                }
                Ok(Some(_)) if self.is_over(&ledger.status, &ledger.controls) => Flow::End(Next::Wait),
                Ok(Some(failed)) if failed.kind().is_terminal() => {
                    let why = Problem::new("Retried", "");
                    self.enter(&mut ledger, Some(failed), self.initial, why, observer, clock).await?
                }
                Ok(Some(phase)) => match self.hold(&mut ledger, phase, observer, clock).await? {
                    Some(flow) => flow,
                    None => {
                        let (verdict, cause);
                        (ledger, verdict, cause) = self.work(env, ledger, phase, clock, halt).await;
                        self.conclude(&mut ledger, phase, verdict, cause, observer, clock).await?
                    }
                },
            };
            if let Flow::End(next) = flow {
                return Ok(next);
            }
        }
        Ok(Next::Again)
    }

    /// The phase the status names; `None` for a new object.
    fn read(&self, status: &PhaseStatus) -> Result<Option<P>, Problem> {
        let unreadable = |why: &str| Problem::new(UNREADABLE, why);
        if let Some(why) = &status.unreadable {
            return Err(unreadable(&format!(
                "the status of this {} cannot be read ({why}); mend or remove it, the work then goes on from there",
                self.kind
            )));
        }
        let Some(name) = &status.phase else { return Ok(None) };
        named(name).map(Some).ok_or_else(|| {
            let known: Vec<_> = P::all().iter().map(|phase| phase.name()).collect();
            unreadable(&format!(
                "status.phase is {name:?}, which no {} has; it is one of {}",
                self.kind,
                known.join(", ")
            ))
        })
    }

    /// Says once that the status cannot be read, and touches nothing else of it.
    async fn mark_unreadable<J: Journal>(
        &self,
        ledger: &mut Ledger<'_, J>,
        problem: Problem,
        observer: &impl Observer,
        clock: &dyn Clock,
    ) -> Result<Flow, Stuck> {
        if !ledger.status.has_condition(STALLED, "True", &problem.reason) {
            let now = clock.now();
            ledger
                .commit(|status| status.set_condition(now, STALLED, "True", &problem.reason, &problem.message))
                .await?;
            observer.changed(&Change::Unreadable(problem)).await;
        }
        Ok(Flow::End(Next::Wait))
    }

    /// What comes before the work: cancel, deadline, pause, and the pause between attempts.
    async fn hold<J: Journal>(
        &self,
        ledger: &mut Ledger<'_, J>,
        phase: P,
        observer: &impl Observer,
        clock: &dyn Clock,
    ) -> Result<Option<Flow>, Stuck> {
        let now = clock.now();
        if ledger.status.conditions.iter().any(|condition| condition.type_ == STALLED) {
            ledger.commit(|status| status.clear_condition(STALLED)).await?; // somebody mended it
        }
        if let Some(cause) = self.heeded(phase, &ledger.controls) {
            return match cause {
                Cause::Paused => self.pause(ledger, phase, observer, clock).await.map(Some),
                cause => self.leave(ledger, phase, &cause, observer, clock).await.map(Some),
            };
        }
        if let Some(since) = ledger.status.paused_since.clone() {
            let lost = Duration::try_from(now.duration_since(since.0)).unwrap_or_default();
            ledger
                .commit(|status| {
                    status.paused_since = None;
                    status.deadline = status.deadline.take().map(|at| seconds_from(at.0, lost));
                    status.clear_condition(PAUSED);
                })
                .await?;
            observer.changed(&Change::Resumed(phase.name())).await;
            return Ok(Some(Flow::On)); // looked at anew, with what the user asks for by now
        }
        if ledger.status.deadline.as_ref().is_some_and(|at| at.0 <= now) {
            return self.leave(ledger, phase, &Cause::Deadline, observer, clock).await.map(Some);
        }
        if let (Some(asked), true) = (ledger.controls.retry_of(&ledger.status), ledger.status.next_attempt_at.is_some())
        {
            ledger
                .commit(|status| {
                    status.next_attempt_at = None;
                    status.retried_at = Some(asked);
                })
                .await?;
        }
        let same_spec = ledger.status.observed_generation.is_none_or(|seen| seen == ledger.controls.generation);
        if let Some(at) = ledger.status.next_attempt_at.clone().filter(|at| same_spec && at.0 > now) {
            return Ok(Some(Flow::End(ledger.status.next(now, until(now, &at)))));
        }
        Ok(None)
    }

    /// Which wish of the user counts in this phase.
    fn heeded(&self, phase: P, controls: &Controls) -> Option<Cause> {
        if controls.deleted {
            Some(Cause::Deleted)
        } else if controls.cancelled && self.next.contains_key(&(phase, Reason::Cancel)) {
            Some(Cause::Cancelled)
        } else if controls.paused && phase.pausable() {
            Some(Cause::Paused)
        } else {
            None
        }
    }

    /// Runs the handlers of a phase beside the one writer of the journal.
    async fn work<'j, J: Journal>(
        &self,
        env: &E,
        ledger: Ledger<'j, J>,
        phase: P,
        clock: &dyn Clock,
        halt: &CancellationToken,
    ) -> (Ledger<'j, J>, Verdict<P>, Option<Cause>) {
        let Some(plan) = self.handlers.get(&phase) else {
            // A built machine has a handler for every phase that is not terminal.
            return (ledger, Verdict::Fatal(Problem::new("NoHandler", "the phase has no handler")), None);
        };
        let status = ledger.status.clone();
        let limit = status.deadline.as_ref().map(|at| until(clock.now(), at));
        let stop = Stop::default();
        let (entries, served) = mpsc::channel(64);
        let run = Run { env, status: &status, clock, grace: self.settings.grace };
        let heed = |controls: &Controls| self.heeded(phase, controls);
        let serve = ledger.serve(served, &stop, heed, clock, self.settings.poll);
        let work = async {
            let mut work = plan.run(&run, vec![Cow::Borrowed(phase.name())], entries, stop.token.clone());
            let deadline = async {
                match limit {
                    Some(limit) => clock.sleep(limit).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                verdict = &mut work => return verdict,
                () = stop.token.cancelled() => {}
                () = halt.cancelled() => stop.because(Cause::Halted),
                () = deadline => stop.because(Cause::Deadline),
            }
            // Told to stop: whoever does not in time is dropped, which is like a crash to it.
            tokio::select! {
                biased;
                verdict = &mut work => verdict,
                () = clock.sleep(self.settings.grace) => Verdict::Stopped,
            }
        };
        let (ledger, verdict) = futures_util::join!(serve, work);
        (ledger, verdict, stop.cause().cloned())
    }

    /// Where the outcome of the work leads.
    async fn conclude<J: Journal>(
        &self,
        ledger: &mut Ledger<'_, J>,
        phase: P,
        verdict: Verdict<P>,
        cause: Option<Cause>,
        observer: &impl Observer,
        clock: &dyn Clock,
    ) -> Result<Flow, Stuck> {
        if let Some(Cause::Journal(error)) = cause {
            return Err(error.into());
        }
        match (verdict, cause) {
            (Verdict::Done, _) => {
                let to = self.target(phase, Reason::Success)?;
                let why = Problem::new("Done", "");
                self.enter(ledger, Some(phase), to, why, observer, clock).await
            }
            (Verdict::Goto(to), _) => {
                if self.next.get(&(phase, Reason::Forced)).is_some_and(|allowed| allowed.contains(&to)) {
                    let why = Problem::new("Forced", "");
                    return self.enter(ledger, Some(phase), to, why, observer, clock).await;
                }
                let why =
                    format!("the handler of {} forced {}, which its machine does not allow", phase.name(), to.name());
                self.fail(ledger, phase, Problem::new("ForbiddenTransition", why), observer, clock).await
            }
            (Verdict::Fatal(problem), _) => self.fail(ledger, phase, problem, observer, clock).await,
            // It did not end by itself: what it was stopped for decides.
            (_, Some(Cause::Paused)) => self.pause(ledger, phase, observer, clock).await,
            (_, Some(cause)) => self.leave(ledger, phase, &cause, observer, clock).await,
            (Verdict::Later { after, gated }, None) => {
                let (now, generation) = (clock.now(), ledger.controls.generation);
                ledger
                    .commit(|status| {
                        status.attempts = 0;
                        status.next_attempt_at = gated.then(|| seconds_from(now, after));
                        status.observed_generation = Some(generation);
                    })
                    .await?;
                Ok(Flow::End(ledger.status.next(now, after)))
            }
            (Verdict::Retry(problem), None) => self.retry(ledger, phase, problem, observer, clock).await,
            (Verdict::Stopped, None) => {
                let problem = Problem::new("Stopped", "the handler stopped although nobody asked it to");
                self.retry(ledger, phase, problem, observer, clock).await
            }
        }
    }
}

/// Why a run cannot go on now.
pub(super) enum Stuck {
    Journal(JournalError),
    Retry(Problem),
}

impl From<JournalError> for Stuck {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}
