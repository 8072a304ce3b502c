//! The verbs of decisions. Everything that is numbered or marked happens while the plan's stream
//! is this transaction's alone, so places have no gaps and nobody waits in a circle.

use cleveragents_domain::id::{DecisionId, IdFragment, PlanId};
use cleveragents_domain::{Decision, DecisionEdge};
use cleveragents_engine::ports::{Decisions, Result, StoreError};

use super::Session;
use super::rows::{Findable, body_of, entity_in, not_found, tail_of};
use crate::value::{Row, params};

const COLUMNS: &str = "id, body, sequence, superseded";

impl Decisions for Session<'_> {
    fn insert_decision(&mut self, decision: &Decision) -> Result<i64> {
        self.take_turn(decision.plan_id)?;
        if let Some(parent) = decision.parent_decision_id {
            self.decision_in_plan(decision.plan_id, parent)?;
        }
        let id = decision.decision_id.to_string();
        let row = self.find(
            "INSERT INTO decisions (id, tail, plan_id, sequence, decision_type, superseded, body) \
             VALUES (?1, ?2, ?3, \
             (SELECT coalesce(max(sequence), 0) + 1 FROM decisions WHERE plan_id = ?3), \
             ?4, ?5, ?6) ON CONFLICT (id) DO NOTHING RETURNING sequence",
            params![
                &id,
                tail_of(&id),
                decision.plan_id.to_string(),
                decision.decision_type.as_str(),
                i64::from(decision.is_superseded),
                body_of(decision)?,
            ],
        )?;
        match row {
            Some(row) => row.integer(0),
            None => Err(StoreError::Taken {
                what: "the decision id",
                name: id,
                holder: "another decision".to_owned(),
            }),
        }
    }

    fn decision(&mut self, id: DecisionId) -> Result<Decision> {
        let sql = format!("SELECT {COLUMNS} FROM decisions WHERE id = ?1");
        let row = self.find(&sql, params![id.to_string()])?;
        row.map(|row| decision_of(&row))
            .unwrap_or_else(|| Err(not_found("decision", id)))
    }

    fn find_decision(&mut self, fragment: &IdFragment) -> Result<Decision> {
        let findable = Findable {
            what: "decision",
            table: "decisions",
            columns: COLUMNS,
        };
        decision_of(&self.row_by_fragment(&findable, fragment)?)
    }

    fn decisions_of(&mut self, plan: PlanId) -> Result<Vec<Decision>> {
        let sql = format!("SELECT {COLUMNS} FROM decisions WHERE plan_id = ?1 ORDER BY sequence");
        let rows = self.query(&sql, params![plan.to_string()])?;
        rows.iter().map(decision_of).collect()
    }

    fn add_influence(&mut self, plan: PlanId, edge: DecisionEdge) -> Result<()> {
        self.hold_plan(plan)?;
        self.decision_in_plan(plan, edge.from)?;
        self.decision_in_plan(plan, edge.to)?;
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
        let edge = |row: &Row| {
            Ok(DecisionEdge {
                from: row.parsed(0)?,
                to: row.parsed(1)?,
            })
        };
        rows.iter().map(edge).collect()
    }

    fn supersede(&mut self, plan: PlanId, decisions: &[DecisionId]) -> Result<u64> {
        self.take_turn(plan)?;
        for decision in decisions {
            self.decision_in_plan(plan, *decision)?;
        }
        let mut superseded = 0;
        for decision in decisions {
            superseded += self.execute(
                "UPDATE decisions SET superseded = 1 WHERE id = ?1 AND superseded = 0",
                params![decision.to_string()],
            )?;
        }
        Ok(superseded)
    }
}

impl Session<'_> {
    /// Refuses a decision that is not one of the plan's. What is found stays: decisions go only
    /// with their plan.
    pub(super) fn decision_in_plan(&mut self, plan: PlanId, decision: DecisionId) -> Result<()> {
        let found = self.find(
            "SELECT id FROM decisions WHERE id = ?1 AND plan_id = ?2",
            params![decision.to_string(), plan.to_string()],
        )?;
        match found {
            Some(_) => Ok(()),
            None => Err(not_found("decision of this plan", decision)),
        }
    }
}

fn decision_of(row: &Row) -> Result<Decision> {
    let mut decision: Decision = entity_in(row, 1)?;
    decision.sequence_number = row.integer(2)?;
    decision.is_superseded = row.integer(3)? != 0;
    Ok(decision)
}
