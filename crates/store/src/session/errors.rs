//! Store operations on plans' errors. One statement inserts a new error or counts a known one, so
//! no occurrence is lost.

use cleveragents_domain::ErrorRecord;
use cleveragents_domain::id::PlanId;
use cleveragents_engine::ports::{ErrorRecords, Result, StoreError};

use super::StoreSession;
use super::rows::{decode_count, decode_entity, hash_text, to_json_body};
use crate::value::{SqlRow, params};

impl ErrorRecords for StoreSession<'_> {
    fn record_error(&mut self, error: &ErrorRecord) -> Result<ErrorRecord> {
        self.lock_plan_stream(error.plan_id)?;
        let occurrences = i64::try_from(error.occurrences).map_err(StoreError::internal)?;
        let row = self.find(
            "INSERT INTO errors (id, plan_id, identity, sequence, occurrences, body) \
             VALUES (?1, ?2, ?3, \
             (SELECT coalesce(max(sequence), 0) + 1 FROM errors WHERE plan_id = ?2), ?4, ?5) \
             ON CONFLICT (plan_id, identity) DO UPDATE SET \
             occurrences = errors.occurrences + excluded.occurrences, body = excluded.body \
             RETURNING id, sequence, occurrences, body",
            params![
                error.id.to_string(),
                error.plan_id.to_string(),
                hash_text(&error.identity_key()),
                occurrences,
                to_json_body(error)?,
            ],
        )?;
        error_from_row(&row.ok_or_else(|| StoreError::internal("a recorded error vanished"))?)
    }

    fn errors_of(&mut self, plan: PlanId, after: i64, limit: u32) -> Result<Vec<ErrorRecord>> {
        let rows = self.query(
            "SELECT id, sequence, occurrences, body FROM errors \
             WHERE plan_id = ?1 AND sequence > ?2 ORDER BY sequence LIMIT ?3",
            params![plan.to_string(), after, i64::from(limit)],
        )?;
        rows.iter().map(error_from_row).collect()
    }
}

/// The newest occurrence, with the id and number of the first.
fn error_from_row(row: &SqlRow) -> Result<ErrorRecord> {
    let mut error: ErrorRecord = decode_entity(row, 3)?;
    error.id = row.parsed(0)?;
    error.sequence = Some(row.integer(1)?);
    error.occurrences = decode_count(row, 2)?;
    Ok(error)
}
