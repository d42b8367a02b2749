//! The stable runner: a target's corpus, then mutated inputs until a limit; the first failure is reported with its input.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::Target;
use crate::mutate::{Random, mutated};

#[derive(Debug, Clone, Copy)]
pub enum Limit {
    Inputs(u64),
    Time(Duration),
}

/// An input on which a target panicked.
#[derive(Debug)]
pub struct Failure {
    pub input: Vec<u8>,
    /// Where it came from: a corpus file, or seed and number of the mutation.
    pub origin: String,
}

/// Runs a target; returns how many inputs it took.
pub fn run(name: &str, target: Target, seed: u64, limit: Limit) -> std::io::Result<Result<u64, Failure>> {
    let mut corpus = Vec::new();
    for (path, input) in corpus_of(name)? {
        if !holds(target, &input) {
            return Ok(Err(Failure { input, origin: path.display().to_string() }));
        }
        corpus.push(input);
    }
    let start = Instant::now();
    let mut random = Random(seed);
    let mut count = 0;
    loop {
        let done = match limit {
            Limit::Inputs(inputs) => count >= inputs,
            Limit::Time(time) => count % 256 == 0 && start.elapsed() >= time,
        };
        if done {
            return Ok(Ok(count + corpus.len() as u64));
        }
        let input = mutated(&corpus, &mut random);
        if !holds(target, &input) {
            return Ok(Err(Failure { input, origin: format!("seed {seed}, mutation {count}") }));
        }
        count += 1;
    }
}

fn holds(target: Target, input: &[u8]) -> bool {
    catch_unwind(AssertUnwindSafe(|| target(input))).is_ok()
}

/// The committed inputs of a target, sorted by file name so that a seed means the same everywhere.
fn corpus_of(name: &str) -> std::io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let input = std::fs::read(&path)?;
        files.push((path, input));
    }
    files.sort();
    Ok(files)
}
