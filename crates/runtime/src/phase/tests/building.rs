//! Tables that cannot work are refused by name, and a machine draws itself.

use std::time::Duration;

use super::world::{Usual, Usual::*, World, quick};
use crate::phase::{Builder, Defect, Machine, Phase, PhaseKind, Plan, Step};

fn work() -> Plan<Usual, World> {
    Plan::handler(quick(|_, _| Ok(Step::Done)))
}

/// What a finished machine says, with pieces left out by name.
fn usual(without: &str) -> Builder<Usual, World> {
    let mut builder = Machine::builder("Demo");
    for (name, from, to) in
        [("success", Pending, Precheck), ("success", Precheck, Running), ("success", Running, Succeeded)]
    {
        if without != format!("{name} {}", from.name()) {
            builder = builder.success(from, to);
        }
    }
    for (from, to) in [(Pending, PreFailed), (Precheck, PreFailed), (Running, Failed)] {
        if without != format!("failure {}", from.name()) {
            builder = builder.failure(from, to);
        }
    }
    for phase in [Pending, Precheck, Running] {
        if without != format!("handler {}", phase.name()) {
            builder = builder.handler(phase, work());
        }
    }
    builder
}

fn defects(builder: Builder<Usual, World>) -> Vec<Defect> {
    builder.build().err().expect("the machine should have been refused").defects
}

#[test]
fn a_machine_of_the_usual_phases_is_accepted() {
    assert!(usual("").build().is_ok()); // KC-6
}

#[test]
fn a_missing_handler_or_transition_is_refused_naming_the_phase() {
    // KC-6
    assert_eq!(defects(usual("handler Running")), [Defect::NoHandler("Running")]);
    assert_eq!(
        defects(usual("failure Running")),
        [Defect::DeadEnd { phase: "Running", table: "failure" }, Defect::Unreachable("Failed")]
    );
    let found = defects(usual("success Precheck"));
    assert!(found.contains(&Defect::DeadEnd { phase: "Precheck", table: "success" }), "{found:?}");
    assert!(found.contains(&Defect::Unreachable("Running")) && found.contains(&Defect::Unreachable("Succeeded")));
}

#[test]
fn a_second_entry_for_a_phase_is_refused() {
    // KC-6
    let table = |table| vec![Defect::Duplicate { phase: "Running", table }];
    assert_eq!(defects(usual("").success(Running, Failed)), table("success"));
    assert_eq!(defects(usual("").failure(Running, PreFailed)), table("failure"));
    assert_eq!(defects(usual("").handler(Running, work())), table("handler"));
    let hour = Duration::from_secs(3600);
    assert_eq!(defects(usual("").deadline(Running, hour).deadline(Running, hour)), table("deadline"));
    assert_eq!(defects(usual("").cancel(Running, Failed).cancel(Running, PreFailed)), table("cancel"));
}

#[test]
fn nothing_comes_after_a_terminal_phase() {
    // KC-6
    let table = |phase, table| vec![Defect::AfterTheEnd { phase, table }];
    assert_eq!(defects(usual("").success(Succeeded, Pending)), table("Succeeded", "success"));
    assert_eq!(defects(usual("").failure(Failed, Pending)), table("Failed", "failure"));
    assert_eq!(defects(usual("").forced(Failed, Pending)), table("Failed", "forced"));
    assert_eq!(defects(usual("").handler(Failed, work())), table("Failed", "handler"));
    assert_eq!(defects(usual("").deadline(Failed, Duration::from_secs(1))), table("Failed", "deadline"));
}

#[test]
fn a_loop_without_a_way_out_is_a_dead_end() {
    // KC-6
    let builder = Machine::builder("Demo")
        .success(Pending, Precheck)
        .success(Precheck, Running)
        .success(Running, Precheck)
        .failure(Pending, Failed)
        .failure(Precheck, Running)
        .failure(Running, Precheck)
        .handler(Pending, work())
        .handler(Precheck, work())
        .handler(Running, work());
    let found = defects(builder);
    assert!(found.contains(&Defect::NoEnd("Precheck")) && found.contains(&Defect::NoEnd("Running")), "{found:?}");
    assert!(!found.contains(&Defect::NoEnd("Pending")));
    assert!(defects(usual("").forced(Running, Running)).contains(&Defect::SelfLoop("Running")));
}

#[test]
fn a_deadline_of_zero_and_parts_that_clash_are_refused() {
    // KC-6
    assert_eq!(defects(usual("").deadline(Running, Duration::ZERO)), [Defect::NoTime("Running")]);
    let clash = Plan::series().with("a", work()).with("b", Plan::parallel()).with("a", work());
    assert_eq!(
        defects(usual("handler Running").handler(Running, clash)),
        [Defect::Empty("Running/b".to_owned()), Defect::DuplicatePart("Running/a".to_owned())]
    );
}

/// Phases that are wrong in themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Odd(u8);

impl Phase for Odd {
    fn all() -> &'static [Self] {
        &[Odd(0), Odd(1), Odd(2)]
    }
    fn name(self) -> &'static str {
        ["A", "B", "B", "D"][usize::from(self.0)]
    }
    fn kind(self) -> PhaseKind {
        [PhaseKind::Initial, PhaseKind::Initial, PhaseKind::Failed, PhaseKind::Normal][usize::from(self.0)]
    }
}

#[test]
fn phases_that_are_wrong_in_themselves_are_refused_all_at_once() {
    // KC-6
    let built = Machine::<Odd, World>::builder("Odd").success(Odd(0), Odd(3)).build().err().unwrap();
    assert!(built.defects.contains(&Defect::SecondInitial("B", "A")), "{built}");
    assert!(built.defects.contains(&Defect::DuplicateName("B")));
    assert!(built.defects.contains(&Defect::Unlisted("Odd(3)".to_owned())));
    assert!(built.to_string().starts_with("the phase machine of Odd cannot work: "), "{built}");
}

#[test]
fn a_machine_draws_itself_as_mermaid_and_dot() {
    // KC-6
    let machine = usual("").cancel(Running, Failed).deadline(Precheck, Duration::from_secs(60)).build().unwrap();
    let mermaid = machine.graph().mermaid();
    assert!(mermaid.contains("title: Demo\n---\nstateDiagram-v2\n"), "{mermaid}");
    assert!(mermaid.contains("state \"Precheck<br/>within 60s\" as p1\n"), "{mermaid}");
    for line in [
        "[*] --> p0",
        "p0 --> p1: success",
        "p2 --> p5: failure",
        "p2 --> p5: cancel",
        "p3 --> [*]",
        "p1 --> p4: failure or deadline",
        "p1 --> p1: retry after 1s to 300s",
    ] {
        assert!(mermaid.lines().any(|l| l.trim() == line), "{line} is missing in\n{mermaid}");
    }
    assert!(!mermaid.contains("p3 --> p3") && !mermaid.contains("p5 --> p5"), "nothing is tried again at the end");
    let dot = machine.graph().dot();
    assert!(dot.contains("\"Running\" -> \"Running\" [label=\"retry after 1s to 300s\", style=dotted];"), "{dot}");
    assert!(dot.starts_with("digraph \"Demo\" {\n") && dot.ends_with("}\n"), "{dot}");
    assert!(dot.contains("\"Running\" [shape=box, label=\"Running\\ncan pause\"];"), "{dot}");
    assert!(dot.contains("\"Running\" -> \"Failed\" [label=\"cancel\", style=dotted];"), "{dot}");
}
