//! A crash at any write and at any await ends in the same state as the quiet run, and no side effect happens twice.

use std::{collections::BTreeMap, sync::Arc};

use proptest::prelude::*;
use tokio::task::yield_now;

use super::world::{Crash, Does, DropAt, MemoryJournal, World, clock, to_the_end};
use crate::{
    Clock,
    phase::{Handler, Machine, Phase, PhaseKind, Plan, Progress, Step, StepState, Trouble},
};

/// Phases by number: 0 begins, 1 to 3 are on the way, 4 is the good end, 5 the bad one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct N(u8);

impl Phase for N {
    fn all() -> &'static [Self] {
        &[N(0), N(1), N(2), N(3), N(4), N(5)]
    }
    fn name(self) -> &'static str {
        ["Begin", "One", "Two", "Three", "Good", "Bad"][usize::from(self.0)]
    }
    fn kind(self) -> PhaseKind {
        match self.0 {
            0 => PhaseKind::Initial,
            4 => PhaseKind::Succeeded,
            5 => PhaseKind::Failed,
            _ => PhaseKind::Normal,
        }
    }
}

/// The work of a phase, to be made at random.
#[derive(Debug, Clone)]
enum Tree {
    /// A side effect.
    Effect,
    /// Side effects with a checkpoint after each.
    Counts(u8),
    /// Fails retryably at its first tries, then a side effect.
    Flaky(u8),
    /// Asks to be run again later, then a side effect.
    Patient(u8),
    /// Fails for good.
    Fatal,
    Series(Vec<Tree>),
    Parallel(Vec<Tree>),
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn plan(tree: &Tree, path: &str) -> Plan<N, World> {
    let group = |whole: Plan<N, World>, parts: &[Tree]| {
        parts
            .iter()
            .zip(NAMES)
            .fold(whole, |whole, (part, name)| whole.with(name, plan(part, &format!("{path}/{name}"))))
    };
    match tree {
        Tree::Effect => Plan::effect(Does(path.to_owned())),
        Tree::Series(parts) => group(Plan::series(), parts),
        Tree::Parallel(parts) => group(Plan::parallel(), parts),
        leaf => Plan::handler(Leaf { leaf: leaf.clone(), path: path.to_owned() }),
    }
}

struct Leaf {
    leaf: Tree,
    path: String,
}

impl Handler<N, World> for Leaf {
    async fn run(&self, world: &World, progress: &mut Progress) -> Result<Step<N>, Trouble> {
        yield_now().await;
        match self.leaf {
            Tree::Counts(to) => {
                let mut at: u8 = progress.checkpoint()?;
                while at < to {
                    let effect = format!("{}#{at}", self.path);
                    if world.count(&effect) == 0 {
                        yield_now().await;
                        world.act(&effect);
                    }
                    at += 1;
                    progress.save(&at).await?;
                }
                return Ok(Step::Done);
            }
            Tree::Flaky(tries) if world.try_number(&self.path) <= usize::from(tries) => {
                return Err(Trouble::retry("Flaky", "not yet"));
            }
            Tree::Patient(tries) if world.try_number(&self.path) <= usize::from(tries) => {
                return Ok(Step::After(std::time::Duration::from_secs(3)));
            }
            Tree::Fatal => return Err(Trouble::fatal("Fatal", "never")),
            _ => {}
        }
        if world.count(&self.path) == 0 {
            yield_now().await;
            world.act(&self.path);
        }
        Ok(Step::Done)
    }
}

fn machine(trees: &[Tree; 4]) -> Machine<N, World> {
    trees
        .iter()
        .zip(0u8..)
        .fold(Machine::builder("Random"), |builder, (tree, n)| {
            let next = N(n + 1);
            builder.success(N(n), next).failure(N(n), N(5)).handler(N(n), plan(tree, N(n).name()))
        })
        .build()
        .unwrap()
}

/// What must be the same however often it crashed: where it ended, which way, what is done, what the checkpoints say.
#[derive(Debug, PartialEq)]
struct End {
    visited: Vec<String>,
    done: BTreeMap<String, (bool, String)>,
    effects: BTreeMap<String, usize>,
}

fn end(journal: &MemoryJournal, world: &World) -> End {
    fn gather(path: &str, state: &StepState, into: &mut BTreeMap<String, (bool, String)>) {
        into.insert(path.to_owned(), (state.done, state.data.to_string()));
        state.steps.iter().for_each(|(name, step)| gather(&format!("{path}/{name}"), step, into));
    }
    let status = journal.status();
    let mut done = BTreeMap::new();
    status.state.iter().for_each(|(name, state)| gather(name, state, &mut done));
    End { visited: journal.visited(), done, effects: world.done.lock().unwrap().clone() }
}

struct Setting {
    machine: Machine<N, World>,
    world: World,
    journal: MemoryJournal,
    clock: Arc<dyn Clock>,
}

impl Setting {
    fn new(trees: &[Tree; 4]) -> Self {
        Self { machine: machine(trees), world: World::default(), journal: MemoryJournal::default(), clock: clock() }
    }

    async fn run(&self) {
        to_the_end(&self.machine, &self.world, &self.journal, &self.clock).await;
    }

    /// Runs until the process dies at that write; false when it came to the end first.
    async fn run_until(&self, crash: Crash) -> bool {
        self.journal.store.lock().unwrap().crash = Some(crash);
        let died = tokio::select! {
            biased;
            () = self.run() => false,
            () = self.journal.crashed.notified() => true,
        };
        self.journal.store.lock().unwrap().crash = None;
        died
    }

    /// Runs until the process dies at that poll; false when it came to the end first.
    async fn run_polls(&self, polls: usize) -> bool {
        DropAt { future: Box::pin(self.run()), polls_left: polls }.await.is_none()
    }

    fn end(&self) -> End {
        end(&self.journal, &self.world)
    }
}

fn fixed() -> Vec<[Tree; 4]> {
    use Tree::*;
    vec![
        [Effect, Effect, Effect, Effect],
        [Flaky(1), Counts(3), Patient(2), Series(vec![Effect, Effect, Counts(2)])],
        [
            Parallel(vec![Effect, Counts(2), Flaky(2)]),
            Series(vec![Parallel(vec![Effect, Effect]), Effect]),
            Parallel(vec![Series(vec![Counts(2), Effect]), Patient(1)]),
            Effect,
        ],
    ]
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        3 => Just(Tree::Effect),
        2 => (1u8..4).prop_map(Tree::Counts),
        1 => (1u8..3).prop_map(Tree::Flaky),
        1 => (1u8..3).prop_map(Tree::Patient),
    ];
    leaf.prop_recursive(2, 8, 3, |part| {
        let parts = prop::collection::vec(part, 1..4);
        prop_oneof![parts.clone().prop_map(Tree::Series), parts.prop_map(Tree::Parallel)]
    })
}

fn virtually<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(work)
}

async fn every_write(trees: &[Tree; 4]) -> Result<(), TestCaseError> {
    let quiet = Setting::new(trees);
    quiet.run().await;
    let expected = quiet.end();
    prop_assert_eq!(expected.visited.last().map(String::as_str), Some("Good"));
    prop_assert!(expected.effects.values().all(|count| *count == 1), "{:?}", expected);
    let make: [fn(usize) -> Crash; 2] = [Crash::BeforeWrite, Crash::AfterWrite];
    for at in make {
        for write in 1.. {
            let setting = Setting::new(trees);
            if !setting.run_until(at(write)).await {
                break;
            }
            setting.run().await;
            prop_assert_eq!(&setting.end(), &expected, "after {:?} of {:?}", at(write), trees);
        }
    }
    Ok(())
}

async fn every_await(trees: &[Tree; 4]) -> Result<(), TestCaseError> {
    let quiet = Setting::new(trees);
    quiet.run().await;
    let expected = quiet.end();
    for polls in 0.. {
        let setting = Setting::new(trees);
        if !setting.run_polls(polls).await {
            break;
        }
        setting.run().await;
        prop_assert_eq!(&setting.end(), &expected, "dropped at poll {} of {:?}", polls, trees);
    }
    Ok(())
}

#[test]
fn a_crash_at_any_write_or_await_of_known_machines_ends_like_the_quiet_run() {
    // KC-6
    for trees in fixed() {
        virtually(every_write(&trees)).unwrap();
        virtually(every_await(&trees)).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn a_crash_after_any_write_of_a_random_machine_ends_like_the_quiet_run(trees in [tree(), tree(), tree(), tree()]) {
        // KC-6
        virtually(every_write(&trees))?;
    }

    #[test]
    fn crashing_again_and_again_still_ends_like_the_quiet_run(
        trees in [tree(), tree(), tree(), tree()],
        lives in prop::collection::vec(0usize..60, 0..40),
    ) {
        // KC-6
        virtually(async {
            let quiet = Setting::new(&trees);
            quiet.run().await;
            let setting = Setting::new(&trees);
            for polls in lives {
                setting.run_polls(polls).await;
            }
            setting.run().await;
            prop_assert_eq!(setting.end(), quiet.end());
            Ok(())
        })?;
    }

    #[test]
    fn a_machine_that_fails_for_good_ends_badly_and_does_nothing_twice(
        mut trees in [tree(), tree(), tree(), tree()],
        bad in 0usize..4,
        lives in prop::collection::vec(0usize..60, 0..20),
    ) {
        // KC-6
        let good = trees[bad].clone();
        trees[bad] = Tree::Parallel(vec![good, Tree::Fatal]);
        virtually(async {
            let setting = Setting::new(&trees);
            for polls in lives {
                setting.run_polls(polls).await;
            }
            setting.run().await;
            let end = setting.end();
            prop_assert_eq!(end.visited.len(), bad + 2);
            prop_assert_eq!(end.visited.last().map(String::as_str), Some("Bad"));
            prop_assert!(end.effects.values().all(|count| *count == 1), "{:?}", end);
            Ok(())
        })?;
    }
}

proptest! {
    // Every await of a machine is hundreds of runs.
    #![proptest_config(ProptestConfig { cases: 4, ..ProptestConfig::default() })]

    #[test]
    fn a_crash_at_any_await_of_a_random_machine_ends_like_the_quiet_run(trees in [tree(), tree(), tree(), tree()]) {
        // KC-6
        virtually(every_await(&trees))?;
    }
}
