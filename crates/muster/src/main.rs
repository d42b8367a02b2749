//! The binary: reads the command line, wires the rooms together, says what went wrong.

mod apiext;
mod backup;
mod cli;
mod client;
mod controller;
mod crds;
mod duration;
mod hub;
mod inspect;
mod key;
mod logging;
mod members;
mod new;
mod paths;
mod phase;
mod problem;
mod server;
mod serving;
mod show;
mod signals;
mod simulate;
mod storage;
mod token;
mod up;
mod upkeep;
mod wire;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command, asked};
use problem::Problem;

#[global_allocator]
static ALLOCATOR: heap::Heap = heap::Heap;

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(code) => ExitCode::from(code),
        Err(problem) => {
            eprintln!("{problem}");
            problem.exit_code()
        }
    }
}

/// Runs a command; the answer is its exit code.
fn run(command: Command) -> Result<u8, Problem> {
    let outcome = match command {
        Command::Exec(flags) => return asked::run(cli::exec::run(*flags)),
        Command::Terminal(flags) => return asked::run(cli::terminal::run(*flags)),
        Command::Complete(flags) => return asked::run(cli::complete::run(flags)),
        Command::Cluster(command) => asked::run(cli::cluster::run(command)),
        Command::Pods(flags) => asked::run(cli::lists::pods(*flags)),
        Command::Endpoints(flags) => asked::run(cli::lists::endpoints(*flags)),
        Command::Releases(flags) => asked::run(cli::lists::releases(*flags)),
        Command::Events(flags) => asked::run(cli::lists::events(*flags)),
        Command::Logs(flags) => asked::run(cli::logs::run(*flags)),
        Command::Restart(flags) => asked::run(cli::restart::run(*flags)),
        Command::Console(flags) => cli::console::run(flags),
        Command::Up(flags) => up::run(*flags),
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
        Command::Completion { shell } => say(&cli::complete::script(shell)),
    };
    outcome.map(|()| 0)
}

/// To standard output; a reader that went away (`| head`) is no failure.
fn say(text: &str) -> Result<(), Problem> {
    use std::io::Write;
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    Ok(())
}
