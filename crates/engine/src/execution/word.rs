//! What somebody says about a plan: that it should go on, on record before anything is done.

use std::sync::Arc;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::strategy::StrategyRecord;
use cleveragents_domain::{EventKind, Move, Phase, Plan, State, StreamId, Timestamp, Waiting};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::error::{ExecutionError, Result};
use super::executor::Executor;
use super::workspace::all_here;
use crate::journal::event;
use crate::lifecycle::{Request, evict, hold_unowned, move_unowned_plan};
use crate::ports::Unit;

/// What a human's word did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Word {
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
pub(super) enum Wanted {
    /// To go on past the gate it stands at.
    Execute,
    /// To go on up to that gate.
    Resume,
    /// To go on past the gate because the profile lets the plan, as it was at this version.
    Proceed { version: i64 },
}

impl Wanted {
    /// What is put on record of who wants it; a profile is asked only after somebody spoke.
    fn event(self) -> Option<EventKind> {
        match self {
            Self::Execute => Some(EventKind::ExecuteRequested),
            Self::Resume => Some(EventKind::ResumeRequested),
            Self::Proceed { .. } => None,
        }
    }

    /// Whether it lets a plan past its gate. A strategy that a dead process made was told to nobody.
    fn approves(self, plan: &Plan, left_by_dead: bool) -> bool {
        match self {
            Self::Execute => !left_by_dead,
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
    fn approvals(self, waiting: Option<Waiting>) -> u32 {
        match (self, waiting) {
            (Self::Execute, Some(Waiting::Approval { .. })) => 1,
            _ => 0,
        }
    }
}

impl Executor {
    /// The human's word, on record before anything is done. Where the plan stands at a gate, or
    /// stopped, it is what lets it go on.
    pub(super) async fn word(&self, plan: PlanId, wanted: Wanted, actor: &str) -> Result<Word> {
        let known = self.lifecycle.known_owner(plan).await?;
        let (ids, actor) = (Arc::clone(&self.ids), actor.to_owned());
        let node = self.node.clone();
        self.store
            .write(self.operation("plan.execute"), move |unit| {
                let run = hold_unowned(unit, plan, known)?;
                let held = unit.plan_for_update(plan)?;
                let (phase, state) = (held.position.phase(), held.position.state());
                let outstanding = phase != Phase::Apply
                    && !held.position.is_terminal()
                    && (phase, state) != (Phase::Execute, State::Complete);
                if !outstanding {
                    return Ok(Word::Nothing(Box::new(held)));
                }
                all_here(unit, plan, &node, "plan execute")?;
                let waiting = held.position.waiting();
                let asked = match (state, waiting) {
                    (State::Complete, _) => Some(Move::Advance(Phase::Execute)),
                    (State::Errored | State::Constrained, _) => Some(Move::Retry),
                    (_, Some(_)) => Some(Move::Resume),
                    _ => None,
                };
                let requested = json!({ "phase": phase, "state": state, "waiting": waiting });
                if let Some(kind) = wanted.event() {
                    let requested = event(kind, &actor, &requested)?;
                    unit.append(StreamId::Plan(plan), &[requested])?;
                }
                if state == State::Complete {
                    if !wanted.approves(&held, run.is_some()) {
                        evict(unit, run.as_ref(), &actor)?;
                        return Ok(Word::Unapproved(Box::new(held)));
                    }
                    approve_strategy(unit, plan, wanted.approver(&held, &actor))?;
                }
                let plan = match asked {
                    None => held,
                    Some(asked) => {
                        let request = Request {
                            plan,
                            asked,
                            actor: actor.clone(),
                            reason: None,
                        };
                        let moved = move_unowned_plan(unit, &*ids, &request, run.as_ref())?;
                        moved.plan().clone()
                    }
                };
                Ok::<_, ExecutionError>(Word::Work {
                    plan: Box::new(plan),
                    approvals: wanted.approvals(waiting),
                })
            })
            .await
    }
}

/// Approves exactly the strategy that is stored.
fn approve_strategy(unit: &mut dyn Unit, plan: PlanId, approver: String) -> Result<()> {
    let Some(mut strategy) = unit.newest_strategy(plan)? else {
        return Err(ExecutionError::NoStrategy { plan });
    };
    strategy.approved_by = Some(approver);
    approve(unit, strategy)
}

pub(super) fn approve(unit: &mut dyn Unit, mut strategy: StrategyRecord) -> Result<()> {
    let now: Timestamp = unit.now()?;
    strategy.approved_at = Some(now);
    unit.approve_strategy(&strategy)?;
    let by = strategy.approved_by.as_deref().unwrap_or_default();
    let approved = json!({ "number": strategy.number, "hash": strategy.hash });
    let approved = event(EventKind::StrategyApproved, by, &approved)?;
    unit.append(StreamId::Plan(strategy.plan_id), &[approved])?;
    Ok(())
}
