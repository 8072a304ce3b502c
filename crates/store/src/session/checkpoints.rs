//! Store operations on checkpoints: numbered without gaps; the oldest are deleted when there are
//! too many.

use cleveragents_domain::checkpoint::Checkpoint;
use cleveragents_domain::id::{CheckpointId, IdFragment, PlanId};
use cleveragents_engine::ports::{CheckpointRecords, Result, StoreError};

use super::StoreSession;
use super::rows::{ambiguous_error, decode_entity, not_found_error, to_json_body};
use crate::value::{SqlRow, params};

const COLUMNS: &str = "body, number, undone_by";

impl CheckpointRecords for StoreSession<'_> {
    fn insert_checkpoint(&mut self, checkpoint: &Checkpoint, keep: u32) -> Result<i64> {
        let plan = checkpoint.plan_id.to_string();
        self.lock_plan_stream(checkpoint.plan_id)?;
        let row = self.find(
            "INSERT INTO checkpoints (id, plan_id, number, undone_by, body) VALUES (?1, ?2, \
             (SELECT coalesce(max(number), 0) + 1 FROM checkpoints WHERE plan_id = ?2), \
             ?3, ?4) ON CONFLICT (id) DO NOTHING RETURNING number",
            params![
                checkpoint.id.to_string(),
                &plan,
                checkpoint.undone_by.map(|by| by.to_string()),
                to_json_body(checkpoint)?,
            ],
        )?;
        let Some(row) = row else {
            return Err(StoreError::Taken {
                what: "the checkpoint id",
                name: checkpoint.id.to_string(),
                holder: "another checkpoint".to_owned(),
            });
        };
        let number = row.integer(0)?;
        // The newest always stays, because the next number is derived from it.
        self.execute(
            "DELETE FROM checkpoints WHERE plan_id = ?1 AND number <= ?2",
            params![&plan, number - i64::from(keep.max(1))],
        )?;
        Ok(number)
    }

    fn find_checkpoint(&mut self, plan: PlanId, fragment: &IdFragment) -> Result<Checkpoint> {
        let number: Option<i64> = fragment.as_str().parse().ok();
        // A plan keeps few checkpoints, so they are filtered in memory.
        let mut found = self.checkpoints_of(plan)?;
        found.retain(|checkpoint| {
            Some(checkpoint.number) == number || fragment.matches(&checkpoint.id.to_string())
        });
        if found.len() > 1 {
            let shown = |it: &Checkpoint| format!("{} (number {})", it.id, it.number);
            return Err(ambiguous_error(fragment, found.iter().map(shown).collect()));
        }
        found
            .pop()
            .ok_or_else(|| not_found_error("checkpoint of this plan", fragment.as_str()))
    }

    fn checkpoints_of(&mut self, plan: PlanId) -> Result<Vec<Checkpoint>> {
        let sql = format!("SELECT {COLUMNS} FROM checkpoints WHERE plan_id = ?1 ORDER BY number");
        let rows = self.query(&sql, params![plan.to_string()])?;
        rows.iter().map(checkpoint_from_row).collect()
    }

    fn newest_checkpoint(&mut self, plan: PlanId) -> Result<Option<Checkpoint>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM checkpoints WHERE plan_id = ?1 ORDER BY number DESC LIMIT 1"
        );
        let row = self.find(&sql, params![plan.to_string()])?;
        row.map(|row| checkpoint_from_row(&row)).transpose()
    }

    fn redo(&mut self, plan: PlanId, by: CheckpointId) -> Result<()> {
        self.lock_plan_stream(plan)?;
        for table in ["checkpoints", "tool_calls", "model_calls", "change_entries"] {
            let sql = format!(
                "UPDATE {table} SET undone_by = NULL WHERE plan_id = ?1 AND undone_by = ?2"
            );
            self.execute(&sql, params![plan.to_string(), by.to_string()])?;
        }
        Ok(())
    }

    fn undo_checkpoints(&mut self, plan: PlanId, number: i64, by: CheckpointId) -> Result<u64> {
        self.lock_plan_stream(plan)?;
        self.execute(
            "UPDATE checkpoints SET undone_by = ?3 \
             WHERE plan_id = ?1 AND number > ?2 AND undone_by IS NULL",
            params![plan.to_string(), number, by.to_string()],
        )
    }
}

fn checkpoint_from_row(row: &SqlRow) -> Result<Checkpoint> {
    let mut checkpoint: Checkpoint = decode_entity(row, 0)?;
    checkpoint.number = row.integer(1)?;
    checkpoint.undone_by = row.optional_parsed(2)?;
    Ok(checkpoint)
}
