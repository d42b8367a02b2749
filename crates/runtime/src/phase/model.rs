//! What a phase is: a name, a kind, and whether a pause is honoured in it.

use std::{fmt::Debug, hash::Hash};

/// The part a phase plays in its machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhaseKind {
    /// Where every object begins; exactly one.
    Initial,
    /// On the way.
    Normal,
    /// The end, well.
    Succeeded,
    /// The end, badly.
    Failed,
}

impl PhaseKind {
    /// Nothing happens after it.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// The phases of a kind: an enum of the author's.
pub trait Phase: Copy + Eq + Hash + Debug + Send + Sync + 'static {
    /// All of them, in the order in which people think of them.
    fn all() -> &'static [Self];
    /// As it is written into `status.phase`.
    fn name(self) -> &'static str;
    /// The part it plays.
    fn kind(self) -> PhaseKind;
    /// Whether a pause stops the work here. Elsewhere a pause waits for the next phase that honours it.
    fn pausable(self) -> bool {
        false
    }
}

/// The phase of that name.
pub(crate) fn named<P: Phase>(name: &str) -> Option<P> {
    P::all().iter().copied().find(|phase| phase.name() == name)
}
