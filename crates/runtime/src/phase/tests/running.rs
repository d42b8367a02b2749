//! What a machine does with results, wishes and time.

use std::{sync::Arc, time::Duration};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::world::{
    Does, MemoryJournal, Told,
    Usual::{self, *},
    World, clock, once, quick, to_the_end,
};
use crate::{
    Failure, Next,
    phase::{
        Builder, Change, Handler, Journal, JournalError, Machine, Plan, Progress, Step, Trouble,
        status::{HISTORY, STATE_BYTES},
    },
};

const SECOND: Duration = Duration::from_secs(1);

fn done() -> Plan<Usual, World> {
    Plan::handler(quick(|_, _| Ok(Step::Done)))
}

/// The usual tables around one interesting handler, that of Running.
fn tables(running: Plan<Usual, World>) -> Builder<Usual, World> {
    Machine::builder("Demo")
        .success(Pending, Precheck)
        .success(Precheck, Running)
        .success(Running, Succeeded)
        .failure(Pending, PreFailed)
        .failure(Precheck, PreFailed)
        .failure(Running, Failed)
        .handler(Pending, done())
        .handler(Precheck, done())
        .handler(Running, running)
}

fn running(
    work: impl Fn(&World, &mut Progress) -> Result<Step<Usual>, Trouble> + Send + Sync + 'static,
) -> Machine<Usual, World> {
    tables(Plan::handler(quick(work))).build().unwrap()
}

/// Works until it is told to stop, then says so.
struct Endless;

impl Handler<Usual, World> for Endless {
    async fn run(&self, world: &World, progress: &mut Progress) -> Result<Step<Usual>, Trouble> {
        progress.stopping().cancelled().await;
        world.act("stopped by itself");
        Err(Trouble::Stopped)
    }
}

/// Does not hear anything.
struct Deaf;

impl Handler<Usual, World> for Deaf {
    async fn run(&self, _: &World, _: &mut Progress) -> Result<Step<Usual>, Trouble> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn success_leads_through_every_phase_and_is_told_and_recorded() {
    // KC-6
    let machine = running(|_, progress| {
        progress.note("three of three");
        Ok(Step::Done)
    });
    let (journal, told, clock) = (MemoryJournal::default(), Told::default(), clock());
    journal.controls(|controls| controls.generation = 4);
    assert_eq!(once(&machine, &World::default(), &journal, &told, &clock).await.unwrap(), Next::Wait);
    assert_eq!(journal.visited(), ["Pending", "Precheck", "Running", "Succeeded"]);
    let status = journal.status();
    assert!(status.has_condition("Succeeded", "True", "Done"), "{:?}", status.conditions);
    assert_eq!(status.observed_generation, Some(4));
    assert_eq!(status.message.as_deref(), Some("three of three"));
    assert!(["Pending", "Precheck", "Running"].iter().all(|phase| status.state[*phase].done));
    let told: Vec<_> = told.0.lock().unwrap().iter().map(|c| matches!(c, Change::Entered { .. })).collect();
    assert_eq!(told, [true; 4]);
    let writes = journal.store.lock().unwrap().writes;
    assert_eq!(once(&machine, &World::default(), &journal, &(), &clock).await.unwrap(), Next::Wait);
    assert_eq!(journal.store.lock().unwrap().writes, writes, "nothing happens after the end");
}

#[tokio::test(start_paused = true)]
async fn a_fatal_result_takes_the_failure_transition_with_its_reason() {
    // KC-6
    let machine = running(|_, _| Err(Trouble::fatal("NoRoom", "the disk is full; make room")));
    let (journal, clock) = (MemoryJournal::default(), clock());
    to_the_end(&machine, &World::default(), &journal, &clock).await;
    let status = journal.status();
    assert_eq!(status.phase.as_deref(), Some("Failed"));
    assert!(status.has_condition("Succeeded", "False", "NoRoom"));
    assert_eq!(status.message.as_deref(), Some("the disk is full; make room"));
    assert_eq!(status.history.last().unwrap().reason, "NoRoom");
    assert!(!status.state["Running"].done);
}

#[tokio::test(start_paused = true)]
async fn a_network_error_is_tried_again_with_growing_pauses() {
    // KC-6
    let machine = running(|world, _| match world.try_number("run") {
        1..=3 => Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into()),
        _ => Ok(Step::Done),
    });
    let (journal, world, told, clock) = (MemoryJournal::default(), World::default(), Told::default(), clock());
    let mut pauses = Vec::new();
    loop {
        match once(&machine, &world, &journal, &told, &clock).await {
            Ok(Next::Wait) => break,
            Ok(Next::After(pause)) => {
                pauses.push(pause.as_secs_f64().ceil() as u64);
                clock.sleep(pause).await;
            }
            Err(Failure::Retry(_)) => {} // an impatient queue: asked again at once, the handler is not run
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(pauses, [1, 2, 4]);
    assert_eq!(journal.phase(), "Succeeded");
    assert_eq!(*world.tries.lock().unwrap().get("run").unwrap(), 4);
    assert_eq!(journal.status().attempts, 0);
    let retries = told.0.lock().unwrap().iter().filter(|c| matches!(c, Change::Retrying { .. })).count();
    assert_eq!(retries, 3);
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_the_spec_ends_the_pause_between_attempts() {
    // KC-6
    let machine = running(|world, _| match world.try_number("run") {
        1 => Err(Trouble::retry("Refused", "no")),
        _ => Ok(Step::Done),
    });
    let (journal, world, clock) = (MemoryJournal::default(), World::default(), clock());
    assert!(once(&machine, &world, &journal, &(), &clock).await.is_err());
    assert!(matches!(once(&machine, &world, &journal, &(), &clock).await, Ok(Next::After(_))));
    journal.controls(|controls| controls.generation += 1);
    assert_eq!(once(&machine, &world, &journal, &(), &clock).await.unwrap(), Next::Wait);
    assert_eq!(journal.phase(), "Succeeded");
}

#[tokio::test(start_paused = true)]
async fn requeue_after_is_kept_even_when_woken_early_and_wait_is_not() {
    // KC-6
    for (step, runs) in [(Step::After(30 * SECOND), 1), (Step::Wait(30 * SECOND), 3)] {
        let machine = running(move |world, _| {
            world.try_number("run");
            Ok(step)
        });
        let (journal, world, clock) = (MemoryJournal::default(), World::default(), clock());
        for _ in 0..3 {
            let next = once(&machine, &world, &journal, &(), &clock).await.unwrap();
            assert!(matches!(next, Next::After(after) if after > 29 * SECOND && after <= 30 * SECOND), "{next:?}");
        }
        assert_eq!(world.try_number("run") - 1, runs, "{step:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_forced_phase_is_entered_when_declared_and_a_failure_otherwise() {
    // KC-6
    let forcing = || Plan::handler(quick(|_, _| Ok(Step::Goto(Succeeded))));
    let (journal, clock) = (MemoryJournal::default(), clock());
    let usual = |builder: Builder<Usual, World>| builder.build().unwrap();
    let builder = Machine::builder("Demo")
        .success(Pending, Precheck)
        .success(Precheck, Running)
        .success(Running, Succeeded)
        .failure(Pending, PreFailed)
        .failure(Precheck, PreFailed)
        .failure(Running, Failed)
        .handler(Pending, done())
        .handler(Precheck, forcing())
        .handler(Running, done())
        .forced(Precheck, Succeeded);
    to_the_end(&usual(builder), &World::default(), &journal, &clock).await;
    assert_eq!(journal.visited(), ["Pending", "Precheck", "Succeeded"]);

    let journal = MemoryJournal::default();
    to_the_end(
        &usual(tables(Plan::handler(quick(|_, _| Ok(Step::Goto(PreFailed)))))),
        &World::default(),
        &journal,
        &clock,
    )
    .await;
    let last = journal.status().history.pop().unwrap();
    assert_eq!((last.phase.as_str(), last.reason.as_str()), ("Failed", "ForbiddenTransition"));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_stops_the_handler_and_fails_the_phase() {
    // KC-6
    for deaf in [false, true] {
        let handler = if deaf { Plan::handler(Deaf) } else { Plan::handler(Endless) };
        let machine = tables(handler).deadline(Running, 60 * SECOND).build().unwrap();
        let (journal, world, clock) = (MemoryJournal::default(), World::default(), clock());
        let began = clock.now();
        to_the_end(&machine, &world, &journal, &clock).await;
        assert_eq!(journal.phase(), "Failed");
        assert_eq!(journal.status().history.last().unwrap().reason, "DeadlineExceeded");
        let took = clock.now().duration_since(began).as_secs();
        assert_eq!(took, if deaf { 70 } else { 60 }, "a deaf handler has its grace too");
        assert_eq!(world.count("stopped by itself"), usize::from(!deaf));
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_counts_over_restarts_and_attempts() {
    // KC-6
    let plan = Plan::handler(quick(|_, _| Err(Trouble::retry("Refused", "nobody answers"))));
    let machine = tables(plan).deadline(Running, 100 * SECOND).build().unwrap();
    let (journal, clock) = (MemoryJournal::default(), clock());
    let began = clock.now();
    to_the_end(&machine, &World::default(), &journal, &clock).await;
    assert_eq!(clock.now().duration_since(began).as_secs(), 100);
    let status = journal.status();
    assert!(status.message.unwrap().contains("last: nobody answers"));
}

#[tokio::test(start_paused = true)]
async fn cancel_is_heeded_only_where_the_table_says_and_interrupts_a_running_handler() {
    // KC-6
    let machine = tables(Plan::handler(Endless)).cancel(Running, Failed).build().unwrap();
    let (journal, world, told, clock) = (MemoryJournal::default(), World::default(), Told::default(), clock());
    let canceller = async {
        clock.sleep(20 * SECOND).await;
        journal.controls(|controls| controls.cancelled = true);
    };
    let (next, ()) = tokio::join!(once(&machine, &world, &journal, &told, &clock), canceller);
    assert_eq!(next.unwrap(), Next::Wait);
    assert_eq!(journal.visited(), ["Pending", "Precheck", "Running", "Failed"]);
    assert!(journal.status().has_condition("Succeeded", "False", "Cancelled"));
    assert_eq!(world.count("stopped by itself"), 1);

    // Cancelled from the start, but neither Pending nor Precheck has a way out: Running is entered and left at once.
    let journal = MemoryJournal::default();
    journal.controls(|controls| controls.cancelled = true);
    to_the_end(&machine, &world, &journal, &clock).await;
    assert_eq!(journal.visited(), ["Pending", "Precheck", "Running", "Failed"]);
    assert_eq!(world.count("stopped by itself"), 1, "the handler was not even begun");
}

#[tokio::test(start_paused = true)]
async fn pause_is_honoured_only_in_pausable_phases_and_does_not_use_up_the_deadline() {
    // KC-6
    let machine = tables(Plan::handler(quick(|world, _| match world.try_number("run") {
        1 => Ok(Step::After(10 * SECOND)),
        _ => Ok(Step::Done),
    })))
    .deadline(Running, 60 * SECOND)
    .build()
    .unwrap();
    let (journal, world, told, clock) = (MemoryJournal::default(), World::default(), Told::default(), clock());
    journal.controls(|controls| controls.paused = true);
    assert_eq!(once(&machine, &world, &journal, &told, &clock).await.unwrap(), Next::Wait);
    assert_eq!(journal.phase(), "Running", "Pending and Precheck do not pause");
    assert!(journal.status().has_condition("Paused", "True", "Requested"));
    clock.sleep(3600 * SECOND).await;
    assert_eq!(once(&machine, &world, &journal, &told, &clock).await.unwrap(), Next::Wait);
    journal.controls(|controls| controls.paused = false);
    to_the_end(&machine, &world, &journal, &clock).await;
    let status = journal.status();
    assert_eq!(status.phase.as_deref(), Some("Succeeded"));
    assert!(status.conditions.iter().all(|condition| condition.type_ != "Paused"));
    assert!(told.0.lock().unwrap().contains(&Change::Paused("Running")));
}

#[tokio::test(start_paused = true)]
async fn a_pause_interrupts_a_running_handler_and_a_cancel_ends_a_pause() {
    // KC-6
    let machine = tables(Plan::handler(Endless)).cancel(Running, Failed).build().unwrap();
    let (journal, world, clock) = (MemoryJournal::default(), World::default(), clock());
    let user = async {
        clock.sleep(7 * SECOND).await;
        journal.controls(|controls| controls.paused = true);
    };
    let (next, ()) = tokio::join!(once(&machine, &world, &journal, &(), &clock), user);
    assert_eq!(next.unwrap(), Next::Wait);
    assert_eq!((journal.phase().as_str(), world.count("stopped by itself")), ("Running", 1));
    journal.controls(|controls| controls.cancelled = true);
    assert_eq!(once(&machine, &world, &journal, &(), &clock).await.unwrap(), Next::Wait);
    assert_eq!(journal.phase(), "Failed");
}

#[tokio::test(start_paused = true)]
async fn a_fatal_part_lets_its_parallel_siblings_stop_and_awaits_them() {
    // KC-6
    let plan = Plan::parallel()
        .with("endless", Plan::handler(Endless))
        .with("deaf", Plan::handler(Deaf))
        .with("bad", Plan::handler(quick(|_, _| Err(Trouble::fatal("Broken", "broken")))));
    let machine = tables(plan).build().unwrap();
    let (journal, world, clock) = (MemoryJournal::default(), World::default(), clock());
    let began = clock.now();
    to_the_end(&machine, &world, &journal, &clock).await;
    assert_eq!(journal.status().history.last().unwrap().reason, "Broken");
    assert_eq!(world.count("stopped by itself"), 1);
    assert_eq!(clock.now().duration_since(began).as_secs(), 10, "the deaf one was dropped after its grace");
}

#[tokio::test(start_paused = true)]
async fn a_part_to_be_tried_again_does_not_stop_its_siblings_and_done_parts_do_not_run_again() {
    // KC-6
    let plan = Plan::parallel()
        .with(
            "flaky",
            Plan::handler(quick(|world, _| match world.try_number("flaky") {
                1..=2 => Err(Trouble::retry("Refused", "no")),
                _ => Ok(Step::Done),
            })),
        )
        .with("steady", Plan::effect(Does("steady".to_owned())));
    let machine = tables(Plan::series().with("both", plan).with("last", done())).build().unwrap();
    let (journal, world, clock) = (MemoryJournal::default(), World::default(), clock());
    assert!(once(&machine, &world, &journal, &(), &clock).await.is_err());
    let state = &journal.status().state["Running"];
    assert!(state.steps["both"].steps["steady"].done && !state.steps["both"].steps["flaky"].done);
    assert!(!state.steps.contains_key("last"), "a series waits for the part before");
    world.done.lock().unwrap().clear(); // its check would now say no: only the journal keeps it from running again
    to_the_end(&machine, &world, &journal, &clock).await;
    assert_eq!(world.count("steady"), 0);
    assert!(journal.status().state["Running"].steps["last"].done);
}

/// Counts to five, a checkpoint each.
struct Counts(Arc<Semaphore>);

impl Handler<Usual, World> for Counts {
    async fn run(&self, world: &World, progress: &mut Progress) -> Result<Step<Usual>, Trouble> {
        let mut at: u32 = progress.checkpoint()?;
        while at < 5 {
            let permit = self.0.acquire().await.map_err(|_| Trouble::Stopped)?;
            permit.forget();
            world.act("count");
            at += 1;
            progress.note(format!("{at} of 5"));
            progress.save(&at).await?;
        }
        Ok(Step::Done)
    }
}

#[tokio::test(start_paused = true)]
async fn checkpoints_made_while_stopping_are_kept_and_resumed_from() {
    // KC-6
    let steps = Arc::new(Semaphore::new(2));
    let machine = tables(Plan::handler(Counts(steps.clone()))).build().unwrap();
    let (journal, world, clock) = (MemoryJournal::default(), World::default(), clock());
    let user = async {
        clock.sleep(SECOND).await;
        journal.controls(|controls| controls.paused = true);
        steps.add_permits(1); // the third write hears of the pause
    };
    let (next, ()) = tokio::join!(once(&machine, &world, &journal, &(), &clock), user);
    assert_eq!(next.unwrap(), Next::Wait);
    let status = journal.status();
    assert_eq!((status.state["Running"].data.as_u64(), status.message.as_deref()), (Some(3), Some("3 of 5")));
    journal.controls(|controls| controls.paused = false);
    steps.add_permits(10);
    to_the_end(&machine, &world, &journal, &clock).await;
    assert_eq!(world.count("count"), 5);
}

#[tokio::test(start_paused = true)]
async fn a_program_that_stops_hands_the_work_back_with_its_checkpoint() {
    // KC-6
    let steps = Arc::new(Semaphore::new(2));
    let machine = tables(Plan::handler(Counts(steps.clone()))).build().unwrap();
    let (journal, world, clock) = (MemoryJournal::default(), World::default(), clock());
    let halt = CancellationToken::new();
    let program = async {
        let mut journal = journal.clone();
        let loaded = journal.load().await.unwrap();
        machine.run(&world, loaded, &mut journal, &(), &clock, &halt).await
    };
    let operator = async {
        clock.sleep(SECOND).await;
        halt.cancel();
        clock.sleep(SECOND).await;
        steps.add_permits(10); // it works a little longer, within its grace
    };
    let (next, ()) = tokio::join!(program, operator);
    assert_eq!(next.unwrap(), Next::Again);
    assert_eq!((journal.phase().as_str(), journal.status().state["Running"].data.as_u64()), ("Running", Some(3)));
    to_the_end(&machine, &world, &journal, &clock).await;
    assert_eq!(world.count("count"), 5);
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_of_another_shape_or_too_large_is_fatal() {
    // KC-6
    let machine = running(|_, progress| progress.checkpoint::<Vec<String>>().map(|_| Step::Done));
    let (journal, clock) = (MemoryJournal::default(), clock());
    journal.store.lock().unwrap().status =
        serde_json::json!({"phase": "Running", "state": {"Running": {"data": {"a": 1}}}});
    to_the_end(&machine, &World::default(), &journal, &clock).await;
    assert_eq!(journal.status().history.last().unwrap().reason, "CheckpointUnreadable");

    struct Hoards;
    impl Handler<Usual, World> for Hoards {
        async fn run(&self, _: &World, progress: &mut Progress) -> Result<Step<Usual>, Trouble> {
            progress.save(&"x".repeat(STATE_BYTES)).await?;
            Ok(Step::Done)
        }
    }
    let journal = MemoryJournal::default();
    to_the_end(&tables(Plan::handler(Hoards)).build().unwrap(), &World::default(), &journal, &clock).await;
    assert_eq!(journal.status().history.last().unwrap().reason, "CheckpointTooLarge");
}

#[tokio::test(start_paused = true)]
async fn a_lost_journal_stops_the_work_until_it_is_read_again() {
    // KC-6
    for (error, goes_on) in [
        (JournalError::Conflict, true),
        (JournalError::Unavailable("down".to_owned()), true),
        (JournalError::Gone, false),
    ] {
        let machine = tables(Plan::handler(Counts(Arc::new(Semaphore::new(100))))).build().unwrap();
        let (journal, world, clock) = (MemoryJournal::default(), World::default(), clock());
        once(&machine_before_running(), &world, &journal, &(), &clock).await.unwrap();
        journal.store.lock().unwrap().fail_next = Some(error.clone());
        let outcome = once(&machine, &world, &journal, &(), &clock).await;
        assert_eq!(world.count("count"), 1, "nothing is done after a write was lost");
        assert_eq!(outcome.is_err(), goes_on, "{error:?}: {outcome:?}");
        to_the_end(&machine, &world, &journal, &clock).await;
        assert_eq!(journal.phase(), "Succeeded");
    }
}

/// Comes as far as Running and stays there.
fn machine_before_running() -> Machine<Usual, World> {
    running(|_, _| Ok(Step::Wait(SECOND)))
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_being_deleted_begins_nothing_new() {
    // KC-6
    let machine = running(|world, _| {
        world.act("work");
        Ok(Step::Done)
    });
    let (journal, world, clock) = (MemoryJournal::default(), World::default(), clock());
    journal.controls(|controls| controls.deleted = true);
    assert_eq!(once(&machine, &world, &journal, &(), &clock).await.unwrap(), Next::Wait);
    assert_eq!((world.count("work"), journal.store.lock().unwrap().writes), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_history_is_bounded_and_a_phase_entered_again_begins_afresh() {
    // KC-6
    let machine = Machine::builder("Loop")
        .success(Pending, Precheck)
        .success(Precheck, Running)
        .success(Running, Precheck)
        .forced(Running, Succeeded)
        .failure(Pending, PreFailed)
        .failure(Precheck, PreFailed)
        .failure(Running, Failed)
        .handler(Pending, done())
        .handler(
            Precheck,
            Plan::series().with(
                "part",
                Plan::handler(quick(|world: &World, _: &mut Progress| {
                    world.act("part");
                    Ok(Step::Done)
                })),
            ),
        )
        .handler(
            Running,
            Plan::handler(quick(|world, _| match world.try_number("laps") {
                1..=49 => Ok(Step::Done),
                _ => Ok(Step::Goto(Succeeded)),
            })),
        )
        .build()
        .unwrap();
    let (journal, world, clock) = (MemoryJournal::default(), World::default(), clock());
    assert_eq!(once(&machine, &world, &journal, &(), &clock).await.unwrap(), Next::Again, "others get their turn");
    to_the_end(&machine, &world, &journal, &clock).await;
    assert_eq!(world.count("part"), 50);
    assert_eq!(journal.status().history.len(), HISTORY);
    assert_eq!(journal.visited().last().unwrap(), "Succeeded");
}

#[tokio::test(start_paused = true)]
async fn a_wish_to_try_again_starts_a_failure_over_once_and_shortens_a_pause() // KC-6
{
    let (journal, world, clock) = (MemoryJournal::default(), World::default(), clock());
    let machine = running(|world, _| {
        world.act("tried");
        match world.count("tried") {
            1 | 2 => Err(Trouble::fatal("Broken", "it is broken")),
            3 => Err(Trouble::retry("Away", "it is away")),
            _ => Ok(Step::Done),
        }
    });
    to_the_end(&machine, &world, &journal, &clock).await;
    assert_eq!((journal.phase().as_str(), world.count("tried")), ("Failed", 1));

    // Heeded once, however often it is looked at.
    let asked = clock.now();
    journal.controls(|controls| controls.retry = Some(asked));
    to_the_end(&machine, &world, &journal, &clock).await;
    to_the_end(&machine, &world, &journal, &clock).await;
    assert_eq!((journal.phase().as_str(), world.count("tried")), ("Failed", 2));
    assert_eq!(
        journal.visited(),
        ["Pending", "Precheck", "Running", "Failed", "Pending", "Precheck", "Running", "Failed"]
    );

    // Again, and then in the middle of a pause between attempts: at once, not when the pause is over.
    journal.controls(|controls| controls.retry = Some(asked + SECOND));
    let _ = once(&machine, &world, &journal, &(), &clock).await;
    assert_eq!((journal.phase().as_str(), world.count("tried")), ("Running", 3));
    assert!(matches!(once(&machine, &world, &journal, &(), &clock).await, Ok(Next::After(_))));
    assert_eq!(world.count("tried"), 3);
    journal.controls(|controls| controls.retry = Some(asked + 2 * SECOND));
    to_the_end(&machine, &world, &journal, &clock).await;
    assert_eq!((journal.phase().as_str(), world.count("tried")), ("Succeeded", 4));

    // What succeeded stays so.
    journal.controls(|controls| controls.retry = Some(asked + 3 * SECOND));
    assert!(matches!(once(&machine, &world, &journal, &(), &clock).await, Ok(Next::Wait)));
    assert_eq!((journal.phase().as_str(), world.count("tried")), ("Succeeded", 4));
}
