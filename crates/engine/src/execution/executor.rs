//! Drives a plan through Strategize and Execute until it needs the user's approval.
//!
//! [`Executor::enqueue`] records the user's request and approvals. [`Executor::drive`] then claims
//! the plan's run, works on it and releases it, in this process or in another one. If the previous
//! owner died, the plan resumes after its last confirmed call.

use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::apply_record::Destination;
use cleveragents_domain::approval::PendingApprovals;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::progress::Progress;
use cleveragents_domain::{Phase, Plan, PlanState, WaitReason};
use tokio::sync::OwnedMutexGuard;

use super::error::Result;
use super::execute_request::{ExecuteRequest, ExecuteRequestKind};
use super::ownership::{Owned, StoppableWork, own_plan, run_stoppable};
use super::plan_run::PlanRun;
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
}

/// Outcome of [`Executor::drive`].
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

/// Outcome of [`Executor::enqueue`] and [`Executor::enqueue_resume`].
#[derive(Debug, Clone, PartialEq)]
pub enum QueueOutcome {
    Queued(Plan),
    /// The strategy is not approved: the request does not count as approval, because the user
    /// cannot have seen the strategy.
    Unapproved(Plan),
    /// There was nothing to do.
    Unchanged(Plan),
}

impl From<ExecuteRequest> for QueueOutcome {
    fn from(request: ExecuteRequest) -> Self {
        match request {
            ExecuteRequest::Work(plan) => Self::Queued(*plan),
            ExecuteRequest::Unapproved(plan) => Self::Unapproved(*plan),
            ExecuteRequest::Nothing(plan) => Self::Unchanged(*plan),
        }
    }
}

impl QueueOutcome {
    pub fn plan(&self) -> &Plan {
        match self {
            Self::Queued(plan) | Self::Unapproved(plan) | Self::Unchanged(plan) => plan,
        }
    }
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
        Self { services }
    }

    /// Records that the user wants the plan to run past the gate where it is; this approves a pending
    /// strategy or call. The plan is left queued.
    ///
    /// `plan` is as the caller read it when the user gave the command; what is recorded is decided by
    /// the stored plan. If that has changed, nothing is approved: the user has not seen it.
    pub async fn enqueue(&self, plan: &Plan, actor: &str) -> Result<QueueOutcome> {
        require_model(&self.services, plan).await?;
        let seen = plan.version;
        let (id, kind) = (plan.identity.plan_id, ExecuteRequestKind::Execute { seen });
        Ok(self.record_request(id, kind, actor).await?.into())
    }

    /// Records that the user wants the plan to run from its creation to its result, with
    /// `approvals`, and to be applied to `destination`. Unlike [`Self::enqueue`], it approves no call
    /// that waits.
    pub async fn enqueue_run(
        &self,
        plan: &Plan,
        actor: &str,
        approvals: PendingApprovals,
        destination: Option<Destination>,
    ) -> Result<QueueOutcome> {
        require_model(&self.services, plan).await?;
        let kind = ExecuteRequestKind::Run {
            approvals,
            destination,
        };
        let id = plan.identity.plan_id;
        Ok(self.record_request(id, kind, actor).await?.into())
    }

    /// Records that the user wants the plan to run as far as its profile and existing approvals
    /// allow. Unlike [`Self::enqueue`], it approves nothing: a plan that waits for an approval keeps
    /// waiting.
    pub async fn enqueue_resume(&self, plan: &Plan, actor: &str) -> Result<QueueOutcome> {
        require_model(&self.services, plan).await?;
        let id = plan.identity.plan_id;
        let outcome = self
            .record_request(id, ExecuteRequestKind::Resume, actor)
            .await?;
        Ok(outcome.into())
    }

    /// Records a request like [`Self::enqueue`], then runs the plan.
    pub async fn execute(&self, plan: PlanId, actor: &str) -> Result<ExecuteOutcome> {
        let plan = self.services.lifecycle.plan(plan).await?;
        let queued = self.enqueue(&plan, actor).await?;
        self.drive_queued(queued).await
    }

    /// Runs a plan as far as what is recorded of it allows: its profile, and the approvals of the
    /// user. A plan that stopped or waits is left as it is.
    ///
    /// `plan` is as the caller read it. After the claim it is read again.
    pub async fn drive(&self, plan: Plan) -> Result<ExecuteOutcome> {
        let (phase, state) = (plan.position.phase(), plan.position.state());
        let queued = match (phase, state, plan.position.waiting()) {
            (Phase::Apply, _, _) | (Phase::Execute, PlanState::Complete, _) => {
                QueueOutcome::Unchanged(plan)
            }
            (Phase::Strategize, PlanState::Complete, _) => QueueOutcome::Unapproved(plan),
            (_, PlanState::Errored | PlanState::Constrained, _) => {
                return Ok(ExecuteOutcome::Unchanged(plan));
            }
            (_, _, Some(waiting)) if waiting != WaitReason::Slot => {
                return Ok(ExecuteOutcome::Unchanged(plan));
            }
            _ if plan.position.is_terminal() => QueueOutcome::Unchanged(plan),
            _ => QueueOutcome::Queued(plan),
        };
        self.drive_queued(queued).await
    }

    async fn drive_queued(&self, queued: QueueOutcome) -> Result<ExecuteOutcome> {
        let plan = match queued {
            QueueOutcome::Queued(plan) => plan,
            QueueOutcome::Unchanged(plan) => {
                let plan = self.revalidate_rejected(plan).await?;
                return self.check_pending_apply(plan).await;
            }
            QueueOutcome::Unapproved(plan) => match self.pass_gate(plan).await? {
                Ok(plan) => plan,
                Err(stopped) => return Ok(stopped),
            },
        };
        let Some(run) = self.claim(&plan).await? else {
            let plan = self.services.lifecycle.plan(plan.identity.plan_id).await?;
            return Ok(match plan.position.state() {
                PlanState::Cancelled => ExecuteOutcome::Cancelled(plan),
                _ => ExecuteOutcome::Unchanged(plan),
            });
        };
        let driven = own_plan(&self.services, run, async |run: &mut PlanRun| {
            run_stoppable(run, StoppableWork::Drive).await
        });
        let Owned { outcome, cancelled } = driven.await?;
        Ok(cancelled.map_or(outcome, ExecuteOutcome::Cancelled))
    }

    /// Lets a plan into Execute if its profile allows it or its strategy was approved in advance.
    /// Else returns why it stops.
    async fn pass_gate(&self, plan: Plan) -> Result<std::result::Result<Plan, ExecuteOutcome>> {
        let mut plan = plan;
        loop {
            let decision = Box::new(self.services.decide_unclaimed_escalation(&plan).await?);
            if !decision.proceed && plan.approvals.strategy.is_none() {
                // Nothing is written, so the plan keeps its version, and a later approval is bound
                // to this strategy.
                return Ok(Err(ExecuteOutcome::NeedsApproval { plan, decision }));
            }
            // Binds the decision to the plan that was assessed (law 1). If the plan changed, the loop
            // decides again.
            let kind = ExecuteRequestKind::Proceed {
                version: plan.version,
            };
            // The actor of the event of an eviction; the approver comes from profile or approval.
            let actor = self.services.runs.owner().to_string();
            let id = plan.identity.plan_id;
            match self.record_request(id, kind, &actor).await? {
                ExecuteRequest::Work(plan) => return Ok(Ok(*plan)),
                ExecuteRequest::Nothing(plan) => return Ok(Err(ExecuteOutcome::Unchanged(*plan))),
                // The plan was changed meanwhile.
                ExecuteRequest::Unapproved(changed) => plan = *changed,
            }
        }
    }

    /// Handles a plan whose Execute is complete. Returns `Complete` if the profile applies it
    /// automatically, because the process that should have applied it may have died.
    async fn check_pending_apply(&self, plan: Plan) -> Result<ExecuteOutcome> {
        if plan.position.is_terminal() {
            return Ok(ExecuteOutcome::Unchanged(plan));
        }
        // An approved apply that failed is repeated only by a request that says so.
        let has_failed = plan.position.phase() == Phase::Apply
            && plan.position.state() == PlanState::Errored
            && plan.approvals.apply.is_some();
        if has_failed {
            return Ok(ExecuteOutcome::Unchanged(plan));
        }
        // Only read: the apply claims the run itself and checks the plan again.
        let actors = PlanActors::load(&self.services, &plan).await?;
        let execution = actors.get(&plan.brief.actors.execution_actor)?;
        match self.services.decide_auto_apply(&plan, execution).await? {
            AutoApply::No(_) => Ok(ExecuteOutcome::Unchanged(plan)),
            auto_apply => Ok(ExecuteOutcome::Complete { plan, auto_apply }),
        }
    }

    /// Claims the plan's run and waits for a slot if necessary. Returns `None` if the plan was
    /// finished meanwhile.
    async fn claim(&self, plan: &Plan) -> Result<Option<RunLease>> {
        let id = plan.identity.plan_id;
        let slots = match plan.identity.parent_plan_id {
            // A child plan runs within its parent's slot. With slots of their own, parents could
            // wait for children that wait for slots.
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
                    // Not retried: the holder already works on the plan.
                    return Err(LifecycleError::owned(holder, &self.services.runs).into());
                }
                ClaimOutcome::NoSlot { running } => {
                    self.record_slot_wait(id).await?;
                    let waiting = Progress::WaitingForSlot {
                        running: running.len(),
                    };
                    self.services.progress.report(id, waiting);
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
