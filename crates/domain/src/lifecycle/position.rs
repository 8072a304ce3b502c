//! The position of a plan. A [`Position`] is created only by legal moves or by checking its parts,
//! so its holder need not check it again.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{MAX_REVERSIONS, Phase, PlanState, PointOfNoReturn, WaitReason};

/// Phase, state and their details, always in a legal combination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "PositionParts", into = "PositionParts")]
pub struct Position {
    parts: PositionParts,
}

/// The parts of a position as stored, not yet checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PositionParts {
    pub phase: Phase,
    pub state: PlanState,
    pub waiting: Option<WaitReason>,
    /// Number of returns to `strategize` from a later phase.
    pub reversions: u32,
    pub point_of_no_return: PointOfNoReturn,
}

/// A combination of parts that no sequence of legal moves can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImpossiblePosition {
    #[error("a plan cannot be {state} in {phase}")]
    State { phase: Phase, state: PlanState },
    #[error("only a queued plan waits, this one is {state}")]
    Waiting { state: PlanState },
    #[error("a plan is reverted at most {MAX_REVERSIONS} times, not {reversions}")]
    Reversions { reversions: u32 },
    #[error("the point of no return cannot be {point} at {phase}/{state}")]
    PointOfNoReturn {
        point: PointOfNoReturn,
        phase: Phase,
        state: PlanState,
    },
}

impl Position {
    /// The initial position of every plan: `strategize/queued`.
    pub const fn new() -> Self {
        Self {
            parts: PositionParts {
                phase: Phase::Strategize,
                state: PlanState::Queued,
                waiting: None,
                reversions: 0,
                point_of_no_return: PointOfNoReturn::Ahead,
            },
        }
    }

    pub const fn phase(&self) -> Phase {
        self.parts.phase
    }

    pub const fn state(&self) -> PlanState {
        self.parts.state
    }

    pub const fn waiting(&self) -> Option<WaitReason> {
        self.parts.waiting
    }

    pub const fn reversions(&self) -> u32 {
        self.parts.reversions
    }

    pub const fn point_of_no_return(&self) -> PointOfNoReturn {
        self.parts.point_of_no_return
    }

    pub const fn parts(&self) -> PositionParts {
        self.parts
    }

    pub const fn is_terminal(&self) -> bool {
        self.parts.state.is_terminal()
    }

    /// Returns whether the work of `phase` is done, so a command that requests it need not repeat
    /// it.
    pub fn has_passed(&self, phase: Phase) -> bool {
        let done = matches!(self.state(), PlanState::Complete | PlanState::Applied);
        self.phase() > phase || (self.phase() == phase && done)
    }

    /// Only for the table, whose moves keep the parts legal.
    pub(super) const fn from_legal_parts(parts: PositionParts) -> Self {
        Self { parts }
    }
}

impl Default for Position {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.phase(), self.state())
    }
}

impl From<Position> for PositionParts {
    fn from(position: Position) -> Self {
        position.parts
    }
}

impl TryFrom<PositionParts> for Position {
    type Error = ImpossiblePosition;

    fn try_from(parts: PositionParts) -> Result<Self, ImpossiblePosition> {
        let PositionParts {
            phase,
            state,
            reversions,
            point_of_no_return: point,
            ..
        } = parts;
        if !state.is_legal_in(phase) {
            return Err(ImpossiblePosition::State { phase, state });
        }
        if parts.waiting.is_some() && state != PlanState::Queued {
            return Err(ImpossiblePosition::Waiting { state });
        }
        if reversions > MAX_REVERSIONS {
            return Err(ImpossiblePosition::Reversions { reversions });
        }
        if !point_is_possible(point, phase, state) {
            return Err(ImpossiblePosition::PointOfNoReturn {
                point,
                phase,
                state,
            });
        }
        Ok(Self { parts })
    }
}

fn point_is_possible(point: PointOfNoReturn, phase: Phase, state: PlanState) -> bool {
    match point {
        PointOfNoReturn::Ahead => state != PlanState::Applied,
        PointOfNoReturn::Passed => {
            phase == Phase::Apply
                && !matches!(
                    state,
                    PlanState::Cancelled | PlanState::Constrained | PlanState::Unapplied
                )
        }
    }
}
