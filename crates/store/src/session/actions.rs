//! Store operations on actions: versioned rows with unique names.
//!
//! A row keeps its entity as a JSON body beside the searchable columns. The version column decides
//! every update; the version inside the body is only the one that the writer had read.

use std::collections::BTreeMap;

use cleveragents_domain::id::{ActionId, PlanId};
use cleveragents_domain::{Action, ActionState, NamespacedName};
use cleveragents_ports::{Actions, Entity, Result, StoreError, UniqueKey};

use super::StoreSession;
use super::rows::{VersionCheck, decode_count, decode_entity, not_found_error, to_json_body};
use crate::value::{SqlRow, params};

const HOLDER_OF_ACTION: &str = "SELECT id FROM actions WHERE name = ?1";

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
        self.check_inserted(
            inserted,
            UniqueKey::Name(Entity::Action),
            &name,
            HOLDER_OF_ACTION,
        )
    }

    fn action(&mut self, name: &NamespacedName) -> Result<Action> {
        let row = self.find(
            "SELECT body, version FROM actions WHERE name = ?1",
            params![name.to_string()],
        )?;
        row.map(|row| action_from_row(&row))
            .unwrap_or_else(|| Err(not_found_error(Entity::Action, name)))
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
            entity: Entity::Action,
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
        // Zero updated rows have several causes, and the next step of the user depends on which it
        // was.
        Err(unusable_action_error(self, action)?)
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
            key: UniqueKey::SingleUse,
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

/// Explains why no row of `action` was updated. Locks the row, so that the reason still holds when
/// the transaction ends.
fn unusable_action_error(session: &mut StoreSession<'_>, action: &Action) -> Result<StoreError> {
    let row = session.find(
        "SELECT version, state FROM actions WHERE id = ?1 FOR UPDATE",
        params![action.id.to_string()],
    )?;
    let name = action.name.to_string();
    let Some(row) = row else {
        return Ok(not_found_error(Entity::Action, name));
    };
    if row.parsed::<ActionState>(1)? == ActionState::Archived {
        return Ok(StoreError::Archived {
            entity: Entity::Action,
            name,
        });
    }
    if row.integer(0)? != action.version {
        return Ok(StoreError::Conflict {
            entity: Entity::Action,
            id: action.id.to_string(),
            expected: action.version,
            found: row.integer(0)?,
        });
    }
    let plan = session.find(
        "SELECT name FROM plans WHERE action = ?1 ORDER BY created_at, id LIMIT 1",
        params![&name],
    )?;
    Ok(StoreError::Taken {
        key: UniqueKey::SingleUse,
        name,
        holder: single_use_holder(plan)?,
    })
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
