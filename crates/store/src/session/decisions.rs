//! Store operations on decisions. All numbering and marking happens while this transaction holds
//! the lock on the plan's stream, so positions have no gaps and transactions cannot deadlock.

use std::collections::BTreeSet;

use cleveragents_domain::id::{DecisionId, IdFragment, PlanId};
use cleveragents_domain::{Decision, DecisionEdge};
use cleveragents_engine::ports::{Decisions, Result, StoreError};

use super::StoreSession;
use super::bulk::{BulkRows, split_batches};
use super::rows::{IdLookup, decode_entity, not_found_error, reverse_id, to_json_body};
use crate::value::{Param, SqlRow, params};

const COLUMNS: &str = "id, body, sequence, superseded";

impl Decisions for StoreSession<'_> {
    fn insert_decision(&mut self, decision: &Decision) -> Result<i64> {
        let sequences = self.insert_decisions(decision.plan_id, std::slice::from_ref(decision))?;
        let sequence = sequences.first().copied();
        sequence.ok_or_else(|| StoreError::internal("a stored decision has no place"))
    }

    fn insert_decisions(&mut self, plan: PlanId, decisions: &[Decision]) -> Result<Vec<i64>> {
        self.lock_plan_stream(plan)?;
        self.check_parents(plan, decisions)?;
        let mut sequences = Vec::with_capacity(decisions.len());
        for piece in split_batches(decisions) {
            let stored = self.insert_batch(plan, piece)?;
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
                self.delete_inserted_decisions(plan, &sequences)?;
                return Err(StoreError::Taken {
                    what: "the decision id",
                    name: id,
                    holder: "another decision".to_owned(),
                });
            }
        }
        Ok(sequences)
    }

    fn decision(&mut self, id: DecisionId) -> Result<Decision> {
        let sql = format!("SELECT {COLUMNS} FROM decisions WHERE id = ?1");
        let row = self.find(&sql, params![id.to_string()])?;
        row.map(|row| decision_from_row(&row))
            .unwrap_or_else(|| Err(not_found_error("decision", id)))
    }

    fn find_decision(&mut self, fragment: &IdFragment) -> Result<Decision> {
        let lookup = IdLookup {
            what: "decision",
            table: "decisions",
            columns: COLUMNS,
        };
        decision_from_row(&self.row_by_fragment(&lookup, fragment)?)
    }

    fn decisions_of(&mut self, plan: PlanId) -> Result<Vec<Decision>> {
        let sql = format!("SELECT {COLUMNS} FROM decisions WHERE plan_id = ?1 ORDER BY sequence");
        let rows = self.query(&sql, params![plan.to_string()])?;
        rows.iter().map(decision_from_row).collect()
    }

    fn add_influence(&mut self, plan: PlanId, edge: DecisionEdge) -> Result<()> {
        self.lock_plan(plan)?;
        self.check_decision_in_plan(plan, edge.from)?;
        self.check_decision_in_plan(plan, edge.to)?;
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
        self.mark_superseded(plan, decisions, 1)
    }

    fn reinstate(&mut self, plan: PlanId, decisions: &[DecisionId]) -> Result<u64> {
        self.mark_superseded(plan, decisions, 0)
    }
}

impl StoreSession<'_> {
    /// Sets this mark on decisions of the plan and returns how many had a different one.
    fn mark_superseded(
        &mut self,
        plan: PlanId,
        decisions: &[DecisionId],
        mark: i64,
    ) -> Result<u64> {
        self.lock_plan_stream(plan)?;
        for decision in decisions {
            self.check_decision_in_plan(plan, *decision)?;
        }
        let mut marked = 0;
        for decision in decisions {
            marked += self.execute(
                "UPDATE decisions SET superseded = ?2 WHERE id = ?1 AND superseded <> ?2",
                params![decision.to_string(), mark],
            )?;
        }
        Ok(marked)
    }

    /// Inserts decisions in one statement, which numbers them after the existing ones, and returns
    /// their ids in that order. Omits a decision whose id exists.
    fn insert_batch(&mut self, plan: PlanId, piece: &[Decision]) -> Result<Vec<(String, i64)>> {
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
        let sql = format!(
            "INSERT INTO decisions (plan_id, tail, id, sequence, decision_type, superseded, body) \
             SELECT ?1, column1, column2, column3 + \
             (SELECT coalesce(max(sequence), 0) FROM decisions WHERE plan_id = ?1), \
             column4, column5, column6 FROM {source} WHERE true \
             ON CONFLICT (id) DO NOTHING RETURNING id, sequence"
        );
        let stored = self.query(&sql, &rows.params)?;
        let place = |row: &SqlRow| Ok((row.text(0)?, row.integer(1)?));
        let mut stored: Vec<(String, i64)> = stored.iter().map(place).collect::<Result<_>>()?;
        stored.sort_by_key(|(_, place)| *place);
        Ok(stored)
    }

    /// Removes the decisions inserted by this call before one was refused.
    fn delete_inserted_decisions(&mut self, plan: PlanId, sequences: &[i64]) -> Result<()> {
        let Some(first) = sequences.first() else {
            return Ok(());
        };
        self.execute(
            "DELETE FROM decisions WHERE plan_id = ?1 AND sequence >= ?2",
            params![plan.to_string(), *first],
        )?;
        Ok(())
    }

    /// Fails unless every decision belongs to the plan and its parent is in the plan or earlier in
    /// this list.
    fn check_parents(&mut self, plan: PlanId, decisions: &[Decision]) -> Result<()> {
        let mut known = BTreeSet::new();
        for decision in decisions {
            if decision.plan_id != plan {
                return Err(not_found_error(
                    "decision of this plan",
                    decision.decision_id,
                ));
            }
            if let Some(parent) = decision.parent_decision_id
                && known.insert(parent)
            {
                self.check_decision_in_plan(plan, parent)?;
            }
            known.insert(decision.decision_id);
        }
        Ok(())
    }

    /// Fails if the decision does not belong to the plan. A decision that is found stays: decisions
    /// are deleted only with their plan.
    pub(super) fn check_decision_in_plan(
        &mut self,
        plan: PlanId,
        decision: DecisionId,
    ) -> Result<()> {
        let found = self.find(
            "SELECT id FROM decisions WHERE id = ?1 AND plan_id = ?2",
            params![decision.to_string(), plan.to_string()],
        )?;
        match found {
            Some(_) => Ok(()),
            None => Err(not_found_error("decision of this plan", decision)),
        }
    }
}

fn decision_from_row(row: &SqlRow) -> Result<Decision> {
    let mut decision: Decision = decode_entity(row, 1)?;
    decision.sequence_number = row.integer(2)?;
    decision.is_superseded = row.integer(3)? != 0;
    Ok(decision)
}
