//! Execute: the approved strategy, step by step, in the plan's sandboxes.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use cleveragents_domain::actor::{Actor, ActorKind};
use cleveragents_domain::id::{DecisionId, PlanId, SandboxId};
use cleveragents_domain::sandbox::{SandboxRecord, SandboxState};
use cleveragents_domain::strategy::{StrategyRecord, StrategyStep};
use cleveragents_domain::tool_call::{ToolCallEnd, ToolCallRecord, ToolCallState};
use cleveragents_domain::{
    Confidence, DecisionType, EventKind, Phase, Plan, ResourceType, StreamId, ValidationSummary,
    Waiting,
};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::blocking::until_stopped;
use super::context::ExecutionContext;
use super::error::{ExecutionError, Result};
use super::executor::Executor;
use super::rollback::{Earlier, set_back};
use super::runner::ToolRunner;
use super::steps::{ActorEnd, Confirmed, StepWork, confirmed, ended, is_confirmed};
use super::strategize::{actor_hash, strategy_hash};
use super::thinking::Thought;
use super::validate::Validated;
use super::workspace::{Workshop, Workspace};
use crate::decisions::{Choice, Context};
use crate::journal::event;
use crate::ports::sandbox::CommitText;
use crate::ports::{Stop, Stopped, StoreError};
use crate::runs::RunLease;

/// How many calls are read at a time.
const PAGE: u32 = 500;

/// How Execute ended.
#[derive(Debug)]
pub(super) enum PhaseEnd {
    Complete(Plan),
    Constrained(Plan, String),
    Waits { waiting: Waiting, reason: String },
    Limit(String),
    Failed(String),
    Stopped(Stopped),
}

impl Executor {
    pub(super) async fn execute_phase(
        &self,
        run: &RunLease,
        plan: &Plan,
        (stop, approvals): (&watch::Receiver<Option<Stopped>>, &AtomicU32),
    ) -> Result<PhaseEnd> {
        let strategy = self.approved(plan.identity.plan_id).await?;
        let actor = self.actor(&plan.brief.actors.execution_actor).await?;
        // A human approved these very calls; a profile approves whatever the actor does.
        let by_human = !strategy.is_approved_by_profile();
        if by_human && strategy.strategy.execution != actor_hash(&actor) {
            return Err(ExecutionError::ActorChanged { name: actor.name });
        }
        self.undo_unfinished(run).await?;
        let plan = &self.give_up_removed(run, plan).await?;
        if matches!(actor.kind, ActorKind::Tool(_)) {
            self.undo_failed(run, plan).await?;
        }
        let workshop = self.workshop(run);
        let stage = self.set_up(run, plan, &actor, stop).await?;
        let scene = Scene {
            stage: &stage,
            strategy: &strategy,
            approvals,
        };
        let mut plan = plan.clone();
        for (step, number) in strategy.strategy.steps.iter().zip(1_u32..) {
            if plan.last_completed_step >= Some(number) {
                continue;
            }
            match self.step(run, &plan, (step, number), &scene).await? {
                ActorEnd::Done => plan = self.complete_step(run, number).await?,
                end => return Ok(end.into()),
            }
        }
        let summary = match self.validate(run, &plan, &scene).await? {
            Validated::Judged(summary) => summary,
            Validated::Ended(end) => return Ok(end.into()),
        };
        let seats: Vec<SandboxId> = stage.workspace.seats.iter().map(|it| it.id).collect();
        drop(stage);
        self.seal((run, stop), &plan, &workshop, (&seats, summary))
            .await
    }

    /// Opens the plan's sandboxes, and looks at what was called in them before.
    pub(super) async fn set_up(
        &self,
        run: &RunLease,
        plan: &Plan,
        actor: &Actor,
        stop: &watch::Receiver<Option<Stopped>>,
    ) -> Result<Stage> {
        let workspace = self.workshop(run).furnish(plan).await?;
        let runner = ToolRunner::new(
            run.fenced(),
            Arc::clone(&self.ids),
            Arc::clone(&self.toolbox),
            self.policy.checkpoints.clone(),
            stop.clone(),
        );
        let calls = self.calls(plan.identity.plan_id).await?;
        Ok(Stage {
            workspace,
            runner: ToolRunner {
                secrets: self.secrets.clone(),
                ..runner
            },
            confirmed: match actor.kind {
                ActorKind::Llm(_) => ended(calls),
                ActorKind::Tool(_) | ActorKind::Direct => confirmed(calls),
            },
        })
    }

    /// Everything is captured and judged: it is published for people to see.
    pub(super) async fn seal(
        &self,
        (run, stop): (&RunLease, &watch::Receiver<Option<Stopped>>),
        plan: &Plan,
        workshop: &Workshop,
        (seats, summary): (&[SandboxId], ValidationSummary),
    ) -> Result<PhaseEnd> {
        let records = self.sandboxes_of(plan.identity.plan_id).await?;
        for record in records.into_iter().filter(|it| seats.contains(&it.id)) {
            self.publish(plan, &record, Some(stop)).await?;
            workshop
                .confirm(SandboxRecord {
                    state: SandboxState::Captured,
                    ..record
                })
                .await?;
        }
        if !summary.permits_apply() {
            let reason = summary.obstacles();
            let plan = self.lifecycle.constrain(run, &reason).await?;
            return Ok(PhaseEnd::Constrained(plan, reason));
        }
        Ok(PhaseEnd::Complete(self.lifecycle.complete(run).await?))
    }

    pub(super) fn context(&self, run: &RunLease) -> ExecutionContext {
        let lease = run.lease().clone();
        ExecutionContext::new(self.store.clone(), Arc::clone(&self.ids), lease)
    }

    pub(super) fn workshop(&self, run: &RunLease) -> Workshop {
        Workshop {
            owner: run.fenced(),
            ids: Arc::clone(&self.ids),
            sandboxes: Arc::clone(&self.sandboxes),
        }
    }

    /// The strategy that was approved, and nothing else.
    async fn approved(&self, plan: PlanId) -> Result<StrategyRecord> {
        let newest = self
            .store
            .read(move |unit| unit.newest_strategy(plan))
            .await?;
        let strategy = newest
            .filter(|it| it.approved_at.is_some())
            .ok_or(ExecutionError::NoStrategy { plan })?;
        let found = strategy_hash(&strategy.strategy)?;
        match found == strategy.hash {
            true => Ok(strategy),
            false => Err(ExecutionError::StrategyChanged { plan, found }),
        }
    }

    /// Ends the processes of calls whose owner is dead.
    pub(super) async fn end_processes(&self, calls: &[ToolCallRecord]) -> Result<()> {
        for mark in calls.iter().filter_map(|call| call.process.clone()) {
            let processes = Arc::clone(&self.processes);
            spawn_blocking(move || processes.end(&mark)).await??;
        }
        Ok(())
    }

    /// Ends what a dead owner left running, and puts on record that those calls did not happen;
    /// their sandboxes are set back when they are opened.
    pub(crate) async fn undo_unfinished(&self, run: &RunLease) -> Result<()> {
        let plan = run.lease().plan;
        let calls = self
            .store
            .read(move |unit| unit.unfinished_tool_calls(plan))
            .await?;
        self.end_processes(&calls).await?;
        self.interrupt_models(run).await?;
        self.context(run).close_left_open().await?;
        for call in calls {
            let actor = run.lease().owner.to_string();
            run.write(self.operation("tool.interrupt"), move |unit| {
                let end = ToolCallEnd {
                    state: ToolCallState::Interrupted,
                    output: None,
                    error: Some("its owner died during the call".to_owned()),
                    tree_after: call.call.tree_before.clone(),
                };
                let ended = unit.end_tool_call(call.call.id, &end)?;
                let told = json!({
                    "tool_call_id": ended.call.id,
                    "number": ended.number,
                    "tree": end.tree_after,
                });
                let told = event(EventKind::ToolInterrupted, &actor, &told)?;
                unit.append(StreamId::Plan(plan), &[told])?;
                Ok::<_, StoreError>(())
            })
            .await?;
        }
        Ok(())
    }

    /// What calls changed that did not go well is given up before they are made again: the plan goes
    /// on at its last confirmed call.
    async fn undo_failed(&self, run: &RunLease, plan: &Plan) -> Result<()> {
        let calls = self.calls(plan.identity.plan_id).await?;
        let standing: Vec<&ToolCallRecord> =
            calls.iter().filter(|it| it.undone_by.is_none()).collect();
        let good = |it: &&&ToolCallRecord| is_confirmed(it);
        let last = standing.iter().rfind(good).map_or(0, |it| it.number);
        let failed: Vec<ToolCallRecord> = standing
            .into_iter()
            .filter(|it| it.number > last)
            .cloned()
            .collect();
        if failed.is_empty() {
            return Ok(());
        }
        let (ids, plan) = (Arc::clone(&self.ids), plan.clone());
        let actor = run.lease().owner.to_string();
        run.write(self.operation("tool.undo-failed"), move |unit| {
            let id = plan.identity.plan_id;
            unit.plan_for_update(id)?;
            let earlier = Earlier::of_calls(unit, id, last, &failed)?;
            let back = set_back(unit, &*ids, &plan, &earlier, &actor)?;
            let events: Vec<_> = back.into_iter().map(|(_, told)| told).collect();
            unit.append(StreamId::Plan(id), &events)?;
            Ok::<_, StoreError>(())
        })
        .await?;
        Ok(())
    }

    /// One step of the strategy, by the plan's execution actor.
    async fn step(
        &self,
        run: &RunLease,
        plan: &Plan,
        (step, number): (&StrategyStep, u32),
        scene: &Scene<'_>,
    ) -> Result<ActorEnd> {
        let actor = self.actor(&plan.brief.actors.execution_actor).await?;
        let told = json!({ "actor": actor.name, "step": number, "title": step.title });
        self.tell(run, EventKind::ActorInvoked, told).await?;
        if let ActorKind::Direct = &actor.kind {
            return Ok(ActorEnd::Done);
        }
        let decision = self.step_decision(run, (step, number), &actor).await?;
        let runner = ToolRunner {
            decision: Some(decision),
            ..scene.stage.runner.clone()
        };
        let context = self.context(run);
        let work = StepWork::begin(
            &context,
            (plan, &scene.stage.workspace),
            (&runner, &scene.stage.confirmed),
            number,
            scene.approvals,
        )
        .await?;
        let end = match &actor.kind {
            ActorKind::Tool(tool) => work.run_steps(&actor.name, &tool.steps, 1).await?,
            ActorKind::Llm(llm) => {
                let thought = Thought {
                    run,
                    actor: &actor.name,
                    llm,
                    scene,
                };
                self.think(&thought, &work, (step, number)).await?
            }
            ActorKind::Direct => ActorEnd::Done,
        };
        work.close().await?;
        if let ActorEnd::Failed(reason) | ActorEnd::NoAnswer(reason) | ActorEnd::Limit(reason) =
            &end
        {
            let told = json!({ "actor": actor.name, "step": number, "reason": reason });
            self.tell(run, EventKind::ActorErrored, told).await?;
        }
        Ok(end)
    }

    /// The decision under which a step is done; one that a dead owner made stands.
    async fn step_decision(
        &self,
        run: &RunLease,
        (step, number): (&StrategyStep, u32),
        actor: &Actor,
    ) -> Result<DecisionId> {
        let plan = run.lease().plan;
        let question = format!("How is step {number} done: {}?", step.title);
        let asked = question.clone();
        let (strategy, known) = self
            .store
            .read(move |unit| {
                let strategy = unit.newest_strategy(plan)?;
                let strategy = strategy.ok_or(ExecutionError::NoStrategy { plan })?;
                // One that was made for another strategy is about other work.
                let known = unit.decisions_of(plan)?.into_iter().rfind(|it| {
                    it.question == asked
                        && !it.is_superseded
                        && it.parent_decision_id == Some(strategy.decision_id)
                });
                Ok::<_, ExecutionError>((strategy, known.map(|it| it.decision_id)))
            })
            .await?;
        if let Some(known) = known {
            return Ok(known);
        }
        let choice = Choice {
            parent: strategy.decision_id,
            decision_type: DecisionType::ImplementationChoice,
            question,
            chosen: format!("{} does it", actor.name),
            alternatives: Vec::new(),
            rationale: "It is the plan's execution actor.".to_owned(),
            confidence: Some(Confidence::ONE),
            reasoning: None,
            context: Context::default(),
            influences: Vec::new(),
        };
        Ok(self.decisions.record(run, choice).await?.decision_id)
    }

    async fn complete_step(&self, run: &RunLease, number: u32) -> Result<Plan> {
        let (plan, actor) = (run.lease().plan, run.lease().owner.to_string());
        run.write(self.operation("plan.complete-step"), move |unit| {
            let mut plan = unit.plan_for_update(plan)?;
            plan.last_completed_step = Some(number);
            plan.timestamps.updated_at = unit.now()?;
            plan.version = unit.update_plan(&plan)?;
            let name = &plan.brief.actors.execution_actor;
            let told = json!({ "actor": name, "phase": Phase::Execute, "step": number });
            let told = event(EventKind::ActorCompleted, &actor, &told)?;
            unit.append(StreamId::Plan(plan.identity.plan_id), &[told])?;
            Ok(plan)
        })
        .await
    }

    pub(super) async fn tell(
        &self,
        run: &RunLease,
        kind: EventKind,
        payload: serde_json::Value,
    ) -> Result<()> {
        let (plan, actor) = (run.lease().plan, run.lease().owner.to_string());
        run.write(self.operation("plan.tell"), move |unit| {
            let told = event(kind.clone(), &actor, &payload)?;
            unit.append(StreamId::Plan(plan), &[told])?;
            Ok(())
        })
        .await
    }

    /// Every call of the plan.
    pub(super) async fn calls(&self, plan: PlanId) -> Result<Vec<ToolCallRecord>> {
        self.store
            .read(move |unit| {
                let mut calls: Vec<ToolCallRecord> = Vec::new();
                loop {
                    let after = calls.last().map_or(0, |call| call.number);
                    let page = unit.tool_calls_after(plan, after, PAGE)?;
                    if page.is_empty() {
                        return Ok(calls);
                    }
                    calls.extend(page);
                }
            })
            .await
    }

    pub(crate) async fn sandboxes_of(&self, plan: PlanId) -> Result<Vec<SandboxRecord>> {
        self.store
            .read(move |unit| Ok(unit.sandboxes_of(plan)?))
            .await
    }

    /// Puts the result beside the user's branches, under our own name, so that git can show it.
    /// Ends early if `asked` says that the owner has to stop.
    pub(super) async fn publish(
        &self,
        plan: &Plan,
        record: &SandboxRecord,
        asked: Option<&watch::Receiver<Option<Stopped>>>,
    ) -> Result<()> {
        let Some(tree) = record.tree.clone() else {
            return Ok(());
        };
        if record.resource_type != ResourceType::GitCheckout {
            return Ok(());
        }
        let commit = CommitText {
            name: "CleverAgents".to_owned(),
            email: "agents@localhost".to_owned(),
            seconds: self.clock.now().as_micros() / 1_000_000,
            message: format!("{}\n\nPlan {}\n", plan.brief.description, plan.name),
        };
        let (sandboxes, id) = (Arc::clone(&self.sandboxes), record.id);
        let publish = move |stop: &Stop| sandboxes.open(id)?.publish(&tree, &commit, stop);
        match asked {
            Some(asked) => until_stopped(asked, publish).await??,
            None => spawn_blocking(move || publish(&Stop::new())).await??,
        };
        Ok(())
    }
}

/// The plan's sandboxes, who calls tools in them, and which calls were made before.
pub(super) struct Stage {
    pub(super) workspace: Workspace,
    pub(super) runner: ToolRunner,
    pub(super) confirmed: Confirmed,
}

/// What a step works with.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) stage: &'a Stage,
    pub(super) strategy: &'a StrategyRecord,
    pub(super) approvals: &'a AtomicU32,
}

impl From<ActorEnd> for PhaseEnd {
    /// An end that is not the end of the work.
    fn from(end: ActorEnd) -> Self {
        match end {
            ActorEnd::Done => Self::Failed("the work ended before it was done".to_owned()),
            ActorEnd::Failed(reason) | ActorEnd::NoAnswer(reason) => Self::Failed(reason),
            ActorEnd::Waits { waiting, reason } => Self::Waits { waiting, reason },
            ActorEnd::Limit(reason) => Self::Limit(reason),
            ActorEnd::Stopped(why) => Self::Stopped(why),
        }
    }
}
