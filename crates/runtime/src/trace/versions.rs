//! Which request wrote which version of an object, of the API server in this process: so that a reconcile is linked to the request that
//! caused it, whoever wrote. Short memory: a reconcile begins soon after the write.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use super::TraceContext;

/// So many of the newest writes are remembered.
const MOST: usize = 4096;

/// Nothing is in it unless somebody collects traces.
static WRITTEN: Mutex<VecDeque<(u64, TraceContext)>> = Mutex::new(VecDeque::new());

pub(super) fn remember(version: u64, context: TraceContext) {
    let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    if written.len() >= MOST {
        written.pop_front();
    }
    written.push_back((version, context));
}

/// The request that wrote a version, if it was in this process and not long ago.
pub(super) fn writer(version: &str) -> Option<TraceContext> {
    let version: u64 = version.parse().ok()?;
    let written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    written.iter().rev().find(|(known, _)| *known == version).map(|(_, context)| *context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_writes_are_remembered() {
        // SYM-11
        let context = |span| TraceContext { trace: 1, span, sampled: true };
        let first = u64::MAX - 2 * MOST as u64;
        (0..=MOST as u64).for_each(|n| remember(first + n, context(n + 1)));
        assert_eq!(writer(&(first + MOST as u64).to_string()), Some(context(MOST as u64 + 1)));
        assert_eq!(writer(&first.to_string()), None, "the oldest went");
        assert_eq!((writer("none"), writer("")), (None, None));
    }
}
