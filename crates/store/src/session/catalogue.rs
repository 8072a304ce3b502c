//! Store operations on actions and plans: versioned rows with unique names.
//!
//! A row keeps its entity as a JSON body beside the searchable columns. The version column decides
//! every update; the version inside the body is only the one that the writer had read.

use std::collections::BTreeMap;

use cleveragents_domain::id::{ActionId, IdFragment, PlanId};
use cleveragents_domain::validation::AttachmentScopeKind;
use cleveragents_domain::{Action, ActionState, InvariantScopeKind, NamespacedName, Plan};
use cleveragents_engine::ports::{Actions, Blobs, Plans, Result, StoreError};

use super::StoreSession;
use super::rows::{
    IdLookup, VersionCheck, ambiguous_error, decode_count, decode_entity, not_found_error,
    reverse_id, to_json_body,
};
use crate::value::{SqlRow, params};

impl Actions for StoreSession<'_> {
    fn insert_action(&mut self, action: &Action) -> Result<()> {
        let name = action.name.to_string();
        let inserted = self.execute(
            "INSERT INTO actions (id, name, state, body, version, created_at, updated_at, \
             uses, single_use) VALUES (?1, ?2, ?3, ?4, 1, ?5, ?6, 0, ?7) ON CONFLICT DO NOTHING",
            params![
                action.id.to_string(),
                &name,
                action.state.to_string(),
                to_json_body(action)?,
                action.created_at,
                action.updated_at,
                i64::from(!action.reusable),
            ],
        )?;
        self.check_inserted(inserted, "the action name", &name, HOLDER_OF_ACTION)
    }

    fn action(&mut self, name: &NamespacedName) -> Result<Action> {
        let row = self.find(
            "SELECT body, version FROM actions WHERE name = ?1",
            params![name.to_string()],
        )?;
        row.map(|row| action_from_row(&row))
            .unwrap_or_else(|| Err(not_found_error("action", name)))
    }

    fn update_action(&mut self, action: &Action) -> Result<i64> {
        let updated = self.execute(
            "UPDATE actions SET state = ?3, body = ?4, updated_at = ?5, single_use = ?6, \
             version = version + 1 WHERE id = ?1 AND version = ?2",
            params![
                action.id.to_string(),
                action.version,
                action.state.to_string(),
                to_json_body(action)?,
                action.updated_at,
                i64::from(!action.reusable),
            ],
        )?;
        let check = VersionCheck {
            what: "action",
            id: action.id.to_string(),
            version: action.version,
            sql: "SELECT version FROM actions WHERE id = ?1",
        };
        self.check_updated(updated, check)
    }

    fn actions(&mut self) -> Result<Vec<Action>> {
        let rows = self.query(
            "SELECT body, version FROM actions ORDER BY created_at DESC, id DESC",
            &[],
        )?;
        rows.iter().map(action_from_row).collect()
    }

    fn use_action(&mut self, action: &Action) -> Result<()> {
        // One statement decides, so exactly one of several concurrent users of a single-use action
        // wins.
        let used = self.execute(
            "UPDATE actions SET uses = uses + 1 WHERE id = ?1 AND version = ?2 AND state = ?3 \
             AND (single_use = 0 OR uses = 0)",
            params![
                action.id.to_string(),
                action.version,
                ActionState::Available.as_str()
            ],
        )?;
        if used == 1 {
            return Ok(());
        }
        Err(self.unusable_action_error(action)?)
    }

    fn use_unregistered_action(
        &mut self,
        name: &NamespacedName,
        content_hash: &str,
        plan: PlanId,
    ) -> Result<()> {
        // One statement decides; a concurrent insert waits for the earlier transaction to end (law
        // 3).
        let claimed = self.execute(
            "INSERT INTO given_action_uses (name, content_hash, plan_id) VALUES (?1, ?2, ?3) \
             ON CONFLICT (name, content_hash) DO NOTHING",
            params![name.to_string(), content_hash, plan.to_string()],
        )?;
        if claimed == 1 {
            return Ok(());
        }
        let holder = self.find(
            "SELECT plans.name FROM given_action_uses AS used JOIN plans ON plans.id = used.plan_id \
             WHERE used.name = ?1 AND used.content_hash = ?2",
            params![name.to_string(), content_hash],
        )?;
        Err(StoreError::Taken {
            what: SINGLE_USE,
            name: name.to_string(),
            holder: single_use_holder(holder)?,
        })
    }

    fn action_uses(&mut self) -> Result<BTreeMap<ActionId, u64>> {
        let rows = self.query("SELECT id, uses FROM actions", &[])?;
        rows.iter()
            .map(|row| Ok((row.parsed(0)?, decode_count(row, 1)?)))
            .collect()
    }
}

impl Plans for StoreSession<'_> {
    fn insert_plan(&mut self, plan: &Plan) -> Result<()> {
        let (id, name) = (plan.identity.plan_id.to_string(), plan.name.to_string());
        let inserted = self.execute(
            "INSERT INTO plans (id, name, action, phase, state, body, version, created_at, \
             updated_at, tail) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7, ?8, ?9) \
             ON CONFLICT DO NOTHING",
            params![
                &id,
                &name,
                plan.brief.action_name.to_string(),
                plan.position.phase().to_string(),
                plan.position.state().to_string(),
                to_json_body(plan)?,
                plan.timestamps.created_at,
                plan.timestamps.updated_at,
                reverse_id(&id),
            ],
        )?;
        self.check_inserted(inserted, "the plan name", &name, HOLDER_OF_PLAN)?;
        for project in &plan.brief.projects {
            self.execute(
                "INSERT INTO plan_projects (plan_id, project, created_at, state) \
                 VALUES (?1, ?2, ?3, ?4) ON CONFLICT (plan_id, project) DO NOTHING",
                params![
                    &id,
                    project.to_string(),
                    plan.timestamps.created_at,
                    plan.position.state().to_string(),
                ],
            )?;
        }
        Ok(())
    }

    fn plan(&mut self, id: PlanId) -> Result<Plan> {
        let row = self.find(
            "SELECT body, version FROM plans WHERE id = ?1",
            params![id.to_string()],
        )?;
        row.map(|row| plan_from_row(&row))
            .unwrap_or_else(|| Err(not_found_error("plan", id)))
    }

    fn plan_for_update(&mut self, id: PlanId) -> Result<Plan> {
        // Weaker than the lock of a deletion, so that transactions that only reference the plan do
        // not wait.
        let row = self.find(
            "SELECT body, version FROM plans WHERE id = ?1 FOR NO KEY UPDATE",
            params![id.to_string()],
        )?;
        row.map(|row| plan_from_row(&row))
            .unwrap_or_else(|| Err(not_found_error("plan", id)))
    }

    fn find_plan(&mut self, fragment: &IdFragment) -> Result<Plan> {
        let lookup = IdLookup {
            what: "plan",
            table: "plans",
            columns: "body, version",
        };
        let rows = self.rows_by_fragment(&lookup, fragment)?;
        let mut plans: Vec<Plan> = rows.iter().map(plan_from_row).collect::<Result<_>>()?;
        if plans.len() > 1 {
            let shown = |plan: &Plan| format!("{} ({})", plan.identity.plan_id, plan.name);
            return Err(ambiguous_error(fragment, plans.iter().map(shown).collect()));
        }
        plans
            .pop()
            .ok_or_else(|| not_found_error("plan", fragment.as_str()))
    }

    fn update_plan(&mut self, plan: &Plan) -> Result<i64> {
        let updated = self.execute(
            "UPDATE plans SET phase = ?3, state = ?4, body = ?5, updated_at = ?6, \
             version = version + 1 WHERE id = ?1 AND version = ?2",
            params![
                plan.identity.plan_id.to_string(),
                plan.version,
                plan.position.phase().to_string(),
                plan.position.state().to_string(),
                to_json_body(plan)?,
                plan.timestamps.updated_at,
            ],
        )?;
        let check = VersionCheck {
            what: "plan",
            id: plan.identity.plan_id.to_string(),
            version: plan.version,
            sql: "SELECT version FROM plans WHERE id = ?1",
        };
        let version = self.check_updated(updated, check)?;
        // This transaction holds the plan's row, so no other one changes these rows.
        self.execute(
            "UPDATE plan_projects SET state = ?2 WHERE plan_id = ?1 AND state <> ?2",
            params![
                plan.identity.plan_id.to_string(),
                plan.position.state().to_string()
            ],
        )?;
        Ok(version)
    }

    fn delete_plan(&mut self, plan: &Plan) -> Result<()> {
        let id = plan.identity.plan_id.to_string();
        // From here on nothing can be added to the plan: such a transaction waits for this row and
        // then finds it deleted.
        self.lock_version(VersionCheck {
            what: "plan",
            id: id.clone(),
            version: plan.version,
            sql: "SELECT version FROM plans WHERE id = ?1 FOR UPDATE",
        })?;
        for sql in DELETE_PLAN_PARTS {
            self.execute(sql, params![&id])?;
        }
        self.execute(
            "DELETE FROM invariants WHERE scope = ?1 AND target = ?2",
            params![InvariantScopeKind::Plan.as_str(), &id],
        )?;
        self.delete_scope_attachments(AttachmentScopeKind::Plan, &id)?;
        self.release_blobs(&id)?;
        self.execute("DELETE FROM plans WHERE id = ?1", params![&id])?;
        Ok(())
    }
}

/// Deletes a plan's dependent rows, each before the rows it references.
const DELETE_PLAN_PARTS: [&str; 15] = [
    "DELETE FROM model_calls WHERE plan_id = ?1",
    "DELETE FROM change_entries WHERE plan_id = ?1",
    "DELETE FROM changesets WHERE plan_id = ?1",
    "DELETE FROM tool_calls WHERE plan_id = ?1",
    "DELETE FROM checkpoints WHERE plan_id = ?1",
    "DELETE FROM strategies WHERE plan_id = ?1",
    "DELETE FROM validation_runs WHERE plan_id = ?1",
    "DELETE FROM applies WHERE plan_id = ?1",
    "DELETE FROM sandboxes WHERE plan_id = ?1",
    "DELETE FROM decision_influences WHERE plan_id = ?1",
    "DELETE FROM decisions WHERE plan_id = ?1",
    "DELETE FROM corrections WHERE plan_id = ?1",
    "DELETE FROM errors WHERE plan_id = ?1",
    "DELETE FROM plan_messages WHERE plan_id = ?1",
    "DELETE FROM plan_projects WHERE plan_id = ?1",
];

const SINGLE_USE: &str = "the single-use action";
const HOLDER_OF_ACTION: &str = "SELECT id FROM actions WHERE name = ?1";
const HOLDER_OF_PLAN: &str = "SELECT id FROM plans WHERE name = ?1";

impl StoreSession<'_> {
    /// Explains why no row of `action` was updated. Locks the row, so that the reason still holds
    /// when the transaction ends.
    fn unusable_action_error(&mut self, action: &Action) -> Result<StoreError> {
        let row = self.find(
            "SELECT version, state FROM actions WHERE id = ?1 FOR UPDATE",
            params![action.id.to_string()],
        )?;
        let name = action.name.to_string();
        let Some(row) = row else {
            return Ok(not_found_error("action", name));
        };
        if row.parsed::<ActionState>(1)? == ActionState::Archived {
            return Ok(StoreError::Archived {
                what: "action",
                name,
            });
        }
        if row.integer(0)? != action.version {
            return Ok(StoreError::Conflict {
                what: "action",
                id: action.id.to_string(),
                expected: action.version,
                found: row.integer(0)?,
            });
        }
        let plan = self.find(
            "SELECT name FROM plans WHERE action = ?1 ORDER BY created_at, id LIMIT 1",
            params![&name],
        )?;
        Ok(StoreError::Taken {
            what: SINGLE_USE,
            name,
            holder: single_use_holder(plan)?,
        })
    }
}

/// The plan that used a single-use action. The use remains after the plan is deleted.
fn single_use_holder(plan: Option<SqlRow>) -> Result<String> {
    match plan {
        Some(row) => row.text(0),
        None => Ok("a deleted plan".to_owned()),
    }
}

fn action_from_row(row: &SqlRow) -> Result<Action> {
    let mut action: Action = decode_entity(row, 0)?;
    action.version = row.integer(1)?;
    Ok(action)
}

pub(super) fn plan_from_row(row: &SqlRow) -> Result<Plan> {
    let mut plan: Plan = decode_entity(row, 0)?;
    plan.version = row.integer(1)?;
    Ok(plan)
}
