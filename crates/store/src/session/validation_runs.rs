//! Store operations on validation results.

use cleveragents_domain::id::PlanId;
use cleveragents_engine::ports::{Result, ValidationRuns};
use serde_json::Value as Json;

use super::StoreSession;
use super::rows::{decode_entity, to_json_body};
use crate::value::params;

impl ValidationRuns for StoreSession<'_> {
    fn put_validation_run(
        &mut self,
        plan: PlanId,
        attempt: u32,
        round: u32,
        summary: &Json,
    ) -> Result<()> {
        self.lock_plan(plan)?;
        self.execute(
            "INSERT INTO validation_runs (plan_id, attempt, round, summary, stored_at) \
             VALUES (?1, ?2, ?3, ?4, now_micros()) \
             ON CONFLICT (plan_id, attempt, round) DO UPDATE \
             SET summary = excluded.summary, stored_at = excluded.stored_at",
            params![
                plan.to_string(),
                i64::from(attempt),
                i64::from(round),
                to_json_body(summary)?,
            ],
        )?;
        Ok(())
    }

    fn newest_validation_run(&mut self, plan: PlanId, attempt: u32) -> Result<Option<Json>> {
        let row = self.find(
            "SELECT summary FROM validation_runs WHERE plan_id = ?1 AND attempt = ?2 \
             ORDER BY round DESC LIMIT 1",
            params![plan.to_string(), i64::from(attempt)],
        )?;
        row.map(|row| decode_entity(&row, 0)).transpose()
    }
}
