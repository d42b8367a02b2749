//! The rules of the queue, one by one and under random histories.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use proptest::prelude::*;
use tokio::time::Instant;

use super::{Backoff, Priority, Rate, core::*};

const MS: Duration = Duration::from_millis(1);

fn core() -> (Core<&'static str>, Instant) {
    let backoff = Backoff { jitter: 0.0, ..Backoff::default() };
    (Core::new(backoff, Rate::default(), fastrand::Rng::with_seed(1)), Instant::now())
}

fn keys(core: &mut Core<&'static str>, now: Instant) -> Vec<&'static str> {
    std::iter::from_fn(|| core.take(now).map(|taken| taken.key)).collect()
}

#[test]
fn a_key_wished_for_twice_is_handed_out_once() {
    let (mut core, now) = core();
    assert!(core.add("a", Priority::Changed, now));
    assert!(!core.add("a", Priority::Changed, now));
    assert_eq!(core.depth(), 1);
    assert_eq!(keys(&mut core, now), ["a"]);
}

#[test]
fn a_key_in_work_is_run_once_more_but_not_at_the_same_time() {
    let (mut core, now) = core();
    core.add("a", Priority::Changed, now);
    core.take(now).unwrap();
    core.add("a", Priority::Changed, now);
    core.add("a", Priority::Changed, now);
    assert_eq!(core.take(now), None);
    core.done(&"a", Ended::Well, now);
    assert_eq!(keys(&mut core, now), ["a"]);
    core.done(&"a", Ended::Well, now);
    assert_eq!(core.take(now), None);
    assert_eq!((core.depth(), core.running(), core.delayed()), (0, 0, 0));
}

#[test]
fn the_room_of_a_first_list_is_given_back() {
    let now = Instant::now();
    let mut core = Core::new(Backoff::default(), Rate::default(), fastrand::Rng::with_seed(1));
    (0..10_000).for_each(|key| _ = core.add(key, Priority::Listed, now));
    let full = core.room();
    while let Some(taken) = core.take(now) {
        core.done(&taken.key, Ended::Well, now);
    }
    assert!(full >= 20_000 && core.room() < 4_000, "{full}, then {}", core.room());
}

#[test]
fn changes_come_before_retries_before_the_first_list() {
    let (mut core, now) = core();
    core.add("listed", Priority::Listed, now);
    core.add("again", Priority::Again, now);
    core.add("changed", Priority::Changed, now);
    assert_eq!(keys(&mut core, now), ["changed", "again", "listed"]);
}

#[test]
fn a_change_lifts_a_waiting_key_and_a_list_does_not_lower_it() {
    let (mut core, now) = core();
    for key in ["a", "b", "c"] {
        core.add(key, Priority::Listed, now);
    }
    core.add("c", Priority::Changed, now);
    core.add("c", Priority::Listed, now);
    assert_eq!(core.depth(), 3);
    assert_eq!(keys(&mut core, now), ["c", "a", "b"]);
}

#[test]
fn low_priority_is_served_even_while_changes_never_end() {
    let (mut core, now) = core();
    core.add("low", Priority::Listed, now);
    core.add("middle", Priority::Again, now);
    let mut order = Vec::new();
    for _ in 0..40 {
        core.add("hot", Priority::Changed, now);
        let taken = core.take(now).unwrap();
        core.done(&taken.key, Ended::Well, now);
        order.push(taken.key);
    }
    assert!(order[..20].contains(&"low") && order[..20].contains(&"middle"), "{order:?}");
    assert_eq!(order[0], "hot");
}

#[test]
fn failures_of_a_key_are_retried_later_and_later_until_it_succeeds() {
    let (mut core, mut now) = core();
    core.add("a", Priority::Changed, now);
    for pause in [5, 10, 20, 40] {
        core.take(now).unwrap();
        core.done(&"a", Ended::Failed, now);
        assert_eq!(core.next_wake(), Some(now + pause * MS));
        assert_eq!(core.take(now + pause * MS - MS), None);
        now += pause * MS;
    }
    assert_eq!(core.take(now).unwrap().failures, 4);
    core.done(&"a", Ended::Well, now);
    core.add("a", Priority::Changed, now);
    assert_eq!(core.take(now).unwrap().failures, 0);
}

#[test]
fn a_change_does_not_wait_for_the_pause_of_a_failure_nor_reset_it() {
    let (mut core, now) = core();
    core.add("a", Priority::Changed, now);
    core.take(now).unwrap();
    core.done(&"a", Ended::Failed, now);
    core.add("a", Priority::Changed, now);
    assert_eq!(core.take(now).unwrap().failures, 1);
    core.done(&"a", Ended::Failed, now);
    assert_eq!(core.next_wake(), Some(now + 10 * MS));
}

#[test]
fn all_keys_together_are_retried_no_faster_than_the_bucket_gives() {
    let rate = Rate { per_second: 10.0, burst: 2 };
    let mut core = Core::new(Backoff { jitter: 0.0, ..Backoff::default() }, rate, fastrand::Rng::with_seed(1));
    let now = Instant::now();
    for key in 0..5 {
        core.add(key, Priority::Changed, now);
    }
    while let Some(taken) = core.take(now) {
        core.done(&taken.key, Ended::Failed, now);
    }
    let ready = |core: &mut Core<i32>, at: Instant| std::iter::from_fn(|| core.take(at)).count();
    assert_eq!(ready(&mut core, now + 5 * MS), 2);
    assert_eq!(ready(&mut core, now + 99 * MS), 0);
    assert_eq!(ready(&mut core, now + 100 * MS), 1);
    assert_eq!(ready(&mut core, now + 300 * MS), 2);
}

#[test]
fn the_earlier_of_two_delays_counts_and_a_change_cancels_both() {
    let (mut core, now) = core();
    core.add_at("a", now + 50 * MS, Priority::Again, now);
    core.add_at("a", now + 20 * MS, Priority::Again, now);
    core.add_at("a", now + 90 * MS, Priority::Again, now);
    assert_eq!(core.next_wake(), Some(now + 20 * MS));
    core.add("a", Priority::Changed, now);
    assert_eq!(keys(&mut core, now), ["a"]);
    core.done(&"a", Ended::Well, now);
    assert_eq!(core.next_wake(), None);
    assert_eq!(core.take(now + 100 * MS), None);
}

#[test]
fn asking_for_another_turn_cannot_spin() {
    let (mut core, now) = core();
    core.add("a", Priority::Changed, now);
    let runs = std::iter::from_fn(|| core.take(now).map(|taken| core.done(&taken.key, Ended::Again, now))).take(5000);
    assert_eq!(runs.count(), 101);
}

#[test]
fn interrupted_work_comes_back_without_counting_as_a_failure() {
    let (mut core, now) = core();
    core.add("a", Priority::Changed, now);
    core.take(now).unwrap();
    core.done(&"a", Ended::Interrupted, now);
    assert_eq!(core.take(now).unwrap().failures, 0);
}

#[test]
fn timers_of_keys_that_were_woken_earlier_do_not_pile_up() {
    let (mut core, now) = core();
    for _ in 0..10_000 {
        core.add("a", Priority::Changed, now);
        core.take(now).unwrap();
        core.done(&"a", Ended::After(Duration::from_secs(3600)), now);
    }
    assert!(core.timers() < 200, "{}", core.timers());
}

#[derive(Debug, Clone)]
enum Step {
    Add(u8, Priority),
    AddAfter(u8, u64),
    Take,
    Done(usize, Ended),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let priority = prop_oneof![Just(Priority::Listed), Just(Priority::Again), Just(Priority::Changed)];
    let ended = prop_oneof![
        Just(Ended::Well),
        Just(Ended::Again),
        Just(Ended::Failed),
        Just(Ended::Interrupted),
        (0u64..200).prop_map(|ms| Ended::After(Duration::from_millis(ms))),
    ];
    prop_oneof![
        3 => (0u8..12, priority).prop_map(|(key, priority)| Step::Add(key, priority)),
        1 => (0u8..12, 0u64..100).prop_map(|(key, ms)| Step::AddAfter(key, ms)),
        4 => Just(Step::Take),
        4 => (0usize..8, ended).prop_map(|(which, ended)| Step::Done(which, ended)),
        2 => (0u64..50).prop_map(Step::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Whatever happens: no key is handed out twice at once, and every wish made after a key was handed out leads to one more run.
    #[test]
    fn no_wish_is_lost_and_no_key_runs_beside_itself(steps in prop::collection::vec(step(), 1..300)) {
        let mut core = Core::new(Backoff::default(), Rate::default(), fastrand::Rng::with_seed(7));
        let mut now = Instant::now();
        let mut running: Vec<u8> = Vec::new();
        // Keys that must still be handed out, because somebody wished so.
        let mut owed: HashSet<u8> = HashSet::new();
        for step in steps {
            match step {
                Step::Add(key, priority) => {
                    core.add(key, priority, now);
                    owed.insert(key);
                }
                Step::AddAfter(key, ms) => {
                    core.add_at(key, now + Duration::from_millis(ms), Priority::Again, now);
                    owed.insert(key);
                }
                Step::Take => {
                    let depth = core.depth();
                    match core.take(now) {
                        Some(taken) => {
                            prop_assert!(!running.contains(&taken.key), "{} runs beside itself", taken.key);
                            owed.remove(&taken.key);
                            running.push(taken.key);
                        }
                        None => prop_assert_eq!(depth, 0),
                    }
                }
                Step::Done(which, ended) if !running.is_empty() => {
                    let key = running.remove(which % running.len());
                    prop_assert!(core.done(&key, ended, now).is_some());
                    if ended != Ended::Well {
                        owed.insert(key);
                    }
                }
                Step::Done(..) => {}
                Step::Pass(ms) => now += Duration::from_millis(ms),
            }
            prop_assert_eq!(core.running(), running.len());
            prop_assert!(core.depth() + core.delayed() <= 12);
        }
        for key in running.drain(..) {
            core.done(&key, Ended::Well, now);
        }
        let mut rounds: HashMap<u8, u32> = HashMap::new();
        for _ in 0..200 {
            now = core.next_wake().unwrap_or(now).max(now);
            let Some(taken) = core.take(now) else { continue };
            owed.remove(&taken.key);
            *rounds.entry(taken.key).or_default() += 1;
            core.done(&taken.key, Ended::Well, now);
        }
        prop_assert!(owed.is_empty(), "never handed out: {owed:?}");
        prop_assert_eq!((core.depth(), core.delayed(), core.known()), (0, 0, 0), "left over after {:?}", rounds);
    }
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_is_handed_out_at_its_time_and_nothing_after_closing() {
    let queue = super::Queue::new(Backoff::default(), Rate::default(), crate::Metrics::new().queue("test"));
    let start = Instant::now();
    queue.add_after("a", Duration::from_secs(5));
    let taken = queue.next().await.unwrap();
    assert_eq!((taken.key, start.elapsed().as_secs()), ("a", 5));
    queue.add("b", Priority::Changed);
    queue.close();
    assert_eq!(queue.next().await, None);
    queue.done(&"a", Ended::Well);
    assert_eq!(queue.status(), super::QueueStatus { ready: 1, delayed: 0, running: 0 });
}

#[tokio::test(start_paused = true)]
async fn several_workers_share_one_queue() {
    let queue = super::Queue::new(Backoff::default(), Rate::default(), crate::Metrics::new().queue("test"));
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move {
                let mut done = Vec::new();
                while let Some(taken) = queue.next().await {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    queue.done(&taken.key, Ended::Well);
                    done.push(taken.key);
                }
                done
            })
        })
        .collect();
    for key in 0..100 {
        queue.add(key, Priority::Changed);
    }
    let start = Instant::now();
    while queue.status() != super::QueueStatus::default() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Four at a time: a quarter of the time of one.
    assert!(start.elapsed() < Duration::from_millis(300), "{:?}", start.elapsed());
    queue.close();
    let mut all = Vec::new();
    for worker in workers {
        all.extend(worker.await.unwrap());
    }
    all.sort_unstable();
    assert_eq!(all, (0..100).collect::<Vec<_>>());
}
