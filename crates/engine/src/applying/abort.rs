//! Giving up an apply that stopped after its decision: all it wrote is taken back, and the plan
//! decides anew.
//!
//! What a target had begun is taken back by the target itself. What was done there, such as a
//! commit, is reversed by a change of its own, exactly as `unapply` does it. If somebody's change
//! is in the way, the plan stays stopped and both ways stay open: go on with the apply, or abort it
//! when the way is clear.

use std::sync::Arc;

use cleveragents_domain::application::{ApplyRecord, ApplyState, Direction, PartState};
use cleveragents_domain::id::ApplyId;
use cleveragents_domain::{EventKind, Move, Phase, Plan, PointOfNoReturn, State, StreamId};
use serde_json::json;
use tokio::task::spawn_blocking;

use super::attempt::{read, update, value};
use super::error::{ApplyFailure, Result};
use super::{ApplyAsk, ApplyService, Unapplied};
use crate::execution::all_here;
use crate::journal::event;
use crate::lifecycle::{Repeats, Request, move_plan};
use crate::ports::StoreError;
use crate::ports::targets::{Aborted, ApplyIntent, Conflict, IfGone};
use crate::runs::RunLease;

/// What came of aborting.
#[derive(Debug, Clone, PartialEq)]
pub enum AbortOutcome {
    /// Nothing of the apply stands; the plan is at `apply/constrained`.
    Aborted(Plan),
    /// No apply of the plan has stopped; this is how it stands.
    Nothing(Plan),
    /// Not all could be taken back: somebody changed it. The plan stays as it was.
    Blocked {
        plan: Plan,
        conflicts: Vec<Conflict>,
    },
}

/// Whether an apply of the plan passed its decision and did not come to an end.
fn has_stopped(plan: &Plan) -> bool {
    let at = plan.position;
    at.phase() == Phase::Apply
        && at.point_of_no_return() == PointOfNoReturn::Passed
        && matches!(
            at.state(),
            State::Queued | State::Processing | State::Errored
        )
}

impl ApplyService {
    /// Aborts the plan's apply if it has stopped. Fails if a live process works on it.
    pub async fn abort(&self, ask: &ApplyAsk) -> Result<AbortOutcome> {
        let plan = self.executor.lifecycle.plan(ask.plan).await?;
        if !has_stopped(&plan) {
            return Ok(AbortOutcome::Nothing(plan));
        }
        let (id, node) = (ask.plan, self.executor.node.clone());
        let here =
            move |unit: &mut dyn crate::ports::Unit| all_here(unit, id, &node, "plan cancel");
        self.executor.store.read(here).await?;
        let run = self.claim(&plan).await?;
        let alive = run.keep_alive();
        let worked = self.abort_owned(&run, ask).await;
        drop(alive);
        if !worked.as_ref().is_err_and(ApplyFailure::is_lease_lost) {
            self.executor.lifecycle.give_back(run).await?;
        }
        worked
    }

    async fn abort_owned(&self, run: &RunLease, ask: &ApplyAsk) -> Result<AbortOutcome> {
        let plan = self.executor.lifecycle.plan(ask.plan).await?;
        if !has_stopped(&plan) {
            return Ok(AbortOutcome::Nothing(plan));
        }
        let blocked = |plan, conflicts| AbortOutcome::Blocked { plan, conflicts };
        let conflicts = self.finish_reversal(run, &plan).await?;
        if !conflicts.is_empty() {
            return Ok(blocked(plan, conflicts));
        }
        let Some(record) = self.stopped_apply(ask.plan).await? else {
            let error = format!("no apply of plan {} is on record", plan.name);
            return Err(StoreError::internal(error).into());
        };
        let (record, conflicts) = self.abort_parts(run, record, IfGone::GiveUp).await?;
        if !conflicts.is_empty() {
            return Ok(blocked(plan, conflicts));
        }
        let is_done =
            |part: &cleveragents_domain::application::ApplyPart| part.state == PartState::Done;
        let (plan, record) = self.stop_decided(run, plan, record).await?;
        let record = if record.resources.iter().any(is_done) {
            match self.begin_back(run, &plan, ask, record).await? {
                Unapplied::Done { .. } | Unapplied::Stands { .. } => {}
                Unapplied::Blocked { conflicts, .. } | Unapplied::Stopped { conflicts, .. } => {
                    return Ok(blocked(plan, conflicts));
                }
            }
            self.stopped_apply(ask.plan).await?
        } else {
            Some(record)
        };
        let Some(record) = record else {
            return Err(StoreError::internal("the aborted apply is gone").into());
        };
        let plan = self.confirm_abort(run, plan, record).await?;
        Ok(AbortOutcome::Aborted(plan))
    }

    /// Aborts an apply of which nothing was written, as part of the attempt itself. The plan stays
    /// as it was where that is not possible.
    pub(super) async fn abort_unwritten(
        &self,
        run: &RunLease,
        plan: Plan,
        record: ApplyRecord,
    ) -> Result<(Plan, ApplyRecord)> {
        let (record, conflicts) = self.abort_parts(run, record, IfGone::Stop).await?;
        if !conflicts.is_empty() || record.has_written() {
            return Ok((plan, record));
        }
        let plan = self.confirm_abort(run, plan, record.clone()).await?;
        Ok((plan, record))
    }

    /// Ends an apply that is decided and was interrupted: what was done of it is reversed by an
    /// apply of its own, and a plan has only one that goes on.
    async fn stop_decided(
        &self,
        run: &RunLease,
        plan: Plan,
        record: ApplyRecord,
    ) -> Result<(Plan, ApplyRecord)> {
        if record.state != ApplyState::Decided {
            return Ok((plan, record));
        }
        let record = ApplyRecord {
            state: ApplyState::Stopped,
            ..record
        };
        let request = Request {
            reason: Some("the apply is aborted".to_owned()),
            ..self.owner_request(run, &record, Move::Fail)
        };
        let ids = Arc::clone(&self.executor.ids);
        run.write(self.executor.operation("apply.stop-decided"), move |unit| {
            let plan = unit.plan_for_update(record.plan_id)?;
            let record = update(unit, &record)?;
            if plan.position.state() != State::Processing {
                return Ok((plan, record));
            }
            let moved = move_plan(unit, &*ids, &request, Repeats::AreRefused)?;
            Ok::<_, ApplyFailure>((moved.plan().clone(), record))
        })
        .await
    }

    /// The plan's apply that was decided and did not come to an end.
    pub(super) async fn stopped_apply(
        &self,
        plan: cleveragents_domain::id::PlanId,
    ) -> Result<Option<ApplyRecord>> {
        let read = move |unit: &mut dyn crate::ports::Unit| unit.applies_of(plan);
        let applies = self.executor.store.read(read).await?;
        let is_open = |it: &ApplyRecord| {
            it.direction == Direction::Apply
                && matches!(it.state, ApplyState::Decided | ApplyState::Stopped)
        };
        Ok(applies.into_iter().rfind(is_open))
    }

    /// Goes on with a reversal that an abort had begun; what is in its way.
    pub(super) async fn finish_reversal(
        &self,
        run: &RunLease,
        plan: &Plan,
    ) -> Result<Vec<Conflict>> {
        let newest = self.newest(plan.identity.plan_id).await?;
        let reversal = newest.filter(|it| it.direction == Direction::Unapply);
        let Some(reversal) = reversal else {
            return Ok(Vec::new());
        };
        match reversal.state {
            ApplyState::Preparing => {
                let reason = "its owner did not come to a decision";
                self.take_back(run, reversal, reason).await?;
                Ok(Vec::new())
            }
            ApplyState::Decided | ApplyState::Stopped => {
                match self.finish_back(run, plan, reversal, None).await? {
                    Unapplied::Stopped { conflicts, .. } => Ok(conflicts),
                    _ => Ok(Vec::new()),
                }
            }
            ApplyState::Done | ApplyState::TakenBack => Ok(Vec::new()),
        }
    }

    /// Lets each target take back what it had begun; each answer is on record before the next.
    pub(super) async fn abort_parts(
        &self,
        run: &RunLease,
        record: ApplyRecord,
        if_gone: IfGone,
    ) -> Result<(ApplyRecord, Vec<Conflict>)> {
        let mut record = record;
        let mut conflicts = Vec::new();
        for place in 0..record.resources.len() {
            let part = &record.resources[place];
            let Some(intent) = part.intent.clone() else {
                continue;
            };
            if !matches!(part.state, PartState::Ready | PartState::Stopped) {
                continue;
            }
            let intent: ApplyIntent = read(Some(intent))?;
            let targets = Arc::clone(&self.targets);
            let aborted = spawn_blocking(move || targets.abort(&intent, if_gone)).await??;
            let part = &mut record.resources[place];
            part.obstacles.clear();
            match aborted {
                Aborted::TakenBack => {
                    part.state = PartState::TakenBack;
                    part.written.clear();
                }
                Aborted::Done(applied) => {
                    part.state = PartState::Done;
                    part.written.clear();
                    part.result = Some(value(&applied)?);
                }
                Aborted::Stopped(found) => {
                    part.state = PartState::Stopped;
                    for conflict in &found {
                        part.obstacles.push(value(conflict)?);
                    }
                    conflicts.extend(found);
                }
            }
            record = self.save(run, record).await?;
        }
        Ok((record, conflicts))
    }

    /// One commit: nothing of the apply stands, and the point of no return is ahead again.
    async fn confirm_abort(&self, run: &RunLease, plan: Plan, record: ApplyRecord) -> Result<Plan> {
        let mut record = ApplyRecord {
            state: ApplyState::TakenBack,
            ..record
        };
        for part in &mut record.resources {
            part.state = PartState::TakenBack;
        }
        let request = Request {
            reason: Some("the apply was aborted: nothing of it stands".to_owned()),
            ..self.owner_request(run, &record, Move::Abort)
        };
        let fail = Request {
            asked: Move::Fail,
            ..request.clone()
        };
        let processing = plan.position.state() == State::Processing;
        let ids = Arc::clone(&self.executor.ids);
        run.write(self.executor.operation("apply.abort"), move |unit| {
            unit.plan_for_update(record.plan_id)?;
            let record = update(unit, &record)?;
            if processing {
                move_plan(unit, &*ids, &fail, Repeats::AreRefused)?;
            }
            let moved = move_plan(unit, &*ids, &request, Repeats::AreRefused)?;
            let told = json!({ "apply_id": record.id, "reason": "aborted" });
            let told = event(EventKind::ApplyTakenBack, &request.actor, &told)?;
            unit.append(StreamId::Plan(record.plan_id), &[told])?;
            Ok::<_, ApplyFailure>(moved.plan().clone())
        })
        .await
    }

    /// A part that was reversed is applied again, if at all, as an apply of its own.
    pub(super) fn fresh_part_id(&self) -> ApplyId {
        ApplyId::new(self.executor.ids.next())
    }
}
