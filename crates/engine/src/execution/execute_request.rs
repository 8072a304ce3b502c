//! What somebody says about a plan: that it should go on, on record before anything is done.

use std::sync::Arc;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::strategy::StrategyRecord;
use cleveragents_domain::{
    EventKind, Move, Phase, Plan, PlanState, StreamId, Timestamp, WaitReason,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::error::{ExecutionError, Result};
use super::executor::Executor;
use super::workspace::require_local_sandboxes;
use crate::journal::event;
use crate::lifecycle::{PlanMoveRequest, evict, hold_unowned, move_unowned_plan};
use crate::ports::Transaction;

/// What a human's word did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum ExecuteRequest {
    /// There is work; so many calls that wait for an approval have it.
    Work {
        plan: Box<Plan>,
        approvals: u32,
    },
    Nothing(Box<Plan>),
    /// Nobody has approved its strategy: it was made by a process that died before it could tell
    /// anybody, or this is no word of approval.
    Unapproved(Box<Plan>),
}

/// What is wanted of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// To go on past the gate it stands at.
    Execute,
    /// To go on up to that gate.
    Resume,
    /// To go on past the gate because the profile lets the plan, as it was at this version.
    Proceed { version: i64 },
}

impl RequestKind {
    /// What is put on record of who wants it; a profile is asked only after somebody spoke.
    fn event(self) -> Option<EventKind> {
        match self {
            Self::Execute => Some(EventKind::ExecuteRequested),
            Self::Resume => Some(EventKind::ResumeRequested),
            Self::Proceed { .. } => None,
        }
    }

    /// Whether it lets a plan past its gate. A strategy that a dead process made was told to nobody.
    fn approves(self, plan: &Plan, owner_died: bool) -> bool {
        match self {
            Self::Execute => !owner_died,
            Self::Resume => false,
            Self::Proceed { version } => plan.version == version,
        }
    }

    /// In whose name it approves.
    fn approver(self, plan: &Plan, actor: &str) -> String {
        match self {
            Self::Execute | Self::Resume => actor.to_owned(),
            Self::Proceed { .. } => StrategyRecord::approver(&plan.brief.automation_profile.name),
        }
    }

    /// How many calls that wait for an approval it lets through.
    fn approvals(self, waiting: Option<WaitReason>) -> u32 {
        match (self, waiting) {
            (Self::Execute, Some(WaitReason::Approval { .. })) => 1,
            _ => 0,
        }
    }
}

impl Executor {
    /// The human's word, on record before anything is done. Where the plan stands at a gate, or
    /// stopped, it is what lets it go on.
    pub(super) async fn record_request(
        &self,
        plan: PlanId,
        request_kind: RequestKind,
        actor: &str,
    ) -> Result<ExecuteRequest> {
        let known = self.lifecycle.proven_owner(plan).await?;
        let (ids, actor) = (Arc::clone(&self.ids), actor.to_owned());
        let node = self.node.clone();
        self.store
            .write(self.operation("plan.execute"), move |tx| {
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
                let requested = json!({ "phase": phase, "state": state, "waiting": waiting });
                if let Some(kind) = request_kind.event() {
                    let requested = event(kind, &actor, &requested)?;
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

/// Approves exactly the strategy that is stored.
fn approve_strategy(tx: &mut dyn Transaction, plan: PlanId, approver: String) -> Result<()> {
    let Some(mut strategy) = tx.newest_strategy(plan)? else {
        return Err(ExecutionError::NoStrategy { plan });
    };
    strategy.approved_by = Some(approver);
    approve(tx, strategy)
}

pub(super) fn approve(tx: &mut dyn Transaction, mut strategy: StrategyRecord) -> Result<()> {
    let now: Timestamp = tx.now()?;
    strategy.approved_at = Some(now);
    tx.approve_strategy(&strategy)?;
    let by = strategy.approved_by.as_deref().unwrap_or_default();
    let approved = json!({ "number": strategy.number, "hash": strategy.hash });
    let approved = event(EventKind::StrategyApproved, by, &approved)?;
    tx.append(StreamId::Plan(strategy.plan_id), &[approved])?;
    Ok(())
}
