//! Store operations on plans, their strategies and their errors.
//!
//! A plan's row keeps it as a JSON body beside the searchable columns. The version column decides
//! every update; the version inside the body is only the one that the writer had read. A strategy
//! is approved by its hash, once. One statement inserts a new error or counts a known one, so no
//! occurrence is lost.

use std::collections::BTreeMap;

use cleveragents_domain::id::{IdFragment, PlanId};
use cleveragents_domain::strategy::{Approver, StrategyRecord};
use cleveragents_domain::validation::AttachmentScopeKind;
use cleveragents_domain::{ErrorRecord, InvariantScopeKind, Plan, PlanState, Timestamp};
use cleveragents_ports::{
    Blobs, Entity, PlanFilter, PlanPage, Plans, Result, StoreError, UniqueKey,
};

use super::StoreSession;
use super::plan_list_query::PlanListQuery;
use super::rows::{
    IdLookup, VersionCheck, ambiguous_error, decode_count, decode_entity, hash_text,
    not_found_error, reverse_id, to_json_body,
};
use super::validations::delete_scope_attachments;
use crate::value::{SqlRow, params};

const HOLDER_OF_PLAN: &str = "SELECT id FROM plans WHERE name = ?1";
const STRATEGY_COLUMNS: &str = "body, number, approved_by, approved_at";

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
        self.check_inserted(
            inserted,
            UniqueKey::Name(Entity::Plan),
            &name,
            HOLDER_OF_PLAN,
        )?;
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
            .unwrap_or_else(|| Err(not_found_error(Entity::Plan, id)))
    }

    fn plan_for_update(&mut self, id: PlanId) -> Result<Plan> {
        // Weaker than the lock of a deletion, so that transactions that only reference the plan do
        // not wait.
        let row = self.find(
            "SELECT body, version FROM plans WHERE id = ?1 FOR NO KEY UPDATE",
            params![id.to_string()],
        )?;
        row.map(|row| plan_from_row(&row))
            .unwrap_or_else(|| Err(not_found_error(Entity::Plan, id)))
    }

    fn find_plan(&mut self, fragment: &IdFragment) -> Result<Plan> {
        let lookup = IdLookup {
            entity: Entity::Plan,
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
            .ok_or_else(|| not_found_error(Entity::Plan, fragment.as_str()))
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
            entity: Entity::Plan,
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
            entity: Entity::Plan,
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
        delete_scope_attachments(self, AttachmentScopeKind::Plan, &id)?;
        self.release_blobs(&id)?;
        self.execute("DELETE FROM plans WHERE id = ?1", params![&id])?;
        Ok(())
    }

    fn plans(&mut self) -> Result<Vec<Plan>> {
        Ok(self.list_plans(&PlanFilter::default())?.plans)
    }

    fn list_plans(&mut self, filter: &PlanFilter) -> Result<PlanPage> {
        let mut query = PlanListQuery::new(filter);
        let counted = query.counts_sql();
        let rows = self.query(&counted, &query.params)?;
        let mut by_state: BTreeMap<PlanState, u64> = BTreeMap::new();
        for row in &rows {
            by_state.insert(row.parsed(0)?, decode_count(row, 1)?);
        }
        let page = query.page_sql(filter);
        let rows = self.query(&page, &query.params)?;
        Ok(PlanPage {
            plans: rows.iter().map(plan_from_row).collect::<Result<_>>()?,
            total: by_state.values().sum(),
            by_state,
        })
    }

    fn insert_strategy(&mut self, strategy: &StrategyRecord) -> Result<i64> {
        self.lock_plan_stream(strategy.plan_id)?;
        let row = self.find(
            "INSERT INTO strategies (plan_id, number, hash, body, approved_by, approved_at) \
             VALUES (?1, \
             (SELECT coalesce(max(number), 0) + 1 FROM strategies WHERE plan_id = ?1), \
             ?2, ?3, ?4, ?5) RETURNING number",
            params![
                strategy.plan_id.to_string(),
                &strategy.hash,
                to_json_body(strategy)?,
                strategy.approved_by.as_ref().map(Approver::to_stored),
                strategy.approved_at,
            ],
        )?;
        row.ok_or_else(|| StoreError::internal("a stored strategy vanished"))?
            .integer(0)
    }

    fn newest_strategy(&mut self, plan: PlanId) -> Result<Option<StrategyRecord>> {
        let sql = format!(
            "SELECT {STRATEGY_COLUMNS} FROM strategies WHERE plan_id = ?1 ORDER BY number DESC LIMIT 1"
        );
        let row = self.find(&sql, params![plan.to_string()])?;
        row.map(|row| strategy_from_row(&row)).transpose()
    }

    fn approve_strategy(&mut self, strategy: &StrategyRecord) -> Result<()> {
        let approved = self.execute(
            "UPDATE strategies SET approved_by = coalesce(approved_by, ?4), \
             approved_at = coalesce(approved_at, ?5) \
             WHERE plan_id = ?1 AND number = ?2 AND hash = ?3",
            params![
                strategy.plan_id.to_string(),
                strategy.number,
                &strategy.hash,
                strategy.approved_by.as_ref().map(Approver::to_stored),
                strategy.approved_at,
            ],
        )?;
        if approved == 1 {
            return Ok(());
        }
        let found = self.find(
            "SELECT hash FROM strategies WHERE plan_id = ?1 AND number = ?2",
            params![strategy.plan_id.to_string(), strategy.number],
        )?;
        Err(match found {
            None => not_found_error(Entity::StrategyOfPlan, strategy.number),
            Some(row) => StoreError::Refused {
                entity: Entity::Strategy,
                id: strategy.number.to_string(),
                reason: format!(
                    "has the hash {}, not {} as the one that was approved",
                    row.text(0)?,
                    strategy.hash
                ),
            },
        })
    }

    fn record_error(&mut self, error: &ErrorRecord) -> Result<ErrorRecord> {
        self.lock_plan_stream(error.plan_id)?;
        let occurrences = i64::try_from(error.occurrences).map_err(StoreError::internal)?;
        let row = self.find(
            "INSERT INTO errors (id, plan_id, identity, sequence, occurrences, body) \
             VALUES (?1, ?2, ?3, \
             (SELECT coalesce(max(sequence), 0) + 1 FROM errors WHERE plan_id = ?2), ?4, ?5) \
             ON CONFLICT (plan_id, identity) DO UPDATE SET \
             occurrences = errors.occurrences + excluded.occurrences, body = excluded.body \
             RETURNING id, sequence, occurrences, body",
            params![
                error.id.to_string(),
                error.plan_id.to_string(),
                hash_text(&error.identity_key()),
                occurrences,
                to_json_body(error)?,
            ],
        )?;
        error_from_row(&row.ok_or_else(|| StoreError::internal("a recorded error vanished"))?)
    }

    fn errors_of(&mut self, plan: PlanId, after: i64, limit: u32) -> Result<Vec<ErrorRecord>> {
        let rows = self.query(
            "SELECT id, sequence, occurrences, body FROM errors \
             WHERE plan_id = ?1 AND sequence > ?2 ORDER BY sequence LIMIT ?3",
            params![plan.to_string(), after, i64::from(limit)],
        )?;
        rows.iter().map(error_from_row).collect()
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

fn plan_from_row(row: &SqlRow) -> Result<Plan> {
    let mut plan: Plan = decode_entity(row, 0)?;
    plan.version = row.integer(1)?;
    Ok(plan)
}

fn strategy_from_row(row: &SqlRow) -> Result<StrategyRecord> {
    let mut strategy: StrategyRecord = decode_entity(row, 0)?;
    strategy.number = row.integer(1)?;
    let approved_by = row.optional_text(2)?;
    strategy.approved_by = approved_by.as_deref().map(Approver::from_stored);
    strategy.approved_at = row.optional_integer(3)?.map(Timestamp::from_micros);
    Ok(strategy)
}

/// The newest occurrence, with the id and number of the first.
fn error_from_row(row: &SqlRow) -> Result<ErrorRecord> {
    let mut error: ErrorRecord = decode_entity(row, 3)?;
    error.id = row.parsed(0)?;
    error.sequence = Some(row.integer(1)?);
    error.occurrences = decode_count(row, 2)?;
    Ok(error)
}
