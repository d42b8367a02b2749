//! A machine drawn: the phases and the ways between them, as Mermaid or DOT.

use std::{fmt::Write as _, time::Duration};

use super::{Phase, PhaseKind, machine::Settings};

/// Why one phase leads to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The handler was done.
    Success,
    /// The handler failed for good, or the deadline passed.
    Failure,
    /// The user cancelled.
    Cancel,
    /// The handler said so.
    Forced,
}

impl Reason {
    /// In one word.
    pub fn label(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Cancel => "cancel",
            Self::Forced => "forced",
        }
    }
}

/// A phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: &'static str,
    /// The part it plays.
    pub kind: PhaseKind,
    /// Whether a pause is honoured in it.
    pub pausable: bool,
    /// How long it may take.
    pub deadline: Option<Duration>,
}

/// A way from one phase to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// From here.
    pub from: &'static str,
    /// To here.
    pub to: &'static str,
    /// Then.
    pub reason: Reason,
}

/// The phases of a kind and the ways between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    /// The kind.
    pub kind: &'static str,
    /// In the order of the author.
    pub nodes: Vec<Node>,
    /// In the order of the tables.
    pub edges: Vec<Edge>,
    /// The pauses after vain attempts, from the first to the longest: a phase that is not terminal is tried again in place.
    pub retries: (Duration, Duration),
}

impl Graph {
    pub(super) fn new<P: Phase>(
        kind: &'static str,
        edges: &[(P, P, Reason)],
        deadlines: &[(P, Duration)],
        settings: &Settings,
    ) -> Self {
        let node = |phase: P| Node {
            name: phase.name(),
            kind: phase.kind(),
            pausable: phase.pausable(),
            deadline: deadlines.iter().find(|(of, _)| *of == phase).map(|(_, limit)| *limit),
        };
        let edge = |(from, to, reason): &(P, P, Reason)| Edge { from: from.name(), to: to.name(), reason: *reason };
        Self {
            kind,
            nodes: P::all().iter().copied().map(node).collect(),
            edges: edges.iter().map(edge).collect(),
            retries: (settings.backoff, settings.backoff_limit),
        }
    }

    /// As a Mermaid state diagram.
    pub fn mermaid(&self) -> String {
        let mut out = format!("---\ntitle: {}\n---\nstateDiagram-v2\n", self.kind);
        for (n, node) in self.nodes.iter().enumerate() {
            let _ = writeln!(out, "    state \"{}\" as p{n}", label(node, "<br/>").replace('"', "'"));
        }
        let id = |name| self.nodes.iter().position(|node| node.name == name).unwrap_or_default();
        for (n, _) in self.nodes.iter().enumerate().filter(|(_, node)| node.kind == PhaseKind::Initial) {
            let _ = writeln!(out, "    [*] --> p{n}");
        }
        for edge in &self.edges {
            let _ = writeln!(out, "    p{} --> p{}: {}", id(edge.from), id(edge.to), self.why(edge));
        }
        for (n, _) in self.nodes.iter().enumerate().filter(|(_, node)| !node.kind.is_terminal()) {
            let _ = writeln!(out, "    p{n} --> p{n}: {}", self.again());
        }
        for (n, _) in self.nodes.iter().enumerate().filter(|(_, node)| node.kind.is_terminal()) {
            let _ = writeln!(out, "    p{n} --> [*]");
        }
        out
    }

    /// In the language of Graphviz.
    pub fn dot(&self) -> String {
        let mut out =
            format!("digraph {} {{\n    rankdir=LR;\n    node [fontname=\"sans-serif\"];\n", quoted(self.kind));
        for node in &self.nodes {
            let shape = match node.kind {
                PhaseKind::Initial => "oval",
                PhaseKind::Normal => "box",
                PhaseKind::Succeeded => "doublecircle",
                PhaseKind::Failed => "doubleoctagon",
            };
            let _ = writeln!(out, "    {} [shape={shape}, label={}];", quoted(node.name), quoted(&label(node, "\n")));
        }
        for edge in &self.edges {
            let style = match edge.reason {
                Reason::Success => "solid",
                Reason::Failure => "dashed",
                Reason::Cancel | Reason::Forced => "dotted",
            };
            let (from, to, why) = (quoted(edge.from), quoted(edge.to), self.why(edge));
            let _ = writeln!(out, "    {from} -> {to} [label=\"{why}\", style={style}];");
        }
        for node in self.nodes.iter().filter(|node| !node.kind.is_terminal()) {
            let (name, why) = (quoted(node.name), self.again());
            let _ = writeln!(out, "    {name} -> {name} [label=\"{why}\", style=dotted];");
        }
        out.push_str("}\n");
        out
    }
}

impl Graph {
    /// What stands at an edge.
    fn why(&self, edge: &Edge) -> &'static str {
        let timed = self.nodes.iter().any(|node| node.name == edge.from && node.deadline.is_some());
        match edge.reason {
            Reason::Failure if timed => "failure or deadline",
            reason => reason.label(),
        }
    }

    /// What stands at the way from a phase to itself.
    fn again(&self) -> String {
        let (first, longest) = self.retries;
        format!("retry after {first:?} to {longest:?}")
    }
}

fn label(node: &Node, newline: &str) -> String {
    let mut label = node.name.to_owned();
    if let Some(limit) = node.deadline {
        let _ = write!(label, "{newline}within {limit:?}");
    }
    if node.pausable {
        let _ = write!(label, "{newline}can pause");
    }
    label
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
