//! User commands on a plan. A plan that another process runs is never moved directly: its owner
//! gets a message (law 5). A plan without a live owner is moved at once. Commands are idempotent.

use std::sync::Arc;

use cleveragents_domain::event::payloads::{MessageSent, PlanPrompted, RunEvicted};
use cleveragents_domain::id::{MessageId, PlanId};
use cleveragents_domain::message::MessageKind;
use cleveragents_domain::{Move, Phase, Plan, PlanMessage, PositionOutcome, StreamId, WaitReason};
use serde::{Deserialize, Serialize};

use super::PlanLifecycle;
use super::error::{LifecycleError, Result};
use super::moves::{
    PlanMoveOutcome, PlanMoveRequest, RepeatPolicy, move_plan, record_intervention,
};
use super::proven_owner::{ProvenOwner, ProvenState};
use crate::journal::new_event;
use cleveragents_ports::{Holder, Ids, Transaction};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum CancelOutcome {
    /// The plan is cancelled, or can no longer be cancelled.
    Done(PlanMoveOutcome),
    /// The plan is running; its owner was asked to stop.
    Requested(Plan),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromptOutcome {
    /// The plan after the command.
    pub plan: Plan,
    pub message: PlanMessage,
    pub to: MessageRecipient,
}

/// Which process reads the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MessageRecipient {
    /// The process that runs the plan.
    Owner,
    /// The next process that runs it.
    NextOwner,
}

impl PlanLifecycle {
    /// Cancels the plan, directly or through its owner.
    pub async fn cancel(&self, plan: PlanId, reason: &str, actor: &str) -> Result<CancelOutcome> {
        let request = PlanMoveRequest {
            plan,
            requested: Move::Cancel,
            actor: actor.to_owned(),
            reason: Some(reason.to_owned()),
        };
        // Asked before the transaction, which must not wait for the operating system (law 7). It is
        // compared with the locked run below.
        let known = self.proven_owner(plan).await?;
        let ids = Arc::clone(&self.ids);
        self.store
            .write(self.operation("plan.cancel"), move |tx| {
                // Locks the run before the plan, as `release` does. A cancel is therefore seen by
                // the owner, or finds the plan without one.
                let run = tx.run_for_update(request.plan)?;
                let plan = tx.plan_for_update(request.plan)?;
                // A finished plan needs no message, even if its owner has not released it yet.
                let owned = !is_unchanged(&plan, request.requested)
                    && live_run(tx, run.as_ref(), known)?.is_some();
                if !owned {
                    let moved = move_unowned_plan(tx, &*ids, &request, run.as_ref())?;
                    return Ok(CancelOutcome::Done(moved));
                }
                let mut message = new_message(tx, &request, MessageKind::Cancel, ids.next())?;
                send(tx, &mut message)?;
                Ok(CancelOutcome::Requested(plan))
            })
            .await
    }

    /// Moves the plan back to `strategize`. Fails while another process runs the plan.
    pub async fn revert(
        &self,
        plan: PlanId,
        to: Phase,
        reason: &str,
        actor: &str,
    ) -> Result<PlanMoveOutcome> {
        if to != Phase::Strategize {
            return Err(LifecycleError::RevertTarget { to });
        }
        self.move_unowned(plan, Move::Revert, Some(reason), actor)
            .await
    }

    /// Repeats the phase after it stopped.
    pub async fn retry(&self, plan: PlanId, actor: &str) -> Result<PlanMoveOutcome> {
        self.move_unowned(plan, Move::Retry, None, actor).await
    }

    /// Ends the plan's wait.
    pub async fn answer(
        &self,
        plan: PlanId,
        answer: Option<&str>,
        actor: &str,
    ) -> Result<PlanMoveOutcome> {
        self.move_unowned(plan, Move::Resume, answer, actor).await
    }

    /// Enters the next phase at the user's request.
    pub async fn advance(&self, plan: PlanId, to: Phase, actor: &str) -> Result<PlanMoveOutcome> {
        self.move_unowned(plan, Move::Advance(to), None, actor)
            .await
    }

    /// Sends guidance to the current or next owner and records it as a decision of the plan. A plan
    /// that waits for an answer is queued again.
    pub async fn prompt(&self, plan: PlanId, guidance: &str, actor: &str) -> Result<PromptOutcome> {
        let request = PlanMoveRequest {
            plan,
            requested: Move::Resume,
            actor: actor.to_owned(),
            reason: Some(guidance.to_owned()),
        };
        let known = self.proven_owner(plan).await?;
        let ids = Arc::clone(&self.ids);
        self.store
            .write(self.operation("plan.prompt"), move |tx| {
                // The same order as for a cancel: run, then plan.
                let run = tx.run_for_update(request.plan)?;
                let plan = tx.plan_for_update(request.plan)?;
                if plan.position.is_terminal() {
                    return Err(LifecycleError::Final {
                        plan: Box::new(plan),
                    });
                }
                let owned = live_run(tx, run.as_ref(), known)?.is_some();
                let mut message = new_message(tx, &request, MessageKind::Prompt, ids.next())?;
                send(tx, &mut message)?;
                record_intervention(tx, &*ids, &plan, &request, "What should the plan know?")?;
                let prompted = new_event(&request.actor, &PlanPrompted(message.clone()))?;
                tx.append(StreamId::Plan(request.plan), &[prompted])?;
                let plan = match plan.position.waiting() {
                    Some(WaitReason::Answer { .. }) => {
                        let moved = move_unowned_plan(tx, &*ids, &request, run.as_ref())?;
                        moved.plan().clone()
                    }
                    _ => plan,
                };
                Ok(PromptOutcome {
                    plan,
                    message,
                    to: if owned {
                        MessageRecipient::Owner
                    } else {
                        MessageRecipient::NextOwner
                    },
                })
            })
            .await
    }

    async fn move_unowned(
        &self,
        plan: PlanId,
        requested: Move,
        reason: Option<&str>,
        actor: &str,
    ) -> Result<PlanMoveOutcome> {
        let request = PlanMoveRequest {
            plan,
            requested,
            actor: actor.to_owned(),
            reason: reason.map(str::to_owned),
        };
        let known = self.proven_owner(plan).await?;
        let ids = Arc::clone(&self.ids);
        self.store
            .write(self.operation("plan.move"), move |tx| {
                let run = tx.run_for_update(request.plan)?;
                let plan = tx.plan_for_update(request.plan)?;
                if !is_unchanged(&plan, request.requested)
                    && let Some(holder) = live_run(tx, run.as_ref(), known)?
                {
                    return Err(owned(holder, known));
                }
                move_unowned_plan(tx, &*ids, &request, run.as_ref())
            })
            .await
    }

    /// Returns the owner of the plan's run if its process is known to be dead or alive. In that
    /// case the process state decides, not the lease. Probed before the transaction, because the
    /// probe is I/O; `live_run` checks that the run is still the one that was probed.
    pub(crate) async fn proven_owner(&self, plan: PlanId) -> Result<Option<ProvenOwner>> {
        let holder = self
            .store
            .read(move |tx| Ok::<_, LifecycleError>(tx.run_of(plan)?))
            .await?;
        Ok(holder.and_then(|holder| ProvenOwner::probe(&holder, &*self.liveness)))
    }
}

/// Whether the plan already has the requested state, so that its owner does not matter.
fn is_unchanged(plan: &Plan, requested: Move) -> bool {
    matches!(
        plan.position.request_move(requested),
        Ok(PositionOutcome::Unchanged(_))
    )
}

/// Returns the run if it may have a live owner. A later claim sees the moved plan, because the
/// caller holds the run's row.
pub(crate) fn live_run(
    tx: &mut dyn Transaction,
    run: Option<&Holder>,
    known: Option<ProvenOwner>,
) -> Result<Option<Holder>> {
    let now = tx.now()?;
    let alive = |run: &&Holder| match known.filter(|known| known.matches_run(run)) {
        Some(known) => known.state == ProvenState::Alive,
        None => run.expires_at > now,
    };
    Ok(run.filter(alive).cloned())
}

/// Moves a plan without a live owner. A leftover run is evicted in the same transaction.
pub(crate) fn move_unowned_plan(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    request: &PlanMoveRequest,
    run: Option<&Holder>,
) -> Result<PlanMoveOutcome> {
    let moved = move_plan(tx, ids, request, RepeatPolicy::Allow)?;
    if let PlanMoveOutcome::Moved(_) = &moved {
        evict(tx, run, &request.actor)?;
    }
    Ok(moved)
}

/// Fails if a live process runs the plan.
pub(crate) fn refuse_owned(
    tx: &mut dyn Transaction,
    run: Option<&Holder>,
    known: Option<ProvenOwner>,
) -> Result<()> {
    match live_run(tx, run, known)? {
        Some(holder) => Err(owned(holder, known)),
        None => Ok(()),
    }
}

fn owned(holder: Holder, known: Option<ProvenOwner>) -> LifecycleError {
    let pid = known
        .filter(|known| known.matches_run(&holder))
        .and_then(|known| known.pid);
    let holder = Box::new(holder);
    LifecycleError::Owned { holder, pid }
}

/// Locks the run of a plan until the transaction ends. Fails if it has a live owner. Must be called
/// before the plan is locked (lock order). Returns a leftover run, which the caller must [`evict`].
pub(crate) fn hold_unowned(
    tx: &mut dyn Transaction,
    plan: PlanId,
    known: Option<ProvenOwner>,
) -> Result<Option<Holder>> {
    let run = tx.run_for_update(plan)?;
    refuse_owned(tx, run.as_ref(), known)?;
    Ok(run)
}

/// Ends a run without a live owner. If its owner wakes up after all, its next write fails with a
/// lost lease (law 5).
pub(crate) fn evict(tx: &mut dyn Transaction, run: Option<&Holder>, actor: &str) -> Result<()> {
    let Some(holder) = run else {
        return Ok(());
    };
    tx.evict_run(holder)?;
    let evicted = RunEvicted {
        plan: holder.plan,
        phase: holder.phase,
        owner: holder.owner,
        node: holder.node.clone(),
        epoch: holder.epoch,
        claimed_at: holder.claimed_at,
        expires_at: holder.expires_at,
    };
    tx.append(StreamId::Plan(holder.plan), &[new_event(actor, &evicted)?])?;
    Ok(())
}

fn new_message(
    tx: &mut dyn Transaction,
    request: &PlanMoveRequest,
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
        at: tx.now()?,
        taken_at: None,
    })
}

/// Sends the message and sets its sequence number, which its event contains too.
fn send(tx: &mut dyn Transaction, message: &mut PlanMessage) -> Result<()> {
    message.sequence = tx.send_message(message)?;
    let sent = new_event(&message.actor, &MessageSent(message.clone()))?;
    tx.append(StreamId::Plan(message.plan_id), &[sent])?;
    Ok(())
}
