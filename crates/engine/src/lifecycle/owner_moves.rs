//! Moves for the owner of a plan's run. Each write is fenced by its lease (law 5) and strict: the
//! owner knows its plan's position, so a repeated move fails.

use std::sync::Arc;

use cleveragents_domain::event::payloads::MessageTaken;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{MessageKind, Move, Phase, Plan, PlanMessage, StreamId, WaitReason};

use super::PlanLifecycle;
use super::error::{LifecycleError, Result};
use super::moves::{PlanMoveRequest, RepeatPolicy, move_plan};
use super::preflight::{Preflight, PreflightProbe};
use crate::journal::new_event;
use crate::runs::{ReleaseOutcome, RunLease};
use cleveragents_ports::StoreError;

/// The moves of a plan by the owner of its run.
#[derive(Debug, Clone, Copy)]
pub struct PlanOwner<'a> {
    lifecycle: &'a PlanLifecycle,
    run: &'a RunLease,
}

impl PlanLifecycle {
    /// Returns the moves that the holder of this lease may make.
    pub const fn as_owner<'a>(&'a self, run: &'a RunLease) -> PlanOwner<'a> {
        PlanOwner {
            lifecycle: self,
            run,
        }
    }

    /// Releases the run. A cancel request that arrived at the last moment is honoured first, if the
    /// plan can still be cancelled; then the cancelled plan is returned. Other messages stay for the
    /// next owner.
    pub async fn release(&self, run: RunLease) -> Result<Option<Plan>> {
        let mut run = run;
        let mut cancelled = None;
        // Retry after each cancel request: `release` refuses as long as one is pending.
        while let ReleaseOutcome::CancelRequested(held) = run.release().await? {
            run = held;
            let owner = self.as_owner(&run);
            let cancels = owner.take_messages_of_kinds(&[MessageKind::Cancel]).await?;
            if let Some(message) = cancels.first() {
                match owner.cancel(&message.body).await {
                    Ok(plan) => cancelled = Some(plan),
                    Err(LifecycleError::Illegal { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(cancelled)
    }
}

impl PlanOwner<'_> {
    /// Starts the phase if every preflight check passes. Otherwise the plan stays and the error
    /// lists every failure.
    pub async fn start(&self, probe: &dyn PreflightProbe) -> Result<Plan> {
        let plan_id = self.run.lease().plan;
        match Preflight::load(&self.lifecycle.store, plan_id).await {
            Ok(preflight) => preflight.check(probe)?,
            // A deletion removes the run first, so the fence of the next write reports the lost
            // lease.
            Err(LifecycleError::Store(StoreError::NotFound { .. })) => {}
            Err(error) => return Err(error),
        }
        self.start_checked().await
    }

    /// Starts the phase of a plan whose preflight checks have passed.
    pub(crate) async fn start_checked(&self) -> Result<Plan> {
        self.make(Move::Start, None).await
    }

    /// Completes the phase.
    pub async fn complete(&self) -> Result<Plan> {
        self.make(Move::Complete, None).await
    }

    /// Ends the phase with an error. `reason` is for the user; the error history has the details.
    pub async fn fail(&self, reason: &str) -> Result<Plan> {
        self.make(Move::Fail, Some(reason)).await
    }

    /// Ends the phase because a rule stopped it.
    pub async fn constrain(&self, reason: &str) -> Result<Plan> {
        self.make(Move::Constrain, Some(reason)).await
    }

    /// Passes Apply's point of no return.
    pub async fn decide(&self) -> Result<Plan> {
        self.make(Move::Decide, None).await
    }

    /// Records that the changes are applied.
    pub async fn mark_applied(&self) -> Result<Plan> {
        self.make(Move::Apply, None).await
    }

    /// Records that nothing of a stopped apply is left.
    pub async fn abort(&self, reason: &str) -> Result<Plan> {
        self.make(Move::Abort, Some(reason)).await
    }

    /// Records that the changes are reversed.
    pub async fn mark_unapplied(&self) -> Result<Plan> {
        self.make(Move::Unapply, None).await
    }

    /// Moves the plan to waiting.
    pub async fn wait(&self, waiting: WaitReason) -> Result<Plan> {
        self.make(Move::Wait(waiting), None).await
    }

    /// Enters the next phase without the user, as the profile permits.
    pub async fn advance(&self, to: Phase) -> Result<Plan> {
        self.make(Move::Advance(to), None).await
    }

    /// Cancels the plan because its owner was asked to.
    pub async fn cancel(&self, reason: &str) -> Result<Plan> {
        self.make(Move::Cancel, Some(reason)).await
    }

    /// Takes the messages sent to the owner of this plan. Each message is returned once.
    pub async fn take_messages(&self) -> Result<Vec<PlanMessage>> {
        self.take_messages_of_kinds(MessageKind::ALL).await
    }

    async fn take_messages_of_kinds(
        &self,
        kinds: &'static [MessageKind],
    ) -> Result<Vec<PlanMessage>> {
        let plan: PlanId = self.run.lease().plan;
        let actor = self.run.lease().owner.to_string();
        let operation = self.lifecycle.operation("plan.take-messages");
        let taken = self.run.write(operation, move |tx| {
            let messages = tx.take_messages(plan, kinds)?;
            if !messages.is_empty() {
                let taken = MessageTaken {
                    messages: messages.iter().map(|it| it.id).collect(),
                };
                tx.append(StreamId::Plan(plan), &[new_event(&actor, &taken)?])?;
            }
            Ok::<_, LifecycleError>(messages)
        });
        taken.await
    }

    async fn make(&self, requested: Move, reason: Option<&str>) -> Result<Plan> {
        let request = PlanMoveRequest {
            plan: self.run.lease().plan,
            requested,
            actor: self.run.lease().owner.to_string(),
            reason: reason.map(str::to_owned),
        };
        let ids = Arc::clone(&self.lifecycle.ids);
        let operation = self.lifecycle.operation("plan.move");
        let moved = self.run.write(operation, move |tx| {
            move_plan(tx, &*ids, &request, RepeatPolicy::Refuse)
        });
        Ok(moved.await?.plan().clone())
    }
}
