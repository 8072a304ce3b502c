//! Every way in which a move can be asked for, and what one caller at a time would be told.
//!
//! The matrix and the model take their requests from here; the match in [`Ask::ways`] has no
//! default arm, so that a new move cannot be forgotten.

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Answer, CorrectionMode, Move, MoveKind, Phase, Position, Waiting};
use cleveragents_engine::decisions::{CorrectRequest, DecisionFailure};
use cleveragents_engine::lifecycle::{Cancelled, LifecycleError, Moved, Result};
use cleveragents_engine::ports::StoreError;
use cleveragents_engine::runs::RunLease;

use super::scene::{AllThere, Scene};

/// By whom a move is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// By the plan's owner, through its lease.
    Owner,
    /// By anybody.
    Command,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) kind: MoveKind,
    pub(crate) way: Way,
}

/// What a caller was told, with where the plan stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Moved(Position),
    Stands(Position),
    Illegal(Position),
    /// The owner was asked to stop.
    Requested(Position),
    /// Somebody runs the plan.
    Owned,
    LeaseLost,
    /// There is no such plan.
    Missing,
}

/// Whether a command takes the plan's owner for alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Alive,
    NoneOrDead,
}

impl Ask {
    pub(crate) fn all() -> Vec<Self> {
        let of = |kind: &MoveKind| {
            let kind = *kind;
            Self::ways(kind)
                .iter()
                .map(move |way| Self { kind, way: *way })
        };
        MoveKind::ALL.iter().flat_map(of).collect()
    }

    fn ways(kind: MoveKind) -> &'static [Way] {
        match kind {
            MoveKind::Start
            | MoveKind::Complete
            | MoveKind::Fail
            | MoveKind::Constrain
            | MoveKind::Decide
            | MoveKind::Apply
            | MoveKind::Abort
            | MoveKind::Unapply
            | MoveKind::Wait => &[Way::Owner],
            MoveKind::Resume | MoveKind::Retry | MoveKind::Revert | MoveKind::Correct => {
                &[Way::Command]
            }
            MoveKind::Advance | MoveKind::Cancel => &[Way::Owner, Way::Command],
        }
    }

    /// The whole move, as one asks for it who saw the plan at `seen`.
    pub(crate) fn asked(self, seen: Position) -> Move {
        move_of(self.kind, seen)
    }

    /// What one caller is told at `at`, and where the plan stands then.
    pub(crate) fn alone(self, asked: Move, at: Position, owner: Owner) -> (Told, Position) {
        let asked = match asked {
            // Where a correction leads is decided where the plan stands, not by who asks.
            Move::Correct(_) => move_of(MoveKind::Correct, at),
            other => other,
        };
        let moved = match self.way {
            Way::Owner => at.after(asked),
            Way::Command => match (at.ask(asked), owner) {
                (Ok(Answer::Stands(_)), _) => return (Told::Stands(at), at),
                (_, Owner::Alive) if asked == Move::Cancel => return (Told::Requested(at), at),
                (_, Owner::Alive) => return (Told::Owned, at),
                (answer, Owner::NoneOrDead) => answer.map(|_| at.after(asked)).and_then(|it| it),
            },
        };
        match moved {
            Ok(next) => (Told::Moved(next), next),
            Err(_) => (Told::Illegal(at), at),
        }
    }

    /// Asks the service.
    pub(crate) async fn perform(self, caller: &Caller<'_>, asked: Move) -> Told {
        match self.way {
            Way::Owner => match caller.run {
                Some(run) => told(caller, by_owner(caller.scene, run, asked).await),
                None => panic!("{self:?} needs a lease"),
            },
            Way::Command => told(caller, by_command(caller, asked).await),
        }
    }
}

/// Who asks, of which plan.
#[derive(Debug)]
pub(crate) struct Caller<'a> {
    pub(crate) scene: &'a Scene,
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
        MoveKind::Wait => Move::Wait(Waiting::Slot),
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

async fn by_owner(scene: &Scene, run: &RunLease, asked: Move) -> Result<Told> {
    let service = &scene.lifecycle;
    let plan = match asked {
        Move::Start => service.start(run, &AllThere).await,
        Move::Complete => service.complete(run).await,
        Move::Fail => service.fail(run, "no net").await,
        Move::Constrain => service.constrain(run, "a gate").await,
        Move::Decide => service.decide(run).await,
        Move::Apply => service.applied(run).await,
        Move::Abort => service.abort(run, "given up").await,
        Move::Unapply => service.unapplied(run).await,
        Move::Wait(waiting) => service.wait(run, waiting).await,
        Move::Advance(to) => service.advance_as_owner(run, to).await,
        Move::Cancel => service.cancel_as_owner(run, "asked to").await,
        Move::Resume | Move::Retry | Move::Revert | Move::Correct(_) => {
            panic!("{asked:?} is no owner's move")
        }
    };
    plan.map(|plan| Told::Moved(plan.position))
}

async fn by_command(caller: &Caller<'_>, asked: Move) -> Result<Told> {
    let (service, plan, name) = (&caller.scene.lifecycle, caller.plan, caller.name);
    let moved = match asked {
        Move::Resume => service.answer(plan, None, name).await?,
        Move::Advance(to) => service.advance(plan, to, name).await?,
        Move::Retry => service.retry(plan, name).await?,
        Move::Revert => {
            let revert = service.revert(plan, Phase::Strategize, "again", name);
            revert.await?
        }
        Move::Cancel => match service.cancel(plan, "enough", name).await? {
            Cancelled::Done(moved) => moved,
            Cancelled::Requested(plan) => return Ok(Told::Requested(plan.position)),
        },
        Move::Correct(_) => return add_guidance(caller).await,
        _ => panic!("{asked:?} is no command"),
    };
    Ok(match moved {
        Moved::Moved(plan) => Told::Moved(plan.position),
        Moved::Stands(plan) => Told::Stands(plan.position),
    })
}

/// Adds to the root of the plan's decisions, which sends the plan back and gives up nothing.
async fn add_guidance(caller: &Caller<'_>) -> Result<Told> {
    let plan = caller.scene.lifecycle.plan(caller.plan).await?;
    let corrected = caller.scene.decisions.correct(CorrectRequest {
        decision: plan.decision_root_id.unwrap(),
        mode: CorrectionMode::Append,
        guidance: "mind the tests".to_owned(),
        actor: caller.name.to_owned(),
    });
    match corrected.await {
        Ok(corrected) => Ok(Told::Moved(corrected.plan.position)),
        // A plan goes with its decisions.
        Err(DecisionFailure::Lifecycle(LifecycleError::Store(StoreError::NotFound { .. }))) => {
            Ok(Told::Missing)
        }
        Err(DecisionFailure::Lifecycle(error)) => Err(error),
        Err(other) => panic!("{other} instead of where the plan stands"),
    }
}

/// The answer in short. A refusal must name the plan and what is in the way.
fn told(caller: &Caller<'_>, answer: Result<Told>) -> Told {
    match answer {
        Ok(told) => told,
        Err(LifecycleError::Illegal { plan, illegal }) => {
            assert_eq!(plan, caller.plan);
            Told::Illegal(illegal.at)
        }
        Err(LifecycleError::Owned { holder }) => {
            assert_eq!(holder.plan, caller.plan);
            Told::Owned
        }
        Err(LifecycleError::Store(StoreError::LeaseLost { plan, .. })) => {
            assert_eq!(plan, caller.plan);
            Told::LeaseLost
        }
        Err(LifecycleError::Store(StoreError::NotFound { what: "plan", .. })) => Told::Missing,
        Err(other) => panic!("{other} instead of where the plan stands"),
    }
}
