//! `muster cluster cleanups`: what is still to be removed from members that could not be asked.

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    cluster::agreed,
    gateway::{Server, Url},
    view::{Column, Listing, Output, text},
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
    listing.print(&rows, &columns(Timestamp::now()))?;
    // For people alone: whoever reads JSON knows what the words mean.
    let owed = rows.items.iter().any(|row| text(row, "/state") == "Owed");
    if owed && matches!(listing.output, None | Some(Output::Wide)) {
        eprintln!(
            "Owed: what these owners, which are gone, left on the cluster. It is removed by itself when the cluster answers again.\n\
             To let it stay there instead: muster cluster cleanups abandon CLUSTER ID --reason TEXT"
        );
    }
    Ok(())
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

/// Whose objects they were: `AppSet shop/web`.
fn owner(row: &Value) -> String {
    let (namespace, name) = (text(row, "/namespace"), text(row, "/name"));
    let place = if namespace.is_empty() { name } else { format!("{namespace}/{name}") };
    format!("{} {place}", text(row, "/kind"))
}

/// "TIME by WHO: WHY", with the time as people read it.
fn given_up(said: &str, now: Timestamp) -> String {
    match said.split_once(' ') {
        Some((time, rest)) if time.parse::<Timestamp>().is_ok() => format!("{} ago {rest}", age(time, now)),
        _ => said.to_owned(),
    }
}

fn columns(now: Timestamp) -> Vec<Column> {
    vec![
        Column::at("CLUSTER", "/cluster").shrinks(),
        Column::at("ID", "/id"),
        Column::by("OWNER", owner).shrinks(),
        Column::at("STATE", "/state"),
        Column::by("SINCE", move |row| age(&text(row, "/since"), now)),
        Column::by("GIVEN UP", move |row| given_up(&text(row, "/abandoned"), now)).shrinks(),
        Column::at("UID", "/uid").wide(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_whose_objects_they_were_and_who_gave_them_up() {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        assert_eq!(owner(&json!({"kind": "AppSet", "namespace": "shop", "name": "web"})), "AppSet shop/web");
        assert_eq!(owner(&json!({"kind": "Cluster", "name": "web"})), "Cluster web");
        let said = "2026-01-01T00:00:00.480672286Z by ann: shop keeps it";
        assert_eq!(given_up(said, now), "60m ago by ann: shop keeps it");
        assert_eq!(given_up("by ann: shop keeps it", now), "by ann: shop keeps it");
        assert_eq!(given_up("", now), "");
    }
}
