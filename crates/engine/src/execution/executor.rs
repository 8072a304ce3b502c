//! Drives a plan through Strategize and Execute until it needs the user's approval.
//!
//! [`Executor::execute`] records the user's request before anything happens. Then this process
//! claims the plan's run, works on it and releases it. If the previous owner died, the plan resumes
//! after its last confirmed call.

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
use crate::recovery::{NewErrorRecord, record_error};
use crate::retry::RetryPolicy;
use crate::runs::{ClaimOutcome, RunLease, RunService};
use crate::secrets::Secrets;
use cleveragents_ports::models::Models;
use cleveragents_ports::processes::Processes;
use cleveragents_ports::sandbox::Sandboxes;
use cleveragents_ports::tools::Toolbox;
use cleveragents_ports::{
    Clock, Ids, Liveness, Slots, StopReason, StoreError, StoreHandle, StoreOperation,
};

/// Poll interval for stop requests to the owner of a plan, and for a free slot.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Dependencies of an [`Executor`].
#[derive(Debug, Clone)]
pub struct ExecutorDeps {
    pub store: StoreHandle,
    pub ids: Arc<dyn Ids>,
    pub clock: Arc<dyn Clock>,
    pub liveness: Arc<dyn Liveness>,
    /// The owner id of this process.
    pub owner: OwnerId,
    pub sandboxes: Arc<dyn Sandboxes>,
    pub toolbox: Arc<dyn Toolbox>,
    pub processes: Arc<dyn Processes>,
    pub models: Arc<dyn Models>,
    pub breaker: CircuitBreaker,
    /// Masked in everything that reaches a model or the store.
    pub secrets: Secrets,
    /// Becomes true when this process should exit. Work stops at a point from which it can be
    /// resumed.
    pub interrupt: watch::Receiver<bool>,
    pub policy: ExecutionPolicy,
}

/// Configuration of an [`Executor`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionPolicy {
    pub checkpoints: CheckpointPolicy,
    /// Maximum number of plans that run at once on this node.
    pub concurrency: u32,
    /// Maximum number of validations of one plan that run at once.
    pub parallel_validations: usize,
    /// Network access of commands.
    pub network: Network,
    /// Retries of failed model calls.
    pub retry: RetryPolicy,
}

/// Drives plans as this process's owner id.
#[derive(Debug, Clone)]
pub struct Executor {
    pub(crate) store: StoreHandle,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) clock: Arc<dyn Clock>,
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
    /// Queue of this process's plans that wait for a slot. The holder of the lock polls for a free
    /// slot; the others wait for the lock.
    pub(super) slot_queue: Arc<Mutex<()>>,
}

/// Outcome of [`Executor::execute`] and [`Executor::resume`].
#[derive(Debug, Clone, PartialEq)]
pub enum ExecuteOutcome {
    /// There was nothing to do.
    Unchanged(Plan),
    /// The user must approve the strategy.
    NeedsApproval {
        plan: Plan,
        decision: Box<EscalationDecision>,
    },
    /// The plan waits for something and has no owner meanwhile.
    Waiting {
        plan: Plan,
        waiting: WaitReason,
        reason: String,
    },
    /// A limit of the profile was reached.
    LimitReached {
        plan: Plan,
        reason: String,
    },
    /// Execute is complete. `auto_apply` says whether the profile applies the plan without the
    /// user.
    Complete {
        plan: Plan,
        auto_apply: AutoApply,
    },
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

/// Outcome of [`Executor::enqueue`].
#[derive(Debug, Clone, PartialEq)]
pub enum QueueOutcome {
    Queued(Plan),
    /// The strategy is not approved: the request does not count as approval, because the user
    /// cannot have seen the strategy.
    Unapproved(Plan),
    /// There was nothing to do.
    Unchanged(Plan),
}

/// Whether a plan may be applied without the user.
#[derive(Debug, Clone, PartialEq)]
pub enum AutoApply {
    Yes,
    /// The reason why not.
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

    /// Runs the plan as far as its profile allows. The call counts as the user's approval of a
    /// pending strategy or call. `on_wait` is called with the number of running plans when all
    /// slots of this node are taken.
    pub async fn execute(
        &self,
        plan: PlanId,
        actor: &str,
        on_wait: &(dyn Fn(usize) + Sync),
    ) -> Result<ExecuteOutcome> {
        self.claim_and_drive(plan, (RequestKind::Execute, actor), on_wait)
            .await
    }

    /// Records the same request as [`Self::execute`] and leaves the plan queued without running it.
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

    /// Runs the plan as far as its profile and existing approvals allow. Unlike [`Self::execute`],
    /// it approves nothing: a plan that waits for an approval keeps waiting.
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

    /// Handles a plan whose Execute is complete. Returns `Complete` if the profile applies it
    /// automatically, because the process that should have applied it may have died.
    async fn check_pending_apply(&self, plan: Plan) -> Result<ExecuteOutcome> {
        if plan.position.is_terminal() {
            return Ok(ExecuteOutcome::Unchanged(plan));
        }
        match self.decide_auto_apply(&plan).await? {
            AutoApply::No(_) => Ok(ExecuteOutcome::Unchanged(plan)),
            auto_apply => Ok(ExecuteOutcome::Complete { plan, auto_apply }),
        }
    }

    /// Claims the plan's run and waits for a slot if necessary. Returns `None` if the plan was
    /// finished meanwhile.
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
            // Subscribe before the claim, so that a slot released in between is not missed.
            let hints = self.store.watch_commits();
            match self.runs.claim(id, plan.position.phase(), slots).await? {
                ClaimOutcome::Won(run) => return Ok(Some(run)),
                ClaimOutcome::Held(holder) => {
                    return Err(LifecycleError::owned(holder, &self.runs).into());
                }
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
            // Another process moved the plan between the request and the claim.
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

    /// Moves the plan according to how the work on its phase ended.
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

    /// Starts the phase, unless a previous owner that died already started it.
    pub(crate) async fn enter_phase(&self, run: &RunLease, plan: Plan) -> Result<Plan> {
        match plan.position.state() {
            PlanState::Processing => Ok(plan),
            _ => {
                let findings = self.probe_preflight(&plan).await?;
                Ok(self.lifecycle.start(run, &findings).await?)
            }
        }
    }

    /// Records the error of failed work with the plan, if this process still owns it.
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
            // `release` consumes the cancel message and cancels the plan.
            return Ok(ExecuteOutcome::Cancelled(plan));
        }
        if matches!(error, ExecutionError::Stopped(StopReason::Interrupted)) {
            // The plan keeps its state, so the next owner can resume it.
            return Err(error);
        }
        if error.is_lock_held() {
            // Nothing is wrong with the plan: repeating the command goes on.
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

    /// Returns the actor of this name: built in, stored, or one per configured model, in this
    /// order.
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
