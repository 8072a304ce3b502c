//! Store operations on tool calls: numbered when they start, ended once.
//!
//! A change belongs to the changeset it names (law 4), and the update that counts it also assigns
//! its position (law 3).

use cleveragents_domain::changeset::{ChangesetRecord, ChangesetState, NewChange, RecordedChange};
use cleveragents_domain::id::{ChangesetId, CheckpointId, PlanId, ToolCallId};
use cleveragents_domain::process::ProcessIdentity;
use cleveragents_domain::tool_call::{NewToolCall, ToolCallEnd, ToolCallRecord, ToolCallState};
use cleveragents_domain::{ChangeEntry, Timestamp};
use cleveragents_ports::{Entity, Result, StoreError, ToolCalls, UniqueKey};

use super::StoreSession;
use super::bulk::{BulkRows, split_batches};
use super::rows::{
    decode_count, decode_entity, decode_optional_count, decode_optional_entity, decode_small_count,
    not_found_error, to_json_body,
};
use super::sandbox_records::check_sandbox_in_plan;
use crate::value::{Param, SqlRow, params};

const CALL_COLUMNS: &str =
    "body, number, state, process, output, error, tree_after, started_at, finished_at, undone_by";

/// A call has two versions: started and ended.
const STARTED_VERSION: i64 = 1;
const ENDED_VERSION: i64 = 2;
const CHANGESET_COLUMNS: &str =
    "id, plan_id, sandbox_id, attempt, step, state, entries, started_at, closed_at";

impl ToolCalls for StoreSession<'_> {
    fn begin_tool_call(&mut self, call: &NewToolCall) -> Result<ToolCallRecord> {
        self.lock_plan_stream(call.plan_id)?;
        check_sandbox_in_plan(self, call.plan_id, call.sandbox_id)?;
        let sql = format!(
            "INSERT INTO tool_calls (id, plan_id, number, sandbox_id, attempt, step, state, body, \
             started_at) VALUES (?1, ?2, \
             (SELECT coalesce(max(number), 0) + 1 FROM tool_calls WHERE plan_id = ?2), \
             ?3, ?4, ?5, ?6, ?7, now_micros()) ON CONFLICT (id) DO NOTHING RETURNING {CALL_COLUMNS}"
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
                key: UniqueKey::Id(Entity::ToolCall),
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
            _ => Err(ended_call_error(self, id)?),
        }
    }

    fn end_tool_call(&mut self, id: ToolCallId, end: &ToolCallEnd) -> Result<ToolCallRecord> {
        let sql = format!(
            "UPDATE tool_calls SET state = ?2, output = ?3, error = ?4, tree_after = ?5, \
             finished_at = now_micros() WHERE id = ?1 AND state = ?6 RETURNING {CALL_COLUMNS}"
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
            None => Err(ended_call_error(self, id)?),
        }
    }

    fn tool_call(&mut self, id: ToolCallId) -> Result<ToolCallRecord> {
        let sql = format!("SELECT {CALL_COLUMNS} FROM tool_calls WHERE id = ?1");
        let row = self.find(&sql, params![id.to_string()])?;
        row.map(|row| tool_call_from_row(&row))
            .unwrap_or_else(|| Err(not_found_error(Entity::ToolCall, id)))
    }

    fn tool_calls_after(
        &mut self,
        plan: PlanId,
        number: i64,
        limit: u32,
    ) -> Result<Vec<ToolCallRecord>> {
        let sql = format!(
            "SELECT {CALL_COLUMNS} FROM tool_calls WHERE plan_id = ?1 AND number > ?2 \
             ORDER BY number LIMIT ?3"
        );
        let rows = self.query(&sql, params![plan.to_string(), number, i64::from(limit)])?;
        rows.iter().map(tool_call_from_row).collect()
    }

    fn unfinished_tool_calls(&mut self, plan: PlanId) -> Result<Vec<ToolCallRecord>> {
        // The state is a literal in the text, so that the planner can use the partial index of
        // unfinished calls.
        let sql = format!(
            "SELECT {CALL_COLUMNS} FROM tool_calls WHERE plan_id = ?1 AND state = '{}' ORDER BY number",
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

    fn insert_changeset(&mut self, changeset: &ChangesetRecord) -> Result<()> {
        self.lock_plan_stream(changeset.plan_id)?;
        check_sandbox_in_plan(self, changeset.plan_id, changeset.sandbox_id)?;
        let id = changeset.id.to_string();
        let inserted = self.execute(
            "INSERT INTO changesets (id, plan_id, number, sandbox_id, attempt, step, state, \
             entries, started_at, closed_at) VALUES (?1, ?2, \
             (SELECT coalesce(max(number), 0) + 1 FROM changesets WHERE plan_id = ?2), \
             ?3, ?4, ?5, ?6, 0, ?7, NULL) ON CONFLICT (id) DO NOTHING",
            params![
                &id,
                changeset.plan_id.to_string(),
                changeset.sandbox_id.to_string(),
                i64::from(changeset.attempt),
                changeset.step.map(i64::from),
                ChangesetState::Open.as_str(),
                changeset.started_at,
            ],
        )?;
        self.check_inserted(
            inserted,
            UniqueKey::Id(Entity::Changeset),
            &id,
            "SELECT plan_id FROM changesets WHERE id = ?1",
        )
    }

    fn changeset(&mut self, id: ChangesetId) -> Result<ChangesetRecord> {
        let sql = format!("SELECT {CHANGESET_COLUMNS} FROM changesets WHERE id = ?1");
        let row = self.find(&sql, params![id.to_string()])?;
        row.map(|row| changeset_from_row(&row))
            .unwrap_or_else(|| Err(not_found_error(Entity::Changeset, id)))
    }

    fn changesets_of(&mut self, plan: PlanId) -> Result<Vec<ChangesetRecord>> {
        let sql = format!(
            "SELECT {CHANGESET_COLUMNS} FROM changesets WHERE plan_id = ?1 ORDER BY number"
        );
        let rows = self.query(&sql, params![plan.to_string()])?;
        rows.iter().map(changeset_from_row).collect()
    }

    fn record_changes(
        &mut self,
        changeset: ChangesetId,
        changes: &[NewChange],
    ) -> Result<Vec<ChangeEntry>> {
        let plan = lock_changeset_plan(self, changeset)?;
        let count = i64::try_from(changes.len()).map_err(StoreError::internal)?;
        // One statement reserves the positions (law 3): other writers of the changeset wait for this
        // row and get the next positions.
        let counted = self.find(
            "UPDATE changesets SET entries = entries + ?2 WHERE id = ?1 AND state = ?3 \
             RETURNING entries",
            params![changeset.to_string(), count, ChangesetState::Open.as_str()],
        )?;
        let Some(counted) = counted else {
            return Err(StoreError::Refused {
                entity: Entity::Changeset,
                id: changeset.to_string(),
                reason: "is closed and takes no more changes".to_owned(),
            });
        };
        let first = counted.integer(0)? - count + 1;
        let numbered: Vec<(i64, &NewChange)> = (first..).zip(changes).collect();
        for piece in split_batches(&numbered) {
            insert_changes(self, changeset, &plan, piece)?;
        }
        let entry = |(sequence, change): (i64, &NewChange)| change.clone().into_entry(sequence);
        Ok(numbered.into_iter().map(entry).collect())
    }

    fn changes_after(
        &mut self,
        changeset: ChangesetId,
        after: i64,
        limit: u32,
    ) -> Result<Vec<RecordedChange>> {
        let rows = self.query(
            "SELECT sequence, body, undone_by FROM change_entries \
             WHERE changeset_id = ?1 AND sequence > ?2 ORDER BY sequence LIMIT ?3",
            params![changeset.to_string(), after, i64::from(limit)],
        )?;
        let change = |row: &SqlRow| {
            let change: NewChange = decode_entity(row, 1)?;
            Ok(RecordedChange {
                changeset_id: changeset,
                entry: change.into_entry(row.integer(0)?),
                undone_by: row.optional_parsed(2)?,
            })
        };
        rows.iter().map(change).collect()
    }

    fn close_changeset(&mut self, id: ChangesetId, at: Timestamp) -> Result<u64> {
        let closed = self.execute(
            "UPDATE changesets SET state = ?2, closed_at = ?3 WHERE id = ?1 AND state = ?4",
            params![
                id.to_string(),
                ChangesetState::Closed.as_str(),
                at,
                ChangesetState::Open.as_str(),
            ],
        )?;
        // Closing twice has the same result; only a changeset that does not exist is an error.
        if closed == 0 {
            self.changeset(id)?;
        }
        Ok(closed)
    }

    fn undo_changes(&mut self, plan: PlanId, call_number: i64, by: CheckpointId) -> Result<u64> {
        self.lock_plan_stream(plan)?;
        self.execute(
            "UPDATE change_entries SET undone_by = ?3 \
             WHERE plan_id = ?1 AND call_number > ?2 AND undone_by IS NULL",
            params![plan.to_string(), call_number, by.to_string()],
        )
    }
}

/// Explains why a call could not be changed: it has ended, or it does not exist.
fn ended_call_error(session: &mut StoreSession<'_>, id: ToolCallId) -> Result<StoreError> {
    let found = session.tool_call(id)?;
    Ok(StoreError::Conflict {
        entity: Entity::ToolCall,
        id: found.call.id.to_string(),
        expected: STARTED_VERSION,
        found: ENDED_VERSION,
    })
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

/// Prevents the deletion of the changeset's plan until the transaction ends, and returns its id. A
/// changeset never moves to another plan.
fn lock_changeset_plan(session: &mut StoreSession<'_>, changeset: ChangesetId) -> Result<String> {
    let held = session.find(
        "SELECT id FROM plans WHERE id = \
         (SELECT plan_id FROM changesets WHERE changesets.id = ?1) FOR KEY SHARE",
        params![changeset.to_string()],
    )?;
    match held {
        Some(row) => row.text(0),
        None => Err(not_found_error(Entity::Changeset, changeset)),
    }
}

fn insert_changes(
    session: &mut StoreSession<'_>,
    changeset: ChangesetId,
    plan: &str,
    piece: &[(i64, &NewChange)],
) -> Result<()> {
    let mut rows =
        BulkRows::with_params(vec![Param::from(changeset.to_string()), Param::from(plan)]);
    for (sequence, change) in piece {
        rows.push([
            Param::from(*sequence),
            Param::from(change.call_number),
            Param::from(to_json_body(change)?),
        ]);
    }
    let sql = format!(
        "INSERT INTO change_entries (changeset_id, plan_id, sequence, call_number, body) \
         SELECT ?1, ?2, column1, column2, column3 FROM {}",
        rows.source()
    );
    session.execute(&sql, &rows.params)?;
    Ok(())
}

fn changeset_from_row(row: &SqlRow) -> Result<ChangesetRecord> {
    Ok(ChangesetRecord {
        id: row.parsed(0)?,
        plan_id: row.parsed(1)?,
        sandbox_id: row.parsed(2)?,
        attempt: decode_small_count(row, 3)?,
        step: decode_optional_count(row, 4)?,
        state: row.parsed(5)?,
        entries: row.integer(6)?,
        started_at: row.time(7)?,
        closed_at: row.optional_integer(8)?.map(Timestamp::from_micros),
    })
}
