//! Waiting for a free slot. A plan that waits records it and has no owner.

use std::pin::pin;
use std::sync::Arc;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Move, PlanState, WaitReason};
use tokio::sync::{Mutex, OwnedMutexGuard, watch};
use tokio::time::timeout;

use super::error::{ExecutionError, Result};
use super::executor::{Executor, POLL_INTERVAL};
use super::plan_run::PlanRun;
use crate::lifecycle::{PlanMoveRequest, RepeatPolicy, move_plan};
use cleveragents_ports::{Holder, StopReason};

/// Outcome of waiting for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotWait {
    /// A slot may be free; try to claim again.
    Retry,
    /// The plan was finished meanwhile.
    Finished,
}

/// Queue of this process's plans that wait for a slot. The holder of the lock polls for a free slot;
/// the others wait for the lock.
#[derive(Debug, Clone, Default)]
pub struct SlotQueue(Arc<Mutex<()>>);

impl SlotQueue {
    async fn lock(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.0).lock_owned().await
    }
}

impl Executor {
    /// Waits behind the other waiters of this process. Only the first one polls for a slot, so a
    /// hundred waiters cost no more than one.
    pub(super) async fn wait_in_queue(
        &self,
        plan: PlanId,
        queue_guard: &mut Option<OwnedMutexGuard<()>>,
    ) -> Result<SlotWait> {
        // Pinned outside the loop: a new future in each round would lose its place in the queue.
        let mut first = pin!(self.services.slot_queue.lock());
        loop {
            // The timeout exists only to notice that the plan was finished or this process must
            // exit.
            if let Ok(guard) = timeout(POLL_INTERVAL, &mut first).await {
                *queue_guard = Some(guard);
                return Ok(SlotWait::Retry);
            }
            if self.is_finished(plan).await? {
                return Ok(SlotWait::Finished);
            }
        }
    }

    /// Waits until one of the running plans is gone. It only reads: a claim that cannot win would
    /// be a commit, which would wake all waiters and make them claim again.
    pub(super) async fn wait_for_free_slot(
        &self,
        plan: PlanId,
        mut hints: watch::Receiver<u64>,
        running: &[Holder],
    ) -> Result<SlotWait> {
        while self.services.runs.are_all_running(running).await? {
            // Ignored: a commit, a timeout and a closed channel all lead to the same check.
            let _ = timeout(POLL_INTERVAL, hints.changed()).await;
            if self.is_finished(plan).await? {
                return Ok(SlotWait::Finished);
            }
        }
        Ok(SlotWait::Retry)
    }

    /// Whether the plan is finished. Fails if this process should exit.
    async fn is_finished(&self, plan: PlanId) -> Result<bool> {
        if *self.services.interrupt.borrow() {
            return Err(ExecutionError::Stopped(StopReason::Interrupted));
        }
        Ok(self
            .services
            .lifecycle
            .plan(plan)
            .await?
            .position
            .is_terminal())
    }

    /// Records that the plan waits for a slot, unless it already waits, has moved on or has a run.
    pub(super) async fn record_slot_wait(&self, plan: PlanId) -> Result<()> {
        let ids = Arc::clone(&self.services.ids);
        let actor = self.services.runs.owner().to_string();
        // A read first: most waiting plans are recorded already, and a write would wake all other
        // waiters.
        let known = self.services.lifecycle.plan(plan).await?;
        if !is_queued(&known) {
            return Ok(());
        }
        self.services
            .store
            .write(self.services.operation("plan.wait-for-slot"), move |tx| {
                // Lock order: run, then plan.
                let run = tx.run_for_update(plan)?;
                let held = tx.plan_for_update(plan)?;
                // If there is a run now, its owner decides about the plan's state.
                if run.is_none() && is_queued(&held) {
                    let request = PlanMoveRequest {
                        plan,
                        requested: Move::Wait(WaitReason::Slot),
                        actor: actor.clone(),
                        reason: None,
                    };
                    move_plan(tx, &*ids, &request, RepeatPolicy::Refuse)?;
                }
                Ok::<_, ExecutionError>(())
            })
            .await
    }
}

impl PlanRun {
    /// Ends the slot wait of the plan that this run owns.
    pub(super) async fn end_slot_wait(&mut self) -> Result<()> {
        if self.plan.position.waiting() != Some(WaitReason::Slot) {
            return Ok(());
        }
        let ids = Arc::clone(&self.services.ids);
        let request = PlanMoveRequest {
            plan: self.id(),
            requested: Move::Resume,
            actor: self.owner_name(),
            reason: None,
        };
        // A move of the owner, so it is fenced by the lease, unlike the recording of the wait (law
        // 5).
        let operation = self.operation("plan.take-slot");
        let moved = self.lease.write(operation, move |tx| {
            let moved = move_plan(tx, &*ids, &request, RepeatPolicy::Refuse)?;
            Ok::<_, ExecutionError>(moved.plan().clone())
        });
        self.plan = moved.await?;
        Ok(())
    }
}

/// Whether the plan is queued and waits for nothing.
fn is_queued(plan: &cleveragents_domain::Plan) -> bool {
    plan.position.state() == PlanState::Queued && plan.position.waiting().is_none()
}
