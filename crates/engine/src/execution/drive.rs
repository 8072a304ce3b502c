//! Drives an owned plan through its phases and records how the work ended.

use cleveragents_domain::id::SandboxId;
use cleveragents_domain::sandbox::{SandboxRecord, SandboxState};
use cleveragents_domain::{ErrorCategory, Phase, PlanState, Position, ValidationSummary};

use super::error::{ExecutionError, Result};
use super::execute_phase::{ExecutePhase, PhaseEnd};
use super::executor::ExecuteOutcome;
use super::plan_run::PlanRun;
use super::preflight::start_phase;
use super::strategize::{StrategizeOutcome, StrategizePhase};
use crate::error_history::NewErrorRecord;
use cleveragents_ports::StopReason;

impl PlanRun {
    /// Runs the plan's phases until one does not end in success, or needs the user's approval.
    pub(super) async fn drive(&mut self) -> Result<ExecuteOutcome> {
        // A claim only proves that there is no other owner. It does not prove that the plan is
        // still in the state that the caller saw (law 1).
        if !has_work(self.plan.position) {
            // Another process moved the plan between the request and the claim.
            return Ok(ExecuteOutcome::Unchanged(self.plan.clone()));
        }
        self.enter_phase().await?;
        if self.plan.position.phase() == Phase::Strategize {
            if let StrategizeOutcome::Ended(end) = StrategizePhase::new(self).run().await? {
                return self.end_phase(end.into()).await;
            }
            self.plan = self
                .services
                .lifecycle
                .as_owner(&self.lease)
                .complete()
                .await?;
            let execution = self.execution_actor()?;
            let decision = self
                .services
                .decide_escalation(&self.plan, execution)
                .await?;
            // The gate is decided again by the owner: the strategy did not exist when the request
            // was made.
            if !decision.proceed && self.plan.approvals.strategy.is_none() {
                return Ok(ExecuteOutcome::NeedsApproval {
                    plan: self.plan.clone(),
                    decision: Box::new(decision),
                });
            }
            // Approved before the phase changes, so that Execute never starts with an unapproved
            // strategy, not even after a crash between the two writes.
            self.approve_strategy().await?;
            let lifecycle = &self.services.lifecycle;
            let owner = lifecycle.as_owner(&self.lease);
            self.plan = owner.advance(Phase::Execute).await?;
            self.enter_phase().await?;
        }
        let end = ExecutePhase::new(self).await?.run().await?;
        self.end_phase(end).await
    }

    /// Starts the phase, unless a previous owner that died already started it.
    pub(crate) async fn enter_phase(&mut self) -> Result<()> {
        if self.plan.position.state() != PlanState::Processing {
            let started = start_phase(&self.services, &self.lease, &self.plan, &self.actors);
            self.plan = started.await?;
        }
        Ok(())
    }

    /// Moves the plan according to how the work on its phase ended.
    pub(super) async fn end_phase(&mut self, end: PhaseEnd) -> Result<ExecuteOutcome> {
        let (lifecycle, lease) = (&self.services.lifecycle, &self.lease);
        match end {
            PhaseEnd::Complete => {
                let execution = self.execution_actor()?;
                let auto_apply = self.services.decide_auto_apply(&self.plan, execution);
                let (auto_apply, plan) = (auto_apply.await?, self.plan.clone());
                Ok(ExecuteOutcome::Complete { plan, auto_apply })
            }
            PhaseEnd::Constrained(reason) => {
                let plan = self.plan.clone();
                Ok(ExecuteOutcome::Constrained { plan, reason })
            }
            PhaseEnd::Waiting { waiting, reason } => {
                self.plan = lifecycle.as_owner(lease).wait(waiting).await?;
                Ok(ExecuteOutcome::Waiting {
                    plan: self.plan.clone(),
                    waiting,
                    reason,
                })
            }
            PhaseEnd::LimitReached(reason) => {
                self.plan = lifecycle.as_owner(lease).fail(&reason).await?;
                let plan = self.plan.clone();
                Ok(ExecuteOutcome::LimitReached { plan, reason })
            }
            PhaseEnd::Failed(reason) => {
                self.plan = lifecycle.as_owner(lease).fail(&reason).await?;
                let plan = self.plan.clone();
                Ok(ExecuteOutcome::Failed { plan, reason })
            }
            // An error, so that `conclude` decides by the reason for the stop.
            PhaseEnd::Stopped(why) => Err(ExecutionError::Stopped(why)),
        }
    }

    /// Publishes the captured and validated result, then completes or constrains the plan.
    pub(super) async fn finish_execute(
        &mut self,
        sandbox_ids: &[SandboxId],
        summary: ValidationSummary,
    ) -> Result<PhaseEnd> {
        let opener = self.sandbox_opener();
        let records = self.services.sandboxes_of(self.id()).await?;
        for record in records
            .into_iter()
            .filter(|it| sandbox_ids.contains(&it.id))
        {
            let stop = Some(&self.stop);
            // Published before the sandbox is confirmed as captured (law 9): a crash in between
            // publishes the same tree again.
            self.services.publish(&self.plan, &record, stop).await?;
            opener
                .confirm(SandboxRecord {
                    state: SandboxState::Captured,
                    ..record
                })
                .await?;
        }
        let (lifecycle, lease) = (&self.services.lifecycle, &self.lease);
        // The result is published although validations failed: the user can read and revalidate it.
        if !summary.permits_apply() {
            let reason = summary.required_failures();
            self.plan = lifecycle.as_owner(lease).constrain(&reason).await?;
            return Ok(PhaseEnd::Constrained(reason));
        }
        self.plan = lifecycle.as_owner(lease).complete().await?;
        Ok(PhaseEnd::Complete)
    }

    /// Records the error of failed work with the plan, if this process still owns it.
    pub(super) async fn conclude(
        &mut self,
        outcome: Result<ExecuteOutcome>,
    ) -> Result<ExecuteOutcome> {
        let error = match outcome {
            Ok(executed) => return Ok(executed),
            // Another process owns the plan now, and its record of the error counts (law 5).
            Err(error) if error.is_lease_lost() => return Err(error),
            Err(error) => error,
        };
        // The write that failed may have been committed, so the plan is read again.
        self.plan = self.services.lifecycle.plan(self.id()).await?;
        if matches!(error, ExecutionError::Stopped(StopReason::Cancelled)) {
            // `release` consumes the cancel message and cancels the plan.
            return Ok(ExecuteOutcome::Cancelled(self.plan.clone()));
        }
        if matches!(error, ExecutionError::Stopped(StopReason::Interrupted)) {
            // The plan keeps its state, so the next owner can resume it.
            return Err(error);
        }
        if error.is_lock_held() {
            // Nothing is wrong with the plan: repeating the command goes on.
            return Err(error);
        }
        if self.plan.position.state() != PlanState::Processing {
            return Err(error);
        }
        if matches!(error, ExecutionError::Stopped(StopReason::OutOfTime)) {
            // Time that is used up is no error of the plan: it waits until the user raises the
            // budget.
            return self.wait_for_budget().await;
        }
        let reason = error.to_string();
        self.record_error(NewErrorRecord::new(category(&error), &reason))
            .await?;
        self.plan = self
            .services
            .lifecycle
            .as_owner(&self.lease)
            .fail(&reason)
            .await?;
        let plan = self.plan.clone();
        Ok(ExecuteOutcome::Failed { plan, reason })
    }
}

/// Whether a phase before Apply is queued or in progress.
fn has_work(position: Position) -> bool {
    position.phase() != Phase::Apply
        && position.waiting().is_none()
        && matches!(position.state(), PlanState::Queued | PlanState::Processing)
}

const fn category(error: &ExecutionError) -> ErrorCategory {
    match error {
        ExecutionError::Sandbox(_)
        | ExecutionError::SandboxRemoved { .. }
        // Only a new strategy helps: the actor is not the one that was approved.
        | ExecutionError::ActorChanged { .. }
        | ExecutionError::Resource { .. } => ErrorCategory::Resource,
        ExecutionError::Process(_) => ErrorCategory::Tool,
        ExecutionError::Render(_) => ErrorCategory::Validation,
        _ => ErrorCategory::Internal,
    }
}
