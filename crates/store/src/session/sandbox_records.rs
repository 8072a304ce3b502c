//! Store operations on sandbox records: a plan has one per resource, and a discarded one is never
//! reused.
//!
//! Checkpoints are numbered without gaps; the oldest are deleted when there are too many.

use cleveragents_domain::checkpoint::Checkpoint;
use cleveragents_domain::id::{CheckpointId, IdFragment, PlanId, SandboxId};
use cleveragents_domain::sandbox::{SandboxRecord, SandboxState};
use cleveragents_ports::{Entity, Result, SandboxRecords, StoreError, UniqueKey};

use super::StoreSession;
use super::rows::{
    IdLookup, VersionCheck, ambiguous_error, decode_entity, not_found_error, quoted_list,
    reverse_id, to_json_body,
};
use crate::value::{SqlRow, params};

const SANDBOX_COLUMNS: &str = "id, body, version";
const CHECKPOINT_COLUMNS: &str = "body, number, undone_by";

impl SandboxRecords for StoreSession<'_> {
    fn insert_sandbox(&mut self, sandbox: &SandboxRecord) -> Result<()> {
        self.lock_plan_stream(sandbox.plan_id)?;
        let id = sandbox.id.to_string();
        let inserted = self.execute(
            "INSERT INTO sandboxes (id, tail, plan_id, number, resource_id, state, body, version, \
             created_at) VALUES (?1, ?2, ?3, \
             (SELECT coalesce(max(number), 0) + 1 FROM sandboxes WHERE plan_id = ?3), \
             ?4, ?5, ?6, 1, ?7) ON CONFLICT DO NOTHING",
            params![
                &id,
                reverse_id(&id),
                sandbox.plan_id.to_string(),
                sandbox.resource_id.to_string(),
                sandbox.state.as_str(),
                to_json_body(sandbox)?,
                sandbox.created_at,
            ],
        )?;
        if inserted == 1 {
            return Ok(());
        }
        let holder = self.find(
            "SELECT id FROM sandboxes WHERE plan_id = ?1 AND resource_id = ?2 AND state <> ?3",
            params![
                sandbox.plan_id.to_string(),
                sandbox.resource_id.to_string(),
                SandboxState::Discarded.as_str(),
            ],
        )?;
        Err(match holder {
            Some(row) => StoreError::Taken {
                key: UniqueKey::SandboxOfResource,
                name: sandbox.resource_name.to_string(),
                holder: format!("sandbox {}", row.text(0)?),
            },
            None => StoreError::Taken {
                key: UniqueKey::Id(Entity::Sandbox),
                name: id,
                holder: "another sandbox".to_owned(),
            },
        })
    }

    fn sandbox(&mut self, id: SandboxId) -> Result<SandboxRecord> {
        let sql = format!("SELECT {SANDBOX_COLUMNS} FROM sandboxes WHERE id = ?1");
        let row = self.find(&sql, params![id.to_string()])?;
        row.map(|row| sandbox_from_row(&row))
            .unwrap_or_else(|| Err(not_found_error(Entity::Sandbox, id)))
    }

    fn find_sandbox(&mut self, fragment: &IdFragment) -> Result<SandboxRecord> {
        let lookup = IdLookup {
            entity: Entity::Sandbox,
            table: "sandboxes",
            columns: SANDBOX_COLUMNS,
        };
        sandbox_from_row(&self.row_by_fragment(&lookup, fragment)?)
    }

    fn update_sandbox(&mut self, sandbox: &SandboxRecord) -> Result<i64> {
        let next = sandbox.state;
        let before = |state: &&SandboxState| **state == next || state.can_become(next);
        let before = SandboxState::ALL.iter().filter(before);
        let sql = format!(
            "UPDATE sandboxes SET state = ?3, body = ?4, version = version + 1 \
             WHERE id = ?1 AND version = ?2 AND state IN ({})",
            quoted_list(before.map(|state| state.as_str()))
        );
        let id = sandbox.id.to_string();
        let updated = self.execute(
            &sql,
            params![&id, sandbox.version, next.as_str(), to_json_body(sandbox)?],
        )?;
        if updated == 1 {
            return Ok(sandbox.version + 1);
        }
        let found = self.sandbox(sandbox.id)?;
        if found.version == sandbox.version {
            let reason = format!("is {} and cannot become {next}", found.state);
            return Err(StoreError::Refused {
                entity: Entity::Sandbox,
                id,
                reason,
            });
        }
        let check = VersionCheck {
            entity: Entity::Sandbox,
            id,
            version: sandbox.version,
            sql: "SELECT version FROM sandboxes WHERE id = ?1",
        };
        self.check_updated(updated, check)
    }

    fn sandboxes_of(&mut self, plan: PlanId) -> Result<Vec<SandboxRecord>> {
        let sql = format!(
            "SELECT {SANDBOX_COLUMNS} FROM sandboxes WHERE plan_id = ?1 AND state <> ?2 ORDER BY number"
        );
        let rows = self.query(
            &sql,
            params![plan.to_string(), SandboxState::Discarded.as_str()],
        )?;
        rows.iter().map(sandbox_from_row).collect()
    }

    fn list_sandboxes(&mut self, states: &[SandboxState]) -> Result<Vec<SandboxRecord>> {
        let wanted = match states {
            [] => String::new(),
            some => format!(
                "WHERE state IN ({})",
                quoted_list(some.iter().map(|state| state.as_str()))
            ),
        };
        let sql = format!(
            "SELECT {SANDBOX_COLUMNS} FROM sandboxes {wanted} ORDER BY created_at DESC, id DESC"
        );
        let rows = self.query(&sql, &[])?;
        rows.iter().map(sandbox_from_row).collect()
    }

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
                key: UniqueKey::Id(Entity::Checkpoint),
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
            .ok_or_else(|| not_found_error(Entity::CheckpointOfPlan, fragment.as_str()))
    }

    fn checkpoints_of(&mut self, plan: PlanId) -> Result<Vec<Checkpoint>> {
        let sql = format!(
            "SELECT {CHECKPOINT_COLUMNS} FROM checkpoints WHERE plan_id = ?1 ORDER BY number"
        );
        let rows = self.query(&sql, params![plan.to_string()])?;
        rows.iter().map(checkpoint_from_row).collect()
    }

    fn newest_checkpoint(&mut self, plan: PlanId) -> Result<Option<Checkpoint>> {
        let sql = format!(
            "SELECT {CHECKPOINT_COLUMNS} FROM checkpoints WHERE plan_id = ?1 ORDER BY number DESC LIMIT 1"
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

/// Fails if the sandbox does not belong to the plan. A row that is found stays: sandbox rows are
/// deleted only with their plan.
pub(super) fn check_sandbox_in_plan(
    session: &mut StoreSession<'_>,
    plan: PlanId,
    sandbox: SandboxId,
) -> Result<()> {
    let found = session.find(
        "SELECT id FROM sandboxes WHERE id = ?1 AND plan_id = ?2",
        params![sandbox.to_string(), plan.to_string()],
    )?;
    match found {
        Some(_) => Ok(()),
        None => Err(not_found_error(Entity::SandboxOfPlan, sandbox)),
    }
}

fn sandbox_from_row(row: &SqlRow) -> Result<SandboxRecord> {
    let mut sandbox: SandboxRecord = decode_entity(row, 1)?;
    sandbox.version = row.integer(2)?;
    Ok(sandbox)
}

fn checkpoint_from_row(row: &SqlRow) -> Result<Checkpoint> {
    let mut checkpoint: Checkpoint = decode_entity(row, 0)?;
    checkpoint.number = row.integer(1)?;
    checkpoint.undone_by = row.optional_parsed(2)?;
    Ok(checkpoint)
}
