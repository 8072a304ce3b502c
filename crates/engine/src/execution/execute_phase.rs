//! The Execute phase: runs the approved strategy step by step in the plan's sandboxes.

use std::sync::Arc;

use cleveragents_domain::actor::{Actor, ActorKind};
use cleveragents_domain::event::payloads::{ActorErrored, ActorInvoked};
use cleveragents_domain::id::{DecisionId, SandboxId};
use cleveragents_domain::strategy::{StrategyRecord, StrategyStep};
use cleveragents_domain::tool_call::ToolCallState;
use cleveragents_domain::{Confidence, DecisionType, StreamId, TreeId, WaitReason};

use super::call_index::{CallEntry, load_call};
use super::error::{ExecutionError, Result};
use super::llm_actor::LlmWork;
use super::plan_run::PlanRun;
use super::runner::ToolRunner;
use super::steps::{ActorEnd, CallHistory, StepWork, is_confirmed};
use super::strategize::actor_hash;
use super::validate::{ValidateOutcome, ValidatePhase};
use super::workspace::Workspace;
use crate::decisions::{DecisionContext, DecisionDraft};
use crate::undo::{RestorePoint, undo_after};
use cleveragents_ports::{StopReason, StoreError};

/// The outcome of a phase.
#[derive(Debug)]
pub(super) enum PhaseEnd {
    Complete,
    Constrained(String),
    Waiting { waiting: WaitReason, reason: String },
    LimitReached(String),
    Failed(String),
    Stopped(StopReason),
}

/// The Execute phase of an owned plan.
pub(super) struct ExecutePhase<'a> {
    run: &'a mut PlanRun,
    strategy: StrategyRecord,
    /// The execution actor whose hash was checked. It is not read again: an update after the check
    /// would run calls without approval.
    actor: Actor,
}

impl<'a> ExecutePhase<'a> {
    /// Fails if the strategy is not approved, or if neither user nor profile permits its actor.
    pub(super) async fn new(run: &'a mut PlanRun) -> Result<Self> {
        let strategy = run.approved_strategy()?;
        let actor = run.execution_actor()?.clone();
        // The gate was decided before the claim. The actor that runs is the one of this run.
        if strategy.strategy.execution != actor_hash(&actor) {
            let permitted = run
                .services
                .permits_changed_actor(&run.plan, &strategy, &actor);
            if !permitted.await? {
                return Err(ExecutionError::ActorChanged { name: actor.name });
            }
        }
        Ok(Self {
            run,
            strategy,
            actor,
        })
    }

    /// Runs the steps that are not done yet, then the validations.
    pub(super) async fn run(self) -> Result<PhaseEnd> {
        self.run.interrupt_unfinished().await?;
        self.run.discard_removed().await?;
        if matches!(self.actor.kind, ActorKind::Tool(_)) {
            self.undo_failed().await?;
        }
        let context = PhaseContext::open(self.run, &self.actor).await?;
        for (step, number) in self.strategy.strategy.steps.iter().zip(1_u32..) {
            if self.run.plan.last_completed_step >= Some(number) {
                continue;
            }
            match self.run_step(&context, step, number).await? {
                ActorEnd::Done => self.run.complete_step(number).await?,
                end => return Ok(end.into()),
            }
        }
        let validation = ValidatePhase {
            run: self.run,
            context: &context,
            strategy: &self.strategy,
            actor: &self.actor,
        };
        let summary = match validation.run().await? {
            ValidateOutcome::Completed(summary) => summary,
            ValidateOutcome::Ended(end) => return Ok(end.into()),
        };
        let sandboxes = context.workspace.sandboxes.iter();
        let sandbox_ids: Vec<SandboxId> = sandboxes.map(|it| it.id).collect();
        drop(context);
        self.run.finish_execute(&sandbox_ids, summary).await
    }

    /// Undoes the changes of failed calls before they are retried. The plan resumes after its last
    /// confirmed call.
    async fn undo_failed(&self) -> Result<()> {
        let run = &*self.run;
        let last = self.last_confirmed_call().await?;
        let failed = run.calls.select(|it| it.is_valid() && it.number > last);
        if failed.is_empty() {
            return Ok(());
        }
        let trees: Vec<(SandboxId, TreeId)> = failed
            .into_iter()
            .map(|it| (it.sandbox_id, it.tree_before))
            .collect();
        let (ids, plan) = (Arc::clone(&run.services.ids), run.plan.clone());
        let actor = run.owner_name();
        run.lease
            .write(run.operation("tool.undo-failed"), move |tx| {
                let id = plan.identity.plan_id;
                tx.plan_for_update(id)?;
                let restore_point = RestorePoint::before_calls(tx, id, last, &trees)?;
                let back = undo_after(tx, &*ids, &plan, &restore_point, &actor)?;
                let events: Vec<_> = back.into_iter().map(|(_, new_event)| new_event).collect();
                tx.append(StreamId::Plan(id), &events)?;
                Ok::<_, StoreError>(())
            })
            .await?;
        run.calls.undo_after(last);
        Ok(())
    }

    /// Returns the number of the last call that succeeded, or 0.
    async fn last_confirmed_call(&self) -> Result<i64> {
        let completed = |it: &CallEntry| it.is_valid() && it.state == ToolCallState::Completed;
        for entry in self.run.calls.select(completed).into_iter().rev() {
            let call = load_call(&self.run.services.store, entry.id).await?;
            if is_confirmed(&call) {
                return Ok(call.number);
            }
        }
        Ok(0)
    }

    /// Runs one step of the strategy with the plan's execution actor.
    async fn run_step(
        &self,
        context: &PhaseContext,
        step: &StrategyStep,
        number: u32,
    ) -> Result<ActorEnd> {
        let (run, actor) = (&*self.run, &self.actor);
        let payload = ActorInvoked {
            actor: actor.name.clone(),
            step: number,
            steps: u32::try_from(self.strategy.strategy.steps.len()).ok(),
            title: step.title.clone(),
        };
        run.append_event(payload).await?;
        if let ActorKind::Direct = &actor.kind {
            return Ok(ActorEnd::Done);
        }
        let runner = ToolRunner {
            decision: Some(self.step_decision(step, number).await?),
            ..context.runner.clone()
        };
        let work = StepWork::begin(run, context, &runner, number).await?;
        let end = match &actor.kind {
            ActorKind::Tool(tool) => work.run_steps(&actor.name, &tool.steps, 1).await?,
            ActorKind::Llm(llm) => {
                let llm_work = LlmWork {
                    run,
                    actor: &actor.name,
                    llm,
                    work: &work,
                };
                llm_work.run_step(&self.strategy, step, number).await?
            }
            ActorKind::Direct => ActorEnd::Done,
        };
        work.close().await?;
        if let ActorEnd::Failed(reason)
        | ActorEnd::NoAnswer(reason)
        | ActorEnd::LimitReached(reason) = &end
        {
            let payload = ActorErrored {
                actor: actor.name.clone(),
                step: number,
                reason: reason.clone(),
            };
            run.append_event(payload).await?;
        }
        Ok(end)
    }

    /// Returns the decision of a step. Reuses the one that a previous owner recorded. A decision
    /// under another strategy is about different work.
    async fn step_decision(&self, step: &StrategyStep, number: u32) -> Result<DecisionId> {
        let choice = DecisionDraft {
            parent: self.strategy.decision_id,
            decision_type: DecisionType::ImplementationChoice,
            question: format!("How is step {number} done: {}?", step.title),
            chosen: format!("run by {}", self.actor.name),
            alternatives: Vec::new(),
            rationale: "It is the plan's execution actor.".to_owned(),
            confidence: Some(Confidence::ONE),
            reasoning: None,
            context: DecisionContext::default(),
            influences: Vec::new(),
        };
        self.run.record_decision_once(choice, None).await
    }
}

/// The plan's open sandboxes, the runner for calls in them, and the calls made before.
pub(super) struct PhaseContext {
    pub(super) workspace: Workspace,
    pub(super) runner: ToolRunner,
    pub(super) call_history: CallHistory,
}

impl PhaseContext {
    /// Opens the plan's sandboxes and finds the calls made in them before.
    pub(super) async fn open(run: &PlanRun, actor: &Actor) -> Result<Self> {
        let services = &run.services;
        let workspace = run.sandbox_opener().open_sandboxes(&run.plan).await?;
        let runner = ToolRunner::new(
            run.lease.fenced_writer(),
            Arc::clone(&services.ids),
            Arc::clone(&services.toolbox),
            services.policy.checkpoints.clone(),
            run.stop.clone(),
        );
        Ok(Self {
            workspace,
            runner: ToolRunner {
                secrets: services.secrets.clone(),
                calls: Arc::clone(&run.calls),
                ..runner
            },
            call_history: CallHistory::new(&run.calls, actor),
        })
    }
}

impl From<ActorEnd> for PhaseEnd {
    /// Converts an actor's end that is not a success.
    fn from(end: ActorEnd) -> Self {
        match end {
            ActorEnd::Done => Self::Failed("the work ended before it was done".to_owned()),
            ActorEnd::Failed(reason) | ActorEnd::NoAnswer(reason) => Self::Failed(reason),
            ActorEnd::Waiting { waiting, reason } => Self::Waiting { waiting, reason },
            ActorEnd::LimitReached(reason) => Self::LimitReached(reason),
            ActorEnd::Stopped(why) => Self::Stopped(why),
        }
    }
}
