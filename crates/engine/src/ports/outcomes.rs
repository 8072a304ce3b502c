//! Counts of successful and failed operations, an input of the confidence.

use serde::{Deserialize, Serialize};

use super::Result;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationOutcome {
    Success,
    Failure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OutcomeCounts {
    pub successes: u64,
    pub failures: u64,
}

impl OutcomeCounts {
    /// Returns the share of successes; `None` before the first outcome.
    pub fn success_rate(self) -> Option<f64> {
        let all = self.successes.saturating_add(self.failures);
        #[expect(
            clippy::cast_precision_loss,
            reason = "a rate needs no more digits than a double has"
        )]
        (all > 0).then(|| self.successes as f64 / all as f64)
    }
}

pub trait Outcomes {
    /// Counts one outcome and returns the counts including it. The row of the operation is locked
    /// until the transaction ends. Lock order: plan, then this row, then the stream.
    fn count_outcome(
        &mut self,
        operation: &str,
        outcome: OperationOutcome,
    ) -> Result<OutcomeCounts>;

    /// Returns the counts so far; all zero for an unknown operation.
    fn outcome_counts(&mut self, operation: &str) -> Result<OutcomeCounts>;
}
