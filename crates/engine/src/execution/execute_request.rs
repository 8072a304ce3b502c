//! Requests to run a plan, recorded before anything is done.

use std::sync::Arc;

use cleveragents_domain::event::payloads::{
    ExecuteRequested, RequestPosition, ResumeRequested, StrategyApproved,
};
use cleveragents_domain::id::PlanId;
use cleveragents_domain::strategy::StrategyRecord;
use cleveragents_domain::{
    Move, NewEvent, Phase, Plan, PlanState, StreamId, Timestamp, WaitReason,
};
use serde::{Deserialize, Serialize};

use super::error::{ExecutionError, Result};
use super::executor::Executor;
use super::workspace::require_local_sandboxes;
use crate::journal::new_event;
use crate::lifecycle::{PlanMoveRequest, evict, hold_unowned, move_unowned_plan};
use cleveragents_ports::{StoreError, Transaction};

/// Outcome of recording a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum ExecuteRequest {
    /// There is work. `approvals` is the number of pending calls that the request approves.
    Work {
        plan: Box<Plan>,
        approvals: u32,
    },
    Nothing(Box<Plan>),
    /// The strategy is not approved. Either its process died before it could show the strategy, or
    /// the request does not approve anything.
    Unapproved(Box<Plan>),
}

/// Kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// Run past the current gate; counts as the user's approval.
    Execute,
    /// Run up to the current gate; approves nothing.
    Resume,
    /// Run past the current gate because the profile allows it. Valid only for the plan at this
    /// version.
    Proceed { version: i64 },
}

impl RequestKind {
    /// Returns the event that records the request. `Proceed` has none: it always follows a recorded
    /// `Execute` or `Resume`.
    fn event(
        self,
        actor: &str,
        position: RequestPosition,
    ) -> std::result::Result<Option<NewEvent>, StoreError> {
        match self {
            Self::Execute => new_event(actor, &ExecuteRequested(position)).map(Some),
            Self::Resume => new_event(actor, &ResumeRequested(position)).map(Some),
            Self::Proceed { .. } => Ok(None),
        }
    }

    /// Whether the request lets the plan pass its gate. If the owner died, the user cannot have
    /// seen the strategy, so `Execute` does not approve it.
    fn approves(self, plan: &Plan, owner_died: bool) -> bool {
        match self {
            Self::Execute => !owner_died,
            Self::Resume => false,
            Self::Proceed { version } => plan.version == version,
        }
    }

    /// Returns the name under which the strategy is approved.
    fn approver(self, plan: &Plan, actor: &str) -> String {
        match self {
            Self::Execute | Self::Resume => actor.to_owned(),
            Self::Proceed { .. } => StrategyRecord::approver(&plan.brief.automation_profile.name),
        }
    }

    /// Returns how many calls that wait for approval the request approves.
    fn approvals(self, waiting: Option<WaitReason>) -> u32 {
        match (self, waiting) {
            (Self::Execute, Some(WaitReason::Approval { .. })) => 1,
            _ => 0,
        }
    }
}

impl Executor {
    /// Records the request before anything is done. If the plan is at a gate or has stopped, the
    /// same transaction moves it on.
    pub(super) async fn record_request(
        &self,
        plan: PlanId,
        request_kind: RequestKind,
        actor: &str,
    ) -> Result<ExecuteRequest> {
        let known = self.services.lifecycle.proven_owner(plan).await?;
        let (ids, actor) = (Arc::clone(&self.services.ids), actor.to_owned());
        let node = self.services.node.clone();
        self.services
            .store
            .write(self.services.operation("plan.execute"), move |tx| {
                let run = hold_unowned(tx, plan, known)?;
                let held = tx.plan_for_update(plan)?;
                let (phase, state) = (held.position.phase(), held.position.state());
                let outstanding = phase != Phase::Apply
                    && !held.position.is_terminal()
                    && (phase, state) != (Phase::Execute, PlanState::Complete);
                if !outstanding {
                    return Ok(ExecuteRequest::Nothing(Box::new(held)));
                }
                require_local_sandboxes(tx, plan, &node, "plan execute")?;
                let waiting = held.position.waiting();
                let requested_move = match (state, waiting) {
                    (PlanState::Complete, _) => Some(Move::Advance(Phase::Execute)),
                    (PlanState::Errored | PlanState::Constrained, _) => Some(Move::Retry),
                    (_, Some(_)) => Some(Move::Resume),
                    _ => None,
                };
                let position = RequestPosition {
                    phase,
                    state,
                    waiting,
                };
                if let Some(requested) = request_kind.event(&actor, position)? {
                    tx.append(StreamId::Plan(plan), &[requested])?;
                }
                if state == PlanState::Complete {
                    if !request_kind.approves(&held, run.is_some()) {
                        evict(tx, run.as_ref(), &actor)?;
                        return Ok(ExecuteRequest::Unapproved(Box::new(held)));
                    }
                    approve_strategy(tx, plan, request_kind.approver(&held, &actor))?;
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
                Ok::<_, ExecutionError>(ExecuteRequest::Work {
                    plan: Box::new(plan),
                    approvals: request_kind.approvals(waiting),
                })
            })
            .await
    }
}

/// Approves exactly the stored strategy.
fn approve_strategy(tx: &mut dyn Transaction, plan: PlanId, approver: String) -> Result<()> {
    let Some(mut strategy) = tx.newest_strategy(plan)? else {
        return Err(ExecutionError::NoStrategy { plan });
    };
    strategy.approved_by = Some(approver);
    approve(tx, strategy)?;
    Ok(())
}

/// Approves a strategy and returns it.
pub(super) fn approve(
    tx: &mut dyn Transaction,
    mut strategy: StrategyRecord,
) -> Result<StrategyRecord> {
    let now: Timestamp = tx.now()?;
    strategy.approved_at = Some(now);
    tx.approve_strategy(&strategy)?;
    let by = strategy.approved_by.as_deref().unwrap_or_default();
    let approved = StrategyApproved {
        number: strategy.number,
        hash: strategy.hash.clone(),
    };
    let approved = new_event(by, &approved)?;
    tx.append(StreamId::Plan(strategy.plan_id), &[approved])?;
    Ok(strategy)
}
