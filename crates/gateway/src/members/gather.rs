//! Asks many members at once, from memory where it can: nobody waits for one that does not answer, and it is named.

use std::sync::Arc;
use std::time::Duration;

use fleet::{Cache, NotCached, State};
use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::reach::{Reach, Reached};
use super::table::{Kept, Table, Tables};
use super::views::View;
use crate::access::List;
use crate::apiext::row::{Row, within};

/// A watch that is opened anew takes a moment; that is not yet old news.
pub(super) const STALE_AFTER: Duration = Duration::from_secs(2);
/// Objects read on the way of a request; more are read on a thread that may be held up.
const FEW: usize = 2_000;

/// A member that did not answer, and why.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unanswered {
    pub(super) cluster: Arc<str>,
    /// A stable word.
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Unanswered {
    pub(super) fn to_json(&self) -> Value {
        json!({"cluster": &*self.cluster, "reason": self.reason, "message": self.message})
    }
}

/// What there is to answer from.
#[derive(Default)]
pub(super) struct Gathered {
    /// By name of the member.
    pub(super) tables: Vec<(Arc<str>, Arc<Table>)>,
    pub(super) unanswered: Vec<Unanswered>,
    /// Since when a member's rows are no longer kept up to date.
    pub(super) stale: Vec<(Arc<str>, Timestamp)>,
    /// Only this namespace: what the proof was for.
    namespace: Option<String>,
    kept: Option<Arc<Kept>>,
}

impl Gathered {
    /// The rows, of the proof's namespace: all, or those found by a word.
    pub(super) fn rows<'a>(&'a self, word: Option<&'a str>) -> impl Iterator<Item = &'a Arc<Row>> {
        self.tables.iter().flat_map(move |(_, table)| {
            let rows = word.map_or_else(|| &table.rows()[..], |word| table.found(word));
            within(rows, self.namespace.as_deref())
        })
    }

    /// How many objects there are to look at.
    pub(super) fn size(&self, word: Option<&str>) -> usize {
        let size =
            |(_, table): &(_, Arc<Table>)| word.map_or_else(|| table.rows().len(), |word| table.found(word).len());
        self.tables.iter().map(size).sum()
    }

    /// The number of a column; see [`Kept`].
    pub(super) fn number(&self, path: &crate::apiext::field::FieldPath) -> Option<u32> {
        self.kept.as_ref().map(|kept| kept.columns.number(path))
    }

    pub(super) fn unanswered_json(&self) -> Value {
        self.unanswered.iter().map(Unanswered::to_json).collect()
    }

    pub(super) fn stale_json(&self) -> Value {
        let shown = |(name, since): &(Arc<str>, Timestamp)| json!({"cluster": &**name, "since": since.to_string()});
        self.stale.iter().map(shown).collect()
    }
}

impl Tables {
    /// The tables of a view on the members of the proof. The view's objects must be the proof's.
    pub(super) async fn gather(&self, reach: &Reach<List>, view: &View, patience: Duration) -> Gathered {
        let kept = self.of(view);
        let caches: Vec<(Arc<str>, Arc<Cache>)> =
            reach.each().map(|reached| (reached.name().clone(), reached.cache())).collect();
        let mut tables: Vec<Option<Result<Arc<Table>, Unanswered>>> =
            kept.current(&caches).into_iter().map(|table| table.map(Ok)).collect();
        self.wait(reach, view, &kept, &caches, &mut tables, patience).await;
        let mut gathered = Gathered { namespace: reach.namespace().map(str::to_owned), ..Gathered::default() };
        for ((name, cache), table) in caches.into_iter().zip(tables) {
            match table {
                Some(Ok(table)) => {
                    if let Some(since) =
                        cache.stale_since().map(|since| since.elapsed()).filter(|ago| *ago > STALE_AFTER)
                    {
                        let since = Timestamp::now() - SignedDuration::try_from(since).unwrap_or_default();
                        gathered.stale.push((name.clone(), since));
                    }
                    gathered.tables.push((name, table));
                }
                Some(Err(unanswered)) => gathered.unanswered.push(unanswered),
                None => {}
            }
        }
        gathered.kept = Some(kept);
        gathered
    }

    /// Fills in the tables that were not there or too old.
    async fn wait(
        &self,
        reach: &Reach<List>,
        view: &View,
        kept: &Arc<Kept>,
        caches: &[(Arc<str>, Arc<Cache>)],
        tables: &mut [Option<Result<Arc<Table>, Unanswered>>],
        patience: Duration,
    ) {
        let missing: Vec<usize> = (0..tables.len()).filter(|at| tables[*at].is_none()).collect();
        if missing.is_empty() {
            return;
        }
        let until = Instant::now() + patience;
        let reached: Vec<Reached<'_, List>> = reach.each().collect();
        let waiting = missing.iter().map(|at| readiness(&reached[*at], &caches[*at].1, view, until));
        let ready = join_all(waiting).await;
        let mut outdated: Vec<usize> = Vec::new();
        for (at, ready) in missing.into_iter().zip(ready) {
            match ready {
                Ok(None) => outdated.push(at),
                Ok(Some(table)) => tables[at] = Some(Ok(Arc::new(table))),
                Err(unanswered) => tables[at] = Some(Err(unanswered)),
            }
        }
        let objects: usize = outdated.iter().map(|at| caches[*at].1.count().unwrap_or(0)).sum();
        let work: Vec<(usize, Arc<str>, Arc<Cache>)> =
            outdated.into_iter().map(|at| (at, caches[at].0.clone(), caches[at].1.clone())).collect();
        let (kept, view) = (kept.clone(), view.clone());
        let refresh = move || {
            let one = |(at, name, cache): (usize, Arc<str>, Arc<Cache>)| (at, kept.refresh(&view, &name, &cache), name);
            work.into_iter().map(one).collect::<Vec<_>>()
        };
        let refreshed =
            if objects <= FEW { refresh() } else { tokio::task::spawn_blocking(refresh).await.unwrap_or_default() };
        for (at, table, cluster) in refreshed {
            tables[at] = Some(table.map_err(|why| Unanswered { cluster, reason: "Reading", message: why.to_string() }));
        }
    }
}

/// Waits until everything of a member was read once: nothing then, and its table when it is too much to be kept.
async fn readiness(
    reached: &Reached<'_, List>,
    cache: &Arc<Cache>,
    view: &View,
    until: Instant,
) -> Result<Option<Table>, Unanswered> {
    let unanswered =
        |reason: &'static str, message: String| Unanswered { cluster: reached.name().clone(), reason, message };
    let trouble = || cache.trouble().map(|why| why.to_string());
    match cache.ready(Duration::ZERO).await {
        Ok(()) => return Ok(None),
        Err(NotCached::TooLarge) => return directly(reached, view, until).await.map(Some),
        Err(NotCached::Reading) => {}
    }
    let status = reached.status();
    if status.state != State::Running {
        // Nothing will come while it is away.
        let why = status.error.map(|why| why.to_string()).or_else(trouble);
        let reason = if status.state == State::Unreachable { "Unreachable" } else { "Connecting" };
        return Err(unanswered(reason, why.unwrap_or_else(|| "it has not answered yet".to_owned())));
    }
    // Known to fail: it is tried again by itself, and nobody has to wait for that.
    if let Some(why) = trouble() {
        return Err(unanswered("Failed", why));
    }
    match cache.ready(until.saturating_duration_since(Instant::now())).await {
        Ok(()) => Ok(None),
        Err(NotCached::TooLarge) => directly(reached, view, until).await.map(Some),
        Err(NotCached::Reading) => Err(match trouble() {
            Some(why) => unanswered("Failed", why),
            None => unanswered("Slow", "its objects are still being read; ask again in a moment".to_owned()),
        }),
    }
}

/// Past the memory, for what is too large for it.
async fn directly(reached: &Reached<'_, List>, view: &View, until: Instant) -> Result<Table, Unanswered> {
    let unanswered =
        |reason: &'static str, message: String| Unanswered { cluster: reached.name().clone(), reason, message };
    match timeout_at(until, reached.list()).await {
        Ok(Ok(listed)) => Ok(Table::passing(view, reached.name(), listed.objects)),
        Ok(Err(error)) => Err(unanswered("Failed", fleet::words(&error))),
        Err(_) => Err(unanswered("Slow", "it did not list its objects in time; ask for one namespace".to_owned())),
    }
}
