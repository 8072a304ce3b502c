//! Strategize: who does what in which steps, stored and named by its hash.

use std::sync::Arc;

use cleveragents_domain::actor::{Actor, ActorKind};
use cleveragents_domain::id::DecisionId;
use cleveragents_domain::strategy::{Strategy, StrategyRecord, StrategyStep};
use cleveragents_domain::{Confidence, DecisionType, EventKind, Plan, StreamId, Timestamp};
use serde_json::json;

use super::error::{ExecutionError, Result};
use super::executor::Executor;
use super::rollback::{Earlier, set_back};
use crate::confidence::Risk;
use crate::decisions::{Choice, Context};
use crate::journal::event;
use crate::ports::StoreError;
use crate::runs::RunLease;

/// The name a strategy goes by.
pub fn strategy_hash(strategy: &Strategy) -> std::result::Result<String, StoreError> {
    let json = serde_json::to_vec(strategy).map_err(StoreError::internal)?;
    Ok(blake3::hash(&json).to_hex().to_string())
}

impl Executor {
    /// Decides on a strategy and stores it. One that a dead owner stored in this very phase
    /// stands.
    pub(super) async fn strategize(&self, run: &RunLease, plan: &Plan) -> Result<StrategyRecord> {
        let id = plan.identity.plan_id;
        let newest = self
            .store
            .read(move |unit| unit.newest_strategy(id))
            .await?;
        if let Some(known) = newest
            && Some(known.created_at) >= plan.timestamps.strategize_started_at
        {
            return Ok(known);
        }
        let execution = self.actor(&plan.brief.actors.execution_actor).await?;
        let strategy = direct_strategy(plan, &execution);
        let parent = plan.decision_root_id.ok_or_else(|| ExecutionError::Lost {
            reason: format!("plan {id} has no root decision"),
        })?;
        let choice = Choice {
            parent,
            decision_type: DecisionType::StrategyChoice,
            question: "How is it done?".to_owned(),
            chosen: strategy.summary.clone(),
            alternatives: Vec::new(),
            rationale: "The execution actor has its own steps; nothing is left to choose."
                .to_owned(),
            confidence: Some(Confidence::ONE),
            reasoning: None,
            context: Context::default(),
            influences: Vec::new(),
        };
        let decision = self.decisions.record(run, choice).await?;
        self.store_strategy(run, plan, strategy, decision.decision_id)
            .await
    }

    async fn store_strategy(
        &self,
        run: &RunLease,
        plan: &Plan,
        strategy: Strategy,
        decision_id: DecisionId,
    ) -> Result<StrategyRecord> {
        let record = StrategyRecord {
            plan_id: plan.identity.plan_id,
            number: 0,
            attempt: plan.attempt,
            hash: strategy_hash(&strategy)?,
            strategy,
            actor: plan.brief.actors.strategy_actor.clone(),
            decision_id,
            created_at: Timestamp::default(),
            approved_by: None,
            approved_at: None,
        };
        let (ids, plan) = (Arc::clone(&self.ids), plan.clone());
        let actor = run.lease().owner.to_string();
        run.write(self.operation("strategy.store"), move |unit| {
            let mut held = unit.plan_for_update(record.plan_id)?;
            if held.last_completed_step.take().is_some() {
                // The steps belonged to the strategy that is given up.
                unit.update_plan(&held)?;
            }
            let mut record = StrategyRecord {
                created_at: unit.now()?,
                ..record.clone()
            };
            record.number = unit.insert_strategy(&record)?;
            // What was done for another strategy is given up: its files go, its record stays.
            let beginning = Earlier::beginning(unit, record.plan_id)?;
            let back = set_back(unit, &*ids, &plan, &beginning, &actor)?;
            let stored = json!({
                "number": record.number,
                "hash": record.hash,
                "steps": record.strategy.steps.len(),
            });
            let mut events = vec![event(EventKind::StrategyStored, &actor, &stored)?];
            events.extend(back.map(|(_, told)| told));
            unit.append(StreamId::Plan(record.plan_id), &events)?;
            Ok(record)
        })
        .await
    }
}

/// What `builtin/direct` makes of a plan: one step for an actor that has its own, one for each line
/// of the definition of done for one that has to find them.
fn direct_strategy(plan: &Plan, execution: &Actor) -> Strategy {
    let brief = &plan.brief;
    let step = |title: &str| StrategyStep {
        title: title.to_owned(),
        description: brief.description.clone(),
    };
    let (summary, steps) = match &execution.kind {
        ActorKind::Tool(tool) => {
            let calls = match tool.steps.len() {
                1 => "its tool call".to_owned(),
                calls => format!("its {calls} tool calls"),
            };
            let summary = format!("{} makes {calls}", execution.name);
            (summary, vec![step(&format!("Run {}", execution.name))])
        }
        ActorKind::Direct => (
            "Nothing is changed".to_owned(),
            vec![step("Complete with no change")],
        ),
        ActorKind::Llm(_) => {
            let lines = brief.definition_of_done.lines().map(str::trim);
            let lines = lines.filter(|line| !line.is_empty());
            let mut steps: Vec<StrategyStep> = lines.map(step).collect();
            if steps.is_empty() {
                steps.push(step(&brief.description));
            }
            let summary = format!("{} works on what is to be done", execution.name);
            (summary, steps)
        }
    };
    Strategy {
        summary,
        execution: actor_hash(execution),
        steps,
    }
}

/// What an actor's definition says, as a hash: an approval holds for this and nothing else.
pub(super) fn actor_hash(actor: &Actor) -> String {
    let text = serde_json::to_value(actor).unwrap_or_default().to_string();
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// What the steps of an actor put at stake, for the confidence in them.
pub(super) fn risk(execution: &Actor) -> Risk {
    let mut risk = Risk::default();
    for step in execution.steps() {
        match step.tool.to_string().as_str() {
            "builtin/shell" => risk.commands += 1,
            "builtin/file-delete" | "builtin/dir-delete" => risk.deletes += 1,
            "builtin/file-write" | "builtin/file-edit" | "builtin/file-move"
            | "builtin/file-copy" => risk.files += 1,
            _ => {}
        }
    }
    risk
}
