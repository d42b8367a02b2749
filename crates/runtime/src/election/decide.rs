//! What to do about a lease: a function of what was seen, when, and who we are. No clock, no network.

use std::time::Duration;

use tokio::time::Instant;

/// The lease as the server had it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Record {
    /// Nobody when empty.
    pub holder: String,
    /// How long others must leave it alone after it was renewed.
    pub duration: Duration,
    pub transitions: i32,
    /// Changes with every renewal; compared, never read as a time, because clocks differ.
    pub renewed: Option<jiff::Timestamp>,
}

/// A record and when we first saw it like this, by our own clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub record: Record,
    pub since: Instant,
}

impl Seen {
    /// What is known after reading `record` again: a record that has not changed keeps its age.
    pub(crate) fn update(seen: Option<Seen>, record: Record, now: Instant) -> Seen {
        match seen {
            Some(seen) if seen.record == record => seen,
            _ => Seen { record, since: now },
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// There is no lease: make one.
    Create,
    /// It is ours: say so again.
    Renew { transitions: i32 },
    /// It is free, or its holder was silent for too long: take it.
    Take { transitions: i32 },
    /// It is another's. Look again no later than after this.
    Wait(Duration),
    /// It was ours and is another's now.
    Lost,
}

/// Decides. `leading` is the number of transitions under which we lead, if we do.
pub(crate) fn decide(now: Instant, seen: Option<&Seen>, me: &str, leading: Option<i32>) -> Action {
    let Some(Seen { record, since }) = seen else {
        // Somebody deleted the lease of a leader: whoever makes it anew leads, so this is a new term even for us.
        return if leading.is_some() { Action::Lost } else { Action::Create };
    };
    let take = Action::Take { transitions: record.transitions.saturating_add(1) };
    match leading {
        Some(transitions) if record.holder == me && record.transitions == transitions => Action::Renew { transitions },
        Some(_) => Action::Lost,
        // Ours from an earlier life of this process, or nobody's.
        None if record.holder == me || record.holder.is_empty() => take,
        None => match (*since + record.duration).checked_duration_since(now) {
            Some(left) if !left.is_zero() => Action::Wait(left),
            _ => take,
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seen(holder: &str, transitions: i32, since: Instant) -> Seen {
        let record = Record { holder: holder.into(), duration: Duration::from_secs(15), transitions, renewed: None };
        Seen { record, since }
    }

    #[test]
    fn what_to_do_is_a_table() {
        // SYM-12
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let table = [
            ("no lease", None, None, Action::Create),
            ("deleted under us", None, Some(3), Action::Lost),
            ("released", Some(seen("", 3, start)), None, Action::Take { transitions: 4 }),
            ("another's, fresh", Some(seen("other", 3, at(10))), None, Action::Wait(Duration::from_secs(10))),
            ("another's, silent", Some(seen("other", 3, start)), None, Action::Take { transitions: 4 }),
            ("ours", Some(seen("me", 3, start)), Some(3), Action::Renew { transitions: 3 }),
            ("ours from before", Some(seen("me", 3, at(14))), None, Action::Take { transitions: 4 }),
            ("taken from us", Some(seen("other", 4, at(14))), Some(3), Action::Lost),
            ("taken and come back", Some(seen("me", 5, at(14))), Some(3), Action::Lost),
        ];
        for (what, seen, leading, action) in table {
            assert_eq!(decide(at(15), seen.as_ref(), "me", leading), action, "{what}");
        }
    }

    #[test]
    fn a_record_ages_until_it_changes() {
        let start = Instant::now();
        let first = Seen::update(None, seen("other", 1, start).record, start);
        let later = start + Duration::from_secs(9);
        let same = Seen::update(Some(first.clone()), first.record.clone(), later);
        assert_eq!(same.since, start);
        let renewed = Record { renewed: Some(jiff::Timestamp::UNIX_EPOCH), ..first.record.clone() };
        assert_eq!(Seen::update(Some(same), renewed, later).since, later);
    }

    proptest! {
        /// Whatever the clocks and the history: nobody takes a lease that was renewed less than its duration ago.
        #[test]
        fn a_lease_in_use_is_left_alone(renewed_ms in 0u64..15_000, delay_ms in 0u64..15_000, transitions in 0i32..5) {
            prop_assume!(delay_ms < 15_000 - renewed_ms.min(14_999));
            let renewal = Instant::now();
            // We cannot have seen the renewal before it was made.
            let noticed = renewal + Duration::from_millis(renewed_ms);
            let now = noticed + Duration::from_millis(delay_ms);
            let action = decide(now, Some(&seen("other", transitions, noticed)), "me", None);
            prop_assert!(matches!(action, Action::Wait(_)), "{action:?}");
        }
    }
}
