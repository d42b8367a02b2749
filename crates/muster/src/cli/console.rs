//! `muster console`: where the console of this user's `muster up` is.

use std::path::PathBuf;

use clap::Args;

use crate::{
    paths::DataDir,
    problem::{Kind, Problem},
    say,
    up::Door,
};

#[derive(Debug, Args)]
pub struct Where {
    /// Directory of muster up [default: ~/.muster]
    #[arg(long, env = "MUSTER_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

/// The address; while there is no administrator yet, the link that makes one.
pub fn run(flags: Where) -> Result<(), Problem> {
    let dir = DataDir::of_user(flags.data_dir)?;
    let door = Door::read(dir.root())?.ok_or_else(|| {
        let why = format!("no muster up left its address in {}", dir.root().display());
        Problem::new(Kind::NotFound, "there is no console", why).next("start one: muster up --demo")
    })?;
    say(&format!("{}\n", door.setup.or(door.console).unwrap_or(door.server)))
}
