//! Store operations on sandbox records: a plan has one per resource, and a discarded one is never
//! reused.

use cleveragents_domain::id::{IdFragment, PlanId, SandboxId};
use cleveragents_domain::sandbox::{SandboxRecord, SandboxState};
use cleveragents_engine::ports::{Result, SandboxRecords, StoreError};

use super::StoreSession;
use super::rows::{
    IdLookup, VersionCheck, decode_entity, not_found_error, quoted_list, reverse_id, to_json_body,
};
use crate::value::{SqlRow, params};

const COLUMNS: &str = "id, body, version";

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
                what: "the plan's sandbox of resource",
                name: sandbox.resource_name.to_string(),
                holder: format!("sandbox {}", row.text(0)?),
            },
            None => StoreError::Taken {
                what: "the sandbox id",
                name: id,
                holder: "another sandbox".to_owned(),
            },
        })
    }

    fn sandbox(&mut self, id: SandboxId) -> Result<SandboxRecord> {
        let sql = format!("SELECT {COLUMNS} FROM sandboxes WHERE id = ?1");
        let row = self.find(&sql, params![id.to_string()])?;
        row.map(|row| sandbox_from_row(&row))
            .unwrap_or_else(|| Err(not_found_error("sandbox", id)))
    }

    fn find_sandbox(&mut self, fragment: &IdFragment) -> Result<SandboxRecord> {
        let lookup = IdLookup {
            what: "sandbox",
            table: "sandboxes",
            columns: COLUMNS,
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
                what: "sandbox",
                id,
                reason,
            });
        }
        let check = VersionCheck {
            what: "sandbox",
            id,
            version: sandbox.version,
            sql: "SELECT version FROM sandboxes WHERE id = ?1",
        };
        self.check_updated(updated, check)
    }

    fn sandboxes_of(&mut self, plan: PlanId) -> Result<Vec<SandboxRecord>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM sandboxes WHERE plan_id = ?1 AND state <> ?2 ORDER BY number"
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
        let sql =
            format!("SELECT {COLUMNS} FROM sandboxes {wanted} ORDER BY created_at DESC, id DESC");
        let rows = self.query(&sql, &[])?;
        rows.iter().map(sandbox_from_row).collect()
    }
}

impl StoreSession<'_> {
    /// Fails if the sandbox does not belong to the plan. A row that is found stays: sandbox rows
    /// are deleted only with their plan.
    pub(super) fn check_sandbox_in_plan(&mut self, plan: PlanId, sandbox: SandboxId) -> Result<()> {
        let found = self.find(
            "SELECT id FROM sandboxes WHERE id = ?1 AND plan_id = ?2",
            params![sandbox.to_string(), plan.to_string()],
        )?;
        match found {
            Some(_) => Ok(()),
            None => Err(not_found_error("sandbox of this plan", sandbox)),
        }
    }
}

fn sandbox_from_row(row: &SqlRow) -> Result<SandboxRecord> {
    let mut sandbox: SandboxRecord = decode_entity(row, 1)?;
    sandbox.version = row.integer(2)?;
    Ok(sandbox)
}
