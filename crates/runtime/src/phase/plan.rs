//! A phase's work as a tree of named handlers: one, several in series, or several in parallel.

use std::{borrow::Cow, future::Future, pin::Pin, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    Effect, Handler, Phase, PhaseStatus, Problem, Progress, Step, Trouble,
    handler::{AnyHandler, Once},
    progress::{Entry, Path},
    status::whole_seconds,
};
use crate::Clock;

/// The work of a phase.
pub struct Plan<P, E> {
    pub(super) shape: Shape<P, E>,
}

pub(super) enum Shape<P, E> {
    One(Arc<dyn AnyHandler<P, E>>),
    Series(Vec<(&'static str, Plan<P, E>)>),
    Parallel(Vec<(&'static str, Plan<P, E>)>),
}

impl<P: Phase, E: Send + Sync + 'static> Plan<P, E> {
    /// One handler.
    pub fn handler(handler: impl Handler<P, E>) -> Self {
        Self { shape: Shape::One(Arc::new(handler)) }
    }

    /// One side effect: check, act, verify.
    pub fn effect(effect: impl Effect<E>) -> Self {
        Self { shape: Shape::One(Arc::new(Once(effect))) }
    }

    /// Parts that follow each other; a part begins when the one before it is done.
    pub fn series() -> Self {
        Self { shape: Shape::Series(Vec::new()) }
    }

    /// Parts that run at once. A fatal failure or a forced phase lets the others stop: they are told, awaited, and in the end
    /// dropped. A part that is to be tried again does not stop the others.
    pub fn parallel() -> Self {
        Self { shape: Shape::Parallel(Vec::new()) }
    }

    /// Adds a named part to a series or to parallel work; a single handler becomes the first part of a series, named `main`.
    #[must_use]
    pub fn with(mut self, name: &'static str, part: Plan<P, E>) -> Self {
        self.shape = match self.shape {
            Shape::One(handler) => Shape::Series(vec![("main", Plan { shape: Shape::One(handler) }), (name, part)]),
            Shape::Series(mut parts) => {
                parts.push((name, part));
                Shape::Series(parts)
            }
            Shape::Parallel(mut parts) => {
                parts.push((name, part));
                Shape::Parallel(parts)
            }
        };
        self
    }

    pub(super) fn parts(&self) -> &[(&'static str, Plan<P, E>)] {
        match &self.shape {
            Shape::One(_) => &[],
            Shape::Series(parts) | Shape::Parallel(parts) => parts,
        }
    }
}

/// What running a plan came to.
#[derive(Debug, Clone)]
pub(super) enum Verdict<P> {
    Done,
    Later { after: Duration, gated: bool },
    Goto(P),
    Fatal(Problem),
    Retry(Problem),
    Stopped,
}

impl<P> From<Result<Step<P>, Trouble>> for Verdict<P> {
    fn from(outcome: Result<Step<P>, Trouble>) -> Self {
        match outcome {
            Ok(Step::Done) => Self::Done,
            Ok(Step::After(after)) => Self::Later { after, gated: true },
            Ok(Step::Wait(after)) => Self::Later { after, gated: false },
            Ok(Step::Goto(phase)) => Self::Goto(phase),
            Err(Trouble::Fatal(problem)) => Self::Fatal(problem),
            Err(Trouble::Retry(problem)) => Self::Retry(problem),
            Err(Trouble::Stopped) => Self::Stopped,
        }
    }
}

/// What every part of a running plan shares.
pub(super) struct Run<'a, E> {
    pub env: &'a E,
    /// As it stood when the run began.
    pub status: &'a PhaseStatus,
    pub clock: &'a dyn Clock,
    pub grace: Duration,
}

impl<P: Phase, E: Send + Sync + 'static> Plan<P, E> {
    /// Runs what is not done yet. `path` leads to this plan.
    pub(super) fn run<'a>(
        &'a self,
        run: &'a Run<'a, E>,
        path: Path,
        journal: mpsc::Sender<Entry>,
        stop: CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Verdict<P>> + Send + 'a>> {
        Box::pin(async move {
            match &self.shape {
                Shape::One(handler) => one(handler.as_ref(), run, path, journal, stop).await,
                Shape::Series(parts) => {
                    for (name, part) in parts {
                        if stop.is_cancelled() {
                            return Verdict::Stopped;
                        }
                        match part.run(run, below(&path, name), journal.clone(), stop.clone()).await {
                            Verdict::Done => {}
                            other => return other,
                        }
                    }
                    Verdict::Done
                }
                Shape::Parallel(parts) => parallel(parts, run, &path, &journal, &stop).await,
            }
        })
    }
}

fn below(path: &Path, name: &'static str) -> Path {
    let mut path = path.clone();
    path.push(Cow::Borrowed(name));
    path
}

/// A single handler: noted as begun before its first run, as done after its last. The handler of a whole phase saves these two
/// writes: entering the phase was the first, leaving it is the second.
async fn one<P: Phase, E>(
    handler: &dyn AnyHandler<P, E>,
    run: &Run<'_, E>,
    path: Path,
    journal: mpsc::Sender<Entry>,
    stop: CancellationToken,
) -> Verdict<P> {
    let state = run.status.step(&path).cloned().unwrap_or_default();
    if state.done {
        return Verdict::Done;
    }
    let whole_phase = path.len() == 1;
    let mut progress = Progress { path, state, journal, stop };
    if progress.state.started_at.is_none() {
        progress.state.started_at = Some(whole_seconds(run.clock.now()));
        if let Err(trouble) = progress.write().await {
            return Err(trouble).into();
        }
    }
    if progress.stop.is_cancelled() {
        return Verdict::Stopped;
    }
    let before = progress.state.clone();
    let outcome = handler.run(run.env, &mut progress).await;
    let done = matches!(outcome, Ok(Step::Done)) && !whole_phase;
    if done {
        progress.state.done = true;
        progress.state.finished_at = Some(whole_seconds(run.clock.now()));
    }
    // A note made since the last checkpoint is kept too.
    if (done || progress.state.message != before.message)
        && let Err(trouble) = progress.write().await
    {
        return Err(trouble).into();
    }
    outcome.into()
}

async fn parallel<P: Phase, E: Send + Sync + 'static>(
    parts: &[(&'static str, Plan<P, E>)],
    run: &Run<'_, E>,
    path: &Path,
    journal: &mpsc::Sender<Entry>,
    stop: &CancellationToken,
) -> Verdict<P> {
    let siblings = stop.child_token();
    let mut running: FuturesUnordered<_> =
        parts.iter().map(|(name, part)| part.run(run, below(path, name), journal.clone(), siblings.clone())).collect();
    let mut verdict = Verdict::Done;
    while let Some(ended) = running.next().await {
        verdict = graver(verdict, ended);
        if matches!(verdict, Verdict::Fatal(_) | Verdict::Goto(_)) {
            siblings.cancel();
            // Whoever does not stop by itself in time is dropped, which is like a crash to it.
            let rest = async { while running.next().await.is_some() {} };
            tokio::select! {
                () = rest => {}
                () = run.clock.sleep(run.grace) => {}
            }
            return verdict;
        }
    }
    verdict
}

/// What two parallel parts come to: the graver decides; among waits the shorter.
fn graver<P>(a: Verdict<P>, b: Verdict<P>) -> Verdict<P> {
    fn weight<P>(verdict: &Verdict<P>) -> u8 {
        match verdict {
            Verdict::Done => 0,
            Verdict::Later { .. } => 1,
            Verdict::Retry(_) => 2,
            Verdict::Stopped => 3,
            Verdict::Goto(_) => 4,
            Verdict::Fatal(_) => 5,
        }
    }
    match (a, b) {
        (Verdict::Later { after: a, gated: x }, Verdict::Later { after: b, gated: y }) => {
            Verdict::Later { after: a.min(b), gated: x && y }
        }
        (a, b) => {
            if weight(&b) > weight(&a) {
                b
            } else {
                a
            }
        }
    }
}
