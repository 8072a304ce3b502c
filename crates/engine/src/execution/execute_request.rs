//! Requests to run a plan, recorded before anything is done.

use std::sync::Arc;

use cleveragents_domain::apply_record::Destination;
use cleveragents_domain::approval::PendingApprovals;
use cleveragents_domain::event::payloads::{
    ExecuteRequested, RequestPosition, ResumeRequested, StrategyApproved,
};
use cleveragents_domain::id::PlanId;
use cleveragents_domain::strategy::{Approver, StrategyRecord};
use cleveragents_domain::{
    Move, NewEvent, Phase, Plan, PlanState, StreamId, Timestamp, WaitReason,
};
use serde::{Deserialize, Serialize};

use super::error::{ExecutionError, LocalOperation, Result};
use super::executor::Executor;
use super::workspace::require_local_sandboxes;
use crate::journal::new_event;
use crate::lifecycle::{PlanMoveRequest, evict, hold_unowned, move_unowned_plan};
use cleveragents_ports::{StoreError, Transaction};

/// Outcome of recording a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum ExecuteRequest {
    Work(Box<Plan>),
    Nothing(Box<Plan>),
    /// The strategy is not approved. Either its process died before it could show the strategy, or
    /// the request does not approve anything.
    Unapproved(Box<Plan>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ExecuteRequestKind {
    /// Run past the current gate; counts as the user's approval of it. `seen` is the version of the
    /// plan when the user gave the command: a strategy or call that appeared later is not approved.
    Execute { seen: i64 },
    /// Run the plan from its creation to its result, with these approvals. Does not approve a call
    /// that waits, because a repeated request comes from a user who has not seen it.
    Run {
        approvals: PendingApprovals,
        /// Replaces that of the plan, if there is one.
        destination: Option<Destination>,
    },
    /// Run up to the current gate; approves nothing.
    Resume,
    /// Run past the current gate because the profile allows it. Valid only for the plan at this
    /// version.
    Proceed { version: i64 },
}

impl ExecuteRequestKind {
    /// Returns the event that records the request. `Proceed` has none: it always follows a recorded
    /// `Execute` or `Resume`.
    fn event(
        &self,
        actor: &str,
        position: RequestPosition,
    ) -> std::result::Result<Option<NewEvent>, StoreError> {
        match self {
            Self::Execute { .. } | Self::Run { .. } => {
                new_event(actor, &ExecuteRequested(position)).map(Some)
            }
            Self::Resume => new_event(actor, &ResumeRequested(position)).map(Some),
            Self::Proceed { .. } => Ok(None),
        }
    }

    /// Returns the name under which the request approves the strategy, or `None` if it does not. If
    /// the owner died, the user cannot have seen the strategy, so `Execute` does not approve it. An
    /// approval given in advance always counts.
    fn approver(&self, plan: &Plan, actor: &str, owner_died: bool) -> Option<Approver> {
        let in_advance = plan.approvals.strategy.clone().map(Approver::User);
        match self {
            Self::Execute { .. } if owner_died => in_advance,
            // Another process made the strategy after the command was given (law 3).
            Self::Execute { seen } if plan.version != *seen => in_advance,
            // The approval of this request names the approver, an earlier one only fills the gap.
            Self::Run { approvals, .. } if owner_died => {
                let now = approvals.strategy.clone().map(Approver::User);
                now.or(in_advance)
            }
            Self::Execute { .. } | Self::Run { .. } => Some(Approver::User(actor.to_owned())),
            Self::Resume => in_advance,
            // The profile may have refused: then only the user's approval lets the plan through. The
            // profile's is valid for the plan that was assessed; a changed one must pass the gate
            // again (law 1).
            Self::Proceed { version } => {
                in_advance.or_else(|| (plan.version == *version).then(|| profile_approver(plan)))
            }
        }
    }

    /// Returns what the request approves of the work that follows. A call that waits for approval
    /// may be made; the strategy is either made or approved already.
    fn approvals(&self, plan: &Plan) -> PendingApprovals {
        let waiting = plan.position.waiting();
        match self {
            Self::Execute { seen } => PendingApprovals {
                // One call, the one that was displayed. Later calls ask again.
                calls: u32::from(
                    matches!(waiting, Some(WaitReason::Approval { .. })) && plan.version == *seen,
                ),
                ..PendingApprovals::default()
            },
            Self::Run { approvals, .. } => approvals.clone(),
            Self::Resume | Self::Proceed { .. } => PendingApprovals::default(),
        }
    }

    /// Returns whether the request withdraws an earlier approval of the apply. `Execute` continues a
    /// plan that failed up to its result, which the user then reviews; only `Resume` continues what
    /// was approved before.
    fn withdraws_apply(&self, state: PlanState) -> bool {
        matches!(self, Self::Execute { .. }) && state == PlanState::Errored
    }

    /// Stores what the request approves and withdraws, at this state of the plan.
    fn update_approvals(
        &self,
        tx: &mut dyn Transaction,
        plan: Plan,
        approvals: PendingApprovals,
        state: PlanState,
    ) -> std::result::Result<Plan, StoreError> {
        update_approvals(tx, plan, |next| {
            if self.withdraws_apply(state) {
                next.approvals.withdraw_apply();
            }
            next.approvals.add(approvals);
            next.destination = self.destination().or(next.destination.take());
        })
    }

    fn destination(&self) -> Option<Destination> {
        match self {
            Self::Run { destination, .. } => destination.clone(),
            Self::Execute { .. } | Self::Resume | Self::Proceed { .. } => None,
        }
    }
}

impl Executor {
    /// Records the request before anything is done. If the plan is at a gate or has stopped, the
    /// same transaction moves it on.
    pub(super) async fn record_request(
        &self,
        plan: PlanId,
        request_kind: ExecuteRequestKind,
        actor: &str,
    ) -> Result<ExecuteRequest> {
        // Outside the transaction, which must not wait for the operating system (law 7).
        let known = self.services.lifecycle.proven_owner(plan).await?;
        let (ids, actor) = (Arc::clone(&self.services.ids), actor.to_owned());
        let node = self.services.node.clone();
        self.services
            .store
            .write(self.services.operation("plan.execute"), move |tx| {
                // Lock order: run, then plan. Fails if a live process owns the plan.
                let run = hold_unowned(tx, plan, known)?;
                let held = tx.plan_for_update(plan)?;
                let (phase, state) = (held.position.phase(), held.position.state());
                let can_run = phase != Phase::Apply
                    && !held.position.is_terminal()
                    && (phase, state) != (Phase::Execute, PlanState::Complete);
                if !can_run {
                    // Not an error: a repeated request finds the work done.
                    return Ok(ExecuteRequest::Nothing(Box::new(held)));
                }
                require_local_sandboxes(tx, plan, &node, LocalOperation::Execute)?;
                let waiting = held.position.waiting();
                let requested_move = move_to_run(state, waiting);
                let approvals = request_kind.approvals(&held);
                let position = RequestPosition {
                    phase,
                    state,
                    waiting,
                    approvals: approvals.clone(),
                };
                if let Some(requested) = request_kind.event(&actor, position)? {
                    // The journal holds the request even if it approves nothing (law 2).
                    tx.append(StreamId::Plan(plan), &[requested])?;
                }
                if state == PlanState::Complete {
                    let approver = request_kind.approver(&held, &actor, run.is_some());
                    let Some(approver) = approver else {
                        // The dead owner may only be suspended. Without its epoch raised it could
                        // still write.
                        evict(tx, run.as_ref(), &actor)?;
                        return Ok(ExecuteRequest::Unapproved(Box::new(held)));
                    };
                    // In the same commit as the move: there is no moment in which Execute is
                    // entered unapproved.
                    approve_strategy(tx, plan, approver)?;
                }
                let plan = match requested_move {
                    None => held,
                    Some(requested_move) => {
                        let request = PlanMoveRequest {
                            plan,
                            requested: requested_move,
                            actor: actor.clone(),
                            reason: None,
                        };
                        let moved = move_unowned_plan(tx, &*ids, &request, run.as_ref())?;
                        moved.plan().clone()
                    }
                };
                let plan = request_kind.update_approvals(tx, plan, approvals, state)?;
                Ok::<_, ExecutionError>(ExecuteRequest::Work(Box::new(plan)))
            })
            .await
    }
}

/// Returns the move that queues a plan at this state to run; `None` if it is queued or in progress.
fn move_to_run(state: PlanState, waiting: Option<WaitReason>) -> Option<Move> {
    match (state, waiting) {
        (PlanState::Complete, _) => Some(Move::Advance(Phase::Execute)),
        (PlanState::Errored | PlanState::Constrained, _) => Some(Move::Retry),
        (_, Some(_)) => Some(Move::Resume),
        _ => None,
    }
}

/// Stores the user's approvals of later work and the destination, for the process that runs the
/// plan.
pub(crate) fn add_approvals(
    tx: &mut dyn Transaction,
    plan: Plan,
    new: PendingApprovals,
    destination: Option<Destination>,
) -> std::result::Result<Plan, StoreError> {
    update_approvals(tx, plan, |next| {
        next.approvals.add(new);
        next.destination = destination.or(next.destination.take());
    })
}

fn update_approvals(
    tx: &mut dyn Transaction,
    plan: Plan,
    change: impl FnOnce(&mut Plan),
) -> std::result::Result<Plan, StoreError> {
    let mut next = plan.clone();
    change(&mut next);
    // No write, so a repeated request does not raise the version and invalidate other decisions.
    if next == plan {
        return Ok(plan);
    }
    next.version = tx.update_plan(&next)?;
    Ok(next)
}

/// Returns the plan's profile as the approver.
pub(super) fn profile_approver(plan: &Plan) -> Approver {
    Approver::Profile(plan.brief.automation_profile.name.to_string())
}

/// Approves exactly the stored strategy.
fn approve_strategy(tx: &mut dyn Transaction, plan: PlanId, approver: Approver) -> Result<()> {
    let Some(mut strategy) = tx.newest_strategy(plan)? else {
        return Err(ExecutionError::NoStrategy { plan });
    };
    strategy.approved_by = Some(approver);
    approve(tx, strategy)?;
    Ok(())
}

pub(super) fn approve(
    tx: &mut dyn Transaction,
    mut strategy: StrategyRecord,
) -> Result<StrategyRecord> {
    let now: Timestamp = tx.now()?;
    strategy.approved_at = Some(now);
    tx.approve_strategy(&strategy)?;
    let by = strategy.approved_by.as_ref();
    let by = by.map(Approver::to_string).unwrap_or_default();
    let approved = StrategyApproved {
        number: strategy.number,
        hash: strategy.hash.clone(),
    };
    let approved = new_event(&by, &approved)?;
    tx.append(StreamId::Plan(strategy.plan_id), &[approved])?;
    Ok(strategy)
}
