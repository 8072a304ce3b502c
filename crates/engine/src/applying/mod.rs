//! Bringing a plan's changes to where they belong, exactly once, and back.
//!
//! An attempt is stored before anything is done. All targets are prepared, from objects only; then
//! one commit of the store decides: before it recovery only takes back, after it it only goes
//! forward. Any process can go on with what another left, so any later command does.

mod abort;
mod again;
mod attempt;
mod collect;
mod error;
mod lock;
mod merged;
mod rebase;
mod recover;
mod settle;
mod unapply;
mod unfinished;
mod unusable;

use std::sync::Arc;

use cleveragents_domain::application::ApplyRecord;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{
    ErrorCategory, EventKind, Move, Phase, Plan, PointOfNoReturn, State, StreamId,
    ValidationSummary,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::execution::{Executor, all_here};
use crate::journal::event;
use crate::lifecycle::{
    LifecycleError, Repeats, Request, hold_unowned, move_plan, move_unowned_plan,
};
use crate::ports::targets::{Author, Conflict, Destination, Targets};
use crate::ports::{Slots, StoreError, Unit};
use crate::recovery::{Trouble, record_error};
use crate::runs::{Outcome, RunLease};

pub use abort::AbortOutcome;
pub use collect::{REVERSIBLE_FOR, SweptApply};
pub use error::{ApplyFailure, Result};
use merged::UnvalidatedMerge;
pub use rebase::{RebaseOutcome, RebasedResource};
pub use recover::{Recovered, Recovery};
pub use unapply::Unapplied;
pub use unfinished::{UnfinishedApply, Worker, unfinished_applies};

/// Applies plans in this process's name.
#[derive(Debug, Clone)]
pub struct ApplyService {
    executor: Executor,
    targets: Arc<dyn Targets>,
    unvalidated: UnvalidatedMerge,
}

/// What a human asks for.
#[derive(Debug, Clone)]
pub struct ApplyAsk {
    pub plan: PlanId,
    pub destination: Destination,
    /// Who wants to be named in commits; else who git says the user is.
    pub author: Option<Author>,
    /// Who acts, for the journal.
    pub actor: String,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub enum ApplyOutcome {
    Applied {
        plan: Plan,
        apply: ApplyRecord,
    },
    /// It was applied or cancelled before; this is how it stands.
    Stands {
        plan: Plan,
        apply: Option<ApplyRecord>,
    },
    /// Something stands in the way; nothing was changed.
    Blocked {
        plan: Plan,
        conflicts: Vec<Conflict>,
    },
    /// Required validations failed; nothing was changed.
    Gate {
        plan: Plan,
        reason: String,
    },
    /// Somebody changed a target after the decision; what could be done is done.
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
            | Self::Stands { plan, .. }
            | Self::Blocked { plan, .. }
            | Self::Gate { plan, .. }
            | Self::Stopped { plan, .. }
            | Self::Cancelled(plan) => plan,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Word {
    Work(Box<Plan>),
    Nothing(Box<Plan>, Option<Box<ApplyRecord>>),
}

impl ApplyService {
    pub fn new(executor: Executor, targets: Arc<dyn Targets>) -> Self {
        Self {
            executor,
            targets,
            unvalidated: UnvalidatedMerge::Validate,
        }
    }

    /// Brings the plan's result to where it was asked to go. Asked twice, or by two processes, it
    /// happens once.
    pub async fn apply(&self, ask: &ApplyAsk) -> Result<ApplyOutcome> {
        let plan = match self.word(ask).await? {
            Word::Nothing(plan, apply) => {
                return Ok(ApplyOutcome::Stands {
                    plan: *plan,
                    apply: apply.map(|it| *it),
                });
            }
            Word::Work(plan) => plan,
        };
        let run = self.claim(&plan).await?;
        let alive = run.keep_alive();
        let worked = self.work(&run, ask).await;
        drop(alive);
        let id = plan.identity.plan_id;
        if worked.as_ref().is_err_and(ApplyFailure::is_lease_lost) {
            return worked;
        }
        if let Err(error) = &worked {
            self.conclude(&run, error).await?;
        }
        self.executor.lifecycle.give_back(run).await?;
        let plan = self.executor.lifecycle.plan(id).await?;
        match worked {
            Ok(_) if plan.position.state() == State::Cancelled => Ok(ApplyOutcome::Cancelled(plan)),
            other => other,
        }
    }

    /// What went wrong is on record with the plan. Before the decision the plan has failed; after it
    /// it is gone on with by whoever comes next.
    async fn conclude(&self, run: &RunLease, error: &ApplyFailure) -> Result<()> {
        let plan = run.lease().plan;
        let trouble = Trouble::plain(ErrorCategory::Resource, error.to_string());
        let request = Request {
            plan,
            asked: Move::Fail,
            actor: run.lease().owner.to_string(),
            reason: Some(error.to_string()),
        };
        let ids = Arc::clone(&self.executor.ids);
        run.write(self.executor.operation("apply.conclude"), move |unit| {
            let held = unit.plan_for_update(plan)?;
            let at = held.position;
            if (at.phase(), at.state()) != (Phase::Apply, State::Processing) {
                return Ok(());
            }
            record_error(unit, &*ids, plan, &trouble, &request.actor)?;
            if at.point_of_no_return() == PointOfNoReturn::Ahead {
                move_plan(unit, &*ids, &request, Repeats::AreRefused)?;
            }
            Ok::<_, ApplyFailure>(())
        })
        .await
    }

    /// The human's word, on record before anything is done.
    async fn word(&self, ask: &ApplyAsk) -> Result<Word> {
        let executor = &self.executor;
        let known = executor.lifecycle.known_owner(ask.plan).await?;
        let (plan, actor, ids) = (ask.plan, ask.actor.clone(), Arc::clone(&executor.ids));
        let (destination, node) = (ask.destination.clone(), executor.node.clone());
        executor
            .store
            .write(executor.operation("plan.apply"), move |unit| {
                let run = hold_unowned(unit, plan, known)?;
                let held = unit.plan_for_update(plan)?;
                if held.position.is_terminal() && held.position.state() != State::Unapplied {
                    let last = unit.applies_of(plan)?.pop();
                    return Ok(Word::Nothing(Box::new(held), last.map(Box::new)));
                }
                all_here(unit, plan, &node, "plan apply")?;
                let (phase, state) = (held.position.phase(), held.position.state());
                let asked = match (phase, state, held.position.waiting()) {
                    (Phase::Apply, State::Errored | State::Constrained | State::Unapplied, _) => {
                        Some(Move::Retry)
                    }
                    (Phase::Apply, _, Some(_)) => Some(Move::Resume),
                    (Phase::Apply, _, None) => None,
                    _ => Some(Move::Advance(Phase::Apply)),
                };
                let told = json!({ "phase": phase, "state": state, "destination": destination });
                let told = event(EventKind::ApplyRequested, &actor, &told)?;
                unit.append(StreamId::Plan(plan), &[told])?;
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
                Ok::<_, ApplyFailure>(Word::Work(Box::new(plan)))
            })
            .await
    }

    async fn claim(&self, plan: &Plan) -> Result<RunLease> {
        let id = plan.identity.plan_id;
        let claimed = self
            .executor
            .runs
            .claim(id, Phase::Apply, Slots::Shared)
            .await?;
        match claimed {
            Outcome::Won(run) => Ok(run),
            Outcome::Held(holder) => Err(LifecycleError::Owned { holder }.into()),
            Outcome::NoSlot { .. } => Err(StoreError::internal("apply needs no slot").into()),
        }
    }

    async fn work(&self, run: &RunLease, ask: &ApplyAsk) -> Result<ApplyOutcome> {
        let plan = self.executor.lifecycle.plan(ask.plan).await?;
        if plan.position.phase() != Phase::Apply || plan.position.is_terminal() {
            // Somebody moved it between the word and the claim.
            let apply = self.unfinished(ask.plan).await?;
            return Ok(ApplyOutcome::Stands { plan, apply });
        }
        let plan = self.executor.enter(run, plan).await?;
        if plan.position.point_of_no_return() == PointOfNoReturn::Passed {
            return self.go_on(run, plan).await;
        }
        if let Some(begun) = self.unfinished(ask.plan).await? {
            self.take_back(run, begun, "its owner did not come to a decision")
                .await?;
        }
        if let Some(reason) = self.gate(&plan).await? {
            let plan = self.executor.lifecycle.constrain(run, &reason).await?;
            return Ok(ApplyOutcome::Gate { plan, reason });
        }
        self.begin(run, &plan, ask).await
    }

    /// Goes on with an apply that was decided. An abort that was begun is ended first, so that
    /// what it took back is brought there again.
    async fn go_on(&self, run: &RunLease, plan: Plan) -> Result<ApplyOutcome> {
        let conflicts = self.finish_reversal(run, &plan).await?;
        let Some(apply) = self.stopped_apply(plan.identity.plan_id).await? else {
            return Err(StoreError::internal("no decided apply is on record").into());
        };
        if conflicts.is_empty() {
            return self.go_forward(run, apply, None).await;
        }
        let reason = attempt::listed(&conflicts);
        let (plan, apply) = self.stop(run, apply, (&conflicts, &reason)).await?;
        Ok(ApplyOutcome::Stopped {
            plan,
            apply,
            conflicts,
        })
    }

    /// Why the plan may not be applied, if its required validations say so. They are not run
    /// again: what Execute stored decides. Of a target that has moved, the merge is validated when
    /// it is prepared.
    async fn gate(&self, plan: &Plan) -> Result<Option<String>> {
        let (id, attempt) = (plan.identity.plan_id, plan.attempt);
        let stored = self
            .executor
            .store
            .read(move |unit| unit.newest_validation_run(id, attempt))
            .await?;
        let Some(stored) = stored else {
            return Ok(Some(
                "nothing was validated: execute the plan again".to_owned(),
            ));
        };
        let summary: ValidationSummary =
            serde_json::from_value(stored).map_err(StoreError::internal)?;
        Ok((!summary.permits_apply()).then(|| summary.obstacles()))
    }

    /// The plan's attempt that is not finished, or stopped after its decision.
    async fn unfinished(&self, plan: PlanId) -> Result<Option<ApplyRecord>> {
        let last = self.newest(plan).await?;
        Ok(last.filter(|it| it.state.is_unfinished() || it.state.is_stopped()))
    }

    /// The plan's last attempt.
    async fn newest(&self, plan: PlanId) -> Result<Option<ApplyRecord>> {
        let read = move |unit: &mut dyn Unit| Ok::<_, StoreError>(unit.applies_of(plan)?.pop());
        Ok(self.executor.store.read(read).await?)
    }
}
