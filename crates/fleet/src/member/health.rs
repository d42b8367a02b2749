//! When a member counts as running and when as unreachable: decided from what probes saw, without a clock or a network.

use std::{fmt, time::Duration};

use tokio::time::Instant;

/// The states of a member that follow from whether it answers. Those of a cluster being built are somebody else's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Known, and has not answered yet.
    Connecting,
    /// Answers.
    Running,
    /// Answered once and no longer does.
    Unreachable,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Connecting => "Connecting",
            State::Running => "Running",
            State::Unreachable => "Unreachable",
        })
    }
}

impl State {
    /// Whether what is inside the cluster is served: an unreachable one's from memory.
    pub fn is_ready(self) -> bool {
        matches!(self, State::Running | State::Unreachable)
    }
}

/// What one probe saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation {
    /// The API answered and is ready.
    Answered,
    /// It did not, or not in time, or not us.
    Failed,
}

/// How many probes must agree before a state changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Failures in a row before a running member is unreachable,
    pub failures: u32,
    /// which also must have lasted this long.
    pub failing_for: Duration,
    /// Answers in a row before an unreachable member runs again.
    pub answers: u32,
}

impl Default for Rules {
    /// Unreachable within 40 s of a cut and back within 15 s of its end, with the default pace.
    fn default() -> Self {
        Rules { failures: 3, failing_for: Duration::from_secs(10), answers: 2 }
    }
}

/// A change of state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    pub from: State,
    pub to: State,
}

/// What is known of a member's health.
#[derive(Debug, Clone)]
pub struct Health {
    rules: Rules,
    state: State,
    /// Probes in a row that saw the same, and when the first of them did.
    run: Option<(Observation, u32, Instant)>,
}

impl Health {
    pub fn new(rules: Rules) -> Self {
        Health { rules, state: State::Connecting, run: None }
    }

    pub fn state(&self) -> State {
        self.state
    }

    /// Whether the last probes disagree with the state, so that the next should come soon.
    pub fn in_doubt(&self) -> bool {
        matches!(
            (self.state, self.run),
            (State::Running, Some((Observation::Failed, ..))) | (State::Unreachable, Some((Observation::Answered, ..)))
        )
    }

    /// Takes in what a probe saw; says if the state changes.
    pub fn observe(&mut self, seen: Observation, now: Instant) -> Option<Transition> {
        let (count, since) = match self.run {
            Some((before, count, since)) if before == seen => (count.saturating_add(1), since),
            _ => (1, now),
        };
        self.run = Some((seen, count, since));
        let to = match (self.state, seen) {
            (State::Connecting, Observation::Answered) => State::Running,
            (State::Running, Observation::Failed)
                if count >= self.rules.failures.max(1)
                    && now.saturating_duration_since(since) >= self.rules.failing_for =>
            {
                State::Unreachable
            }
            (State::Unreachable, Observation::Answered) if count >= self.rules.answers.max(1) => State::Running,
            _ => return None,
        };
        let from = std::mem::replace(&mut self.state, to);
        Some(Transition { from, to })
    }
}

/// When to look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Between probes of a member about which there is no doubt.
    pub steady: Duration,
    /// While probes disagree with the state.
    pub doubt: Duration,
    /// How long a probe may take.
    pub deadline: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { steady: Duration::from_secs(5), doubt: Duration::from_secs(2), deadline: Duration::from_secs(5) }
    }
}

impl Pace {
    /// The pause before the next probe; `random` in 0..1 spreads members over the period, so that a thousand do not knock at once.
    pub fn pause(&self, health: &Health, random: f64) -> Duration {
        let pause = if health.in_doubt() { self.doubt } else { self.steady };
        pause.mul_f64(0.8 + 0.2 * random.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const YES: Observation = Observation::Answered;
    const NO: Observation = Observation::Failed;

    fn after(seconds: u64, start: Instant) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn the_first_answer_makes_a_member_run() {
        // SC-11
        let mut health = Health::new(Rules::default());
        let now = Instant::now();
        assert_eq!(health.observe(NO, now), None);
        assert_eq!(health.state(), State::Connecting);
        let change = health.observe(YES, now);
        assert_eq!(change, Some(Transition { from: State::Connecting, to: State::Running }));
    }

    #[test]
    fn one_lost_probe_changes_nothing_and_neither_do_quick_ones() {
        // SYM-9
        let mut health = Health::new(Rules::default());
        let start = Instant::now();
        health.observe(YES, start);
        for second in [5, 6, 7, 8] {
            assert_eq!(health.observe(NO, after(second, start)), None, "{second}");
        }
        assert_eq!(health.observe(YES, after(9, start)), None);
        assert_eq!(health.observe(NO, after(30, start)), None, "the count began anew");
        assert_eq!(health.observe(NO, after(45, start)), None, "long enough, but only two");
        assert_eq!(health.observe(NO, after(46, start)).map(|change| change.to), Some(State::Unreachable));
    }

    #[test]
    fn an_unreachable_member_must_answer_twice() {
        // SYM-9
        let mut health = Health::new(Rules { failing_for: Duration::ZERO, failures: 1, answers: 2 });
        let now = Instant::now();
        health.observe(YES, now);
        health.observe(NO, now);
        assert_eq!(health.observe(YES, now), None);
        assert!(health.in_doubt());
        assert_eq!(health.observe(NO, now), None);
        assert_eq!(health.observe(YES, now), None);
        assert_eq!(health.observe(YES, now).map(|change| change.to), Some(State::Running));
        assert!(!health.in_doubt());
    }

    #[test]
    fn a_cut_is_seen_within_40_seconds_and_its_end_within_15() {
        // F-8
        let pace = Pace::default();
        for random in [0.0, 0.5, 1.0] {
            for cut_after in 0..6 {
                let mut health = Health::new(Rules::default());
                let start = Instant::now();
                let (cut, mut now) = (after(cut_after, start), start);
                health.observe(YES, now);
                while health.state() == State::Running {
                    now += pace.pause(&health, random);
                    // A probe that goes nowhere takes its whole deadline.
                    let seen = if now >= cut { NO } else { YES };
                    now += if seen == NO { pace.deadline } else { Duration::ZERO };
                    health.observe(seen, now);
                }
                assert!(now - cut <= Duration::from_secs(40), "{:?}", now - cut);
                // It heals right after a probe was sent into nothing.
                let heal = now;
                now += pace.deadline;
                health.observe(NO, now);
                while health.state() == State::Unreachable {
                    now += pace.pause(&health, random);
                    health.observe(YES, now);
                }
                assert!(now - heal <= Duration::from_secs(15), "{:?}", now - heal);
            }
        }
    }

    proptest! {
        #[test]
        fn only_the_rows_of_the_table_happen(seen in proptest::collection::vec((any::<bool>(), 0u64..20), 0..200)) {
            // SC-11
            let mut health = Health::new(Rules::default());
            let (mut now, mut failures, mut answers) = (Instant::now(), 0, 0);
            for (answered, pause) in seen {
                now += Duration::from_secs(pause);
                (failures, answers) = if answered { (0, answers + 1) } else { (failures + 1, 0) };
                let before = health.state();
                let change = health.observe(if answered { YES } else { NO }, now);
                match change.map(|change| (change.from, change.to)) {
                    None => prop_assert_eq!(health.state(), before),
                    Some((State::Connecting, State::Running)) => prop_assert!(answered),
                    Some((State::Running, State::Unreachable)) => prop_assert!(failures >= 3),
                    Some((State::Unreachable, State::Running)) => prop_assert!(answers >= 2),
                    Some(other) => prop_assert!(false, "{:?}", other),
                }
            }
        }
    }
}
