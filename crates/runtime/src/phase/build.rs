//! Building a machine: the tables are checked here, so that a machine that exists can work.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    time::Duration,
};

use super::{Graph, Machine, Phase, PhaseKind, Plan, graph::Reason, machine::Settings, plan::Shape};

/// What is wrong with a machine's tables.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// No phase is initial.
    #[error("no phase is of kind Initial")]
    NoInitial,
    /// More than one phase is initial.
    #[error("phase {0} is of kind Initial, but {1} is already")]
    SecondInitial(&'static str, &'static str),
    /// Two phases have one name.
    #[error("phase name {0} is used twice")]
    DuplicateName(&'static str),
    /// A phase that `Phase::all` does not list.
    #[error("phase {0} is used in a table but missing in Phase::all")]
    Unlisted(String),
    /// A phase has two entries in one table.
    #[error("phase {phase} has two {table} entries")]
    Duplicate {
        /// The phase.
        phase: &'static str,
        /// Which table.
        table: &'static str,
    },
    /// Something is said about the work of a phase in which nothing happens.
    #[error("phase {phase} is terminal and cannot have a {table} entry")]
    AfterTheEnd {
        /// The phase.
        phase: &'static str,
        /// Which table.
        table: &'static str,
    },
    /// A phase without a handler.
    #[error("phase {0} has no handler")]
    NoHandler(&'static str),
    /// A phase without a success or failure transition.
    #[error("phase {phase} is a dead end: it has no {table} transition")]
    DeadEnd {
        /// The phase.
        phase: &'static str,
        /// Which table.
        table: &'static str,
    },
    /// A phase from which no terminal phase can be reached.
    #[error("phase {0} is a dead end: no terminal phase can be reached from it")]
    NoEnd(&'static str),
    /// A phase that leads to itself.
    #[error("phase {0} leads to itself; let its handler return Step::After instead")]
    SelfLoop(&'static str),
    /// A phase nothing leads to.
    #[error("phase {0} is unreachable")]
    Unreachable(&'static str),
    /// A series or parallel work without parts.
    #[error("the handler {0} has no parts")]
    Empty(String),
    /// Two parts of one name.
    #[error("the handler {0} has two parts of that name")]
    DuplicatePart(String),
    /// A deadline that has always passed.
    #[error("the deadline of phase {0} is zero")]
    NoTime(&'static str),
}

/// Everything that is wrong with a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defects {
    /// The machine's kind.
    pub kind: &'static str,
    /// What is wrong, in the order of the phases.
    pub defects: Vec<Defect>,
}

impl fmt::Display for Defects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the phase machine of {} cannot work: ", self.kind)?;
        for (n, defect) in self.defects.iter().enumerate() {
            write!(f, "{}{defect}", if n == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for Defects {}

/// The tables of a machine while they are written.
pub struct Builder<P, E> {
    kind: &'static str,
    edges: Vec<(P, P, Reason)>,
    handlers: Vec<(P, Plan<P, E>)>,
    deadlines: Vec<(P, Duration)>,
    settings: Settings,
}

impl<P: Phase, E: Send + Sync + 'static> Builder<P, E> {
    pub(super) fn new(kind: &'static str) -> Self {
        let (edges, handlers, deadlines) = (Vec::new(), Vec::new(), Vec::new());
        Self { kind, edges, handlers, deadlines, settings: Settings::default() }
    }

    /// Where a phase leads when its handler is done.
    #[must_use]
    pub fn success(self, from: P, to: P) -> Self {
        self.edge(from, to, Reason::Success)
    }

    /// Where a phase leads when its handler fails for good or its deadline passes.
    #[must_use]
    pub fn failure(self, from: P, to: P) -> Self {
        self.edge(from, to, Reason::Failure)
    }

    /// Where a cancel leads. A phase without this does not heed a cancel; the next one that does, will.
    #[must_use]
    pub fn cancel(self, from: P, to: P) -> Self {
        self.edge(from, to, Reason::Cancel)
    }

    /// Where a handler may force the machine to, with [`Step::Goto`](super::Step::Goto).
    #[must_use]
    pub fn forced(self, from: P, to: P) -> Self {
        self.edge(from, to, Reason::Forced)
    }

    /// The work of a phase.
    #[must_use]
    pub fn handler(mut self, phase: P, plan: Plan<P, E>) -> Self {
        self.handlers.push((phase, plan));
        self
    }

    /// How long a phase may take, pauses not counted.
    #[must_use]
    pub fn deadline(mut self, phase: P, limit: Duration) -> Self {
        self.deadlines.push((phase, limit));
        self
    }

    /// Pauses between attempts and the like.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    fn edge(mut self, from: P, to: P, reason: Reason) -> Self {
        self.edges.push((from, to, reason));
        self
    }

    /// The machine, or everything that is wrong with it.
    pub fn build(self) -> Result<Machine<P, E>, Defects> {
        let mut defects = self.check_phases();
        defects.extend(self.check_tables());
        defects.extend(self.check_ways());
        defects.extend(self.check_plans());
        let initial = P::all().iter().copied().find(|phase| phase.kind() == PhaseKind::Initial);
        let Some(initial) = initial.filter(|_| defects.is_empty()) else {
            return Err(Defects { kind: self.kind, defects });
        };
        let graph = Graph::new(self.kind, &self.edges, &self.deadlines, &self.settings);
        let mut next = HashMap::new();
        for (from, to, reason) in &self.edges {
            next.entry((*from, *reason)).or_insert_with(Vec::new).push(*to);
        }
        Ok(Machine {
            kind: self.kind,
            initial,
            next,
            handlers: self.handlers.into_iter().collect(),
            deadlines: self.deadlines.into_iter().collect(),
            settings: self.settings,
            graph,
        })
    }

    /// One initial phase, no name twice, nothing unlisted.
    fn check_phases(&self) -> Vec<Defect> {
        let mut defects = Vec::new();
        let mut names = HashSet::new();
        let mut initial: Option<P> = None;
        for phase in P::all().iter().copied() {
            if !names.insert(phase.name()) {
                defects.push(Defect::DuplicateName(phase.name()));
            }
            if phase.kind() == PhaseKind::Initial {
                match initial {
                    Some(first) => defects.push(Defect::SecondInitial(phase.name(), first.name())),
                    None => initial = Some(phase),
                }
            }
        }
        if initial.is_none() {
            defects.push(Defect::NoInitial);
        }
        let used = self.edges.iter().flat_map(|(from, to, _)| [*from, *to]);
        let used = used.chain(self.handlers.iter().map(|(phase, _)| *phase));
        let used = used.chain(self.deadlines.iter().map(|(phase, _)| *phase));
        let mut unlisted = HashSet::new();
        for phase in used.filter(|phase| !P::all().contains(phase)) {
            if unlisted.insert(phase) {
                defects.push(Defect::Unlisted(format!("{phase:?}")));
            }
        }
        defects
    }

    /// One entry per phase and table, none for a terminal phase, all that are needed.
    fn check_tables(&self) -> Vec<Defect> {
        let mut defects = Vec::new();
        for phase in P::all().iter().copied() {
            let name = phase.name();
            let leads = |reason| self.edges.iter().filter(|(from, _, why)| *from == phase && *why == reason).count();
            let tables = [
                ("success", leads(Reason::Success)),
                ("failure", leads(Reason::Failure)),
                ("cancel", leads(Reason::Cancel)),
                ("handler", self.handlers.iter().filter(|(of, _)| *of == phase).count()),
                ("deadline", self.deadlines.iter().filter(|(of, _)| *of == phase).count()),
            ];
            for (table, count) in tables {
                if phase.kind().is_terminal() && count > 0 {
                    defects.push(Defect::AfterTheEnd { phase: name, table });
                } else if count > 1 {
                    defects.push(Defect::Duplicate { phase: name, table });
                } else if !phase.kind().is_terminal() && count == 0 {
                    match table {
                        "success" | "failure" => defects.push(Defect::DeadEnd { phase: name, table }),
                        "handler" => defects.push(Defect::NoHandler(name)),
                        _ => {}
                    }
                }
            }
            if phase.kind().is_terminal() && leads(Reason::Forced) > 0 {
                defects.push(Defect::AfterTheEnd { phase: name, table: "forced" });
            }
            if self.edges.iter().any(|(from, to, _)| *from == phase && *to == phase) {
                defects.push(Defect::SelfLoop(name));
            }
            if self.deadlines.iter().any(|(of, limit)| *of == phase && limit.is_zero()) {
                defects.push(Defect::NoTime(name));
            }
        }
        defects
    }

    /// Every phase can be reached from the initial one, and a terminal one from every phase.
    fn check_ways(&self) -> Vec<Defect> {
        let initial = P::all().iter().copied().filter(|phase| phase.kind() == PhaseKind::Initial);
        let reached = self.closure(initial, |(from, to, _)| (*from, *to));
        let ends = P::all().iter().copied().filter(|phase| phase.kind().is_terminal());
        let ending = self.closure(ends, |(from, to, _)| (*to, *from));
        let mut defects = Vec::new();
        for phase in P::all().iter().copied() {
            if !reached.contains(&phase) {
                defects.push(Defect::Unreachable(phase.name()));
            }
            // A phase without any way out was reported as such already.
            if !ending.contains(&phase) && self.edges.iter().any(|(from, _, _)| *from == phase) {
                defects.push(Defect::NoEnd(phase.name()));
            }
        }
        defects
    }

    fn closure(&self, start: impl Iterator<Item = P>, way: impl Fn(&(P, P, Reason)) -> (P, P)) -> HashSet<P> {
        let mut seen: HashSet<P> = start.collect();
        let mut open: Vec<P> = seen.iter().copied().collect();
        while let Some(at) = open.pop() {
            for (_, to) in self.edges.iter().map(&way).filter(|(from, _)| *from == at) {
                if seen.insert(to) {
                    open.push(to);
                }
            }
        }
        seen
    }

    fn check_plans(&self) -> Vec<Defect> {
        let mut defects = Vec::new();
        for (phase, plan) in &self.handlers {
            check_plan(plan, phase.name().to_owned(), &mut defects);
        }
        defects
    }
}

fn check_plan<P: Phase, E: Send + Sync + 'static>(plan: &Plan<P, E>, path: String, defects: &mut Vec<Defect>) {
    if plan.parts().is_empty() && !matches!(plan.shape, Shape::One(_)) {
        defects.push(Defect::Empty(path.clone()));
    }
    let mut names = HashSet::new();
    for (name, part) in plan.parts() {
        let path = format!("{path}/{name}");
        if !names.insert(*name) {
            defects.push(Defect::DuplicatePart(path.clone()));
        }
        check_plan(part, path, defects);
    }
}
