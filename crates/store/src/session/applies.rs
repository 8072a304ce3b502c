//! Store operations on apply attempts: at most one is unfinished per plan, and an ended one never
//! restarts.

use cleveragents_domain::apply_record::{ApplyRecord, ApplyState};
use cleveragents_domain::id::{ApplyId, PlanId};
use cleveragents_ports::{Applies, Entity, Result, StoreError, UniqueKey};

use super::StoreSession;
use super::rows::{VersionCheck, decode_entity, not_found_error, quoted_list, to_json_body};
use crate::value::{SqlRow, params};

const COLUMNS: &str = "body, number, version";

impl Applies for StoreSession<'_> {
    fn insert_apply(&mut self, apply: &ApplyRecord) -> Result<i64> {
        self.lock_plan_stream(apply.plan_id)?;
        // A partial unique index allows one unfinished attempt per plan; `DO NOTHING` without a
        // target covers it and the id.
        let row = self.find(
            "INSERT INTO applies (id, plan_id, number, state, body, version) VALUES (?1, ?2, \
             (SELECT coalesce(max(number), 0) + 1 FROM applies WHERE plan_id = ?2), \
             ?3, ?4, 1) ON CONFLICT DO NOTHING RETURNING number",
            params![
                apply.id.to_string(),
                apply.plan_id.to_string(),
                apply.state.as_str(),
                to_json_body(apply)?,
            ],
        )?;
        if let Some(row) = row {
            return row.integer(0);
        }
        let sql = format!(
            "SELECT id FROM applies WHERE plan_id = ?1 AND state IN ({})",
            unfinished_states()
        );
        let holder = self.find(&sql, params![apply.plan_id.to_string()])?;
        Err(match holder {
            Some(row) => StoreError::Taken {
                key: UniqueKey::UnfinishedApply,
                name: apply.plan_id.to_string(),
                holder: row.text(0)?,
            },
            None => StoreError::Taken {
                key: UniqueKey::Id(Entity::Apply),
                name: apply.id.to_string(),
                holder: "another apply".to_owned(),
            },
        })
    }

    fn apply(&mut self, id: ApplyId) -> Result<ApplyRecord> {
        let sql = format!("SELECT {COLUMNS} FROM applies WHERE id = ?1");
        let row = self.find(&sql, params![id.to_string()])?;
        row.map(|row| apply_from_row(&row))
            .unwrap_or_else(|| Err(not_found_error(Entity::Apply, id)))
    }

    fn update_apply(&mut self, apply: &ApplyRecord) -> Result<i64> {
        // Otherwise this update could create a second unfinished attempt.
        let before = if apply.state.is_unfinished() {
            format!(" AND state IN ({})", unfinished_states())
        } else {
            String::new()
        };
        let sql = format!(
            "UPDATE applies SET state = ?3, body = ?4, version = version + 1 \
             WHERE id = ?1 AND version = ?2{before}"
        );
        let id = apply.id.to_string();
        let updated = self.execute(
            &sql,
            params![
                &id,
                apply.version,
                apply.state.as_str(),
                to_json_body(apply)?
            ],
        )?;
        if updated == 1 {
            return Ok(apply.version + 1);
        }
        let found = self.apply(apply.id)?;
        // The version still matches, so only the condition on the state can have refused the
        // update.
        if found.version == apply.version {
            let reason = format!("is {} and cannot become {}", found.state, apply.state);
            return Err(StoreError::Refused {
                entity: Entity::Apply,
                id,
                reason,
            });
        }
        let check = VersionCheck {
            entity: Entity::Apply,
            id,
            version: apply.version,
            sql: "SELECT version FROM applies WHERE id = ?1",
        };
        self.check_updated(updated, check)
    }

    fn applies_of(&mut self, plan: PlanId) -> Result<Vec<ApplyRecord>> {
        let sql = format!("SELECT {COLUMNS} FROM applies WHERE plan_id = ?1 ORDER BY number");
        let rows = self.query(&sql, params![plan.to_string()])?;
        rows.iter().map(apply_from_row).collect()
    }

    fn unfinished_applies(&mut self) -> Result<Vec<ApplyRecord>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM applies WHERE state IN ({}) ORDER BY plan_id",
            unfinished_states()
        );
        let rows = self.query(&sql, &[])?;
        rows.iter().map(apply_from_row).collect()
    }
}

/// The names of the unfinished states, spelled as in the partial index.
fn unfinished_states() -> String {
    let unfinished = ApplyState::ALL.iter().filter(|state| state.is_unfinished());
    quoted_list(unfinished.map(|state| state.as_str()))
}

fn apply_from_row(row: &SqlRow) -> Result<ApplyRecord> {
    let mut apply: ApplyRecord = decode_entity(row, 0)?;
    apply.number = row.integer(1)?;
    apply.version = row.integer(2)?;
    Ok(apply)
}
