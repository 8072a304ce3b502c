//! Actors with a model: how they find a strategy, carry out a step, and mend what failed.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleveragents_domain::actor::LlmActor;
use cleveragents_domain::id::{DecisionId, PlanId};
use cleveragents_domain::model_call::ConversationKey;
use cleveragents_domain::strategy::StrategyStep;
use cleveragents_domain::tool::talk::{self, Finish, StatedDecision, SubmittedStrategy};
use cleveragents_domain::tool_call::{ToolCallRecord, ToolCallState};
use cleveragents_domain::{
    DecisionType, ErrorCategory, NamespacedName, Phase, Plan, Timestamp, ValidationSummary,
};

use super::error::{ExecutionError, Result};
use super::executor::Executor;
use super::steps::{ActorEnd, StepWork};
use super::talking::{Opening, Subject, TalkEnd, Task, budget, interrupt, opening};
use super::work::Scene;
use crate::actors::open_model;
use crate::decisions::{Choice, Context};
use crate::lifecycle::effective_invariants;
use crate::ports::StoreError;
use crate::ports::models::{Model, ModelError};
use crate::recovery::{Trouble, history};
use crate::runs::RunLease;

/// Who thinks, with what.
pub(super) struct Thought<'a> {
    pub(super) run: &'a RunLease,
    pub(super) actor: &'a NamespacedName,
    pub(super) llm: &'a LlmActor,
    pub(super) scene: &'a Scene<'a>,
}

impl Executor {
    /// Carries out a step of the strategy.
    pub(super) async fn think(
        &self,
        thought: &Thought<'_>,
        work: &StepWork<'_>,
        (step, number): (&StrategyStep, u32),
    ) -> Result<ActorEnd> {
        let strategy = thought.scene.strategy;
        let key = ConversationKey {
            phase: Phase::Execute,
            strategy: strategy.number,
            step: number,
            round: 0,
        };
        let opening = Opening {
            strategy: Some(&strategy.strategy),
            step: Some((step, number)),
            ..self.known((thought.run, thought.llm), work).await?
        };
        self.converse(thought, work, key, opening).await
    }

    /// Mends what validations found wrong.
    pub(super) async fn mend(
        &self,
        thought: &Thought<'_>,
        work: &StepWork<'_>,
        (round, found): (u32, &ValidationSummary),
    ) -> Result<ActorEnd> {
        let strategy = thought.scene.strategy;
        let key = ConversationKey {
            phase: Phase::Execute,
            strategy: strategy.number,
            step: work.step,
            round,
        };
        let opening = Opening {
            strategy: Some(&strategy.strategy),
            found_wrong: Some(found),
            ..self.known((thought.run, thought.llm), work).await?
        };
        self.converse(thought, work, key, opening).await
    }

    async fn converse(
        &self,
        thought: &Thought<'_>,
        work: &StepWork<'_>,
        key: ConversationKey,
        known: Opening<'_>,
    ) -> Result<ActorEnd> {
        let messages = opening(work.plan, thought.llm, Task::Execute, &known);
        let subject = Subject {
            run: thought.run,
            plan: work.plan,
            actor: thought.actor,
            llm: thought.llm,
            task: Task::Execute,
            key,
            stop: work.runner.stop.clone(),
        };
        Ok(match self.talk(subject, work, messages).await? {
            TalkEnd::Done(_) => ActorEnd::Done,
            TalkEnd::Ended(end) => end,
        })
    }

    /// Looks for a strategy, and says what the model handed in.
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
        let known = self.known((run, llm), work).await?;
        let messages = opening(plan, llm, Task::Strategize, &known);
        let subject = Subject {
            run,
            plan,
            actor,
            llm,
            task: Task::Strategize,
            key,
            stop: work.runner.stop.clone(),
        };
        Ok(match self.talk(subject, work, messages).await? {
            TalkEnd::Done(given) => {
                Ok(serde_json::from_value(given).map_err(StoreError::internal)?)
            }
            TalkEnd::Ended(end) => Err(end),
        })
    }

    /// All that is known of the plan so far.
    async fn known(
        &self,
        (run, llm): (&RunLease, &LlmActor),
        work: &StepWork<'_>,
    ) -> Result<Opening<'static>> {
        let (plan, ids) = (work.plan.clone(), Arc::clone(&self.ids));
        let id = plan.identity.plan_id;
        let (invariants, decisions, errors) = self
            .store
            .read(move |unit| {
                let invariants = effective_invariants(unit, &*ids, &plan)?;
                let invariants: Vec<String> = invariants.into_iter().map(|it| it.text).collect();
                Ok::<_, ExecutionError>((invariants, unit.decisions_of(id)?, history(unit, id)?))
            })
            .await?;
        let calls = self.calls(id).await?;
        Ok(Opening {
            invariants,
            decisions,
            errors,
            guidance: self.guidance(run, work, llm).await?,
            finished: finished(&calls, work.step),
            ..Opening::default()
        })
    }

    /// The model that an actor speaks with.
    pub(super) fn model_of(
        &self,
        llm: &LlmActor,
    ) -> std::result::Result<Arc<dyn Model>, ModelError> {
        open_model(&*self.models, llm)
    }

    /// A model that cannot be had is an error of the plan.
    pub(super) async fn no_model(&self, run: &RunLease, error: &ModelError) -> Result<TalkEnd> {
        let reason = error.to_string();
        self.record_trouble(run, Trouble::plain(ErrorCategory::Resource, &reason))
            .await?;
        Ok(TalkEnd::Ended(ActorEnd::NoAnswer(reason)))
    }

    /// A budget in dollars cannot be kept with a model that nobody knows the price of.
    pub(super) async fn unpriced(
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
        self.record_trouble(run, Trouble::plain(ErrorCategory::Budget, &reason))
            .await?;
        Ok(Some(ActorEnd::Limit(reason)))
    }

    /// Puts on record that answers a dead owner waited for will not be heard.
    pub(super) async fn interrupt_models(&self, run: &RunLease) -> Result<()> {
        let plan: PlanId = run.lease().plan;
        let asked = self
            .store
            .read(move |unit| unit.unfinished_model_calls(plan))
            .await?;
        for record in asked {
            let owner = run.lease().owner.to_string();
            run.write(self.operation("model.interrupt"), move |unit| {
                let why = "its owner died before the answer came";
                interrupt(unit, &record, why, &owner)
            })
            .await?;
        }
        Ok(())
    }

    /// Puts a decision that a model stated into the plan's tree, once however often it is seen.
    pub(super) async fn state_decision(
        &self,
        run: &RunLease,
        parent: DecisionId,
        (decision_type, stated): (DecisionType, StatedDecision),
    ) -> Result<()> {
        let choice = Choice {
            parent,
            decision_type,
            question: stated.question,
            chosen: stated.chosen,
            alternatives: stated.alternatives,
            rationale: stated.rationale,
            confidence: stated.confidence,
            reasoning: None,
            context: Context::default(),
            influences: Vec::new(),
        };
        self.decide_once(run, choice, None).await?;
        Ok(())
    }

    /// Records a decision, unless a dead owner did, since this time: then that one stands.
    pub(super) async fn decide_once(
        &self,
        run: &RunLease,
        choice: Choice,
        since: Option<Timestamp>,
    ) -> Result<DecisionId> {
        let (plan, parent) = (run.lease().plan, choice.parent);
        let (question, chosen) = (choice.question.clone(), choice.chosen.clone());
        let known: Option<DecisionId> = self
            .store
            .read(move |unit| {
                let found = unit.decisions_of(plan)?.into_iter().rfind(|it| {
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

/// What was said at the end of each step before this one.
fn finished(calls: &[ToolCallRecord], before: u32) -> Vec<(u32, String)> {
    let mut said: BTreeMap<u32, String> = BTreeMap::new();
    let standing = calls.iter().filter(|it| {
        it.undone_by.is_none()
            && it.state == ToolCallState::Completed
            && it.call.tool.to_string() == talk::FINISH
    });
    for call in standing {
        let Some(step) = call.call.step.filter(|step| *step < before) else {
            continue;
        };
        if let Ok(finish) = serde_json::from_value::<Finish>(call.call.input.clone()) {
            said.insert(step, finish.summary);
        }
    }
    said.into_iter().collect()
}
