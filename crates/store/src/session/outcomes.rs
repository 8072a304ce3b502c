//! Store operations on outcomes. One statement increments, so no count is lost.

use cleveragents_engine::ports::{OperationOutcome, OutcomeCounts, Outcomes, Result, StoreError};

use super::StoreSession;
use super::rows::decode_count;
use crate::value::{SqlRow, params};

impl Outcomes for StoreSession<'_> {
    fn count_outcome(
        &mut self,
        operation: &str,
        outcome: OperationOutcome,
    ) -> Result<OutcomeCounts> {
        let (success, failure) = match outcome {
            OperationOutcome::Success => (1_i64, 0_i64),
            OperationOutcome::Failure => (0, 1),
        };
        let row = self.find(
            "INSERT INTO outcomes (operation, successes, failures) VALUES (?1, ?2, ?3) \
             ON CONFLICT (operation) DO UPDATE SET \
             successes = outcomes.successes + excluded.successes, \
             failures = outcomes.failures + excluded.failures \
             RETURNING successes, failures",
            params![operation, success, failure],
        )?;
        counts_from_row(&row.ok_or_else(|| StoreError::internal("a counted outcome vanished"))?)
    }

    fn outcome_counts(&mut self, operation: &str) -> Result<OutcomeCounts> {
        let row = self.find(
            "SELECT successes, failures FROM outcomes WHERE operation = ?1",
            params![operation],
        )?;
        row.map_or_else(|| Ok(OutcomeCounts::default()), |row| counts_from_row(&row))
    }
}

fn counts_from_row(row: &SqlRow) -> Result<OutcomeCounts> {
    Ok(OutcomeCounts {
        successes: decode_count(row, 0)?,
        failures: decode_count(row, 1)?,
    })
}
