//! The verbs of outcomes: one statement counts, so no count is lost.

use cleveragents_engine::ports::{Outcome, OutcomeCounts, Outcomes, Result, StoreError};

use super::Session;
use super::rows::count_in;
use crate::value::{Row, params};

impl Outcomes for Session<'_> {
    fn count_outcome(&mut self, operation: &str, outcome: Outcome) -> Result<OutcomeCounts> {
        let (success, failure) = match outcome {
            Outcome::Success => (1_i64, 0_i64),
            Outcome::Failure => (0, 1),
        };
        let row = self.find(
            "INSERT INTO outcomes (operation, successes, failures) VALUES (?1, ?2, ?3) \
             ON CONFLICT (operation) DO UPDATE SET \
             successes = outcomes.successes + excluded.successes, \
             failures = outcomes.failures + excluded.failures \
             RETURNING successes, failures",
            params![operation, success, failure],
        )?;
        counts_of(&row.ok_or_else(|| StoreError::internal("a counted outcome vanished"))?)
    }

    fn outcome(&mut self, operation: &str) -> Result<OutcomeCounts> {
        let row = self.find(
            "SELECT successes, failures FROM outcomes WHERE operation = ?1",
            params![operation],
        )?;
        row.map_or_else(|| Ok(OutcomeCounts::default()), |row| counts_of(&row))
    }
}

fn counts_of(row: &Row) -> Result<OutcomeCounts> {
    Ok(OutcomeCounts {
        successes: count_in(row, 0)?,
        failures: count_in(row, 1)?,
    })
}
