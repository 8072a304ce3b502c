//! The catalogue's verbs: versioned rows, and names that one holder has.
//!
//! A row keeps its entity as a JSON body beside the columns that are searched. The version column
//! decides every update; the version inside the body is only what the writer had read.

use cleveragents_domain::id::{IdFragment, PlanId};
use cleveragents_domain::{Action, NamespacedName, Plan};
use cleveragents_engine::ports::{Actions, Plans, Result, StoreError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Session;
use crate::value::{Param, Row, params};

/// How many candidates an ambiguous id lists.
const CANDIDATES: i64 = 20;

impl Actions for Session<'_> {
    fn insert_action(&mut self, action: &Action) -> Result<()> {
        let name = action.name.to_string();
        let inserted = self.execute(
            "INSERT INTO actions (id, name, state, body, version, created_at, updated_at) \
             VALUES (?1, ?2, ?3, ?4, 1, ?5, ?6) ON CONFLICT DO NOTHING",
            params![
                action.id.to_string(),
                &name,
                action.state.to_string(),
                body_of(action)?,
                action.created_at,
                action.updated_at,
            ],
        )?;
        self.inserted_or_taken(inserted, "the action name", &name, HOLDER_OF_ACTION)
    }

    fn action(&mut self, name: &NamespacedName) -> Result<Action> {
        let row = self.find(
            "SELECT body, version FROM actions WHERE name = ?1",
            params![name.to_string()],
        )?;
        row.map(|row| action_of(&row))
            .unwrap_or_else(|| Err(not_found("action", name)))
    }

    fn update_action(&mut self, action: &Action) -> Result<i64> {
        let updated = self.execute(
            "UPDATE actions SET state = ?3, body = ?4, updated_at = ?5, version = version + 1 \
             WHERE id = ?1 AND version = ?2",
            params![
                action.id.to_string(),
                action.version,
                action.state.to_string(),
                body_of(action)?,
                action.updated_at,
            ],
        )?;
        let stale = Stale {
            what: "action",
            id: action.id.to_string(),
            version: action.version,
            sql: "SELECT version FROM actions WHERE id = ?1",
        };
        self.updated_or_stale(updated, stale)
    }

    fn actions(&mut self) -> Result<Vec<Action>> {
        let rows = self.query(
            "SELECT body, version FROM actions ORDER BY created_at DESC, id DESC",
            &[],
        )?;
        rows.iter().map(action_of).collect()
    }
}

impl Plans for Session<'_> {
    fn insert_plan(&mut self, plan: &Plan) -> Result<()> {
        let name = plan.name.to_string();
        let inserted = self.execute(
            "INSERT INTO plans (id, name, action, phase, state, body, version, created_at, \
             updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7, ?8) ON CONFLICT DO NOTHING",
            params![
                plan.identity.plan_id.to_string(),
                &name,
                plan.brief.action_name.to_string(),
                plan.position.phase().to_string(),
                plan.position.state().to_string(),
                body_of(plan)?,
                plan.timestamps.created_at,
                plan.timestamps.updated_at,
            ],
        )?;
        self.inserted_or_taken(inserted, "the plan name", &name, HOLDER_OF_PLAN)
    }

    fn plan(&mut self, id: PlanId) -> Result<Plan> {
        let row = self.find(
            "SELECT body, version FROM plans WHERE id = ?1",
            params![id.to_string()],
        )?;
        row.map(|row| plan_of(&row))
            .unwrap_or_else(|| Err(not_found("plan", id)))
    }

    fn find_plan(&mut self, fragment: &IdFragment) -> Result<Plan> {
        // A fragment has letters and digits only, so no pattern can hide in it.
        let rows = self.query(
            "SELECT body, version FROM plans WHERE id LIKE ?1 OR id LIKE ?2 ORDER BY id LIMIT ?3",
            &[
                Param::from(format!("{}%", fragment.as_str())),
                Param::from(format!("%{}", fragment.as_str())),
                Param::from(CANDIDATES),
            ],
        )?;
        let mut plans: Vec<Plan> = rows.iter().map(plan_of).collect::<Result<_>>()?;
        match (plans.pop(), plans.is_empty()) {
            (None, _) => Err(not_found("plan", fragment.as_str())),
            (Some(plan), true) => Ok(plan),
            (Some(last), false) => {
                plans.push(last);
                Err(StoreError::Ambiguous {
                    fragment: fragment.as_str().to_owned(),
                    candidates: plans
                        .iter()
                        .map(|plan| format!("{} ({})", plan.identity.plan_id, plan.name))
                        .collect(),
                })
            }
        }
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
                body_of(plan)?,
                plan.timestamps.updated_at,
            ],
        )?;
        let stale = Stale {
            what: "plan",
            id: plan.identity.plan_id.to_string(),
            version: plan.version,
            sql: "SELECT version FROM plans WHERE id = ?1",
        };
        self.updated_or_stale(updated, stale)
    }

    fn plans(&mut self) -> Result<Vec<Plan>> {
        let rows = self.query(
            "SELECT body, version FROM plans ORDER BY created_at DESC, id DESC",
            &[],
        )?;
        rows.iter().map(plan_of).collect()
    }
}

const HOLDER_OF_ACTION: &str = "SELECT id FROM actions WHERE name = ?1";
const HOLDER_OF_PLAN: &str = "SELECT id FROM plans WHERE name = ?1";

/// What an update was about, in case it hits nothing.
struct Stale {
    what: &'static str,
    id: String,
    version: i64,
    /// Finds the newest version by id.
    sql: &'static str,
}

impl Session<'_> {
    fn inserted_or_taken(
        &mut self,
        inserted: u64,
        what: &'static str,
        name: &str,
        holder: &str,
    ) -> Result<()> {
        if inserted == 1 {
            return Ok(());
        }
        let holder = self.find(holder, params![name])?;
        let holder = match holder {
            Some(row) => row.text(0)?,
            None => "another row with the same id".to_owned(),
        };
        Err(StoreError::Taken {
            what,
            name: name.to_owned(),
            holder,
        })
    }

    /// The next version; nought rows updated is a conflict or a missing row, never an overwrite.
    fn updated_or_stale(&mut self, updated: u64, stale: Stale) -> Result<i64> {
        if updated == 1 {
            return Ok(stale.version + 1);
        }
        let row = self.find(stale.sql, params![&stale.id])?;
        let Some(row) = row else {
            return Err(not_found(stale.what, stale.id));
        };
        Err(StoreError::Conflict {
            what: stale.what,
            id: stale.id,
            expected: stale.version,
            found: row.integer(0)?,
        })
    }
}

fn not_found(what: &'static str, id: impl ToString) -> StoreError {
    StoreError::NotFound {
        what,
        id: id.to_string(),
    }
}

fn body_of(entity: &impl Serialize) -> Result<String> {
    serde_json::to_string(entity).map_err(StoreError::internal)
}

fn entity_of<T: DeserializeOwned>(row: &Row) -> Result<T> {
    serde_json::from_str(&row.text(0)?).map_err(StoreError::internal)
}

fn action_of(row: &Row) -> Result<Action> {
    let mut action: Action = entity_of(row)?;
    action.version = row.integer(1)?;
    Ok(action)
}

fn plan_of(row: &Row) -> Result<Plan> {
    let mut plan: Plan = entity_of(row)?;
    plan.version = row.integer(1)?;
    Ok(plan)
}
