//! `muster cluster cleanups`: what is still to be removed from members that could not be asked.

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::json;

use super::{
    cluster::agreed,
    gateway::{Server, Url},
    view::{Column, Listing, text},
    words::age,
};
use crate::{
    problem::{Kind, Problem},
    say,
};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Cleanups {
    /// Only of this member
    name: Option<String>,
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    listing: Listing,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Give one up: what is on the member stays there; who and why is written down
    Abandon {
        /// The member
        name: String,
        /// Whose objects: the ID of the list
        id: String,
        /// Why they may stay
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
        #[command(flatten)]
        server: Server,
    },
}

pub async fn run(flags: Cleanups) -> Result<(), Problem> {
    let Cleanups { name, command, listing, server } = flags;
    if let Some(command) = command {
        return abandon(command).await;
    }
    let url = Url::of(&["api", "cluster", name.as_deref().unwrap_or("all"), "cleanups"]);
    let rows = listing.rows(&server.gateway()?, url).await?;
    listing.print(&rows, &columns(Timestamp::now()))
}

async fn abandon(command: Command) -> Result<(), Problem> {
    let Command::Abandon { name, id, reason, yes, server } = command;
    let gateway = server.gateway()?;
    if !yes && !agreed(&format!("Leave on {name} what was to be removed from it?"))? {
        return Err(Problem::new(Kind::Failed, "nothing was done", "you did not say yes"));
    }
    let url = Url::of(&["api", "cluster", &name, "cleanups", &id, "abandon"]);
    gateway.post(&url, Some(&json!({"reason": reason}))).await?;
    say(&format!("cleanup/{id} of cluster/{name} given up\n"))
}

fn columns(now: Timestamp) -> Vec<Column> {
    vec![
        Column::at("CLUSTER", "/cluster").shrinks(),
        Column::at("ID", "/id"),
        Column::at("KIND", "/kind"),
        Column::at("NAMESPACE", "/namespace").shrinks(),
        Column::at("NAME", "/name").shrinks(),
        Column::at("STATE", "/state"),
        Column::by("SINCE", move |row| age(&text(row, "/since"), now)),
        Column::at("GIVEN UP", "/abandoned").shrinks(),
        Column::at("UID", "/uid").wide(),
    ]
}
