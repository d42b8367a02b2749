//! `muster phase graph KIND`: a phase machine as a picture.

use clap::{Subcommand, ValueEnum};

use crate::{
    hub,
    problem::{Kind, Problem},
    say,
};

#[derive(Debug, Subcommand)]
pub enum Phase {
    /// Draw the phases of a kind and the ways between them
    Graph {
        /// The kind, or the name of its reconciler
        kind: String,
        #[arg(short, long, value_enum, default_value = "mermaid")]
        output: Picture,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Picture {
    Mermaid,
    Dot,
}

pub fn run(command: Phase) -> Result<(), Problem> {
    let Phase::Graph { kind, output } = command;
    let registry = hub::registry();
    let meant = |registration: &&runtime::Registration| {
        [&registration.kind, &registration.name].iter().any(|name| name.eq_ignore_ascii_case(&kind))
    };
    let graph = registry.iter().find(meant).and_then(|registration| registration.graph.as_ref()).ok_or_else(|| {
        let known: Vec<&str> = registry.graphs().map(|graph| graph.kind).collect();
        Problem::new(
            Kind::NotFound,
            format!("there is no phase machine of {kind}"),
            format!("there are {}", known.join(", ")),
        )
    })?;
    say(&match output {
        Picture::Mermaid => graph.mermaid(),
        Picture::Dot => graph.dot(),
    })
}
