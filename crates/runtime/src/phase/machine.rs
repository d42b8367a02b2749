//! The machine itself: looks at the status, runs what is due, records where that led. No I/O of its own.

use std::{borrow::Cow, collections::HashMap, future::Future, sync::Arc, time::Duration};

use tokio::sync::mpsc;

use super::{
    Builder, Controls, Graph, Journal, JournalError, Loaded, Phase, PhaseKind, PhaseStatus, Plan, Problem, StepState,
    Visit,
    graph::Reason,
    journal::{Cause, Ledger, Stop},
    model::named,
    plan::{Run, Verdict},
    status::{seconds_from, until, whole_seconds},
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

const SUCCEEDED: &str = "Succeeded";
const PAUSED: &str = "Paused";
pub(super) const STALLED: &str = "Stalled";
const UNREADABLE: &str = "StatusUnreadable";

/// How many transitions one run makes before others get their turn.
const TRANSITIONS: usize = 64;

/// Whether the run goes on or ends, and with what.
enum Flow {
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
    pub fn is_over(&self, status: &PhaseStatus) -> bool {
        let phase = status.phase.as_deref().and_then(named::<P>);
        status.unreadable.is_none() && phase.is_some_and(|phase| phase.kind().is_terminal())
    }

    /// Brings one object as far as it can come now. `loaded` is what the journal says, `env` was made from the same object.
    pub async fn run<J: Journal>(
        &self,
        env: &E,
        loaded: Loaded,
        journal: &mut J,
        observer: &impl Observer,
        clock: &Arc<dyn Clock>,
    ) -> Result<Next, Failure> {
        let ledger = Ledger::new(journal, loaded);
        match self.advance(env, ledger, observer, clock.as_ref()).await {
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
    ) -> Result<Next, Stuck> {
        let generation = ledger.controls.generation;
        for _ in 0..TRANSITIONS {
            // A spec that changed needs an env made from it.
            if ledger.controls.generation != generation {
                return Ok(Next::Again);
            }
            let flow = match self.read(&ledger.status) {
                Err(problem) => self.mark_unreadable(&mut ledger, problem, observer, clock).await?,
                Ok(_) if ledger.controls.deleted => Flow::End(Next::Wait),
                Ok(None) => {
                    let why = Problem::new("Created", "");
                    self.enter(&mut ledger, None, self.initial, why, observer, clock).await?
                }
                Ok(Some(phase)) if phase.kind().is_terminal() => Flow::End(Next::Wait),
                Ok(Some(phase)) => match self.hold(&mut ledger, phase, observer, clock).await? {
                    Some(flow) => flow,
                    None => {
                        let (verdict, cause);
                        (ledger, verdict, cause) = self.work(env, ledger, phase, clock).await;
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
            tracing::error!(kind = self.kind, "{problem}");
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
        let same_spec = ledger.status.observed_generation.is_none_or(|seen| seen == ledger.controls.generation);
        if let Some(at) = ledger.status.next_attempt_at.clone().filter(|at| same_spec && at.0 > now) {
            let soonest = ledger.status.deadline.iter().fold(until(now, &at), |wait, end| wait.min(until(now, end)));
            return Ok(Some(Flow::End(Next::After(soonest))));
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
                let after = ledger.status.deadline.iter().fold(after, |wait, end| wait.min(until(now, end)));
                Ok(Flow::End(Next::After(after)))
            }
            (Verdict::Retry(problem), None) => self.retry(ledger, phase, problem, observer, clock).await,
            (Verdict::Stopped, None) => {
                let problem = Problem::new("Stopped", "the handler stopped although nobody asked it to");
                self.retry(ledger, phase, problem, observer, clock).await
            }
        }
    }

    async fn retry<J: Journal>(
        &self,
        ledger: &mut Ledger<'_, J>,
        phase: P,
        why: Problem,
        observer: &impl Observer,
        clock: &dyn Clock,
    ) -> Result<Flow, Stuck> {
        let attempts = ledger.status.attempts.saturating_add(1);
        let pause = self.settings.backoff.saturating_mul(1 << (attempts - 1).min(20)).min(self.settings.backoff_limit);
        let (now, generation) = (clock.now(), ledger.controls.generation);
        ledger
            .commit(|status| {
                status.attempts = attempts;
                status.observed_generation = Some(generation);
                status.next_attempt_at = Some(seconds_from(now, pause));
                status.message = Some(why.message.clone());
            })
            .await?;
        observer.changed(&Change::Retrying { phase: phase.name(), attempts, why: why.clone() }).await;
        // The first failure in a row is one of the reconciler; the further attempts are planned.
        if attempts == 1 { Err(Stuck::Retry(why)) } else { Ok(Flow::End(Next::After(pause))) }
    }

    async fn pause<J: Journal>(
        &self,
        ledger: &mut Ledger<'_, J>,
        phase: P,
        observer: &impl Observer,
        clock: &dyn Clock,
    ) -> Result<Flow, Stuck> {
        if ledger.status.paused_since.is_none() {
            let now = clock.now();
            ledger
                .commit(|status| {
                    status.paused_since = Some(whole_seconds(now));
                    let message = format!("paused in {}", phase.name());
                    status.set_condition(now, PAUSED, "True", "Requested", &message);
                })
                .await?;
            observer.changed(&Change::Paused(phase.name())).await;
            // The pause may have been taken back while it was written.
            return Ok(Flow::On);
        }
        Ok(Flow::End(Next::Wait))
    }

    /// Leaves a phase for a reason that is not its handler's.
    async fn leave<J: Journal>(
        &self,
        ledger: &mut Ledger<'_, J>,
        phase: P,
        cause: &Cause,
        observer: &impl Observer,
        clock: &dyn Clock,
    ) -> Result<Flow, Stuck> {
        match cause {
            Cause::Cancelled => {
                let to = self.target(phase, Reason::Cancel)?;
                let why = Problem::new("Cancelled", format!("cancelled in {}", phase.name()));
                self.enter(ledger, Some(phase), to, why, observer, clock).await
            }
            Cause::Deadline => {
                let limit = self.deadlines.get(&phase).copied().unwrap_or_default();
                let said = ledger.status.message.iter().fold(String::new(), |_, last| format!("; last: {last}"));
                let why = format!("{} was not over within {limit:?}{said}", phase.name());
                self.fail(ledger, phase, Problem::new("DeadlineExceeded", why), observer, clock).await
            }
            Cause::Deleted | Cause::Paused => Ok(Flow::End(Next::Wait)),
            Cause::Journal(error) => Err(error.clone().into()),
        }
    }

    async fn fail<J: Journal>(
        &self,
        ledger: &mut Ledger<'_, J>,
        phase: P,
        why: Problem,
        observer: &impl Observer,
        clock: &dyn Clock,
    ) -> Result<Flow, Stuck> {
        let to = self.target(phase, Reason::Failure)?;
        self.enter(ledger, Some(phase), to, why, observer, clock).await
    }

    fn target(&self, phase: P, reason: Reason) -> Result<P, Stuck> {
        let target = self.next.get(&(phase, reason)).and_then(|targets| targets.first()).copied();
        target.ok_or_else(|| Stuck::Retry(Problem::new("NoTransition", format!("{} leads nowhere", phase.name()))))
    }

    /// One write: the old phase is over, the new one has begun with a clean state.
    async fn enter<J: Journal>(
        &self,
        ledger: &mut Ledger<'_, J>,
        from: Option<P>,
        to: P,
        why: Problem,
        observer: &impl Observer,
        clock: &dyn Clock,
    ) -> Result<Flow, Stuck> {
        let now = clock.now();
        let generation = ledger.controls.generation;
        let limit = self.deadlines.get(&to).copied();
        let change = |status: &mut PhaseStatus| {
            let left = from.and_then(|from| status.state.get_mut(from.name()));
            if let Some(left) = left.filter(|_| why.reason == "Done") {
                left.done = true;
                left.finished_at = Some(whole_seconds(now));
            }
            if !to.kind().is_terminal() {
                let begun = StepState { started_at: Some(whole_seconds(now)), ..StepState::default() };
                status.state.insert(to.name().to_owned(), begun);
            }
            status.phase = Some(to.name().to_owned());
            let message = Some(&why.message).filter(|message| !message.is_empty()).cloned();
            if message.is_some() || !to.kind().is_terminal() {
                status.message.clone_from(&message);
            }
            status.observed_generation = Some(generation);
            status.phase_started_at = Some(whole_seconds(now));
            status.deadline = limit.map(|limit| seconds_from(now, limit));
            status.paused_since = None;
            status.attempts = 0;
            status.next_attempt_at = None;
            status.clear_condition(PAUSED);
            status.clear_condition(STALLED);
            let (succeeded, reason) = match to.kind() {
                PhaseKind::Succeeded => ("True", why.reason.as_str()),
                PhaseKind::Failed => ("False", why.reason.as_str()),
                PhaseKind::Initial | PhaseKind::Normal => ("Unknown", "InProgress"),
            };
            let sentence = message.clone().unwrap_or_else(|| format!("in phase {}", to.name()));
            status.set_condition(now, SUCCEEDED, succeeded, reason, &sentence);
            let reason = why.reason.clone();
            status.record(Visit { phase: to.name().to_owned(), at: whole_seconds(now), reason, message });
        };
        ledger.commit(change).await?;
        let change = Change::Entered { from: from.map(P::name), to: to.name(), kind: to.kind(), why };
        observer.changed(&change).await;
        Ok(Flow::On)
    }
}

/// Why a run cannot go on now.
enum Stuck {
    Journal(JournalError),
    Retry(Problem),
}

impl From<JournalError> for Stuck {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}
