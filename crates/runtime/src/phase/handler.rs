//! What an author writes: the work of a phase, or of one named part of it.

use std::{future::Future, pin::Pin, time::Duration};

use super::{Phase, Progress, Trouble};

/// How a step ends when it ends well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<P> {
    /// Done: the next step of the series, or the success transition.
    Done,
    /// Not done; run again after this long and not before.
    After(Duration),
    /// Not done; run again when something changes, at the latest after this long. Do not combine it with a state that is
    /// different each time: saving it is such a change.
    Wait(Duration),
    /// Done, and forced to this phase, which [`Builder::forced`](super::Builder::forced) has declared.
    Goto(P),
}

/// The work of a phase. It is run again after a crash, a pause or a failure, from its last checkpoint: it looks before it acts.
pub trait Handler<P: Phase, E>: Send + Sync + 'static {
    /// Works. Its future may be dropped at any await once [`Progress::stopping`] says so; what it has not saved is forgotten.
    fn run(&self, env: &E, progress: &mut Progress) -> impl Future<Output = Result<Step<P>, Trouble>> + Send;
}

/// A side effect that happens once: check, act, verify.
pub trait Effect<E>: Send + Sync + 'static {
    /// Whether the world already is as it should be.
    fn check(&self, env: &E, progress: &mut Progress) -> impl Future<Output = Result<bool, Trouble>> + Send;
    /// Makes it so. Called only when it is not.
    fn act(&self, env: &E, progress: &mut Progress) -> impl Future<Output = Result<(), Trouble>> + Send;
    /// Whether it really became so; by default the check once more. If not, the step is tried again later.
    fn verify(&self, env: &E, progress: &mut Progress) -> impl Future<Output = Result<bool, Trouble>> + Send {
        self.check(env, progress)
    }
}

type Outcome<'a, P> = Pin<Box<dyn Future<Output = Result<Step<P>, Trouble>> + Send + 'a>>;

/// A handler whose type is forgotten.
pub(crate) trait AnyHandler<P: Phase, E>: Send + Sync {
    fn run<'a>(&'a self, env: &'a E, progress: &'a mut Progress) -> Outcome<'a, P>;
}

impl<P: Phase, E: Sync, H: Handler<P, E>> AnyHandler<P, E> for H {
    fn run<'a>(&'a self, env: &'a E, progress: &'a mut Progress) -> Outcome<'a, P> {
        Box::pin(Handler::run(self, env, progress))
    }
}

/// An effect as a handler.
pub(crate) struct Once<F>(pub F);

impl<P: Phase, E: Sync, F: Effect<E>> Handler<P, E> for Once<F> {
    async fn run(&self, env: &E, progress: &mut Progress) -> Result<Step<P>, Trouble> {
        if self.0.check(env, progress).await? {
            return Ok(Step::Done);
        }
        self.0.act(env, progress).await?;
        if self.0.verify(env, progress).await? {
            return Ok(Step::Done);
        }
        Err(Trouble::retry("NotVerified", "what was done does not show yet; looking again"))
    }
}
