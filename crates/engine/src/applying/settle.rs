//! Taking what stands for what was meant, at a human's word.
//!
//! Past its point of no return an apply only goes forward, and what somebody else did in between is
//! never overwritten. Where that leaves no way on, the human who looked at it has the last word.

use std::sync::Arc;

use cleveragents_domain::application::{ApplyRecord, ApplyState, Direction, PartState};
use cleveragents_domain::{EventKind, Move, Plan, State, StreamId};
use serde_json::json;

use super::attempt::{applied_sandbox, update};
use super::error::{ApplyFailure, Result};
use super::{ApplyAsk, ApplyOutcome, ApplyService};
use crate::execution::all_here;
use crate::journal::event;
use crate::lifecycle::{Repeats, Request, evict, hold_unowned, move_plan};

impl ApplyService {
    /// The plan counts as applied as it stands; nothing is touched.
    pub async fn settle(&self, ask: &ApplyAsk) -> Result<ApplyOutcome> {
        let executor = &self.executor;
        let held = executor.lifecycle.plan(ask.plan).await?;
        if held.position.is_terminal() && held.position.state() != State::Unapplied {
            let apply = self.newest(ask.plan).await?;
            return Ok(ApplyOutcome::Stands { plan: held, apply });
        }
        let known = executor.lifecycle.known_owner(ask.plan).await?;
        let (plan, actor) = (ask.plan, ask.actor.clone());
        let (ids, node) = (Arc::clone(&executor.ids), executor.node.clone());
        let settled = executor
            .store
            .write(executor.operation("apply.settle"), move |unit| {
                let run = hold_unowned(unit, plan, known)?;
                let held = unit.plan_for_update(plan)?;
                let last = unit.applies_of(plan)?.pop();
                let record = stopped_record(&held, last)?;
                all_here(unit, plan, &node, "plan apply")?;
                let record = update(
                    unit,
                    &ApplyRecord {
                        state: ApplyState::Done,
                        ..record
                    },
                )?;
                let mut events = Vec::new();
                for sandbox in unit.sandboxes_of(plan)? {
                    events.push(applied_sandbox(unit, sandbox, &actor)?);
                }
                let left = record.resources.iter();
                let left = left.filter(|it| it.state == PartState::Stopped);
                let left: Vec<_> = left.map(|it| it.sandbox_id).collect();
                let told = json!({ "apply_id": record.id, "left_as_they_stand": left });
                events.push(event(EventKind::ApplySettled, &actor, &told)?);
                let mut moved = held;
                for asked in [Move::Retry, Move::Start, Move::Apply] {
                    let request = Request {
                        plan,
                        asked,
                        actor: actor.clone(),
                        reason: Some("what was left was settled by hand".to_owned()),
                    };
                    let answer = move_plan(unit, &*ids, &request, Repeats::AreRefused)?;
                    moved = answer.plan().clone();
                }
                evict(unit, run.as_ref(), &actor)?;
                unit.append(StreamId::Plan(plan), &events)?;
                Ok::<_, ApplyFailure>((moved, record))
            })
            .await?;
        let (plan, apply) = settled;
        Ok(ApplyOutcome::Applied { plan, apply })
    }
}

/// The apply that can be settled: it stopped, and something of it was written.
fn stopped_record(plan: &Plan, last: Option<ApplyRecord>) -> Result<ApplyRecord> {
    let is_stopped =
        |it: &ApplyRecord| (it.direction, it.state) == (Direction::Apply, ApplyState::Stopped);
    let plan = Box::new(plan.clone());
    match last.filter(is_stopped) {
        None => Err(ApplyFailure::NothingToSettle { plan }),
        Some(record) if !record.has_written() => Err(ApplyFailure::NothingApplied { plan }),
        Some(record) => Ok(record),
    }
}
