//! Runs fuzz targets for a time: `muster-fuzz <target|all> [seconds] [seed]`.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use muster_fuzz::runner::{Limit, run};
use muster_fuzz::{TARGETS, Target};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wanted = arguments.first().map_or("all", String::as_str);
    let targets: Vec<(&str, Target)> =
        TARGETS.iter().filter(|(name, _)| wanted == "all" || *name == wanted).copied().collect();
    let seconds = arguments.get(1).map_or(Ok(10), |text| text.parse());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let seed = arguments.get(2).map_or(Ok(now), |text| text.parse());
    let (Ok(seconds), Ok(seed), false) = (seconds, seed, targets.is_empty()) else {
        let known: Vec<_> = TARGETS.iter().map(|(name, _)| *name).collect();
        eprintln!("usage: muster-fuzz <target|all> [seconds] [seed]\ntargets: {}", known.join(" "));
        return ExitCode::from(2);
    };
    for (name, target) in targets {
        match run(name, target, seed, Limit::Time(Duration::from_secs(seconds))) {
            Ok(Ok(count)) => eprintln!("{name}: {count} inputs, seed {seed}"),
            Ok(Err(failure)) => {
                let file = format!("fuzz-{name}-failure");
                eprintln!("{name}: failed on {}: {}", failure.origin, failure.input.escape_ascii());
                match std::fs::write(&file, &failure.input) {
                    Ok(()) => eprintln!("input kept in {file}; it belongs into tests/fuzz/corpus/{name}/"),
                    Err(error) => eprintln!("cannot keep the input in {file}: {error}"),
                }
                return ExitCode::FAILURE;
            }
            Err(error) => {
                eprintln!("{name}: cannot read the corpus: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
