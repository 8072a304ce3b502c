//! Every way in which a move can be requested, and the expected answer for a single caller.
//!
//! The matrix and the model take their requests from here. The match in [`SampleMove::requesters`]
//! has no default arm, so that a new move cannot be forgotten.

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{
    CorrectionMode, Move, MoveKind, Phase, Position, PositionOutcome, WaitReason,
};
use cleveragents_engine::decisions::{CorrectionRequest, DecisionFailure};
use cleveragents_engine::lifecycle::{CancelOutcome, LifecycleError, PlanMoveOutcome, Result};
use cleveragents_engine::runs::RunLease;
use cleveragents_integration_tests::plan_driver::PassingProbe;
use cleveragents_ports::{Entity, StoreError};

use super::fixture::LifecycleFixture;

/// The requester of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Requester {
    /// The plan's owner, through its lease.
    Owner,
    /// Any caller, by a command.
    Command,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SampleMove {
    pub(crate) kind: MoveKind,
    pub(crate) requester: Requester,
}

/// The answer to a caller, with the plan's position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MoveAnswer {
    Moved(Position),
    Unchanged(Position),
    Illegal(Position),
    /// The owner was asked to stop.
    CancelRequested(Position),
    /// The plan has an owner.
    Owned,
    LeaseLost,
    /// The plan does not exist.
    Missing,
}

/// Whether a command assumes the plan's owner alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AssumedLiveness {
    Alive,
    NoneOrDead,
}

impl SampleMove {
    pub(crate) fn all() -> Vec<Self> {
        let of = |kind: &MoveKind| {
            let kind = *kind;
            Self::requesters(kind).iter().map(move |way| Self {
                kind,
                requester: *way,
            })
        };
        MoveKind::ALL.iter().flat_map(of).collect()
    }

    fn requesters(kind: MoveKind) -> &'static [Requester] {
        match kind {
            MoveKind::Start
            | MoveKind::Complete
            | MoveKind::Fail
            | MoveKind::Constrain
            | MoveKind::Decide
            | MoveKind::Apply
            | MoveKind::Abort
            | MoveKind::Unapply
            | MoveKind::Wait => &[Requester::Owner],
            MoveKind::Resume | MoveKind::Retry | MoveKind::Revert | MoveKind::Correct => {
                &[Requester::Command]
            }
            MoveKind::Advance | MoveKind::Cancel => &[Requester::Owner, Requester::Command],
        }
    }

    /// The full move for a caller that saw the plan at `position`.
    pub(crate) fn to_move(self, position: Position) -> Move {
        move_of(self.kind, position)
    }

    /// The expected answer to a single caller at `at`, and the resulting position.
    pub(crate) fn expected_answer(
        self,
        asked: Move,
        at: Position,
        owner: AssumedLiveness,
    ) -> (MoveAnswer, Position) {
        let asked = match asked {
            // The plan's position decides where a correction leads, not the caller.
            Move::Correct(_) => move_of(MoveKind::Correct, at),
            other => other,
        };
        let moved = match self.requester {
            Requester::Owner => at.after(asked),
            Requester::Command => match (at.request_move(asked), owner) {
                (Ok(PositionOutcome::Unchanged(_)), _) => return (MoveAnswer::Unchanged(at), at),
                (_, AssumedLiveness::Alive) if asked == Move::Cancel => {
                    return (MoveAnswer::CancelRequested(at), at);
                }
                (_, AssumedLiveness::Alive) => return (MoveAnswer::Owned, at),
                (answer, AssumedLiveness::NoneOrDead) => {
                    answer.map(|_| at.after(asked)).and_then(|it| it)
                }
            },
        };
        match moved {
            Ok(next) => (MoveAnswer::Moved(next), next),
            Err(_) => (MoveAnswer::Illegal(at), at),
        }
    }

    pub(crate) async fn perform(self, caller: &MoveCaller<'_>, asked: Move) -> MoveAnswer {
        match self.requester {
            Requester::Owner => match caller.run {
                Some(run) => {
                    classify_answer(caller, move_as_owner(caller.fixture, run, asked).await)
                }
                None => panic!("{self:?} needs a lease"),
            },
            Requester::Command => classify_answer(caller, move_by_command(caller, asked).await),
        }
    }
}

/// The caller and its plan.
#[derive(Debug)]
pub(crate) struct MoveCaller<'a> {
    pub(crate) fixture: &'a LifecycleFixture,
    pub(crate) run: Option<&'a RunLease>,
    pub(crate) plan: PlanId,
    pub(crate) name: &'a str,
}

/// The move of this kind that makes most sense at `seen`.
pub(crate) fn move_of(kind: MoveKind, seen: Position) -> Move {
    match kind {
        MoveKind::Start => Move::Start,
        MoveKind::Complete => Move::Complete,
        MoveKind::Fail => Move::Fail,
        MoveKind::Constrain => Move::Constrain,
        MoveKind::Decide => Move::Decide,
        MoveKind::Apply => Move::Apply,
        MoveKind::Abort => Move::Abort,
        MoveKind::Unapply => Move::Unapply,
        MoveKind::Wait => Move::Wait(WaitReason::Slot),
        MoveKind::Resume => Move::Resume,
        MoveKind::Advance => Move::Advance(seen.phase().next().unwrap_or(Phase::Apply)),
        MoveKind::Retry => Move::Retry,
        MoveKind::Revert => Move::Revert,
        MoveKind::Correct => Move::Correct(match seen.phase() {
            Phase::Execute => Phase::Execute,
            Phase::Strategize | Phase::Apply => Phase::Strategize,
        }),
        MoveKind::Cancel => Move::Cancel,
    }
}

async fn move_as_owner(
    fixture: &LifecycleFixture,
    run: &RunLease,
    asked: Move,
) -> Result<MoveAnswer> {
    let service = &fixture.lifecycle;
    let plan = match asked {
        Move::Start => service.as_owner(run).start(&PassingProbe).await,
        Move::Complete => service.as_owner(run).complete().await,
        Move::Fail => service.as_owner(run).fail("no net").await,
        Move::Constrain => service.as_owner(run).constrain("a gate").await,
        Move::Decide => service.as_owner(run).decide().await,
        Move::Apply => service.as_owner(run).mark_applied().await,
        Move::Abort => service.as_owner(run).abort("given up").await,
        Move::Unapply => service.as_owner(run).mark_unapplied().await,
        Move::Wait(waiting) => service.as_owner(run).wait(waiting).await,
        Move::Advance(to) => service.as_owner(run).advance(to).await,
        Move::Cancel => service.as_owner(run).cancel("asked to").await,
        Move::Resume | Move::Retry | Move::Revert | Move::Correct(_) => {
            panic!("{asked:?} is no owner's move")
        }
    };
    plan.map(|plan| MoveAnswer::Moved(plan.position))
}

async fn move_by_command(caller: &MoveCaller<'_>, asked: Move) -> Result<MoveAnswer> {
    let (service, plan, name) = (&caller.fixture.lifecycle, caller.plan, caller.name);
    let moved = match asked {
        Move::Resume => service.answer(plan, None, name).await?,
        Move::Advance(to) => service.advance(plan, to, name).await?,
        Move::Retry => service.retry(plan, name).await?,
        Move::Revert => {
            let revert = service.revert(plan, Phase::Strategize, "again", name);
            revert.await?
        }
        Move::Cancel => match service.cancel(plan, "enough", name).await? {
            CancelOutcome::Done(moved) => moved,
            CancelOutcome::Requested(plan) => {
                return Ok(MoveAnswer::CancelRequested(plan.position));
            }
        },
        Move::Correct(_) => return add_guidance(caller).await,
        _ => panic!("{asked:?} is no command"),
    };
    Ok(match moved {
        PlanMoveOutcome::Moved(plan) => MoveAnswer::Moved(plan.position),
        PlanMoveOutcome::Unchanged(plan) => MoveAnswer::Unchanged(plan.position),
    })
}

/// Appends guidance to the plan's root decision, which sends the plan back and supersedes nothing.
async fn add_guidance(caller: &MoveCaller<'_>) -> Result<MoveAnswer> {
    let plan = caller.fixture.lifecycle.plan(caller.plan).await?;
    let corrected = caller.fixture.decisions.correct(CorrectionRequest {
        decision: plan.decision_root_id.unwrap(),
        mode: CorrectionMode::Append,
        guidance: "mind the tests".to_owned(),
        actor: caller.name.to_owned(),
    });
    match corrected.await {
        Ok(corrected) => Ok(MoveAnswer::Moved(corrected.plan.position)),
        // A plan is deleted together with its decisions.
        Err(DecisionFailure::Lifecycle(LifecycleError::Store(StoreError::NotFound { .. }))) => {
            Ok(MoveAnswer::Missing)
        }
        Err(DecisionFailure::Lifecycle(error)) => Err(error),
        Err(other) => panic!("{other} instead of an answer about the plan"),
    }
}

/// Classifies the answer. A refusal must name the plan and the reason.
fn classify_answer(caller: &MoveCaller<'_>, answer: Result<MoveAnswer>) -> MoveAnswer {
    match answer {
        Ok(message) => message,
        Err(LifecycleError::Illegal { plan, illegal }) => {
            assert_eq!(plan, caller.plan);
            MoveAnswer::Illegal(illegal.at)
        }
        Err(LifecycleError::Owned { holder, .. }) => {
            assert_eq!(holder.plan, caller.plan);
            MoveAnswer::Owned
        }
        Err(LifecycleError::Store(StoreError::LeaseLost { plan, .. })) => {
            assert_eq!(plan, caller.plan);
            MoveAnswer::LeaseLost
        }
        Err(LifecycleError::Store(StoreError::NotFound {
            entity: Entity::Plan,
            ..
        })) => MoveAnswer::Missing,
        Err(other) => panic!("{other} instead of an answer about the plan"),
    }
}
