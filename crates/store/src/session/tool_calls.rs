//! Store operations on tool calls: numbered when they start, ended once.

use cleveragents_domain::Timestamp;
use cleveragents_domain::id::{CheckpointId, PlanId, ToolCallId};
use cleveragents_domain::process::ProcessIdentity;
use cleveragents_domain::tool_call::{NewToolCall, ToolCallEnd, ToolCallRecord, ToolCallState};
use cleveragents_engine::ports::{Result, StoreError, ToolCalls};

use super::StoreSession;
use super::rows::{
    decode_count, decode_entity, decode_optional_entity, not_found_error, to_json_body,
};
use crate::value::{SqlRow, params};

const COLUMNS: &str =
    "body, number, state, process, output, error, tree_after, started_at, finished_at, undone_by";

/// A call has two versions: started and ended.
const STARTED_VERSION: i64 = 1;
const ENDED_VERSION: i64 = 2;

impl ToolCalls for StoreSession<'_> {
    fn begin_tool_call(&mut self, call: &NewToolCall) -> Result<ToolCallRecord> {
        self.lock_plan_stream(call.plan_id)?;
        self.check_sandbox_in_plan(call.plan_id, call.sandbox_id)?;
        let sql = format!(
            "INSERT INTO tool_calls (id, plan_id, number, sandbox_id, attempt, step, state, body, \
             started_at) VALUES (?1, ?2, \
             (SELECT coalesce(max(number), 0) + 1 FROM tool_calls WHERE plan_id = ?2), \
             ?3, ?4, ?5, ?6, ?7, now_micros()) ON CONFLICT (id) DO NOTHING RETURNING {COLUMNS}"
        );
        let row = self.find(
            &sql,
            params![
                call.id.to_string(),
                call.plan_id.to_string(),
                call.sandbox_id.to_string(),
                i64::from(call.attempt),
                call.step.map(i64::from),
                ToolCallState::Invoked.as_str(),
                to_json_body(call)?,
            ],
        )?;
        match row {
            Some(row) => tool_call_from_row(&row),
            None => Err(StoreError::Taken {
                what: "the tool call id",
                name: call.id.to_string(),
                holder: "another call".to_owned(),
            }),
        }
    }

    fn set_tool_call_process(&mut self, id: ToolCallId, process: &ProcessIdentity) -> Result<()> {
        let marked = self.execute(
            "UPDATE tool_calls SET process = ?2 WHERE id = ?1 AND state = ?3",
            params![
                id.to_string(),
                to_json_body(process)?,
                ToolCallState::Invoked.as_str(),
            ],
        )?;
        match marked {
            1 => Ok(()),
            _ => Err(self.ended_call_error(id)?),
        }
    }

    fn end_tool_call(&mut self, id: ToolCallId, end: &ToolCallEnd) -> Result<ToolCallRecord> {
        let sql = format!(
            "UPDATE tool_calls SET state = ?2, output = ?3, error = ?4, tree_after = ?5, \
             finished_at = now_micros() WHERE id = ?1 AND state = ?6 RETURNING {COLUMNS}"
        );
        let row = self.find(
            &sql,
            params![
                id.to_string(),
                end.state.as_str(),
                end.output.as_ref().map(to_json_body).transpose()?,
                end.error.as_deref(),
                end.tree_after.to_string(),
                ToolCallState::Invoked.as_str(),
            ],
        )?;
        match row {
            Some(row) => tool_call_from_row(&row),
            None => Err(self.ended_call_error(id)?),
        }
    }

    fn tool_call(&mut self, id: ToolCallId) -> Result<ToolCallRecord> {
        let sql = format!("SELECT {COLUMNS} FROM tool_calls WHERE id = ?1");
        let row = self.find(&sql, params![id.to_string()])?;
        row.map(|row| tool_call_from_row(&row))
            .unwrap_or_else(|| Err(not_found_error("tool call", id)))
    }

    fn tool_calls_after(
        &mut self,
        plan: PlanId,
        number: i64,
        limit: u32,
    ) -> Result<Vec<ToolCallRecord>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM tool_calls WHERE plan_id = ?1 AND number > ?2 \
             ORDER BY number LIMIT ?3"
        );
        let rows = self.query(&sql, params![plan.to_string(), number, i64::from(limit)])?;
        rows.iter().map(tool_call_from_row).collect()
    }

    fn unfinished_tool_calls(&mut self, plan: PlanId) -> Result<Vec<ToolCallRecord>> {
        // The state is a literal in the text, so that the planner can use the partial index of
        // unfinished calls.
        let sql = format!(
            "SELECT {COLUMNS} FROM tool_calls WHERE plan_id = ?1 AND state = '{}' ORDER BY number",
            ToolCallState::Invoked
        );
        let rows = self.query(&sql, params![plan.to_string()])?;
        rows.iter().map(tool_call_from_row).collect()
    }

    fn undo_tool_calls(&mut self, plan: PlanId, number: i64, by: CheckpointId) -> Result<u64> {
        self.lock_plan_stream(plan)?;
        self.execute(
            "UPDATE tool_calls SET undone_by = ?3 \
             WHERE plan_id = ?1 AND number > ?2 AND undone_by IS NULL",
            params![plan.to_string(), number, by.to_string()],
        )
    }

    fn count_tool_calls(&mut self, plan: PlanId, step: Option<(u32, u32)>) -> Result<u64> {
        let counted = match step {
            None => self.find(
                "SELECT count(*) FROM tool_calls WHERE plan_id = ?1",
                params![plan.to_string()],
            )?,
            Some((attempt, step)) => self.find(
                "SELECT count(*) FROM tool_calls \
                 WHERE plan_id = ?1 AND attempt = ?2 AND step = ?3 AND undone_by IS NULL",
                params![plan.to_string(), i64::from(attempt), i64::from(step)],
            )?,
        };
        counted.map_or(Ok(0), |row| decode_count(&row, 0))
    }
}

impl StoreSession<'_> {
    /// Explains why a call could not be changed: it has ended, or it does not exist.
    fn ended_call_error(&mut self, id: ToolCallId) -> Result<StoreError> {
        let found = self.tool_call(id)?;
        Ok(StoreError::Conflict {
            what: "tool call",
            id: found.call.id.to_string(),
            expected: STARTED_VERSION,
            found: ENDED_VERSION,
        })
    }
}

fn tool_call_from_row(row: &SqlRow) -> Result<ToolCallRecord> {
    Ok(ToolCallRecord {
        call: decode_entity(row, 0)?,
        number: row.integer(1)?,
        state: row.parsed(2)?,
        process: decode_optional_entity(row, 3)?,
        output: decode_optional_entity(row, 4)?,
        error: row.optional_text(5)?,
        tree_after: row.optional_parsed(6)?,
        started_at: row.time(7)?,
        finished_at: row.optional_integer(8)?.map(Timestamp::from_micros),
        undone_by: row.optional_parsed(9)?,
    })
}
