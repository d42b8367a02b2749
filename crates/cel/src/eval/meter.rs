//! What an evaluation has cost so far.

use crate::error::EvalError;
use crate::value::Evaluated;

/// Steps of work the cost model does not see (a deep comparison costs one unit there), per unit of cost.
const STEPS_PER_UNIT: u64 = 10;
/// Steps that count for nothing: small work costs what the API server says it costs.
const FREE_STEPS: u64 = 50_000;
/// Bytes an evaluation may set up, per step.
const BYTES_PER_STEP: usize = 4;

/// Counts cost as the API server does, and beside it the work actually done. Neither may pass the limit, so evaluation is bounded
/// in time and memory whatever the expression.
#[derive(Debug)]
pub(crate) struct Meter {
    cost: u64,
    steps: u64,
    limit: u64,
}

impl Meter {
    pub fn new(limit: u64) -> Self {
        Self { cost: 0, steps: 0, limit }
    }

    pub fn charge(&mut self, cost: u64) -> Evaluated<()> {
        self.cost = self.cost.saturating_add(cost);
        self.check()
    }

    pub fn step(&mut self, steps: usize) -> Evaluated<()> {
        self.steps = self.steps.saturating_add(steps as u64);
        self.check()
    }

    /// To be called before so much is set up.
    pub fn allocate(&mut self, bytes: usize) -> Evaluated<()> {
        self.step(bytes / BYTES_PER_STEP)
    }

    fn check(&self) -> Evaluated<()> {
        if self.spent() > self.limit { Err(EvalError::CostLimit { total: false }) } else { Ok(()) }
    }

    /// What the budget is charged.
    pub fn spent(&self) -> u64 {
        self.cost.max(self.steps.saturating_sub(FREE_STEPS) / STEPS_PER_UNIT)
    }
}
