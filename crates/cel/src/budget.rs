//! How much work evaluations may still do, in the cost units of the Kubernetes API server.

/// Two limits at once: one for each evaluation, one for all that share the budget.
#[derive(Clone, Debug)]
pub struct Budget {
    per_call: u64,
    remaining: u64,
}

impl Budget {
    pub fn new(per_call: u64, total: u64) -> Self {
        Self { per_call, remaining: total }
    }

    /// What is left for all further evaluations.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    pub(crate) fn per_call(&self) -> u64 {
        self.per_call
    }

    /// What the next evaluation may cost.
    pub(crate) fn limit(&self) -> u64 {
        self.per_call.min(self.remaining)
    }

    pub(crate) fn charge(&mut self, cost: u64) {
        self.remaining = self.remaining.saturating_sub(cost);
    }
}
