//! Applies a plan's changes to their targets exactly once, and reverses them.
//!
//! An attempt is recorded before anything is done. All targets are prepared, without touching the
//! user's files. Then one store commit decides: before it, recovery only undoes; after it, recovery
//! only goes forward. Any process can finish an attempt that another left, and later commands do.

mod abort;
mod attempt;
mod commit_retry;
mod error;
mod gc;
mod lock;
mod merge_validation;
mod rebase;
mod recover;
mod settle;
mod target_checks;
mod unapply;
mod unfinished;

use std::sync::Arc;

use cleveragents_domain::apply_record::{ApplyDirection, ApplyRecord, ApplyState};
use cleveragents_domain::approval::{ApprovedApply, PendingApprovals};
use cleveragents_domain::event::payloads::ApplyRequested;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{
    ErrorCategory, Move, Phase, Plan, PlanState, PointOfNoReturn, Position, StreamId,
};
use serde::{Deserialize, Serialize};

use crate::error_history::{NewErrorRecord, record_error};
use crate::execution::{
    EngineServices, LocalOperation, Owned, OwnerError, PlanRun, add_approvals, claim_run,
    newest_summary, own_plan, require_local_sandboxes,
};
use crate::journal::new_event;
use crate::lifecycle::{
    PlanMoveRequest, RepeatPolicy, UserDecision, hold_unowned, move_plan, move_unowned_plan,
    record_user_decision,
};
use crate::runs::RunLease;
use cleveragents_ports::targets::{ApplyTargets, Author, Conflict, Destination};
use cleveragents_ports::{Holder, Ids, StoreError, Transaction};

pub use abort::AbortOutcome;
pub use error::{ApplyFailure, Result};
pub use gc::{ApplyGarbageCollector, SweptApply, UNAPPLY_WINDOW};
use merge_validation::UnvalidatedMergePolicy;
pub use rebase::RebaseOutcome;
pub use recover::{FailedRecovery, RecoveredApply, RecoveryOutcome, RecoveryReport};
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
#[derive(Debug)]
struct ApplyRun<'a> {
    service: &'a ApplyService,
    run: &'a mut PlanRun,
}

/// The backward direction of an owned plan: abort and unapply.
#[derive(Debug)]
struct ReversalRun<'a> {
    service: &'a ApplyService,
    run: &'a mut PlanRun,
}

/// Records the attempts of an owned plan.
#[derive(Debug)]
struct ApplyLog<'a> {
    service: &'a ApplyService,
    run: &'a mut PlanRun,
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
    /// The only version of the plan to which the request applies. `None` for a request of the user,
    /// who approves the plan as it is.
    pub version: Option<i64>,
    /// The reason to apply the plan although required checks fail.
    pub forced: Option<String>,
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

/// Outcome of [`ApplyService::enqueue`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ApplyQueueOutcome {
    Queued(Box<Plan>),
    /// The plan was applied or cancelled before.
    Unchanged(Box<Plan>, Option<Box<ApplyRecord>>),
}

impl ApplyService {
    pub fn new(services: Arc<EngineServices>, targets: Arc<dyn ApplyTargets>) -> Self {
        Self {
            services,
            targets,
            unvalidated_merges: UnvalidatedMergePolicy::Validate,
        }
    }

    fn forward<'a>(&'a self, run: &'a mut PlanRun) -> ApplyRun<'a> {
        ApplyRun { service: self, run }
    }

    fn reversal<'a>(&'a self, run: &'a mut PlanRun) -> ReversalRun<'a> {
        ReversalRun { service: self, run }
    }

    fn log<'a>(&'a self, run: &'a mut PlanRun) -> ApplyLog<'a> {
        ApplyLog { service: self, run }
    }

    /// Applies the plan's result to its destination. Repeated or concurrent requests apply it once.
    pub async fn apply(&self, request: &PlanApplyRequest) -> Result<ApplyOutcome> {
        match self.enqueue(request).await? {
            ApplyQueueOutcome::Unchanged(plan, apply) => Ok(ApplyOutcome::Unchanged {
                plan: *plan,
                apply: apply.map(|it| *it),
            }),
            ApplyQueueOutcome::Queued(plan) => self.drive(*plan).await,
        }
    }

    /// Applies a plan as its recorded request says. The plan must be in Apply.
    pub async fn drive(&self, plan: Plan) -> Result<ApplyOutcome> {
        let lease = self.claim(plan.identity.plan_id).await?;
        let applied = own_plan(&self.services, lease, async |run: &mut PlanRun| {
            let applied = self.forward(run).apply_owned().await;
            match &applied {
                // Another process owns the plan now: record nothing (law 5).
                Err(error) if !error.is_lease_lost() => self.record_failure(run, error).await?,
                _ => {}
            }
            applied
        });
        let Owned { outcome, cancelled } = applied.await?;
        Ok(cancelled.map_or(outcome, ApplyOutcome::Cancelled))
    }

    /// Records the error with the plan. Before the decision the plan fails; after it the plan keeps
    /// its state, so that another process can finish the apply.
    async fn record_failure(&self, run: &PlanRun, error: &ApplyFailure) -> Result<()> {
        let run = &run.lease;
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
            // The error may come from a write that was committed, so the plan may be finished
            // already.
            if (at.phase(), at.state()) != (Phase::Apply, PlanState::Processing) {
                return Ok(());
            }
            record_error(tx, &*ids, plan, &error_record, &request.actor)?;
            // After the decision the targets may be half written. Failing the plan would stop
            // recovery from completing them.
            if at.point_of_no_return() == PointOfNoReturn::Ahead {
                move_plan(tx, &*ids, &request, RepeatPolicy::Refuse)?;
            }
            Ok::<_, ApplyFailure>(())
        })
        .await
    }

    /// Records that the user wants the plan applied, and where. The plan is left queued.
    pub async fn enqueue(&self, request: &PlanApplyRequest) -> Result<ApplyQueueOutcome> {
        let services = &self.services;
        // Asked outside the transaction: whether a process is alive is an operating system call
        // (law 7).
        let known = services.lifecycle.proven_owner(request.plan).await?;
        let (plan, actor, ids) = (
            request.plan,
            request.actor.clone(),
            Arc::clone(&services.ids),
        );
        let node = services.node.clone();
        let version = request.version;
        let approved = ApprovedApply {
            by: request.actor.clone(),
            destination: request.destination.clone(),
            author: request.author.clone(),
            forced: request.forced.clone(),
        };
        services
            .store
            .write(services.operation("plan.apply"), move |tx| {
                let run = hold_unowned(tx, plan, known)?;
                let held = tx.plan_for_update(plan)?;
                // A plan that changed since the profile decided to apply it must pass the gate again
                // (law 1).
                if is_finished(held.position) || version.is_some_and(|it| it != held.version) {
                    // The answer to a repeated request: the result of the apply that was made.
                    let done = newest_done(tx.applies_of(plan)?);
                    return Ok(ApplyQueueOutcome::Unchanged(
                        Box::new(held),
                        done.map(Box::new),
                    ));
                }
                // Checked at the request, so that a plan is not queued on a machine that can never
                // apply it.
                let to = approved.destination.clone();
                require_local_sandboxes(tx, plan, &node, LocalOperation::Apply { to })?;
                require_permission(&held, &approved)?;
                let (phase, state) = (held.position.phase(), held.position.state());
                record_forced(tx, &*ids, &held, &approved)?;
                let payload = ApplyRequested {
                    phase,
                    state,
                    destination: approved.destination.clone(),
                };
                let event = new_event(&actor, &payload)?;
                tx.append(StreamId::Plan(plan), &[event])?;
                let approvals = PendingApprovals {
                    apply: Some(approved.clone()),
                    ..PendingApprovals::default()
                };
                let destination = Some(approved.destination.clone());
                // Before the moves, which do not count a forced result as a success.
                let held = add_approvals(tx, held, approvals, destination)?;
                let plan = move_to_apply(tx, &*ids, held, &actor, run.as_ref())?;
                Ok::<_, ApplyFailure>(ApplyQueueOutcome::Queued(Box::new(plan)))
            })
            .await
    }

    async fn claim(&self, plan: PlanId) -> Result<RunLease> {
        Ok(claim_run(&self.services, plan, Phase::Apply).await?)
    }

    /// Returns the plan's newest attempt if it is unfinished, or stopped after its decision.
    async fn unfinished_apply(&self, plan: PlanId) -> Result<Option<ApplyRecord>> {
        let last = self.newest_apply(plan).await?;
        Ok(last.filter(|it| it.state.is_unfinished() || it.state.is_stopped()))
    }

    /// Returns the newest attempt that applied the plan's changes.
    async fn newest_done_apply(&self, plan: PlanId) -> Result<Option<ApplyRecord>> {
        let read =
            move |tx: &mut dyn Transaction| Ok::<_, StoreError>(newest_done(tx.applies_of(plan)?));
        Ok(self.services.store.read(read).await?)
    }

    /// Returns the plan's newest attempt.
    async fn newest_apply(&self, plan: PlanId) -> Result<Option<ApplyRecord>> {
        let read = move |tx: &mut dyn Transaction| Ok::<_, StoreError>(tx.applies_of(plan)?.pop());
        Ok(self.services.store.read(read).await?)
    }
}

/// Returns the newest of a plan's attempts that applied its changes. A later one may have failed to
/// undo them.
fn newest_done(applies: Vec<ApplyRecord>) -> Option<ApplyRecord> {
    let is_done =
        |it: &ApplyRecord| (it.direction, it.state) == (ApplyDirection::Apply, ApplyState::Done);
    applies.into_iter().rfind(is_done)
}

/// Fails if required checks of the plan failed and the user does not force it, or must not.
fn require_permission(plan: &Plan, approved: &ApprovedApply) -> Result<()> {
    let is_allowed = plan.brief.automation_profile.allow_forced_checks;
    let at = plan.position;
    match &approved.forced {
        Some(_) if !is_allowed => Err(ApplyFailure::ForcingNotAllowed {
            plan: Box::new(plan.clone()),
        }),
        None if (at.phase(), at.state()) == (Phase::Execute, PlanState::Constrained) => {
            Err(ApplyFailure::ChecksFailed {
                plan: Box::new(plan.clone()),
            })
        }
        _ => Ok(()),
    }
}

/// Records as a decision of the plan that the user applies it although checks failed.
fn record_forced(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    plan: &Plan,
    approved: &ApprovedApply,
) -> Result<()> {
    let Some(reason) = &approved.forced else {
        return Ok(());
    };
    // A failed apply that the user resumes is still the one that was decided.
    let decided = plan.approvals.apply.as_ref();
    if decided.is_some_and(|it| it.forced == approved.forced) {
        return Ok(());
    }
    let decision = UserDecision {
        question: &forced_question(plan),
        chosen: reason,
        actor: &approved.by,
    };
    Ok(record_user_decision(tx, ids, plan, &decision)?)
}

/// Queues a plan for its apply.
fn move_to_apply(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    plan: Plan,
    actor: &str,
    run: Option<&Holder>,
) -> Result<Plan> {
    let mut moved = plan;
    for requested in moves_to_apply(moved.position) {
        let request = PlanMoveRequest {
            plan: moved.identity.plan_id,
            requested: *requested,
            actor: actor.to_owned(),
            reason: None,
        };
        let outcome = move_unowned_plan(tx, ids, &request, run)?;
        moved = outcome.plan().clone();
    }
    Ok(moved)
}

fn forced_question(plan: &Plan) -> String {
    match &plan.error_message {
        Some(failed) => format!("Apply although checks failed ({failed})?"),
        None => "Apply although checks may fail?".to_owned(),
    }
}

/// Whether the plan cannot be applied any more.
fn is_finished(at: Position) -> bool {
    at.is_terminal() && at.state() != PlanState::Unapplied
}

/// Returns the moves that queue a plan for its apply; none if it is queued or in progress.
fn moves_to_apply(at: Position) -> &'static [Move] {
    const ENTER: Move = Move::Advance(Phase::Apply);
    match (at.phase(), at.state(), at.waiting()) {
        (Phase::Apply, PlanState::Errored | PlanState::Constrained | PlanState::Unapplied, _) => {
            &[Move::Retry]
        }
        (Phase::Apply, _, Some(_)) => &[Move::Resume],
        (Phase::Apply, _, None) => &[],
        // Forced: the user declares the result complete.
        (Phase::Execute, PlanState::Constrained, _) => {
            &[Move::Retry, Move::Start, Move::Complete, ENTER]
        }
        _ => &[ENTER],
    }
}

impl ApplyRun<'_> {
    async fn apply_owned(&mut self) -> Result<ApplyOutcome> {
        let plan = self.run.plan.clone();
        let id = plan.identity.plan_id;
        if plan.position.phase() != Phase::Apply || plan.position.is_terminal() {
            // Another process moved the plan between the request and the claim.
            let apply = self.service.newest_done_apply(id).await?;
            return Ok(ApplyOutcome::Unchanged { plan, apply });
        }
        if plan.position.point_of_no_return() == PointOfNoReturn::Passed {
            self.run.enter_phase().await?;
            return self.resume().await;
        }
        let Some(approved) = plan.approvals.apply.clone() else {
            // Another process aborted an apply between the request and the claim.
            let apply = self.service.newest_apply(id).await?;
            return Ok(ApplyOutcome::Unchanged { plan, apply });
        };
        self.run.enter_phase().await?;
        if let Some(begun) = self.service.unfinished_apply(id).await? {
            self.service
                .log(self.run)
                .abort_prepared(begun, "its process did not decide")
                .await?;
        }
        if let Some(reason) = self.failed_validations().await? {
            let plan = self.constrain(&reason).await?;
            return Ok(ApplyOutcome::ValidationsFailed { plan, reason });
        }
        self.begin(&approved).await
    }

    /// Ends the phase because a rule stopped it.
    async fn constrain(&mut self, reason: &str) -> Result<Plan> {
        let owner = self.service.services.lifecycle.as_owner(&self.run.lease);
        self.run.plan = owner.constrain(reason).await?;
        Ok(self.run.plan.clone())
    }

    /// Resumes an apply that was decided. A started abort is finished first, so that the parts it
    /// reversed are applied again.
    async fn resume(&mut self) -> Result<ApplyOutcome> {
        let id = self.run.plan.identity.plan_id;
        let conflicts = self.service.reversal(self.run).finish_reversal().await?;
        let Some(apply) = self.service.stopped_apply(id).await? else {
            return Err(StoreError::internal("no decided apply is on record").into());
        };
        if conflicts.is_empty() {
            // Without locks: those of the process that decided ended with it.
            return self.commit_decided(apply, None).await;
        }
        let apply = self
            .service
            .log(self.run)
            .stop_with_conflicts(apply, &conflicts)
            .await?;
        Ok(ApplyOutcome::Stopped {
            plan: self.run.plan.clone(),
            apply,
            conflicts,
        })
    }

    /// Returns whether the user applies the plan although required checks fail, which was permitted
    /// when it was requested.
    fn is_forced(&self) -> bool {
        let approved = self.run.plan.approvals.apply.as_ref();
        approved.is_some_and(|it| it.forced.is_some())
    }

    /// Returns why the plan must not be applied, if required validations failed. They do not run
    /// again: the summary stored by Execute decides. A merge with a target that has moved is
    /// validated when it is prepared.
    async fn failed_validations(&self) -> Result<Option<String>> {
        let store = &self.service.services.store;
        let Some(summary) = newest_summary(store, &self.run.plan).await? else {
            return Ok(Some(
                // A missing summary must not count as success.
                "nothing was validated: execute the plan again".to_owned(),
            ));
        };
        let permits = summary.permits_apply() || self.is_forced();
        Ok((!permits).then(|| summary.required_failures()))
    }
}
