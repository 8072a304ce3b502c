//! Applies a plan's changes to their targets exactly once, and reverses them.
//!
//! An attempt is recorded before anything is done. All targets are prepared, without touching the
//! user's files. Then one store commit decides: before it, recovery only undoes; after it, recovery
//! only goes forward. Any process can finish an attempt that another left, and later commands do.

mod abort;
mod attempt;
mod error;
mod gc;
mod lock;
mod merge_validation;
mod rebase;
mod recover;
mod resume;
mod settle;
mod target_checks;
mod unapply;
mod unfinished;

use std::sync::Arc;

use cleveragents_domain::apply_record::ApplyRecord;
use cleveragents_domain::event::payloads::ApplyRequested;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{ErrorCategory, Move, Phase, Plan, PlanState, PointOfNoReturn, StreamId};
use serde::{Deserialize, Serialize};

use crate::execution::{
    EngineServices, PlanActors, newest_summary, require_local_sandboxes, start_phase,
};
use crate::journal::new_event;
use crate::lifecycle::{
    LifecycleError, PlanMoveRequest, RepeatPolicy, hold_unowned, move_plan, move_unowned_plan,
};
use crate::recovery::{NewErrorRecord, record_error};
use crate::runs::{ClaimOutcome, RunLease};
use cleveragents_ports::targets::{ApplyTargets, Author, Conflict, Destination};
use cleveragents_ports::{Slots, StoreError, Transaction};

pub use abort::AbortOutcome;
pub use error::{ApplyFailure, Result};
pub use gc::{SweptApply, UNAPPLY_WINDOW};
use merge_validation::UnvalidatedMergePolicy;
pub use rebase::RebaseOutcome;
pub use recover::{RecoveredApply, RecoveryReport};
pub use unapply::Unapplied;
pub use unfinished::{ApplyWorker, UnfinishedApply, unfinished_applies};

/// Applies plans as this process's owner id.
#[derive(Debug, Clone)]
pub struct ApplyService {
    services: Arc<EngineServices>,
    targets: Arc<dyn ApplyTargets>,
    unvalidated_merges: UnvalidatedMergePolicy,
}

/// The forward direction of an owned plan: prepare, decide, commit.
#[derive(Debug, Clone, Copy)]
struct ApplyRun<'a> {
    service: &'a ApplyService,
    run: &'a RunLease,
}

/// The backward direction of an owned plan: abort and unapply.
#[derive(Debug, Clone, Copy)]
struct ReversalRun<'a> {
    service: &'a ApplyService,
    run: &'a RunLease,
}

/// Records the attempts of an owned plan.
#[derive(Debug, Clone, Copy)]
struct ApplyLog<'a> {
    service: &'a ApplyService,
    run: &'a RunLease,
}

/// A request to apply, unapply, abort or settle.
#[derive(Debug, Clone)]
pub struct PlanApplyRequest {
    pub plan: PlanId,
    pub destination: Destination,
    /// Author of the commits. Git's configured user if `None`.
    pub author: Option<Author>,
    /// The acting user, for the journal.
    pub actor: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ApplyOutcome {
    Applied {
        plan: Plan,
        apply: ApplyRecord,
    },
    /// The plan was applied or cancelled before.
    Unchanged {
        plan: Plan,
        apply: Option<ApplyRecord>,
    },
    /// There are conflicts; nothing was changed.
    Blocked {
        plan: Plan,
        conflicts: Vec<Conflict>,
    },
    /// Required validations failed; nothing was changed.
    ValidationsFailed {
        plan: Plan,
        reason: String,
    },
    /// A target changed after the decision. The other parts are applied.
    Stopped {
        plan: Plan,
        apply: ApplyRecord,
        conflicts: Vec<Conflict>,
    },
    Cancelled(Plan),
}

impl ApplyOutcome {
    pub fn plan(&self) -> &Plan {
        match self {
            Self::Applied { plan, .. }
            | Self::Unchanged { plan, .. }
            | Self::Blocked { plan, .. }
            | Self::ValidationsFailed { plan, .. }
            | Self::Stopped { plan, .. }
            | Self::Cancelled(plan) => plan,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum ApplyRequestOutcome {
    Work(Box<Plan>),
    Nothing(Box<Plan>, Option<Box<ApplyRecord>>),
}

impl ApplyService {
    pub fn new(services: Arc<EngineServices>, targets: Arc<dyn ApplyTargets>) -> Self {
        Self {
            services,
            targets,
            unvalidated_merges: UnvalidatedMergePolicy::Validate,
        }
    }

    fn forward<'a>(&'a self, run: &'a RunLease) -> ApplyRun<'a> {
        ApplyRun { service: self, run }
    }

    fn reversal<'a>(&'a self, run: &'a RunLease) -> ReversalRun<'a> {
        ReversalRun { service: self, run }
    }

    fn log<'a>(&'a self, run: &'a RunLease) -> ApplyLog<'a> {
        ApplyLog { service: self, run }
    }

    /// Applies the plan's result to its destination. Repeated or concurrent requests apply it once.
    pub async fn apply(&self, request: &PlanApplyRequest) -> Result<ApplyOutcome> {
        let plan = match self.record_request(request).await? {
            ApplyRequestOutcome::Nothing(plan, apply) => {
                return Ok(ApplyOutcome::Unchanged {
                    plan: *plan,
                    apply: apply.map(|it| *it),
                });
            }
            ApplyRequestOutcome::Work(plan) => plan,
        };
        let run = self.claim(&plan).await?;
        let alive = run.keep_alive();
        let result = self.forward(&run).apply_owned(request).await;
        drop(alive);
        // Another process owns the plan now: record and release nothing (law 5).
        if result.as_ref().is_err_and(ApplyFailure::is_lease_lost) {
            return result;
        }
        if let Err(error) = &result {
            self.record_failure(&run, error).await?;
        }
        let cancelled = self.services.lifecycle.release(run).await?;
        match (result, cancelled) {
            (Ok(_), Some(plan)) => Ok(ApplyOutcome::Cancelled(plan)),
            (result, _) => result,
        }
    }

    /// Records the error with the plan. Before the decision the plan fails; after it the plan keeps
    /// its state, so that another process can finish the apply.
    async fn record_failure(&self, run: &RunLease, error: &ApplyFailure) -> Result<()> {
        let plan = run.lease().plan;
        let error_record = NewErrorRecord::new(ErrorCategory::Resource, error.to_string());
        let request = PlanMoveRequest {
            plan,
            requested: Move::Fail,
            actor: run.lease().owner.to_string(),
            reason: Some(error.to_string()),
        };
        let ids = Arc::clone(&self.services.ids);
        run.write(self.services.operation("apply.conclude"), move |tx| {
            let held = tx.plan_for_update(plan)?;
            let at = held.position;
            if (at.phase(), at.state()) != (Phase::Apply, PlanState::Processing) {
                return Ok(());
            }
            record_error(tx, &*ids, plan, &error_record, &request.actor)?;
            if at.point_of_no_return() == PointOfNoReturn::Ahead {
                move_plan(tx, &*ids, &request, RepeatPolicy::Refuse)?;
            }
            Ok::<_, ApplyFailure>(())
        })
        .await
    }

    /// Records the request before anything is done.
    async fn record_request(&self, request: &PlanApplyRequest) -> Result<ApplyRequestOutcome> {
        let services = &self.services;
        let known = services.lifecycle.proven_owner(request.plan).await?;
        let (plan, actor, ids) = (
            request.plan,
            request.actor.clone(),
            Arc::clone(&services.ids),
        );
        let (destination, node) = (request.destination.clone(), services.node.clone());
        services
            .store
            .write(services.operation("plan.apply"), move |tx| {
                let run = hold_unowned(tx, plan, known)?;
                let held = tx.plan_for_update(plan)?;
                if held.position.is_terminal() && held.position.state() != PlanState::Unapplied {
                    let last = tx.applies_of(plan)?.pop();
                    return Ok(ApplyRequestOutcome::Nothing(
                        Box::new(held),
                        last.map(Box::new),
                    ));
                }
                require_local_sandboxes(tx, plan, &node, "plan apply")?;
                let (phase, state) = (held.position.phase(), held.position.state());
                let requested = match (phase, state, held.position.waiting()) {
                    (
                        Phase::Apply,
                        PlanState::Errored | PlanState::Constrained | PlanState::Unapplied,
                        _,
                    ) => Some(Move::Retry),
                    (Phase::Apply, _, Some(_)) => Some(Move::Resume),
                    (Phase::Apply, _, None) => None,
                    _ => Some(Move::Advance(Phase::Apply)),
                };
                let payload = ApplyRequested {
                    phase,
                    state,
                    destination: destination.clone(),
                };
                let event = new_event(&actor, &payload)?;
                tx.append(StreamId::Plan(plan), &[event])?;
                let plan = match requested {
                    None => held,
                    Some(requested) => {
                        let request = PlanMoveRequest {
                            plan,
                            requested,
                            actor: actor.clone(),
                            reason: None,
                        };
                        let moved = move_unowned_plan(tx, &*ids, &request, run.as_ref())?;
                        moved.plan().clone()
                    }
                };
                Ok::<_, ApplyFailure>(ApplyRequestOutcome::Work(Box::new(plan)))
            })
            .await
    }

    async fn claim(&self, plan: &Plan) -> Result<RunLease> {
        let id = plan.identity.plan_id;
        let claimed = self
            .services
            .runs
            .claim(id, Phase::Apply, Slots::Shared)
            .await?;
        match claimed {
            ClaimOutcome::Won(run) => Ok(run),
            ClaimOutcome::Held(holder) => {
                Err(LifecycleError::owned(holder, &self.services.runs).into())
            }
            ClaimOutcome::NoSlot { .. } => Err(StoreError::internal("apply needs no slot").into()),
        }
    }

    /// Returns the plan's newest attempt if it is unfinished, or stopped after its decision.
    async fn unfinished_apply(&self, plan: PlanId) -> Result<Option<ApplyRecord>> {
        let last = self.newest_apply(plan).await?;
        Ok(last.filter(|it| it.state.is_unfinished() || it.state.is_stopped()))
    }

    /// Returns the plan's newest attempt.
    async fn newest_apply(&self, plan: PlanId) -> Result<Option<ApplyRecord>> {
        let read = move |tx: &mut dyn Transaction| Ok::<_, StoreError>(tx.applies_of(plan)?.pop());
        Ok(self.services.store.read(read).await?)
    }
}

impl ApplyRun<'_> {
    async fn apply_owned(&self, request: &PlanApplyRequest) -> Result<ApplyOutcome> {
        let plan = self.service.services.lifecycle.plan(request.plan).await?;
        if plan.position.phase() != Phase::Apply || plan.position.is_terminal() {
            // Another process moved the plan between the request and the claim.
            let apply = self.service.unfinished_apply(request.plan).await?;
            return Ok(ApplyOutcome::Unchanged { plan, apply });
        }
        let plan = self.enter_phase(plan).await?;
        if plan.position.point_of_no_return() == PointOfNoReturn::Passed {
            return self.resume(plan).await;
        }
        if let Some(begun) = self.service.unfinished_apply(request.plan).await? {
            self.service
                .log(self.run)
                .abort_prepared(begun, "its process did not decide")
                .await?;
        }
        if let Some(reason) = self.failed_validations(&plan).await? {
            let plan = self
                .service
                .services
                .lifecycle
                .constrain(self.run, &reason)
                .await?;
            return Ok(ApplyOutcome::ValidationsFailed { plan, reason });
        }
        self.begin(&plan, request).await
    }

    /// Starts the phase, unless a previous owner that died already started it.
    async fn enter_phase(&self, plan: Plan) -> Result<Plan> {
        if plan.position.state() == PlanState::Processing {
            return Ok(plan);
        }
        let actors = PlanActors::load(&self.service.services, &plan).await?;
        Ok(start_phase(&self.service.services, self.run, &plan, &actors).await?)
    }

    /// Resumes an apply that was decided. A started abort is finished first, so that the parts it
    /// reversed are applied again.
    async fn resume(&self, plan: Plan) -> Result<ApplyOutcome> {
        let conflicts = self
            .service
            .reversal(self.run)
            .finish_reversal(&plan)
            .await?;
        let Some(apply) = self.service.stopped_apply(plan.identity.plan_id).await? else {
            return Err(StoreError::internal("no decided apply is on record").into());
        };
        if conflicts.is_empty() {
            return self.commit_decided(apply, None).await;
        }
        let reason = attempt::join_conflicts(&conflicts);
        let (plan, apply) = self
            .service
            .log(self.run)
            .stop_with_conflicts(apply, (&conflicts, &reason))
            .await?;
        Ok(ApplyOutcome::Stopped {
            plan,
            apply,
            conflicts,
        })
    }

    /// Returns why the plan must not be applied, if required validations failed. They do not run
    /// again: the summary stored by Execute decides. A merge with a target that has moved is
    /// validated when it is prepared.
    async fn failed_validations(&self, plan: &Plan) -> Result<Option<String>> {
        let Some(summary) = newest_summary(&self.service.services.store, plan).await? else {
            return Ok(Some(
                "nothing was validated: execute the plan again".to_owned(),
            ));
        };
        Ok((!summary.permits_apply()).then(|| summary.required_failures()))
    }
}
