//! Store operations on decisions. All numbering and marking happens while this transaction holds
//! the lock on the plan's stream, so positions have no gaps and transactions cannot deadlock.
//!
//! Corrections are versioned rows. One statement counts an outcome, so no count is lost.

use std::collections::BTreeSet;

use cleveragents_domain::id::{DecisionId, IdFragment, PlanId};
use cleveragents_domain::{Correction, Decision, DecisionEdge};
use cleveragents_ports::{
    Decisions, Entity, OperationOutcome, OutcomeCounts, Result, StoreError, UniqueKey,
};

use super::StoreSession;
use super::bulk::{BulkRows, split_batches};
use super::rows::{
    IdLookup, VersionCheck, decode_count, decode_entity, not_found_error, reverse_id, to_json_body,
};
use crate::value::{Param, SqlRow, params};

const DECISION_COLUMNS: &str = "id, body, sequence, superseded";
const CORRECTION_COLUMNS: &str = "id, body, version";

impl Decisions for StoreSession<'_> {
    fn insert_decision(&mut self, decision: &Decision) -> Result<i64> {
        let sequences = self.insert_decisions(decision.plan_id, std::slice::from_ref(decision))?;
        let sequence = sequences.first().copied();
        sequence.ok_or_else(|| StoreError::internal("a stored decision has no place"))
    }

    fn insert_decisions(&mut self, plan: PlanId, decisions: &[Decision]) -> Result<Vec<i64>> {
        self.lock_plan_stream(plan)?;
        // Checked under the lock of the stream, so that no other transaction adds or removes
        // decisions in between.
        check_parents(self, plan, decisions)?;
        let mut sequences = Vec::with_capacity(decisions.len());
        for piece in split_batches(decisions) {
            let stored = insert_batch(self, plan, piece)?;
            sequences.extend(stored.iter().map(|(_, place)| *place));
            let taken = piece
                .iter()
                .map(|decision| decision.decision_id.to_string())
                .zip(
                    stored
                        .iter()
                        .map(|(id, _)| Some(id))
                        .chain(std::iter::repeat(None)),
                )
                .find(|(wanted, stored)| *stored != Some(wanted));
            if let Some((id, _)) = taken {
                // The caller may handle this error and commit, so this call must leave none of its
                // rows behind.
                delete_inserted_decisions(self, plan, &sequences)?;
                return Err(StoreError::Taken {
                    key: UniqueKey::Id(Entity::Decision),
                    name: id,
                    holder: "another decision".to_owned(),
                });
            }
        }
        Ok(sequences)
    }

    fn decision(&mut self, id: DecisionId) -> Result<Decision> {
        let sql = format!("SELECT {DECISION_COLUMNS} FROM decisions WHERE id = ?1");
        let row = self.find(&sql, params![id.to_string()])?;
        row.map(|row| decision_from_row(&row))
            .unwrap_or_else(|| Err(not_found_error(Entity::Decision, id)))
    }

    fn find_decision(&mut self, fragment: &IdFragment) -> Result<Decision> {
        let lookup = IdLookup {
            entity: Entity::Decision,
            table: "decisions",
            columns: DECISION_COLUMNS,
        };
        decision_from_row(&self.row_by_fragment(&lookup, fragment)?)
    }

    fn decisions_of(&mut self, plan: PlanId) -> Result<Vec<Decision>> {
        let sql = format!(
            "SELECT {DECISION_COLUMNS} FROM decisions WHERE plan_id = ?1 ORDER BY sequence"
        );
        let rows = self.query(&sql, params![plan.to_string()])?;
        rows.iter().map(decision_from_row).collect()
    }

    fn add_influence(&mut self, plan: PlanId, edge: DecisionEdge) -> Result<()> {
        self.lock_plan(plan)?;
        check_decision_in_plan(self, plan, edge.from)?;
        check_decision_in_plan(self, plan, edge.to)?;
        self.execute(
            "INSERT INTO decision_influences (from_id, to_id, plan_id) VALUES (?1, ?2, ?3) \
             ON CONFLICT (from_id, to_id) DO NOTHING",
            params![edge.from.to_string(), edge.to.to_string(), plan.to_string()],
        )?;
        Ok(())
    }

    fn influences_of(&mut self, plan: PlanId) -> Result<Vec<DecisionEdge>> {
        let rows = self.query(
            "SELECT from_id, to_id FROM decision_influences WHERE plan_id = ?1 \
             ORDER BY from_id, to_id",
            params![plan.to_string()],
        )?;
        let edge = |row: &SqlRow| {
            Ok(DecisionEdge {
                from: row.parsed(0)?,
                to: row.parsed(1)?,
            })
        };
        rows.iter().map(edge).collect()
    }

    fn supersede(&mut self, plan: PlanId, decisions: &[DecisionId]) -> Result<u64> {
        mark_superseded(self, plan, decisions, 1)
    }

    fn reinstate(&mut self, plan: PlanId, decisions: &[DecisionId]) -> Result<u64> {
        mark_superseded(self, plan, decisions, 0)
    }

    fn insert_correction(&mut self, correction: &Correction) -> Result<()> {
        self.lock_plan(correction.plan_id)?;
        check_decision_in_plan(self, correction.plan_id, correction.original_decision_id)?;
        let id = correction.id.to_string();
        let inserted = self.execute(
            "INSERT INTO corrections (id, tail, plan_id, state, body, version, created_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6) ON CONFLICT (id) DO NOTHING",
            params![
                &id,
                reverse_id(&id),
                correction.plan_id.to_string(),
                correction.state.as_str(),
                to_json_body(correction)?,
                correction.created_at,
            ],
        )?;
        self.check_inserted(
            inserted,
            UniqueKey::Id(Entity::Correction),
            &id,
            "SELECT plan_id FROM corrections WHERE id = ?1",
        )
    }

    fn find_correction(&mut self, fragment: &IdFragment) -> Result<Correction> {
        let lookup = IdLookup {
            entity: Entity::Correction,
            table: "corrections",
            columns: CORRECTION_COLUMNS,
        };
        correction_from_row(&self.row_by_fragment(&lookup, fragment)?)
    }

    fn update_correction(&mut self, correction: &Correction) -> Result<i64> {
        let updated = self.execute(
            "UPDATE corrections SET state = ?3, body = ?4, version = version + 1 \
             WHERE id = ?1 AND version = ?2",
            params![
                correction.id.to_string(),
                correction.version,
                correction.state.as_str(),
                to_json_body(correction)?,
            ],
        )?;
        let check = VersionCheck {
            entity: Entity::Correction,
            id: correction.id.to_string(),
            version: correction.version,
            sql: "SELECT version FROM corrections WHERE id = ?1",
        };
        self.check_updated(updated, check)
    }

    fn corrections_of(&mut self, plan: PlanId) -> Result<Vec<Correction>> {
        let sql = format!(
            "SELECT {CORRECTION_COLUMNS} FROM corrections WHERE plan_id = ?1 ORDER BY created_at, id"
        );
        let rows = self.query(&sql, params![plan.to_string()])?;
        rows.iter().map(correction_from_row).collect()
    }

    fn count_outcome(
        &mut self,
        operation: &str,
        outcome: OperationOutcome,
    ) -> Result<OutcomeCounts> {
        let (success, failure) = match outcome {
            OperationOutcome::Success => (1_i64, 0_i64),
            OperationOutcome::Failure => (0, 1),
        };
        // One upsert adds to the current counts, so concurrent outcomes are never lost (law 3).
        let row = self.find(
            "INSERT INTO outcomes (operation, successes, failures) VALUES (?1, ?2, ?3) \
             ON CONFLICT (operation) DO UPDATE SET \
             successes = outcomes.successes + excluded.successes, \
             failures = outcomes.failures + excluded.failures \
             RETURNING successes, failures",
            params![operation, success, failure],
        )?;
        counts_from_row(&row.ok_or_else(|| StoreError::internal("a counted outcome vanished"))?)
    }

    fn outcome_counts(&mut self, operation: &str) -> Result<OutcomeCounts> {
        let row = self.find(
            "SELECT successes, failures FROM outcomes WHERE operation = ?1",
            params![operation],
        )?;
        row.map_or_else(|| Ok(OutcomeCounts::default()), |row| counts_from_row(&row))
    }
}

/// Sets this mark on decisions of the plan and returns how many had a different one.
fn mark_superseded(
    session: &mut StoreSession<'_>,
    plan: PlanId,
    decisions: &[DecisionId],
    mark: i64,
) -> Result<u64> {
    session.lock_plan_stream(plan)?;
    for decision in decisions {
        check_decision_in_plan(session, plan, *decision)?;
    }
    let mut marked = 0;
    for decision in decisions {
        marked += session.execute(
            "UPDATE decisions SET superseded = ?2 WHERE id = ?1 AND superseded <> ?2",
            params![decision.to_string(), mark],
        )?;
    }
    Ok(marked)
}

/// Inserts decisions in one statement, which numbers them after the existing ones, and returns
/// their ids in that order. Omits a decision whose id exists.
fn insert_batch(
    session: &mut StoreSession<'_>,
    plan: PlanId,
    piece: &[Decision],
) -> Result<Vec<(String, i64)>> {
    let mut rows = BulkRows::with_params(vec![Param::from(plan.to_string())]);
    for (number, decision) in (1_i64..).zip(piece) {
        let id = decision.decision_id.to_string();
        rows.push([
            Param::from(reverse_id(&id)),
            Param::from(id),
            Param::from(number),
            Param::from(decision.decision_type.as_str()),
            Param::from(i64::from(decision.is_superseded)),
            Param::from(to_json_body(decision)?),
        ]);
    }
    let source = rows.source();
    // SQLite would parse `ON` after a bare FROM as a join condition; `WHERE true` ends the source.
    let sql = format!(
        "INSERT INTO decisions (plan_id, tail, id, sequence, decision_type, superseded, body) \
         SELECT ?1, column1, column2, column3 + \
         (SELECT coalesce(max(sequence), 0) FROM decisions WHERE plan_id = ?1), \
         column4, column5, column6 FROM {source} WHERE true \
         ON CONFLICT (id) DO NOTHING RETURNING id, sequence"
    );
    let stored = session.query(&sql, &rows.params)?;
    let place = |row: &SqlRow| Ok((row.text(0)?, row.integer(1)?));
    let mut stored: Vec<(String, i64)> = stored.iter().map(place).collect::<Result<_>>()?;
    // RETURNING guarantees no order.
    stored.sort_by_key(|(_, place)| *place);
    Ok(stored)
}

/// Removes the decisions inserted by this call before one was refused.
fn delete_inserted_decisions(
    session: &mut StoreSession<'_>,
    plan: PlanId,
    sequences: &[i64],
) -> Result<()> {
    let Some(first) = sequences.first() else {
        return Ok(());
    };
    session.execute(
        "DELETE FROM decisions WHERE plan_id = ?1 AND sequence >= ?2",
        params![plan.to_string(), *first],
    )?;
    Ok(())
}

/// Fails unless every decision belongs to the plan and its parent is in the plan or earlier in this
/// list.
fn check_parents(
    session: &mut StoreSession<'_>,
    plan: PlanId,
    decisions: &[Decision],
) -> Result<()> {
    let mut known = BTreeSet::new();
    for decision in decisions {
        if decision.plan_id != plan {
            return Err(not_found_error(
                Entity::DecisionOfPlan,
                decision.decision_id,
            ));
        }
        if let Some(parent) = decision.parent_decision_id
            && known.insert(parent)
        {
            check_decision_in_plan(session, plan, parent)?;
        }
        known.insert(decision.decision_id);
    }
    Ok(())
}

/// Fails if the decision does not belong to the plan. A decision that is found stays: decisions are
/// deleted only with their plan.
fn check_decision_in_plan(
    session: &mut StoreSession<'_>,
    plan: PlanId,
    decision: DecisionId,
) -> Result<()> {
    let found = session.find(
        "SELECT id FROM decisions WHERE id = ?1 AND plan_id = ?2",
        params![decision.to_string(), plan.to_string()],
    )?;
    match found {
        Some(_) => Ok(()),
        None => Err(not_found_error(Entity::DecisionOfPlan, decision)),
    }
}

fn decision_from_row(row: &SqlRow) -> Result<Decision> {
    let mut decision: Decision = decode_entity(row, 1)?;
    decision.sequence_number = row.integer(2)?;
    decision.is_superseded = row.integer(3)? != 0;
    Ok(decision)
}

fn correction_from_row(row: &SqlRow) -> Result<Correction> {
    let mut correction: Correction = decode_entity(row, 1)?;
    correction.version = row.integer(2)?;
    Ok(correction)
}

fn counts_from_row(row: &SqlRow) -> Result<OutcomeCounts> {
    Ok(OutcomeCounts {
        successes: decode_count(row, 0)?,
        failures: decode_count(row, 1)?,
    })
}
