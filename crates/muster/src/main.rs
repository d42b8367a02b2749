//! The binary: reads the command line, wires the rooms together, says what went wrong.

mod apiext;
mod backup;
mod cli;
mod client;
mod controller;
mod crds;
mod duration;
mod hub;
mod key;
mod logging;
mod new;
mod paths;
mod phase;
mod problem;
mod server;
mod show;
mod signals;
mod simulate;
mod storage;
mod token;
mod upkeep;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use cli::{Cli, Command};
use problem::Problem;

#[global_allocator]
static ALLOCATOR: heap::Heap = heap::Heap;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Apiserver(flags) => server::run(*flags),
        Command::Hub(flags) => hub::run(*flags),
        Command::Reconciler(flags) => hub::run_one(*flags),
        Command::Controller(command) => controller::run(command),
        Command::Crds(command) => crds::run(command),
        Command::Phase(command) => phase::run(command),
        Command::Simulate(flags) => simulate::run(flags),
        Command::New(command) => new::run(command),
        Command::Backup(command) => backup::run(command),
        Command::Key(command) => key::run(command),
        Command::Token(command) => token::run(command),
        Command::Version(flags) => say(&cli::version(flags.output)),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "muster", &mut script);
            say(&String::from_utf8_lossy(&script))
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            problem.exit_code()
        }
    }
}

/// To standard output; a reader that went away (`| head`) is no failure.
fn say(text: &str) -> Result<(), Problem> {
    use std::io::Write;
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    Ok(())
}
