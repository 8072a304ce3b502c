//! Actors with a model: find a strategy, run a step, repair validation failures.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleveragents_domain::actor::LlmActor;
use cleveragents_domain::model_call::ConversationKey;
use cleveragents_domain::strategy::{StrategyRecord, StrategyStep};
use cleveragents_domain::tool::control::{ControlTool, FinishInput, SubmittedStrategy};
use cleveragents_domain::tool_call::{ToolCallRecord, ToolCallState};
use cleveragents_domain::{NamespacedName, Phase, ValidationSummary};

use super::agent_loop::{AgentLoopEnd, ModelTask, PromptContext, opening_messages, run_agent_loop};
use super::call_index::load_calls;
use super::error::{ExecutionError, Result};
use super::guidance::load_guidance;
use super::plan_run::PlanRun;
use super::steps::{ActorEnd, StepWork};
use crate::error_history::load_history;
use crate::lifecycle::effective_invariants;
use cleveragents_ports::StoreError;

/// An actor with a model at work on a step.
#[derive(Clone, Copy)]
pub(super) struct LlmWork<'a> {
    pub(super) run: &'a PlanRun,
    pub(super) actor: &'a NamespacedName,
    pub(super) llm: &'a LlmActor,
    pub(super) work: &'a StepWork<'a>,
}

impl LlmWork<'_> {
    pub(super) async fn run_step(
        &self,
        strategy: &StrategyRecord,
        step: &StrategyStep,
        number: u32,
    ) -> Result<ActorEnd> {
        let key = ConversationKey {
            phase: Phase::Execute,
            strategy: strategy.number,
            step: number,
            round: 0,
        };
        // A resumed conversation contains the files that its earlier calls read.
        let earlier = self
            .run
            .calls
            .select(|it| it.is_valid() && it.step == Some(number));
        let earlier = load_calls(&self.run.services.store, &earlier).await?;
        self.work.restore_stamps(&earlier);
        let opening = PromptContext {
            strategy: Some(&strategy.strategy),
            step: Some((step, number)),
            ..self.load_prompt_context().await?
        };
        self.run_conversation(key, opening).await
    }

    /// Repairs validation failures.
    pub(super) async fn repair(
        &self,
        strategy: &StrategyRecord,
        round: u32,
        found: &ValidationSummary,
    ) -> Result<ActorEnd> {
        let key = ConversationKey {
            phase: Phase::Execute,
            strategy: strategy.number,
            step: self.work.step,
            round,
        };
        let opening = PromptContext {
            strategy: Some(&strategy.strategy),
            failed_validations: Some(found),
            ..self.load_prompt_context().await?
        };
        self.run_conversation(key, opening).await
    }

    async fn run_conversation(
        &self,
        key: ConversationKey,
        known: PromptContext<'_>,
    ) -> Result<ActorEnd> {
        let task = ModelTask::Execute;
        let messages = opening_messages(&self.run.plan, self.llm, task, &known);
        Ok(match run_agent_loop(*self, task, key, messages).await? {
            AgentLoopEnd::Done(_) => ActorEnd::Done,
            AgentLoopEnd::Ended(end) => end,
        })
    }

    /// Looks for a strategy and returns the one that the model submitted.
    pub(super) async fn find_strategy(
        &self,
        key: ConversationKey,
    ) -> Result<std::result::Result<SubmittedStrategy, ActorEnd>> {
        let known = self.load_prompt_context().await?;
        let task = ModelTask::Strategize;
        let messages = opening_messages(&self.run.plan, self.llm, task, &known);
        Ok(match run_agent_loop(*self, task, key, messages).await? {
            AgentLoopEnd::Done(given) => {
                Ok(serde_json::from_value(given).map_err(StoreError::internal)?)
            }
            AgentLoopEnd::Ended(end) => Err(end),
        })
    }

    /// Loads everything known about the plan for the prompt.
    async fn load_prompt_context(&self) -> Result<PromptContext<'static>> {
        let services = &self.run.services;
        let (plan, ids) = (self.run.plan.clone(), Arc::clone(&services.ids));
        let id = self.run.id();
        // Read for each prompt: a user may have sent guidance since the last one.
        let (invariants, decisions, errors) = services
            .store
            .read(move |tx| {
                let invariants = effective_invariants(tx, &*ids, &plan)?;
                let invariants: Vec<String> = invariants.into_iter().map(|it| it.text).collect();
                Ok::<_, ExecutionError>((invariants, tx.decisions_of(id)?, load_history(tx, id)?))
            })
            .await?;
        let finished = self.run.calls.select(|it| {
            // Only steps before this one and only calls that were not undone: a rollback may have
            // removed their work.
            it.is_valid()
                && it.state == ToolCallState::Completed
                && it.step.is_some_and(|step| step < self.work.step)
                && ControlTool::from_name(&it.tool) == Some(ControlTool::Finish)
        });
        let finished = load_calls(&services.store, &finished).await?;
        Ok(PromptContext {
            invariants,
            decisions,
            errors,
            guidance: load_guidance(self.run, self.work, self.llm).await?,
            finished: finished_summaries(&finished),
            ..PromptContext::default()
        })
    }
}

/// Returns the final summary of each step, from the calls that finished them.
fn finished_summaries(calls: &[ToolCallRecord]) -> Vec<(u32, String)> {
    let mut summaries: BTreeMap<u32, String> = BTreeMap::new();
    for call in calls {
        let finish = serde_json::from_value::<FinishInput>(call.call.input.clone());
        if let (Some(step), Ok(finish)) = (call.call.step, finish) {
            summaries.insert(step, finish.summary);
        }
    }
    summaries.into_iter().collect()
}
