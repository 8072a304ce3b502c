//! Reverses an apply, as a change of its own with the same guarantees.

use std::sync::Arc;

use cleveragents_domain::apply_record::{
    ApplyDirection, ApplyPart, ApplyPartState, ApplyRecord, ApplyState,
};
use cleveragents_domain::event::payloads::{
    ApplyAborted, ApplyDecided, ApplyStopped, PlanUnapplied,
};
use cleveragents_domain::id::ApplyId;
use cleveragents_domain::sandbox::SandboxState;
use cleveragents_domain::{Move, Plan, PlanState, StreamId};
use tokio::task::spawn_blocking;

use super::attempt::{join_conflicts, required_intent, update};
use super::error::{ApplyFailure, Result};
use super::lock::{BoxedTargetLocks, PrepareAllOutcome};
use super::{ApplyService, PlanApplyRequest, ReversalRun};
use crate::execution::{
    ExecutionError, LocalOperation, PlanRun, WrongNode, change_sandbox_state, own_plan,
};
use crate::journal::new_event;
use crate::lifecycle::{RepeatPolicy, move_plan};
use cleveragents_ports::targets::{ApplyRequest, Conflict};

#[derive(Debug, Clone, PartialEq)]
pub enum Unapplied {
    Done {
        plan: Plan,
        apply: ApplyRecord,
    },
    /// It was reversed before.
    Unchanged {
        plan: Plan,
        apply: ApplyRecord,
    },
    /// There are conflicts; nothing was changed.
    Blocked {
        plan: Plan,
        conflicts: Vec<Conflict>,
    },
    /// A target changed after the decision.
    Stopped {
        plan: Plan,
        apply: ApplyRecord,
        conflicts: Vec<Conflict>,
    },
}

impl ApplyService {
    /// Reverses the plan's changes in their targets. The plan is then at `apply/unapplied`, from
    /// where it can be applied, reverted or corrected again.
    pub async fn unapply(&self, request: &PlanApplyRequest) -> Result<Unapplied> {
        let lease = self.claim(request.plan).await?;
        let unapplied = own_plan(&self.services, lease, async |run: &mut PlanRun| {
            self.reversal(run).unapply_owned(request).await
        });
        Ok(unapplied.await?.outcome)
    }
}

impl ReversalRun<'_> {
    async fn unapply_owned(&mut self, request: &PlanApplyRequest) -> Result<Unapplied> {
        let plan = self.run.plan.clone();
        let id = plan.identity.plan_id;
        let applies = self
            .service
            .services
            .store
            .read(move |tx| tx.applies_of(id))
            .await?;
        // A reversal that ended while the plan is applied only aborted an apply that was finished
        // later, or undid an earlier one.
        let is_applied = plan.position.state() == PlanState::Applied;
        let is_old = |it: &ApplyRecord| {
            it.state == ApplyState::Aborted
                || is_applied
                    && (it.direction, it.state) == (ApplyDirection::Unapply, ApplyState::Done)
        };
        let last = applies.into_iter().rfind(|it| !is_old(it));
        let never = || ApplyFailure::NeverApplied {
            plan: Box::new(plan.clone()),
        };
        let last = last.ok_or_else(never)?;
        if !matches!(
            plan.position.state(),
            PlanState::Applied | PlanState::Unapplied
        ) {
            return Err(never());
        }
        self.check_node(&last).await?;
        match (last.direction, last.state) {
            (ApplyDirection::Unapply, ApplyState::Done) => {
                Ok(Unapplied::Unchanged { plan, apply: last })
            }
            (ApplyDirection::Unapply, ApplyState::Preparing) => {
                let reason = "its process did not decide";
                self.service
                    .log(self.run)
                    .abort_prepared(last, reason)
                    .await?;
                Box::pin(self.unapply_owned(request)).await
            }
            (ApplyDirection::Unapply, _) => self.finish_unapply(last, None).await,
            (ApplyDirection::Apply, ApplyState::Done) => self.begin_unapply(request, last).await,
            (ApplyDirection::Apply, _) => Err(never()),
        }
    }

    /// Fails if the plan was applied on another machine: the data to reverse it is stored there.
    async fn check_node(&self, apply: &ApplyRecord) -> Result<()> {
        let Some(part) = apply.resources.first() else {
            return Ok(());
        };
        if apply.node == self.service.services.node {
            return Ok(());
        }
        let sandbox = part.sandbox_id;
        let sandbox = self
            .service
            .services
            .store
            .read(move |tx| tx.sandbox(sandbox));
        Err(ExecutionError::from(WrongNode {
            plan: apply.plan_id,
            resource: sandbox.await?.resource_name,
            node: apply.node.clone(),
            operation: LocalOperation::Unapply,
        })
        .into())
    }

    pub(super) async fn begin_unapply(
        &mut self,
        request: &PlanApplyRequest,
        applied: ApplyRecord,
    ) -> Result<Unapplied> {
        let plan = self.run.plan.clone();
        let mut parts = Vec::new();
        let mut requests = Vec::new();
        for part in applied.resources {
            if part.state != ApplyPartState::Done {
                continue;
            }
            let intent = required_intent(&part)?;
            let author = match &request.author {
                Some(author) => Some(author.clone()),
                None => {
                    let (targets, path) =
                        (Arc::clone(&self.service.targets), intent.resource.clone());
                    spawn_blocking(move || targets.author(&path)).await??
                }
            };
            let subject = format!("Revert \"{}\"", plan.brief.description);
            let commit = self.service.commit_text(&plan, author, &subject);
            let id = ApplyId::new(self.service.services.ids.next());
            requests.push(ApplyRequest::reverse(id, &intent, commit));
            parts.push(ApplyPart {
                id,
                state: ApplyPartState::Intended,
                intent: None,
                result: None,
                obstacles: Vec::new(),
                written: Vec::new(),
                ..part
            });
        }
        let destination = applied.destination;
        let record = self
            .service
            .new_record(&plan, ApplyDirection::Unapply, destination, parts);
        let recorded = self.service.log(self.run).record_intent(record).await?;
        recorded.add_trailer(&mut requests);
        let mut forward = self.service.forward(self.run);
        let (record, locks) = match forward.prepare_and_lock(recorded.record, &requests).await? {
            PrepareAllOutcome::Locked(record, locks) => (record, locks),
            PrepareAllOutcome::Blocked(record, conflicts) => {
                let reason = join_conflicts(&conflicts);
                self.service
                    .log(self.run)
                    .abort_prepared(record, &reason)
                    .await?;
                return Ok(Unapplied::Blocked { plan, conflicts });
            }
        };
        let decided = ApplyDecided {
            apply_id: record.id,
            resources: record.resources.len() as u64,
        };
        let record = self
            .service
            .log(self.run)
            .record_state(record, ApplyState::Decided, decided)
            .await?;
        self.finish_unapply(record, Some(locks)).await
    }

    /// Commits a decided reversal.
    pub(super) async fn finish_unapply(
        &mut self,
        record: ApplyRecord,
        locks: Option<BoxedTargetLocks>,
    ) -> Result<Unapplied> {
        let (record, conflicts) = self
            .service
            .forward(self.run)
            .commit_with_retry(record, locks)
            .await?;
        if !conflicts.is_empty() {
            let stopped = ApplyStopped {
                apply_id: record.id,
                conflicts: conflicts.clone(),
            };
            let apply = self
                .service
                .log(self.run)
                .record_state(record, ApplyState::Stopped, stopped)
                .await?;
            return Ok(Unapplied::Stopped {
                plan: self.run.plan.clone(),
                apply,
                conflicts,
            });
        }
        let apply = if self.run.plan.position.state() == PlanState::Applied {
            self.confirm_unapplied(record).await?
        } else {
            self.confirm_reversal(record).await?
        };
        let plan = self.run.plan.clone();
        Ok(Unapplied::Done { plan, apply })
    }

    /// Records in one commit that the changes are reversed, the plan is unapplied, and its
    /// sandboxes hold a result that is not applied.
    async fn confirm_unapplied(&mut self, record: ApplyRecord) -> Result<ApplyRecord> {
        let record = ApplyRecord {
            state: ApplyState::Done,
            ..record
        };
        let request = self
            .service
            .log(self.run)
            .owner_request(&record, Move::Unapply);
        let ids = Arc::clone(&self.service.services.ids);
        let operation = self.service.services.operation("apply.unapply");
        let unapplied = self.run.lease.write(operation, move |tx| {
            tx.plan_for_update(record.plan_id)?;
            let record = update(tx, &record)?;
            let mut events = Vec::new();
            for sandbox in tx.sandboxes_of(record.plan_id)? {
                if sandbox.state == SandboxState::Applied {
                    let captured = SandboxState::Captured;
                    let changed = change_sandbox_state(tx, sandbox, captured, &request.actor);
                    events.push(changed?);
                }
            }
            let moved = move_plan(tx, &*ids, &request, RepeatPolicy::Refuse)?;
            let payload = PlanUnapplied {
                apply_id: record.id,
            };
            events.push(new_event(&request.actor, &payload)?);
            tx.append(StreamId::Plan(record.plan_id), &events)?;
            Ok::<_, ApplyFailure>((moved.plan().clone(), record))
        });
        let (plan, record) = unapplied.await?;
        self.run.plan = plan;
        Ok(record)
    }

    /// Records in one commit that the finished parts of an aborted apply are reversed. The parts
    /// get new ids, because the targets keep data under the old ones.
    async fn confirm_reversal(&self, record: ApplyRecord) -> Result<ApplyRecord> {
        let record = ApplyRecord {
            state: ApplyState::Done,
            ..record
        };
        let mut aborted = self.service.stopped_apply(record.plan_id).await?;
        for part in aborted.iter_mut().flat_map(|it| &mut it.resources) {
            let is_same = |it: &&ApplyPart| it.sandbox_id == part.sandbox_id;
            if part.state == ApplyPartState::Done && record.resources.iter().any(|it| is_same(&it))
            {
                part.state = ApplyPartState::Aborted;
                part.id = self.service.fresh_part_id();
                part.result = None;
            }
        }
        let actor = self.run.lease.lease().owner.to_string();
        self.run
            .lease
            .write(
                self.service.services.operation("apply.reverse"),
                move |tx| {
                    tx.plan_for_update(record.plan_id)?;
                    let record = update(tx, &record)?;
                    if let Some(aborted) = &aborted {
                        update(tx, aborted)?;
                    }
                    let payload = ApplyAborted {
                        apply_id: record.id,
                        reason: "reversed to abort".to_owned(),
                        uncollected: Vec::new(),
                    };
                    let event = new_event(&actor, &payload)?;
                    tx.append(StreamId::Plan(record.plan_id), &[event])?;
                    Ok::<_, ApplyFailure>(record)
                },
            )
            .await
    }
}
