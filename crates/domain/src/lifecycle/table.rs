//! The only table of legal moves, and the only function that reads it.

use std::fmt;

use super::position::{Position, PositionParts};
use super::{MAX_REVERSIONS, Phase, PlanState, PointOfNoReturn, WaitReason, WaitReasonKind};
use crate::text_enum::text_enum;

/// A move that can be requested of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Move {
    /// Start the work of the phase.
    Start,
    /// The phase succeeded.
    Complete,
    /// The phase ended in an error.
    Fail,
    /// The phase was stopped by a rule: validations, a merge conflict, a gate.
    Constrain,
    /// Pass Apply's point of no return; after it Apply only goes forward.
    Decide,
    /// The changes are in their targets.
    Apply,
    /// Abort an apply that stopped after the point of no return: nothing of it was written, or all
    /// of it was rolled back.
    Abort,
    /// The changes were removed from their targets.
    Unapply,
    /// Return the plan to the queue until something happens.
    Wait(WaitReason),
    /// The condition that a plan waited for is met.
    Resume,
    /// Enter the next phase. The phase is explicit so that a repeated request never enters the one
    /// after it.
    Advance(Phase),
    /// Repeat the same phase after it stopped.
    Retry,
    /// Go back to `strategize`.
    Revert,
    /// Work on the plan again from this phase on, because the user changed a decision. The phase is
    /// explicit so that a plan that advanced meanwhile is not set back further than intended.
    Correct(Phase),
    Cancel,
}

text_enum! {
    /// A move without its data.
    MoveKind: "move" {
        Start = "start",
        Complete = "complete",
        Fail = "fail",
        Constrain = "constrain",
        Decide = "decide",
        Apply = "apply",
        Abort = "abort",
        Unapply = "unapply",
        Wait = "wait",
        Resume = "resume",
        Advance = "advance",
        Retry = "retry",
        Revert = "revert",
        Correct = "correct",
        Cancel = "cancel",
    }
}

impl Move {
    pub const fn kind(self) -> MoveKind {
        match self {
            Self::Start => MoveKind::Start,
            Self::Complete => MoveKind::Complete,
            Self::Fail => MoveKind::Fail,
            Self::Constrain => MoveKind::Constrain,
            Self::Decide => MoveKind::Decide,
            Self::Apply => MoveKind::Apply,
            Self::Abort => MoveKind::Abort,
            Self::Unapply => MoveKind::Unapply,
            Self::Wait(_) => MoveKind::Wait,
            Self::Resume => MoveKind::Resume,
            Self::Advance(_) => MoveKind::Advance,
            Self::Retry => MoveKind::Retry,
            Self::Revert => MoveKind::Revert,
            Self::Correct(_) => MoveKind::Correct,
            Self::Cancel => MoveKind::Cancel,
        }
    }
}

/// Reason for refusing a move that is legal at this phase and state, but not for this plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    Waiting(WaitReasonKind),
    NotWaiting,
    PointOfNoReturnPassed,
    PointOfNoReturnAhead,
    ReversionsExhausted,
    WrongNextPhase(Phase),
    WrongCorrectionPhase(Phase),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting(kind) => write!(f, "waits ({kind})"),
            Self::NotWaiting => f.write_str("waits for nothing"),
            Self::PointOfNoReturnPassed => f.write_str("has passed the point of no return"),
            Self::PointOfNoReturnAhead => f.write_str("has not passed the point of no return"),
            Self::ReversionsExhausted => {
                write!(f, "has been reverted {MAX_REVERSIONS} times, the maximum")
            }
            Self::WrongNextPhase(phase) => write!(f, "must enter {phase} first"),
            Self::WrongCorrectionPhase(phase) => write!(f, "returns to {phase}"),
        }
    }
}

/// A refused move, with the legal alternatives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IllegalMove {
    pub requested: MoveKind,
    /// The phase that was requested, if the move enters the next one.
    pub target: Option<Phase>,
    pub at: Position,
    pub obstacle: Option<Obstacle>,
    pub legal: Vec<MoveKind>,
}

impl std::error::Error for IllegalMove {}

impl fmt::Display for IllegalMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requested = match self.target {
            Some(phase) => phase.as_str(),
            None => self.requested.as_str(),
        };
        write!(f, "cannot {requested}: the plan is at {}", self.at)?;
        if let Some(obstacle) = self.obstacle {
            write!(f, " and {obstacle}")?;
        }
        if self.legal.is_empty() {
            f.write_str(", which is final")
        } else {
            Ok(())
        }
    }
}

/// The answer to a command. Repeating a command in a later or terminal state is not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PositionOutcome {
    Moved(Position),
    /// Nothing to do; this is the current position.
    Unchanged(Position),
}

impl Position {
    /// Returns the position after `requested`.
    pub fn after(&self, requested: Move) -> Result<Self, IllegalMove> {
        let mut obstacle = None;
        for row in TABLE
            .iter()
            .filter(|row| row.covers(requested.kind(), self))
        {
            match row.obstacle(requested, self) {
                None => return Ok(row.target.position_from(self, requested)),
                found => obstacle = found,
            }
        }
        Err(IllegalMove {
            requested: requested.kind(),
            target: match requested {
                Move::Advance(phase) => Some(phase),
                _ => None,
            },
            at: *self,
            obstacle,
            legal: self.legal_moves(),
        })
    }

    /// Returns every kind of move that is legal now, in table order.
    pub fn legal_moves(&self) -> Vec<MoveKind> {
        let legal = |row: &&TransitionRow| {
            row.covers(row.requested, self) && row.condition.obstacle(self).is_none()
        };
        let mut moves: Vec<MoveKind> = TABLE
            .iter()
            .filter(legal)
            .map(|row| row.requested)
            .collect();
        // A kind with several targets has several rows, which are adjacent.
        moves.dedup();
        moves
    }

    /// Like [`after`](Self::after), for commands: if the plan already has the requested position,
    /// or can never move again, returns the current position.
    pub fn request_move(&self, requested: Move) -> Result<PositionOutcome, IllegalMove> {
        match self.after(requested) {
            Ok(position) => Ok(PositionOutcome::Moved(position)),
            Err(_) if self.already_satisfies(requested) => Ok(PositionOutcome::Unchanged(*self)),
            Err(illegal) => Err(illegal),
        }
    }

    fn already_satisfies(&self, requested: Move) -> bool {
        let repeated = match requested {
            Move::Advance(to) => self.phase() >= to,
            Move::Cancel => self.point_of_no_return() == PointOfNoReturn::Passed,
            Move::Revert => {
                self.phase() == Phase::Strategize
                    && matches!(self.state(), PlanState::Queued | PlanState::Processing)
            }
            // An earlier request already succeeded and the plan moved on from there.
            Move::Resume | Move::Retry => matches!(
                self.state(),
                PlanState::Queued | PlanState::Processing | PlanState::Complete
            ),
            // Each correction is new, so it never repeats an earlier one.
            Move::Correct(_) => return false,
            _ => false,
        };
        repeated || self.is_terminal()
    }
}

/// One row of the table: `requested` at any of these phases and states leads to `target`, under a
/// condition.
struct TransitionRow {
    requested: MoveKind,
    phases: &'static [Phase],
    states: &'static [PlanState],
    condition: MoveCondition,
    target: MoveTarget,
}

enum MoveCondition {
    Always,
    NotWaiting,
    Waiting,
    PointAhead,
    PointPassed,
    /// The point of no return is not passed and reversions are left.
    Revertible,
}

#[derive(PartialEq, Eq)]
enum MoveTarget {
    /// Another state of the same phase.
    State(PlanState),
    /// The first state of a phase.
    Phase(Phase),
    /// The first state of `strategize`; increments the reversion count.
    Reversion,
    /// The same position with the point of no return passed.
    Decided,
    /// Another state of the same phase, with the point of no return reset.
    Undecided(PlanState),
}

const EVERY_PHASE: &[Phase] = &[Phase::Strategize, Phase::Execute, Phase::Apply];
const AFTER_STRATEGIZE: &[Phase] = &[Phase::Execute, Phase::Apply];
const NOT_TERMINAL: &[PlanState] = &[
    PlanState::Queued,
    PlanState::Processing,
    PlanState::Complete,
    PlanState::Errored,
    PlanState::Constrained,
];

/// The states in which a plan may be reverted or corrected. Unapplied work can be redone.
const REWORKABLE: &[PlanState] = &[
    PlanState::Queued,
    PlanState::Processing,
    PlanState::Complete,
    PlanState::Errored,
    PlanState::Constrained,
    PlanState::Unapplied,
];

const fn row(
    requested: MoveKind,
    phases: &'static [Phase],
    states: &'static [PlanState],
    condition: MoveCondition,
    target: MoveTarget,
) -> TransitionRow {
    TransitionRow {
        requested,
        phases,
        states,
        condition,
        target,
    }
}

// One line per row, because it is read as a table.
#[rustfmt::skip]
const TABLE: &[TransitionRow] = &[
    row(MoveKind::Start, EVERY_PHASE, &[PlanState::Queued], MoveCondition::NotWaiting, MoveTarget::State(PlanState::Processing)),
    row(MoveKind::Complete, &[Phase::Strategize, Phase::Execute], &[PlanState::Processing], MoveCondition::Always, MoveTarget::State(PlanState::Complete)),
    row(MoveKind::Fail, EVERY_PHASE, &[PlanState::Processing], MoveCondition::Always, MoveTarget::State(PlanState::Errored)),
    row(MoveKind::Constrain, AFTER_STRATEGIZE, &[PlanState::Processing], MoveCondition::PointAhead, MoveTarget::State(PlanState::Constrained)),
    row(MoveKind::Decide, &[Phase::Apply], &[PlanState::Processing], MoveCondition::PointAhead, MoveTarget::Decided),
    row(MoveKind::Apply, &[Phase::Apply], &[PlanState::Processing], MoveCondition::PointPassed, MoveTarget::State(PlanState::Applied)),
    row(MoveKind::Abort, &[Phase::Apply], &[PlanState::Queued, PlanState::Errored], MoveCondition::PointPassed, MoveTarget::Undecided(PlanState::Constrained)),
    row(MoveKind::Unapply, &[Phase::Apply], &[PlanState::Applied], MoveCondition::PointPassed, MoveTarget::Undecided(PlanState::Unapplied)),
    row(MoveKind::Wait, EVERY_PHASE, &[PlanState::Queued, PlanState::Processing], MoveCondition::NotWaiting, MoveTarget::State(PlanState::Queued)),
    row(MoveKind::Resume, EVERY_PHASE, &[PlanState::Queued], MoveCondition::Waiting, MoveTarget::State(PlanState::Queued)),
    row(MoveKind::Advance, &[Phase::Strategize], &[PlanState::Complete], MoveCondition::Always, MoveTarget::Phase(Phase::Execute)),
    row(MoveKind::Advance, &[Phase::Execute], &[PlanState::Complete], MoveCondition::Always, MoveTarget::Phase(Phase::Apply)),
    row(MoveKind::Retry, EVERY_PHASE, &[PlanState::Errored, PlanState::Constrained, PlanState::Unapplied], MoveCondition::Always, MoveTarget::State(PlanState::Queued)),
    row(MoveKind::Revert, &[Phase::Strategize], &[PlanState::Errored], MoveCondition::Always, MoveTarget::Phase(Phase::Strategize)),
    row(MoveKind::Revert, AFTER_STRATEGIZE, REWORKABLE, MoveCondition::Revertible, MoveTarget::Reversion),
    row(MoveKind::Correct, AFTER_STRATEGIZE, REWORKABLE, MoveCondition::PointAhead, MoveTarget::Phase(Phase::Execute)),
    row(MoveKind::Correct, &[Phase::Strategize], NOT_TERMINAL, MoveCondition::Always, MoveTarget::Phase(Phase::Strategize)),
    row(MoveKind::Correct, AFTER_STRATEGIZE, REWORKABLE, MoveCondition::Revertible, MoveTarget::Reversion),
    row(MoveKind::Cancel, EVERY_PHASE, NOT_TERMINAL, MoveCondition::PointAhead, MoveTarget::State(PlanState::Cancelled)),
];

impl TransitionRow {
    fn covers(&self, requested: MoveKind, at: &Position) -> bool {
        self.requested == requested
            && self.phases.contains(&at.phase())
            && self.states.contains(&at.state())
    }

    fn obstacle(&self, requested: Move, at: &Position) -> Option<Obstacle> {
        match (requested, &self.target) {
            (Move::Advance(to), MoveTarget::Phase(next)) if to != *next => {
                Some(Obstacle::WrongNextPhase(*next))
            }
            (Move::Correct(to), target) if target.phase() != Some(to) => {
                target.phase().map(Obstacle::WrongCorrectionPhase)
            }
            _ => self.condition.obstacle(at),
        }
    }
}

impl MoveCondition {
    fn obstacle(&self, at: &Position) -> Option<Obstacle> {
        let passed = at.point_of_no_return() == PointOfNoReturn::Passed;
        match self {
            Self::Always => None,
            Self::NotWaiting => at
                .waiting()
                .map(|waiting| Obstacle::Waiting(waiting.kind())),
            Self::Waiting => at.waiting().is_none().then_some(Obstacle::NotWaiting),
            Self::PointAhead => passed.then_some(Obstacle::PointOfNoReturnPassed),
            Self::PointPassed => (!passed).then_some(Obstacle::PointOfNoReturnAhead),
            Self::Revertible if passed => Some(Obstacle::PointOfNoReturnPassed),
            Self::Revertible => {
                (at.reversions() >= MAX_REVERSIONS).then_some(Obstacle::ReversionsExhausted)
            }
        }
    }
}

impl MoveTarget {
    /// Returns the phase that the move enters, if any.
    const fn phase(&self) -> Option<Phase> {
        match self {
            Self::Phase(phase) => Some(*phase),
            Self::Reversion => Some(Phase::Strategize),
            Self::State(_) | Self::Decided | Self::Undecided(_) => None,
        }
    }

    fn position_from(&self, from: &Position, requested: Move) -> Position {
        let waiting = match requested {
            Move::Wait(waiting) => Some(waiting),
            _ => None,
        };
        let here = PositionParts {
            waiting,
            ..from.parts()
        };
        Position::from_legal_parts(match *self {
            Self::State(state) => PositionParts { state, ..here },
            Self::Phase(phase) => PositionParts {
                phase,
                state: PlanState::Queued,
                ..here
            },
            Self::Reversion => PositionParts {
                phase: Phase::Strategize,
                state: PlanState::Queued,
                reversions: here.reversions + 1,
                ..here
            },
            Self::Decided => PositionParts {
                point_of_no_return: PointOfNoReturn::Passed,
                ..here
            },
            Self::Undecided(state) => PositionParts {
                state,
                point_of_no_return: PointOfNoReturn::Ahead,
                ..here
            },
        })
    }
}
