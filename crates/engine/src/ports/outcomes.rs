//! How often which kind of operation went well: what confidence is made of.

use serde::{Deserialize, Serialize};

use super::Result;

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationOutcome {
    Success,
    Failure,
}

/// How an operation ended so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OutcomeCounts {
    pub successes: u64,
    pub failures: u64,
}

impl OutcomeCounts {
    /// The share of successes; `None` before the first outcome.
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
    /// Counts one outcome and answers with the counts including it. Counting queues up behind
    /// others who count the same operation, until their writes end: who also holds a plan holds it
    /// before counting, and takes its stream after.
    fn count_outcome(
        &mut self,
        operation: &str,
        outcome: OperationOutcome,
    ) -> Result<OutcomeCounts>;

    /// The counts so far; an operation nobody counted has none.
    fn outcome_counts(&mut self, operation: &str) -> Result<OutcomeCounts>;
}
