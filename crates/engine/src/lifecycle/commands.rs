//! What people ask of a plan. Nobody moves a plan that another process runs: to its owner they
//! are messages (law 5); a plan that nobody runs is moved at once. Asking twice is no error.

use std::sync::Arc;

use cleveragents_domain::id::{MessageId, PlanId};
use cleveragents_domain::message::MessageKind;
use cleveragents_domain::{Answer, EventKind, Move, Phase, Plan, PlanMessage, StreamId, Waiting};
use serde::{Deserialize, Serialize};

use super::PlanLifecycle;
use super::error::{LifecycleError, Result};
use super::known_owner::{KnownOwner, Life};
use super::moves::{Moved, Repeats, Request, event, intervene, move_plan};
use crate::ports::{Holder, Ids, Unit};

/// What came of asking for a cancel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Cancelled {
    /// The plan is cancelled, or was past cancelling; this is how it stands.
    Done(Moved),
    /// The plan runs: its owner was asked to stop.
    Requested(Plan),
}

/// What came of giving guidance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prompted {
    /// As it stands then.
    pub plan: Plan,
    pub message: PlanMessage,
    pub to: Addressee,
}

/// Who reads a message first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Addressee {
    /// The process that runs the plan.
    Owner,
    /// Whoever runs it next.
    NextOwner,
}

impl PlanLifecycle {
    /// Ends the plan, now or through its owner.
    pub async fn cancel(&self, plan: PlanId, reason: &str, actor: &str) -> Result<Cancelled> {
        let request = Request {
            plan,
            asked: Move::Cancel,
            actor: actor.to_owned(),
            reason: Some(reason.to_owned()),
        };
        let known = self.known_owner(plan).await?;
        let ids = Arc::clone(&self.ids);
        self.store
            .write(self.operation("plan.cancel"), move |unit| {
                let run = unit.hold_run(request.plan)?;
                let plan = unit.plan_for_update(request.plan)?;
                let owned =
                    !stands(&plan, request.asked) && live_run(unit, run.as_ref(), known)?.is_some();
                if !owned {
                    let moved = move_unowned_plan(unit, &*ids, &request, run.as_ref())?;
                    return Ok(Cancelled::Done(moved));
                }
                let mut message = message(unit, &request, MessageKind::Cancel, ids.next())?;
                send(unit, &mut message)?;
                Ok(Cancelled::Requested(plan))
            })
            .await
    }

    /// Goes back to `strategize`. Refused while another process runs the plan.
    pub async fn revert(
        &self,
        plan: PlanId,
        to: Phase,
        reason: &str,
        actor: &str,
    ) -> Result<Moved> {
        if to != Phase::Strategize {
            return Err(LifecycleError::RevertTarget { to });
        }
        self.move_unowned(plan, Move::Revert, Some(reason), actor)
            .await
    }

    /// Does the same phase again after it stopped.
    pub async fn retry(&self, plan: PlanId, actor: &str) -> Result<Moved> {
        self.move_unowned(plan, Move::Retry, None, actor).await
    }

    /// What the plan waited for has come.
    pub async fn answer(&self, plan: PlanId, answer: Option<&str>, actor: &str) -> Result<Moved> {
        self.move_unowned(plan, Move::Resume, answer, actor).await
    }

    /// Enters the next phase on a human's word.
    pub async fn advance(&self, plan: PlanId, to: Phase, actor: &str) -> Result<Moved> {
        self.move_unowned(plan, Move::Advance(to), None, actor)
            .await
    }

    /// Leaves guidance for whoever runs the plan, now or next, and records it among the plan's
    /// decisions. A plan that waits for an answer has it then, and is queued again.
    pub async fn prompt(&self, plan: PlanId, guidance: &str, actor: &str) -> Result<Prompted> {
        let request = Request {
            plan,
            asked: Move::Resume,
            actor: actor.to_owned(),
            reason: Some(guidance.to_owned()),
        };
        let known = self.known_owner(plan).await?;
        let ids = Arc::clone(&self.ids);
        self.store
            .write(self.operation("plan.prompt"), move |unit| {
                let run = unit.hold_run(request.plan)?;
                let plan = unit.plan_for_update(request.plan)?;
                if plan.position.is_terminal() {
                    return Err(LifecycleError::Final {
                        plan: Box::new(plan),
                    });
                }
                let owned = live_run(unit, run.as_ref(), known)?.is_some();
                let mut message = message(unit, &request, MessageKind::Prompt, ids.next())?;
                send(unit, &mut message)?;
                intervene(unit, &*ids, &plan, &request, "What should the plan know?")?;
                let prompted = event(EventKind::PlanPrompted, &request.actor, &message)?;
                unit.append(StreamId::Plan(request.plan), &[prompted])?;
                let plan = match plan.position.waiting() {
                    Some(Waiting::Answer { .. }) => {
                        let moved = move_unowned_plan(unit, &*ids, &request, run.as_ref())?;
                        moved.plan().clone()
                    }
                    _ => plan,
                };
                Ok(Prompted {
                    plan,
                    message,
                    to: match owned {
                        true => Addressee::Owner,
                        false => Addressee::NextOwner,
                    },
                })
            })
            .await
    }

    async fn move_unowned(
        &self,
        plan: PlanId,
        asked: Move,
        reason: Option<&str>,
        actor: &str,
    ) -> Result<Moved> {
        let request = Request {
            plan,
            asked,
            actor: actor.to_owned(),
            reason: reason.map(str::to_owned),
        };
        let known = self.known_owner(plan).await?;
        let ids = Arc::clone(&self.ids);
        self.store
            .write(self.operation("plan.move"), move |unit| {
                let run = unit.hold_run(request.plan)?;
                let plan = unit.plan_for_update(request.plan)?;
                if !stands(&plan, request.asked)
                    && let Some(holder) = live_run(unit, run.as_ref(), known)?
                {
                    return Err(LifecycleError::Owned { holder });
                }
                move_unowned_plan(unit, &*ids, &request, run.as_ref())
            })
            .await
    }

    /// The owner of the plan's run, if it is known to be dead or alive: then its lease does not
    /// decide.
    pub(crate) async fn known_owner(&self, plan: PlanId) -> Result<Option<KnownOwner>> {
        let holder = self
            .store
            .read(move |unit| Ok::<_, LifecycleError>(unit.run_of(plan)?))
            .await?;
        Ok(holder.and_then(|holder| KnownOwner::of(&holder, &*self.liveness)))
    }
}

/// Whether the plan already has what is asked for, so that it does not matter who runs it.
fn stands(plan: &Plan, asked: Move) -> bool {
    matches!(plan.position.ask(asked), Ok(Answer::Stands(_)))
}

/// The run that may be under way. A claim that comes a moment later finds the plan moved.
pub(crate) fn live_run(
    unit: &mut dyn Unit,
    run: Option<&Holder>,
    known: Option<KnownOwner>,
) -> Result<Option<Holder>> {
    let now = unit.now()?;
    let alive = |run: &&Holder| match known.filter(|known| known.is_of(run)) {
        Some(known) => known.life == Life::Alive,
        None => run.expires_at > now,
    };
    Ok(run.filter(alive).cloned())
}

/// Moves a plan that nobody alive runs. A run that is still on the books ends with it.
pub(crate) fn move_unowned_plan(
    unit: &mut dyn Unit,
    ids: &dyn Ids,
    request: &Request,
    run: Option<&Holder>,
) -> Result<Moved> {
    let moved = move_plan(unit, ids, request, Repeats::Stand)?;
    if let Moved::Moved(_) = &moved {
        evict(unit, run, &request.actor)?;
    }
    Ok(moved)
}

/// Refuses while somebody alive runs the plan.
pub(crate) fn refuse_owned(
    unit: &mut dyn Unit,
    run: Option<&Holder>,
    known: Option<KnownOwner>,
) -> Result<()> {
    match live_run(unit, run, known)? {
        Some(holder) => Err(LifecycleError::Owned { holder }),
        None => Ok(()),
    }
}

/// Holds the run of a plan that nobody alive runs until this write ends; asked before the plan.
/// What is still on the books is answered, to be [`evict`]ed.
pub(crate) fn hold_unowned(
    unit: &mut dyn Unit,
    plan: PlanId,
    known: Option<KnownOwner>,
) -> Result<Option<Holder>> {
    let run = unit.hold_run(plan)?;
    refuse_owned(unit, run.as_ref(), known)?;
    Ok(run)
}

/// Ends a run that nobody keeps alive: should its owner wake up after all, it finds its lease
/// lost (law 5).
pub(crate) fn evict(unit: &mut dyn Unit, run: Option<&Holder>, actor: &str) -> Result<()> {
    let Some(holder) = run else {
        return Ok(());
    };
    unit.evict_run(holder)?;
    let evicted = event(EventKind::RunEvicted, actor, holder)?;
    unit.append(StreamId::Plan(holder.plan), &[evicted])?;
    Ok(())
}

fn message(
    unit: &mut dyn Unit,
    request: &Request,
    kind: MessageKind,
    id: ulid::Ulid,
) -> Result<PlanMessage> {
    Ok(PlanMessage {
        id: MessageId::new(id),
        plan_id: request.plan,
        sequence: 0,
        kind,
        body: request.reason.clone().unwrap_or_default(),
        actor: request.actor.clone(),
        at: unit.now()?,
        taken_at: None,
    })
}

/// Sends the message and gives it its place, which its event tells as well.
fn send(unit: &mut dyn Unit, message: &mut PlanMessage) -> Result<()> {
    message.sequence = unit.send_message(message)?;
    let sent = event(EventKind::MessageSent, &message.actor, message)?;
    unit.append(StreamId::Plan(message.plan_id), &[sent])?;
    Ok(())
}
