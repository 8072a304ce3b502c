//! A claimed plan: everything its owner knows, read once after the claim.
//!
//! The phases borrow a [`PlanRun`]. Its plan is the one that the owner's last write returned, so
//! nothing reads the plan's row again: while the lease is valid, no other process moves the
//! plan (law 5). Every write is fenced, so an owner with an outdated value fails instead of doing harm.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cleveragents_domain::actor::Actor;
use cleveragents_domain::event::payloads::{ActorCompleted, ValidationsCompleted};
use cleveragents_domain::id::{DecisionId, PlanId};
use cleveragents_domain::model_call::ConversationKey;
use cleveragents_domain::progress::Progress;
use cleveragents_domain::strategy::{Approver, StrategyRecord};
use cleveragents_domain::tool::control::StatedDecision;
use cleveragents_domain::{
    DecisionType, ErrorCategory, EventPayload, NamespacedName, Phase, Plan, StreamId, Timestamp,
    ValidationSummary,
};
use tokio::sync::watch;

use super::call_index::CallIndex;
use super::changesets::ExecutionContext;
use super::decisions_in_force::DecisionsInForce;
use super::error::{ExecutionError, Result};
use super::execute_request::{approve, profile_approver};
use super::services::{EngineServices, PlanActors, find_actors, plan_actor_names};
use super::strategize::strategy_hash;
use super::unfinished_work::interrupt_unfinished;
use super::workspace::{SandboxOpener, Workspace};
use crate::decisions::{DecisionContext, DecisionDraft};
use crate::error_history::{NewErrorRecord, record_error};
use crate::journal::new_event;
use crate::runs::{KeepAlive, RunLease};
use cleveragents_ports::{StopReason, StoreOperation};

/// A plan that this process owns.
#[derive(Debug)]
pub(crate) struct PlanRun {
    pub(super) services: Arc<EngineServices>,
    pub(crate) lease: RunLease,
    /// Extends the lease as long as the run exists.
    pub(super) alive: KeepAlive,
    /// The plan as the last write returned it.
    pub(crate) plan: Plan,
    /// The newest strategy.
    pub(crate) strategy: Option<StrategyRecord>,
    pub(crate) calls: Arc<CallIndex>,
    pub(super) decisions: DecisionsInForce,
    /// None in Apply, which uses no actors.
    pub(super) actors: PlanActors,
    /// Set to a reason when the owner must stop.
    pub(super) stop: watch::Receiver<Option<StopReason>>,
    pub(super) stop_sender: watch::Sender<Option<StopReason>>,
    pub(super) approvals: Approvals,
}

/// The calls that the user has approved in advance.
#[derive(Debug)]
pub(super) struct Approvals(AtomicU32);

impl Approvals {
    pub(super) fn new(number: u32) -> Self {
        Self(AtomicU32::new(number))
    }

    /// Takes the calls that the user approved, so that they are approved once. If this process dies
    /// before it makes them, the user is asked again.
    pub(super) async fn take_pending(run: &mut PlanRun) -> Result<()> {
        let calls = run.plan.approvals.calls;
        run.approvals = Self::new(calls);
        if calls == 0 {
            return Ok(());
        }
        let plan = run.id();
        let operation = run.operation("plan.take-approvals");
        let taken = run.lease.write(operation, move |tx| {
            let mut plan = tx.plan_for_update(plan)?;
            // Taken out of the row before they are used (law 3). The reverse order could use one
            // approval twice after a crash.
            plan.approvals.calls = 0;
            plan.version = tx.update_plan(&plan)?;
            Ok::<_, ExecutionError>(plan)
        });
        run.plan = taken.await?;
        Ok(())
    }

    /// Consumes one approval. Returns whether there was one.
    pub(super) fn take(&self) -> bool {
        let take = |left: u32| left.checked_sub(1);
        self.0
            // Parallel branches share the count, so test and decrement are one operation (law 6).
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
            .is_ok()
    }
}

/// The records of a plan that its owner reads, in one transaction.
#[derive(Debug)]
pub(crate) struct PlanSnapshot {
    plan: Plan,
    strategy: Option<StrategyRecord>,
    calls: CallIndex,
    decisions: DecisionsInForce,
    actors: PlanActors,
}

impl PlanSnapshot {
    /// Reads the plan, which this process must own.
    pub(super) async fn load(services: &EngineServices, id: PlanId) -> Result<Self> {
        let read = services.store.read(move |tx| {
            let plan = tx.plan(id)?;
            let stored = find_actors(tx, &working_actors(&plan))?;
            let snapshot = Self {
                plan,
                strategy: tx.newest_strategy(id)?,
                calls: CallIndex::load(tx, id)?,
                decisions: DecisionsInForce::load(tx, id)?,
                actors: PlanActors::default(),
            };
            Ok::<_, ExecutionError>((snapshot, stored))
        });
        let (snapshot, stored) = read.await?;
        let names = working_actors(&snapshot.plan);
        Ok(Self {
            actors: PlanActors::complete(services, &names, stored),
            ..snapshot
        })
    }
}

/// Returns the names of the plan's actors, or none in Apply, where no actor works.
fn working_actors(plan: &Plan) -> Vec<NamespacedName> {
    match plan.position.phase() {
        Phase::Strategize | Phase::Execute => plan_actor_names(plan),
        Phase::Apply => Vec::new(),
    }
}

impl PlanRun {
    pub(super) fn new(
        services: &Arc<EngineServices>,
        lease: RunLease,
        alive: KeepAlive,
        snapshot: PlanSnapshot,
    ) -> Self {
        let (stop_sender, stop) = watch::channel(None);
        Self {
            services: Arc::clone(services),
            lease,
            alive,
            plan: snapshot.plan,
            strategy: snapshot.strategy,
            calls: Arc::new(snapshot.calls),
            decisions: snapshot.decisions,
            actors: snapshot.actors,
            stop,
            stop_sender,
            approvals: Approvals::new(0),
        }
    }

    pub(super) fn id(&self) -> PlanId {
        self.plan.identity.plan_id
    }

    /// The acting owner, for the journal.
    pub(super) fn owner_name(&self) -> String {
        self.lease.lease().owner.to_string()
    }

    pub(super) fn operation(&self, label: &'static str) -> StoreOperation {
        self.services.operation(label)
    }

    pub(super) fn context(&self) -> ExecutionContext {
        let lease = self.lease.lease().clone();
        ExecutionContext::new(
            self.services.store.clone(),
            Arc::clone(&self.services.ids),
            lease,
        )
    }

    pub(super) fn sandbox_opener(&self) -> SandboxOpener {
        SandboxOpener {
            owner: self.lease.fenced_writer(),
            ids: Arc::clone(&self.services.ids),
            sandboxes: Arc::clone(&self.services.sandboxes),
        }
    }

    /// Ends what a dead owner of the plan left unfinished.
    pub(super) async fn interrupt_unfinished(&self) -> Result<()> {
        let interrupted = interrupt_unfinished(&self.services, &self.lease).await?;
        interrupted.iter().for_each(|call| self.calls.record(call));
        Ok(())
    }

    /// Returns the plan's execution actor.
    pub(super) fn execution_actor(&self) -> Result<&Actor> {
        self.actors.get(&self.plan.brief.actors.execution_actor)
    }

    /// Returns the approved strategy. Fails if its content no longer matches the approved hash.
    pub(super) fn approved_strategy(&self) -> Result<StrategyRecord> {
        let plan = self.id();
        let strategy = self
            .strategy
            .clone()
            .filter(|it| it.approved_at.is_some())
            .ok_or(ExecutionError::NoStrategy { plan })?;
        let found = strategy_hash(&strategy.strategy)?;
        // Compared although the row has the hash: content that changed after the approval must not
        // run.
        if found == strategy.hash {
            Ok(strategy)
        } else {
            Err(ExecutionError::StrategyChanged { plan, found })
        }
    }

    /// Approves the newest strategy in the name of the user who approved it in advance, or of the
    /// plan's profile.
    pub(super) async fn approve_strategy(&mut self) -> Result<()> {
        let plan = self.id();
        let strategy = self.strategy.clone();
        let mut strategy = strategy.ok_or(ExecutionError::NoStrategy { plan })?;
        strategy.approved_by = Some(match self.plan.approvals.strategy.clone() {
            Some(user) => Approver::User(user),
            None => profile_approver(&self.plan),
        });
        let approved = self
            .lease
            .write(self.operation("strategy.approve"), move |tx| {
                approve(tx, strategy.clone())
            })
            .await?;
        self.strategy = Some(approved);
        Ok(())
    }

    /// Records that a step of the strategy is done.
    pub(super) async fn complete_step(&mut self, number: u32) -> Result<()> {
        let (plan, actor) = (self.id(), self.owner_name());
        let operation = self.operation("plan.complete-step");
        let completed = self.lease.write(operation, move |tx| {
            let mut plan = tx.plan_for_update(plan)?;
            plan.last_completed_step = Some(number);
            plan.timestamps.updated_at = tx.now()?;
            plan.version = tx.update_plan(&plan)?;
            let payload = ActorCompleted {
                actor: plan.brief.actors.execution_actor.clone(),
                phase: Phase::Execute,
                step: number,
            };
            let completed = new_event(&actor, &payload)?;
            tx.append(StreamId::Plan(plan.identity.plan_id), &[completed])?;
            Ok::<_, ExecutionError>(plan)
        });
        self.plan = completed.await?;
        Ok(())
    }

    pub(super) async fn append_event(
        &self,
        payload: impl EventPayload + Send + 'static,
    ) -> Result<()> {
        append_event(&self.services, &self.lease, payload).await
    }

    /// Records an error of the plan.
    pub(crate) async fn record_error(&self, new_error: NewErrorRecord) -> Result<()> {
        let (plan, actor) = (self.id(), self.owner_name());
        let ids = Arc::clone(&self.services.ids);
        self.lease
            .write(self.operation("plan.record-error"), move |tx| {
                record_error(tx, &*ids, plan, &new_error, &actor)?;
                Ok::<_, ExecutionError>(())
            })
            .await
    }

    /// Records a decision, or returns the one that a previous owner recorded since the given time.
    pub(super) async fn record_decision_once(
        &self,
        choice: DecisionDraft,
        since: Option<Timestamp>,
    ) -> Result<DecisionId> {
        if let Some(known) = self.decisions.find(&choice, since) {
            return Ok(known);
        }
        let decided = self.services.decisions.record(&self.lease, choice).await?;
        let id = decided.decision_id;
        self.decisions.add(decided);
        Ok(id)
    }

    /// Stores the summary of a validation round. Failures are an error of the plan too, so they stay
    /// in its history even if a repair succeeds.
    pub(super) async fn store_summary(
        &self,
        round: u32,
        summary: &ValidationSummary,
    ) -> Result<()> {
        let (id, attempt) = (self.id(), self.plan.attempt);
        let actor = self.owner_name();
        let summary = summary.clone();
        let ids = Arc::clone(&self.services.ids);
        let failed = (!summary.permits_apply()).then(|| NewErrorRecord {
            category: ErrorCategory::Validation,
            message: summary.required_failures(),
            // Failures and their repair count for the last step.
            step: Some(self.plan.last_completed_step.unwrap_or(1)),
            cause_chain: Vec::new(),
        });
        self.lease
            .write(self.operation("plan.store-validations"), move |tx| {
                // Lock order: the plan before its stream.
                if let Some(failed) = &failed {
                    record_error(tx, &*ids, id, failed, &actor)?;
                }
                tx.put_validation_run(id, attempt, round, &summary)?;
                let payload = ValidationsCompleted {
                    round: Some(round),
                    resource: None,
                    merge: None,
                    required_passed: summary.required_passed,
                    required_failed: summary.required_failed,
                    informational_passed: summary.informational_passed,
                    informational_failed: summary.informational_failed,
                };
                tx.append(StreamId::Plan(id), &[new_event(&actor, &payload)?])?;
                Ok(())
            })
            .await
    }
}

/// Returns a decision stated by a model as a draft.
pub(super) fn stated_draft(
    parent: DecisionId,
    decision_type: DecisionType,
    stated: StatedDecision,
) -> DecisionDraft {
    DecisionDraft {
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
    }
}

/// Returns what the model of a conversation was given with its newest request, as the context of its
/// decisions.
pub(super) async fn model_context(
    run: &PlanRun,
    conversation: ConversationKey,
    workspace: &Workspace,
) -> Result<DecisionContext> {
    let resources = workspace.sandboxes.iter();
    let resources: Vec<String> = resources.map(|it| it.resource.to_string()).collect();
    let id = run.id();
    let store = &run.services.store;
    let context =
        store.read(move |tx| DecisionContext::of_model(tx, id, &conversation, &resources));
    Ok(context.await?)
}

/// Passes on what the plan does, for watchers.
pub(super) fn report(run: &PlanRun, progress: Progress) {
    run.services.progress.report(run.id(), progress);
}

/// Appends an event to the plan's stream, as its owner.
pub(super) async fn append_event(
    services: &EngineServices,
    run: &RunLease,
    payload: impl EventPayload + Send + 'static,
) -> Result<()> {
    let (plan, actor) = (run.lease().plan, run.lease().owner.to_string());
    run.write(services.operation("plan.append-event"), move |tx| {
        tx.append(StreamId::Plan(plan), &[new_event(&actor, &payload)?])?;
        Ok(())
    })
    .await
}
