//! The Execute phase: runs the approved strategy step by step in the plan's sandboxes.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use cleveragents_domain::actor::{Actor, ActorKind};
use cleveragents_domain::id::{DecisionId, PlanId, SandboxId};
use cleveragents_domain::sandbox::{SandboxRecord, SandboxState};
use cleveragents_domain::strategy::{StrategyRecord, StrategyStep};
use cleveragents_domain::tool_call::{ToolCallEnd, ToolCallRecord, ToolCallState};
use cleveragents_domain::{
    Confidence, DecisionType, EventKind, Phase, Plan, ResourceType, StreamId, ValidationSummary,
    WaitReason,
};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::blocking::run_until_stopped;
use super::context::ExecutionContext;
use super::error::{ExecutionError, Result};
use super::executor::Executor;
use super::llm_actor::LlmActorContext;
use super::rollback::{RestorePoint, undo_after};
use super::runner::ToolRunner;
use super::steps::{ActorEnd, CallHistory, StepWork, confirmed_calls, ended_calls, is_confirmed};
use super::strategize::{actor_hash, strategy_hash};
use super::validate::ValidateOutcome;
use super::workspace::{SandboxOpener, Workspace};
use crate::decisions::{DecisionContext, DecisionDraft};
use crate::journal::event;
use crate::runs::RunLease;
use cleveragents_ports::sandbox::CommitMetadata;
use cleveragents_ports::{StopReason, StopSignal, StoreError};

/// Number of calls read per page.
const PAGE: u32 = 500;

/// How a phase ended.
#[derive(Debug)]
pub(super) enum PhaseEnd {
    Complete(Plan),
    Constrained(Plan, String),
    Waiting { waiting: WaitReason, reason: String },
    LimitReached(String),
    Failed(String),
    Stopped(StopReason),
}

impl Executor {
    pub(super) async fn execute_phase(
        &self,
        run: &RunLease,
        plan: &Plan,
        (stop, approvals): (&watch::Receiver<Option<StopReason>>, &AtomicU32),
    ) -> Result<PhaseEnd> {
        let strategy = self.approved_strategy(plan.identity.plan_id).await?;
        let actor = self.actor(&plan.brief.actors.execution_actor).await?;
        // A user approved these exact calls, so the actor must be unchanged. A profile approves
        // whatever the actor does.
        let by_user = !strategy.is_approved_by_profile();
        if by_user && strategy.strategy.execution != actor_hash(&actor) {
            return Err(ExecutionError::ActorChanged { name: actor.name });
        }
        self.undo_unfinished(run).await?;
        let plan = &self.discard_removed(run, plan).await?;
        if matches!(actor.kind, ActorKind::Tool(_)) {
            self.undo_failed(run, plan).await?;
        }
        let opener = self.sandbox_opener(run);
        let phase_context = self.open_phase_context(run, plan, &actor, stop).await?;
        let step_context = StepContext {
            phase: &phase_context,
            strategy: &strategy,
            actor: &actor,
            approvals,
        };
        let mut plan = plan.clone();
        for (step, number) in strategy.strategy.steps.iter().zip(1_u32..) {
            if plan.last_completed_step >= Some(number) {
                continue;
            }
            match self
                .run_step(run, &plan, (step, number), &step_context)
                .await?
            {
                ActorEnd::Done => plan = self.complete_step(run, number).await?,
                end => return Ok(end.into()),
            }
        }
        let summary = match self.validate(run, &plan, &step_context).await? {
            ValidateOutcome::Completed(summary) => summary,
            ValidateOutcome::Ended(end) => return Ok(end.into()),
        };
        let sandbox_ids: Vec<SandboxId> = phase_context
            .workspace
            .sandboxes
            .iter()
            .map(|it| it.id)
            .collect();
        drop(phase_context);
        self.finish_execute((run, stop), &plan, &opener, (&sandbox_ids, summary))
            .await
    }

    /// Opens the plan's sandboxes and loads the calls made in them before.
    pub(super) async fn open_phase_context(
        &self,
        run: &RunLease,
        plan: &Plan,
        actor: &Actor,
        stop: &watch::Receiver<Option<StopReason>>,
    ) -> Result<PhaseContext> {
        let workspace = self.sandbox_opener(run).open_sandboxes(plan).await?;
        let runner = ToolRunner::new(
            run.fenced_writer(),
            Arc::clone(&self.ids),
            Arc::clone(&self.toolbox),
            self.policy.checkpoints.clone(),
            stop.clone(),
        );
        let calls = self.tool_calls(plan.identity.plan_id).await?;
        Ok(PhaseContext {
            workspace,
            runner: ToolRunner {
                secrets: self.secrets.clone(),
                ..runner
            },
            call_history: match actor.kind {
                ActorKind::Llm(_) => ended_calls(calls),
                ActorKind::Tool(_) | ActorKind::Direct => confirmed_calls(calls),
            },
        })
    }

    /// Publishes the captured and validated result, then completes or constrains the plan.
    pub(super) async fn finish_execute(
        &self,
        (run, stop): (&RunLease, &watch::Receiver<Option<StopReason>>),
        plan: &Plan,
        opener: &SandboxOpener,
        (sandbox_ids, summary): (&[SandboxId], ValidationSummary),
    ) -> Result<PhaseEnd> {
        let records = self.sandboxes_of(plan.identity.plan_id).await?;
        for record in records
            .into_iter()
            .filter(|it| sandbox_ids.contains(&it.id))
        {
            self.publish(plan, &record, Some(stop)).await?;
            opener
                .confirm(SandboxRecord {
                    state: SandboxState::Captured,
                    ..record
                })
                .await?;
        }
        if !summary.permits_apply() {
            let reason = summary.required_failures();
            let plan = self.lifecycle.constrain(run, &reason).await?;
            return Ok(PhaseEnd::Constrained(plan, reason));
        }
        Ok(PhaseEnd::Complete(self.lifecycle.complete(run).await?))
    }

    pub(super) fn context(&self, run: &RunLease) -> ExecutionContext {
        let lease = run.lease().clone();
        ExecutionContext::new(self.store.clone(), Arc::clone(&self.ids), lease)
    }

    pub(super) fn sandbox_opener(&self, run: &RunLease) -> SandboxOpener {
        SandboxOpener {
            owner: run.fenced_writer(),
            ids: Arc::clone(&self.ids),
            sandboxes: Arc::clone(&self.sandboxes),
        }
    }

    /// Returns the approved strategy. Fails if its content no longer matches the approved hash.
    async fn approved_strategy(&self, plan: PlanId) -> Result<StrategyRecord> {
        let newest = self.store.read(move |tx| tx.newest_strategy(plan)).await?;
        let strategy = newest
            .filter(|it| it.approved_at.is_some())
            .ok_or(ExecutionError::NoStrategy { plan })?;
        let found = strategy_hash(&strategy.strategy)?;
        if found == strategy.hash {
            Ok(strategy)
        } else {
            Err(ExecutionError::StrategyChanged { plan, found })
        }
    }

    /// Kills processes left by calls whose owner is dead.
    pub(super) async fn end_processes(&self, calls: &[ToolCallRecord]) -> Result<()> {
        for mark in calls.iter().filter_map(|call| call.process.clone()) {
            let processes = Arc::clone(&self.processes);
            spawn_blocking(move || processes.kill_leftovers(&mark)).await??;
        }
        Ok(())
    }

    /// Kills processes that a dead owner left running and records its unfinished calls as
    /// interrupted. Their sandboxes are restored when they are opened.
    pub(crate) async fn undo_unfinished(&self, run: &RunLease) -> Result<()> {
        let plan = run.lease().plan;
        let calls = self
            .store
            .read(move |tx| tx.unfinished_tool_calls(plan))
            .await?;
        self.end_processes(&calls).await?;
        self.interrupt_model_calls(run).await?;
        self.context(run).close_abandoned().await?;
        for call in calls {
            let actor = run.lease().owner.to_string();
            run.write(self.operation("tool.interrupt"), move |tx| {
                let end = ToolCallEnd {
                    state: ToolCallState::Interrupted,
                    output: None,
                    error: Some("its process ended during the call".to_owned()),
                    tree_after: call.call.tree_before.clone(),
                };
                let ended = tx.end_tool_call(call.call.id, &end)?;
                let payload = json!({
                    "tool_call_id": ended.call.id,
                    "number": ended.number,
                    "tree": end.tree_after,
                });
                let new_event = event(EventKind::ToolInterrupted, &actor, &payload)?;
                tx.append(StreamId::Plan(plan), &[new_event])?;
                Ok::<_, StoreError>(())
            })
            .await?;
        }
        Ok(())
    }

    /// Undoes the changes of failed calls before they are retried. The plan resumes after its last
    /// confirmed call.
    async fn undo_failed(&self, run: &RunLease, plan: &Plan) -> Result<()> {
        let calls = self.tool_calls(plan.identity.plan_id).await?;
        let active: Vec<&ToolCallRecord> =
            calls.iter().filter(|it| it.undone_by.is_none()).collect();
        let good = |it: &&&ToolCallRecord| is_confirmed(it);
        let last = active.iter().rfind(good).map_or(0, |it| it.number);
        let failed: Vec<ToolCallRecord> = active
            .into_iter()
            .filter(|it| it.number > last)
            .cloned()
            .collect();
        if failed.is_empty() {
            return Ok(());
        }
        let (ids, plan) = (Arc::clone(&self.ids), plan.clone());
        let actor = run.lease().owner.to_string();
        run.write(self.operation("tool.undo-failed"), move |tx| {
            let id = plan.identity.plan_id;
            tx.plan_for_update(id)?;
            let restore_point = RestorePoint::before_calls(tx, id, last, &failed)?;
            let back = undo_after(tx, &*ids, &plan, &restore_point, &actor)?;
            let events: Vec<_> = back.into_iter().map(|(_, new_event)| new_event).collect();
            tx.append(StreamId::Plan(id), &events)?;
            Ok::<_, StoreError>(())
        })
        .await?;
        Ok(())
    }

    /// Runs one step of the strategy with the plan's execution actor.
    async fn run_step(
        &self,
        run: &RunLease,
        plan: &Plan,
        (step, number): (&StrategyStep, u32),
        step_context: &StepContext<'_>,
    ) -> Result<ActorEnd> {
        let actor = step_context.actor;
        let payload = json!({ "actor": actor.name, "step": number, "title": step.title });
        self.append_event(run, EventKind::ActorInvoked, payload)
            .await?;
        if let ActorKind::Direct = &actor.kind {
            return Ok(ActorEnd::Done);
        }
        let decision = self.step_decision(run, (step, number), actor).await?;
        let runner = ToolRunner {
            decision: Some(decision),
            ..step_context.phase.runner.clone()
        };
        let context = self.context(run);
        let work = StepWork::begin(
            &context,
            (plan, &step_context.phase.workspace),
            (&runner, &step_context.phase.call_history),
            number,
            step_context.approvals,
        )
        .await?;
        let end = match &actor.kind {
            ActorKind::Tool(tool) => work.run_steps(&actor.name, &tool.steps, 1).await?,
            ActorKind::Llm(llm) => {
                let llm_context = LlmActorContext {
                    run,
                    actor: &actor.name,
                    llm,
                    step_context,
                };
                self.run_llm_step(&llm_context, &work, (step, number))
                    .await?
            }
            ActorKind::Direct => ActorEnd::Done,
        };
        work.close().await?;
        if let ActorEnd::Failed(reason)
        | ActorEnd::NoAnswer(reason)
        | ActorEnd::LimitReached(reason) = &end
        {
            let payload = json!({ "actor": actor.name, "step": number, "reason": reason });
            self.append_event(run, EventKind::ActorErrored, payload)
                .await?;
        }
        Ok(end)
    }

    /// Returns the decision of a step. Reuses the one that a previous owner recorded.
    async fn step_decision(
        &self,
        run: &RunLease,
        (step, number): (&StrategyStep, u32),
        actor: &Actor,
    ) -> Result<DecisionId> {
        let plan = run.lease().plan;
        let question = format!("How is step {number} done: {}?", step.title);
        let step_question = question.clone();
        let (strategy, known) = self
            .store
            .read(move |tx| {
                let strategy = tx.newest_strategy(plan)?;
                let strategy = strategy.ok_or(ExecutionError::NoStrategy { plan })?;
                // A decision under another strategy is about different work.
                let known = tx.decisions_of(plan)?.into_iter().rfind(|it| {
                    it.question == step_question
                        && !it.is_superseded
                        && it.parent_decision_id == Some(strategy.decision_id)
                });
                Ok::<_, ExecutionError>((strategy, known.map(|it| it.decision_id)))
            })
            .await?;
        if let Some(known) = known {
            return Ok(known);
        }
        let choice = DecisionDraft {
            parent: strategy.decision_id,
            decision_type: DecisionType::ImplementationChoice,
            question,
            chosen: format!("{} does it", actor.name),
            alternatives: Vec::new(),
            rationale: "It is the plan's execution actor.".to_owned(),
            confidence: Some(Confidence::ONE),
            reasoning: None,
            context: DecisionContext::default(),
            influences: Vec::new(),
        };
        Ok(self.decisions.record(run, choice).await?.decision_id)
    }

    async fn complete_step(&self, run: &RunLease, number: u32) -> Result<Plan> {
        let (plan, actor) = (run.lease().plan, run.lease().owner.to_string());
        run.write(self.operation("plan.complete-step"), move |tx| {
            let mut plan = tx.plan_for_update(plan)?;
            plan.last_completed_step = Some(number);
            plan.timestamps.updated_at = tx.now()?;
            plan.version = tx.update_plan(&plan)?;
            let name = &plan.brief.actors.execution_actor;
            let payload = json!({ "actor": name, "phase": Phase::Execute, "step": number });
            let new_event = event(EventKind::ActorCompleted, &actor, &payload)?;
            tx.append(StreamId::Plan(plan.identity.plan_id), &[new_event])?;
            Ok(plan)
        })
        .await
    }

    pub(super) async fn append_event(
        &self,
        run: &RunLease,
        kind: EventKind,
        payload: serde_json::Value,
    ) -> Result<()> {
        let (plan, actor) = (run.lease().plan, run.lease().owner.to_string());
        run.write(self.operation("plan.append-event"), move |tx| {
            let new_event = event(kind.clone(), &actor, &payload)?;
            tx.append(StreamId::Plan(plan), &[new_event])?;
            Ok(())
        })
        .await
    }

    /// Returns every call of the plan.
    pub(super) async fn tool_calls(&self, plan: PlanId) -> Result<Vec<ToolCallRecord>> {
        self.store
            .read(move |tx| {
                let mut calls: Vec<ToolCallRecord> = Vec::new();
                loop {
                    let after = calls.last().map_or(0, |call| call.number);
                    let page = tx.tool_calls_after(plan, after, PAGE)?;
                    if page.is_empty() {
                        return Ok(calls);
                    }
                    calls.extend(page);
                }
            })
            .await
    }

    pub(crate) async fn sandboxes_of(&self, plan: PlanId) -> Result<Vec<SandboxRecord>> {
        self.store.read(move |tx| Ok(tx.sandboxes_of(plan)?)).await
    }

    /// Publishes the result as a ref of our own, beside the user's branches, so that git can show
    /// it. Fails early if `stop_receiver` says that the owner must stop.
    pub(super) async fn publish(
        &self,
        plan: &Plan,
        record: &SandboxRecord,
        stop_receiver: Option<&watch::Receiver<Option<StopReason>>>,
    ) -> Result<()> {
        let Some(tree) = record.tree.clone() else {
            return Ok(());
        };
        if record.resource_type != ResourceType::GitCheckout {
            return Ok(());
        }
        let commit = CommitMetadata {
            name: "CleverAgents".to_owned(),
            email: "agents@localhost".to_owned(),
            seconds: self.clock.now().as_micros() / 1_000_000,
            message: format!("{}\n\nPlan {}\n", plan.brief.description, plan.name),
        };
        let (sandboxes, id) = (Arc::clone(&self.sandboxes), record.id);
        let publish = move |stop: &StopSignal| sandboxes.open(id)?.publish(&tree, &commit, stop);
        match stop_receiver {
            Some(stop_receiver) => run_until_stopped(stop_receiver, publish).await??,
            None => spawn_blocking(move || publish(&StopSignal::new())).await??,
        };
        Ok(())
    }
}

/// The plan's open sandboxes, the runner for calls in them, and the calls made before.
pub(super) struct PhaseContext {
    pub(super) workspace: Workspace,
    pub(super) runner: ToolRunner,
    pub(super) call_history: CallHistory,
}

#[derive(Clone, Copy)]
pub(super) struct StepContext<'a> {
    pub(super) phase: &'a PhaseContext,
    pub(super) strategy: &'a StrategyRecord,
    /// The execution actor whose hash was checked. It is not read again: an update after the check
    /// would run calls that nobody approved.
    pub(super) actor: &'a Actor,
    pub(super) approvals: &'a AtomicU32,
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
