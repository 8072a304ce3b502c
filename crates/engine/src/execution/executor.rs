//! Drives a plan through Strategize and Execute until it needs the user's approval.
//!
//! [`Executor::execute`] records the user's request before anything happens. Then this process
//! claims the plan's run, works on it and releases it. If the previous owner died, the plan resumes
//! after its last confirmed call.

use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Plan, PlanState, WaitReason};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::error::Result;
use super::execute_request::{ExecuteRequest, RequestKind};
use super::ownership::{OwnedWork, run_owned};
use super::preflight::require_model;
use super::services::{EngineServices, PlanActors};
use super::slot::SlotWait;
use crate::confidence::EscalationDecision;
use crate::lifecycle::LifecycleError;
use crate::runs::{ClaimOutcome, RunLease};
use cleveragents_ports::Slots;

/// Poll interval for stop requests to the owner of a plan, and for a free slot.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Drives plans as this process's owner id: records the request, claims the run, drives the plan,
/// releases the run.
#[derive(Debug, Clone)]
pub struct Executor {
    pub(super) services: Arc<EngineServices>,
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
    pub fn new(services: Arc<EngineServices>) -> Self {
        Self {
            services,
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
        self.claim_and_drive(plan, RequestKind::Execute, actor, on_wait)
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
        self.claim_and_drive(plan, RequestKind::Resume, actor, on_wait)
            .await
    }

    async fn claim_and_drive(
        &self,
        plan: PlanId,
        request_kind: RequestKind,
        actor: &str,
        on_wait: &(dyn Fn(usize) + Sync),
    ) -> Result<ExecuteOutcome> {
        require_model(&self.services, plan).await?;
        let mut request_kind = request_kind;
        let (plan, approvals) = loop {
            match self.record_request(plan, request_kind, actor).await? {
                ExecuteRequest::Nothing(plan) => {
                    let plan = self.revalidate_rejected(*plan).await?;
                    return self.check_pending_apply(plan).await;
                }
                ExecuteRequest::Work { plan, approvals } => break (plan, approvals),
                ExecuteRequest::Unapproved(plan) => {
                    let decision =
                        Box::new(self.services.decide_unclaimed_escalation(&plan).await?);
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
            let plan = self.services.lifecycle.plan(plan.identity.plan_id).await?;
            return Ok(match plan.position.state() {
                PlanState::Cancelled => ExecuteOutcome::Cancelled(plan),
                _ => ExecuteOutcome::Unchanged(plan),
            });
        };
        run_owned(&self.services, run, OwnedWork::Drive { approvals }).await
    }

    /// Handles a plan whose Execute is complete. Returns `Complete` if the profile applies it
    /// automatically, because the process that should have applied it may have died.
    async fn check_pending_apply(&self, plan: Plan) -> Result<ExecuteOutcome> {
        if plan.position.is_terminal() {
            return Ok(ExecuteOutcome::Unchanged(plan));
        }
        let actors = PlanActors::load(&self.services, &plan).await?;
        let execution = actors.get(&plan.brief.actors.execution_actor)?;
        match self.services.decide_auto_apply(&plan, execution).await? {
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
            None => Slots::Limit(self.services.policy.concurrency),
        };
        let mut queue_guard: Option<OwnedMutexGuard<()>> = None;
        loop {
            // Subscribe before the claim, so that a slot released in between is not missed.
            let hints = self.services.store.watch_commits();
            match self
                .services
                .runs
                .claim(id, plan.position.phase(), slots)
                .await?
            {
                ClaimOutcome::Won(run) => return Ok(Some(run)),
                ClaimOutcome::Held(holder) => {
                    return Err(LifecycleError::owned(holder, &self.services.runs).into());
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
}
