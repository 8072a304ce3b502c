//! Aborts an apply that stopped after its decision: everything it wrote is reversed, and the plan's
//! point of no return is ahead again.
//!
//! A target undoes a part that it has started. A finished part, such as a commit, is reversed by a
//! change of its own, as `unapply` does. If another change conflicts, the plan stays stopped, and
//! the user can still resume the apply or abort it later.

use std::sync::Arc;

use cleveragents_domain::apply_record::{ApplyDirection, ApplyPartState, ApplyRecord, ApplyState};
use cleveragents_domain::event::payloads::ApplyAborted;
use cleveragents_domain::id::ApplyId;
use cleveragents_domain::{Move, Phase, Plan, PlanState, PointOfNoReturn, StreamId};
use tokio::task::spawn_blocking;

use super::attempt::{end_part, update};
use super::error::{ApplyFailure, Result};
use super::{ApplyService, PlanApplyRequest, ReversalRun, Unapplied};
use crate::execution::{LocalOperation, PlanRun, own_plan, require_local_sandboxes};
use crate::journal::new_event;
use crate::lifecycle::{PlanMoveRequest, RepeatPolicy, move_plan};
use cleveragents_ports::StoreError;
use cleveragents_ports::targets::{Conflict, MissingTargetPolicy, TargetAbortOutcome};

#[derive(Debug, Clone, PartialEq)]
pub enum AbortOutcome {
    /// Nothing of the apply is left; the plan is at `apply/constrained`.
    Aborted(Plan),
    /// The plan has no stopped apply.
    NothingToAbort(Plan),
    /// Not everything could be reversed, because a target has changed. The plan is unchanged.
    Blocked {
        plan: Plan,
        conflicts: Vec<Conflict>,
    },
}

/// Whether an apply of the plan passed its decision and did not finish.
fn has_stopped(plan: &Plan) -> bool {
    let at = plan.position;
    at.phase() == Phase::Apply
        && at.point_of_no_return() == PointOfNoReturn::Passed
        && matches!(
            at.state(),
            PlanState::Queued | PlanState::Processing | PlanState::Errored
        )
}

impl ApplyService {
    /// Aborts the plan's apply if it has stopped. Fails if a live process works on it.
    pub async fn abort(&self, request: &PlanApplyRequest) -> Result<AbortOutcome> {
        let plan = self.services.lifecycle.plan(request.plan).await?;
        if !has_stopped(&plan) {
            return Ok(AbortOutcome::NothingToAbort(plan));
        }
        let (id, node) = (request.plan, self.services.node.clone());
        let here = move |tx: &mut dyn cleveragents_ports::Transaction| {
            require_local_sandboxes(tx, id, &node, LocalOperation::Cancel)
        };
        // Before the claim: the wrong machine must not own the plan, not even for a moment.
        self.services.store.read(here).await?;
        let lease = self.claim(request.plan).await?;
        let aborted = own_plan(&self.services, lease, async |run: &mut PlanRun| {
            self.reversal(run).abort_owned(request).await
        });
        Ok(aborted.await?.outcome)
    }

    /// Returns the plan's apply that was decided and did not finish.
    pub(super) async fn stopped_apply(
        &self,
        plan: cleveragents_domain::id::PlanId,
    ) -> Result<Option<ApplyRecord>> {
        let read = move |tx: &mut dyn cleveragents_ports::Transaction| tx.applies_of(plan);
        let applies = self.services.store.read(read).await?;
        let is_open = |it: &ApplyRecord| {
            it.direction == ApplyDirection::Apply
                && matches!(it.state, ApplyState::Decided | ApplyState::Stopped)
        };
        Ok(applies.into_iter().rfind(is_open))
    }

    /// Returns a new id for a reversed part: if it is applied again, it counts as a new part.
    pub(super) fn fresh_part_id(&self) -> ApplyId {
        ApplyId::new(self.services.ids.next())
    }
}

impl ReversalRun<'_> {
    async fn abort_owned(&mut self, request: &PlanApplyRequest) -> Result<AbortOutcome> {
        let plan = self.run.plan.clone();
        if !has_stopped(&plan) {
            return Ok(AbortOutcome::NothingToAbort(plan));
        }
        let blocked = |plan, conflicts| AbortOutcome::Blocked { plan, conflicts };
        let conflicts = self.finish_reversal().await?;
        if !conflicts.is_empty() {
            return Ok(blocked(plan, conflicts));
        }
        let Some(record) = self.service.stopped_apply(request.plan).await? else {
            let error = format!("no apply of plan {} is on record", plan.name);
            return Err(StoreError::internal(error).into());
        };
        // The user asked for the abort, so a missing target is given up.
        let (record, conflicts) = self
            .abort_parts(record, MissingTargetPolicy::Abandon)
            .await?;
        if !conflicts.is_empty() {
            return Ok(blocked(plan, conflicts));
        }
        let is_done = |part: &cleveragents_domain::apply_record::ApplyPart| {
            part.state == ApplyPartState::Done
        };
        let record = self.stop_decided(record).await?;
        let record = if record.resources.iter().any(is_done) {
            match self.begin_unapply(request, record).await? {
                Unapplied::Done { .. } | Unapplied::Unchanged { .. } => {}
                Unapplied::Blocked { conflicts, .. } | Unapplied::Stopped { conflicts, .. } => {
                    return Ok(blocked(self.run.plan.clone(), conflicts));
                }
            }
            self.service.stopped_apply(request.plan).await?
        } else {
            Some(record)
        };
        let Some(record) = record else {
            return Err(StoreError::internal("the aborted apply is gone").into());
        };
        self.confirm_abort(record).await?;
        Ok(AbortOutcome::Aborted(self.run.plan.clone()))
    }

    /// Aborts a stopped apply that has written nothing. Leaves the plan as it is if that is not
    /// possible.
    pub(super) async fn abort_unwritten(&mut self, record: ApplyRecord) -> Result<ApplyRecord> {
        // The user did not ask for an abort: a missing target may come back, so it is not given up.
        let (record, conflicts) = self.abort_parts(record, MissingTargetPolicy::Stop).await?;
        if conflicts.is_empty() && !record.has_written() {
            self.confirm_abort(record.clone()).await?;
        }
        Ok(record)
    }

    /// Marks an interrupted, decided apply as stopped. Needed because its finished parts are
    /// reversed by another apply, and a plan may have only one unfinished apply.
    async fn stop_decided(&mut self, record: ApplyRecord) -> Result<ApplyRecord> {
        if record.state != ApplyState::Decided {
            return Ok(record);
        }
        let record = ApplyRecord {
            state: ApplyState::Stopped,
            ..record
        };
        let request = PlanMoveRequest {
            reason: Some("the apply is aborted".to_owned()),
            ..self
                .service
                .log(self.run)
                .owner_request(&record, Move::Fail)
        };
        let ids = Arc::clone(&self.service.services.ids);
        let operation = self.service.services.operation("apply.stop-decided");
        let stopped = self.run.lease.write(operation, move |tx| {
            let plan = tx.plan_for_update(record.plan_id)?;
            let record = update(tx, &record)?;
            if plan.position.state() != PlanState::Processing {
                return Ok((plan, record));
            }
            let moved = move_plan(tx, &*ids, &request, RepeatPolicy::Refuse)?;
            Ok::<_, ApplyFailure>((moved.plan().clone(), record))
        });
        let (plan, record) = stopped.await?;
        self.run.plan = plan;
        Ok(record)
    }

    /// Finishes a reversal that an abort started. Returns its conflicts.
    pub(super) async fn finish_reversal(&mut self) -> Result<Vec<Conflict>> {
        let id = self.run.plan.identity.plan_id;
        let newest = self.service.newest_apply(id).await?;
        let reversal = newest.filter(|it| it.direction == ApplyDirection::Unapply);
        let Some(reversal) = reversal else {
            return Ok(Vec::new());
        };
        match reversal.state {
            ApplyState::Preparing => {
                let reason = "its process did not decide";
                self.service
                    .log(self.run)
                    .abort_prepared(reversal, reason)
                    .await?;
                Ok(Vec::new())
            }
            ApplyState::Decided | ApplyState::Stopped => {
                match self.finish_unapply(reversal, None).await? {
                    Unapplied::Stopped { conflicts, .. } => Ok(conflicts),
                    _ => Ok(Vec::new()),
                }
            }
            ApplyState::Done | ApplyState::Aborted => Ok(Vec::new()),
        }
    }

    /// Lets each target undo what it has started. Each outcome is recorded before the next starts.
    pub(super) async fn abort_parts(
        &mut self,
        record: ApplyRecord,
        if_gone: MissingTargetPolicy,
    ) -> Result<(ApplyRecord, Vec<Conflict>)> {
        let mut record = record;
        let mut conflicts = Vec::new();
        for index in 0..record.resources.len() {
            let part = &record.resources[index];
            let Some(intent) = part.intent.clone() else {
                continue;
            };
            if !matches!(part.state, ApplyPartState::Ready | ApplyPartState::Stopped) {
                continue;
            }
            let targets = Arc::clone(&self.service.targets);
            let aborted = spawn_blocking(move || targets.abort(&intent, if_gone)).await??;
            let part = &mut record.resources[index];
            part.obstacles.clear();
            match aborted {
                TargetAbortOutcome::RolledBack => {
                    part.state = ApplyPartState::Aborted;
                    part.written.clear();
                }
                TargetAbortOutcome::Done(applied) => {
                    end_part(part, applied);
                    part.written.clear();
                }
                TargetAbortOutcome::Stopped(found) => {
                    part.state = ApplyPartState::Stopped;
                    part.obstacles.clone_from(&found);
                    conflicts.extend(found);
                }
            }
            record = self.service.log(self.run).save(record).await?;
        }
        Ok((record, conflicts))
    }

    /// Records in one commit that nothing of the apply is left and that the point of no return is
    /// ahead again.
    async fn confirm_abort(&mut self, record: ApplyRecord) -> Result<()> {
        let mut record = ApplyRecord {
            state: ApplyState::Aborted,
            ..record
        };
        for part in &mut record.resources {
            part.state = ApplyPartState::Aborted;
        }
        let request = PlanMoveRequest {
            reason: Some("the apply was aborted and undone".to_owned()),
            ..self
                .service
                .log(self.run)
                .owner_request(&record, Move::Abort)
        };
        let fail = PlanMoveRequest {
            requested: Move::Fail,
            ..request.clone()
        };
        let processing = self.run.plan.position.state() == PlanState::Processing;
        let ids = Arc::clone(&self.service.services.ids);
        let operation = self.service.services.operation("apply.abort");
        let aborted = self.run.lease.write(operation, move |tx| {
            tx.plan_for_update(record.plan_id)?;
            let record = update(tx, &record)?;
            if processing {
                move_plan(tx, &*ids, &fail, RepeatPolicy::Refuse)?;
            }
            let moved = move_plan(tx, &*ids, &request, RepeatPolicy::Refuse)?;
            let payload = ApplyAborted {
                apply_id: record.id,
                reason: "aborted".to_owned(),
                uncollected: Vec::new(),
            };
            let event = new_event(&request.actor, &payload)?;
            tx.append(StreamId::Plan(record.plan_id), &[event])?;
            Ok::<_, ApplyFailure>(moved.plan().clone())
        });
        self.run.plan = aborted.await?;
        Ok(())
    }
}
