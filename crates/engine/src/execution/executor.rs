//! Driving a plan: Strategize and Execute, up to the gate where a human must decide.
//!
//! [`Executor::execute`] is a human's word to go on. It is on record before anything happens; then
//! this process claims the plan's run, works, and gives it back. A plan whose owner died is taken
//! over where its last confirmed call left it.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use cleveragents_domain::actor::{Actor, BuiltInActor, model_actors};
use cleveragents_domain::id::{OwnerId, PlanId};
use cleveragents_domain::process::Network;
use cleveragents_domain::strategy::StrategyRecord;
use cleveragents_domain::{ErrorCategory, NamespacedName, Phase, Plan, PlanState, WaitReason};
use tokio::sync::{Mutex, OwnedMutexGuard, watch};

use super::checkpoints::CheckpointPolicy;
use super::error::{ExecutionError, Result};
use super::execute_phase::PhaseEnd;
use super::execute_request::{ExecuteRequest, RequestKind, approve};
use super::ownership::OwnedWork;
use super::slot::SlotWait;
use super::strategize::StrategizeOutcome;
use crate::breaker::CircuitBreaker;
use crate::confidence::{ConfidenceService, EscalationDecision};
use crate::decisions::DecisionService;
use crate::lifecycle::{LifecycleError, PlanLifecycle};
use crate::ports::models::Models;
use crate::ports::processes::Processes;
use crate::ports::sandbox::Sandboxes;
use crate::ports::tools::Toolbox;
use crate::ports::{
    Clock, Ids, Liveness, Slots, StopReason, StoreError, StoreHandle, StoreOperation,
};
use crate::recovery::{NewErrorRecord, record_error};
use crate::retry::RetryPolicy;
use crate::runs::{ClaimOutcome, RunLease, RunService};
use crate::secrets::Secrets;

/// How often the owner looks whether it was asked to stop, and a waiting one for a free slot.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// What an executor is made of.
#[derive(Debug, Clone)]
pub struct ExecutorDeps {
    pub store: StoreHandle,
    pub ids: Arc<dyn Ids>,
    pub clock: Arc<dyn Clock>,
    pub liveness: Arc<dyn Liveness>,
    /// This process.
    pub owner: OwnerId,
    pub sandboxes: Arc<dyn Sandboxes>,
    pub toolbox: Arc<dyn Toolbox>,
    pub processes: Arc<dyn Processes>,
    pub models: Arc<dyn Models>,
    pub breaker: CircuitBreaker,
    /// What must not reach a model or the store.
    pub secrets: Secrets,
    /// Turns true when this process is asked to end: the work stops where it can be gone on with.
    pub interrupt: watch::Receiver<bool>,
    pub policy: ExecutionPolicy,
}

/// What is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionPolicy {
    pub checkpoints: CheckpointPolicy,
    /// How many plans may run at once on this node.
    pub concurrency: u32,
    /// How many validations of a plan run at once.
    pub parallel_validations: usize,
    /// Whether commands may use the network.
    pub network: Network,
    /// When a model that failed is asked again.
    pub retry: RetryPolicy,
}

/// Drives plans in this process's name.
#[derive(Debug, Clone)]
pub struct Executor {
    pub(crate) store: StoreHandle,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The name of this machine.
    pub(crate) node: String,
    pub(crate) lifecycle: PlanLifecycle,
    pub(crate) decisions: DecisionService,
    pub(crate) confidence: ConfidenceService,
    pub(crate) runs: RunService,
    pub(crate) sandboxes: Arc<dyn Sandboxes>,
    pub(crate) toolbox: Arc<dyn Toolbox>,
    pub(crate) processes: Arc<dyn Processes>,
    pub(crate) models: Arc<dyn Models>,
    pub(crate) breaker: CircuitBreaker,
    pub(crate) secrets: Secrets,
    pub(crate) interrupt: watch::Receiver<bool>,
    pub(crate) policy: ExecutionPolicy,
    /// Whoever of this process waits for a slot waits here, but for the first, who looks for one.
    pub(super) slot_queue: Arc<Mutex<()>>,
}

/// Where a command to go on came to an end.
#[derive(Debug, Clone, PartialEq)]
pub enum ExecuteOutcome {
    /// Nothing was outstanding.
    Unchanged(Plan),
    /// A human must decide about the strategy.
    NeedsApproval {
        plan: Plan,
        decision: Box<EscalationDecision>,
    },
    /// The plan waits for something, and nobody owns it meanwhile.
    Waiting {
        plan: Plan,
        waiting: WaitReason,
        reason: String,
    },
    /// A limit of the profile is reached.
    LimitReached {
        plan: Plan,
        reason: String,
    },
    /// Execute is complete; whether the profile lets the plan be applied by itself.
    Complete {
        plan: Plan,
        auto_apply: AutoApply,
    },
    /// Required validations failed.
    Constrained {
        plan: Plan,
        reason: String,
    },
    Failed {
        plan: Plan,
        reason: String,
    },
    Cancelled(Plan),
}

/// How a plan was left that nobody works on yet.
#[derive(Debug, Clone, PartialEq)]
pub enum QueueOutcome {
    Queued(Plan),
    /// Nobody who had seen its strategy has approved it.
    Unapproved(Plan),
    /// Nothing was outstanding.
    Unchanged(Plan),
}

/// Whether a plan may be applied without a human.
#[derive(Debug, Clone, PartialEq)]
pub enum AutoApply {
    Yes,
    /// Why not.
    No(String),
}

impl ExecuteOutcome {
    pub fn plan(&self) -> &Plan {
        match self {
            Self::Unchanged(plan)
            | Self::NeedsApproval { plan, .. }
            | Self::Waiting { plan, .. }
            | Self::LimitReached { plan, .. }
            | Self::Complete { plan, .. }
            | Self::Constrained { plan, .. }
            | Self::Failed { plan, .. }
            | Self::Cancelled(plan) => plan,
        }
    }
}

impl Executor {
    pub fn new(deps: ExecutorDeps) -> Self {
        let ExecutorDeps {
            store,
            ids,
            clock,
            liveness,
            owner,
            sandboxes,
            toolbox,
            processes,
            models,
            breaker,
            secrets,
            interrupt,
            policy,
        } = deps;
        let live = || Arc::clone(&liveness);
        let id = || Arc::clone(&ids);
        Self {
            lifecycle: PlanLifecycle::new(store.clone(), id(), live()),
            decisions: DecisionService::new(store.clone(), id(), live()),
            confidence: ConfidenceService::new(store.clone(), id()),
            runs: RunService::new(store.clone(), id(), live(), owner),
            store,
            ids,
            clock,
            node: liveness.node().to_owned(),
            sandboxes,
            toolbox,
            processes,
            models,
            breaker,
            secrets,
            interrupt,
            policy,
            slot_queue: Arc::default(),
        }
    }

    /// Takes the plan on, as far as its profile allows after this word of a human. `waits` is told
    /// when all slots of this node are taken.
    pub async fn execute(
        &self,
        plan: PlanId,
        actor: &str,
        on_wait: &(dyn Fn(usize) + Sync),
    ) -> Result<ExecuteOutcome> {
        self.claim_and_drive(plan, (RequestKind::Execute, actor), on_wait)
            .await
    }

    /// The same word on record, and the plan left queued for whoever goes on with it.
    pub async fn enqueue(&self, plan: PlanId, actor: &str) -> Result<QueueOutcome> {
        Ok(
            match self
                .record_request(plan, RequestKind::Execute, actor)
                .await?
            {
                ExecuteRequest::Work { plan, .. } => QueueOutcome::Queued(*plan),
                ExecuteRequest::Unapproved(plan) => QueueOutcome::Unapproved(*plan),
                ExecuteRequest::Nothing(plan) => QueueOutcome::Unchanged(*plan),
            },
        )
    }

    /// Takes the plan on from where it stands, as far as its profile and the words already given
    /// allow: what waits for an approval goes on waiting.
    pub async fn resume(
        &self,
        plan: PlanId,
        actor: &str,
        on_wait: &(dyn Fn(usize) + Sync),
    ) -> Result<ExecuteOutcome> {
        self.claim_and_drive(plan, (RequestKind::Resume, actor), on_wait)
            .await
    }

    async fn claim_and_drive(
        &self,
        plan: PlanId,
        (request_kind, actor): (RequestKind, &str),
        on_wait: &(dyn Fn(usize) + Sync),
    ) -> Result<ExecuteOutcome> {
        self.require_model(plan).await?;
        let mut request_kind = request_kind;
        let (plan, approvals) = loop {
            match self.record_request(plan, request_kind, actor).await? {
                ExecuteRequest::Nothing(plan) => {
                    let plan = self.revalidate_rejected(*plan).await?;
                    return self.check_pending_apply(plan).await;
                }
                ExecuteRequest::Work { plan, approvals } => break (plan, approvals),
                ExecuteRequest::Unapproved(plan) => {
                    let decision = Box::new(self.decide_escalation(&plan).await?);
                    if !decision.proceed {
                        let plan = *plan;
                        return Ok(ExecuteOutcome::NeedsApproval { plan, decision });
                    }
                    request_kind = RequestKind::Proceed {
                        version: plan.version,
                    };
                }
            }
        };
        let Some(run) = self.claim(&plan, on_wait).await? else {
            let plan = self.lifecycle.plan(plan.identity.plan_id).await?;
            return Ok(match plan.position.state() {
                PlanState::Cancelled => ExecuteOutcome::Cancelled(plan),
                _ => ExecuteOutcome::Unchanged(plan),
            });
        };
        self.run_owned(run, OwnedWork::Drive { approvals }).await
    }

    /// What is left to do for a plan that is executed: a profile that applies by itself does so
    /// also after the process that should have done it died.
    async fn check_pending_apply(&self, plan: Plan) -> Result<ExecuteOutcome> {
        if plan.position.is_terminal() {
            return Ok(ExecuteOutcome::Unchanged(plan));
        }
        match self.decide_auto_apply(&plan).await? {
            AutoApply::No(_) => Ok(ExecuteOutcome::Unchanged(plan)),
            auto_apply => Ok(ExecuteOutcome::Complete { plan, auto_apply }),
        }
    }

    /// Claims the plan's run, waiting for a slot if need be; nothing if the plan was finished
    /// meanwhile.
    async fn claim(
        &self,
        plan: &Plan,
        on_wait: &(dyn Fn(usize) + Sync),
    ) -> Result<Option<RunLease>> {
        let id = plan.identity.plan_id;
        let slots = match plan.identity.parent_plan_id {
            Some(_) => Slots::Shared,
            None => Slots::Limit(self.policy.concurrency),
        };
        let mut queue_guard: Option<OwnedMutexGuard<()>> = None;
        loop {
            // Looked at before the claim: a slot that is given back meanwhile is not missed.
            let hints = self.store.watch_commits();
            match self.runs.claim(id, plan.position.phase(), slots).await? {
                ClaimOutcome::Won(run) => return Ok(Some(run)),
                ClaimOutcome::Held(holder) => return Err(LifecycleError::Owned { holder }.into()),
                ClaimOutcome::NoSlot { running } => {
                    self.record_slot_wait(id).await?;
                    on_wait(running.len());
                    let waited = match queue_guard {
                        None => self.wait_in_queue(id, &mut queue_guard).await?,
                        Some(_) => self.wait_for_free_slot(id, hints, &running).await?,
                    };
                    if waited == SlotWait::Finished {
                        return Ok(None);
                    }
                }
            }
        }
    }

    pub(super) async fn drive(
        &self,
        run: &RunLease,
        stop: &watch::Receiver<Option<StopReason>>,
        approvals: &AtomicU32,
    ) -> Result<ExecuteOutcome> {
        let id = run.lease().plan;
        let plan = self.lifecycle.plan(id).await?;
        let (phase, state) = (plan.position.phase(), plan.position.state());
        let outstanding = phase != Phase::Apply
            && plan.position.waiting().is_none()
            && matches!(state, PlanState::Queued | PlanState::Processing);
        if !outstanding {
            // Somebody moved it between the word and the claim.
            return Ok(ExecuteOutcome::Unchanged(plan));
        }
        let mut plan = self.enter_phase(run, plan).await?;
        if plan.position.phase() == Phase::Strategize {
            let strategy = match self.strategize(run, &plan, (stop, approvals)).await? {
                StrategizeOutcome::Strategy(strategy) => *strategy,
                StrategizeOutcome::Ended(end) => return self.end_phase(run, end.into()).await,
            };
            plan = self.lifecycle.complete(run).await?;
            let decision = self.decide_escalation(&plan).await?;
            if !decision.proceed {
                return Ok(ExecuteOutcome::NeedsApproval {
                    plan,
                    decision: Box::new(decision),
                });
            }
            let by = StrategyRecord::approver(&plan.brief.automation_profile.name);
            run.write(self.operation("strategy.approve"), move |tx| {
                let mut strategy = strategy.clone();
                strategy.approved_by = Some(by.clone());
                approve(tx, strategy)
            })
            .await?;
            plan = self.lifecycle.advance_as_owner(run, Phase::Execute).await?;
            plan = self.enter_phase(run, plan).await?;
        }
        let end = self.execute_phase(run, &plan, (stop, approvals)).await?;
        self.end_phase(run, end).await
    }

    /// Leaves the plan as the work on its phase ended.
    pub(super) async fn end_phase(&self, run: &RunLease, end: PhaseEnd) -> Result<ExecuteOutcome> {
        match end {
            PhaseEnd::Complete(plan) => {
                let auto_apply = self.decide_auto_apply(&plan).await?;
                Ok(ExecuteOutcome::Complete { plan, auto_apply })
            }
            PhaseEnd::Constrained(plan, reason) => Ok(ExecuteOutcome::Constrained { plan, reason }),
            PhaseEnd::Waiting { waiting, reason } => {
                let plan = self.lifecycle.wait(run, waiting).await?;
                Ok(ExecuteOutcome::Waiting {
                    plan,
                    waiting,
                    reason,
                })
            }
            PhaseEnd::LimitReached(reason) => {
                let plan = self.lifecycle.fail(run, &reason).await?;
                Ok(ExecuteOutcome::LimitReached { plan, reason })
            }
            PhaseEnd::Failed(reason) => {
                let plan = self.lifecycle.fail(run, &reason).await?;
                Ok(ExecuteOutcome::Failed { plan, reason })
            }
            PhaseEnd::Stopped(why) => Err(ExecutionError::Stopped(why)),
        }
    }

    /// Takes up the phase, unless a dead owner already had.
    pub(crate) async fn enter_phase(&self, run: &RunLease, plan: Plan) -> Result<Plan> {
        match plan.position.state() {
            PlanState::Processing => Ok(plan),
            _ => {
                let findings = self.probe_preflight(&plan).await?;
                Ok(self.lifecycle.start(run, &findings).await?)
            }
        }
    }

    /// What went wrong is on record with the plan, if the plan is still ours.
    pub(super) async fn conclude(
        &self,
        run: &RunLease,
        outcome: Result<ExecuteOutcome>,
    ) -> Result<ExecuteOutcome> {
        let error = match outcome {
            Ok(executed) => return Ok(executed),
            Err(error) if error.is_lease_lost() => return Err(error),
            Err(error) => error,
        };
        let id = run.lease().plan;
        let plan = self.lifecycle.plan(id).await?;
        if matches!(error, ExecutionError::Stopped(StopReason::Cancelled)) {
            // The message is taken, and the plan cancelled, when the run is given back.
            return Ok(ExecuteOutcome::Cancelled(plan));
        }
        if matches!(error, ExecutionError::Stopped(StopReason::Interrupted)) {
            // It stays as it is, for whoever goes on.
            return Err(error);
        }
        if plan.position.state() != PlanState::Processing {
            return Err(error);
        }
        if matches!(error, ExecutionError::Stopped(StopReason::OutOfTime)) {
            return self.wait_for_budget(run, &plan).await;
        }
        let reason = error.to_string();
        let new_error = NewErrorRecord::new(category(&error), &reason);
        self.record_plan_error(run, new_error).await?;
        let plan = self.lifecycle.fail(run, &reason).await?;
        Ok(ExecuteOutcome::Failed { plan, reason })
    }

    /// Puts on record with the plan what went wrong.
    pub(super) async fn record_plan_error(
        &self,
        run: &RunLease,
        new_error: NewErrorRecord,
    ) -> Result<()> {
        let (plan, actor) = (run.lease().plan, run.lease().owner.to_string());
        let ids = Arc::clone(&self.ids);
        run.write(self.operation("plan.record-error"), move |tx| {
            record_error(tx, &*ids, plan, &new_error, &actor)?;
            Ok::<_, ExecutionError>(())
        })
        .await
    }

    /// The actor of this name.
    pub(crate) async fn actor(&self, name: &NamespacedName) -> Result<Actor> {
        if let Some(actor) = BuiltInActor::from_name(name).map(BuiltInActor::actor) {
            return Ok(actor);
        }
        let actor_name = name.clone();
        let found = self.store.read(move |tx| tx.actor(&actor_name)).await;
        match found {
            Ok(row) => Ok(row.actor),
            Err(StoreError::NotFound { .. }) => model_actors(&self.models.configured())
                .into_iter()
                .find(|actor| actor.name == *name)
                .ok_or_else(|| ExecutionError::NoActor { name: name.clone() }),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn operation(&self, label: &'static str) -> StoreOperation {
        StoreOperation::new(&*self.ids, label)
    }
}

const fn category(error: &ExecutionError) -> ErrorCategory {
    match error {
        ExecutionError::Sandbox(_)
        | ExecutionError::SandboxRemoved { .. }
        | ExecutionError::Resource { .. } => ErrorCategory::Resource,
        ExecutionError::Process(_) => ErrorCategory::Tool,
        ExecutionError::Render(_) => ErrorCategory::Validation,
        _ => ErrorCategory::Internal,
    }
}
