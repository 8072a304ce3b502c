//! The one table of legal moves, and the only function that reads it.

use std::fmt;

use super::position::{Position, PositionParts};
use super::{MAX_REVERSIONS, Phase, PointOfNoReturn, State, Waiting, WaitingKind};
use crate::words::words;

/// What can be asked of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Move {
    /// Take up the work of the phase.
    Start,
    /// The phase did what it should.
    Complete,
    /// The phase ended in an error.
    Fail,
    /// The phase was stopped by a rule: validations, a merge conflict, a gate.
    Constrain,
    /// Pass Apply's point of no return; after it Apply only goes forward.
    Decide,
    /// The changes are where they belong.
    Apply,
    /// Give up an apply that stopped after the point of no return: nothing of it was written, or
    /// all was taken back.
    Abort,
    /// The changes were taken back out of where they belong.
    Unapply,
    /// Give the plan back to the queue until something happens.
    Wait(Waiting),
    /// What a waiting plan waited for has come.
    Resume,
    /// Enter the next phase. It is named so that a repeated request never enters the one after it.
    Advance(Phase),
    /// Do the same phase again after it stopped.
    Retry,
    /// Go back to `strategize`.
    Revert,
    /// Work on the plan again, from this phase on, because a human changed a decision. It is named
    /// so that a plan that has moved on meanwhile is not thrown back further than was meant.
    Correct(Phase),
    Cancel,
}

words! {
    /// A move without what it carries.
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

/// Why a move that is legal at this phase and state is not legal for this plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    Waits(WaitingKind),
    WaitsForNothing,
    PointOfNoReturnPassed,
    PointOfNoReturnAhead,
    ReversionsSpent,
    NextPhaseIs(Phase),
    GoesBackTo(Phase),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waits(kind) => write!(f, "waits ({kind})"),
            Self::WaitsForNothing => f.write_str("waits for nothing"),
            Self::PointOfNoReturnPassed => f.write_str("has passed the point of no return"),
            Self::PointOfNoReturnAhead => f.write_str("has not passed the point of no return"),
            Self::ReversionsSpent => {
                write!(f, "has been reverted {MAX_REVERSIONS} times, which is all")
            }
            Self::NextPhaseIs(phase) => write!(f, "goes to {phase} next"),
            Self::GoesBackTo(phase) => write!(f, "goes back to {phase}"),
        }
    }
}

/// A move that was asked for and refused, and what could be asked instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IllegalMove {
    pub asked: MoveKind,
    pub at: Position,
    pub obstacle: Option<Obstacle>,
    pub legal: Vec<MoveKind>,
}

impl std::error::Error for IllegalMove {}

impl fmt::Display for IllegalMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: the plan is at {}", self.asked, self.at)?;
        if let Some(obstacle) = self.obstacle {
            write!(f, " and {obstacle}")?;
        }
        if self.legal.is_empty() {
            return f.write_str(", which is final");
        }
        let words: Vec<&str> = self.legal.iter().map(|kind| kind.as_str()).collect();
        write!(f, "; legal now: {}", words.join(", "))
    }
}

/// What a command is told: repeating one in a later or terminal state is no error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Moved(Position),
    /// Nothing to do; this is how the plan stands.
    Stands(Position),
}

impl Position {
    /// Where the plan stands after `asked`.
    pub fn after(&self, asked: Move) -> Result<Self, IllegalMove> {
        let mut obstacle = None;
        for row in TABLE.iter().filter(|row| row.covers(asked.kind(), self)) {
            match row.obstacle(asked, self) {
                None => return Ok(row.target.reached_from(self, asked)),
                found => obstacle = found,
            }
        }
        Err(IllegalMove {
            asked: asked.kind(),
            at: *self,
            obstacle,
            legal: self.legal_moves(),
        })
    }

    /// Every kind of move that is legal now, in the order of the table.
    pub fn legal_moves(&self) -> Vec<MoveKind> {
        let legal =
            |row: &&Row| row.covers(row.asked, self) && row.condition.obstacle(self).is_none();
        let mut moves: Vec<MoveKind> = TABLE.iter().filter(legal).map(|row| row.asked).collect();
        // A kind with several targets has several rows, which stand together.
        moves.dedup();
        moves
    }

    /// Like [`after`](Self::after), for commands: where the plan already has what was asked for, or
    /// can never move again, the answer is how it stands.
    pub fn ask(&self, asked: Move) -> Result<Answer, IllegalMove> {
        match self.after(asked) {
            Ok(position) => Ok(Answer::Moved(position)),
            Err(_) if self.already_answers(asked) => Ok(Answer::Stands(*self)),
            Err(illegal) => Err(illegal),
        }
    }

    fn already_answers(&self, asked: Move) -> bool {
        let repeated = match asked {
            Move::Advance(to) => self.phase() >= to,
            Move::Cancel => self.point_of_no_return() == PointOfNoReturn::Passed,
            Move::Revert => {
                self.phase() == Phase::Strategize
                    && matches!(self.state(), State::Queued | State::Processing)
            }
            // Whoever asked first was answered, and the plan went on from there.
            Move::Resume | Move::Retry => matches!(
                self.state(),
                State::Queued | State::Processing | State::Complete
            ),
            // Each correction says something new, so it is never one that was made before.
            Move::Correct(_) => return false,
            _ => false,
        };
        repeated || self.is_terminal()
    }
}

/// One line of the table: `asked` at any of these phases and states leads to `target`, under a
/// condition.
struct Row {
    asked: MoveKind,
    phases: &'static [Phase],
    states: &'static [State],
    condition: Condition,
    target: Target,
}

enum Condition {
    Always,
    NotWaiting,
    Waiting,
    PointAhead,
    PointPassed,
    /// The point of no return is ahead and reversions are left.
    Revertible,
}

#[derive(PartialEq, Eq)]
enum Target {
    /// Another state of the same phase.
    State(State),
    /// The beginning of a phase.
    Phase(Phase),
    /// The beginning of `strategize`, counted.
    Reversion,
    /// The same place with the point of no return passed.
    Decided,
    /// Another state of the same phase, with the point of no return ahead again.
    Undecided(State),
}

const EVERY_PHASE: &[Phase] = &[Phase::Strategize, Phase::Execute, Phase::Apply];
const AFTER_STRATEGIZE: &[Phase] = &[Phase::Execute, Phase::Apply];
const NOT_TERMINAL: &[State] = &[
    State::Queued,
    State::Processing,
    State::Complete,
    State::Errored,
    State::Constrained,
];

/// Where a plan may be reverted or corrected: work that was taken back can be done anew.
const REWORKABLE: &[State] = &[
    State::Queued,
    State::Processing,
    State::Complete,
    State::Errored,
    State::Constrained,
    State::Unapplied,
];

const fn row(
    asked: MoveKind,
    phases: &'static [Phase],
    states: &'static [State],
    condition: Condition,
    target: Target,
) -> Row {
    Row {
        asked,
        phases,
        states,
        condition,
        target,
    }
}

// One line a row, because it is read as a table.
#[rustfmt::skip]
const TABLE: &[Row] = &[
    row(MoveKind::Start, EVERY_PHASE, &[State::Queued], Condition::NotWaiting, Target::State(State::Processing)),
    row(MoveKind::Complete, &[Phase::Strategize, Phase::Execute], &[State::Processing], Condition::Always, Target::State(State::Complete)),
    row(MoveKind::Fail, EVERY_PHASE, &[State::Processing], Condition::Always, Target::State(State::Errored)),
    row(MoveKind::Constrain, AFTER_STRATEGIZE, &[State::Processing], Condition::PointAhead, Target::State(State::Constrained)),
    row(MoveKind::Decide, &[Phase::Apply], &[State::Processing], Condition::PointAhead, Target::Decided),
    row(MoveKind::Apply, &[Phase::Apply], &[State::Processing], Condition::PointPassed, Target::State(State::Applied)),
    row(MoveKind::Abort, &[Phase::Apply], &[State::Queued, State::Errored], Condition::PointPassed, Target::Undecided(State::Constrained)),
    row(MoveKind::Unapply, &[Phase::Apply], &[State::Applied], Condition::PointPassed, Target::Undecided(State::Unapplied)),
    row(MoveKind::Wait, EVERY_PHASE, &[State::Queued, State::Processing], Condition::NotWaiting, Target::State(State::Queued)),
    row(MoveKind::Resume, EVERY_PHASE, &[State::Queued], Condition::Waiting, Target::State(State::Queued)),
    row(MoveKind::Advance, &[Phase::Strategize], &[State::Complete], Condition::Always, Target::Phase(Phase::Execute)),
    row(MoveKind::Advance, &[Phase::Execute], &[State::Complete], Condition::Always, Target::Phase(Phase::Apply)),
    row(MoveKind::Retry, EVERY_PHASE, &[State::Errored, State::Constrained, State::Unapplied], Condition::Always, Target::State(State::Queued)),
    row(MoveKind::Revert, &[Phase::Strategize], &[State::Errored], Condition::Always, Target::Phase(Phase::Strategize)),
    row(MoveKind::Revert, AFTER_STRATEGIZE, REWORKABLE, Condition::Revertible, Target::Reversion),
    row(MoveKind::Correct, AFTER_STRATEGIZE, REWORKABLE, Condition::PointAhead, Target::Phase(Phase::Execute)),
    row(MoveKind::Correct, &[Phase::Strategize], NOT_TERMINAL, Condition::Always, Target::Phase(Phase::Strategize)),
    row(MoveKind::Correct, AFTER_STRATEGIZE, REWORKABLE, Condition::Revertible, Target::Reversion),
    row(MoveKind::Cancel, EVERY_PHASE, NOT_TERMINAL, Condition::PointAhead, Target::State(State::Cancelled)),
];

impl Row {
    fn covers(&self, asked: MoveKind, at: &Position) -> bool {
        self.asked == asked
            && self.phases.contains(&at.phase())
            && self.states.contains(&at.state())
    }

    fn obstacle(&self, asked: Move, at: &Position) -> Option<Obstacle> {
        match (asked, &self.target) {
            (Move::Advance(to), Target::Phase(next)) if to != *next => {
                Some(Obstacle::NextPhaseIs(*next))
            }
            (Move::Correct(to), target) if target.phase() != Some(to) => {
                target.phase().map(Obstacle::GoesBackTo)
            }
            _ => self.condition.obstacle(at),
        }
    }
}

impl Condition {
    fn obstacle(&self, at: &Position) -> Option<Obstacle> {
        let passed = at.point_of_no_return() == PointOfNoReturn::Passed;
        match self {
            Self::Always => None,
            Self::NotWaiting => at.waiting().map(|waiting| Obstacle::Waits(waiting.kind())),
            Self::Waiting => at.waiting().is_none().then_some(Obstacle::WaitsForNothing),
            Self::PointAhead => passed.then_some(Obstacle::PointOfNoReturnPassed),
            Self::PointPassed => (!passed).then_some(Obstacle::PointOfNoReturnAhead),
            Self::Revertible if passed => Some(Obstacle::PointOfNoReturnPassed),
            Self::Revertible => {
                (at.reversions() >= MAX_REVERSIONS).then_some(Obstacle::ReversionsSpent)
            }
        }
    }
}

impl Target {
    /// The phase that is begun, if one is.
    const fn phase(&self) -> Option<Phase> {
        match self {
            Self::Phase(phase) => Some(*phase),
            Self::Reversion => Some(Phase::Strategize),
            Self::State(_) | Self::Decided | Self::Undecided(_) => None,
        }
    }

    fn reached_from(&self, from: &Position, asked: Move) -> Position {
        let waiting = match asked {
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
                state: State::Queued,
                ..here
            },
            Self::Reversion => PositionParts {
                phase: Phase::Strategize,
                state: State::Queued,
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
