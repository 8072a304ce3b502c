//! Store operations on changesets: a change belongs to the changeset it names (law 4), and the
//! update that counts it also assigns its position (law 3).

use cleveragents_domain::ChangeEntry;
use cleveragents_domain::Timestamp;
use cleveragents_domain::changeset::{ChangesetRecord, ChangesetState, NewChange, RecordedChange};
use cleveragents_domain::id::{ChangesetId, CheckpointId, PlanId};
use cleveragents_engine::ports::{Changesets, Result, StoreError};

use super::StoreSession;
use super::bulk::{BulkRows, split_batches};
use super::rows::{
    decode_entity, decode_optional_count, decode_small_count, not_found_error, to_json_body,
};
use crate::value::{Param, SqlRow, params};

const COLUMNS: &str =
    "id, plan_id, sandbox_id, attempt, step, state, entries, started_at, closed_at";

impl Changesets for StoreSession<'_> {
    fn insert_changeset(&mut self, changeset: &ChangesetRecord) -> Result<()> {
        self.lock_plan_stream(changeset.plan_id)?;
        self.check_sandbox_in_plan(changeset.plan_id, changeset.sandbox_id)?;
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
            "the changeset id",
            &id,
            "SELECT plan_id FROM changesets WHERE id = ?1",
        )
    }

    fn changeset(&mut self, id: ChangesetId) -> Result<ChangesetRecord> {
        let sql = format!("SELECT {COLUMNS} FROM changesets WHERE id = ?1");
        let row = self.find(&sql, params![id.to_string()])?;
        row.map(|row| changeset_from_row(&row))
            .unwrap_or_else(|| Err(not_found_error("changeset", id)))
    }

    fn changesets_of(&mut self, plan: PlanId) -> Result<Vec<ChangesetRecord>> {
        let sql = format!("SELECT {COLUMNS} FROM changesets WHERE plan_id = ?1 ORDER BY number");
        let rows = self.query(&sql, params![plan.to_string()])?;
        rows.iter().map(changeset_from_row).collect()
    }

    fn record_changes(
        &mut self,
        changeset: ChangesetId,
        changes: &[NewChange],
    ) -> Result<Vec<ChangeEntry>> {
        let plan = self.lock_changeset_plan(changeset)?;
        let count = i64::try_from(changes.len()).map_err(StoreError::internal)?;
        // One statement takes the places: whoever records in the same changeset waits for this
        // row and goes on behind them.
        let counted = self.find(
            "UPDATE changesets SET entries = entries + ?2 WHERE id = ?1 AND state = ?3 \
             RETURNING entries",
            params![changeset.to_string(), count, ChangesetState::Open.as_str()],
        )?;
        let Some(counted) = counted else {
            return Err(StoreError::Refused {
                what: "changeset",
                id: changeset.to_string(),
                reason: "is closed and takes no more changes".to_owned(),
            });
        };
        let first = counted.integer(0)? - count + 1;
        let numbered: Vec<(i64, &NewChange)> = (first..).zip(changes).collect();
        for piece in split_batches(&numbered) {
            self.insert_changes(changeset, &plan, piece)?;
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

impl StoreSession<'_> {
    /// Prevents the deletion of the changeset's plan until the transaction ends, and returns its
    /// id. A changeset never moves to another plan.
    fn lock_changeset_plan(&mut self, changeset: ChangesetId) -> Result<String> {
        let held = self.find(
            "SELECT id FROM plans WHERE id = \
             (SELECT plan_id FROM changesets WHERE changesets.id = ?1) FOR KEY SHARE",
            params![changeset.to_string()],
        )?;
        match held {
            Some(row) => row.text(0),
            None => Err(not_found_error("changeset", changeset)),
        }
    }

    fn insert_changes(
        &mut self,
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
        self.execute(&sql, &rows.params)?;
        Ok(())
    }
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
