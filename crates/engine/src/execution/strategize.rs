//! The Strategize phase: decides which actor does what in which steps, and stores the strategy with
//! its hash.

use std::sync::Arc;

use cleveragents_domain::actor::{Actor, ActorKind, LlmActor};
use cleveragents_domain::event::payloads::StrategyStored;
use cleveragents_domain::id::DecisionId;
use cleveragents_domain::model_call::ConversationKey;
use cleveragents_domain::sandbox::SandboxRecord;
use cleveragents_domain::strategy::{Strategy, StrategyRecord, StrategyStep};
use cleveragents_domain::tool::ToolEffect;
use cleveragents_domain::tool::control::{StatedDecision, SubmittedStrategy};
use cleveragents_domain::{Confidence, DecisionType, Phase, Plan, StreamId, Timestamp};

use super::error::{ExecutionError, Result};
use super::execute_phase::PhaseContext;
use super::llm_actor::LlmWork;
use super::plan_run::{PlanRun, model_context, stated_draft};
use super::steps::{ActorEnd, StepWork};
use crate::confidence::Risk;
use crate::decisions::{DecisionContext, DecisionDraft};
use crate::journal::new_event;
use crate::lifecycle::supersede_strategies;
use crate::undo::{RestorePoint, undo_after};
use cleveragents_ports::StoreError;
use cleveragents_ports::tools::Toolbox;

/// Distance between the turn numbers of two strategies; larger than the number of turns one
/// strategy can use.
const STRATEGY_TURNS: u32 = 1_000_000;

/// Returns the hash that identifies a strategy. Approvals refer to it.
pub fn strategy_hash(strategy: &Strategy) -> std::result::Result<String, StoreError> {
    let json = serde_json::to_vec(strategy).map_err(StoreError::internal)?;
    Ok(blake3::hash(&json).to_hex().to_string())
}

pub(super) enum StrategizeOutcome {
    /// The run has a strategy of this phase.
    Stored,
    Ended(ActorEnd),
}

/// A strategy and the reason for choosing it.
struct ChosenStrategy {
    strategy: Strategy,
    rationale: String,
    confidence: Confidence,
    decisions: Vec<StatedDecision>,
    /// What the model was given.
    context: DecisionContext,
}

/// The Strategize phase of an owned plan.
pub(super) struct StrategizePhase<'a> {
    run: &'a mut PlanRun,
}

impl<'a> StrategizePhase<'a> {
    pub(super) fn new(run: &'a mut PlanRun) -> Self {
        Self { run }
    }

    /// Decides on a strategy and stores it. Reuses one that a previous owner stored in this phase.
    pub(super) async fn run(mut self) -> Result<StrategizeOutcome> {
        let started = self.run.plan.timestamps.strategize_started_at;
        // A strategy from before this phase started belongs to an earlier attempt. Both times are
        // of the database (law 11).
        if let Some(known) = &self.run.strategy
            && Some(known.created_at) >= started
        {
            return Ok(StrategizeOutcome::Stored);
        }
        // Before the model reads: a sandbox whose files are gone must be created anew.
        self.run.discard_removed().await?;
        let found = match self.choose_strategy().await? {
            Ok(found) => found,
            Err(end) => return Ok(StrategizeOutcome::Ended(end)),
        };
        let root = self.run.plan.decision_root_id;
        let parent = root.ok_or_else(|| ExecutionError::Internal {
            reason: format!("plan {} has no root decision", self.run.id()),
        })?;
        let choice = DecisionDraft {
            parent,
            decision_type: DecisionType::StrategyChoice,
            question: "How is it done?".to_owned(),
            chosen: found.strategy.summary.clone(),
            alternatives: Vec::new(),
            rationale: found.rationale,
            confidence: Some(found.confidence),
            reasoning: None,
            context: found.context.clone(),
            influences: Vec::new(),
        };
        let decision = self.run.record_decision_once(choice, started).await?;
        for stated in found.decisions {
            let stated = DecisionDraft {
                context: found.context.clone(),
                ..stated_draft(decision, DecisionType::StrategyChoice, stated)
            };
            self.run.record_decision_once(stated, None).await?;
        }
        self.store_strategy(found.strategy, decision).await?;
        Ok(StrategizeOutcome::Stored)
    }

    /// Finds a strategy: with a model, or the direct one.
    async fn choose_strategy(&self) -> Result<std::result::Result<ChosenStrategy, ActorEnd>> {
        let plan = &self.run.plan;
        let strategist = self.run.actors.get(&plan.brief.actors.strategy_actor)?;
        let execution = self.run.execution_actor()?;
        Ok(match &strategist.kind {
            ActorKind::Llm(llm) => match self.strategize_with_model(strategist, llm).await? {
                Ok((submitted, context)) => Ok(ChosenStrategy {
                    strategy: Strategy {
                        summary: submitted.summary,
                        // Set by the engine: the model must not choose the hash that an approval is
                        // bound to.
                        execution: actor_hash(execution),
                        steps: submitted.steps,
                    },
                    rationale: submitted.rationale,
                    confidence: submitted.confidence,
                    decisions: submitted.decisions,
                    context,
                }),
                Err(end) => Err(end),
            },
            ActorKind::Tool(_) | ActorKind::Direct => Ok(ChosenStrategy {
                strategy: direct_strategy(plan, execution),
                rationale: "The execution actor has its own steps, so there is no choice to make."
                    .to_owned(),
                confidence: Confidence::ONE,
                decisions: Vec::new(),
                context: DecisionContext::default(),
            }),
        })
    }

    /// Lets a model look for a strategy.
    async fn strategize_with_model(
        &self,
        actor: &Actor,
        llm: &LlmActor,
    ) -> Result<std::result::Result<(SubmittedStrategy, DecisionContext), ActorEnd>> {
        let run = &*self.run;
        run.interrupt_unfinished().await?;
        let context = PhaseContext::open(run, actor).await?;
        let mut work = StepWork::begin(run, &context, &context.runner, 0).await?;
        let strategies = run.strategy.as_ref().map_or(0, |it| it.number);
        // Each strategy gets its own turn numbers, so results of calls for an earlier strategy are
        // not reused: the files may differ now.
        let before = u32::try_from(strategies).unwrap_or(u32::MAX);
        work.first_turn = STRATEGY_TURNS.saturating_mul(before);
        let llm_work = LlmWork {
            run,
            actor: &actor.name,
            llm,
            work: &work,
        };
        let key = ConversationKey {
            phase: Phase::Strategize,
            strategy: strategies,
            step: 0,
            round: 0,
        };
        let found = llm_work.find_strategy(key).await?;
        let known = model_context(run, key, &context.workspace).await?;
        work.close().await?;
        Ok(found.map(|submitted| (submitted, known)))
    }

    /// Stores the strategy. Undoes the work for the previous one.
    async fn store_strategy(&mut self, strategy: Strategy, decision_id: DecisionId) -> Result<()> {
        let plan = &self.run.plan;
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
        let (ids, plan) = (Arc::clone(&self.run.services.ids), plan.clone());
        let actor = self.run.owner_name();
        let operation = self.run.operation("strategy.store");
        let stored = self.run.lease.write(operation, move |tx| {
            // Lock order: the plan before its strategies and its stream.
            let mut held = tx.plan_for_update(record.plan_id)?;
            if held.last_completed_step.take().is_some() {
                // The completed steps belonged to the previous strategy.
                held.version = tx.update_plan(&held)?;
            }
            let mut record = StrategyRecord {
                created_at: tx.now()?,
                ..record.clone()
            };
            record.number = tx.insert_strategy(&record)?;
            // Returning to Strategize undoes the work for the previous strategy. A plan that an
            // older program set back still has it.
            let has_work = |it: &SandboxRecord| it.tree != it.base_tree;
            let back = if tx.sandboxes_of(record.plan_id)?.iter().any(has_work) {
                let initial = RestorePoint::initial(tx, record.plan_id)?;
                undo_after(tx, &*ids, &plan, &initial, &actor)?
            } else {
                None
            };
            let superseded =
                supersede_strategies(tx, record.plan_id, Some(record.decision_id), &actor)?;
            let stored = StrategyStored {
                number: record.number,
                hash: record.hash.clone(),
                steps: record.strategy.steps.len() as u64,
                titles: step_titles(&record.strategy),
            };
            let mut events = vec![new_event(&actor, &stored)?];
            let has_undone = back.is_some();
            events.extend(back.map(|(_, new_event)| new_event));
            events.extend(superseded);
            tx.append(StreamId::Plan(record.plan_id), &events)?;
            Ok::<_, ExecutionError>((held, record, has_undone))
        });
        let (plan, record, has_undone) = stored.await?;
        if has_undone {
            // The index follows the rows that the transaction marked.
            self.run.calls.undo_after(0);
        }
        self.run.plan = plan;
        self.run.strategy = Some(record);
        Ok(())
    }
}

fn step_titles(strategy: &Strategy) -> Vec<String> {
    let steps = strategy.steps.iter();
    steps.map(|step| step.title.clone()).collect()
}

/// Builds the strategy of `builtin/direct`: one step if the execution actor has steps of its own,
/// else one step per line of the definition of done.
fn direct_strategy(plan: &Plan, execution: &Actor) -> Strategy {
    let brief = &plan.brief;
    let step = |title: &str| StrategyStep {
        title: title.to_owned(),
        description: brief.description.clone(),
    };
    let (summary, steps) = match &execution.kind {
        ActorKind::Tool(tool) => {
            let calls = match tool.steps.len() {
                1 => "1 tool call".to_owned(),
                calls => format!("{calls} tool calls"),
            };
            let summary = format!("{} makes its {calls}", execution.name);
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

/// Returns the hash of an actor's definition. An approval is valid only for this hash.
pub(super) fn actor_hash(actor: &Actor) -> String {
    // By a JSON value, whose keys are sorted: reordering the fields of the type must not change
    // hashes that users approved.
    let text = serde_json::to_value(actor).unwrap_or_default().to_string();
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// Estimates the risk of a strategy with this many steps, as input to the confidence. The actions
/// of an actor with a model are not known in advance: each step counts as two changed files and one
/// command. A tool that does not exist cannot do anything.
pub(super) fn estimate_risk(execution: &Actor, steps: usize, toolbox: &dyn Toolbox) -> Risk {
    let mut risk = Risk::default();
    if let ActorKind::Llm(_) = execution.kind {
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        // A guess on the high side: asking the user once too often is better than too rarely.
        risk.files = steps.saturating_mul(2);
        risk.commands = steps;
    }
    for step in execution.steps() {
        let tool = toolbox.tool(&step.tool);
        match tool.map(|tool| tool.definition().capability.effect) {
            Some(ToolEffect::RunsCommand) => risk.commands += 1,
            Some(ToolEffect::DeletesFiles) => risk.deletes += 1,
            Some(ToolEffect::ChangesFiles) => risk.files += 1,
            Some(ToolEffect::NoChange) | None => {}
        }
    }
    risk
}

#[cfg(test)]
mod tests {
    use cleveragents_domain::NamespacedName;
    use cleveragents_domain::tool::{Capability, ToolDefinition};
    use cleveragents_ports::tools::{Tool, ToolFailure, ToolInvocation, ToolOutput};
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug)]
    struct NamedTool(ToolDefinition);

    impl Tool for NamedTool {
        fn definition(&self) -> &ToolDefinition {
            &self.0
        }

        fn check_input(&self, _: &Value) -> std::result::Result<(), ToolFailure> {
            Ok(())
        }

        fn check_output(&self, _: &ToolOutput) -> std::result::Result<(), ToolFailure> {
            Ok(())
        }

        fn run(&self, _: &ToolInvocation<'_>) -> std::result::Result<ToolOutput, ToolFailure> {
            panic!("an estimate runs no tool")
        }
    }

    #[derive(Debug)]
    struct NamedTools(Vec<NamedTool>);

    impl Toolbox for NamedTools {
        fn definitions(&self) -> Vec<&ToolDefinition> {
            self.0.iter().map(|tool| &tool.0).collect()
        }

        fn tool(&self, name: &NamespacedName) -> Option<&dyn Tool> {
            let found = self.0.iter().find(|tool| tool.0.name == *name);
            found.map(|tool| tool as &dyn Tool)
        }
    }

    #[test]
    fn the_risk_of_a_tool_comes_from_its_capability() {
        let tool = |&effect: &ToolEffect| {
            NamedTool(ToolDefinition {
                name: format!("local/{effect}").parse().unwrap(),
                description: String::new(),
                input_schema: Value::Null,
                output_schema: Value::Null,
                capability: Capability::read_write().with_effect(effect),
                timeout_seconds: 1,
            })
        };
        let toolbox = NamedTools(ToolEffect::ALL.iter().map(tool).collect());
        let actor: Actor = serde_json::from_value(json!({
            "name": "local/steps",
            "description": "",
            "kind": {"type": "tool", "steps": [
                {"tool": "local/changes_files"},
                {"tool": "local/changes_files"},
                {"tool": "local/deletes_files"},
                {"tool": "local/runs_command"},
                {"tool": "local/no_change"},
                {"tool": "builtin/shell"},
            ]},
        }))
        .unwrap();
        let expected = Risk {
            files: 2,
            deletes: 1,
            commands: 1,
        };
        assert_eq!(estimate_risk(&actor, 1, &toolbox), expected);
    }
}
