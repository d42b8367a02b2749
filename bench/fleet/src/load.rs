//! Load on the REST API: as much as it takes, or so many requests a second whatever it takes.

use std::cell::Cell;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::time::{Instant, sleep_until};

use crate::Failure;
use crate::wire::{Door, Wire};

/// What a run of requests gave.
#[derive(Clone, Default)]
pub struct Run {
    pub seconds: f64,
    pub bytes: usize,
    /// In microseconds, sorted.
    took: Vec<u32>,
}

impl Run {
    pub fn new(mut took: Vec<u32>, begun: Instant, bytes: usize) -> Run {
        took.sort_unstable();
        Run { seconds: begun.elapsed().as_secs_f64(), bytes, took }
    }

    /// Its requests too, made after or beside these.
    pub fn add(&mut self, other: &Run) {
        self.seconds += other.seconds;
        self.bytes += other.bytes;
        self.took.extend(&other.took);
        self.took.sort_unstable();
    }

    pub fn count(&self) -> usize {
        self.took.len()
    }

    pub fn per_second(&self) -> f64 {
        self.took.len() as f64 / self.seconds
    }

    /// In milliseconds; the part 1 is the slowest.
    pub fn percentile(&self, part: f64) -> f64 {
        let at = ((self.took.len() as f64 * part) as usize).min(self.took.len().saturating_sub(1));
        self.took.get(at).map_or(f64::NAN, |micros| f64::from(*micros) / 1000.0)
    }

    pub fn mean_bytes(&self) -> usize {
        self.bytes / self.took.len().max(1)
    }
}

pub fn micros(since: Instant) -> u32 {
    u32::try_from(since.elapsed().as_micros()).unwrap_or(u32::MAX)
}

async fn wires(door: &Door, count: usize) -> Result<Vec<Wire>, Failure> {
    try_join_all((0..count).map(|_| Wire::connect(door.address))).await
}

/// Each connection asks again as soon as it has its answer.
pub async fn full(door: &Door, requests: &[Vec<u8>], connections: usize, time: Duration) -> Result<Run, Failure> {
    let mut wires = wires(door, connections).await?;
    let (next, bytes, begun) = (&Cell::new(0usize), &Cell::new(0usize), Instant::now());
    let work = wires.iter_mut().map(|wire| async move {
        let mut took = Vec::new();
        while begun.elapsed() < time {
            let sent = Instant::now();
            let read = wire.good(&requests[next.replace(next.get() + 1) % requests.len()]).await?.len();
            took.push(micros(sent));
            bytes.set(bytes.get() + read);
        }
        Ok::<_, Failure>(took)
    });
    let took = try_join_all(work).await?.concat();
    Ok(Run::new(took, begun, bytes.get()))
}

/// Whom to ask, and what.
pub struct Side<'a> {
    pub door: &'a Door,
    pub requests: &'a [Vec<u8>],
}

/// So many requests a second, each at its time and each to the next side. One whose connection is still busy then counts from its time, not
/// from when it was sent. A run for each side.
pub async fn steady(
    sides: &[Side<'_>],
    connections: usize,
    per_second: f64,
    time: Duration,
) -> Result<Vec<Run>, Failure> {
    // A connection always asks the same side.
    let connections = connections.next_multiple_of(sides.len());
    let mut wires = try_join_all((0..connections).map(|i| Wire::connect(sides[i % sides.len()].door.address))).await?;
    let begun = Instant::now();
    let all = (per_second * time.as_secs_f64()) as usize;
    let work = wires.iter_mut().enumerate().map(|(first, wire)| async move {
        let requests = sides[first % sides.len()].requests;
        let (mut took, mut bytes) = (Vec::new(), 0);
        for at in (first..all).step_by(connections) {
            let due = begun + Duration::from_secs_f64(at as f64 / per_second);
            // The clock of sleeps ticks in milliseconds: who slept counts from waking.
            let sent = if Instant::now() < due {
                sleep_until(due).await;
                Instant::now()
            } else {
                due
            };
            bytes += wire.good(&requests[at / sides.len() % requests.len()]).await?.len();
            took.push(micros(sent));
        }
        Ok::<_, Failure>(Run::new(took, begun, bytes))
    });
    let of_wires = try_join_all(work).await?;
    let of_side = |side: usize| {
        let mut whole = Run::default();
        of_wires.iter().skip(side).step_by(sides.len()).for_each(|run| whole.add(run));
        Run { seconds: begun.elapsed().as_secs_f64(), ..whole }
    };
    Ok((0..sides.len()).map(of_side).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn percentiles_are_of_the_sorted_run() {
        let run = Run::new((1..=1000).rev().collect(), Instant::now(), 5000);
        assert_eq!((run.count(), run.mean_bytes()), (1000, 5));
        assert_eq!((run.percentile(0.0), run.percentile(0.99), run.percentile(1.0)), (0.001, 0.991, 1.0));
        assert!(Run::default().percentile(0.5).is_nan());
    }
}
