//! The moves of the machine: trying again, pausing, leaving a phase and entering the next, one write of the status each.

use super::{
    Change, Journal, Machine, Observer, Phase, PhaseKind, PhaseStatus, Problem, StepState, Visit,
    graph::Reason,
    journal::{Cause, Ledger},
    machine::{Flow, PAUSED, STALLED, SUCCEEDED, Stuck},
    status::{seconds_from, whole_seconds},
};
use crate::{Clock, Next};

impl<P: Phase, E: Send + Sync + 'static> Machine<P, E> {
    pub(super) async fn retry<J: Journal>(
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
        if attempts == 1 { Err(Stuck::Retry(why)) } else { Ok(Flow::End(ledger.status.next(now, pause))) }
    }

    pub(super) async fn pause<J: Journal>(
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
    pub(super) async fn leave<J: Journal>(
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
            Cause::Halted => Ok(Flow::End(Next::Again)),
            Cause::Journal(error) => Err(error.clone().into()),
        }
    }

    pub(super) async fn fail<J: Journal>(
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

    pub(super) fn target(&self, phase: P, reason: Reason) -> Result<P, Stuck> {
        let target = self.next.get(&(phase, reason)).and_then(|targets| targets.first()).copied();
        target.ok_or_else(|| Stuck::Retry(Problem::new("NoTransition", format!("{} leads nowhere", phase.name()))))
    }

    /// One write: the old phase is over, the new one has begun with a clean state.
    pub(super) async fn enter<J: Journal>(
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
        let controls = ledger.controls;
        let change = |status: &mut PhaseStatus| {
            // Entering a phase is a new try, whoever asked for one.
            status.retried_at = controls.retry_of(status).or(status.retried_at.take());
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
