//! Actors with a model: find a strategy, run a step, repair validation failures.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleveragents_domain::actor::LlmActor;
use cleveragents_domain::id::{DecisionId, PlanId};
use cleveragents_domain::model_call::ConversationKey;
use cleveragents_domain::strategy::StrategyStep;
use cleveragents_domain::tool::control::{self, FinishInput, StatedDecision, SubmittedStrategy};
use cleveragents_domain::tool_call::{ToolCallRecord, ToolCallState};
use cleveragents_domain::{
    DecisionType, ErrorCategory, NamespacedName, Phase, Plan, Timestamp, ValidationSummary,
};

use super::agent_loop::{
    AgentLoopContext, AgentLoopEnd, ModelTask, PromptContext, budget, interrupt_model_call,
    opening_messages,
};
use super::error::{ExecutionError, Result};
use super::execute_phase::StepContext;
use super::executor::Executor;
use super::steps::{ActorEnd, StepWork};
use crate::actors::open_model;
use crate::decisions::{DecisionContext, DecisionDraft};
use crate::lifecycle::effective_invariants;
use crate::recovery::{NewErrorRecord, load_history};
use crate::runs::RunLease;
use cleveragents_ports::StoreError;
use cleveragents_ports::models::{Model, ModelError};

/// The actor, its model settings and the step it works on.
pub(super) struct LlmActorContext<'a> {
    pub(super) run: &'a RunLease,
    pub(super) actor: &'a NamespacedName,
    pub(super) llm: &'a LlmActor,
    pub(super) step_context: &'a StepContext<'a>,
}

impl Executor {
    /// Runs a step of the strategy.
    pub(super) async fn run_llm_step(
        &self,
        llm_context: &LlmActorContext<'_>,
        work: &StepWork<'_>,
        (step, number): (&StrategyStep, u32),
    ) -> Result<ActorEnd> {
        let strategy = llm_context.step_context.strategy;
        let key = ConversationKey {
            phase: Phase::Execute,
            strategy: strategy.number,
            step: number,
            round: 0,
        };
        let opening = PromptContext {
            strategy: Some(&strategy.strategy),
            step: Some((step, number)),
            ..self
                .load_prompt_context((llm_context.run, llm_context.llm), work)
                .await?
        };
        self.run_conversation(llm_context, work, key, opening).await
    }

    /// Repairs validation failures.
    pub(super) async fn repair(
        &self,
        llm_context: &LlmActorContext<'_>,
        work: &StepWork<'_>,
        (round, found): (u32, &ValidationSummary),
    ) -> Result<ActorEnd> {
        let strategy = llm_context.step_context.strategy;
        let key = ConversationKey {
            phase: Phase::Execute,
            strategy: strategy.number,
            step: work.step,
            round,
        };
        let opening = PromptContext {
            strategy: Some(&strategy.strategy),
            failed_validations: Some(found),
            ..self
                .load_prompt_context((llm_context.run, llm_context.llm), work)
                .await?
        };
        self.run_conversation(llm_context, work, key, opening).await
    }

    async fn run_conversation(
        &self,
        llm_context: &LlmActorContext<'_>,
        work: &StepWork<'_>,
        key: ConversationKey,
        known: PromptContext<'_>,
    ) -> Result<ActorEnd> {
        let messages = opening_messages(work.plan, llm_context.llm, ModelTask::Execute, &known);
        let loop_context = AgentLoopContext {
            run: llm_context.run,
            plan: work.plan,
            actor: llm_context.actor,
            llm: llm_context.llm,
            task: ModelTask::Execute,
            key,
            stop: work.runner.stop.clone(),
        };
        Ok(
            match self.run_agent_loop(loop_context, work, messages).await? {
                AgentLoopEnd::Done(_) => ActorEnd::Done,
                AgentLoopEnd::Ended(end) => end,
            },
        )
    }

    /// Looks for a strategy and returns the one that the model submitted.
    pub(super) async fn find_strategy(
        &self,
        (run, plan): (&RunLease, &Plan),
        (actor, llm): (&NamespacedName, &LlmActor),
        (work, strategies): (&StepWork<'_>, i64),
    ) -> Result<std::result::Result<SubmittedStrategy, ActorEnd>> {
        let key = ConversationKey {
            phase: Phase::Strategize,
            strategy: strategies,
            step: 0,
            round: 0,
        };
        let known = self.load_prompt_context((run, llm), work).await?;
        let messages = opening_messages(plan, llm, ModelTask::Strategize, &known);
        let loop_context = AgentLoopContext {
            run,
            plan,
            actor,
            llm,
            task: ModelTask::Strategize,
            key,
            stop: work.runner.stop.clone(),
        };
        Ok(
            match self.run_agent_loop(loop_context, work, messages).await? {
                AgentLoopEnd::Done(given) => {
                    Ok(serde_json::from_value(given).map_err(StoreError::internal)?)
                }
                AgentLoopEnd::Ended(end) => Err(end),
            },
        )
    }

    /// Loads everything known about the plan for the prompt.
    async fn load_prompt_context(
        &self,
        (run, llm): (&RunLease, &LlmActor),
        work: &StepWork<'_>,
    ) -> Result<PromptContext<'static>> {
        let (plan, ids) = (work.plan.clone(), Arc::clone(&self.ids));
        let id = plan.identity.plan_id;
        let (invariants, decisions, errors) = self
            .store
            .read(move |tx| {
                let invariants = effective_invariants(tx, &*ids, &plan)?;
                let invariants: Vec<String> = invariants.into_iter().map(|it| it.text).collect();
                Ok::<_, ExecutionError>((invariants, tx.decisions_of(id)?, load_history(tx, id)?))
            })
            .await?;
        let calls = self.tool_calls(id).await?;
        Ok(PromptContext {
            invariants,
            decisions,
            errors,
            guidance: self.guidance(run, work, llm).await?,
            finished: finished_summaries(&calls, work.step),
            ..PromptContext::default()
        })
    }

    /// Returns the model of an actor.
    pub(super) fn model_of(
        &self,
        llm: &LlmActor,
    ) -> std::result::Result<Arc<dyn Model>, ModelError> {
        open_model(&*self.models, llm)
    }

    /// Records an unavailable model as an error of the plan.
    pub(super) async fn fail_without_model(
        &self,
        run: &RunLease,
        error: &ModelError,
    ) -> Result<AgentLoopEnd> {
        let reason = error.to_string();
        self.record_plan_error(run, NewErrorRecord::new(ErrorCategory::Resource, &reason))
            .await?;
        Ok(AgentLoopEnd::Ended(ActorEnd::NoAnswer(reason)))
    }

    /// Fails the plan if it has a budget in dollars and the model's price is unknown: the budget
    /// could not be enforced.
    pub(super) async fn check_price(
        &self,
        run: &RunLease,
        plan: &Plan,
        model: &dyn Model,
    ) -> Result<Option<ActorEnd>> {
        let facts = model.facts();
        if budget(plan).usd.is_none() || facts.price.is_some() {
            return Ok(None);
        }
        let reason = format!(
            "{} has no price, so a budget in USD cannot be kept: state one, 0 if it costs nothing",
            facts.choice
        );
        self.record_plan_error(run, NewErrorRecord::new(ErrorCategory::Budget, &reason))
            .await?;
        Ok(Some(ActorEnd::LimitReached(reason)))
    }

    /// Records unfinished model calls of a dead owner as interrupted.
    pub(super) async fn interrupt_model_calls(&self, run: &RunLease) -> Result<()> {
        let plan: PlanId = run.lease().plan;
        let unfinished = self
            .store
            .read(move |tx| tx.unfinished_model_calls(plan))
            .await?;
        for record in unfinished {
            let owner = run.lease().owner.to_string();
            run.write(self.operation("model.interrupt"), move |tx| {
                let why = "its process ended before the answer came";
                interrupt_model_call(tx, &record, why, &owner)
            })
            .await?;
        }
        Ok(())
    }

    /// Records a decision stated by a model in the plan's tree. Idempotent.
    pub(super) async fn record_stated_decision(
        &self,
        run: &RunLease,
        parent: DecisionId,
        (decision_type, stated): (DecisionType, StatedDecision),
    ) -> Result<()> {
        let choice = DecisionDraft {
            parent,
            decision_type,
            question: stated.question,
            chosen: stated.chosen,
            alternatives: stated.alternatives,
            rationale: stated.rationale,
            confidence: stated.confidence,
            reasoning: None,
            context: DecisionContext::default(),
            influences: Vec::new(),
        };
        self.record_decision_once(run, choice, None).await?;
        Ok(())
    }

    /// Records a decision, or returns the one that a previous owner recorded since the given time.
    pub(super) async fn record_decision_once(
        &self,
        run: &RunLease,
        choice: DecisionDraft,
        since: Option<Timestamp>,
    ) -> Result<DecisionId> {
        let (plan, parent) = (run.lease().plan, choice.parent);
        let (question, chosen) = (choice.question.clone(), choice.chosen.clone());
        let known: Option<DecisionId> = self
            .store
            .read(move |tx| {
                let found = tx.decisions_of(plan)?.into_iter().rfind(|it| {
                    it.parent_decision_id == Some(parent)
                        && it.question == question
                        && it.chosen_option == chosen
                        && !it.is_superseded
                        && Some(it.created_at) >= since
                });
                Ok::<_, StoreError>(found.map(|it| it.decision_id))
            })
            .await?;
        match known {
            Some(known) => Ok(known),
            None => Ok(self.decisions.record(run, choice).await?.decision_id),
        }
    }
}

/// Returns the final summary of each earlier step.
fn finished_summaries(calls: &[ToolCallRecord], before: u32) -> Vec<(u32, String)> {
    let mut summaries: BTreeMap<u32, String> = BTreeMap::new();
    let finish_calls = calls.iter().filter(|it| {
        it.undone_by.is_none()
            && it.state == ToolCallState::Completed
            && it.call.tool.to_string() == control::FINISH
    });
    for call in finish_calls {
        let Some(step) = call.call.step.filter(|step| *step < before) else {
            continue;
        };
        if let Ok(finish) = serde_json::from_value::<FinishInput>(call.call.input.clone()) {
            summaries.insert(step, finish.summary);
        }
    }
    summaries.into_iter().collect()
}
