//! Accepts a stopped apply as it is, at the user's request.
//!
//! After its point of no return an apply only goes forward, and it never overwrites changes made by
//! others. If it can neither be finished nor aborted, the user can end it this way.

use std::sync::Arc;

use cleveragents_domain::apply_record::{ApplyDirection, ApplyPartState, ApplyRecord, ApplyState};
use cleveragents_domain::event::payloads::ApplySettled;
use cleveragents_domain::{Move, Plan, PlanState, StreamId};

use super::attempt::{mark_sandbox_applied, update};
use super::error::{ApplyFailure, Result};
use super::{ApplyOutcome, ApplyService, PlanApplyRequest};
use crate::execution::{LocalOperation, require_local_sandboxes};
use crate::journal::new_event;
use crate::lifecycle::{PlanMoveRequest, RepeatPolicy, evict, hold_unowned, move_plan};

impl ApplyService {
    /// Marks the plan as applied in its current state. Changes no files.
    pub async fn settle(&self, request: &PlanApplyRequest) -> Result<ApplyOutcome> {
        let services = &self.services;
        let held = services.lifecycle.plan(request.plan).await?;
        if held.position.is_terminal() && held.position.state() != PlanState::Unapplied {
            let apply = self.newest_done_apply(request.plan).await?;
            return Ok(ApplyOutcome::Unchanged { plan: held, apply });
        }
        let known = services.lifecycle.proven_owner(request.plan).await?;
        let (plan, actor) = (request.plan, request.actor.clone());
        let to = request.destination.clone();
        let (ids, node) = (Arc::clone(&services.ids), services.node.clone());
        let settled = services
            .store
            .write(services.operation("apply.settle"), move |tx| {
                let run = hold_unowned(tx, plan, known)?;
                let held = tx.plan_for_update(plan)?;
                let last = tx.applies_of(plan)?.pop();
                let record = stopped_record(&held, last)?;
                require_local_sandboxes(tx, plan, &node, LocalOperation::Apply { to: to.clone() })?;
                let record = update(
                    tx,
                    &ApplyRecord {
                        state: ApplyState::Done,
                        ..record
                    },
                )?;
                let mut events = Vec::new();
                for sandbox in tx.sandboxes_of(plan)? {
                    events.push(mark_sandbox_applied(tx, sandbox, &actor)?);
                }
                let left = record.resources.iter();
                let left = left.filter(|it| it.state == ApplyPartState::Stopped);
                let left: Vec<_> = left.map(|it| it.sandbox_id).collect();
                let payload = ApplySettled {
                    apply_id: record.id,
                    left_as_they_stand: left,
                };
                events.push(new_event(&actor, &payload)?);
                let mut moved = held;
                for requested in [Move::Retry, Move::Start, Move::Apply] {
                    let request = PlanMoveRequest {
                        plan,
                        requested,
                        actor: actor.clone(),
                        reason: Some("what was left was settled by hand".to_owned()),
                    };
                    let answer = move_plan(tx, &*ids, &request, RepeatPolicy::Refuse)?;
                    moved = answer.plan().clone();
                }
                evict(tx, run.as_ref(), &actor)?;
                tx.append(StreamId::Plan(plan), &events)?;
                Ok::<_, ApplyFailure>((moved, record))
            })
            .await?;
        let (plan, apply) = settled;
        Ok(ApplyOutcome::Applied { plan, apply })
    }
}

/// Returns the apply that can be settled: it stopped and has written something.
fn stopped_record(plan: &Plan, last: Option<ApplyRecord>) -> Result<ApplyRecord> {
    let is_stopped =
        |it: &ApplyRecord| (it.direction, it.state) == (ApplyDirection::Apply, ApplyState::Stopped);
    let plan = Box::new(plan.clone());
    match last.filter(is_stopped) {
        None => Err(ApplyFailure::NothingToSettle { plan }),
        Some(record) if !record.has_written() => Err(ApplyFailure::NothingApplied { plan }),
        Some(record) => Ok(record),
    }
}
